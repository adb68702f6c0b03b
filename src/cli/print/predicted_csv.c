/* Predictions as rows of CSV [RFC 4180]: the texts of kept columns of the input, then for
 *     classes  predicted, probability, and with p->probabilities p_NAME of each class
 *     values   predicted, or predicted_NAME of each number
 *     bits     p_NAME of each label
 *     anomaly  error
 * A file is written under a temporary name, and renamed when it is complete. */
#include "cli/print/predicted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_field(predicted *p, bool *first, const char *text)
{
    const size_t n = strlen(text);
    const bool blank =
        n > 0 && (strchr(" \t", text[0]) != NULL || strchr(" \t", text[n - 1]) != NULL);
    const bool quoted = blank || strpbrk(text, ",\"\r\n") != NULL;
    if (!*first) putc(',', p->to);
    *first = false;
    if (quoted) putc('"', p->to);
    for (; *text != 0; text++) {
        if (*text == '"') putc('"', p->to);
        putc(*text, p->to);
    }
    if (quoted) putc('"', p->to);
}

static void put_number(predicted *p, bool *first, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", v);
    put_field(p, first, text);
}

static void put_head(predicted *p, bool *first, const char *prefix, int64_t i)
{
    char digits[24];
    cli_text name = { .used = 0 };
    cli_text_add(&name, "%s_%s", prefix, predicted_name(p, i, digits));
    put_field(p, first, name.text);
}

static void head_classes(predicted *p, int64_t n, bool *first)
{
    put_field(p, first, "predicted");
    put_field(p, first, "probability");
    for (int64_t i = 0; i < n && p->probabilities; i++) put_head(p, first, "p", i);
}

static void add_classes(predicted *p, const float *v, int64_t n, bool *first)
{
    int64_t best[PREDICTED_TOP];
    char digits[24];
    predicted_classes(p, v, n, 1, best);
    put_field(p, first, predicted_name(p, best[0], digits));
    put_number(p, first, predicted_probability(p, v, n, best[0]));
    for (int64_t i = 0; i < n && p->probabilities; i++) {
        put_number(p, first, predicted_probability(p, v, n, i));
    }
}

static void head_values(predicted *p, int64_t n, bool *first)
{
    if (n == 1) put_field(p, first, "predicted");
    for (int64_t i = 0; i < n && n > 1; i++) put_head(p, first, "predicted", i);
}

static void add_values(predicted *p, const float *v, int64_t n, bool *first)
{
    for (int64_t i = 0; i < n; i++) put_number(p, first, (double)v[i]);
}

static void head_bits(predicted *p, int64_t n, bool *first)
{
    for (int64_t i = 0; i < n; i++) put_head(p, first, "p", i);
}

static void add_bits(predicted *p, const float *v, int64_t n, bool *first)
{
    for (int64_t i = 0; i < n; i++) put_number(p, first, predicted_logistic(v[i]));
}

static void head_error(predicted *p, int64_t n, bool *first)
{
    (void)n;
    put_field(p, first, "error");
}

static const struct {
    const char *target;
    void (*head)(predicted *p, int64_t n, bool *first);
    void (*add)(predicted *p, const float *v, int64_t n, bool *first); /* NULL: the error */
} targets[] = {
    { "classes", head_classes, add_classes },
    { "values", head_values, add_values },
    { "bits", head_bits, add_bits },
    { "anomaly", head_error, NULL },
};

enum { TARGETS = sizeof targets / sizeof targets[0] };

static int target_of(const predicted *p)
{
    int i = 0;
    while (i < TARGETS && strcmp(targets[i].target, p->data->target) != 0) i++;
    return i;
}

static bool is_piped(const predicted *p) { return strcmp(p->output, "-") == 0; }

static void part_path(const predicted *p, cli_text *out)
{
    cli_text_add(out, "%s.%ld.part", p->output, (long)getpid());
}

static dt_status fail(dt_ctx *ctx, const predicted *p)
{
    return dt_fail(ctx, DT_ERR_IO, "%s: %s", p->output, strerror(errno));
}

dt_status predicted_csv_begin(dt_ctx *ctx, predicted *p)
{
    cli_text path = { .used = 0 };
    if (p->json) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "--json and a table of answers (-o %s) are two forms; "
                       "give one of them",
                       p->output);
    }
    if (target_of(p) == TARGETS) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "-o %s is for models that answer with classes, values, bits or an error; "
                       "this one gives %s",
                       p->output, p->data->target);
    }
    part_path(p, &path);
    p->to = is_piped(p) ? stdout : fopen(path.text, "w");
    return p->to == NULL ? fail(ctx, p) : DT_OK;
}

/* All files keep the columns of the first file, found by name. */
static dt_status place_kept(dt_ctx *ctx, predicted *p)
{
    const int64_t n = dt_dataset_kept(p->data_at_hand);
    const bool first = p->kept == NULL;
    if (first) {
        p->kept = calloc((size_t)n + 1, sizeof *p->kept);
        p->place = calloc((size_t)n + 1, sizeof *p->place);
        if (p->kept == NULL || p->place == NULL)
            return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for kept columns");
        p->n_kept = n;
    }
    for (int64_t k = 0; k < p->n_kept; k++) {
        if (first) p->kept[k] = strdup(dt_dataset_kept_name(p->data_at_hand, k));
        if (p->kept[k] == NULL) return dt_fail(ctx, DT_ERR_NOMEM, "out of memory for kept columns");
        int64_t at = 0;
        while (at < n && strcmp(dt_dataset_kept_name(p->data_at_hand, at), p->kept[k]) != 0) at++;
        p->place[k] = at;
        if (at < n) continue;
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "'%s' has no column '%s', which the first file has and the table of answers "
                       "keeps; --keep names columns that all files have",
                       p->path, p->kept[k]);
    }
    if (n == p->n_kept) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT,
                   "'%s' has %lld column%s that the model does not read, and the first file %lld; "
                   "--keep names columns that all files have",
                   p->path, (long long)n, CLI_S(n), (long long)p->n_kept);
}

dt_status predicted_csv_add(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const int t = target_of(p);
    int64_t n, inputs;
    bool first = true;
    const float *y = predicted_row(e->y, e->i, &n), *x = predicted_row(e->x, e->i, &inputs);
    if (y == NULL || x == NULL || n < 1 || (targets[t].add == NULL && n != inputs)) {
        return dt_fail(ctx, DT_ERR_SHAPE, "the model's output does not fit its target, '%s'",
                       p->data->target);
    }
    if (e->number == 0) {
        const dt_status s = place_kept(ctx, p);
        if (s != DT_OK) return s;
    }
    for (int64_t k = 0; k < p->n_kept && p->n == 0; k++) put_field(p, &first, p->kept[k]);
    if (p->n == 0) {
        targets[t].head(p, n, &first);
        putc('\n', p->to);
    }
    first = true;
    for (int64_t k = 0; k < p->n_kept; k++) {
        put_field(p, &first, dt_dataset_kept_text(p->data_at_hand, p->place[k], e->number));
    }
    if (targets[t].add != NULL) targets[t].add(p, y, n, &first);
    else put_number(p, &first, predicted_error(x, y, n));
    putc('\n', p->to);
    return ferror(p->to) ? fail(ctx, p) : DT_OK;
}

dt_status predicted_csv_end(dt_ctx *ctx, predicted *p, bool good)
{
    cli_text path = { .used = 0 };
    for (int64_t k = 0; k < p->n_kept; k++) free(p->kept[k]);
    free(p->kept);
    free(p->place);
    if (is_piped(p)) return good && fflush(stdout) != 0 ? fail(ctx, p) : DT_OK;
    part_path(p, &path);
    const bool written = fflush(p->to) == 0 && fsync(fileno(p->to)) == 0;
    const bool closed = fclose(p->to) == 0;
    if (good && written && closed && rename(path.text, p->output) == 0) return DT_OK;
    const int why = errno;
    unlink(path.text);
    errno = why;
    return good ? fail(ctx, p) : DT_OK;
}
