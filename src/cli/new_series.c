/* detent new: tables with a row for each moment, whose examples are windows of rows. Such a table
 * has
 *     a target whose words come in long blocks, several blocks for each word
 *     a column of times, or of counting numbers, which decreases at most where a series begins
 *     perhaps columns that identify series, one block of rows for each value; the first is the
 *     group
 * A window has about 2.56 seconds, and no more rows than the blocks of the target. */
#include "cli/new_data.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USUAL 128
#define SECONDS 2.56
#define SLOWEST                                                                                    \
    0.16 /* largest seconds between rows for which a window of SECONDS has NEW_SHORTEST rows */
#define UNEVEN 0.05 /* deviation of steps, in medians, from which they count as uneven */
#define BY 4        /* columns that identify series, at most */

static const dt_column_look *find_target(const dt_table_look *look, const new_data *d)
{
    for (int64_t i = 0; i < look->n; i++) {
        if (strcmp(look->column[i].name, d->target) == 0) return &look->column[i];
    }
    return NULL;
}

/* Whether words or integers come in long blocks, more than one for each: a table that is sorted by
 * them has only one. With several files, one file may have a single word. */
static bool has_stretches(const dt_column_look *c, const dt_table_look *look, bool joined)
{
    const bool words = c->type == DT_COLUMN_CATEGORY || c->type == DT_COLUMN_BOOLEAN;
    const bool mixed = c->different >= 2 && c->blocks >= 2 * c->different;
    return (words || c->is_integer) && c->missing == 0 && c->different <= 100 &&
           (mixed || look->files > 1 || joined) && c->blocks <= look->rows / NEW_SHORTEST;
}

static bool is_named(const char *name)
{
    static const char *const parts[] = { "subject", "user",    "person", "participant",
                                         "patient", "session", "device", "trial",
                                         "run",     "series",  NULL };
    char small[64];
    size_t n = 0;
    for (; name[n] != 0 && n + 1 < sizeof small; n++) {
        small[n] = (char)tolower((unsigned char)name[n]);
    }
    small[n] = 0;
    int i = 0;
    while (parts[i] != NULL && strstr(small, parts[i]) == NULL) i++;
    return parts[i] != NULL;
}

/* Whether a column identifies series: by one block for each value, or by its name (the sessions of
 * each subject may have the same numbers). Files that are joined may all be of one subject. */
static bool tells_series(const dt_column_look *c, const dt_column_look *target, bool joined)
{
    const bool named = is_named(c->name), blocks = c->blocks == c->different && c->different >= 2;
    const bool may = c->type == DT_COLUMN_CATEGORY || (c->is_integer && named);
    return may && c != target && c->missing == 0 && *c->name != 0 &&
           (blocks || (named && (joined || c->different >= 2))) && c->blocks <= target->blocks;
}

/* Groups come first: the column with the fewest values that has one block for each. */
static bool comes_first(const dt_column_look *c, const dt_column_look *first)
{
    if (c->blocks != c->different) return false;
    return first->blocks != first->different || c->different < first->different;
}

static bool tells_time(const dt_column_look *c, int64_t rows, int64_t series)
{
    const bool may = c->type == DT_COLUMN_TIME || c->type == DT_COLUMN_NUMBER;
    const bool many = c->different == DT_LOOK_DIFFERENT || c->different * series > rows / 2;
    return may && c->missing == 0 && c->falls < series && c->step > 0 && many && *c->name != 0;
}

/* A sampling rate, rounded to two digits, where time steps are uneven or several files have their
 * own times; 0: rows are not resampled. */
static double rate_of(const dt_column_look *time, bool joined)
{
    char digits[32];
    if (time->spread < UNEVEN && !joined) return 0;
    snprintf(digits, sizeof digits, "%.1e", 1 / time->step);
    return strtod(digits, NULL);
}

static int64_t window_of(const dt_column_look *time, double step, double stretch)
{
    const bool seconds = time->type == DT_COLUMN_TIME || step < 1;
    int64_t n = USUAL;
    if (seconds && step <= SLOWEST) n = (int64_t)(SECONDS / step + 0.5);
    while (n > NEW_SHORTEST && (double)n > stretch) n /= 2;
    return n < NEW_SHORTEST ? NEW_SHORTEST : n;
}

typedef struct found {
    const dt_column_look *target, *time, *by[BY];
    int n;
    int64_t window;
    double stretch; /* mean rows of the target's blocks */
    double rate;    /* 0: rows are not resampled */
    int64_t files;
} found;

static void add_names(const found *f, new_data *d)
{
    size_t used = 0;
    cli_text_add(&d->series, "  series: {");
    for (int i = 0; i <= f->n; i++) {
        const char *name = i < f->n ? f->by[i]->name : f->time->name;
        const int n =
            snprintf(d->moments + used, sizeof d->moments - used, "%s%s", i > 0 ? "," : "", name);
        used += n > 0 ? (size_t)n : 0;
        if (i < f->n) cli_text_add(&d->series, i == 0 ? "by: [" : ", ");
        else cli_text_add(&d->series, i == 0 ? "time: " : "], time: ");
        new_data_quote(&d->series, name, strlen(name));
    }
    if (f->time->format != NULL) {
        cli_text_add(&d->series, ", format: ");
        new_data_quote(&d->series, f->time->format, strlen(f->time->format));
    }
    if (f->rate > 0) cli_text_add(&d->series, ", rate: %g", f->rate);
}

static void write_blocks(const found *f, new_data *d)
{
    cli_text_add(&d->series, "  window: {length: %lld, stride: %lld}   # rows\n",
                 (long long)f->window, (long long)(f->window / 2));
    add_names(f, d);
    if (d->group != NULL) return;
    const bool groups = f->n > 0 && f->by[0]->blocks == f->by[0]->different;
    if (groups && f->by[0]->different >= NEW_GROUPS) {
        new_data_split(d, f->by[0]->name, f->by[0]->different);
        return;
    }
    if (f->files >= NEW_GROUPS) {
        cli_text_add(&d->split, "  split: {by: file, test: 0.2}   # whole files\n");
        return;
    }
    cli_text_add(&d->split, "  split: {by: time, test: 0.2}   # the newest\n");
    if (!groups) return;
    cli_text_add(&d->about[1], "split: '");
    cli_text_add_name(&d->about[1], f->by[0]->name);
    cli_text_add(&d->about[1], "' has %lld values, too few to hold some back; the newest rows are",
                 (long long)f->by[0]->different);
}

static void say(const found *f, new_data *d)
{
    cli_text *out = &d->about[0];
    cli_text_add(out, "series: '");
    cli_text_add_name(out, f->time->name);
    cli_text_add(out, "' has steps of %.4g, and '", f->time->step);
    cli_text_add_name(out, f->target->name);
    cli_text_add(out,
                 "' is the same for %.0f rows, as a mean: an example is a window of %lld rows "
                 "(data.window; --rows: a row is one)",
                 f->stretch, (long long)f->window);
    if (f->rate == 0) return;
    cli_text_add(out, "; %s: rows are made at %g to a %s (data.series.rate)",
                 d->joined ? "files have times of their own" : "the steps differ", f->rate,
                 f->time->type == DT_COLUMN_TIME || f->time->step < 1 ? "second" : "unit of it");
}

void new_series_find(const dt_table_look *look, new_data *d)
{
    found f = { .target = find_target(look, d) };
    if (d->rows || d->no_header || f.target == NULL || !has_stretches(f.target, look, d->joined))
        return;
    int64_t series = 1;
    for (int64_t i = 0; i < look->n && f.n < BY; i++) {
        const dt_column_look *c = &look->column[i];
        if (!tells_series(c, f.target, d->joined) || strlen(c->name) > 48) continue;
        f.by[f.n++] = c;
        series = c->blocks > series ? c->blocks : series;
        if (comes_first(c, f.by[0])) {
            f.by[f.n - 1] = f.by[0];
            f.by[0] = c;
        }
    }
    for (int64_t i = 0; i < look->n && f.time == NULL; i++) {
        const dt_column_look *c = &look->column[i];
        if (c != f.target && tells_time(c, look->rows, series) && strlen(c->name) <= 48) f.time = c;
    }
    if (f.time == NULL || (d->inputs != NULL && new_columns_has(d->inputs, f.time->name))) return;
    f.stretch = (double)look->rows / (double)f.target->blocks;
    f.files = look->files;
    f.rate = rate_of(f.time, d->joined);
    f.window = window_of(f.time, f.rate > 0 ? 1 / f.rate : f.time->step, f.stretch);
    write_blocks(&f, d);
    say(&f, d);
}
