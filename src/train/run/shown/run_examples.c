/* Writes examples.json (examples.h): the head of the object, and the rest by the kind of
 * targets. */
#include "core/text/base64.h"
#include "core/tensor.h"
#include "train/task/examples.h"
#include "train/run/run_outputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_PIXELS (1 << 16) /* of a picture: larger ones are left out */

/* ---- pictures ------------------------------------------------------------------------------- */

static void find_range(const dt__picture *p, int64_t count, double *black, double *white)
{
    *black = p->black;
    *white = p->white;
    if (*black < *white) return;
    float least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        least = fminf(least, p->value[i]);
        most = fmaxf(most, p->value[i]);
    }
    *black = (double)least;
    *white = (double)most;
}

static uint8_t shade(double value, double black, double white)
{
    const double share = white > black ? (value - black) / (white - black) : 0;
    return share > 0 ? (uint8_t)(fmin(share, 1) * 255 + 0.5) : 0;
}

/* Converts to bytes, with the channels of a pixel side by side. */
static uint8_t *shades(dt_ctx *ctx, const dt__picture *p, int64_t count)
{
    double black, white;
    const int64_t pixels = p->height * p->width;
    uint8_t *bytes = dt__alloc(ctx, (uint64_t)count);
    if (bytes == NULL) return NULL;
    find_range(p, count, &black, &white);
    for (int64_t i = 0; i < count; i++) {
        const double value = (double)p->value[i % p->channels * pixels + i / p->channels];
        bytes[i] = shade(value, black, white);
    }
    return bytes;
}

static void put_extent(dt__chars *t, const char *name, int64_t extent)
{
    DT__PUT_ALL(t, name, extent);
}

void dt__put_picture(dt__chars *t, const dt__picture *p)
{
    int64_t count;
    const int64_t dims[] = { p->channels, p->height, p->width };
    const bool shown = dt__product(3, dims, &count) && count <= 3 * MOST_PIXELS && count > 0 &&
                       (p->channels == 1 || p->channels == 3);
    if (!shown) {
        dt__put_text(t, "null");
        return;
    }
    uint8_t *bytes = shades(t->ctx, p, count);
    if (bytes == NULL) t->failed = true;
    if (bytes == NULL) return;
    put_extent(t, "{\"width\": ", p->width);
    put_extent(t, ", \"height\": ", p->height);
    put_extent(t, ", \"channels\": ", p->channels);
    dt__put_text(t, ", \"bytes\": \"");
    dt__put_base64(t, bytes, (size_t)count);
    dt__put_text(t, "\"}");
    dt__release(t->ctx, bytes);
}

/* Images are shown unchanged; tables of numbers [1, rows, columns] and [rows, columns] as pictures,
 * unless one side is very short. */
void dt__put_shown(const dt__examples *e, const dt_tensor *x, const float *value)
{
    const int rank = x->rank - 1;
    const int64_t *dims = x->dims + 1;
    dt__picture p = { .channels = 1, .value = value };
    if (rank == 2 || rank == 3) {
        p.channels = rank == 3 ? dims[0] : 1;
        p.height = dims[rank - 2];
        p.width = dims[rank - 1];
    }
    if (e->no_pictures || p.height < 4 || p.width < 4 || p.height > 16 * p.width ||
        x->dtype != DT_F32) {
        dt__put_text(e->t, "null");
    } else {
        dt__put_picture(e->t, &p);
    }
}

void dt__put_shown_input(const dt__examples *e, const dt_tensor *x)
{
    dt__put_shown(e, x, dt_data(x));
}

void dt__put_visible(dt__chars *t, const char *text, size_t bytes)
{
    char out[DT_TEXT_JSON];
    dt__put_text(t, "\"");
    for (size_t i = 0, took; i < bytes; i += took) {
        took = dt_text_json(text + i, bytes - i, out);
        dt__put_text(t, out);
    }
    dt__put_text(t, "\"");
}

void dt__put_class(const dt__examples *e, int64_t k)
{
    char number[24];
    const char *name = dt_dataset_class_name(e->d, k);
    if (name == NULL) {
        snprintf(number, sizeof number, "%lld", (long long)k);
        name = number;
    }
    dt__put_visible(e->t, name, strlen(name));
}

/* ---- examples ------------------------------------------------------------------------------- */

dt_status dt__examples_at(const dt__examples *e, int64_t i, dt_tensor **x, dt_tensor **target)
{
    DT__TRY(dt_loader_seek(e->loader, (dt_position){ 0, i }));
    return dt_loader_next(e->loader, x, target);
}

int64_t dt__largest(const double *cost, int64_t n, double least, int64_t wanted, int64_t *place)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(cost[i] > least)) continue;
        if (found == wanted && !(cost[i] > cost[place[found - 1]])) continue;
        int64_t at = found < wanted ? found++ : found - 1;
        for (; at > 0 && cost[place[at - 1]] < cost[i]; at--) place[at] = place[at - 1];
        place[at] = i;
    }
    return found;
}

typedef struct kind {
    const char *name;
    dt_status (*write)(const dt__examples *e);
} kind;

static const kind kinds[] = {
    [DT_TARGET_CLASS] = { "classes", dt__examples_of_classes },
    [DT_TARGET_IMAGE] = { "images", dt__examples_of_images },
    [DT_TARGET_MASK] = { "masks", dt__examples_of_masks },
    [DT_TARGET_TOKENS] = { "tokens", dt__examples_of_tokens },
    [DT_TARGET_VALUES] = { "values", dt__examples_of_values },
    [DT_TARGET_BITS] = { "bits", dt__examples_of_bits },
    [DT_TARGET_ANOMALY] = { "anomaly", dt__examples_of_anomaly },
};

/* Writes the fields of one output; `name` NULL: the only one. */
static dt_status put_fields(const dt__run *r, const dt__examples *e, const char *name)
{
    const dt_target target = dt_dataset_target(e->d);
    const kind *k = &kinds[target];
    dt__put_text(e->t, "{\"kind\": ");
    dt__put_quoted(e->t, k->name);
    if (name != NULL) dt__put_text(e->t, ", \"output\": ");
    if (name != NULL) dt__put_quoted(e->t, name);
    DT__PUT_ALL(e->t, ", \"evaluated_on\": ", DT__QUOTED(r->summary->evaluated_on));
    put_extent(e->t, ", \"examples\": ", e->n);
    dt__put_text(e->t, ",\n ");
    DT__TRY(k->write(e));
    dt__put_text(e->t, "}");
    return DT_OK;
}

static bool is_known(const dt_dataset *d)
{
    const size_t target = (size_t)dt_dataset_target(d);
    return target < DT__COUNT_OF(kinds) && kinds[target].write != NULL;
}

/* Appends the fields of an output, if there is something to show. */
static dt_status put_output(dt__run *r, dt__examples e, const dt__run_output *o)
{
    const dt_loader_options one = { .batch_size = 1 };
    if (!is_known(&o->d) || o->y->count == 0) return DT_OK;
    e.d = &o->d;
    e.n = o->y->dims[0];
    e.each = o->y->count / e.n;
    e.y = dt_data(o->y);
    e.no_pictures = o->name != NULL;
    dt_status s = dt_loader_create(&o->d, &one, &e.loader);
    if (s == DT_OK) s = put_fields(r, &e, o->name);
    dt_loader_free(e.loader);
    return s;
}

dt_status dt__run_write_examples(dt__run *r, dt_module *m, dt_tensor *outputs)
{
    const bool several = dt_dataset_target(r->data.evaluated) == DT_TARGET_SEVERAL;
    dt_status s = DT_OK;
    dt__chars t = { .ctx = r->ctx };
    if (!dt__run_writes(r) || !r->o->run.report) return DT_OK;
    if ((!several && !is_known(r->data.evaluated)) || outputs->count == 0) return DT_OK;
    if (several) dt__put_text(&t, "{\"kind\": \"several\", \"outputs\": [");
    for (int i = 0; s == DT_OK; i++) {
        dt__run_output o;
        s = dt__run_output_open(r, i, outputs, &o);
        const bool there = s == DT_OK && o.y != NULL;
        if (there && i > 0) dt__put_text(&t, ",\n ");
        if (there) s = put_output(r, (dt__examples){ .ctx = r->ctx, .t = &t, .m = m }, &o);
        dt__run_output_close(&o);
        if (!there) break;
    }
    dt__put_text(&t, several ? "\n]}\n" : "\n");
    if (s == DT_OK) s = t.failed ? DT_ERR_NOMEM : dt__run_write_shown(r, "examples.json", &t);
    dt__release(r->ctx, t.bytes);
    return s == DT_ERR_NUMERIC ? DT_OK : s; /* the model has non-finite values */
}
