/* Settings of rounding: defaults, keys and checks. */
#include "ptq/keys.h"
#include "ptq/matrix.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <stdio.h>

#define MOST_INPUT 65536 /* keeps sums of codes times inputs within 64 bits */

static const dt__method methods[DT__METHODS] = {
#define DT__ROUNDER(name, number) [number] = { #name, &dt__round_##name, false },
#define DT__BOUNDED(name, number) [number] = { "a2" #name, &dt__round_##name, true },
#include "ptq/rounders.inc"
#undef DT__ROUNDER
#undef DT__BOUNDED
};

const dt__method *dt__method_of(int rounder)
{
    return rounder < 0 || rounder >= DT__METHODS ? NULL : &methods[rounder];
}

unsigned dt__method_reads(const dt__method *method)
{
    return method->rounder->reads | (method->bounded ? DT__READS_ACCUMULATOR : 0);
}

const char *dt__methods_that_read(unsigned reads, char text[DT__METHODS_TEXT])
{
    int last = DT__METHODS - 1, used = 0;
    text[0] = 0;
    while (last >= 0 && !(dt__method_reads(&methods[last]) & reads)) last--;
    for (int i = 0; i <= last && used < DT__METHODS_TEXT; i++) {
        if (!(dt__method_reads(&methods[i]) & reads)) continue;
        const char *before = used == 0 ? "" : i == last ? " and " : ", ";
        used += snprintf(text + used, (size_t)(DT__METHODS_TEXT - used), "%s%s", before,
                         methods[i].name);
    }
    return text;
}

/* ---- keys ----------------------------------------------------------------------------------- */

const char *const dt__rounder_names[DT__METHODS + 1] = {
#define DT__ROUNDER(name, number) [number] = #name,
#define DT__BOUNDED(name, number) [number] = "a2" #name,
#include "ptq/rounders.inc"
#undef DT__ROUNDER
#undef DT__BOUNDED
};
static const char *const order_names[] = { "none", "weight", "group", NULL };
static const char *const mean_names[] = { "live", "all", NULL };
static const char *const scales_names[] = { "frozen", "refresh", NULL };
static const char *const diffuse_names[] = { "clamped", "all", NULL };

#define OF_ROUNDING(field) .offset = offsetof(dt_rounding, field)

const dt_key dt__rounding_keys[] = {
    { "order", DT_KEY_CHOICE, OF_ROUNDING(order), .choices = order_names, .fallback = "none",
      .text = "order of columns; weight, group: by decreasing mean square of inputs" },
    { "damping", DT_KEY_REAL, OF_ROUNDING(damping), .most = 1e6, .fallback = "0.01",
      .text = "of gptq: damping as a share of the columns' mean square" },
    { "damping_absolute", DT_KEY_REAL, OF_ROUNDING(damping_absolute), .most = DT_NO_LIMIT,
      .fallback = "0", .text = "of gptq and qronos: absolute damping; 0: the share" },
    { "damping_mean", DT_KEY_CHOICE, OF_ROUNDING(damping_mean), .choices = mean_names,
      .fallback = "live", .text = "of gptq: the mean over columns with inputs, or over all" },
    { "alpha", DT_KEY_REAL, OF_ROUNDING(alpha), .most = 1e6, .fallback = "1e-6",
      .text = "of qronos: damping as a share of the largest eigenvalue" },
    { "block", DT_KEY_INT, OF_ROUNDING(block), .least = 1, .most = 1 << 30, .fallback = "128",
      .text = "columns per block; no result depends on it" },
    { "least_rows", DT_KEY_INT, OF_ROUNDING(least_rows), .most = DT_NO_LIMIT, .fallback = "0",
      .text = "experts with fewer rows are rounded to nearest; 0: as many as columns" },
    { "keep_zeros", DT_KEY_BOOL, OF_ROUNDING(keep_zeros), .fallback = "false",
      .text = "zeros stay 0 in weights with 5 % or more" },
    { "keep_better", DT_KEY_BOOL, OF_ROUNDING(keep_better), .fallback = "true",
      .text = "use nearest for rows where its error is smaller" },
    { "group_scales", DT_KEY_CHOICE, OF_ROUNDING(group_scales), .choices = scales_names,
      .fallback = "frozen",
      .text = "of gptq: scales of groups from the original or the compensated weight" },
    { 0 },
};

#define OF_ACCUMULATOR(field) .offset = offsetof(dt_accumulator, field)

const dt_key dt__accumulator_keys[] = {
    { "bits", DT_KEY_INT, OF_ACCUMULATOR(bits), .most = 32, .fallback = "0",
      .text = "bits of an accumulator, 2 to 32; the a2 rounders need it" },
    { "tile", DT_KEY_INT, OF_ACCUMULATOR(tile), .most = 1 << 30, .fallback = "0",
      .text = "columns per accumulator, at most a scale group; 0: all of a scale" },
    { "input", DT_KEY_INTS, OF_ACCUMULATOR(input), .least = -MOST_INPUT, .most = MOST_INPUT,
      .text = "least and largest integer of inputs; absent: of the layer's codes, or [0, 255]" },
    { "soft_threshold", DT_KEY_BOOL, OF_ACCUMULATOR(soft_threshold), .fallback = "false",
      .text = "values are shrunk before they are clamped" },
    { "diffuse", DT_KEY_CHOICE, OF_ACCUMULATOR(diffuse), .choices = diffuse_names,
      .fallback = "clamped",
      .text = "errors that later columns compensate: of rounding, or of clamping too" },
    { 0 },
};

const dt_key dt_rounding_options_keys[] = {
    DT__ROUNDING_OPTIONS_KEYS(0),
    { 0 },
};

dt_rounding_options dt_rounding_defaults(void)
{
    return (dt_rounding_options){
        .rounder = DT_ROUND_NEAREST,
        .rounding = { .damping = 0.01, .alpha = 1e-6, .block = 128, .keep_better = true },
    };
}

dt_rounding_options dt__settings_of(const dt_rounding_options *o, int rounder)
{
    const dt_rounding_options defaults = dt_rounding_defaults();
    dt_rounding_options own = *o;
    own.rounder = rounder;
    const unsigned reads = dt__method_reads(dt__method_of(rounder));
    if (!(reads & DT__READS_DATA)) own.rounding = defaults.rounding;
    if (!(reads & DT__READS_GROUP_SCALES)) {
        own.rounding.group_scales = defaults.rounding.group_scales;
    }
    if (!(reads & DT__READS_ACCUMULATOR)) own.accumulator = defaults.accumulator;
    return own;
}

/* ---- what contradicts ----------------------------------------------------------------------- */

static bool is_share(double x) { return x >= 0 && isfinite(x); }

static dt_status check_numbers(dt_ctx *ctx, const dt_rounding *r)
{
    if (r->order < DT_ORDER_NONE || r->order > DT_ORDER_GROUP) {
        return dt_fail(ctx, DT_ERR_CONFIG, "rounding: order is %d, which is not one of its choices",
                       r->order);
    }
    if (r->damping_mean != DT_MEAN_LIVE && r->damping_mean != DT_MEAN_ALL) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding: damping_mean is %d, which is not one of its choices",
                       r->damping_mean);
    }
    if (r->group_scales != DT_SCALES_FROZEN && r->group_scales != DT_SCALES_REFRESH) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding: group_scales is %d, which is not one of its choices",
                       r->group_scales);
    }
    if (!is_share(r->damping) || !is_share(r->damping_absolute) || !is_share(r->alpha)) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding: damping %g, damping_absolute %g and alpha %g must be finite and "
                       "not negative",
                       r->damping, r->damping_absolute, r->alpha);
    }
    if (r->least_rows < 0) {
        return dt_fail(ctx, DT_ERR_CONFIG, "rounding: least_rows is %lld; it cannot be negative",
                       (long long)r->least_rows);
    }
    if (r->block >= 1) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "rounding: a block of %lld columns; it must have at least 1",
                   (long long)r->block);
}

static dt_status check_groups(dt_ctx *ctx, const dt__method *method, const dt_rounding *r,
                              const dt_quant_spec *q)
{
    const bool grouped = q->granularity == DT_PER_GROUP;
    char text[DT__METHODS_TEXT];
    if (r->order != DT_ORDER_NONE && !dt__needs_data(method)) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding: rounder %s reads no data, from which an order follows",
                       method->name);
    }
    if (r->order == DT_ORDER_GROUP && !grouped) {
        return dt_fail(ctx, DT_ERR_CONFIG, "rounding: order group requires granularity group");
    }
    if (r->group_scales == DT_SCALES_FROZEN) return DT_OK;
    if (!(method->rounder->reads & DT__READS_GROUP_SCALES)) {
        return dt_fail(ctx, DT_ERR_CONFIG, "rounding: group_scales refresh is for %s, not for %s",
                       dt__methods_that_read(DT__READS_GROUP_SCALES, text), method->name);
    }
    if (dt__scheme_of(q->scheme)->settle != NULL) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding: group_scales refresh computes scales block by block; those of "
                       "scheme %s follow from the whole tensor",
                       dt__scheme_of(q->scheme)->name);
    }
    if (!grouped || q->range == DT_RANGE_LEARNED) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding: group_scales refresh requires granularity group and a range that "
                       "is not learned");
    }
    if (r->order != DT_ORDER_WEIGHT) return DT_OK;
    return dt_fail(
        ctx, DT_ERR_CONFIG,
        "rounding: in order weight a group has no beginning at which its scales could be "
        "refreshed; orders none and group have");
}

static dt_status check_input(dt_ctx *ctx, const dt_ints *input)
{
    const int64_t *v = input->v;
    if (input->n == 0) return DT_OK;
    if (input->n == 2 && v[0] <= 0 && v[1] >= 0 && v[0] < v[1] && v[0] >= -MOST_INPUT &&
        v[1] <= MOST_INPUT) {
        return DT_OK;
    }
    return dt_fail(ctx, DT_ERR_CONFIG,
                   "accumulator: input requires two integers, the first at most 0, the second at "
                   "least 0, not both 0, and none beyond %d",
                   MOST_INPUT);
}

static dt_status check_tile(dt_ctx *ctx, const dt_accumulator *a, const dt_quant_spec *q)
{
    if (a->tile < 0) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "accumulator: tile is %lld columns; it cannot be negative",
                       (long long)a->tile);
    }
    if (q->granularity != DT_PER_GROUP || a->tile <= q->group_size) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG,
                   "accumulator: a tile of %lld columns is more than the %lld that share a scale, "
                   "and codes of two scales cannot be added up",
                   (long long)a->tile, (long long)q->group_size);
}

static dt_status check_accumulator(dt_ctx *ctx, const dt__method *method, const dt_accumulator *a,
                                   const dt_quant_spec *q)
{
    char text[DT__METHODS_TEXT];
    DT__TRY(check_input(ctx, &a->input));
    if (a->diffuse != DT_DIFFUSE_CLAMPED && a->diffuse != DT_DIFFUSE_ALL) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "accumulator: diffuse is %d, which is not one of its choices", a->diffuse);
    }
    if (!method->bounded) {
        if (a->bits == 0 && a->tile == 0 && !a->soft_threshold && a->diffuse == 0) return DT_OK;
        return dt_fail(ctx, DT_ERR_CONFIG, "accumulator: rounder %s does not bound sums; %s do",
                       method->name, dt__methods_that_read(DT__READS_ACCUMULATOR, text));
    }
    const dt__levels *levels = dt__levels_of(q);
    if (levels != NULL && levels->n <= dt__qmax(q) - dt__qmin(q)) {
        return dt_fail(
            ctx, DT_ERR_CONFIG,
            "accumulator: scheme %s lacks codes between its ends, without which %s cannot "
            "bound sums",
            dt__scheme_of(q->scheme)->name, method->name);
    }
    if (a->bits < 2 || a->bits > 32) {
        return dt_fail(ctx, DT_ERR_CONFIG, "accumulator: bits is %lld; %s requires 2 to 32",
                       (long long)a->bits, method->name);
    }
    return check_tile(ctx, a, q);
}

dt_status dt__rounding_check(dt_ctx *ctx, const dt_rounding_options *o, const dt_quant_spec *q)
{
    const dt__method *method = dt__method_of(o->rounder);
    if (method == NULL) return dt_fail(ctx, DT_ERR_CONFIG, "%d is not a rounder", o->rounder);
    DT__TRY(dt__quant_check(ctx, q, DT__QUANT_TENSOR));
    if (q->activation) {
        return dt_fail(ctx, DT_ERR_CONFIG,
                       "rounding is for weights: this scheme is of activations");
    }
    DT__TRY(check_numbers(ctx, &o->rounding));
    DT__TRY(check_groups(ctx, method, &o->rounding, q));
    return check_accumulator(ctx, method, &o->accumulator, q);
}
