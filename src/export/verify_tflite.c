/* Running an exported TFLite file beside its model, example by example. */
#include "export/random_inputs.h"
#include "export/verify_tflite.h"

#include "core/atomic_file.h"
#include "core/tensor.h"
#include "export/verify_lite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is read and compared. */
typedef struct comparison {
    dt_ctx *ctx;
    const char *path; /* its tail */
    dt__vlite *file;
    float *moved; /* room for an example */
    int64_t room;
} comparison;

/* Whether extents of an example [C, ...] are those of the file's tensor, channels last there or
 * not. Where both are, an image has its channels last. */
static bool fits(const dt_tensor *x, const dt__vlite_tensor *t, bool last)
{
    if (t->rank != x->rank || t->dims[0] != 1) return false;
    if (last && x->rank < 3) return false;
    bool same = true;
    for (int d = 1; d < x->rank; d++) {
        const int own = !last ? d : d == x->rank - 1 ? 1 : d + 1;
        same = same && t->dims[d] == x->dims[own];
    }
    return same;
}

static dt_status find_layout(const comparison *k, const dt_tensor *x, const dt__vlite_tensor *t,
                             const char *what, bool *last)
{
    char wanted[160], own[160];
    *last = fits(x, t, true);
    if (*last || fits(x, t, false)) return DT_OK;
    dt__dims_text(x->rank, x->dims, wanted, sizeof wanted);
    dt__dims_text(t->rank, t->dims, own, sizeof own);
    return dt_fail(k->ctx, DT_ERR_FORMAT, "%s: %s of the file is %s, of the model %s", k->path,
                   what, own, wanted);
}

/* An example of [C, pixels] as [pixels, C], or back. */
static void move(float *to, const float *from, int64_t channels, int64_t pixels, bool back)
{
    for (int64_t i = 0; i < channels * pixels; i++) {
        const int64_t c = i / pixels, p = i % pixels;
        if (back) to[i] = from[p * channels + c];
        else to[p * channels + c] = from[i];
    }
}

/* Codes of floats, as TFLite's QUANTIZE makes them. */
static dt_status give_codes(comparison *k, int i, const dt__vlite_tensor *t, const float *x)
{
    int32_t *codes = (int32_t *)(void *)(k->moved + k->room / 2);
    for (int64_t j = 0; j < t->count; j++) {
        const float code = roundf(x[j] / t->scale[0]) + (float)t->zero[0];
        codes[j] = !(code > -128) ? -128 : code > 127 ? 127 : (int32_t)code;
    }
    return dt__vlite_give(k->file, i, codes);
}

static dt_status give(comparison *k, int i, const dt_tensor *x, int64_t example)
{
    const dt__vlite_tensor *t = dt__vlite_input(k->file, i);
    bool last;
    const bool coded = dt__vlite_is_coded(t);
    const bool real = (t->type == DT__VLITE_F32 || coded) && x->dtype == DT_F32;
    if (!real && !(t->type == DT__VLITE_I32 && x->dtype == DT_I32)) {
        return dt_fail(k->ctx, DT_ERR_FORMAT, "%s: input %d has another type than the model's",
                       k->path, i);
    }
    DT__TRY(find_layout(k, x, t, "an input", &last));
    const int64_t n = x->count / x->dims[0];
    const char *from = (const char *)dt_data(x) + (size_t)(example * n) * 4;
    const float *floats = (const float *)(const void *)from;
    if (last && real) {
        move(k->moved, floats, x->dims[1], n / x->dims[1], false);
        floats = k->moved;
    }
    return coded ? give_codes(k, i, t, floats) : dt__vlite_give(k->file, i, floats);
}

/* ---- comparison ------------------------------------------------------------------------------ */

static dt_status compare(comparison *k, int i, const dt_tensor *y, int64_t example,
                         dt_export_difference *d, double *largest)
{
    const dt__vlite_tensor *t = dt__vlite_output(k->file, i);
    const int64_t n = y->count / y->dims[0];
    bool last;
    if (y->dtype != DT_F32 || (t->type != DT__VLITE_F32 && !dt__vlite_is_coded(t))) {
        return dt_fail(k->ctx, DT_ERR_FORMAT, "%s: output %d is neither float nor int8", k->path,
                       i);
    }
    DT__TRY(find_layout(k, y, t, "an output", &last));
    float *value = k->moved + k->room / 2;
    for (int64_t j = 0; j < n; j++) {
        value[j] = t->f != NULL ? t->f[j] : (float)(t->q[j] - t->zero[0]) * t->scale[0];
    }
    if (last) {
        move(k->moved, value, y->dims[1], n / y->dims[1], true);
        value = k->moved;
    }
    dt__add_difference(value, (const float *)dt_data(y) + example * n, n, d, largest);
    return DT_OK;
}

static dt_status run(comparison *k, const dt__verify_tensors *of, dt_export_difference *out)
{
    double largest[DT_MAX_OUT] = { 0 };
    if (dt__vlite_inputs(k->file) != of->n_in || dt__vlite_outputs(k->file) != of->n_out) {
        return dt_fail(k->ctx, DT_ERR_FORMAT,
                       "%s: %d inputs and %d outputs, but the model has %d and %d", k->path,
                       dt__vlite_inputs(k->file), dt__vlite_outputs(k->file), of->n_in, of->n_out);
    }
    for (int i = 0; i < of->n_in; i++) k->room += of->x[i]->count;
    for (int i = 0; i < of->n_out; i++) k->room += of->y[i]->count;
    k->room *= 2;
    k->moved = dt__alloc_array(k->ctx, k->room, sizeof *k->moved);
    if (k->moved == NULL) return DT_ERR_NOMEM;
    for (int64_t example = 0; example < of->x[0]->dims[0]; example++) {
        for (int i = 0; i < of->n_in; i++) DT__TRY(give(k, i, of->x[i], example));
        DT__TRY(dt__vlite_run(k->file));
        for (int i = 0; i < of->n_out; i++) {
            DT__TRY(compare(k, i, of->y[i], example, &out[i], &largest[i]));
        }
    }
    for (int i = 0; i < of->n_out; i++) {
        snprintf(out[i].output, sizeof out[i].output, "%.*s", (int)sizeof out[i].output - 1,
                 of->name != NULL ? of->name[i].text : "output");
        out[i].values = of->y[i]->count;
    }
    return DT_OK;
}

bool dt__verify_is_tflite(const void *bytes, size_t n)
{
    return n >= 8 && memcmp((const char *)bytes + 4, "TFL3", 4) == 0;
}

dt_status dt__verify_tflite(dt_ctx *ctx, const char *path, const dt__span *file,
                            const dt__verify_tensors *of, dt_export_difference *out)
{
    comparison k = { .ctx = ctx, .path = dt__path_tail(path) };
    for (int i = 0; i < of->n_out; i++) out[i] = (dt_export_difference){ .values = 0 };
    dt_status s = dt__vlite_open(ctx, k.path, file, NULL, &k.file);
    if (s == DT_OK) s = run(&k, of, out);
    dt__release(ctx, k.moved);
    dt__vlite_close(k.file);
    return s;
}
