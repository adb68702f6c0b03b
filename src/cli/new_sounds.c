/* Recordings of one's own, as they are measured. Of lengths that differ, the window has that which
 * 95 of 100 recordings do not exceed, rounded up to hundredths of a second, and every recording is
 * one example: shorter ones are filled up with zeros, of longer ones the beginning is taken. Where
 * that would be more than three seconds, windows of one second cut them. */
#include "cli/new_data.h"

#include "data/files/array_file.h"
#include "data/labels.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FIELDS 8
#define MOST_LABELS 256
#define LONGEST 3     /* seconds of a window */
#define SLOWEST 4000  /* samples a second that features are made of */
#define FRAMES_MS 180 /* of eight frames of 40 ms, every 20 ms */

/* What was found of all recordings. */
typedef struct measured {
    dt_ctx *ctx;
    int64_t n, room, rate;
    int64_t *length;
    /* parts of their names between separators; -1: they differ in number */
    int64_t fields;
    dt__words field[MOST_FIELDS];
    char separator;
    char ending[16]; /* with its dot; "": they differ */
} measured;

/* ---- names ---------------------------------------------------------------------------------- */

static dt_status add_name(measured *m, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(name, '.'), *end = dot == NULL ? name + strlen(name) : dot;
    if (m->n == 0) {
        snprintf(m->ending, sizeof m->ending, "%s", end);
        m->separator = memchr(name, '_', (size_t)(end - name)) != NULL ? '_' : '-';
    }
    if (strcmp(m->ending, end) != 0) m->ending[0] = 0;
    int64_t fields = 0;
    for (const char *at = name; at <= end && m->fields >= 0; fields++) {
        const char *next = memchr(at, m->separator, (size_t)(end - at));
        if (next == NULL) next = end;
        if (next == at || fields == MOST_FIELDS || strpbrk(at, "{}") != NULL) m->fields = -1;
        else if (dt__words_add(m->ctx, &m->field[fields], at, (size_t)(next - at)) < 0) {
            return DT_ERR_NOMEM;
        }
        at = next + 1;
    }
    if (m->n == 0 && m->fields == 0) m->fields = fields;
    if (fields != m->fields) m->fields = -1;
    return DT_OK;
}

/* Whether a field has few words, each of which names several recordings. */
static bool repeats(const measured *m, int64_t i)
{
    const int64_t n = m->field[i].n;
    return n >= 2 && n <= MOST_LABELS && 2 * n <= m->n;
}

static bool is_number(const dt__words *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        if (w->word[i][strspn(w->word[i], "0123456789")] != 0) return false;
    }
    return true;
}

/* The first field that repeats is the class, the next one that is no number the group. */
static bool name_fields(const measured *m, new_data *d)
{
    int64_t label = -1, group = -1;
    for (int64_t i = 0; i < m->fields; i++) {
        if (!repeats(m, i)) continue;
        if (label < 0) label = i;
        else if (group < 0 && !is_number(&m->field[i])) group = i;
    }
    size_t used = 0;
    for (int64_t i = 0; i < m->fields; i++) {
        char other[16];
        snprintf(other, sizeof other, "part%d", (int)i + 1);
        const char *name = i == label ? "label" : i == group ? "group" : other;
        const char *before = i == 0 ? "" : (const char[]){ m->separator, 0 };
        used += (size_t)snprintf(d->names + used, sizeof d->names - used, "%s{%s}", before, name);
    }
    snprintf(d->names + used, sizeof d->names - used, "%s",
             m->ending[0] != 0 ? m->ending : ".{ending}");
    if (label < 0) return false;
    d->groups = group < 0 ? 0 : m->field[group].n;
    cli_text_add(&d->about[0], "names are %s: %lld classes", d->names,
                 (long long)m->field[label].n);
    if (group >= 0) {
        cli_text_add(&d->about[0], ", %lld groups, which are validated and tested whole",
                     (long long)d->groups);
    }
    cli_text_add(&d->about[0], " (data.file_names, data.split)");
    return true;
}

/* ---- lengths -------------------------------------------------------------------------------- */

static int by_length(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static dt_status add_file(measured *m, const char *path)
{
    dt__array_file a;
    DT__TRY(DT__RESERVE(m->ctx, m->length, m->n, m->room));
    dt_status status = dt__array_file_open(m->ctx, path, &a);
    if (status == DT_OK) {
        m->length[m->n] = a.dims[0];
        m->rate = a.rate;
    }
    dt__array_file_close(&a);
    if (status == DT_OK) status = add_name(m, path);
    m->n++;
    return status;
}

static int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static void choose_window(measured *m, new_data *d)
{
    qsort(m->length, (size_t)m->n, sizeof *m->length, by_length);
    const int64_t least = m->length[0], most = m->length[m->n - 1];
    if (least == most) return;
    const int64_t step = dt__max_i64(1, m->rate / 100), usual = m->length[(m->n - 1) * 19 / 20];
    const double rate = (double)dt__max_i64(1, m->rate);
    const bool cut = usual > LONGEST * dt__max_i64(1, m->rate);
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

static dt_status measure(measured *m, const new_data *d)
{
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && new_data_sounds(d, i) != NULL; i++) {
        char pattern[CLI_PATH];
        glob_t found;
        const int n = snprintf(pattern, sizeof pattern, "%s/%s", d->path, new_data_sounds(d, i));
        if (n < 0 || n >= CLI_PATH || glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t k = 0; k < found.gl_pathc && status == DT_OK; k++) {
            status = add_file(m, found.gl_pathv[k]);
        }
        globfree(&found);
    }
    return status;
}

int new_sounds_measure(const cli_args *args, dt_ctx *ctx, new_data *d)
{
    measured m = { .ctx = ctx };
    const bool one_folder = strchr(new_data_sounds(d, 0), '/') == NULL;
    int status = CLI_DONE;
    if (measure(&m, d) != DT_OK) status = cli_fail_file(args, ctx);
    if (status == CLI_DONE && one_folder && !name_fields(&m, d)) {
        status = cli_fail(args, CLI_USAGE,
                          "%s: the names of its recordings tell no classes; expected a folder for "
                          "each class, CLASS/*.wav, or names such as yes_anna_1.wav",
                          d->path);
    }
    if (status == CLI_DONE && m.n > 0) choose_window(&m, d);
    for (int i = 0; i < MOST_FIELDS; i++) dt__words_free(ctx, &m.field[i]);
    dt__release(ctx, m.length);
    return status;
}
