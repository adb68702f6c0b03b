/* Prints predictions (predicted.h), in a form for each target:
 *     classes  the most likely ones: softmax of the outputs; of two classes first the one that the
 *              model's threshold decides
 *     values   the numbers
 *     bits     labels whose probability, the logistic function of the output, is above 1/2 or the
 *              model's threshold
 *     anomaly  mean of (y - x)^2 over the example
 *     images   8-bit PNG of the outputs, 0 black and 1 white
 *     masks    PNG whose grey levels are the most likely classes, and the share of each class
 *     several  for each output the form of its target: classes, values, bits */
#include "cli/print/predicted.h"

#include "cli/print/meter.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_VALUES = 12, MOST_ROWS = 50000 }; /* columns and rows of a table */

/* How predictions for a target are printed. */
typedef struct predicted_kind {
    const char *target; /* of dt_model_data */
    bool images;
    const char *form; /* columns of the table; NULL: one for each number */
    const char *heads[4];
    dt_status (*add)(dt_ctx *ctx, predicted *p, const predicted_example *e);
} predicted_kind;

/* ---- numbers -------------------------------------------------------------------------------- */

int predicted_largest(const float *v, int64_t n, int k, int64_t place[PREDICTED_TOP])
{
    int found = 0;
    for (int64_t i = 0; i < n; i++) {
        int at = found;
        while (at > 0 && v[i] > v[place[at - 1]]) at--;
        if (at >= k) continue;
        if (found < k) found++;
        for (int m = found - 1; m > at; m--) place[m] = place[m - 1];
        place[at] = i;
    }
    return found;
}

int predicted_classes(const predicted *p, const float *v, int64_t n, int k,
                      int64_t place[PREDICTED_TOP])
{
    const int found = predicted_largest(v, n, k, place);
    if (p->data->n_thresholds != 1 || n != 2) return found;
    place[0] = (double)(v[1] - v[0]) > p->data->thresholds[0];
    if (found > 1) place[1] = 1 - place[0];
    return found;
}

/* Whether bit i of n is predicted. */
static bool has_bit(const predicted *p, const float *v, int64_t n, int64_t i)
{
    return (double)v[i] > (p->data->n_thresholds == n ? p->data->thresholds[i] : 0);
}

double predicted_share(const float *v, int64_t n, int64_t at)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)v[i] - (double)v[at]);
    return 1 / sum;
}

double predicted_probability(const predicted *p, const float *v, int64_t n, int64_t at)
{
    const char *meaning = p->data->meaning;
    const bool is = meaning != NULL && strcmp(meaning, "probabilities") == 0;
    return is ? (double)v[at] : predicted_share(v, n, at);
}

static int64_t size_of(const dt_tensor *x)
{
    return dt_dim(x, 0) > 0 ? dt_count(x) / dt_dim(x, 0) : 0;
}

/* The outputs for one example; NULL after an error. */
static const float *row_of(const dt_tensor *x, int64_t i)
{
    const float *v = dt_data(x);
    return v == NULL ? NULL : v + i * size_of(x);
}

const float *predicted_row(const dt_tensor *x, int64_t i, int64_t *n)
{
    *n = size_of(x);
    return row_of(x, i);
}

const char *predicted_name(const predicted *p, int64_t i, char text[24])
{
    if (i < p->data->n_names && *p->data->names[i] != 0) return p->data->names[i];
    snprintf(text, 24, "%lld", (long long)i);
    return text;
}

/* ---- the input ------------------------------------------------------------------------------ */

static void put_input(predicted *p, const predicted_example *e)
{
    if (!p->json) {
        if (p->count == 1) cli_table_put(&p->table, p->path);
        else cli_table_format(&p->table, "%.400s [%lld]", p->path, (long long)e->number);
        return;
    }
    meter_remove();
    fputs(p->n == 0 ? "\n  {\"input\": " : ",\n  {\"input\": ", stdout);
    cli_json_string(p->path);
    printf(", \"example\": %lld", (long long)e->number);
}

static dt_status bad_shape(dt_ctx *ctx, const predicted *p, const dt_tensor *y)
{
    char text[160];
    dt_describe(y, text, sizeof text);
    return dt_fail(ctx, DT_ERR_SHAPE, "the model's output %s does not fit its target, '%s'", text,
                   p->data->target);
}

/* ---- classes, numbers, bits, anomalies ------------------------------------------------------ */

static void put_class(const predicted *p, const float *v, int64_t n, int64_t at)
{
    char text[24];
    fputs("{\"class\": ", stdout);
    printf("%lld, \"name\": ", (long long)at);
    cli_json_string(predicted_name(p, at, text));
    fputs(", \"probability\": ", stdout);
    cli_json_number(predicted_probability(p, v, n, at));
    fputs("}", stdout);
}

static void json_classes(const predicted *p, const float *v, int64_t n)
{
    int64_t place[PREDICTED_TOP];
    const int found = predicted_classes(p, v, n, p->top, place);
    fputs("\"classes\": [", stdout);
    for (int i = 0; i < found; i++) {
        if (i > 0) fputs(", ", stdout);
        put_class(p, v, n, place[i]);
    }
    fputs("]", stdout);
}

static void json_values(const predicted *p, const float *v, int64_t n)
{
    (void)p;
    fputs("\"values\": [", stdout);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) fputs(", ", stdout);
        cli_json_number((double)v[i]);
    }
    fputs("]", stdout);
}

double predicted_logistic(float v) { return 1 / (1 + exp(-(double)v)); }

static void json_bits(const predicted *p, const float *v, int64_t n)
{
    char text[24];
    fputs("\"labels\": [", stdout);
    for (int64_t i = 0; i < n; i++) {
        fputs(i > 0 ? ", {\"name\": " : "{\"name\": ", stdout);
        cli_json_string(predicted_name(p, i, text));
        fputs(", \"probability\": ", stdout);
        cli_json_number(predicted_logistic(v[i]));
        printf(", \"is\": %s}", has_bit(p, v, n, i) ? "true" : "false");
    }
    fputs("]", stdout);
}

/* Prints the labels that are predicted. */
static void tell_bits(const predicted *p, const float *v, int64_t n, cli_text *out)
{
    char text[24];
    const size_t before = out->used;
    for (int64_t i = 0; i < n; i++) {
        if (has_bit(p, v, n, i)) {
            cli_text_add(out, "%s%s %.1f %%", out->used > before ? ", " : "",
                         predicted_name(p, i, text), 100 * predicted_logistic(v[i]));
        }
    }
    if (out->used == before) cli_text_add(out, "none");
}

static dt_status add_classes(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const int64_t n = size_of(e->y);
    const float *v = row_of(e->y, e->i);
    int64_t place[PREDICTED_TOP];
    char text[24];
    if (v == NULL || dt_rank(e->y) != 2 || n < 1) return bad_shape(ctx, p, e->y);
    const int found = predicted_classes(p, v, n, p->top, place);
    put_input(p, e);
    if (p->json) {
        fputs(", ", stdout);
        json_classes(p, v, n);
        fputs("}", stdout);
        return DT_OK;
    }
    cli_text others = { .used = 0 };
    for (int i = 1; i < found; i++) {
        cli_text_add(&others, "%s%s %.1f %%", i > 1 ? ", " : "", predicted_name(p, place[i], text),
                     100 * predicted_probability(p, v, n, place[i]));
    }
    cli_table_put(&p->table, predicted_name(p, place[0], text));
    cli_table_format(&p->table, "%.1f %%", 100 * predicted_probability(p, v, n, place[0]));
    cli_table_put(&p->table, others.text);
    return DT_OK;
}

static dt_status add_values(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const int64_t n = size_of(e->y), shown = n < MOST_VALUES ? n : MOST_VALUES;
    const float *v = row_of(e->y, e->i);
    char text[24];
    if (v == NULL) return bad_shape(ctx, p, e->y);
    if (!p->json && p->table.n == 0) {
        memset(p->form, 'r', (size_t)shown + 1);
        p->form[0] = 'l';
        p->form[shown + 1] = 0;
        cli_table_put(&p->table, n > shown ? "input, and the first numbers" : "input");
        for (int64_t i = 0; i < shown; i++) cli_table_put(&p->table, predicted_name(p, i, text));
    }
    put_input(p, e);
    if (!p->json) {
        for (int64_t i = 0; i < shown; i++) cli_table_format(&p->table, "%.6g", (double)v[i]);
        return DT_OK;
    }
    fputs(", ", stdout);
    json_values(p, v, n);
    fputs("}", stdout);
    return DT_OK;
}

static dt_status add_bits(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const int64_t n = size_of(e->y);
    const float *v = row_of(e->y, e->i);
    cli_text labels = { .used = 0 };
    if (v == NULL) return bad_shape(ctx, p, e->y);
    put_input(p, e);
    if (p->json) {
        fputs(", ", stdout);
        json_bits(p, v, n);
        fputs("}", stdout);
    } else {
        tell_bits(p, v, n, &labels);
        cli_table_put(&p->table, labels.text);
    }
    return DT_OK;
}

double predicted_error(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)y[i] - (double)x[i];
        sum += d * d;
    }
    return sum / (double)n;
}

static dt_status add_anomaly(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const int64_t n = size_of(e->x);
    const float *x = row_of(e->x, e->i), *y = row_of(e->y, e->i);
    if (x == NULL || y == NULL || n < 1 || size_of(e->y) != n) return bad_shape(ctx, p, e->y);
    const double error = predicted_error(x, y, n);
    put_input(p, e);
    if (p->json) {
        fputs(", \"error\": ", stdout);
        cli_json_number(error);
        fputs("}", stdout);
    } else {
        cli_table_format(&p->table, "%.6g", error);
    }
    return DT_OK;
}

/* ---- images --------------------------------------------------------------------------------- */

static bool is_png(const char *path)
{
    const size_t n = strlen(path);
    return n > 4 && strcasecmp(path + n - 4, ".png") == 0;
}

/* The path for an image: p->output itself, or NAME.png or NAME-3.png in that folder. */
static void image_path(const predicted *p, const predicted_example *e, cli_text *path)
{
    const char *slash = strrchr(p->path, '/'), *name = slash == NULL ? p->path : slash + 1;
    const int n = (int)strcspn(name, ".");
    if (is_png(p->output)) cli_text_add(path, "%s", p->output);
    else if (p->count == 1) cli_text_add(path, "%s/%.*s.png", p->output, n, name);
    else cli_text_add(path, "%s/%.*s-%lld.png", p->output, n, name, (long long)e->number);
}

/* Writes the image, if there is an output, and prints its path. */
static dt_status put_image(dt_ctx *ctx, const predicted *p, const predicted_example *e,
                           const dt_png_image *image, cli_text *shown)
{
    if (p->output == NULL) {
        cli_text_add(shown, "%s", p->json ? "" : "-o FILE writes it");
        return DT_OK;
    }
    image_path(p, e, shown);
    return dt_png_write(ctx, shown->text, image);
}

static void show_image(predicted *p, const predicted_example *e, const cli_text *file)
{
    put_input(p, e);
    if (!p->json) {
        cli_table_put(&p->table, file->text);
        return;
    }
    fputs(", \"file\": ", stdout);
    if (p->output == NULL) fputs("null", stdout);
    else cli_json_string(file->text);
}

static dt_status add_image(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const int64_t n = size_of(e->y);
    const float *v = row_of(e->y, e->i);
    cli_text file = { .used = 0 };
    if (v == NULL || dt_rank(e->y) != 4) return bad_shape(ctx, p, e->y);
    uint8_t *pixels = malloc((size_t)n + 1);
    if (pixels == NULL) return dt_fail(ctx, DT_ERR_NOMEM, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        const float level = v[i] > 0 ? v[i] < 1 ? v[i] : 1 : 0; /* NaN is black */
        pixels[i] = (uint8_t)(level * 255 + 0.5F);
    }
    const dt_png_image image = { dt_dim(e->y, 1), dt_dim(e->y, 2), dt_dim(e->y, 3), pixels };
    const dt_status s = put_image(ctx, p, e, &image, &file);
    free(pixels);
    if (s != DT_OK) return s;
    show_image(p, e, &file);
    if (p->json) fputs("}", stdout);
    return DT_OK;
}

/* Sets each of `places` pixels to the most likely class, as a grey level, and counts the pixels of
 * each class. */
static void fill_mask(const float *v, int64_t classes, int64_t places, uint8_t *pixels,
                      int64_t *count)
{
    for (int64_t i = 0; i < places; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < classes; c++) {
            if (v[c * places + i] > v[best * places + i]) best = c;
        }
        count[best]++;
        pixels[i] = (uint8_t)(classes > 1 ? best * 255 / (classes - 1) : 0);
    }
}

static void show_shares(predicted *p, const int64_t *count, int64_t classes, int64_t places)
{
    cli_text shares = { .used = 0 };
    char text[24];
    if (p->json) fputs(", \"pixels\": {", stdout);
    for (int64_t c = 0, first = 1; c < classes; c++) {
        if (count[c] == 0) continue;
        if (p->json) {
            if (!first) fputs(", ", stdout);
            cli_json_string(predicted_name(p, c, text));
            printf(": %lld", (long long)count[c]);
        } else {
            cli_text_add(&shares, "%s%s %.1f %%", first ? "" : ", ", predicted_name(p, c, text),
                         100 * (double)count[c] / (double)places);
        }
        first = 0;
    }
    if (p->json) fputs("}}", stdout);
    else cli_table_put(&p->table, shares.text);
}

static dt_status add_mask(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const float *v = row_of(e->y, e->i);
    cli_text file = { .used = 0 };
    if (v == NULL || dt_rank(e->y) != 4) return bad_shape(ctx, p, e->y);
    const int64_t classes = dt_dim(e->y, 1), places = dt_dim(e->y, 2) * dt_dim(e->y, 3);
    uint8_t *pixels = malloc((size_t)places + 1);
    int64_t *count = calloc((size_t)classes + 1, sizeof *count);
    dt_status s = DT_OK;
    if (pixels == NULL || count == NULL) s = dt_fail(ctx, DT_ERR_NOMEM, "out of memory");
    if (s == DT_OK) {
        const dt_png_image image = { 1, dt_dim(e->y, 2), dt_dim(e->y, 3), pixels };
        fill_mask(v, classes, places, pixels, count);
        s = put_image(ctx, p, e, &image, &file);
    }
    if (s == DT_OK) {
        show_image(p, e, &file);
        show_shares(p, count, classes, places);
    }
    free(pixels);
    free(count);
    return s;
}

/* ---- several outputs ------------------------------------------------------------------------ */

static void tell_class(const predicted *p, const float *v, int64_t n, cli_text *out)
{
    int64_t place[PREDICTED_TOP];
    char text[24];
    predicted_largest(v, n, 1, place);
    cli_text_add(out, "%s %.1f %%", predicted_name(p, place[0], text),
                 100 * predicted_probability(p, v, n, place[0]));
}

static void tell_values(const predicted *p, const float *v, int64_t n, cli_text *out)
{
    (void)p;
    for (int64_t i = 0; i < n; i++) cli_text_add(out, "%s%.6g", i > 0 ? ", " : "", (double)v[i]);
}

/* How one of several outputs is printed. */
static const struct {
    const char *target;
    void (*json)(const predicted *p, const float *v, int64_t n);
    void (*tell)(const predicted *p, const float *v, int64_t n, cli_text *out);
} parts[] = {
    { "classes", json_classes, tell_class },
    { "values", json_values, tell_values },
    { "bits", json_bits, tell_bits },
};

enum { PARTS = sizeof parts / sizeof parts[0] };

static int part_of(const char *target)
{
    int i = 0;
    while (i < PARTS && strcmp(parts[i].target, target) != 0) i++;
    return i;
}

/* The number of values of all outputs; -1 where one is not known. */
static int64_t numbers_of(const dt_model_data *d)
{
    int64_t n = 0;
    for (int i = 0; i < d->n_outputs; i++) {
        if (part_of(d->outputs[i].target) == PARTS || d->outputs[i].output.n != 1) return -1;
        n += d->outputs[i].output.v[0];
    }
    return n;
}

static void begin_several(predicted *p)
{
    const int shown = p->data->n_outputs;
    memset(p->form, 'l', (size_t)shown + 1);
    p->form[shown + 1] = 0;
    cli_table_put(&p->table, "input");
    for (int i = 0; i < shown; i++) cli_table_put(&p->table, p->data->outputs[i].name);
}

static dt_status add_several(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const float *v = row_of(e->y, e->i);
    if (v == NULL || size_of(e->y) != numbers_of(p->data)) return bad_shape(ctx, p, e->y);
    if (!p->json && p->table.n == 0) begin_several(p);
    put_input(p, e);
    if (p->json) fputs(", \"outputs\": {", stdout);
    for (int i = 0; i < p->data->n_outputs; i++) {
        const dt_model_data *d = &p->data->outputs[i];
        const predicted own = { .data = d, .top = p->top };
        const int part = part_of(d->target);
        if (p->json) {
            if (i > 0) fputs(", ", stdout);
            cli_json_string(d->name);
            fputs(": {", stdout);
            parts[part].json(&own, v, d->output.v[0]);
            fputs("}", stdout);
        } else {
            cli_text text = { .used = 0 };
            parts[part].tell(&own, v, d->output.v[0], &text);
            cli_table_put(&p->table, text.text);
        }
        v += d->output.v[0];
    }
    if (p->json) fputs("}}", stdout);
    return DT_OK;
}

/* ---- all ------------------------------------------------------------------------------------ */

static const predicted_kind kinds[] = {
    { "classes", false, "llrl", { "input", "class", "probability", "then" }, add_classes },
    { "values", false, NULL, { NULL }, add_values },
    { "bits", false, "ll", { "input", "labels" }, add_bits },
    { "anomaly", false, "lr", { "input", "error" }, add_anomaly },
    { "images", true, "ll", { "input", "image" }, add_image },
    { "masks", true, "lll", { "input", "image", "pixels" }, add_mask },
    { "several", false, NULL, { NULL }, add_several },
};

static void put_heads(predicted *p)
{
    for (int i = 0; p->kind->form != NULL && !p->json && p->kind->form[i] != 0; i++) {
        cli_table_put(&p->table, p->kind->heads[i]);
    }
}

dt_status predicted_begin(dt_ctx *ctx, predicted *p)
{
    p->kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].target, p->data->target) == 0) p->kind = &kinds[i];
    }
    if (p->kind == NULL) {
        return dt_fail(ctx, DT_ERR_FORMAT, "the target '%.64s' is not known", p->data->target);
    }
    if (p->csv) return predicted_csv_begin(ctx, p);
    if (p->output != NULL && !p->kind->images) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "-o is for models that answer with images, or a file .csv for answers as a "
                       "table, - for standard output; this one gives %s",
                       p->data->target);
    }
    if (p->output != NULL && !is_png(p->output) && mkdir(p->output, 0777) != 0 && errno != EEXIST) {
        return dt_fail(ctx, DT_ERR_IO, "%s: cannot make the folder: %s", p->output,
                       strerror(errno));
    }
    p->table.form = p->form;
    put_heads(p);
    if (p->kind->form != NULL) snprintf(p->form, sizeof p->form, "%s", p->kind->form);
    if (p->json) putchar('[');
    return DT_OK;
}

dt_status predicted_file(dt_ctx *ctx, predicted *p, const char *path, int64_t count)
{
    p->path = path;
    p->count = count;
    if (p->csv || p->output == NULL || !is_png(p->output) || (p->n == 0 && count == 1))
        return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "-o %s is one file for several images; give a folder",
                   p->output);
}

/* Whether a quantile is above the next one. */
static bool crosses(const predicted *p, const predicted_example *e)
{
    const int64_t n = size_of(e->y), levels = p->data->n_quantiles;
    const float *v = levels < 2 ? NULL : row_of(e->y, e->i);
    for (int64_t i = 1; v != NULL && i < n; i++) {
        if (i % levels != 0 && !(v[i - 1] <= v[i])) return true;
    }
    return false;
}

dt_status predicted_add(dt_ctx *ctx, predicted *p, const predicted_example *e)
{
    const dt_status s = (p->csv ? predicted_csv_add : p->kind->add)(ctx, p, e);
    if (s == DT_OK) p->n++;
    if (s == DT_OK) p->crossed += crosses(p, e);
    if (s != DT_OK || p->json || p->csv || p->n % MOST_ROWS != 0) return s;
    meter_remove();
    cli_table_print(&p->table); /* printed batch by batch, so memory does not grow */
    put_heads(p);
    return DT_OK;
}

dt_status predicted_end(dt_ctx *ctx, predicted *p, bool good)
{
    if (p->crossed > 0) {
        meter_remove();
        fprintf(stderr, "detent: quantiles cross in %lld of %lld answers\n", (long long)p->crossed,
                (long long)p->n);
    }
    if (p->csv) return predicted_csv_end(ctx, p, good);
    if (p->json) puts(p->n > 0 ? "\n]" : "]");
    else if (p->n % MOST_ROWS > 0) cli_table_print(&p->table);
    else cli_table_free(&p->table);
    return DT_OK;
}
