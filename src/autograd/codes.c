/* Codes: reference counting, dequantization of tiles, integer products. */
#include "autograd/codes.h"

#include <string.h>

void dt__codes_retain(dt__codes *codes) { atomic_fetch_add(&codes->refs, 1); }

void dt__codes_release(dt__codes *codes)
{
    if (codes == NULL || atomic_fetch_sub(&codes->refs, 1) != 1) return;
    dt_ctx *ctx = codes->ctx;
    DT__RELEASE(ctx, codes->u, codes->scale, codes->zero_u);
    if (codes->whole == NULL) {
        DT__RELEASE(ctx, codes->zero, codes->panels, codes->order);
    }
    dt__codes_release(codes->whole);
    DT__RELEASE(ctx, codes->mask, codes->residual);
    dt__storage_release(codes->values);
    dt__storage_release(codes->steps);
    dt__release(ctx, codes);
    dt__ctx_release(ctx);
}

dt_status dt__codes_create(dt_ctx *ctx, dt__codes **out)
{
    *out = NULL;
    DT__TRY(dt__kernels_open(ctx)); /* codes are made without a tape, too */
    dt__codes *codes = dt__alloc_zero(ctx, sizeof *codes);
    *out = codes;
    if (codes == NULL) return DT_ERR_NOMEM;
    atomic_init(&codes->refs, 1);
    codes->ctx = ctx;
    dt__ctx_retain(ctx);
    return DT_OK;
}

/* ---- experts -------------------------------------------------------------------------------- */

/* The column order of the rows from r0 on; `order` holds one for all rows, or one per group of
 * rows. */
static void take_order(dt__panel_layout *l, int64_t r0)
{
    if (l->order == NULL) return;
    l->order = dt__panel_order(l, r0);
    l->order_rows = dt__min_i64(l->order_rows, l->rows);
}

dt_status dt__codes_expert(dt__codes *codes, int64_t i, dt__codes **out)
{
    DT__TRY(dt__codes_create(codes->ctx, out));
    dt__codes *m = *out;
    const dt__panel_layout *l = &codes->layout;
    const int64_t r0 = i * l->expert_rows;
    m->layout = dt__panel_part(l, l->expert_rows);
    take_order(&m->layout, r0);
    m->rows = l->expert_rows;
    m->columns = codes->columns;
    m->group = codes->group;
    m->groups = codes->groups;
    m->bits = codes->bits;
    m->integer = codes->integer;
    m->int8_backward = codes->int8_backward;
    m->panels = (char *)codes->panels + (size_t)(i * l->expert_panels) * l->panel_bytes;
    m->order = (int32_t *)(uintptr_t)m->layout.order;
    m->zero = codes->zero == NULL ? NULL : codes->zero + r0 * codes->zero_step;
    m->zero_step = codes->zero_step;
    m->whole = codes;
    dt__codes_retain(codes);
    return DT_OK;
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define AT_ONCE 1024             /* columns that are unpacked at once for dequantization */
#define SLICE ((int64_t)1 << 20) /* bytes of rows that are unpacked at once for a product */

/* Columns c ... c+n-1 of row r as bytes: a pointer into u, or packed codes unpacked to `room`,
 * which needs n + 2 bytes. */
static const uint8_t *row_bytes(const dt__codes *codes, int64_t r, int64_t c, int64_t n,
                                uint8_t *room)
{
    const uint8_t *row = codes->u + r * codes->stride;
    if (!codes->packed) return row + c;
    codes->ctx->kernels[DT_F32]->unpack_codes(n + c % 2, row + c / 2, room);
    return room + c % 2;
}

/* Row r as bytes, its columns permuted by `order`. */
static void gather_row(const dt__codes *x, const int32_t *order, int64_t r, uint8_t *to)
{
    const uint8_t *row = x->u + r * x->stride;
    const int64_t n = x->columns;
    if (!x->packed) {
        for (int64_t j = 0; j < n; j++) to[j] = row[order[j]];
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        const int32_t c = order[j];
        /* the shift and mask of unpack_codes */
        to[j] = (uint8_t)(((row[c / 2] >> c % 2 * 4 & 15) ^ 8) + 120);
    }
}

void dt__codes_row(const dt__codes *x, const int32_t *order, int64_t r, uint8_t *to)
{
    if (order != NULL) gather_row(x, order, r, to);
    else if (x->packed) row_bytes(x, r, 0, x->columns, to);
    else memcpy(to, x->u + r * x->stride, (size_t)x->columns);
}

/* How a product reads rows of x: in place, or with `made` unpacked and permuted by the weight's
 * column order (NULL: none). */
typedef struct reading {
    const dt__codes *x;
    const int32_t *order;
    bool made;
    int64_t stride, slice; /* slice: rows that are unpacked at once */
} reading;

static reading reading_of(const dt__codes *x, const int32_t *order)
{
    reading r = { x, order, x->packed || order != NULL, x->stride, x->rows };
    if (!r.made) return r;
    r.stride = dt__round_up(x->columns, DT__STEP);
    const int64_t rows = SLICE / dt__max_i64(1, r.stride);
    r.slice = dt__max_i64(1, dt__min_i64(rows, x->rows));
    return r;
}

static size_t room_of(const reading *r)
{
    return r->made ? (size_t)(r->slice * r->stride) + DT__STEP : 0;
}

DT__EACH(bytes_of, r, const reading *b; int64_t r0; const dt__codes *x; uint8_t *const to;)
{
    dt__codes_row(a.x, a.b->order, a.r0 + r, a.to + r * a.b->stride);
    memset(a.to + r * a.b->stride + a.x->columns, 0, (size_t)(a.b->stride - a.x->columns));
}

static const uint8_t *bytes_of(const reading *b, int64_t r0, int64_t rows, void *room)
{
    const dt__codes *x = b->x;
    if (!b->made) return x->u + r0 * x->stride;
    uint8_t *to = room;
    dt__parallel(rows, b->stride / 4, bytes_of_share, &(bytes_of_args){ b, r0, x, to });
    memset(to + rows * b->stride, 0, DT__STEP);
    return to;
}

int64_t dt__codes_byte_stride(const dt__codes *x) { return reading_of(x, NULL).stride; }

int64_t dt__codes_slice(const dt__codes *x) { return reading_of(x, NULL).slice; }

size_t dt__codes_room(const dt__codes *x)
{
    const reading r = reading_of(x, NULL);
    return room_of(&r);
}

const uint8_t *dt__codes_bytes(const dt__codes *x, int64_t r0, int64_t rows, void *room)
{
    const reading r = reading_of(x, NULL);
    return bytes_of(&r, r0, rows, room);
}

/* Dequantizes row r, columns c0 ... c1-1 of u, group by group. */
static void expand_row(const dt__codes *codes, int64_t r, const dt__patch *block)
{
    const dt__kernels *kernels = codes->ctx->kernels[DT_F32];
    float *y = (float *)block->y + (r - block->r0) * block->ldy;
    uint8_t room[AT_ONCE + 2];
    for (int64_t c = block->c0; c < block->c1;) {
        const int64_t g = c / codes->group;
        const int64_t most = dt__min_i64(block->c1, (g + 1) * codes->group);
        const int64_t end = codes->packed ? dt__min_i64(most, c + AT_ONCE) : most;
        const int64_t at = r * codes->groups + g;
        const dt__code_row row = {
            .n = end - c,
            .group = end - c,
            .scale = codes->scale + at,
            .zero = codes->zero == NULL ? NULL : codes->zero + at,
            .bias = 128,
            .real = codes->layout.real,
        };
        const uint8_t *u = row_bytes(codes, r, c, end - c, room);
        kernels->decode(&row, (const int8_t *)u, y + (c - block->c0));
        c = end;
    }
}

void dt__codes_expand(const dt__codes *codes, const dt__patch *block)
{
    if (codes->panels == NULL) {
        for (int64_t r = block->r0; r < block->r1; r++) expand_row(codes, r, block);
        return;
    }
    const dt__panel_tile t = {
        .layout = &codes->layout,
        .panels = codes->panels,
        .zero = codes->zero,
        .zero_step = codes->zero_step,
        .n0 = block->r0,
        .n1 = block->r1,
        .k0 = block->c0,
        .k1 = block->c1,
        .y = block->y,
        .ldy = block->ldy,
    };
    codes->ctx->kernels[DT_F32]->expand(&t);
}

DT__EACH(codes_gather, i, const dt__codes *codes; const dt__gather *g; float *y; int64_t n;)
{
    const int64_t r = dt__gather_at(a.g, i);
    dt__codes_expand(a.codes, &(dt__patch){ r, r + 1, 0, a.n, a.y + i * a.n, a.n });
}

void dt__codes_gather(const dt__codes *codes, const dt__gather *g, float *y)
{
    const int64_t n = g->n;
    dt__parallel(g->count, n, codes_gather_share, &(codes_gather_args){ codes, g, y, n });
}

DT__EACH(codes_expand_all, i, const dt__codes *codes; float *y; int64_t n, rows;
         const dt__panel_layout *l;)
{
    const int64_t r0 = a.l != NULL ? dt__panel_row(a.l, i) : i * DT__LANES;
    const int64_t r1 = a.l != NULL ? dt__panel_row(a.l, i + 1) : r0 + DT__LANES;
    dt__codes_expand(a.codes,
                     &(dt__patch){ r0, dt__min_i64(r1, a.rows), 0, a.n, a.y + r0 * a.n, a.n });
}

void dt__codes_expand_all(const dt__codes *codes, float *y)
{
    const int64_t n = codes->columns, rows = codes->rows;
    const dt__panel_layout *l = codes->panels != NULL ? &codes->layout : NULL;
    const int64_t blocks = l != NULL ? l->panels : dt__ceil_div(rows, DT__LANES);
    dt__parallel(blocks, DT__LANES * n, codes_expand_all_share,
                 &(codes_expand_all_args){ codes, y, n, rows, l });
}

dt_status dt__dequantized(dt_ctx *ctx, const dt_tensor *x, const dt__codes *codes, dt_tensor **out)
{
    float *rows = NULL;
    *out = NULL;
    if (dt__is_mapped(&codes->map)) {
        rows = dt__alloc_array(ctx, codes->rows * codes->columns, sizeof *rows);
        if (rows == NULL) return DT_ERR_NOMEM;
    }
    const dt_status s = dt__tensor_create_raw(ctx, DT_F32, x->rank, x->dims, out);
    if (s == DT_OK) {
        (*out)->storage->dequantized = true;
        (*out)->name = dt__text_retain(x->name);
        dt__team *const threads = dt__threads_enter(ctx);
        dt__codes_expand_all(codes, rows != NULL ? rows : dt__data_mut(*out));
        if (rows != NULL) dt__rows_scatter(&codes->map, rows, dt__data_mut(*out));
        dt__threads_leave(threads);
    }
    dt__release(ctx, rows);
    return s;
}

static bool same_groups(const dt__codes *x, const dt__codes *w)
{
    return x->groups == w->groups && (x->groups <= 1 || x->group == w->group) && w->order == NULL &&
           w->layout.pieces_per_group <= 1;
}

bool dt__codes_multiply(const dt__codes *x, const dt__codes *w)
{
    return x != NULL && w != NULL && x->integer && w->integer && x->u != NULL &&
           w->panels != NULL && (!x->blocks || same_groups(x, w));
}

size_t dt__codes_product_room(const dt__codes *x, const dt__codes *w)
{
    const reading r = reading_of(x, w->order);
    return room_of(&r);
}

bool dt__codes_alike(const dt__codes *a, const dt__codes *b)
{
    return a->order == NULL && b->order == NULL && a->layout.nibbles == b->layout.nibbles;
}

/* The panels of those rows of w that are multiplied, as a weight of its own. */
static const void *panels_of(const dt__codes_weight *w, dt__panel_layout *l)
{
    *l = w->w->layout;
    if (w->n1 == 0) return w->w->panels;
    const int64_t panel = dt__panel_at(l, w->n0).panel;
    *l = dt__panel_part(l, w->n1 - w->n0);
    return (const char *)w->w->panels + (size_t)panel * l->panel_bytes;
}

/* The order in which columns of x are gathered: that of the first weight; several weights have
 * none. */
static const int32_t *order_of(const dt__codes_weight *w)
{
    return dt__panel_order(&w->w->layout, w->n0);
}

/* Multiplies rows r ... r + m - 1 of x, given as bytes u, by all weights. */
static void multiply_rows(const dt__codes_products *p, int64_t r, int64_t m, const uint8_t *u,
                          int64_t ldu)
{
    const dt__codes *x = p->x;
    dt__qgemm g[DT__MOST_WEIGHTS];
    dt__panel_layout layout[DT__MOST_WEIGHTS];
    for (int i = 0; i < p->n; i++) {
        const dt__codes_weight *w = &p->weight[i];
        g[i] = (dt__qgemm){ .layout = &layout[i],
                            .panels = panels_of(w, &layout[i]),
                            .m = m,
                            .u = u,
                            .ldu = ldu,
                            .sx = x->scale + r,
                            .zu = x->zero_u + r,
                            .block_scale = x->blocks ? x->scale + r * x->groups : NULL,
                            .bias = w->bias != NULL ? w->bias + w->n0 : NULL,
                            .y = w->y + (r - p->m0) * layout[i].rows,
                            .ldy = layout[i].rows,
                            .next = i + 1 < p->n ? &g[i + 1] : NULL };
    }
    const dt__kernels *kernels = x->ctx->kernels[DT_F32];
    if (g[0].layout->nibbles) kernels->qd8_qb4_gemm(g);
    else kernels->qd8_qb8_gemm(g);
}

void dt__codes_product(const dt__codes_products *p)
{
    const dt__codes *x = p->x;
    const reading rows = reading_of(x, order_of(&p->weight[0]));
    const int64_t end = p->m1 == 0 ? x->rows : p->m1;
    for (int64_t r = p->m0; r < end; r += rows.slice) {
        const int64_t m = dt__min_i64(rows.slice, end - r);
        multiply_rows(p, r, m, bytes_of(&rows, r, m, p->room), rows.stride);
    }
}

bool dt__codes_multiply_floats(int64_t m, const dt__codes *w)
{
    return m <= DT__FGEMM_ROWS && w != NULL && w->panels != NULL && w->zero == NULL;
}

size_t dt__codes_floats_room(int64_t m, const dt__codes *w)
{
    return w->order == NULL ? 0 : (size_t)(m * w->columns) * sizeof(float);
}

/* Writes x with its columns in the weight's order. */
static const float *ordered(const dt__codes_floats *p)
{
    const dt__codes *w = p->weight[0].w;
    const int32_t *order = order_of(&p->weight[0]);
    if (order == NULL) return p->x;
    const float *x = p->x;
    float *to = p->room;
    for (int64_t r = 0; r < p->m; r++, x += w->columns, to += w->columns) {
        for (int64_t j = 0; j < w->columns; j++) to[j] = x[order[j]];
    }
    return p->room;
}

void dt__codes_product_floats(const dt__codes_floats *p)
{
    const float *x = ordered(p);
    dt__fgemm g[DT__MOST_WEIGHTS];
    dt__panel_layout layout[DT__MOST_WEIGHTS];
    for (int i = 0; i < p->n; i++) {
        const dt__codes_weight *w = &p->weight[i];
        g[i] = (dt__fgemm){ .layout = &layout[i],
                            .panels = panels_of(w, &layout[i]),
                            .m = p->m,
                            .x = x,
                            .ldx = w->w->columns,
                            .y = w->y,
                            .ldy = layout[i].rows,
                            .next = i + 1 < p->n ? &g[i + 1] : NULL };
    }
    const dt__kernels *kernels = p->weight[0].w->ctx->kernels[DT_F32];
    if (g[0].layout->nibbles) kernels->f32_qb4_gemm(g);
    else kernels->f32_qb8_gemm(g);
}
