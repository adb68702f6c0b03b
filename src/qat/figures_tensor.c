/* Figures of one quantized tensor: noise, clipped elements, and how often each code occurs.
 *
 *     snr = 10 log10(sum x^2 / sum (x - x^)^2),  x^ = (q - z) s
 *
 * Sums are of double, in the order of the elements, on the calling thread. */
#include "autograd/codes.h"
#include "qat/figures.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <math.h>

static void compare(const dt_tensor *x, const dt_tensor *dequantized, dt_quant_figures *out)
{
    const float *a = dt__values(x), *b = dt__values(dequantized);
    double signal = 0, noise = 0;
    float bound = 0;
    for (int64_t i = 0; i < x->count; i++) {
        const double value = a[i], error = (double)a[i] - (double)b[i];
        signal += value * value;
        noise += error * error;
        if (fabsf(a[i]) > bound) bound = fabsf(a[i]);
    }
    out->compared = true;
    out->snr = noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY;
    out->bound = bound;
}

static void fill_bins(const dt_tensor *x, dt_quant_figures *out)
{
    const float *a = dt__values(x);
    const double bound = out->bound, factor = bound > 0 ? 0.5 * DT_FIGURE_BINS / bound : 0;
    for (int64_t i = 0; i < x->count; i++) {
        const int bin = (int)(((double)a[i] + bound) * factor);
        out->bin[bin < DT_FIGURE_BINS ? bin : DT_FIGURE_BINS - 1]++;
    }
}

static void count_scales(const float *scale, int64_t n, dt_quant_figures *out)
{
    float least = n > 0 ? scale[0] : 0, most = least;
    for (int64_t i = 1; i < n; i++) {
        least = fminf(least, scale[i]);
        most = fmaxf(most, scale[i]);
    }
    out->least_scale = (double)least;
    out->most_scale = (double)most;
}

/* Counts the codes and scales of a weight, which are in panels. */
static dt_status count_panels(const dt__codes *codes, dt_quant_figures *out)
{
    dt_ctx *ctx = codes->ctx;
    const int64_t op_groups = dt__codes_op_groups(codes), blocks = codes->rows * codes->groups;
    const bool has_zero = codes->zero != NULL, moved = op_groups > 0;
    dt_code_rows rows = { .op_groups = op_groups };
    rows.codes = dt__alloc_array(ctx, codes->rows, (size_t)codes->columns);
    rows.scale = dt__alloc_array(ctx, blocks, sizeof(float));
    if (has_zero) rows.zero_point = dt__alloc_array(ctx, blocks, 1);
    if (moved) rows.group_of = dt__alloc_array(ctx, op_groups * codes->columns, sizeof(int32_t));
    const bool made = rows.codes != NULL && rows.scale != NULL &&
                      (!has_zero || rows.zero_point != NULL) && (!moved || rows.group_of != NULL);
    if (made) {
        const int lowest = 1 << (codes->bits - 1);
        dt__codes_to_rows(codes, &rows);
        for (int64_t i = 0; i < codes->rows * codes->columns; i++) {
            out->code[rows.codes[i] + lowest]++;
        }
        count_scales(rows.scale, blocks, out);
    }
    DT__RELEASE(ctx, rows.codes, rows.scale, rows.zero_point, rows.group_of);
    return made ? DT_OK : DT_ERR_NOMEM;
}

/* Counts the codes of other tensors, which are rows of u8. */
static dt_status count_rows(const dt__codes *codes, dt_quant_figures *out)
{
    const int lowest = 128 - (1 << (codes->bits - 1));
    uint8_t *row = dt__alloc(codes->ctx, (size_t)codes->columns + 64);
    if (row == NULL) return DT_ERR_NOMEM;
    for (int64_t r = 0; r < codes->rows; r++) {
        dt__codes_row(codes, NULL, r, row);
        for (int64_t i = 0; i < codes->columns; i++) out->code[row[i] - lowest]++;
    }
    dt__release(codes->ctx, row);
    count_scales(codes->scale, codes->rows * codes->groups, out);
    return DT_OK;
}

/* Whether the scheme has a code. */
static bool is_code(const dt__levels *levels, int code)
{
    if (levels == NULL) return true;
    if (levels->real != NULL) return dt__small_has(levels->real, (uint8_t)code);
    return levels->code[0] <= code && dt__level_of(levels, (float)code) == code;
}

/* Reverses the counts of negative floats, whose codes are in descending order. */
static void put_in_order(dt_quant_figures *out)
{
    for (int64_t i = 0, j = out->codes / 2 - 1; i < j; i++, j--) {
        const int64_t n = out->code[i];
        out->code[i] = out->code[j];
        out->code[j] = n;
    }
}

static dt_status count_codes(const dt__codes *codes, const dt__levels *levels,
                             dt_quant_figures *out)
{
    out->codes = (int64_t)1 << codes->bits;
    DT__TRY((codes->panels != NULL ? count_panels : count_rows)(codes, out));
    int64_t dead = 0, n = 0;
    for (int64_t i = 0; i < out->codes; i++) {
        if (!is_code(levels, (int)(i - out->codes / 2))) continue;
        dead += out->code[i] == 0;
        n++;
    }
    out->dead = (double)dead / (double)n;
    if (levels != NULL && levels->real != NULL) put_in_order(out);
    return DT_OK;
}

/* Compares dequantized values with the master, which is a view where a layer's input is one. */
static dt_status compare_master(dt_tensor *x, const dt__codes *codes, dt_quant_figures *out)
{
    dt_tensor *dequantized = NULL, *master;
    const dt__fq *fq = x->ext;
    const dt_tensor *home = fq->inner->storage != NULL ? fq->inner : x;
    DT__TRY(dt__contiguous(x->ctx, home, &master));
    const dt_status s = dt__dequantized(x->ctx, x, codes, &dequantized);
    if (s == DT_OK) {
        compare(master, dequantized, out);
        fill_bins(master, out);
        out->clipped = (double)codes->clipped / (double)dt__max_i64(x->count, 1);
    }
    DT__TENSORS_FREE(master, dequantized);
    return s;
}

static bool is_enabled(const dt_tensor *x)
{
    return dt_is_fake_quant(x) && ((const dt__fq *)x->ext)->enabled;
}

dt_status dt__figures_of(dt_tensor *x, dt_quant_spec *quant, dt_quant_figures *out)
{
    if (!is_enabled(x) && !dt_is_packed(x)) return DT_OK;
    dt__codes *codes = NULL;
    *out = (dt_quant_figures){ .given = true, .elements = x->count };
    *quant = *dt__quant_of(x);
    if (is_enabled(x)) {
        DT__TRY(dt__fq_codes(x, &codes));
    } else {
        codes = ((const dt__packed *)x->ext)->codes;
        dt__codes_retain(codes);
    }
    dt_status s = count_codes(codes, dt__levels_of(quant), out);
    if (s == DT_OK && is_enabled(x)) s = compare_master(x, codes, out);
    dt__codes_release(codes);
    return s;
}
