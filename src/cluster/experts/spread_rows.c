/* The contents of messages for a call of grouped_linear: each row that is routed to an expert of a
 * rank, as floats or as codes, with the index of the expert there; in backward also the row of dy.
 * A rank keeps nothing of a forward pass for backward: rows are sent again.
 *     int32 expert [rows], float dy [rows][out], then
 *     float x [rows][in],  or  float scale [rows][groups], int32 zero_u [rows],
 *                              uint8 u [rows][stride], int8 zero [rows][groups] */
#include "cluster/experts/spreading.h"

#include "autograd/codes.h"
#include "autograd/op.h"

#include <string.h>

enum { X, WEIGHT, BIAS, OFFSETS, INDEX };

/* Addresses of the parts of a block; NULL: it lacks the part. */
typedef struct parts {
    int32_t *expert, *zero_u;
    float *dy, *x, *scale;
    uint8_t *u;
    int8_t *zero;
    uint64_t bytes;
} parts;

static void *part(char *base, uint64_t *at, bool there, uint64_t bytes)
{
    void *p = there && base != NULL ? base + (size_t)*at : NULL;
    if (there) *at += bytes;
    return p;
}

static parts parts_of(const dt__rows_head *h, const dt__spread_layer *l, char *base)
{
    const uint64_t rows = (uint64_t)h->rows, out = (uint64_t)l->weight->dims[1];
    const uint64_t in = (uint64_t)l->weight->dims[2], groups = (uint64_t)h->groups;
    const bool coded = h->coded != 0;
    parts p = { .bytes = 0 };
    p.expert = part(base, &p.bytes, true, rows * sizeof(int32_t));
    p.dy = part(base, &p.bytes, h->asks == DT__ASKS_BACKWARD, rows * out * sizeof(float));
    p.x = part(base, &p.bytes, !coded, rows * in * sizeof(float));
    p.scale = part(base, &p.bytes, coded, rows * groups * sizeof(float));
    p.zero_u = part(base, &p.bytes, coded && h->has_zero_u, rows * sizeof(int32_t));
    p.u = part(base, &p.bytes, coded, rows * (uint64_t)h->stride);
    p.zero = part(base, &p.bytes, coded && h->has_zero, rows * groups);
    return p;
}

uint64_t dt__rows_bytes(const dt__rows_head *h, const dt__spread_layer *l)
{
    return h->rows == 0 ? 0 : parts_of(h, l, NULL).bytes;
}

uint64_t dt__rows_answer_bytes(const dt__rows_head *h, const dt__spread_layer *l)
{
    const bool forward = h->asks == DT__ASKS_FORWARD;
    if (!forward && !h->wants_x) return 0;
    return (uint64_t)(h->rows * l->weight->dims[forward ? 1 : 2]) * sizeof(float);
}

dt_status dt__rows_reserve(dt_ctx *ctx, dt__rows_room *r, uint64_t bytes)
{
    const uint64_t room = bytes + DT__STEP; /* products may read beyond the last row */
    if (room > r->room) {
        dt__release(ctx, r->data);
        *r = (dt__rows_room){ .data = dt__alloc(ctx, room) };
        if (r->data == NULL) return DT_ERR_NOMEM;
        r->room = (size_t)room;
    }
    r->bytes = (size_t)bytes;
    return DT_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The rank that owns an expert of a call. */
static int rows_owner(const dt__spreading *s, const dt__asked *a, int64_t expert)
{
    const int64_t all = a->c->in[WEIGHT]->spread;
    int64_t range[2];
    int k = (int)(expert * s->ranks / all);
    for (dt__experts_of_rank(all, k, s->ranks, range); expert < range[0];) {
        dt__experts_of_rank(all, --k, s->ranks, range);
    }
    while (expert >= range[1]) dt__experts_of_rank(all, ++k, s->ranks, range);
    return k;
}

static int64_t layer_of(const dt__spreading *s, const dt_tensor *weight)
{
    int64_t i = 0;
    while (i < s->n_layers && s->layers[i].weight != weight) i++;
    return i;
}

static dt__rows_head head_of(const dt__spreading *s, const dt__asked *a)
{
    const dt_call *c = a->c;
    const dt__codes *x = a->codes;
    dt__rows_head h = { .asks = a->dy == NULL ? DT__ASKS_FORWARD : DT__ASKS_BACKWARD,
                        .layer = (int32_t)layer_of(s, c->in[WEIGHT]),
                        .no_grad = c->tape->no_grad,
                        .wants_x = c->wants[X],
                        .wants_weight = c->wants[WEIGHT],
                        .wants_bias = c->wants[BIAS],
                        .coded = x != NULL };
    if (x == NULL) return h;
    h.bits = x->bits;
    h.integer = x->integer;
    h.blocks = x->blocks;
    h.packed = x->packed;
    h.has_zero = x->zero != NULL;
    h.has_zero_u = x->zero_u != NULL;
    h.columns = x->columns;
    h.group = x->group;
    h.groups = x->groups;
    h.stride = x->stride;
    return h;
}

/* Copies row `row` of x to row i of the block. */
static void put_row(const dt__asked *a, const dt__rows_head *h, const parts *p, int64_t i,
                    int64_t row)
{
    const dt__codes *x = a->codes;
    if (x == NULL) {
        const float *from = (const float *)dt__values(a->x) + row * a->in;
        memcpy(p->x + i * a->in, from, (size_t)a->in * sizeof *from);
        return;
    }
    const size_t groups = (size_t)h->groups;
    memcpy(p->u + i * h->stride, x->u + row * x->stride, (size_t)h->stride);
    memcpy(p->scale + (size_t)i * groups, x->scale + (size_t)row * groups, groups * sizeof(float));
    if (p->zero_u != NULL) p->zero_u[i] = x->zero_u[row];
    if (p->zero != NULL)
        memcpy(p->zero + (size_t)i * groups, x->zero + (size_t)row * groups, groups);
}

static void put_assignment(dt__spreading *s, const dt__asked *a, int64_t k)
{
    const int64_t expert = dt__index_at(a->index, k);
    if (expert < 0) return;
    const int owner = rows_owner(s, a, expert);
    const dt__rows_head *h = &s->send[owner];
    const parts p = parts_of(h, &s->layers[h->layer], s->out[owner].data);
    const int64_t i = s->cursor[owner]++;
    int64_t range[2];
    dt__experts_of_rank(a->c->in[WEIGHT]->spread, owner, s->ranks, range);
    p.expert[i] = (int32_t)(expert - range[0]);
    put_row(a, h, &p, i, k / a->per_row);
    if (p.dy == NULL) return;
    const float *dy = (const float *)dt__values(a->dy) + k * a->out;
    memcpy(p.dy + i * a->out, dy, (size_t)a->out * sizeof *dy);
}

dt_status dt__rows_ask(dt__spreading *s, const dt__asked *a)
{
    memset(s->send, 0, (size_t)s->ranks * sizeof *s->send);
    if (a == NULL) return DT_OK;
    for (int k = 0; k < s->ranks; k++) s->send[k] = head_of(s, a);
    for (int64_t i = 0; i < a->assignments; i++) {
        const int64_t expert = dt__index_at(a->index, i);
        if (expert >= 0) s->send[rows_owner(s, a, expert)].rows++;
    }
    for (int k = 0; k < s->ranks; k++) {
        const dt__rows_head *h = &s->send[k];
        s->cursor[k] = 0;
        DT__TRY(dt__rows_reserve(s->ctx, &s->out[k], dt__rows_bytes(h, &s->layers[h->layer])));
    }
    for (int64_t i = 0; i < a->assignments; i++) put_assignment(s, a, i);
    return DT_OK;
}

/* ---- serving --------------------------------------------------------------------------------- */

static dt_status new_tensor(dt_ctx *ctx, dt_dtype dtype, const int64_t dims[2], const void *from,
                            dt_tensor **out)
{
    DT__TRY(dt__tensor_create_raw(ctx, dtype, dims[1] < 0 ? 1 : 2, dims, out));
    const size_t bytes = (size_t)(*out)->count * dt_dtype_size(dtype);
    if (from != NULL && bytes > 0) memcpy(dt__values_mut(*out), from, bytes);
    return DT_OK;
}

/* Codes whose arrays are in the message. */
static dt_status borrow_codes(dt_ctx *ctx, const dt__rows_head *h, const parts *p, dt__codes **out)
{
    DT__TRY(dt__codes_create(ctx, out));
    dt__codes *c = *out;
    c->rows = h->rows;
    c->columns = h->columns;
    c->group = h->group;
    c->groups = h->groups;
    c->bits = h->bits;
    c->integer = h->integer;
    c->blocks = h->blocks;
    c->packed = h->packed;
    c->stride = h->stride;
    c->u = p->u;
    c->scale = p->scale;
    c->zero_u = p->zero_u;
    c->zero = p->zero;
    return DT_OK;
}

static void return_codes(dt__codes *c)
{
    if (c == NULL) return;
    c->u = NULL;
    c->scale = NULL;
    c->zero_u = NULL;
    c->zero = NULL;
    dt__codes_release(c);
}

typedef struct serving {
    dt__spreading *s;
    const dt__rows_head *h;
    const dt__spread_layer *l;
    parts p;
    dt__owned o;
    int rank; /* the rank that sent the rows */
    const dt__asked *own;
    float *answer;
} serving;

static dt_status open_rows(serving *v)
{
    dt_ctx *ctx = v->s->ctx;
    const dt__rows_head *h = v->h;
    const int64_t in = v->l->weight->dims[2], x[2] = { h->rows, in }, index[2] = { h->rows, -1 };
    v->s->tape->no_grad = h->no_grad;
    v->o = (dt__owned){ .tape = v->s->tape, .weight = v->l->weight, .bias = v->l->bias };
    DT__TRY(new_tensor(ctx, DT_I32, index, v->p.expert, &v->o.index));
    if (!h->coded) return new_tensor(ctx, DT_F32, x, v->p.x, &v->o.x);
    DT__TRY(dt__handle_create(ctx, DT_F32, 2, x, &v->o.x));
    return borrow_codes(ctx, h, &v->p, &v->o.codes);
}

static void close_rows(serving *v)
{
    return_codes(v->o.codes);
    DT__TENSORS_FREE(v->o.x, v->o.index);
    v->s->tape->no_grad = false;
}

/* Swaps the gradients of the layer's tensors with those from the rank's rows. */
static void swap_slots(const serving *v)
{
    dt_tensor **slot = v->s->slot + v->rank * v->s->n_tensors;
    for (int64_t i = v->l->first; i < v->l->past; i++) {
        dt_tensor *const own = v->s->tensor[i]->grad;
        v->s->tensor[i]->grad = slot[i];
        slot[i] = own;
    }
}

static dt_status like(const dt_tensor *x, bool wanted, dt_tensor **out)
{
    *out = NULL;
    return wanted ? dt__tensor_create_raw(x->ctx, DT_F32, x->rank, x->dims, out) : DT_OK;
}

/* Runs backward for another rank's rows. Its gradients go to slots, where they wait for the sum
 * over shards. */
static dt_status backward_of_other(serving *v, const dt_tensor *dy, dt__owned_gradients *g)
{
    g->pulls = true;
    DT__TRY(like(v->l->weight, v->h->wants_weight, &g->weight));
    DT__TRY(like(v->l->bias, v->h->wants_bias, &g->bias));
    swap_slots(v);
    dt_status status = dt__owned_backward(&v->o, dy, g);
    swap_slots(v);
    dt__spreading *s = v->s;
    for (int64_t i = v->l->first; i < v->l->past && s->on_gradient != NULL; i++) {
        dt_tensor **slot = &s->slot[v->rank * s->n_tensors + i];
        if (status != DT_OK || *slot == NULL) continue;
        status = s->on_gradient(s->on_gradient_user, v->rank, i, slot);
    }
    return status;
}

static dt_status backward(serving *v)
{
    dt_ctx *ctx = v->s->ctx;
    const int64_t *w = v->l->weight->dims, y[2] = { v->h->rows, w[1] }, x[2] = { v->h->rows, w[2] };
    dt_tensor *dy = NULL;
    dt__owned_gradients g = { 0 };
    dt_status status = new_tensor(ctx, DT_F32, y, v->p.dy, &dy);
    if (status == DT_OK && v->h->wants_x) status = new_tensor(ctx, DT_F32, x, NULL, &g.x);
    if (status == DT_OK && v->rank == v->s->rank) {
        dt__owned_gradients own = { g.x, v->own->dx[WEIGHT], v->own->dx[BIAS], false };
        status = dt__owned_backward(&v->o, dy, &own);
    } else if (status == DT_OK) {
        status = backward_of_other(v, dy, &g);
        DT__TENSORS_FREE(g.weight, g.bias);
    }
    if (status == DT_OK && g.x != NULL && g.x->count > 0) {
        memcpy(v->answer, dt__values(g.x), (size_t)g.x->count * sizeof(float));
    }
    DT__TENSORS_FREE(g.x, dy);
    return status;
}

dt_status dt__rows_serve(dt__spreading *s, int k, const dt__asked *a)
{
    serving v = { .s = s, .h = &s->receive[k], .rank = k, .own = a };
    if (v.h->asks == DT__ASKS_NOTHING) return DT_OK;
    v.l = &s->layers[v.h->layer];
    v.p = parts_of(v.h, v.l, k == s->rank ? s->out[k].data : s->in[k].data);
    v.answer = (float *)(void *)s->answer[k].data;
    dt_status status = open_rows(&v);
    if (status == DT_OK && v.h->asks == DT__ASKS_BACKWARD) status = backward(&v);
    else if (status == DT_OK && v.h->rows > 0) status = dt__owned_forward(&v.o, v.answer);
    close_rows(&v);
    if (status != DT_OK) memset(v.answer, 0, s->answer[k].bytes);
    return status;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Copies row k of `to`, n floats, from the answer of the rank that owns its expert; 0 without
 * one. */
static void take_row(dt__spreading *s, const dt__asked *a, int64_t k, int64_t n, float *to)
{
    const int64_t expert = dt__index_at(a->index, k);
    if (expert < 0) {
        memset(to + k * n, 0, (size_t)n * sizeof *to);
        return;
    }
    const int owner = rows_owner(s, a, expert);
    const dt__rows_room *from = owner == s->rank ? &s->answer[owner] : &s->answered[owner];
    const float *row = (const float *)(const void *)from->data + s->cursor[owner]++ * n;
    memcpy(to + k * n, row, (size_t)n * sizeof *to);
}

static void take_rows(dt__spreading *s, const dt__asked *a, int64_t n, float *to)
{
    for (int k = 0; k < s->ranks; k++) s->cursor[k] = 0;
    for (int64_t k = 0; k < a->assignments; k++) take_row(s, a, k, n, to);
}

/* Sums a row of dx over its experts, in the order of assignments. */
static dt_status take_sums(dt__spreading *s, const dt__asked *a)
{
    const int64_t rows = dt__rows(a->x);
    float *part = dt__alloc_array(s->ctx, a->assignments * a->in, sizeof *part);
    int64_t *row = dt__alloc_array(s->ctx, a->assignments, sizeof *row);
    if (part != NULL && row != NULL) {
        take_rows(s, a, a->in, part);
        for (int64_t k = 0; k < a->assignments; k++) {
            row[k] = dt__index_at(a->index, k) < 0 ? -1 : k;
        }
        const dt__row_sums sums = { rows, a->per_row, a->in, row };
        a->c->kernels->sum_parts(&sums, part, dt__values_mut(a->dx[X]));
    }
    const bool ok = part != NULL && row != NULL;
    DT__RELEASE(s->ctx, part, row);
    return ok ? DT_OK : DT_ERR_NOMEM;
}

dt_status dt__rows_take(dt__spreading *s, const dt__asked *a)
{
    if (a->dy == NULL) {
        take_rows(s, a, a->out, dt__values_mut(a->c->y));
        return DT_OK;
    }
    if (a->dx[X] == NULL) return DT_OK;
    if (a->per_row != 1) return take_sums(s, a);
    take_rows(s, a, a->in, dt__values_mut(a->dx[X]));
    return DT_OK;
}
