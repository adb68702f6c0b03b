/* Dates and times as texts, in the Gregorian calendar of the years 0001 to 9999, and their parts.
 * Without a format the forms of ISO 8601 are read:
 *     date    YYYY-MM-DD  YYYYMMDD  YYYY-DDD  YYYYDDD  YYYY-Www-D  YYYYWwwD  YYYY-MM  YYYY-Www
 *     time    HH:MM  HH:MM:SS  HHMM  HHMMSS, with a fraction of its last part; 24:00 ends a day
 *     zone    Z  +HH  +HHMM  +HH:MM, likewise with -
 * The text is a date, a time (of 1970-01-01), or both separated by T or a blank; a zone may follow.
 * A format has the directives of strptime, with %f for a fraction of a second and %z for a zone;
 * names are English. A text without a zone is read as in UTC. */
#include "data/columns/columns.h"
#include "core/text/ending.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DAY 86400.0

/* ---- the calendar ---------------------------------------------------------------------------- */

static bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/* Days from 0001-01-01 to January 1 of a year from 1 to 10000. */
static int64_t days_before(int64_t year)
{
    const int64_t y = year - 1;
    return 365 * y + y / 4 - y / 100 + y / 400;
}

/* Days of the year before month 1 ... 13. */
static int days_before_month(int64_t year, int64_t month)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
    return before[month - 1] + (month > 2 && is_leap(year));
}

dt__moment dt__moment_of(double seconds)
{
    const double days = floor(seconds / DAY), over = days * DAY > seconds;
    dt__moment m = { .days = (int64_t)(days - over) + 719162, /* of 1970-01-01 */
                     .second = seconds - (days - over) * DAY };
    int64_t year = m.days * 400 / 146097 + 1;
    if (days_before(year) > m.days) year--;
    if (days_before(year + 1) <= m.days) year++;
    m.year = (int)year;
    m.day = (int)(m.days - days_before(year));
    m.length = 365 + is_leap(year);
    m.month = 1;
    while (m.day >= days_before_month(year, m.month + 1)) m.month++;
    return m;
}

/* ---- what a text says ------------------------------------------------------------------------ */

/* Parsed numbers of a time; -1: absent. */
typedef struct said {
    const char *at, *end;
    int64_t year, month, day, day_of_year, week, weekday; /* ISO week; weekday 1: Monday */
    int64_t hour, minute, second, half;                   /* half: 0 am, 1 pm */
    double fraction;                                      /* of a second */
    double zone, epoch;                                   /* in seconds; epoch NaN: absent */
    const char *wrong;
} said;

/* Parses a number of `fewest` to `most` digits. */
static bool take(said *s, int fewest, int most, int64_t *out)
{
    int n = 0;
    *out = 0;
    while (n < most && s->at < s->end && dt__is_digit(*s->at)) {
        *out = 10 * *out + (*s->at++ - '0');
        n++;
    }
    return n >= fewest;
}

static bool next_is(said *s, char c)
{
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

static int64_t digits_ahead(const said *s)
{
    const char *c = s->at;
    while (c < s->end && dt__is_digit(*c)) c++;
    return c - s->at;
}

/* Parses digits behind a point or comma, which is at s->at or before it. */
static bool take_fraction(said *s, double *out)
{
    double unit = 1, sum = 0;
    if (s->at == s->end || !dt__is_digit(*s->at)) return false;
    for (; s->at < s->end && dt__is_digit(*s->at); s->at++) {
        if (unit == 1e15) continue; /* more digits than a double distinguishes */
        sum = 10 * sum + (*s->at - '0');
        unit *= 10;
    }
    *out = sum / unit;
    return true;
}

static bool take_zone(said *s)
{
    int64_t hours, minutes = 0;
    if (next_is(s, 'Z') || next_is(s, 'z')) return true;
    const bool east = next_is(s, '+');
    if (!east && !next_is(s, '-')) return false;
    if (!take(s, 2, 2, &hours)) return false;
    if (next_is(s, ':') || digits_ahead(s) > 0) {
        if (!take(s, 2, 2, &minutes)) return false;
    }
    if (hours > 23 || minutes > 59) s->wrong = "has a zone that is not within a day";
    s->zone = (double)(hours * 3600 + minutes * 60) * (east ? 1 : -1);
    return true;
}

/* ---- ISO 8601 -------------------------------------------------------------------------------- */

static bool take_date(said *s)
{
    if (!take(s, 4, 4, &s->year)) return false;
    const bool dashed = next_is(s, '-');
    if (next_is(s, 'W')) {
        if (!take(s, 2, 2, &s->week)) return false;
        const bool more = dashed ? next_is(s, '-') : digits_ahead(s) > 0;
        s->weekday = 1;
        return !more || take(s, 1, 1, &s->weekday);
    }
    const int64_t rest = digits_ahead(s);
    if (rest == 3) return take(s, 3, 3, &s->day_of_year);
    if (!dashed && rest != 4) return false;
    if (!take(s, 2, 2, &s->month)) return false;
    return dashed && !next_is(s, '-') ? true : take(s, 2, 2, &s->day);
}

/* A fraction belongs to the last part. */
static bool take_time(said *s)
{
    double fraction = 0, unit = 3600;
    if (!take(s, 2, 2, &s->hour)) return false;
    const bool colons = next_is(s, ':');
    if (colons || digits_ahead(s) > 0) {
        if (!take(s, 2, 2, &s->minute)) return false;
        unit = 60;
        if (colons ? next_is(s, ':') : digits_ahead(s) > 0) {
            if (!take(s, 2, 2, &s->second)) return false;
            unit = 1;
        }
    }
    if ((next_is(s, '.') || next_is(s, ',')) && !take_fraction(s, &fraction)) return false;
    s->fraction = fraction * unit;
    return true;
}

static bool take_iso(said *s)
{
    const bool begins = s->at < s->end && *s->at == 'T';
    const bool only_time = begins || (s->end - s->at >= 3 && s->at[2] == ':');
    if (only_time) {
        next_is(s, 'T');
    } else {
        if (!take_date(s)) return false;
        if (s->at == s->end) return true;
        if (!next_is(s, 'T') && !next_is(s, 't') && !next_is(s, ' ')) return false;
    }
    if (!take_time(s)) return false;
    next_is(s, ' ');
    return s->at == s->end || take_zone(s);
}

/* ---- formats --------------------------------------------------------------------------------- */

static const char *const months[] = { "january",   "february", "march",    "april",
                                      "may",       "june",     "july",     "august",
                                      "september", "october",  "november", "december" };
static const char *const weekdays[] = { "monday", "tuesday",  "wednesday", "thursday",
                                        "friday", "saturday", "sunday" };

/* Parses a name of a list, or its first three letters, ignoring case: its number from 1; 0:
 * none. */
static int64_t take_name(said *s, const char *const *names, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        size_t k = 0;
        while (s->at + k < s->end && names[i][k] != 0 && (s->at[k] | 32) == names[i][k]) k++;
        if (names[i][k] != 0 && k < 3) continue;
        s->at += names[i][k] == 0 ? k : 3;
        return i + 1;
    }
    return 0;
}

static bool take_year_of_two(said *s)
{
    if (!take(s, 2, 2, &s->year)) return false;
    s->year += s->year < 69 ? 2000 : 1900; /* as POSIX */
    return true;
}

static bool take_half(said *s)
{
    if (s->end - s->at < 2 || (s->at[1] | 32) != 'm') return false;
    s->half = (s->at[0] | 32) == 'p';
    const bool good = s->half == 1 || (s->at[0] | 32) == 'a';
    s->at += 2;
    return good;
}

static bool take_epoch(said *s)
{
    int64_t seconds;
    const bool negative = next_is(s, '-');
    if (!take(s, 1, 12, &seconds)) return false;
    s->epoch = negative ? -(double)seconds : (double)seconds;
    return true;
}

static bool take_weekday(said *s) { return (s->weekday = take_name(s, weekdays, 7)) > 0; }
static bool take_month(said *s) { return (s->month = take_name(s, months, 12)) > 0; }
static bool take_part(said *s) { return take_fraction(s, &s->fraction); }

static bool take_zone_name(said *s)
{
    const bool utc =
        s->end - s->at >= 3 && (memcmp(s->at, "UTC", 3) == 0 || memcmp(s->at, "GMT", 3) == 0);
    if (!utc) return next_is(s, 'Z');
    s->at += 3;
    return true;
}

/* A directive of a format: a number of some digits, a function, or other directives. */
static const struct directive {
    char letter;
    int fewest, most;
    size_t number; /* offset of the number in `said` */
    bool (*take)(said *s);
    const char *means;
} directives[] = {
    { 'Y', 4, 4, offsetof(said, year), NULL, NULL },
    { 'm', 1, 2, offsetof(said, month), NULL, NULL },
    { 'd', 1, 2, offsetof(said, day), NULL, NULL },
    { 'e', 1, 2, offsetof(said, day), NULL, NULL },
    { 'H', 1, 2, offsetof(said, hour), NULL, NULL },
    { 'I', 1, 2, offsetof(said, hour), NULL, NULL },
    { 'M', 1, 2, offsetof(said, minute), NULL, NULL },
    { 'S', 1, 2, offsetof(said, second), NULL, NULL },
    { 'j', 1, 3, offsetof(said, day_of_year), NULL, NULL },
    { 'u', 1, 1, offsetof(said, weekday), NULL, NULL },
    { 'y', 0, 0, 0, take_year_of_two, NULL },
    { 'p', 0, 0, 0, take_half, NULL },
    { 's', 0, 0, 0, take_epoch, NULL },
    { 'f', 0, 0, 0, take_part, NULL },
    { 'z', 0, 0, 0, take_zone, NULL },
    { 'Z', 0, 0, 0, take_zone_name, NULL },
    { 'a', 0, 0, 0, take_weekday, NULL },
    { 'A', 0, 0, 0, take_weekday, NULL },
    { 'b', 0, 0, 0, take_month, NULL },
    { 'B', 0, 0, 0, take_month, NULL },
    { 'h', 0, 0, 0, take_month, NULL },
    { 'F', 0, 0, 0, NULL, "%Y-%m-%d" },
    { 'D', 0, 0, 0, NULL, "%m/%d/%y" },
    { 'T', 0, 0, 0, NULL, "%H:%M:%S" },
    { 'R', 0, 0, 0, NULL, "%H:%M" },
    { '%', 0, 0, 0, NULL, "" },
    { 'n', 0, 0, 0, NULL, " " },
    { 't', 0, 0, 0, NULL, " " },
};

static const struct directive *directive_of(char letter)
{
    for (int i = 0; i < DT__COUNT_OF(directives); i++) {
        if (directives[i].letter == letter) return &directives[i];
    }
    return NULL;
}

const char *dt__time_format_fault(const char *format)
{
    for (const char *at = strchr(format, '%'); at != NULL; at = strchr(at + 2, '%')) {
        if (directive_of(at[1]) == NULL) return at;
    }
    return NULL;
}

static bool take_format(said *s, const char *format);

static bool take_directive(said *s, char letter)
{
    const struct directive *d = directive_of(letter);
    if (d == NULL) return false;
    if (letter == '%') return next_is(s, '%');
    if (d->means != NULL) return take_format(s, d->means);
    if (d->take != NULL) return d->take(s);
    if (letter == 'I' && s->half < 0) s->half = 2; /* %p may follow */
    return take(s, d->fewest, d->most, (int64_t *)(void *)((char *)s + d->number));
}

static bool take_format(said *s, const char *format)
{
    for (; *format != 0; format++) {
        if (*format == ' ') {
            while (next_is(s, ' ') || next_is(s, '\t')) {
            }
        } else if (*format == '%') {
            if (!take_directive(s, *++format)) return false;
        } else if (!next_is(s, *format)) {
            return false;
        }
    }
    return true;
}

/* ---- seconds --------------------------------------------------------------------------------- */

/* Days since 0001-01-01 of a weekday of an ISO week; week 1 contains the first Thursday. */
static int64_t day_of_week(const said *s)
{
    const int64_t fourth = days_before(s->year) + 3; /* January 4 is always in week 1 */
    return fourth - fourth % 7 + 7 * (s->week - 1) + s->weekday - 1;
}

static int64_t weeks_of(int64_t year)
{
    const said first = { .year = year, .week = 1, .weekday = 1 };
    const said next = { .year = year + 1, .week = 1, .weekday = 1 };
    return (day_of_week(&next) - day_of_week(&first)) / 7;
}

static bool is_within(int64_t v, int64_t least, int64_t most) { return v >= least && v <= most; }

static const char *day_of(const said *s, int64_t *out)
{
    if (!is_within(s->year, 1, 9999)) return "has a year that is not from 0001 to 9999";
    if (s->week >= 0) {
        if (!is_within(s->week, 1, weeks_of(s->year))) return "has a week that its year lacks";
        if (!is_within(s->weekday, 1, 7)) return "has a day of the week that is not from 1 to 7";
        *out = day_of_week(s);
        return NULL;
    }
    if (s->day_of_year >= 0) {
        if (!is_within(s->day_of_year, 1, 365 + is_leap(s->year))) {
            return "has a day that its year lacks";
        }
        *out = days_before(s->year) + s->day_of_year - 1;
        return NULL;
    }
    if (!is_within(s->month, 1, 12)) return "has a month that is not from 1 to 12";
    const int first = days_before_month(s->year, s->month);
    const int64_t days = days_before_month(s->year, s->month + 1) - first;
    if (!is_within(s->day, 1, days)) return "has a day that its month lacks";
    *out = days_before(s->year) + first + s->day - 1;
    return NULL;
}

static const char *seconds_of(said *s, double *out)
{
    int64_t day = 0;
    if (s->wrong != NULL) return s->wrong;
    if (s->half == 2) return "has an hour of 12 (%I) without am or pm (%p)";
    if (s->half >= 0 && !is_within(s->hour, 1, 12)) return "has an hour that is not from 1 to 12";
    if (s->half >= 0) s->hour = s->hour % 12 + 12 * s->half;
    const char *wrong = day_of(s, &day);
    if (wrong != NULL) return wrong;
    const bool ends = s->hour == 24 && s->minute == 0 && s->second == 0 && s->fraction == 0;
    if (s->hour > 23 && !ends) return "has an hour that is not from 0 to 23";
    if (s->minute > 59) return "has a minute that is not from 0 to 59";
    if (s->second > 59) return "has a second that is not from 0 to 59";
    if (s->weekday >= 0 && s->weekday != day % 7 + 1) return "has a weekday that its date is not";
    const int64_t whole = (day - 719162) * 86400 + s->hour * 3600 + s->minute * 60 + s->second;
    *out = isnan(s->epoch) ? (double)whole - s->zone + s->fraction : s->epoch + s->fraction;
    return *out >= DT__TIME_LEAST && *out < DT__TIME_END
               ? NULL
               : "is beyond the years 0001 to 9999, in UTC";
}

dt_status dt__time_parse(dt_ctx *ctx, const char *format, const char *text, size_t n, double *out)
{
    said s = { .at = text,
               .end = text + n,
               .year = 1970,
               .month = 1,
               .day = 1,
               .day_of_year = -1,
               .week = -1,
               .weekday = -1,
               .half = -1,
               .epoch = (double)NAN };
    char cut[DT__SHOWN / 2], shown[DT__SHOWN], like[DT__SHOWN];
    snprintf(cut, sizeof cut, "%.*s", (int)dt__min_i64((int64_t)n, DT__SHOWN), text);
    const bool good = format == NULL ? take_iso(&s) : take_format(&s, format);
    if (!good || s.at != s.end) {
        return dt_fail(ctx, DT_ERR_FORMAT, "'%s' is not a time; expected %s", dt__shown(cut, shown),
                       format == NULL
                           ? "one of ISO 8601, as 2024-05-31 or 2024-05-31T13:45:00+02:00"
                           : dt__shown(format, like));
    }
    const char *wrong = seconds_of(&s, out);
    if (wrong == NULL) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT, "'%s' %s", dt__shown(cut, shown), wrong);
}
