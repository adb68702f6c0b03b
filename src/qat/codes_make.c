/* From values to codes: weights are packed into panels, activations are rows of u8. Codes are
 * cached on the tensor that they were made from, by spec and version. So an unchanged master, a
 * tied weight, and an activation that several modules quantize are each quantized once. */
#include "autograd/codes.h"
#include "autograd/tape.h"
#include "kernels/kernels.h"
#include "qat/codes_cache.h"
#include "qat/schemes/learned.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <string.h>

/* ---- making --------------------------------------------------------------------------------- */

/* Also 0 if the tape of x was freed. */
static uint64_t version_of(const dt_tensor *x)
{
    return x == NULL || x->storage == NULL ? 0 : x->storage->version;
}

/* Buffers of one quantization; some become part of the codes. */
typedef struct dt__making {
    dt_ctx *ctx;
    const dt__fq *like;
    const dt_quant_spec *quant; /* the spec in `like` */
    dt__cut cut;
    dt__quantized q;
    const char *name;
} making;

/* Copies a static or learned range to the buffers of the codes. */
static dt_status take_range(making *m)
{
    const int64_t blocks = dt__cut_blocks(&m->cut);
    const dt_tensor *scale = m->like->scale, *zero = m->like->zero_point;
    if (scale->count != blocks || (zero != NULL && zero->count != blocks)) {
        return dt_fail(m->ctx, DT_ERR_SHAPE, "quantize %s: %lld scales for %lld blocks", m->name,
                       (long long)scale->count, (long long)blocks);
    }
    memcpy(m->q.scale, dt__values(scale), (size_t)blocks * sizeof(float));
    if (m->q.zero == NULL) return DT_OK;
    const bool low = m->quant->is_unsigned && m->quant->range == DT_RANGE_LEARNED;
    if (zero == NULL) memset(m->q.zero, low ? dt__qmin(m->quant) : 0, (size_t)blocks);
    else memcpy(m->q.zero, dt__values(zero), (size_t)blocks);
    return DT_OK;
}

static dt_status quantize(making *m, const dt_tensor *x)
{
    const bool settles = dt__scheme_of(m->quant->scheme)->settle != NULL;
    if (m->like->scale != NULL && settles) {
        m->q.global = *(const float *)dt__values(m->like->scale); /* blocks get scales below */
    } else if (m->like->scale != NULL) {
        DT__TRY(take_range(m));
        return dt__quantize_given(m->ctx, m->quant, &m->cut, dt__values(x), &m->q, m->name);
    }
    return dt__quantize(m->ctx, m->quant, &m->cut, dt__values(x), &m->q, m->name);
}

/* Allocates scales and, if the spec has them, zero points. */
static dt_status make_scales(making *m)
{
    const int64_t blocks = dt__cut_blocks(&m->cut);
    m->q.scale = dt__alloc_array(m->ctx, blocks, sizeof(float));
    if (m->q.scale == NULL) return DT_ERR_NOMEM;
    if (!dt__has_zero(m->quant)) return DT_OK;
    m->q.zero = dt__alloc_array(m->ctx, blocks, 1);
    return m->q.zero == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status make_mask(making *m)
{
    const bool learned =
        m->quant->range ==
        DT_RANGE_LEARNED; /* the backward of learned scales computes its mask itself */
    if (learned || !dt__ste_clipped(m->quant) || !dt__can_clip(m->quant)) return DT_OK;
    m->q.mask = dt__alloc_array(m->ctx, m->cut.rows, (size_t)dt__mask_bytes(&m->cut));
    return m->q.mask == NULL ? DT_ERR_NOMEM : DT_OK;
}

static void free_buffers(making *m)
{
    DT__RELEASE(m->ctx, m->q.codes, m->q.scale, m->q.zero, m->q.mask);
}

/* Copies scale and zero point of each block to all of its rows, where a block spans several
 * rows. */
static dt_status spread(making *m, dt__codes *codes)
{
    codes->scale = dt__alloc_array(m->ctx, codes->rows, sizeof(float));
    codes->zero = dt__alloc_array(m->ctx, codes->rows, 1);
    if (codes->scale == NULL || codes->zero == NULL) return DT_ERR_NOMEM;
    const int64_t blocks = dt__cut_blocks(&m->cut);
    const int64_t rows_per_block = dt__max_i64(1, codes->rows / dt__max_i64(1, blocks));
    for (int64_t r = 0; r < codes->rows; r++) {
        codes->scale[r] = m->q.scale[r / rows_per_block];
        codes->zero[r] = m->q.zero == NULL ? 0 : m->q.zero[r / rows_per_block];
    }
    return DT_OK;
}

/* Hands the scales and zero points to the codes, where every row has blocks of its own. */
static void take_scales(making *m, dt__codes *codes)
{
    codes->scale = m->q.scale;
    codes->zero = m->q.zero;
    m->q.scale = NULL;
    m->q.zero = NULL;
}

static dt_status set_zero_u(making *m, dt__codes *codes)
{
    codes->zero_u = dt__alloc_array(m->ctx, codes->rows, sizeof(int32_t));
    if (codes->zero_u == NULL) return DT_ERR_NOMEM;
    for (int64_t r = 0; r < codes->rows; r++) {
        codes->zero_u[r] = (codes->zero == NULL ? 0 : codes->zero[r * codes->groups]) + 128;
    }
    return DT_OK;
}

DT__EACH(take_rows, r, dt__codes *codes; const uint8_t *from; const dt__kernels *kernels;
         int64_t n, stride;)
{
    a.kernels->pack_codes(a.n, a.from + r * a.codes->stride, a.codes->u + r * a.stride);
}

/* Hands the rows to the codes. Codes of at most 4 bits are stored two in a byte. */
static dt_status take_rows(making *m, dt__codes *codes)
{
    const uint8_t *from = (const uint8_t *)m->q.codes;
    if (dt__code_bits(m->quant) > 4) {
        codes->u = (uint8_t *)m->q.codes;
        m->q.codes = NULL;
        return DT_OK;
    }
    const dt__kernels *kernels = dt__kernels_of(m->ctx, DT_F32);
    const int64_t rows = codes->rows, n = codes->columns, stride = dt__ceil_div(n, 2);
    codes->u = dt__alloc_array(m->ctx, rows, (size_t)stride);
    if (codes->u == NULL) return DT_ERR_NOMEM;
    dt__parallel(rows, n, take_rows_share, &(take_rows_args){ codes, from, kernels, n, stride });
    codes->packed = true;
    codes->stride = stride;
    dt__release(m->ctx, m->q.codes); /* before the next allocation */
    m->q.codes = NULL;
    return DT_OK;
}

/* Fills the gap behind each row, and DT__STEP bytes behind the last row, with zeros: kernels read
 * them and multiply them by zeros of the weight. */
static void pad_rows(const dt__codes *codes, int8_t *to)
{
    const size_t rest = (size_t)(codes->stride - codes->columns);
    for (int64_t r = 0; r < codes->rows && rest > 0; r++) {
        memset(to + r * codes->stride + codes->columns, 0, rest);
    }
    memset(to + codes->rows * codes->stride, 0, DT__STEP);
}

/* Makes rows of u8. A row is the tensor's last dimension, for products, or a whole sample, for
 * convolutions. Where a block is longer than a row, there is no gap between rows. */
static dt_status make_rows(making *m, const dt_tensor *x, dt__codes *codes)
{
    const int64_t last = x->rank == 0       ? 1
                         : m->like->samples ? m->cut.columns
                                            : x->dims[x->rank - 1];
    const bool token = m->cut.columns == last;
    codes->columns = last;
    codes->rows = last == 0 ? 0 : x->count / last;
    codes->group = token ? m->cut.group : last;
    codes->groups = token ? m->cut.groups : 1;
    codes->stride = token ? dt__round_up(last, DT__STEP) : last;
    codes->blocks = m->quant->activation && m->quant->granularity == DT_PER_GROUP;
    codes->integer = codes->integer && (codes->groups == 1 || codes->blocks);
    size_t bytes;
    if (!dt__mul_size((uint64_t)codes->rows, (uint64_t)codes->stride, &bytes)) bytes = SIZE_MAX / 2;
    m->q.codes = dt__alloc(m->ctx, bytes + DT__STEP);
    if (m->q.codes == NULL) return DT_ERR_NOMEM;
    pad_rows(codes, m->q.codes);
    m->q.ld = token ? codes->stride : m->cut.columns;
    m->q.biased = true;
    DT__TRY(make_scales(m));
    DT__TRY(quantize(m, x));
    DT__TRY(take_rows(m, codes));
    if (dt__cut_blocks(&m->cut) == codes->rows * codes->groups) take_scales(m, codes);
    else DT__TRY(spread(m, codes));
    return set_zero_u(m, codes);
}

/* Repeats the scale of each expert for all of its rows. */
static dt_status repeat_scales(making *m, const dt__codes *codes)
{
    const dt__quantized of = m->q;
    const int64_t each = codes->layout.expert_rows;
    m->q.scale = dt__alloc_array(m->ctx, codes->rows, sizeof(float));
    m->q.zero = of.zero == NULL ? NULL : dt__alloc_array(m->ctx, codes->rows, 1);
    const bool made = m->q.scale != NULL && (of.zero == NULL || m->q.zero != NULL);
    for (int64_t r = 0; r < codes->rows && made; r++) {
        m->q.scale[r] = of.scale[r / each];
        if (of.zero != NULL) m->q.zero[r] = of.zero[r / each];
    }
    DT__RELEASE(m->ctx, of.scale, of.zero);
    return made ? DT_OK : DT_ERR_NOMEM;
}

/* Makes the codes of the whole matrix, then packs them into panels. Specs with one scale for the
 * tensor, with zero points or with a given range require it. */
static dt_status make_panels_by_matrix(making *m, const dt_tensor *x, dt__codes *codes)
{
    m->q.ld = m->cut.columns;
    m->q.codes = dt__alloc_array(m->ctx, x->count, 1);
    if (m->q.codes == NULL) return DT_ERR_NOMEM;
    DT__TRY(make_scales(m));
    DT__TRY(quantize(m, x));
    if (m->like->map.experts > 0 && m->cut.rows != codes->rows) DT__TRY(repeat_scales(m, codes));
    const int64_t step = m->cut.whole ? 0 : codes->groups;
    const dt__code_matrix from = { m->q.codes, codes->columns, m->q.scale, step };
    dt__panel_pack(&codes->layout, &from, codes->panels);
    codes->zero = m->q.zero;
    codes->zero_step = step;
    codes->integer = codes->integer && codes->zero == NULL;
    m->q.zero = NULL;
    return DT_OK;
}

static dt_status make_panels_at_once(making *m, const dt_tensor *x, dt__codes *codes)
{
    const dt__coding coding = dt__coding_of(m->quant);
    const dt__panel_source source = { &codes->layout, dt__values(x), &coding, codes->panels,
                                      m->q.mask };
    m->q.clipped = dt__quantize_panels(m->ctx, &source);
    if (m->q.clipped >= 0) return DT_OK;
    DT__TRY(make_scales(m)); /* reports which element or block is wrong */
    return quantize(m, x);
}

static dt_status make_panels(making *m, const dt_tensor *x, dt__codes *codes)
{
    codes->panels = dt__alloc(m->ctx, codes->layout.bytes);
    if (codes->panels == NULL) return DT_ERR_NOMEM;
    codes->rows = codes->layout.rows;
    codes->columns = codes->layout.columns;
    codes->group = codes->layout.group;
    codes->groups = codes->layout.groups;
    const bool one_pass = m->like->scale == NULL && dt__one_pass(m->quant);
    return one_pass ? make_panels_at_once(m, x, codes) : make_panels_by_matrix(m, x, codes);
}

/* Keeps what the gradient of a learned scale or an estimator reads: the values or their residuals,
 * and scales that the tape computed. */
static dt_status keep(const making *m, const dt_tensor *x, dt__codes *codes)
{
    const dt_tensor *scale = m->like->scale;
    if (!m->like->keeps) return DT_OK;
    if (scale != NULL && scale->tape != NULL) {
        dt__storage_retain(scale->storage);
        codes->steps = scale->storage;
        codes->first_step = scale->offset;
    }
    if (!m->quant->activation || m->quant->save == DT_SAVED_EXACT) {
        dt__storage_retain(x->storage);
        codes->values = x->storage;
        codes->offset = x->offset;
        codes->version = x->storage->version;
        return DT_OK;
    }
    codes->residual = dt__alloc_array(m->ctx, x->count, 1);
    if (codes->residual == NULL) return DT_ERR_NOMEM;
    dt__learned_residual(m->ctx, m->quant, x, *(const float *)dt__values(m->like->scale),
                         codes->residual);
    return DT_OK;
}

static dt_status fill(making *m, const dt_tensor *x, dt__codes *codes)
{
    /* x has its rows first here. */
    const dt__row_map as_it_lies = dt__row_map_of_experts(m->like->map.experts);
    const dt__weight_shape shape = dt__weight_shape_of(x, &as_it_lies);
    DT__TRY(dt__weight_cut(m->ctx, m->quant, &shape, &m->cut));
    DT__TRY(make_mask(m));
    const bool panels = !m->quant->activation && x->rank >= 2 &&
                        dt__weight_layout(m->ctx, m->quant, &shape, &codes->layout) == DT_OK;
    DT__TRY(panels ? make_panels(m, x, codes) : make_rows(m, x, codes));
    DT__TRY(keep(m, x, codes));
    codes->bits = dt__code_bits(m->quant);
    codes->layout.real = dt__real_of(m->quant);
    codes->clipped = m->q.clipped;
    if (m->q.clipped > 0) { /* otherwise every gradient passes, without a mask */
        codes->mask = m->q.mask;
        m->q.mask = NULL;
    }
    return DT_OK;
}

dt_status dt__codes_make(const dt_tensor *x, const dt__fq *like, const char *name, dt__codes **out)
{
    dt_tensor *matrix = NULL;
    dt__codes *codes = NULL;
    making m = { .ctx = x->ctx, .like = like, .quant = &like->quant, .name = name };
    dt_status s = dt__codes_create(x->ctx, &codes);
    if (s == DT_OK) s = dt__matrix_of(x, &like->map, &matrix);
    if (s == DT_OK) {
        codes->integer = !like->simulated && dt__real_of(m.quant) == NULL;
        codes->int8_backward = like->int8_backward;
        codes->map = like->map;
        codes->version = x->storage->version;
        codes->scale_version = version_of(like->scale);
        dt__team *const threads = dt__threads_enter(x->ctx);
        s = fill(&m, matrix != NULL ? matrix : x, codes);
        dt__threads_leave(threads);
    }
    free_buffers(&m);
    dt_tensor_free(matrix);
    if (s != DT_OK) {
        dt__codes_release(codes);
        codes = NULL;
    }
    *out = codes;
    return s;
}

/* ---- the cache ------------------------------------------------------------------------------ */

typedef dt__cached_codes cached;

static void drop_cached(dt__attachment *a)
{
    cached *c = (cached *)(void *)a;
    dt__codes_release(c->codes);
    DT__TENSORS_FREE(c->how.scale, c->how.zero_point);
    dt__release(c->ctx, c);
}

static bool is_stale(const cached *c, const dt_tensor *x)
{
    return c->version != x->storage->version || c->scale_version != version_of(c->how.scale) ||
           c->zero_version != version_of(c->how.zero_point);
}

void dt__codes_drop_stale(dt_tensor *x)
{
    dt__attachment **link = &x->attached;
    while (*link != NULL) {
        cached *c = (cached *)(void *)*link;
        if (c->head.drop == drop_cached && is_stale(c, x)) {
            *link = c->head.next;
            drop_cached(&c->head);
        } else {
            link = &(*link)->next;
        }
    }
}

static bool same_settings(const dt__fq *a, const dt__fq *b)
{
    return a->simulated == b->simulated && a->samples == b->samples &&
           a->int8_backward == b->int8_backward && dt__same_map(&a->map, &b->map) &&
           a->keeps == b->keeps && a->scale == b->scale && a->zero_point == b->zero_point &&
           dt__same_quant(&a->quant, &b->quant);
}

cached *dt__codes_find(const dt_tensor *x, const dt__fq *fq)
{
    for (dt__attachment *a = x->attached; a != NULL; a = a->next) {
        cached *c = (cached *)(void *)a;
        if (a->drop == drop_cached && same_settings(&c->how, fq)) {
            return c;
        }
    }
    return NULL;
}

static dt_status make_cached(dt_tensor *home, const dt__fq *fq, const char *name, cached **out)
{
    cached *c = *out = dt__alloc(home->ctx, sizeof *c);
    if (c == NULL) return DT_ERR_NOMEM;
    *c = (cached){ .head.drop = drop_cached,
                   .ctx = home->ctx,
                   .how = *fq,
                   .version = home->storage->version,
                   .scale_version = version_of(fq->scale),
                   .zero_version = version_of(fq->zero_point) };
    c->how.inner = NULL; /* the cache keeps the settings alone */
    c->how.renewal = NULL;
    c->how.count = NULL;
    if (fq->scale != NULL) dt__retain(fq->scale);
    if (fq->zero_point != NULL) dt__retain(fq->zero_point);
    const dt_status s = dt__codes_make(home, &c->how, name, &c->codes);
    if (s != DT_OK) drop_cached(&c->head);
    return s;
}

/* `home` is the tensor with the cache: the wrapped one or, if that was freed, the wrapper. */
dt_status dt__fq_codes(dt_tensor *x, dt__codes **out)
{
    const dt__fq *fq = x->ext;
    dt_tensor *home = fq->inner->storage != NULL ? fq->inner : x;
    dt__codes_drop_stale(home);
    cached *c = dt__codes_find(home, fq);
    if (c == NULL) {
        const char *name = x->name != NULL ? x->name : "an activation";
        DT__TRY(make_cached(home, fq, name, &c));
        dt__attach(home, &c->head);
    }
    *out = c->codes;
    dt__codes_retain(*out);
    return DT_OK;
}
