/* Finds the form of a table, from options or from its first rows.
 *
 *     Encoding: UTF-8, or UTF-16 by its byte order mark, or as given; text is converted to UTF-8.
 *     Separator: one of ; tab | , with which the first rows have equally many fields, at least two;
 *         else the one with which the first row has most.
 *     Decimal sign: a comma if a field contains one that cannot separate thousands, as 1,5 or
 *         1.234,5. If all commas may be either, an option is required. */
#include "core/text/byte_mark.h"
#include "core/text/ending.h"
#include "core/text/json.h"
#include "core/text/utf8.h"
#include "data/tables/csv_reader.h"

#include <stdio.h>
#include <string.h>

#define ROWS_OF_SEPARATOR 20
#define ROWS_OF_DECIMAL 1000

/* ---- encodings ------------------------------------------------------------------------------ */

static char *put_code(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    static const uint32_t leads[] = { 0, 0xC0, 0xE0, 0xF0 };
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)(leads[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--) *to++ = (char)(0x80 | (code >> (6 * i) & 0x3F));
    return to;
}

/* The codes of bytes 0x80 to 0x9F as Windows writes latin-1 (code page 1252), as the WHATWG's
 * encoding standard reads it. ISO 8859-1 has only control characters there. */
static const uint16_t windows[32] = {
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178,
};

/* Decodes the character at `from`; returns its number of bytes, 0: invalid. `bytes` are left. */
static size_t take_code(int encoding, const uint8_t *from, size_t bytes, uint32_t *code)
{
    const int low = encoding == DT_CSV_UTF16LE ? 0 : 1;
    *code = from[0] >= 0x80 && from[0] < 0xA0 ? windows[from[0] - 0x80] : from[0];
    if (encoding == DT_CSV_LATIN1) return 1;
    if (bytes < 2) return 0;
    *code = (uint32_t)(from[low] | from[1 - low] << 8);
    if (*code < 0xD800 || *code > 0xDFFF) return 2;
    if (*code > 0xDBFF || bytes < 4) return 0;
    const uint32_t second = (uint32_t)(from[2 + low] | from[3 - low] << 8);
    *code = 0x10000 + ((*code - 0xD800) << 10) + (second - 0xDC00);
    return second >= 0xDC00 && second <= 0xDFFF ? 4 : 0;
}

static size_t count_beyond_ascii(const uint8_t *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += text[i] >= 0x80;
    return n;
}

/* Converts the text to UTF-8: at most 3 bytes per byte of latin-1, or per unit of UTF-16. */
static dt_status recode(dt__csv_reader *r, int encoding)
{
    while (r->more) DT__TRY(dt__csv_window_widen(r));
    const size_t bytes = r->filled;
    const size_t mark =
        encoding != DT_CSV_LATIN1 && dt__foreign_mark(r->text, bytes) != NULL ? 2 : 0;
    const size_t more = encoding == DT_CSV_LATIN1 ? 2 * count_beyond_ascii(r->text, bytes) : bytes;
    uint8_t *all = dt__alloc(r->ctx, (uint64_t)bytes + more + 1);
    if (all == NULL) return DT_ERR_NOMEM;
    char *to = (char *)all;
    for (size_t i = mark, n; i < bytes; i += n) {
        uint32_t code;
        n = take_code(encoding, r->text + i, bytes - i, &code);
        if (n > 0) {
            to = put_code(to, code);
            continue;
        }
        dt__release(r->ctx, all);
        return dt_fail(r->ctx, DT_ERR_FORMAT, "'%s': byte %zu: a text in UTF-16 is damaged here",
                       r->path, i);
    }
    dt__release(r->ctx, r->text);
    r->text = all;
    r->filled = (size_t)(to - (char *)all);
    return DT_OK;
}

/* Refuses text that is valid non-ASCII UTF-8 if latin-1 is given: accented letters would become two
 * characters each, and names would differ from those of other files. */
static dt_status encoding_of(dt__csv_reader *r, int *encoding)
{
    const int given = r->c[0]->options->encoding;
    const char *mark = dt__foreign_mark(r->text, r->filled);
    *encoding = given;
    if (given == DT_CSV_ENCODING_AUTO && mark != NULL && strcmp(mark, "UTF-16") == 0) {
        *encoding = r->text[0] == 0xFF ? DT_CSV_UTF16LE : DT_CSV_UTF16BE;
    }
    if (given != DT_CSV_LATIN1) return DT_OK;
    while (r->more) DT__TRY(dt__csv_window_widen(r));
    if (count_beyond_ascii(r->text, r->filled) == 0 ||
        !dt__is_utf8_of((const char *)r->text, r->filled)) {
        return DT_OK;
    }
    *encoding = DT_CSV_UTF8;
    dt__say(r->ctx, "'%s': a text in UTF-8, and read so (data.columns.encoding is latin-1)",
            r->path);
    return DT_OK;
}

static dt_status decode(dt__csv_reader *r)
{
    int encoding;
    size_t mark = 0;
    DT__TRY(encoding_of(r, &encoding));
    if (encoding >= DT_CSV_LATIN1) DT__TRY(recode(r, encoding));
    else DT__TRY(dt__skip_mark(r->ctx, r->path, r->text, r->filled, &mark));
    if (encoding >= DT_CSV_UTF16LE && r->c[0]->options->encoding == DT_CSV_ENCODING_AUTO) {
        dt__say(r->ctx, "'%s': a text in UTF-16", r->path);
    }
    r->at = r->end = (char *)r->text + mark;
    r->is_utf8 = true;
    return dt__csv_window_check(r, 0);
}

/* ---- separators ----------------------------------------------------------------------------- */

int64_t dt__csv_count_fields(const dt__csv_reader *r, char separator, const char **at)
{
    int64_t n = 1;
    bool begins = true, has_quotes = false, quoted = false;
    const char *c = *at;
    for (; c < r->end && (quoted || *c != '\n'); c++) {
        if (*c == '"' && (begins || has_quotes)) has_quotes = true, quoted = !quoted;
        const bool ends = !quoted && *c == separator;
        n += ends;
        if (ends) has_quotes = false;
        begins = ends || (begins && (*c == ' ' || *c == '\t'));
    }
    *at = c;
    return n;
}

bool dt__csv_has_row(dt__csv_reader *r)
{
    while (r->at < r->end || (r->more && dt__csv_next_window(r))) {
        if (r->comment != 0 && *r->at == r->comment) {
            while (r->at < r->end && *r->at != '\n') r->at++;
            if (r->at == r->end) return false; /* this is the last line */
        }
        if (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n') r->at++;
        else if (*r->at != '\n') return true;
        r->at++;
        r->line++;
    }
    return false;
}

/* Number of fields in the first row; *even: the next rows have equally many. */
static int64_t look_at(const dt__csv_reader *r, char separator, bool *even)
{
    dt__csv_reader copy = *r;
    int64_t first = 0;
    copy.more = false;
    *even = true;
    for (int i = 0; i < ROWS_OF_SEPARATOR && dt__csv_has_row(&copy); i++) {
        const char *at = copy.at;
        const int64_t n = dt__csv_count_fields(r, separator, &at);
        if (i == 0) first = n;
        *even = *even && n == first;
        copy.at += at - copy.at;
    }
    *even = *even && first > 1;
    return first;
}

static char find_separator(const dt__csv_reader *r)
{
    static const char all[] = { ',', ';', '\t', '|' };
    const dt__csv *c = r->c[0];
    const bool comma = c->decimal == ',' || c->options->decimal == DT_CSV_DECIMAL_COMMA;
    int64_t most = 1;
    char found = comma ? ';' : ',', even_one = 0; /* for a single column: unused character */
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        bool even;
        const int64_t n = look_at(r, all[i], &even);
        if (even && (even_one == 0 || even_one == ',')) even_one = all[i];
        if (n > most) {
            most = n;
            found = all[i];
        }
    }
    return even_one != 0 ? even_one : found;
}

/* ---- decimal signs -------------------------------------------------------------------------- */

/* Counts of the signs in numeric fields. */
typedef struct signs {
    int64_t comma, point;               /* decimal signs, */
    int64_t either_comma, either_point; /* fields such as 1,234, where the sign may be either */
    bool thousands_point, thousands_comma;
    /* the option says that there are no thousands separators: 1,234 has a decimal comma */
    bool has_none;
    char example[4][16]; /* the first field of each count */
} signs;

static void count(signs *s, int which, const dt__csv_field *f)
{
    int64_t *const counts[] = { &s->comma, &s->point, &s->either_comma, &s->either_point };
    if ((*counts[which])++ > 0) return;
    snprintf(s->example[which], sizeof s->example[which], "%.*s",
             (int)dt__min_i64(15, (int64_t)f->n), f->text);
}

static void look_at_field(const dt__csv_field *f, signs *s)
{
    const char *end = f->text + f->n, *last = NULL, *c = f->text;
    int64_t commas = 0, points = 0, digits = 0, before = 0;
    if (c < end && (*c == '-' || *c == '+')) c++;
    const char *const first = c;
    for (; c < end; c++) {
        if (*c == ',' || *c == '.') {
            before = digits;
            commas += *c == ',';
            points += *c == '.';
            last = c;
        } else if (dt__is_digit(*c)) {
            digits++;
        } else {
            return;
        }
    }
    if (last == NULL || digits == 0) return;
    if (commas + points == 1) {
        const bool either =
            digits - before == 3 && before >= 1 && before <= 3 && *first != '0' && !s->has_none;
        count(s, (points == 1) + 2 * either, f);
    } else if (commas == 1 && *last == ',') {
        count(s, 0, f);
        s->thousands_point = true;
    } else if (points == 1 && *last == '.') {
        count(s, 1, f);
        s->thousands_comma = true;
    }
}

/* The field at *at of a row that ends at `end`, without quotes; *at moves behind its separator. */
static dt__csv_field peek_field(const dt__csv_reader *r, const char **at, const char *end)
{
    const char *c = *at, *past;
    while (c < end && dt__csv_is_blank(r, *c)) c++;
    const bool quoted = c < end && *c == '"';
    c += quoted;
    past = c;
    while (past < end && *past != (quoted ? '"' : r->separator)) past++;
    const char *next = past;
    while (next < end && *next != r->separator) next++;
    *at = next + 1;
    while (past > c && (dt__csv_is_blank(r, past[-1]) || past[-1] == '\r')) past--;
    return (dt__csv_field){ (char *)(uintptr_t)c, (size_t)(past - c) };
}

static signs look_at_signs(const dt__csv_reader *r)
{
    dt__csv_reader copy = *r;
    signs s = { .has_none = r->c[0]->options->thousands == DT_CSV_THOUSANDS_NONE };
    copy.more = false;
    for (int row = 0; row < ROWS_OF_DECIMAL && dt__csv_has_row(&copy); row++) {
        const char *at = copy.at, *end = at;
        dt__csv_count_fields(r, r->separator, &end);
        copy.at += end - at;
        while (at <= end) {
            const dt__csv_field f = peek_field(r, &at, end);
            look_at_field(&f, &s);
        }
    }
    return s;
}

static dt_status refuse_sign(const dt__csv_reader *r, const char *example, char shown)
{
    static const char *const words[] = { "point", "comma" };
    const char *sign = words[shown == ','], *other = words[shown != ','];
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "'%s': '%s' has a decimal %s, but numbers of '%s' have a decimal %s, and all "
                   "files are read in one form (data.columns.decimal)",
                   r->path, example, sign, r->c[0]->shown, other);
}

/* Finds the decimal sign, which must be that of the earlier files. If all numbers are like 1.234,
 * it is a point; if all are like 1,234, it is ambiguous. */
static dt_status find_decimal(dt__csv_reader *r, const signs *s)
{
    dt__csv *c = r->c[0];
    /* if commas separate fields, a quoted 3,7 may be a list beside numbers with points */
    const bool has_points = c->decimal == '.' || (c->decimal == 0 && s->either_point > 0);
    const bool commas = s->comma > 0 && !(r->separator == ',' && has_points);
    const bool points = s->point > 0;
    const char shown = commas == points ? 0 : commas ? ',' : '.';
    if (shown != 0 && c->decimal != 0 && shown != c->decimal) {
        return refuse_sign(r, s->example[points], shown);
    }
    if (c->decimal == 0 && !commas && !points && s->either_comma > 0 && r->separator != ',') {
        return dt_fail(r->ctx, DT_ERR_FORMAT,
                       "'%s': '%s' and others may have a decimal comma or thousands; "
                       "data.columns.decimal says which",
                       r->path, s->example[2]);
    }
    if (c->decimal == 0 && (shown != 0 || points || s->either_point > 0)) {
        c->decimal = shown == ',' ? ',' : '.';
        c->shown = dt__copy_string(r->ctx, r->path);
        if (c->shown == NULL) return DT_ERR_NOMEM;
    }
    if (c->decimal != 0) r->decimal = c->decimal;
    return DT_OK;
}

static const char decimals[] = { '.', '.', ',' }, thousands[] = { 0, 0, ',', '.', '\'', ' ' };

/* The decimal sign by the options, which may also give the thousands separator; AUTO: not given. */
static int decimal_of(const dt_csv_options *o)
{
    if (o->decimal != DT_CSV_DECIMAL_AUTO) return o->decimal;
    if (o->thousands == DT_CSV_THOUSANDS_COMMA) return DT_CSV_POINT;
    return o->thousands == DT_CSV_THOUSANDS_POINT ? DT_CSV_DECIMAL_COMMA : DT_CSV_DECIMAL_AUTO;
}

static dt_status find_signs(dt__csv_reader *r)
{
    const dt_csv_options *o = r->c[0]->options;
    char *const own = &r->c[0]->thousands;
    const int decimal = decimal_of(o);
    const bool finds = o->thousands == DT_CSV_THOUSANDS_AUTO;
    r->decimal = decimals[decimal];
    r->thousands = thousands[o->thousands];
    if (!finds && decimal != DT_CSV_DECIMAL_AUTO) return DT_OK;
    const signs s = look_at_signs(r);
    if (decimal == DT_CSV_DECIMAL_AUTO) DT__TRY(find_decimal(r, &s));
    if (finds && r->decimal == ',' && s.thousands_point) *own = '.';
    if (finds && r->decimal == '.' && s.thousands_comma) *own = ',';
    if (finds) r->thousands = *own;
    return DT_OK;
}

void dt__csv_in_form(const dt__csv *c, dt__csv_reader *r)
{
    *r = (dt__csv_reader){ .ctx = c->ctx };
    r->decimal = c->decimal != 0 ? c->decimal : decimals[decimal_of(c->options)];
    r->thousands = c->thousands != 0 ? c->thousands : thousands[c->options->thousands];
    r->is_plain = r->decimal == '.' && r->thousands == 0;
}

static int place_of(const char *signs_of, int n, char sign)
{
    int k = n - 1;
    while (k > 0 && (sign == 0 || signs_of[k] != sign)) k--;
    return k;
}

dt_csv_form dt__csv_form(const dt__csv *c)
{
    const dt_csv_options *o = c->options;
    dt_csv_form form = { decimal_of(o), o->thousands, o->encoding, o->comment };
    if (form.decimal == DT_CSV_DECIMAL_AUTO) {
        form.decimal = place_of(decimals, DT__COUNT_OF(decimals), c->decimal);
    }
    if (form.thousands == DT_CSV_THOUSANDS_AUTO) {
        form.thousands = place_of(thousands, DT__COUNT_OF(thousands), c->thousands);
    }
    return form;
}

/* Whether this is one character that cannot begin a field. */
static bool is_comment(const char *sign)
{
    const char c = sign[0];
    return c > ' ' && c < 127 && sign[1] == 0 && strchr("\"'.,;|+-?", c) == NULL &&
           !dt__is_digit(c) && (c < 'A' || (c > 'Z' && c < 'a' && c != '_') || c > 'z');
}

static dt_status find_form(dt__csv_reader *r)
{
    static const char separators[] = { 0, ',', ';', '\t', '|' };
    const dt_csv_options *o = r->c[0]->options;
    if (o->comment != NULL && *o->comment != 0 && !is_comment(o->comment)) {
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns.comment: '%s' cannot begin comments; expected one sign, such "
                       "as #",
                       o->comment);
    }
    r->comment = o->comment == NULL ? 0 : o->comment[0];
    r->separator = separators[o->separator];
    if (r->separator == 0) r->separator = find_separator(r);
    DT__TRY(find_signs(r));
    r->is_plain = r->decimal == '.' && r->thousands == 0;
    if (r->decimal == r->thousands) {
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns.thousands: '%c' is the decimal sign; expected another",
                       r->thousands);
    }
    const bool known =
        (o->separator != 0 || r->separator == ',') && (o->decimal != 0 || r->decimal == '.');
    if (known || r->filled == 0) return DT_OK;
    char thousand[48] = "";
    if (r->thousands != 0) snprintf(thousand, sizeof thousand, ", '%c' thousands", r->thousands);
    dt__say(r->ctx,
            "'%s': '%s' separates fields, '%c' decimals%s (data.columns.separator, decimal)",
            r->path, r->separator == '\t' ? "tab" : (const char[]){ r->separator, 0 }, r->decimal,
            thousand);
    return DT_OK;
}

/* ---- numbers -------------------------------------------------------------------------------- */

bool dt__csv_plain_number(const dt__csv_reader *r, const dt__csv_field *f, char to[DT__CSV_NUMBER],
                          size_t *n)
{
    int64_t digits = 0, groups = 0;
    bool whole = true; /* before the decimal sign */
    *n = 0;
    if (f->n >= DT__CSV_NUMBER) return false;
    for (size_t i = 0; i < f->n; i++) {
        const char c = f->text[i];
        if (c == r->thousands && r->thousands != 0 && whole && digits > 0) {
            if (groups > 0 ? digits != 3 : digits > 3) return false;
            groups++;
            digits = 0;
            continue;
        }
        if (whole && groups > 0 && !dt__is_digit(c) && digits != 3) return false;
        whole = whole && (dt__is_digit(c) || c == '-' || c == '+' || c == ' ');
        if (c == '.' && r->decimal != '.') return false;
        digits += dt__is_digit(c);
        to[(*n)++] = c == r->decimal ? '.' : c;
    }
    return !(whole && groups > 0 && digits != 3);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* The text from a database has a fixed form. */
static dt_status open_database(dt__csv_reader *r)
{
    const dt_csv_options *o = r->c[0]->options;
    r->input.descriptor = -1;
    r->is_utf8 = r->is_plain = true;
    r->separator = ',';
    if (!o->header || o->separator != 0 || o->decimal != 0 || o->thousands != 0 ||
        o->encoding != 0 || o->comment != NULL) {
        return dt_fail(r->ctx, DT_ERR_CONFIG,
                       "data.columns: header, separator, decimal, thousands, encoding and comment "
                       "belong to .csv files; '%s' is a data base",
                       r->path);
    }
    DT__TRY(dt__database_open(r->ctx, r->path, &r->database));
    DT__TRY(dt__csv_window_widen(r));
    r->at = (char *)r->text;
    return dt__csv_window_end(r);
}

/* Joined files have forms of their own, but the same decimal sign. */
static dt_status open_join(dt__csv_reader *r)
{
    r->input.descriptor = -1;
    r->is_utf8 = true;
    r->separator = ',';
    DT__TRY(dt__table_join_open(r->c[0], r->path, &r->join));
    r->decimal = dt__table_join_decimal(r->join, &r->thousands);
    r->is_plain = r->decimal == '.' && r->thousands == 0;
    DT__TRY(dt__csv_window_widen(r));
    r->at = (char *)r->text;
    return dt__csv_window_end(r);
}

dt_status dt__csv_open(dt__csv_reader *r)
{
    r->decimal = '.';
    r->line = 1;
    if (dt__database_length(r->path) > 0) return open_database(r);
    if (dt__join_length(r->path) > 0) return open_join(r);
    DT__TRY(dt__input_open(r->ctx, r->path, &r->input));
    DT__TRY(dt__csv_window_widen(r));
    DT__TRY(decode(r));
    DT__TRY(dt__csv_window_end(r));
    DT__TRY(find_form(r));
    return dt__csv_window_end(r);
}

void dt__csv_close_reader(dt__csv_reader *r)
{
    dt__database_close(r->database);
    dt__table_join_close(r->join);
    dt__input_close(&r->input);
    for (int i = 0; i < r->n_faults; i++) dt__release(r->ctx, r->fault[i]);
    for (int64_t i = 0; i < r->n; i++) dt__release(r->ctx, r->name[i]);
    DT__RELEASE(r->ctx, r->name, r->place, r->text);
}
