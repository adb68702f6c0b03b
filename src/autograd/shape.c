/* Helpers of shape functions: every check that several ops share has its message here. */
#include "autograd/op.h"

#include <string.h>

static const char *name_of(const dt_call *c, int i)
{
    return c->op->in_name[i] != NULL ? c->op->in_name[i] : "x";
}

dt_status dt__want_operands(const dt_call *c, int least, int most)
{
    if (c->n_in >= least && c->n_in <= most) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "%d operands given, expected %d...%d", c->n_in, least, most);
}

dt_status dt__want_dtype(const dt_call *c, int i, dt_dtype dtype)
{
    if (c->in[i]->dtype == dtype) return DT_OK;
    return dt_refuse(c, DT_ERR_DTYPE, "%s must be %s, not %s", name_of(c, i), dt_dtype_name(dtype),
                     dt_dtype_name(c->in[i]->dtype));
}

dt_status dt__want_float(const dt_call *c, int i)
{
    if (dt__is_float(c->in[i]->dtype)) return DT_OK;
    return dt_refuse(c, DT_ERR_DTYPE, "%s must be f32 or f64, not %s", name_of(c, i),
                     dt_dtype_name(c->in[i]->dtype));
}

dt_status dt__want_rank(const dt_call *c, int i, int least, int most)
{
    const int rank = c->in[i]->rank;
    if (rank >= least && rank <= most) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "%s has rank %d, must be %d...%d", name_of(c, i), rank, least,
                     most);
}

dt_status dt__want_dims(const dt_call *c, int i, int rank, const int64_t *dims)
{
    const dt_tensor *x = c->in[i];
    if (x->rank == rank && memcmp(x->dims, dims, (size_t)rank * sizeof dims[0]) == 0) return DT_OK;
    char text[160], own[160];
    return dt_refuse(c, DT_ERR_SHAPE, "%s must be %s, not %s", name_of(c, i),
                     dt__dims_text(rank, dims, text, sizeof text),
                     dt__dims_text(x->rank, x->dims, own, sizeof own));
}

dt_status dt__want_dim(const dt_call *c, int i, int64_t dim, int *out)
{
    const int rank = c->in[i]->rank;
    const int64_t d = dim < 0 ? dim + rank : dim;
    if (d < 0 || d >= rank) {
        return dt_refuse(c, DT_ERR_ARG, "dimension %lld of %s does not exist; expected %d...%d",
                         (long long)dim, name_of(c, i), -rank, rank - 1);
    }
    *out = (int)d;
    return DT_OK;
}

dt_status dt__want_indices(const dt_call *c, int i, int64_t n, const int64_t *ignore)
{
    const dt_tensor *x = c->arg[i];
    if (x->dtype != DT_I32 && x->dtype != DT_I64) {
        return dt_refuse(c, DT_ERR_DTYPE, "%s must be i32 or i64, not %s", name_of(c, i),
                         dt_dtype_name(x->dtype));
    }
    for (int64_t k = 0; k < x->count; k++) {
        const int64_t v = dt__index_at(x, k);
        if ((v >= 0 && v < n) || (ignore != NULL && v == *ignore)) continue;
        return dt_refuse(c, DT_ERR_ARG, "%s[%lld] is %lld, outside 0...%lld", name_of(c, i),
                         (long long)k, (long long)v, (long long)n - 1);
    }
    return DT_OK;
}

dt_status dt__shape_like(dt_call *c, int i)
{
    DT__TRY(dt__want_float(c, i));
    return dt_result(c, 0, c->in[i]->dtype, c->in[i]->rank, c->in[i]->dims);
}

dt_status dt__result_view(dt_call *c, int i, int rank, const int64_t *dims, const int64_t *strides,
                          int64_t offset)
{
    dt_tensor *y;
    DT__TRY(dt__handle_create(c->ctx, c->arg[0]->dtype, rank, dims, &y));
    memcpy(y->strides, strides, (size_t)rank * sizeof strides[0]);
    y->offset = offset;
    y->storage = c->arg[0]->storage;
    dt__storage_retain(y->storage);
    c->out[i] = y;
    if (i >= c->n_out) c->n_out = i + 1;
    return DT_OK;
}

dt_status dt__broadcast_batch(const dt_call *c, int a, int b, int skip, int64_t *dims)
{
    const dt_tensor *x = c->in[a], *y = c->in[b];
    const int rank = x->rank > y->rank ? x->rank : y->rank;
    for (int i = skip + 1; i <= rank; i++) {
        const int64_t p = i <= x->rank ? x->dims[x->rank - i] : 1;
        const int64_t q = i <= y->rank ? y->dims[y->rank - i] : 1;
        if (p != q && p != 1 && q != 1) {
            return dt_refuse(c, DT_ERR_SHAPE,
                             "extents %lld and %lld do not broadcast; expected equal ones, or 1",
                             (long long)p, (long long)q);
        }
        dims[rank - i] = p == 1 ? q : p;
    }
    return DT_OK;
}

dt_status dt__broadcast(dt_call *c, int a, int b, int *rank, int64_t *dims)
{
    *rank = c->in[a]->rank > c->in[b]->rank ? c->in[a]->rank : c->in[b]->rank;
    return dt__broadcast_batch(c, a, b, 0, dims);
}

dt_status dt__want_broadcast(const dt_call *c, int i, int to)
{
    const dt_tensor *x = c->in[i], *y = c->in[to];
    bool fits = x->rank <= y->rank;
    for (int d = 1; fits && d <= x->rank; d++) {
        const int64_t extent = x->dims[x->rank - d];
        fits = extent == 1 || extent == y->dims[y->rank - d];
    }
    if (fits) return DT_OK;
    char own[160], wanted[160];
    return dt_refuse(c, DT_ERR_SHAPE, "%s, %s, does not broadcast to %s, %s", name_of(c, i),
                     dt__dims_text(x->rank, x->dims, own, sizeof own), name_of(c, to),
                     dt__dims_text(y->rank, y->dims, wanted, sizeof wanted));
}

dt_status dt__copy_call_options(dt_ctx *ctx, const dt_call *c, const void **out)
{
    *out = NULL;
    if (c->op->options_size == 0) return DT_OK;
    void *copy = dt__alloc(ctx, c->op->options_size);
    if (copy == NULL) return DT_ERR_NOMEM;
    memcpy(copy, c->options, c->op->options_size);
    *out = copy;
    return DT_OK;
}
