/* Operators of TFLite that move elements; integers keep their scale and zero point. */
#include "io/tflite/lite.h"

#include <string.h>

/* Whether x and y have one type, and integers one scale. */
static dt_status check_kind(const dt__vlite_call *c, const dt__vlite_tensor *x)
{
    const dt__vlite_tensor *y = c->y;
    if (x->type != y->type) return dt__vlite_refuse(c, "its result has another type");
    if (x->scales != y->scales ||
        (x->scales == 1 && (x->scale[0] != y->scale[0] || x->zero[0] != y->zero[0]))) {
        return dt__vlite_refuse(c, "its result has another scale or zero point");
    }
    return DT_OK;
}

/* y[to] = x[from] */
static void copy(dt__vlite_tensor *y, int64_t to, const dt__vlite_tensor *x, int64_t from)
{
    if (y->f != NULL) y->f[to] = x->f[from];
    else y->q[to] = x->q[from];
}

/* The extents of a RESHAPE's list; one of them may be -1, which takes what is left. */
static dt_status find_shape(const dt__vlite_call *c)
{
    int n, open = -1;
    int64_t dims[2 * DT__VLITE_RANK], rest = c->in[0]->count;
    DT__TRY(dt__vlite_list(c, 1, &n, dims));
    for (int i = 0; i < n; i++) {
        if (dims[i] == -1 && open < 0) open = i;
        else if (dims[i] > 0 && rest % dims[i] == 0) rest /= dims[i];
        else if (dims[i] != 0 || c->in[0]->count != 0)
            return dt__vlite_refuse(c, "its operand has another number of elements than its shape");
    }
    if (open >= 0) dims[open] = rest;
    return dt__vlite_wants(c, n, dims);
}

static dt_status run_reshape(dt__vlite_call *c)
{
    DT__TRY(check_kind(c, c->in[0]));
    if (c->n_in > 1) DT__TRY(find_shape(c));
    if (c->in[0]->count != c->y->count)
        return dt__vlite_refuse(c, "another number of elements than its input");
    for (int64_t i = 0; i < c->y->count; i++) copy(c->y, i, c->in[0], i);
    return DT_OK;
}

/* ---- elements at places ---------------------------------------------------------------------- */

/* Where element i of y comes from: dimension d of x at start[d] + step[d] * place in dimension
 * source[d] of y; -1: outside of x. */
typedef struct places {
    int64_t start[DT__VLITE_RANK], step[DT__VLITE_RANK];
    int source[DT__VLITE_RANK];
    bool mirrored;
} places;

static int64_t from(const dt__vlite_tensor *x, const dt__vlite_tensor *y, const places *p,
                    int64_t i)
{
    int64_t at[DT__VLITE_RANK], place = 0;
    for (int d = y->rank - 1; d >= 0; d--) {
        at[d] = i % y->dims[d];
        i /= y->dims[d];
    }
    for (int d = 0; d < x->rank; d++) {
        int64_t k = p->start[d] + p->step[d] * at[p->source[d]];
        if (p->mirrored && k < 0) k = -k;
        if (p->mirrored && k >= x->dims[d]) k = 2 * (x->dims[d] - 1) - k;
        if (k < 0 || k >= x->dims[d]) return -1;
        place = place * x->dims[d] + k;
    }
    return place;
}

static places straight(void)
{
    places p = { .mirrored = false };
    for (int d = 0; d < DT__VLITE_RANK; d++) {
        p.step[d] = 1;
        p.source[d] = d;
    }
    return p;
}

/* All elements of y; those that come from outside of x are `outside`, or element 0 of `code`. */
static void move(dt__vlite_tensor *y, const dt__vlite_tensor *x, const places *p, float outside,
                 const dt__vlite_tensor *code)
{
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t at = from(x, y, p, i);
        if (at >= 0) copy(y, i, x, at);
        else if (y->f != NULL) y->f[i] = outside;
        else y->q[i] = code != NULL ? code->q[0] : y->scales > 0 ? y->zero[0] : 0;
    }
}

static dt_status run_transpose(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    int n;
    int64_t order[2 * DT__VLITE_RANK], dims[DT__VLITE_RANK];
    places p = straight();
    unsigned seen = 0;
    DT__TRY(check_kind(c, x));
    DT__TRY(dt__vlite_list(c, 1, &n, order));
    for (int i = 0; i < n && n == x->rank; i++) {
        int axis;
        DT__TRY(dt__vlite_axis(c, order[i], x->rank, &axis));
        dims[i] = x->dims[axis];
        p.source[axis] = i;
        seen |= 1u << axis;
    }
    if (n != x->rank || seen != (1u << n) - 1)
        return dt__vlite_refuse(c, "its order does not name each dimension once");
    DT__TRY(dt__vlite_wants(c, n, dims));
    move(c->y, x, &p, 0, NULL);
    return DT_OK;
}

static dt_status run_pad(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    int n;
    int64_t pads[2 * DT__VLITE_RANK], dims[DT__VLITE_RANK];
    places p = straight();
    p.mirrored = c->op->code == DT__VLITE_MIRROR_PAD;
    DT__TRY(check_kind(c, x));
    DT__TRY(dt__vlite_list(c, 1, &n, pads));
    if (n != 2 * x->rank) return dt__vlite_refuse(c, "another number of paddings than dimensions");
    for (int d = 0; d < x->rank; d++) {
        const int64_t most = p.mirrored ? x->dims[d] - 1 : INT32_MAX;
        if (pads[2 * d] < 0 || pads[2 * d + 1] < 0 || pads[2 * d] > most ||
            pads[2 * d + 1] > most) {
            return dt__vlite_refuse(c, "a padding outside of its range");
        }
        p.start[d] = -pads[2 * d];
        dims[d] = x->dims[d] + pads[2 * d] + pads[2 * d + 1];
    }
    if (p.mirrored && c->op->option[0] != 0) return dt__vlite_refuse(c, "it repeats the edge");
    DT__TRY(dt__vlite_wants(c, x->rank, dims));
    const dt__vlite_tensor *value = c->n_in > 2 ? c->in[2] : NULL;
    if (value != NULL && (value->count != 1 || value->type != x->type)) {
        return dt__vlite_refuse(c, "its padding is not a number of the type of its input");
    }
    if (value != NULL && x->scales == 1 &&
        (value->scales != 1 || value->scale[0] != x->scale[0] || value->zero[0] != x->zero[0])) {
        return dt__vlite_refuse(c, "its padding has another scale or zero point than its input");
    }
    const bool is_float = value != NULL && value->f != NULL;
    move(c->y, x, &p, is_float ? value->f[0] : 0, is_float ? NULL : value);
    return DT_OK;
}

static dt_status run_slice(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    int n[3];
    int64_t list[3][2 * DT__VLITE_RANK], dims[DT__VLITE_RANK];
    places p = straight();
    DT__TRY(check_kind(c, x));
    for (int i = 0; i < 3; i++) {
        DT__TRY(dt__vlite_list(c, 1 + i, &n[i], list[i]));
        if (n[i] != x->rank) return dt__vlite_refuse(c, "another number of bounds than dimensions");
    }
    if (c->op->option[2] != 0 || c->op->option[3] != 0 || c->op->option[4] != 0) {
        return dt__vlite_refuse(
            c, "it has new or dropped dimensions, or an ellipsis (masks), which are not read");
    }
    for (int d = 0; d < x->rank; d++) {
        const bool first = (c->op->option[0] >> d & 1) != 0,
                   last = (c->op->option[1] >> d & 1) != 0;
        const int64_t start = first ? 0 : list[0][d], stop = last ? x->dims[d] : list[1][d];
        if (start < 0 || stop > x->dims[d] || start > stop || list[2][d] < 1) {
            return dt__vlite_refuse(c, "bounds outside of its input");
        }
        p.start[d] = start;
        p.step[d] = list[2][d];
        dims[d] = dt__ceil_div(stop - start, list[2][d]);
    }
    DT__TRY(dt__vlite_wants(c, x->rank, dims));
    move(c->y, x, &p, 0, NULL);
    return DT_OK;
}

/* ---- parts along an axis --------------------------------------------------------------------- */

/* Elements of the dimensions in front of an axis, and behind it. */
static void around(const dt__vlite_tensor *x, int axis, int64_t *front, int64_t *behind)
{
    *front = *behind = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d < axis) *front *= x->dims[d];
        if (d > axis) *behind *= x->dims[d];
    }
}

static dt_status run_concat(dt__vlite_call *c)
{
    int axis;
    int64_t dims[DT__VLITE_RANK], front, behind, at = 0;
    DT__TRY(dt__vlite_axis(c, c->op->option[0], c->in[0]->rank, &axis));
    memcpy(dims, c->in[0]->dims, sizeof dims);
    dims[axis] = 0;
    for (int i = 0; i < c->n_in; i++) {
        const dt__vlite_tensor *x = c->in[i];
        if (x == NULL || x->rank != c->in[0]->rank)
            return dt__vlite_refuse(c, "its inputs have different numbers of dimensions");
        DT__TRY(check_kind(c, x));
        for (int d = 0; d < x->rank; d++) {
            if (d != axis && x->dims[d] != dims[d])
                return dt__vlite_refuse(c, "its inputs differ in an extent that is not joined");
        }
        dims[axis] += x->dims[axis];
    }
    DT__TRY(dt__vlite_wants(c, c->in[0]->rank, dims));
    around(c->y, axis, &front, &behind);
    for (int i = 0; i < c->n_in; i++) {
        const int64_t own = c->in[i]->dims[axis] * behind, all = dims[axis] * behind;
        for (int64_t k = 0; k < front * own; k++) {
            copy(c->y, k / own * all + at + k % own, c->in[i], k);
        }
        at += own;
    }
    return DT_OK;
}

static dt_status run_split(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[1];
    int axis, n;
    int64_t list[2 * DT__VLITE_RANK], dims[DT__VLITE_RANK], front, behind;
    DT__TRY(dt__vlite_list(c, 0, &n, list));
    if (n != 1) return dt__vlite_refuse(c, "its axis is not a number");
    DT__TRY(dt__vlite_axis(c, list[0], x->rank, &axis));
    const int parts = c->op->n_out;
    if (parts != c->op->option[0] || x->dims[axis] % parts != 0) {
        return dt__vlite_refuse(c, "its input cannot be cut into %d equal parts", parts);
    }
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] /= parts;
    around(x, axis, &front, &behind);
    const int64_t own = dims[axis] * behind, all = x->dims[axis] * behind;
    for (int i = 0; i < parts; i++) {
        c->y = dt__vlite_result(c, i);
        DT__TRY(check_kind(c, x));
        DT__TRY(dt__vlite_wants(c, x->rank, dims));
        for (int64_t k = 0; k < front * own; k++) {
            copy(c->y, k, x, k / own * all + i * own + k % own);
        }
    }
    return DT_OK;
}

static dt_status run_gather(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0], *index = c->in[1];
    int axis;
    int64_t dims[2 * DT__VLITE_RANK], front, behind;
    DT__TRY(check_kind(c, x));
    DT__TRY(dt__vlite_axis(c, c->op->option[0], x->rank, &axis));
    if (index->type != DT__VLITE_I32 || c->op->option[1] != 0 ||
        x->rank - 1 + index->rank > DT__VLITE_RANK) {
        return dt__vlite_refuse(c, "its indices are not 32-bit integers");
    }
    int rank = 0;
    for (int d = 0; d < axis; d++) dims[rank++] = x->dims[d];
    for (int d = 0; d < index->rank; d++) dims[rank++] = index->dims[d];
    for (int d = axis + 1; d < x->rank; d++) dims[rank++] = x->dims[d];
    DT__TRY(dt__vlite_wants(c, rank, dims));
    around(x, axis, &front, &behind);
    for (int64_t i = 0; i < index->count; i++) {
        const int64_t k = index->q[i];
        if (k < 0 || k >= x->dims[axis]) {
            return dt__vlite_refuse(c, "place %lld is outside of its input", (long long)k);
        }
        for (int64_t j = 0; j < front * behind; j++) {
            copy(c->y, (j / behind * index->count + i) * behind + j % behind, x,
                 (j / behind * x->dims[axis] + k) * behind + j % behind);
        }
    }
    return DT_OK;
}

/* Pixel i of n comes from floor(i in / n). */
static dt_status run_resize(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    int n;
    int64_t size[2 * DT__VLITE_RANK];
    DT__TRY(check_kind(c, x));
    DT__TRY(dt__vlite_list(c, 1, &n, size));
    if (n != 2 || x->rank != 4 || c->op->option[0] != 0 || c->op->option[1] != 0) {
        return dt__vlite_refuse(c, "a form of resizing that is not read");
    }
    const int64_t dims[] = { x->dims[0], size[0], size[1], x->dims[3] };
    DT__TRY(dt__vlite_wants(c, 4, dims));
    for (int64_t i = 0; i < c->y->count; i++) {
        const int64_t o = i % dims[3], s = i / dims[3] % dims[2],
                      r = i / dims[3] / dims[2] % dims[1];
        const int64_t image = i / dims[3] / dims[2] / dims[1];
        const int64_t row = r * x->dims[1] / dims[1], column = s * x->dims[2] / dims[2];
        copy(c->y, i, x, ((image * x->dims[1] + row) * x->dims[2] + column) * dims[3] + o);
    }
    return DT_OK;
}

const dt__vlite_operator dt__vlite_moves[] = {
    { DT__VLITE_ROW(CONCATENATION), 1, DT__VLITE_IN, run_concat, { 4, 1 }, NULL },
    { DT__VLITE_ROW(RESHAPE), 1, 2, run_reshape, { 0 }, NULL },
    { DT__VLITE_ROW(PAD), 2, 2, run_pad, { 0 }, NULL },
    { DT__VLITE_ROW(GATHER), 2, 2, run_gather, { 4, 4 }, NULL },
    { DT__VLITE_ROW(TRANSPOSE), 2, 2, run_transpose, { 0 }, NULL },
    { DT__VLITE_ROW(STRIDED_SLICE), 4, 4, run_slice, { 4, 4, 4, 4, 4, 1 }, NULL },
    { DT__VLITE_ROW(SPLIT), 2, 2, run_split, { 4 }, NULL },
    { DT__VLITE_ROW(PADV2), 3, 3, run_pad, { 0 }, NULL },
    { DT__VLITE_ROW(RESIZE_NEAREST_NEIGHBOR), 2, 2, run_resize, { 1, 1 }, NULL },
    { DT__VLITE_ROW(MIRROR_PAD), 2, 2, run_pad, { 1 }, NULL },
    { 0, NULL, 0, 0, NULL, { 0 }, NULL },
};
