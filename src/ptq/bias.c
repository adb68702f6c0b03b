/* Bias correction: adds to the bias how much rounding the weight changed the mean of the layer's
 * outputs.   [Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias
 * Correction, section 4.2, with calibration data in place of the statistics of norms]
 *
 *     b += W E[x] - W^ E[x^]
 *
 * E is the mean over the samples of all batches, x the layer's input in the float model, x^ its
 * input in the model whose earlier layers are rounded and corrected. So the mean of each output
 * before its activation is that of the float model.
 *
 * Sums are in double, sample by sample: neither threads nor batches change their bits. */
#include "autograd/write.h"
#include "core/tensor.h"
#include "kernels/convolution/row_map.h"
#include "ptq/ptq_work.h"
#include "ptq/target.h"
#include "qat/quantized.h"

#include <math.h>

enum { LINES = 16, PIECE = 256 }; /* columns of a thread's item; samples unfolded at once */

struct dt__means {
    dt_ctx *ctx;
    dt__unfolding layer;
    int64_t samples;
    double *sum[2]; /* [columns of all groups]: sums of x^, and of x; sum[1] NULL: x is x^ */
};

dt_status dt__means_create(dt_ctx *ctx, dt_module *layer, bool differ, dt__means **out)
{
    dt_weight_op op;
    dt__unfolding of;
    const dt_tensor *w = dt__entry_find(layer, "weight")->x;
    *out = NULL;
    if (!dt__weight_op_of(layer, &op) || op.kind == DT_WEIGHT_GROUPED_LINEAR) return DT_OK;
    DT__TRY(dt__unfolding_of(ctx, &op, w->rank, w->dims, &of));
    dt__means *m = dt__alloc_zero(ctx, sizeof *m);
    if (m == NULL) return DT_ERR_NOMEM;
    *m = (dt__means){ .ctx = ctx, .layer = of };
    const int64_t columns = of.groups * of.columns;
    for (int i = 0; i < (differ ? 2 : 1); i++) {
        m->sum[i] = dt__alloc_zero(ctx, (size_t)columns * sizeof(double) + 1);
        if (m->sum[i] != NULL) continue;
        dt__means_free(m);
        return DT_ERR_NOMEM;
    }
    *out = m;
    return DT_OK;
}

void dt__means_free(dt__means *m)
{
    if (m == NULL) return;
    dt_ctx *ctx = m->ctx;
    DT__RELEASE(ctx, m->sum[0], m->sum[1], m);
}

DT__EACH(add_lines, item, const dt__inputs *in; int64_t columns; double *sum;)
{
    double part[LINES * PIECE];
    const int64_t first = item * LINES, past = dt__min_i64(first + LINES, a.columns);
    for (int64_t at = 0; at < a.in->samples; at += PIECE) {
        const int64_t n = dt__min_i64(PIECE, a.in->samples - at);
        const dt__patch patch = {
            .r0 = first, .r1 = past, .c0 = at, .c1 = at + n, .y = part, .ldy = PIECE
        };
        dt__inputs_unfold(a.in, &patch);
        for (int64_t c = first; c < past; c++) {
            for (int64_t i = 0; i < n; i++) a.sum[c] += part[(c - first) * PIECE + i];
        }
    }
}

dt_status dt__means_add(dt__means *m, const dt_tensor *xq, const dt_tensor *x)
{
    const dt_tensor *const of[] = { xq, x };
    const int64_t columns = m->layer.groups * m->layer.columns;
    for (int i = 0; i < 2 && m->sum[i] != NULL; i++) {
        dt__inputs in;
        DT__TRY(dt__inputs_of(m->ctx, &m->layer, of[i], &in));
        dt__team *const threads = dt__threads_enter(m->ctx);
        dt__parallel(dt__ceil_div(columns, LINES), LINES * in.samples, add_lines_share,
                     &(add_lines_args){ &in, columns, m->sum[i] });
        dt__threads_leave(threads);
        if (i == 0) m->samples += in.samples;
    }
    return DT_OK;
}

/* out[r] += sign sum W[r][c] sum[c] / samples, for all rows r of the weight. */
static dt_status add_rows(const dt__means *m, const dt_tensor *w, const dt__row_map *map,
                          const double *sum, double sign, double *out)
{
    dt_tensor *made;
    DT__TRY(dt__matrix_of(w, map, &made));
    const float *v = dt__values(made != NULL ? made : w);
    const int64_t columns = m->layer.columns, rows = w->count / dt__max_i64(1, columns);
    const int64_t each = dt__max_i64(1, rows / m->layer.groups);
    for (int64_t r = 0; r < rows; r++) {
        double total = 0;
        for (int64_t c = 0; c < columns; c++) {
            total += (double)v[r * columns + c] * sum[r / each * columns + c];
        }
        out[r] += sign * total / (double)m->samples;
    }
    dt_tensor_free(made);
    return DT_OK;
}

static dt_status add_to_bias(dt_module *layer, const double *shift)
{
    char why[DT__WHY_SIZE];
    dt_tensor *b = dt__entry_find(layer, "bias")->x;
    if (dt__may_write(b, NULL, why) != DT__WRITABLE) {
        return dt_fail(b->ctx, DT_ERR_STATE, "ptq: the bias of %s %s", layer->path, why);
    }
    for (int64_t r = 0; r < b->count; r++) {
        if (isfinite(shift[r])) continue;
        return dt_fail(b->ctx, DT_ERR_NUMERIC, "ptq: the error of output %lld of %s is %g",
                       (long long)r, layer->path, shift[r]);
    }
    float *to = dt__values_mut(dt__write_open(b));
    for (int64_t r = 0; r < b->count; r++) to[r] = (float)((double)to[r] + shift[r]);
    dt__write_close(b);
    return DT_OK;
}

dt_status dt__bias_correct(const dt__means *m, dt_module *layer, const dt_tensor *before,
                           bool *corrected)
{
    const dt__entry *bias = dt__entry_find(layer, "bias"), *w = dt__entry_find(layer, "weight");
    *corrected = false;
    if (bias == NULL || m->samples == 0) return DT_OK;
    dt_tensor *after;
    const dt__row_map map = *dt__row_map_of_weight(w->x);
    double *shift = dt__alloc_zero(m->ctx, (size_t)bias->x->count * sizeof *shift + 1);
    if (shift == NULL) return DT_ERR_NOMEM;
    dt_status s = dt_dequantize(w->x, &after);
    if (s == DT_OK) {
        s = add_rows(m, before, &map, m->sum[m->sum[1] != NULL ? 1 : 0], 1, shift);
        if (s == DT_OK) s = add_rows(m, after, &map, m->sum[0], -1, shift);
        dt_tensor_free(after);
    }
    if (s == DT_OK) s = add_to_bias(layer, shift);
    dt__release(m->ctx, shift);
    *corrected = s == DT_OK;
    return s;
}
