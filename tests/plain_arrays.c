/* Views of plain arrays, by loops over indices, and layers of recipes that do the same. */
#include "plain_arrays.h"

#include "core/tensor.h"
#include "testing.h"

#include <detent/experimental/ops.h>

#include <stdarg.h>
#include <stdio.h>

/* ---- arrays --------------------------------------------------------------------------------- */

static void set_dims(plain_array *a, int rank, const int64_t *dims)
{
    a->rank = rank;
    a->count = 1;
    for (int d = 0; d < rank; d++) a->count *= a->dims[d] = dims[d];
    ck_assert_int_le(a->count, PLAIN_MOST);
}

/* Index `at` of element i of an array of these dims. */
static void index_of(int rank, const int64_t *dims, int64_t i, int64_t *at)
{
    for (int d = rank - 1; d >= 0; d--) {
        at[d] = i % dims[d];
        i /= dims[d];
    }
}

void plain_of(const dt_tensor *x, plain_array *out)
{
    int64_t dims[DT_MAX_RANK], at[DT_MAX_RANK];
    const float *from = dt_strided_data(x);
    for (int d = 0; d < dt_rank(x); d++) dims[d] = dt_dim(x, d);
    set_dims(out, dt_rank(x), dims);
    ck_assert(from != NULL && dt_dtype_of(x) == DT_F32);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t offset = 0;
        index_of(out->rank, dims, i, at);
        for (int d = 0; d < out->rank; d++) offset += at[d] * dt_stride(x, d);
        out->v[i] = from[offset];
    }
}

static float element(const plain_array *a, const int64_t *at)
{
    int64_t i = 0;
    for (int d = 0; d < a->rank; d++) i = i * a->dims[d] + at[d];
    return a->v[i];
}

void plain_slice(plain_array *a, int d, int64_t start, int64_t stop, int64_t step)
{
    static plain_array from;
    int64_t at[DT_MAX_RANK];
    from = *a;
    a->dims[d] = (stop - start + step - 1) / step;
    set_dims(a, a->rank,
             (int64_t[DT_MAX_RANK]){ a->dims[0], a->dims[1], a->dims[2], a->dims[3], a->dims[4] });
    for (int64_t i = 0; i < a->count; i++) {
        index_of(a->rank, a->dims, i, at);
        at[d] = start + at[d] * step;
        a->v[i] = element(&from, at);
    }
}

void plain_permute(plain_array *a, const int64_t *order)
{
    static plain_array from;
    int64_t at[DT_MAX_RANK], was[DT_MAX_RANK];
    from = *a;
    for (int d = 0; d < a->rank; d++) a->dims[d] = from.dims[order[d]];
    for (int64_t i = 0; i < a->count; i++) {
        index_of(a->rank, a->dims, i, at);
        for (int d = 0; d < a->rank; d++) was[order[d]] = at[d];
        a->v[i] = element(&from, was);
    }
}

void plain_flatten(plain_array *a)
{
    set_dims(a, 2, (int64_t[]){ a->dims[0], a->count / a->dims[0] });
}

/* ---- layers --------------------------------------------------------------------------------- */

void plain_append(plain_text *t, const char *format, ...)
{
    va_list args;
    const size_t used = strlen(t->text), room = sizeof t->text - used;
    va_start(args, format);
    ck_assert_int_lt(vsnprintf(t->text + used, room, format, args), (int)room);
    va_end(args);
}

static int64_t pick(dt__stream *s, int64_t least, int64_t most)
{
    return least + (int64_t)dt__random_below(s, (uint64_t)(most - least + 1));
}

/* Elements from `start` on along dimension d; leaves out at least one if there are two. */
static void cut(dt__stream *s, int d, int64_t step, plain_array *a, plain_text *yaml)
{
    const int64_t n = a->dims[d];
    int64_t start = pick(s, 0, n > 2 ? n / 3 : 0), stop = pick(s, n - n / 3, n);
    if (start == 0 && stop == n && n > 1) stop--;
    plain_append(yaml, "  - {slice: v%d, dim: %d, start: %lld, stop: %lld, step: %lld}\n",
                 yaml->n++, d, (long long)start, (long long)stop, (long long)step);
    plain_slice(a, d, start, stop, step);
}

static void reorder(const int64_t *order, plain_array *a, plain_text *yaml)
{
    plain_append(yaml, "  - {permute: v%d, dims: [0", yaml->n++);
    for (int d = 1; d < a->rank; d++) plain_append(yaml, ", %d", (int)order[d]);
    plain_append(yaml, "]}\n");
    plain_permute(a, order);
}

static void draw_order(dt__stream *s, int rank, int64_t *order)
{
    for (int d = 0; d < rank; d++) order[d] = d;
    for (int d = rank - 1; d > 1; d--) {
        const int64_t other = pick(s, 1, d), was = order[d];
        order[d] = order[other];
        order[other] = was;
    }
}

static void last_channels(plain_array *a, plain_text *yaml)
{
    int64_t order[DT_MAX_RANK] = { 0 };
    for (int d = 1; d < a->rank; d++) order[d] = d + 1 < a->rank ? d + 1 : 1;
    reorder(order, a, yaml);
}

/* One element of a dimension, which is then gone. */
static void choose(dt__stream *s, plain_array *a, plain_text *yaml)
{
    const int d = (int)pick(s, 1, a->rank - 1);
    const int64_t at = pick(s, 0, a->dims[d] - 1);
    int64_t dims[DT_MAX_RANK] = { a->dims[0] };
    int rank = 1;
    plain_append(yaml, "  - {slice: v%d, dim: %d, start: %lld, stop: %lld}\n", yaml->n++, d,
                 (long long)at, (long long)at + 1);
    plain_slice(a, d, at, at + 1, 1);
    if (a->rank < 3) return;
    plain_append(yaml, "  - {reshape: v%d, shape: [", yaml->n++);
    for (int k = 1; k < a->rank; k++) {
        if (k == d) continue;
        plain_append(yaml, "%s%lld", rank > 1 ? ", " : "", (long long)a->dims[k]);
        dims[rank++] = a->dims[k];
    }
    plain_append(yaml, "]}\n");
    set_dims(a, rank, dims);
}

enum { SLICE, PERMUTE, CROP, LAST_CHANNELS, SELECT, RESHAPE };

static void add_view(dt__stream *s, int kind, plain_array *a, plain_text *yaml)
{
    int64_t order[DT_MAX_RANK];
    const bool can_turn = a->rank > 2;
    if (kind == SLICE || !can_turn) {
        cut(s, (int)pick(s, 1, a->rank - 1), pick(s, 1, 2), a, yaml);
    } else if (kind == CROP) {
        for (int d = 2; d < a->rank; d++) cut(s, d, 1, a, yaml);
    } else if (kind == LAST_CHANNELS) {
        last_channels(a, yaml);
    } else if (kind == SELECT) {
        choose(s, a, yaml);
    } else {
        draw_order(s, a->rank, order);
        reorder(order, a, yaml);
        if (kind != RESHAPE) return;
        plain_append(yaml, "  - {reshape: v%d, shape: [%lld]}\n", yaml->n++,
                     (long long)(a->count / a->dims[0]));
        plain_flatten(a);
    }
}

void plain_view(dt__stream *s, int kind, plain_array *a, plain_text *yaml)
{
    add_view(s, kind, a, yaml);
    if (yaml->after != NULL) plain_append(yaml, "%s", yaml->after);
}

void plain_views(dt__stream *s, int last, plain_array *a, plain_text *yaml)
{
    for (int64_t n = pick(s, 0, 2); n > 0; n--) plain_view(s, (int)pick(s, 0, 3), a, yaml);
    plain_view(s, last, a, yaml);
}
