/* Learned scales.   [Esser et al. 2020, Learned Step Size Quantization]
 *
 *     initial   s = 2 mean|x| / sqrt(qmax), with levels (scheme.h) that of the least squared error
 *     gradient  ds = g * sum dy * (in ? rne(v) - v : v < qmin ? qmin : qmax)
 *         g = 1 / sqrt(n qmax)
 *     after an optimizer's step    s = max(|s|, eps)
 *
 * Sums are in double: within chunks of a block in order, then over chunks in a tree. The order
 * depends on shapes alone. */
#include "qat/schemes/learned.h"

#include "autograd/spread.h"
#include "autograd/tape.h"
#include "kernels/kernels.h"
#include "kernels/loops.h"
#include "qat/schemes/least_error.h"
#include "qat/schemes/scheme.h"

#include <math.h>

#define LEAST_WEIGHT 0x1p-126f
#define LEAST_ACTIVATION 0x1p-23f

/* The range of codes counted from their zero: 0 ... 2^bits - 1 if they are unsigned. */
static int learned_qmin(const dt_quant_spec *q) { return q->is_unsigned ? 0 : dt__qmin(q); }
static int learned_qmax(const dt_quant_spec *q)
{
    return q->is_unsigned ? dt__qmax(q) - dt__qmin(q) : dt__qmax(q);
}

/* ---- chunks of blocks ----------------------------------------------------------------------- */

static int64_t chunks_of(int64_t n) { return dt__max_i64(1, dt__ceil_div(n, DT__CHUNK)); }

/* Rows of `columns` elements, cut into blocks of n; the last block of a row may be shorter. */
typedef struct blocks {
    int64_t n, columns;
} blocks;

static blocks blocks_of(int64_t n, int64_t columns)
{
    return (blocks){ n, columns > 0 ? columns : n };
}

static int64_t length_of(const blocks *b, int64_t block)
{
    const int64_t groups = dt__ceil_div(b->columns, dt__max_i64(1, b->n));
    return groups < 2 ? b->n : dt__min_i64(b->n, b->columns - block % groups * b->n);
}

/* The first element of chunk i of all blocks; *count is its length. Every block has as many chunks
 * as the longest one; further chunks of a shorter block are empty. */
static int64_t chunk_of(const blocks *b, int64_t i, int64_t *count)
{
    const int64_t chunks = chunks_of(b->n), first = i % chunks * DT__CHUNK, block = i / chunks;
    const int64_t groups = dt__max_i64(1, dt__ceil_div(b->columns, dt__max_i64(1, b->n)));
    *count = dt__max_i64(0, dt__min_i64(DT__CHUNK, length_of(b, block) - first));
    return block / groups * b->columns + block % groups * b->n + first;
}

/* Cuts x, whose rows are first, by groups or, if the spec has none, into `scales` equal blocks. */
static dt_status cut_blocks(const dt_tensor *x, const dt_quant_spec *q, int64_t experts,
                            int64_t scales, blocks *out)
{
    dt__cut cut;
    *out = blocks_of(scales == 0 ? 0 : x->count / scales, 0);
    if (q->granularity != DT_PER_GROUP) return DT_OK;
    const dt__row_map map = dt__row_map_of_experts(experts);
    const dt__weight_shape shape = dt__weight_shape_of(x, &map);
    DT__TRY(dt__weight_cut(x->ctx, q, &shape, &cut));
    *out = (blocks){ cut.group, cut.columns };
    return DT_OK;
}

/* The sum of a block from the sums of its chunks, which are overwritten. */
static double sum_of(int64_t n, double *partial, int64_t block)
{
    const int64_t chunks = chunks_of(n);
    return dt__tree_sum((int)chunks, partial + block * chunks);
}

/* ---- the gradient --------------------------------------------------------------------------- */

static dt__learn learn_of(const dt__learning *l)
{
    return (dt__learn){ .qmin = learned_qmin(l->quant),
                        .qmax = learned_qmax(l->quant),
                        .all = l->quant->ste == DT_STE_IDENTITY,
                        .levels = dt__levels_of(l->quant) };
}

static void learn_chunk(const dt__kernels *kernels, const dt__learning *l, int64_t i, double *sum)
{
    dt__learn c = learn_of(l);
    const blocks b = blocks_of(l->n, l->columns);
    const int64_t at = chunk_of(&b, i, &c.n);
    c.scale = l->scale + i / chunks_of(l->n);
    c.dy = c.dx = l->d + at;
    c.sum = sum;
    if (l->x != NULL) {
        c.x = l->x + at;
        kernels->learn(&c);
    } else {
        kernels->learn_from(&c, l->residual + at);
    }
}

typedef struct learn_scales_args {
    const dt__learning *l;
    const dt__kernels *kernels;
    double *partial;
} learn_scales_args;

static void learn_scales_share(const void *args, const dt__share *share)
{
    const learn_scales_args *of = args;
    const dt__learning *l = of->l;
    const dt__kernels *kernels = of->kernels;
    double *partial = of->partial;
    for (int64_t i = share->first; i < share->past; i++) {
        learn_chunk(kernels, l, i, partial + i);
    }
}

dt_status dt__learn_scales(dt_ctx *ctx, const dt__learning *l)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    const int64_t count = l->blocks * chunks_of(l->n);
    double *partial = dt__alloc_array(ctx, count, sizeof *partial);
    if (partial == NULL) return DT_ERR_NOMEM;
    dt__team *const threads = dt__threads_enter(ctx);
    const learn_scales_args args = { l, kernels, partial };
    dt__parallel(count, dt__min_i64(l->n, DT__CHUNK), learn_scales_share, &args);
    dt__threads_leave(threads);
    const double qmax = learned_qmax(l->quant);
    const blocks of = blocks_of(l->n, l->columns);
    for (int64_t b = 0; b < l->blocks; b++) {
        const double g = 1.0 / sqrt((double)dt__max_i64(1, length_of(&of, b)) * qmax);
        l->ds[b] = (float)(g * sum_of(l->n, partial, b));
    }
    dt__release(ctx, partial);
    return DT_OK;
}

typedef struct learned_residual_args {
    const dt_tensor *x;
    float scale;
    int8_t *residual;
    const dt__kernels *kernels;
    const dt__learning *l;
    const float *values;
} learned_residual_args;

static void learned_residual_share(const void *args, const dt__share *share)
{
    const learned_residual_args *of = args;
    const dt_tensor *x = of->x;
    const float scale = of->scale, *values = of->values;
    int8_t *residual = of->residual;
    const dt__kernels *kernels = of->kernels;
    const dt__learning *l = of->l;
    for (int64_t i = share->first; i < share->past; i++) {
        dt__learn c = learn_of(l);
        const blocks whole = blocks_of(x->count, 0);
        const int64_t at = chunk_of(&whole, i, &c.n);
        c.scale = &scale;
        c.x = values + at;
        kernels->residual(&c, residual + at);
    }
}

void dt__learned_residual(dt_ctx *ctx, const dt_quant_spec *q, const dt_tensor *x, float scale,
                          int8_t *residual)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    const dt__learning l = { .quant = q };
    const float *values = dt__values(x);
    dt__team *const threads = dt__threads_enter(ctx);
    const learned_residual_args args = { x, scale, residual, kernels, &l, values };
    dt__parallel(chunks_of(x->count), DT__CHUNK, learned_residual_share, &args);
    dt__threads_leave(threads);
}

/* ---- in backward ---------------------------------------------------------------------------- */

static dt_status is_written(dt_tensor *x, const char *what)
{
    return dt_fail(x->ctx, DT_ERR_STATE,
                   "the gradient of a learned scale: %s%s%s was written since the forward pass",
                   what, x->name != NULL ? " of " : "", x->name != NULL ? x->name : "");
}

/* The values that codes were made from, as rows; the caller frees *made. */
static dt_status values_of(dt_tensor *x, const dt__codes *used, const float **values,
                           dt_tensor **made)
{
    const dt__fq *fq = x->ext;
    const dt__storage *steps = used->steps != NULL ? used->steps : fq->scale->storage;
    const dt__storage *held = used->values != NULL ? used->values : fq->inner->storage;
    if (held == NULL || held->version != used->version) return is_written(x, "the value");
    if (steps->version != used->scale_version) return is_written(x, "the scale");
    if (used->values != NULL) {
        *values = (const float *)used->values->data + used->offset;
        return DT_OK;
    }
    DT__TRY(dt__matrix_of(fq->inner, &used->map, made));
    *values = dt__values(*made != NULL ? *made : fq->inner);
    return DT_OK;
}

static const float *scales_of(const dt__fq *fq, const dt__codes *used)
{
    return used->steps == NULL ? dt__values(fq->scale)
                               : (const float *)used->steps->data + used->first_step;
}

static dt_status learn_rows(dt_tensor *x, dt_tensor *ds, dt_tensor *d, const dt__codes *used)
{
    const dt__fq *fq = x->ext;
    dt_tensor *made = NULL, *rows = NULL;
    dt__learning l = { .quant = &fq->quant,
                       .blocks = ds->count,
                       .scale = scales_of(fq, used),
                       .residual = used->residual,
                       .ds = dt__values_mut(ds) };
    dt_status s = used->residual != NULL ? DT_OK : values_of(x, used, &l.x, &made);
    if (s == DT_OK) s = dt__matrix_of(d, &used->map, &rows);
    const dt_tensor *matrix = rows != NULL ? rows : d;
    blocks cut;
    if (s == DT_OK) s = cut_blocks(matrix, l.quant, used->map.experts, ds->count, &cut);
    if (s == DT_OK) {
        l.n = cut.n;
        l.columns = cut.columns;
        l.d = dt__values_mut(rows != NULL ? rows : d);
        s = dt__learn_scales(x->ctx, &l);
    }
    if (s == DT_OK && rows != NULL) dt__rows_scatter(&used->map, l.d, dt__values_mut(d));
    dt_tensor_free(made);
    dt_tensor_free(rows);
    return s;
}

dt_status dt__learned_pullback(dt_tape *t, dt_tensor *x, dt_tensor *d, const dt__codes *used)
{
    dt_tensor *scale = ((const dt__fq *)x->ext)->scale, *ds;
    DT__TRY(dt__tensor_create_raw(t->ctx, DT_F32, scale->rank, scale->dims, &ds));
    const dt_status s = learn_rows(x, ds, d, used);
    if (s == DT_OK && dt_requires_grad(scale)) {
        return dt__kind_of(scale)->pullback(t, scale, ds, NULL);
    }
    dt_tensor_free(ds);
    return s;
}

/* ---- the initial scale ---------------------------------------------------------------------- */

static float least_of(const dt_quant_spec *q)
{
    return q->activation ? LEAST_ACTIVATION : LEAST_WEIGHT;
}

static dt_status check_finite(const dt_tensor *x, const char *name)
{
    int64_t bad;
    DT__TRY(dt__kernels_open(x->ctx));
    dt__kernels_of(x->ctx, DT_F32)->first_nonfinite(x->count, dt__values(x), &bad);
    if (bad < 0) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_NUMERIC,
                   "quantize %s: element %lld is not finite; only finite values can be quantized",
                   name, (long long)bad);
}

typedef struct learned_begin_args {
    const dt__kernels *kernels;
    const blocks *blocks;
    double *partial;
    const float *values;
} learned_begin_args;

static void learned_begin_share(const void *args, const dt__share *share)
{
    const learned_begin_args *of = args;
    const dt__kernels *kernels = of->kernels;
    double *partial = of->partial;
    const float *values = of->values;
    for (int64_t i = share->first; i < share->past; i++) {
        int64_t elements;
        const int64_t at = chunk_of(of->blocks, i, &elements);
        kernels->sum_absolute(elements, values + at, partial + i);
    }
}

/* Initial scales of schemes with levels, those of least error: a scale for which all values fit
 * would leave too many of the few levels unused. */
static void begin_at_least_error(const blocks *cut, const dt_quant_spec *q, const dt_tensor *x,
                                 dt_tensor *scale)
{
    const dt__kernels *kernels = dt__kernels_of(x->ctx, DT_F32);
    const int64_t groups = dt__max_i64(1, dt__ceil_div(cut->columns, dt__max_i64(1, cut->n)));
    const float *values = dt__values(x);
    float *s = dt__values_mut(scale);
    for (int64_t b = 0; b < scale->count; b++) {
        const float *from = values + b / groups * cut->columns + b % groups * cut->n;
        const int64_t n = length_of(cut, b);
        float lo = 0, hi = 0;
        kernels->range(n, dt__max_i64(1, n), from, &lo, &hi);
        dt__least_error(q, n, from, &lo, &hi);
        dt__range_scale(q, lo, hi, s + b, NULL);
    }
}

dt_status dt__learned_begin(const dt_tensor *x, const dt_quant_spec *q, dt_tensor *scale,
                            int64_t experts)
{
    blocks cut;
    DT__TRY(cut_blocks(x, q, experts, scale->count, &cut));
    if (dt__levels_of(q) != NULL) {
        dt__team *const team = dt__threads_enter(x->ctx);
        begin_at_least_error(&cut, q, x, scale);
        dt__threads_leave(team);
        return DT_OK;
    }
    const dt__kernels *kernels = dt__kernels_of(x->ctx, DT_F32);
    const int64_t count = scale->count * chunks_of(cut.n);
    double *partial = dt__alloc_array(x->ctx, count, sizeof *partial);
    if (partial == NULL) return DT_ERR_NOMEM;
    dt__team *const threads = dt__threads_enter(x->ctx);
    const learned_begin_args args = { kernels, &cut, partial, dt__values(x) };
    dt__parallel(count, dt__min_i64(cut.n, DT__CHUNK), learned_begin_share, &args);
    dt__threads_leave(threads);
    float *s = dt__values_mut(scale);
    for (int64_t b = 0; b < scale->count; b++) {
        const int64_t n = dt__max_i64(1, length_of(&cut, b));
        const double factor = 2.0 / sqrt((double)learned_qmax(q)) / (double)n;
        s[b] = fmaxf((float)(factor * sum_of(cut.n, partial, b)), least_of(q));
    }
    dt__release(x->ctx, partial);
    return DT_OK;
}

dt_status dt__learned_observe(const dt_tensor *x, const dt__row_map *map,
                              const dt__quantizer *range)
{
    static const dt__row_map as_it_lies = { 0 };
    const char *name = x->name != NULL ? x->name : "an activation";
    dt_tensor *made;
    if (range->scale->storage->frozen) {
        return dt_fail(x->ctx, DT_ERR_STATE, "the learned scale of %s belongs to a frozen model",
                       name);
    }
    if (x->count == 0) return DT_OK;
    DT__TRY(dt__matrix_of(x, map != NULL ? map : &as_it_lies, &made));
    const dt_tensor *matrix = made != NULL ? made : x;
    dt_status s = check_finite(matrix, name);
    if (s == DT_OK) {
        s = dt__learned_begin(matrix, &range->quant, range->scale, map != NULL ? map->experts : 0);
    }
    dt_tensor_free(made);
    DT__TRY(s);
    range->scale->storage->version++;
    *(int64_t *)dt_data_mut(range->count) = dt__whole_count(x);
    return DT_OK;
}

/* ---- after a step --------------------------------------------------------------------------- */

/* NaN is kept, so that making the next codes fails with NUMERIC. */
static void keep_above(dt_tensor *scale, float least)
{
    float *s = dt_data_mut(scale);
    for (int64_t i = 0; i < scale->count; i++) {
        s[i] = fabsf(s[i]);
        if (s[i] < least) s[i] = least;
    }
}

static void project_weight(dt_tensor *scale) { keep_above(scale, LEAST_WEIGHT); }
static void project_activation(dt_tensor *scale) { keep_above(scale, LEAST_ACTIVATION); }

void dt__learned_keep_positive(dt_tensor *scale, const dt_quant_spec *q)
{
    scale->project = q->activation ? project_activation : project_weight;
    scale->no_decay = true;
}

/* ---- for users ------------------------------------------------------------------------------ */

static dt_status check_begin(const dt_tensor *x, const dt_quant_spec *quant)
{
    DT__TRY(dt__quant_check(x->ctx, quant, DT__QUANT_TENSOR));
    if (quant->range != DT_RANGE_LEARNED) {
        return dt_fail(x->ctx, DT_ERR_CONFIG,
                       "learned_scale: the settings must have a learned range");
    }
    if (x->dtype == DT_F32 && x->kind == NULL && x->storage != NULL) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_DTYPE, "learned_scale: must be a plain f32 tensor");
}

static dt_status begin(dt_tensor *x, const dt_quant_spec *quant, dt_tensor *scale)
{
    dt_tensor *copy;
    const dt__row_map none = { 0 };
    DT__TRY(dt__matrix_of(x, &none, &copy));
    const dt_tensor *matrix = copy != NULL ? copy : x;
    dt_status s = check_finite(matrix, x->name != NULL ? x->name : "a tensor");
    if (s == DT_OK) s = dt__learned_begin(matrix, quant, scale, 0);
    dt_tensor_free(copy);
    return s == DT_OK ? dt_set_requires_grad(scale, true) : s;
}

dt_status dt_learned_scale(dt_tensor *x, const dt_quant_spec *quant, dt_tensor **out)
{
    DT__NEED3(dt_ctx_of(x), x, quant, out);
    *out = NULL;
    DT__TRY(check_begin(x, quant));
    dt__cut cut;
    dt_tensor *scale;
    DT__TRY(dt__cut_of(x->ctx, quant, x->rank, x->dims, &cut));
    const int64_t scales = quant->activation ? 1 : dt__cut_blocks(&cut);
    DT__TRY(dt_tensor_create(x->ctx, DT_F32, 1, &scales, &scale));
    const dt_status s = begin(x, quant, scale);
    if (s != DT_OK) {
        dt_tensor_free(scale);
        return s;
    }
    dt__learned_keep_positive(scale, quant);
    *out = scale;
    return DT_OK;
}
