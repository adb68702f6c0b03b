/* Measures the user's recordings. If lengths differ, the window is the length that 95 of 100
 * recordings do not exceed, rounded up to hundredths of a second, and each recording is one
 * example: shorter ones are padded with zeros, longer ones cut. If that is more than three seconds,
 * recordings are cut into windows of one second. */
#include "cli/new_data.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FIELDS 8
#define MOST_LABELS 256
#define LONGEST 3     /* longest window in seconds */
#define SLOWEST 4000  /* least sampling rate for features */
#define FRAMES_MS 180 /* length of eight frames of 40 ms, one each 20 ms */

/* A part of a name. */
typedef struct word {
    const char *at;
    int n;
} word;

/* What was measured. */
typedef struct measured {
    glob_t found; /* their paths */
    int64_t n, rate;
    int64_t *length; /* [n] */
    word *word;      /* [n]: scratch memory for the words of a field */
    int fields;      /* fields of a name, between separators; -1: names differ in their number */
    int64_t different[MOST_FIELDS];
    bool is_number[MOST_FIELDS];
    char separator;
} measured;

/* ---- names ---------------------------------------------------------------------------------- */

static const char *name_of(const measured *m, int64_t i)
{
    const char *path = m->found.gl_pathv[i], *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static const char *ending_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot == NULL ? name + strlen(name) : dot;
}

/* Finds field k of a name; the last one ends before the file's ending. False: missing or empty. */
static bool field_of(const measured *m, const char *name, int k, word *out)
{
    const char *end = ending_of(name), *at = name;
    for (; k > 0 && at < end; k--) {
        const char *next = memchr(at, m->separator, (size_t)(end - at));
        at = next == NULL ? end : next + 1;
    }
    const char *next = memchr(at, m->separator, (size_t)(end - at));
    *out = (word){ at, (int)((next == NULL ? end : next) - at) };
    return out->n > 0 && memchr(at, '{', (size_t)out->n) == NULL &&
           memchr(at, '}', (size_t)out->n) == NULL;
}

static int count_fields(const measured *m, const char *name)
{
    int n = 1;
    for (const char *c = name; c < ending_of(name); c++) n += *c == m->separator;
    return n;
}

static int by_word(const void *a, const void *b)
{
    const word *x = a, *y = b;
    const int order = memcmp(x->at, y->at, (size_t)(x->n < y->n ? x->n : y->n));
    return order != 0 ? order : x->n - y->n;
}

static void count_words(measured *m, int k)
{
    m->is_number[k] = true;
    for (int64_t i = 0; i < m->n; i++) {
        if (!field_of(m, name_of(m, i), k, &m->word[i])) m->fields = -1;
        for (int c = 0; c < m->word[i].n; c++) {
            m->is_number[k] &= isdigit((unsigned char)m->word[i].at[c]) != 0;
        }
    }
    qsort(m->word, (size_t)m->n, sizeof *m->word, by_word);
    m->different[k] = 1;
    for (int64_t i = 1; i < m->n; i++) {
        m->different[k] += by_word(&m->word[i - 1], &m->word[i]) != 0;
    }
}

static void find_fields(measured *m)
{
    const char *first = name_of(m, 0);
    m->separator = strchr(first, '_') != NULL ? '_' : '-';
    m->fields = count_fields(m, first);
    if (m->fields > MOST_FIELDS) m->fields = -1;
    for (int64_t i = 1; i < m->n; i++) {
        if (count_fields(m, name_of(m, i)) != m->fields) m->fields = -1;
    }
    for (int k = 0; k < m->fields; k++) count_words(m, k);
}

/* Whether a field has few different words, each in several recordings. */
static bool repeats(const measured *m, int k)
{
    const int64_t n = m->different[k];
    return n >= 2 && n <= MOST_LABELS && 2 * n <= m->n;
}

static bool same_ending(const measured *m)
{
    int64_t i = 1;
    while (i < m->n && strcmp(ending_of(name_of(m, i)), ending_of(name_of(m, 0))) == 0) i++;
    return i >= m->n && strlen(ending_of(name_of(m, 0))) < 16;
}

/* The field that --group names, such as "part2"; -1: none. */
static int named_group(const measured *m, const new_data *d)
{
    char name[16];
    for (int i = 0; i < m->fields && d->group != NULL; i++) {
        snprintf(name, sizeof name, "part%d", i + 1);
        if (strcmp(name, d->group) == 0 && m->different[i] > 1) return i;
    }
    return -1;
}

/* Chooses the fields: the first that repeats is the class; the group is the one that --group names,
 * or the next that is no number. */
static bool name_fields(measured *m, new_data *d)
{
    int label = -1, group = -1;
    find_fields(m);
    const int named = named_group(m, d);
    for (int i = 0; i < m->fields; i++) {
        if (!repeats(m, i) || i == named) continue;
        if (label < 0) label = i;
        else if (group < 0 && !m->is_number[i]) group = i;
    }
    if (d->group != NULL) group = named;
    size_t used = 0;
    for (int i = 0; i < m->fields; i++) {
        char other[16];
        snprintf(other, sizeof other, "part%d", i + 1);
        const char *name = i == label ? "label" : i == group ? "group" : other;
        const char *before = i == 0 ? "" : (const char[]){ m->separator, 0 };
        used += (size_t)snprintf(d->names + used, sizeof d->names - used, "%s{%s}", before, name);
    }
    snprintf(d->names + used, sizeof d->names - used, "%s",
             same_ending(m) ? ending_of(name_of(m, 0)) : ".{ending}");
    if (label < 0) return false;
    d->groups = group < 0 ? 0 : m->different[group];
    cli_text_add(&d->about[0], "names are %s: %lld class%s", d->names,
                 (long long)m->different[label], m->different[label] == 1 ? "" : "es");
    if (group >= 0) {
        cli_text_add(&d->about[0], ", %lld group%s, which %s validated and tested whole",
                     (long long)d->groups, CLI_S(d->groups), d->groups == 1 ? "is" : "are");
    }
    cli_text_add(&d->about[0], " (data.file_names, data.split)");
    return true;
}

/* ---- lengths -------------------------------------------------------------------------------- */

/* Opens recordings with windows of one sample, so that examples count samples. */
static dt_status measure_file(dt_ctx *ctx, measured *m, int64_t i)
{
    dt_data_options o = dt_data_defaults();
    dt_dataset *train, *validation, *test;
    o.format = DT_DATA_TENSORS;
    o.train = (dt_strings){ 1, { m->found.gl_pathv[i] } };
    o.window = (dt_window){ true, 1, 1, 0 };
    const dt_status status = dt_data_open(ctx, &o, &train, &validation, &test);
    if (status != DT_OK) return status;
    m->length[i] = dt_dataset_count(train);
    m->rate = dt_dataset_rate(train);
    dt_dataset_free(train);
    return DT_OK;
}

static int by_length(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static void choose_window(measured *m, new_data *d)
{
    qsort(m->length, (size_t)m->n, sizeof *m->length, by_length);
    const int64_t least = m->length[0], most = m->length[m->n - 1];
    if (least == most) return;
    const int64_t step = most_of(1, m->rate / 100), usual = m->length[(m->n - 1) * 19 / 20];
    const double rate = (double)most_of(1, m->rate);
    const bool cut = usual > LONGEST * most_of(1, m->rate);
    d->window = cut ? m->rate : rounded_up(usual, step);
    d->stride = cut ? m->rate : rounded_up(most, step);
    int64_t longer = 0;
    for (int64_t i = 0; i < m->n; i++) longer += m->length[i] > d->window;
    d->features = m->rate >= SLOWEST && d->window >= m->rate * FRAMES_MS / 1000;
    cli_text_add(&d->about[1],
                 "recordings of %.2f to %.2f s, half of them at most %.2f s, 95 %% at "
                 "most %.2f s: ",
                 (double)least / rate, (double)most / rate, (double)m->length[m->n / 2] / rate,
                 (double)usual / rate);
    if (cut) cli_text_add(&d->about[1], "windows of 1 s cut them");
    else {
        cli_text_add(&d->about[1],
                     "an example has %.2f s, %lld are filled up with zeros, %lld are cut",
                     (double)d->window / rate, (long long)(m->n - longer), (long long)longer);
    }
    cli_text_add(&d->about[1], " (data.window)");
}

/* ---- all of them ---------------------------------------------------------------------------- */

static dt_status measure(dt_ctx *ctx, measured *m, const new_data *d)
{
    for (int i = 0; new_data_sounds(d, i) != NULL; i++) {
        char pattern[CLI_PATH];
        if (new_data_pattern(d->path, new_data_sounds(d, i), pattern)) {
            glob(pattern, m->n > 0 ? GLOB_APPEND : 0, NULL, &m->found);
        }
        m->n = (int64_t)m->found.gl_pathc;
    }
    m->length = calloc((size_t)m->n + 1, sizeof *m->length);
    m->word = calloc((size_t)m->n + 1, sizeof *m->word);
    if (m->length == NULL || m->word == NULL)
        return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for recordings");
    dt_status status = DT_OK;
    for (int64_t i = 0; i < m->n && status == DT_OK; i++) status = measure_file(ctx, m, i);
    return status;
}

int new_sounds_measure(const cli_args *args, dt_ctx *ctx, new_data *d)
{
    measured m = { .n = 0 };
    const bool one_folder = strchr(new_data_sounds(d, 0), '/') == NULL;
    int status = CLI_DONE;
    if (measure(ctx, &m, d) != DT_OK) status = cli_fail_file(args, ctx);
    if (status == CLI_DONE && one_folder && m.n > 0 && !name_fields(&m, d)) {
        status =
            cli_fail(args, CLI_USAGE,
                     "%s: the names of its recordings contain no classes; expected a folder for "
                     "each class, CLASS/*.wav, or names such as yes_anna_1.wav",
                     d->path);
    }
    if (status == CLI_DONE && d->group != NULL && d->groups == 0) {
        status = cli_fail(args, CLI_USAGE,
                          "--group: '%s' is not a part in which the names of recordings differ; in "
                          "yes_anna_1.wav 'part2' is anna",
                          d->group);
    }
    if (status == CLI_DONE && m.n > 0) choose_window(&m, d);
    if (m.n > 0) globfree(&m.found);
    free(m.length);
    free(m.word);
    return status;
}
