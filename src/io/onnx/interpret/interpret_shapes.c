/* Operators that change the shape or the order of elements, and constants. */
#include "io/onnx/interpret/interpret.h"

#include <math.h>
#include <string.h>

/* ---- the same elements with other extents ---------------------------------------------------- */

static dt_status with_dims(dt__verify_call *c, int rank, const int64_t *dims)
{
    const dt__verify_value *x = c->in[0];
    int64_t count;
    if (rank > DT_MAX_RANK || !dt__verify_fits(rank, dims, &count) || count != x->count) {
        return dt__verify_refuse(c, "the shape does not fit %lld elements", (long long)x->count);
    }
    return dt__verify_same(c, rank, dims);
}

static dt_status identity(dt__verify_call *c)
{
    return with_dims(c, c->in[0]->rank, c->in[0]->dims);
}

/* 0 means the operand's extent (with allowzero = 1: 0); one -1 follows from the other extents. */
static dt_status reshape(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list to;
    int64_t known = 1;
    int open = -1;
    DT__TRY(dt__verify_input_list(c, 1, &to));
    for (int i = 0; i < to.n; i++) {
        if (to.v[i] == 0 && dt__onnx_int_of(c->node, "allowzero", 0) == 0) {
            if (i >= x->rank) return dt__verify_refuse(c, "0 for a dimension that is not there");
            to.v[i] = x->dims[i];
        }
        if (to.v[i] == -1 && open < 0) open = i;
        else if (to.v[i] < 0 || __builtin_mul_overflow(known, to.v[i], &known)) {
            return dt__verify_refuse(c, "the shape is not valid");
        }
    }
    if (open >= 0) to.v[open] = known > 0 ? x->count / known : 0;
    return with_dims(c, to.n, to.v);
}

static dt_status flatten(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    int64_t dims[2] = { 1, 1 }, axis = dt__onnx_int_of(c->node, "axis", 1);
    if (axis < -x->rank || axis > x->rank) {
        return dt__verify_refuse(c, "axis %lld of %d dimensions; expected one of them",
                                 (long long)axis, x->rank);
    }
    if (axis < 0) axis += x->rank;
    for (int d = 0; d < x->rank; d++) dims[d < axis ? 0 : 1] *= x->dims[d];
    return with_dims(c, 2, dims);
}

static dt_status squeeze(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list axes;
    bool gone[DT_MAX_RANK];
    int64_t dims[DT_MAX_RANK];
    int rank = 0;
    DT__TRY(dt__verify_input_list(c, 1, &axes));
    DT__TRY(dt__verify_axes(c, &axes, x->rank, gone));
    for (int d = 0; d < x->rank; d++) {
        if (axes.n < 0) gone[d] = x->dims[d] == 1;
        if (!gone[d]) dims[rank++] = x->dims[d];
        else if (x->dims[d] != 1) {
            return dt__verify_refuse(c, "axis %d has %lld elements; expected 1", d,
                                     (long long)x->dims[d]);
        }
    }
    return with_dims(c, rank, dims);
}

static dt_status unsqueeze(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list axes;
    bool added[DT_MAX_RANK];
    int64_t dims[DT_MAX_RANK];
    DT__TRY(dt__verify_input_list(c, 1, &axes));
    const int rank = x->rank + axes.n;
    if (rank > DT_MAX_RANK)
        return dt__verify_refuse(c, "a result of %d dimensions; %d are the most", rank,
                                 DT_MAX_RANK);
    DT__TRY(dt__verify_axes(c, &axes, rank, added));
    for (int d = 0, from = 0; d < rank; d++) dims[d] = added[d] ? 1 : x->dims[from++];
    return with_dims(c, rank, dims);
}

/* ---- another order, joining ------------------------------------------------------------------ */

/* Copies x to y; `stride`: strides in x along the dimensions of y. */
static void copy_strided(const dt__verify_value *x, const int64_t *stride, dt__verify_value *y)
{
    const size_t size = dt__verify_size(x->type);
    dt__verify_walk w = { .rank = y->rank };
    memcpy(w.dims, y->dims, sizeof w.dims);
    memcpy(w.stride[0], stride, (size_t)y->rank * sizeof *stride);
    for (int64_t i = 0; i < y->count; i++, dt__verify_step(&w)) {
        memcpy((char *)y->data + (size_t)i * size,
               (const char *)x->data + (size_t)w.offset[0] * size, size);
    }
}

static dt_status transpose(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list order;
    bool seen[DT_MAX_RANK];
    int64_t own[DT_MAX_RANK], stride[DT_MAX_RANK], dims[DT_MAX_RANK];
    dt__verify_value *y;
    DT__TRY(dt__verify_attribute_list(c, "perm", &order));
    for (int d = 0; d < x->rank && order.n < 0; d++) order.v[d] = x->rank - 1 - d;
    if (order.n < 0) order.n = x->rank;
    if (order.n != x->rank) {
        return dt__verify_refuse(c, "perm names %d of %d dimensions; expected each once", order.n,
                                 x->rank);
    }
    DT__TRY(dt__verify_axes(c, &order, x->rank, seen));
    dt__verify_strides(x, own);
    for (int d = 0; d < x->rank; d++) {
        const int64_t from = order.v[d] < 0 ? order.v[d] + x->rank : order.v[d];
        dims[d] = x->dims[from];
        stride[d] = own[from];
    }
    DT__TRY(dt__verify_make(c, 0, x->type, x->rank, dims, &y));
    copy_strided(x, stride, y);
    return DT_OK;
}

static dt_status expand(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list to;
    int64_t dims[DT_MAX_RANK], stride[DT_MAX_RANK];
    int rank;
    dt__verify_value shape = { .count = 0 }, *y;
    DT__TRY(dt__verify_input_list(c, 1, &to));
    if (to.n > DT_MAX_RANK)
        return dt__verify_refuse(c, "to a shape of %d dimensions; %d are the most", to.n,
                                 DT_MAX_RANK);
    shape.rank = to.n;
    for (int d = 0; d < to.n; d++) {
        shape.dims[d] = to.v[d];
        if (to.v[d] < 0) return dt__verify_refuse(c, "the shape is not valid");
    }
    const dt__verify_value *const both[2] = { x, &shape };
    DT__TRY(dt__verify_broadcast(c, both, 2, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, x->type, rank, dims, &y));
    DT__TRY(dt__verify_spread(c, x, rank, dims, stride));
    copy_strided(x, stride, y);
    return DT_OK;
}

static dt_status concat(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    int axis;
    int64_t dims[DT_MAX_RANK], outer = 1, inner = 1;
    dt__verify_value *y;
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", 0), x->rank, &axis));
    memcpy(dims, x->dims, sizeof dims);
    for (int64_t k = 1; k < c->n_in; k++) {
        const dt__verify_value *more = c->in[k];
        bool fits = more != NULL && more->rank == x->rank;
        for (int d = 0; fits && d < x->rank; d++) {
            fits = d == axis || more->dims[d] == x->dims[d];
        }
        if (!fits || __builtin_add_overflow(dims[axis], more->dims[axis], &dims[axis])) {
            return dt__verify_refuse(
                c, "input %lld does not fit input 0; expected the same extents elsewhere",
                (long long)k);
        }
    }
    DT__TRY(dt__verify_make(c, 0, x->type, x->rank, dims, &y));
    for (int d = 0; d < axis; d++) outer *= dims[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= dims[d];
    const size_t unit = (size_t)inner * dt__verify_size(x->type);
    char *to = y->data;
    for (int64_t i = 0; i < outer && y->count > 0; i++) {
        for (int64_t k = 0; k < c->n_in; k++) {
            const size_t bytes = (size_t)c->in[k]->dims[axis] * unit;
            memcpy(to, (const char *)c->in[k]->data + (size_t)i * bytes, bytes);
            to += bytes;
        }
    }
    return DT_OK;
}

/* [n, c, h b, w b] and [n, c b b, h, w]; DCR: the channel varies slower than the block, CRD:
 * faster. */
static dt_status rearrange(dt__verify_call *c, bool to_depth, bool crd)
{
    const dt__verify_value *x = c->in[0];
    const int64_t b = dt__onnx_int_of(c->node, "blocksize", 0);
    dt__verify_value *y;
    if (x->rank != 4 || b < 1 || b > 4096 ||
        (to_depth ? x->dims[2] % b + x->dims[3] % b : x->dims[1] % (b * b)) != 0) {
        return dt__verify_refuse(c, "the extents do not fit blocks of %lld", (long long)b);
    }
    const int64_t channels = to_depth ? x->dims[1] : x->dims[1] / (b * b);
    const int64_t h = to_depth ? x->dims[2] / b : x->dims[2];
    const int64_t w = to_depth ? x->dims[3] / b : x->dims[3];
    const int64_t deep[4] = { x->dims[0], channels * b * b, h, w };
    const int64_t wide[4] = { x->dims[0], channels, h * b, w * b };
    DT__TRY(dt__verify_make(c, 0, x->type, 4, to_depth ? deep : wide, &y));
    const int64_t dims[6] = { x->dims[0], channels, h, b, w, b };
    const size_t size = dt__verify_size(x->type);
    dt__verify_walk walk = { .rank = 6 };
    memcpy(walk.dims, dims, sizeof dims);
    /* i: element of the deep form */
    for (int64_t i = 0; i < y->count; i++, dt__verify_step(&walk)) {
        const int64_t *at = walk.at;
        const int64_t block = at[3] * b + at[5];
        const int64_t plane = crd ? at[1] * b * b + block : block * channels + at[1];
        const int64_t k = ((at[0] * deep[1] + plane) * h + at[2]) * w + at[4];
        memcpy((char *)y->data + (size_t)(to_depth ? k : i) * size,
               (const char *)x->data + (size_t)(to_depth ? i : k) * size, size);
    }
    return DT_OK;
}

static dt_status space_to_depth(dt__verify_call *c) { return rearrange(c, true, false); }

static dt_status depth_to_space(dt__verify_call *c)
{
    static const char *const modes[] = { "DCR", "CRD", NULL };
    int mode;
    DT__TRY(dt__verify_choice(c, "mode", modes, &mode));
    return rearrange(c, false, mode == 1);
}

/* Zeros the elements above (below) diagonal k. */
static dt_status triangle(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_value *y;
    int64_t k = 0;
    if (dt__verify_in(c, 1) != NULL) DT__TRY(dt__verify_input_int(c, 1, &k));
    if (x->rank < 2)
        return dt__verify_refuse(c, "an operand of %d dimensions, which is not run", x->rank);
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    const bool upper = dt__onnx_int_of(c->node, "upper", 1) != 0;
    const int64_t h = x->dims[x->rank - 2], w = x->dims[x->rank - 1];
    const size_t size = dt__verify_size(x->type);
    memcpy(y->data, x->data, (size_t)x->count * size);
    k = dt__max_i64(-h, dt__min_i64(k, w));
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t right = i % w - i / w % h;
        if (upper ? right < k : right > k) memset((char *)y->data + (size_t)i * size, 0, size);
    }
    return DT_OK;
}

/* ---- shapes and constants -------------------------------------------------------------------- */

static dt_status shape(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    int64_t from = dt__onnx_int_of(c->node, "start", 0),
            to = dt__onnx_int_of(c->node, "end", x->rank);
    from = dt__max_i64(0, dt__min_i64(from < 0 ? from + x->rank : from, x->rank));
    to = dt__max_i64(from, dt__min_i64(to < 0 ? to + x->rank : to, x->rank));
    const int64_t n = to - from;
    dt__verify_value *y;
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_I64, 1, &n, &y));
    dt__verify_store_whole(y, 0, n, x->dims + from);
    return DT_OK;
}

static dt_status size_of(dt__verify_call *c)
{
    dt__verify_value *y;
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_I64, 0, NULL, &y));
    dt__verify_store_whole(y, 0, 1, &c->in[0]->count);
    return DT_OK;
}

/* Decodes the tensor of attribute `value` into the node's memory. */
static dt_status tensor_of(dt__verify_call *c, const DtOnnx__Attribute *a, dt__verify_value *out)
{
    dt__verify_value x;
    void *kept;
    dt_ctx *ctx = dt__verify_ctx(c);
    if (a->t == NULL) return dt__verify_refuse(c, "its value is not a tensor");
    DT__TRY(dt__verify_decode(ctx, a->t, dt__verify_room(c), &x));
    const size_t bytes = (size_t)x.count * dt__verify_size(x.type);
    const dt_status s = dt__verify_scratch(c, (int64_t)bytes, 1, &kept);
    if (s == DT_OK) memcpy(kept, x.data, bytes);
    dt__release(ctx, x.data);
    x.data = kept;
    *out = x;
    return s;
}

static dt_status constant_of_shape(dt__verify_call *c)
{
    static const float zero = 0;
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(c->node, "value");
    dt__verify_value v = { .type = DT__VERIFY_F32, .count = 1, .data = (void *)&zero }, *y;
    dt__verify_list to;
    DT__TRY(dt__verify_input_list(c, 0, &to));
    if (a != NULL) DT__TRY(tensor_of(c, a, &v));
    if (v.count != 1)
        return dt__verify_refuse(c, "its value is not one element; expected a tensor of one");
    for (int d = 0; d < to.n; d++) {
        if (to.v[d] < 0) return dt__verify_refuse(c, "the shape is not valid");
    }
    DT__TRY(dt__verify_make(c, 0, v.type, to.n, to.v, &y));
    const size_t size = dt__verify_size(v.type);
    for (int64_t i = 0; i < y->count; i++) {
        memcpy((char *)y->data + (size_t)i * size, v.data, size);
    }
    return DT_OK;
}

static dt_status constant(dt__verify_call *c)
{
    if (c->node->n_attribute != 1) return dt__verify_refuse(c, "it must have one attribute");
    const DtOnnx__Attribute *a = c->node->attribute[0];
    dt__verify_value v = { .type = DT__VERIFY_I64, .rank = 0 }, *y;
    if (strcmp(a->name, "value") == 0) {
        DT__TRY(tensor_of(c, a, &v));
    } else {
        const bool list = a->name[strlen(a->name) - 1] == 's';
        const bool real = strncmp(a->name, "value_float", 11) == 0;
        if (real) v.type = DT__VERIFY_F32;
        v.rank = list;
        v.dims[0] = (int64_t)(real ? a->n_floats : a->n_ints);
        v.data = list ? (real ? (void *)a->floats : (void *)a->ints)
                      : (real ? (void *)&a->f : (void *)&a->i);
    }
    DT__TRY(dt__verify_make_like(c, 0, &v, &y));
    if (y->count > 0) memcpy(y->data, v.data, (size_t)y->count * dt__verify_size(v.type));
    return DT_OK;
}

/* start, start + delta, ... before limit: max(ceil((limit - start) / delta), 0) numbers. */
static dt_status range(dt__verify_call *c)
{
    const dt__verify_type type = c->in[0]->type;
    double from[3];
    dt__verify_value *y;
    for (int k = 0; k < 3; k++) {
        if (c->in[k]->count != 1) return dt__verify_refuse(c, "input %d is not one number", k);
        from[k] = dt__verify_real_at(c->in[k], 0);
    }
    const double n = fmax(ceil((from[1] - from[0]) / from[2]), 0);
    if (!(n < 0x1p40)) return dt__verify_refuse(c, "it has no end");
    const int64_t count = (int64_t)n;
    DT__TRY(dt__verify_make(c, 0, type, 1, &count, &y));
    for (int64_t i = 0; i < count; i++) {
        const double x = from[0] + (double)i * from[2];
        const uint64_t delta = (uint64_t)dt__verify_whole_at(c->in[2], 0);
        const uint64_t whole = (uint64_t)dt__verify_whole_at(c->in[0], 0) + (uint64_t)i * delta;
        const int64_t as_signed = (int64_t)whole;
        if (dt__verify_is_real(type)) dt__verify_store_real(y, i, 1, &x);
        else dt__verify_store_whole(y, i, 1, &as_signed);
    }
    return DT_OK;
}

#define CONSTANTS "value value_float value_floats value_int value_ints "

const dt__verify_operator dt__verify_shapes[] = {
    { "Identity", identity, 1, 1, 1, 1, DT__VERIFY_ANY, NULL, NULL, NULL, 0, 0 },
    { "Reshape", reshape, 2, 2, 1, 1, DT__VERIFY_ANY, "allowzero ", NULL, NULL, 0, 0 },
    { "Flatten", flatten, 1, 1, 1, 1, DT__VERIFY_ANY, "axis ", NULL, NULL, 0, 0 },
    { "Squeeze", squeeze, 1, 2, 1, 1, DT__VERIFY_ANY, NULL, NULL, NULL, 0, 0 },
    { "Unsqueeze", unsqueeze, 2, 2, 1, 1, DT__VERIFY_ANY, NULL, NULL, NULL, 0, 0 },
    { "Transpose", transpose, 1, 1, 1, 1, DT__VERIFY_ANY, "perm ", NULL, NULL, 0, 0 },
    { "Expand", expand, 2, 2, 1, 1, DT__VERIFY_PLAIN, NULL, NULL, NULL, 0, 0 },
    { "Concat", concat, 1, 0, 1, -1, DT__VERIFY_PLAIN, "axis ", NULL, NULL, 0, 0 },
    { "SpaceToDepth", space_to_depth, 1, 1, 1, 1, DT__VERIFY_PLAIN, "blocksize ", NULL, NULL, 0,
      0 },
    { "DepthToSpace", depth_to_space, 1, 1, 1, 1, DT__VERIFY_PLAIN, "blocksize mode ", NULL, NULL,
      0, 0 },
    { "Trilu", triangle, 1, 2, 1, 1, DT__VERIFY_PLAIN, "upper ", NULL, NULL, 0, 0 },
    { "Shape", shape, 1, 1, 1, 1, DT__VERIFY_ANY, "start end ", NULL, NULL, 0, 0 },
    { "Size", size_of, 1, 1, 1, 1, DT__VERIFY_ANY, NULL, NULL, NULL, 0, 0 },
    { "ConstantOfShape", constant_of_shape, 1, 1, 1, 1, DT__VERIFY_BIT(I64), "value ", NULL, NULL,
      0, 0 },
    { "Constant", constant, 0, 0, 1, 0, DT__VERIFY_ANY, CONSTANTS, NULL, NULL, 0, 0 },
    { "Range", range, 3, 3, 1, 3, DT__VERIFY_FLOATS | DT__VERIFY_INDICES, NULL, NULL, NULL, 0, 0 },
    { .name = NULL },
};
