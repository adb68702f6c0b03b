/* Runs an exported TFLite file, one example at a time, and compares it with its model. */
#include "export/trace/random_inputs.h"
#include "export/verify/exported.h"
#include "export/verify/tflite/verify_tflite.h"

#include "core/system/atomic_file.h"
#include "core/tensor.h"
#include "io/tflite/lite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The file, and values to compare. */
typedef struct comparison {
    dt_ctx *ctx;
    const char *path; /* the end of the path */
    dt__vlite *file;
    float *moved; /* memory for two copies of all values */
    int64_t room;
    int64_t batch; /* examples per run */
    /* Bit sets over inputs, then outputs: `either`: extents fit both channels first and channels
     * last; `first`: channels are first. */
    uint64_t either, first;
} comparison;

static dt_status find_layout(comparison *k, const dt_tensor *x, const dt__vlite_tensor *t, int end,
                             bool *last)
{
    char wanted[160], own[160];
    const bool whole = t->rank > 0 && t->dims[0] == k->batch;
    const bool plain =
        whole && t->rank == x->rank &&
        memcmp(t->dims + 1, x->dims + 1, (size_t)(t->rank - 1) * sizeof *t->dims) == 0;
    *last = whole && dt__exported_last(x, t->rank - 1, t->dims + 1);
    if (*last && plain && x->dims[1] > 1) {
        k->either |= UINT64_C(1) << end;
        *last = (k->first >> end & 1) == 0;
    }
    if (*last || plain) return DT_OK;
    dt__dims_text(x->rank, x->dims, wanted, sizeof wanted);
    dt__dims_text(t->rank, t->dims, own, sizeof own);
    return dt_fail(k->ctx, DT_ERR_FORMAT, "%s: %s of the file is %s, of the model %s", k->path,
                   end < dt__vlite_inputs(k->file) ? "an input" : "an output", own, wanted);
}

/* Transposes the examples of a run from [C, pixels] to [pixels, C], or back. */
static float *move(const comparison *k, const float *from, const dt_tensor *of, bool back)
{
    const int64_t n = of->count / of->dims[0], channels = dt__max_i64(1, of->dims[1]);
    dt__exported_turn(from, k->batch, channels, n / channels, back, k->moved);
    return k->moved;
}

static dt_status give(comparison *k, int i, const dt_tensor *x, int64_t example)
{
    const dt__vlite_tensor *t = dt__vlite_input(k->file, i);
    bool last;
    const bool real = (t->type == DT__VLITE_F32 || dt__vlite_is_coded(t)) && x->dtype == DT_F32;
    if (!real && !(t->type == DT__VLITE_I32 && x->dtype == DT_I32)) {
        return dt_fail(k->ctx, DT_ERR_FORMAT, "%s: input %d has another type than the model's",
                       k->path, i);
    }
    DT__TRY(find_layout(k, x, t, i, &last));
    const int64_t n = x->count / x->dims[0];
    const char *from = (const char *)dt_data(x) + (size_t)(example * n) * 4;
    const float *floats = (const float *)(const void *)from;
    if (last && real) floats = move(k, floats, x, false);
    return real ? dt__vlite_give_floats(k->file, i, floats) : dt__vlite_give(k->file, i, floats);
}

static dt_status compare(comparison *k, int i, const dt_tensor *y, int64_t example,
                         dt_export_difference *d, double *largest)
{
    const dt__vlite_tensor *t = dt__vlite_output(k->file, i);
    const int64_t n = y->count / y->dims[0], all = k->batch * n;
    bool last;
    if (y->dtype != DT_F32 || (t->type != DT__VLITE_F32 && !dt__vlite_is_coded(t))) {
        return dt_fail(k->ctx, DT_ERR_FORMAT, "%s: output %d is neither float nor int8", k->path,
                       i);
    }
    DT__TRY(find_layout(k, y, t, dt__vlite_inputs(k->file) + i, &last));
    float *value = k->moved + k->room / 2;
    for (int64_t j = 0; j < all; j++) value[j] = dt__vlite_float(t, j);
    if (last) value = move(k, value, y, true);
    dt__add_difference(value, (const float *)dt_data(y) + example * n, all, d, largest);
    return DT_OK;
}

static dt_status run(comparison *k, const dt__verify_tensors *of, dt_export_difference *out)
{
    double largest[DT_MAX_OUT] = { 0 };
    if (dt__vlite_inputs(k->file) != of->n_in || dt__vlite_outputs(k->file) != of->n_out) {
        return dt_fail(
            k->ctx, DT_ERR_FORMAT, "%s: %d input%s and %d output%s, but the model has %d and %d",
            k->path, dt__vlite_inputs(k->file), DT__S(dt__vlite_inputs(k->file)),
            dt__vlite_outputs(k->file), DT__S(dt__vlite_outputs(k->file)), of->n_in, of->n_out);
    }
    for (int i = 0; i < of->n_out; i++) {
        if (of->y[i]->dims[0] == of->x[0]->dims[0]) continue;
        return dt_fail(k->ctx, DT_ERR_UNSUPPORTED,
                       "%s: output %d has more rows than the batch: its examples cannot be "
                       "compared",
                       k->path, i);
    }
    for (int i = 0; i < of->n_in; i++) k->room += of->x[i]->count;
    for (int i = 0; i < of->n_out; i++) k->room += of->y[i]->count;
    k->room *= 2;
    k->moved = dt__alloc_array(k->ctx, k->room, sizeof *k->moved);
    if (k->moved == NULL) return DT_ERR_NOMEM;
    for (int64_t example = 0; example < of->x[0]->dims[0]; example += k->batch) {
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

/* Runs the examples one by one, or all at once if the file leaves the batch open. */
static dt_status open_and_run(comparison *k, const dt__span *file, const dt__verify_tensors *of,
                              bool all, dt_export_difference *out)
{
    for (int i = 0; i < of->n_out; i++) out[i] = (dt_export_difference){ .values = 0 };
    k->room = 0;
    k->batch = 1;
    dt_status s = dt__vlite_open(k->ctx, k->path, file, NULL, &k->file);
    if (s == DT_OK && all) {
        k->batch = dt__vlite_is_open(k->file) ? of->x[0]->dims[0] : 0;
        dt__vlite_resize(k->file, k->batch);
    }
    if (s == DT_OK && k->batch > 0) s = run(k, of, out);
    dt__release(k->ctx, k->moved);
    k->moved = NULL;
    dt__vlite_close(k->file);
    return s;
}

/* inputs and outputs of ambiguous layout for which all combinations are tried */
#define MOST_EITHER 6

static double sum_of(const dt_export_difference *d, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += d[i].absolute;
    return isnan(sum) ? INFINITY : sum;
}

/* A file does not declare which inputs and outputs have channels last. If extents are ambiguous,
 * such as [4, 4, 4], the layouts with the least differences are chosen. */
static dt_status find_ends(comparison *k, const dt__span *file, const dt__verify_tensors *of,
                           dt_export_difference *out)
{
    dt_export_difference other[DT_MAX_OUT];
    DT__TRY(open_and_run(k, file, of, false, out));
    uint64_t best = 0, left = k->either;
    int n = 0;
    for (uint64_t bits = left; bits != 0; bits &= bits - 1) n++;
    if (n > MOST_EITHER) return DT_OK;
    for (uint64_t ends = left; ends != 0 && sum_of(out, of->n_out) > 0; ends = (ends - 1) & left) {
        k->first = ends;
        DT__TRY(open_and_run(k, file, of, false, other));
        if (sum_of(other, of->n_out) >= sum_of(out, of->n_out)) continue;
        best = ends;
        memcpy(out, other, (size_t)of->n_out * sizeof *out);
    }
    k->first = best;
    return DT_OK;
}

/* Compares the results of single examples. If all examples are run at once, each output must have
 * the same bits. */
dt_status dt__verify_tflite(dt_ctx *ctx, const char *path, const dt__span *file,
                            const dt__verify_tensors *of, dt_export_difference *out)
{
    dt_export_difference again[DT_MAX_OUT];
    comparison k = { .ctx = ctx, .path = dt__path_tail(path) };
    DT__TRY(find_ends(&k, file, of, out));
    DT__TRY(open_and_run(&k, file, of, true, again));
    for (int i = 0; i < of->n_out && k.batch > 0; i++) {
        if (again[i].equal == out[i].equal && again[i].absolute == out[i].absolute) continue;
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "%s: %s of %lld examples at once differs from that of each alone", k.path,
                       again[i].output, (long long)k.batch);
    }
    return DT_OK;
}
