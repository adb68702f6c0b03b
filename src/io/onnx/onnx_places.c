/* Elements of a value at constant places, over all dimensions: GatherElements, GatherND, Compress,
 * ScatterElements, ScatterND and ReverseSequence. The value is taken as one row; a batch dimension
 * among the places is refused. */
#include "io/onnx/onnx.h"

#include <string.h>

/* A value of the file as one row of each example. */
typedef struct row {
    dt__onnx_layer *l;
    int rank;
    int64_t dims[DT_MAX_RANK], stride[DT_MAX_RANK], count;
} row;

static dt_status row_of(dt__onnx *g, row *r)
{
    dt__onnx_layer *x;
    if (g->front == 0) {
        return dt__onnx_refuse(
            g, "its input has a batch; a file without one is read with --batch none");
    }
    if (dt__onnx_in(g, 0)->kind != DT__ONNX_COMPUTED) {
        return dt__onnx_refuse(g,
                               "it takes computed places of a constant; expected a computed value");
    }
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    *r = (row){ .rank = x->shape.rank, .count = 1 };
    for (int i = r->rank - 1; i >= 0; r->count *= r->dims[i--]) {
        r->dims[i] = x->shape.dims[i];
        r->stride[i] = r->count;
    }
    return dt__onnx_reshaped(g, x, &(dt_shape){ 1, { r->count } }, &r->l);
}

static dt_status finish(dt__onnx *g, dt__onnx_layer *l, int rank, const int64_t *dims)
{
    dt_shape shape = { .rank = rank };
    if (rank >= DT_MAX_RANK) return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK - 1);
    if (rank > 0) memcpy(shape.dims, dims, (size_t)rank * sizeof *dims);
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* Constant indices of input i. */
static dt_status constant_in(dt__onnx *g, int i, const dt__onnx_value **out)
{
    const dt__onnx_value *v = *out = dt__onnx_in(g, i);
    if (v != NULL && v->kind == DT__ONNX_CONSTANT) return DT_OK;
    return dt__onnx_refuse(g, "its places are computed; expected constants");
}

/* Index k of a constant into an extent, counted from the front. */
static dt_status index_at(dt__onnx *g, const dt__onnx_value *at, int64_t k, int64_t extent,
                          int64_t *out)
{
    const dt__onnx_number n = dt__onnx_number_at(at, k);
    if (n.batch || !(n.value >= (double)-extent && n.value < (double)extent)) {
        return dt__onnx_refuse(g, "index %g is not one of %lld elements", n.value,
                               (long long)extent);
    }
    *out = (int64_t)n.value + (n.value < 0 ? extent : 0);
    return DT_OK;
}

static dt_status axis_of(dt__onnx *g, const row *r, int64_t fallback, int *axis)
{
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", fallback), r->rank + 1, axis));
    --*axis;
    return DT_OK;
}

/* ---- by elements ----------------------------------------------------------------------------- */

/* The places of x that indices of its rank name: their own, but along the axis. */
static dt_status places_along(dt__onnx *g, const row *r, const dt__onnx_value *at, int axis,
                              int64_t **out)
{
    int64_t *place = *out = dt__onnx_memory(g, at->count, sizeof *place);
    if (place == NULL) return DT_ERR_NOMEM;
    bool fits = at->rank == r->rank;
    for (int i = 0; fits && i < r->rank; i++) fits = i == axis || at->dims[i] <= r->dims[i];
    if (!fits) return dt__onnx_refuse(g, "its indices do not fit its input");
    for (int64_t k = 0; k < at->count; k++) {
        int64_t rest = k, along = 0;
        DT__TRY(index_at(g, at, k, r->dims[axis], &along));
        place[k] = along * r->stride[axis];
        for (int i = r->rank - 1; i >= 0; rest /= at->dims[i--]) {
            if (i != axis) place[k] += rest % at->dims[i] * r->stride[i];
        }
    }
    return DT_OK;
}

dt_status dt__onnx_gather_elements(dt__onnx *g)
{
    const dt__onnx_value *at;
    row r;
    int axis;
    int64_t *place = NULL;
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_in(g, 1, &at));
    DT__TRY(axis_of(g, &r, 0, &axis));
    DT__TRY(places_along(g, &r, at, axis, &place));
    DT__TRY(dt__onnx_taken(g, r.l, 1, place, at->count, &r.l));
    return finish(g, r.l, at->rank, at->dims);
}

/* ---- by tuples of indices -------------------------------------------------------------------- */

/* Places of the first elements that tuples name, and how many elements each one has behind it. The
 * first `batch` dimensions of x and of the indices are the same. */
static dt_status places_of_tuples(dt__onnx *g, const row *r, const dt__onnx_value *at, int batch,
                                  int64_t **out, int64_t *block)
{
    const int64_t width = at->rank > 0 ? at->dims[at->rank - 1] : 0;
    if (width < 1 || batch < 0 || batch >= at->rank || width > r->rank - batch) {
        return dt__onnx_refuse(g, "its indices do not fit its input");
    }
    const int64_t n = at->count / width;
    int64_t each = n;
    int64_t *place = *out = dt__onnx_memory(g, n, sizeof *place);
    if (place == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < batch; i++) {
        if (at->dims[i] != r->dims[i])
            return dt__onnx_refuse(g, "the batches of its inputs differ; expected one");
        each /= at->dims[i];
    }
    *block = r->stride[batch + (int)width - 1];
    for (int64_t k = 0; k < n; k++) {
        place[k] = batch > 0 ? k / each * r->stride[batch - 1] : 0;
        for (int i = 0; i < width; i++) {
            int64_t index = 0;
            DT__TRY(index_at(g, at, k * width + i, r->dims[batch + i], &index));
            place[k] += index * r->stride[batch + i];
        }
    }
    return DT_OK;
}

/* Every element of the blocks behind n places. */
static dt_status whole_blocks(dt__onnx *g, const int64_t *place, int64_t n, int64_t block,
                              int64_t **out)
{
    int64_t count;
    if (__builtin_mul_overflow(n, block, &count))
        return dt__onnx_refuse(g, "it takes too many elements");
    *out = dt__onnx_memory(g, count, sizeof **out);
    if (*out == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < count; i++) (*out)[i] = place[i / block] + i % block;
    return DT_OK;
}

dt_status dt__onnx_gather_nd(dt__onnx *g)
{
    const dt__onnx_value *at;
    const int64_t batch = dt__onnx_int_of(g->node, "batch_dims", 0);
    row r;
    int64_t *place = NULL, block = 0, dims[2 * DT_MAX_RANK];
    int rank = 0;
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_in(g, 1, &at));
    DT__TRY(places_of_tuples(g, &r, at, batch < DT_MAX_RANK ? (int)batch : -1, &place, &block));
    const int64_t width = at->dims[at->rank - 1], n = at->count / width;
    DT__TRY(whole_blocks(g, place, n, block, &place));
    DT__TRY(dt__onnx_taken(g, r.l, 1, place, n * block, &r.l));
    for (int i = 0; i < at->rank - 1; i++) dims[rank++] = at->dims[i];
    for (int i = (int)(batch + width); i < r.rank; i++) dims[rank++] = r.dims[i];
    return finish(g, r.l, rank, dims);
}

/* ---- scattering ------------------------------------------------------------------------------ */

/* A sum or product with a constant that changes some elements of a row. */
static dt_status change(dt__onnx *g, const row *r, const int64_t *place, int64_t n, bool adds)
{
    dt__onnx_layer *l;
    const float *updates;
    float *data = dt__onnx_memory(g, r->count, sizeof *data);
    if (data == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__onnx_floats_of(g, dt__onnx_in(g, 2), "updates", &updates));
    for (int64_t i = 0; i < r->count; i++) data[i] = adds ? 0 : 1;
    for (int64_t k = 0; k < n; k++) {
        data[place[k]] = adds ? data[place[k]] + updates[k] : data[place[k]] * updates[k];
    }
    DT__TRY(dt__onnx_new(g, "affine", &l));
    dt_affine_options *o = &((dt_affine_layer *)l->options)->affine;
    o->scale = !adds;
    o->bias = adds;
    o->trained = false;
    o->shape = (dt_ints){ 1, { r->count } };
    DT__TRY(dt__onnx_weigh_floats(g, l, adds ? "bias" : "weight", data, r->count));
    DT__TRY(dt__onnx_add_on(g, l, r->l));
    return finish(g, l, r->rank, r->dims);
}

/* The updates as one row. */
static dt_status updates_of(dt__onnx *g, const row *r, int64_t n, dt__onnx_layer **out)
{
    const dt__onnx_value *v = dt__onnx_in(g, 2);
    if (v->kind == DT__ONNX_COMPUTED) DT__TRY(dt__onnx_plain(g, v, out));
    else DT__TRY(dt__onnx_given(g, r->l, v, out));
    int64_t count = 1;
    for (int i = 0; i < (*out)->shape.rank; i++) count *= (*out)->shape.dims[i];
    if (count != n) {
        return dt__onnx_refuse(g, "%lld updates at %lld places", (long long)count, (long long)n);
    }
    return dt__onnx_reshaped(g, *out, &(dt_shape){ 1, { n } }, out);
}

/* The row with element place[k] from update k: the two behind each other, and a choice of them. */
static dt_status scatter(dt__onnx *g, const row *r, const int64_t *place, int64_t n)
{
    dt__onnx_layer *updates, *l;
    const bool adds = dt__onnx_says(g, "reduction", "add", "none");
    if (n < 1) return dt__onnx_refuse(g, "it has no updates; expected one for each place");
    if (adds || dt__onnx_says(g, "reduction", "mul", "none")) {
        if (dt__onnx_in(g, 2)->kind == DT__ONNX_CONSTANT && dt__onnx_in(g, 2)->count == n) {
            return change(g, r, place, n, adds);
        }
        return dt__onnx_refuse(g, "its updates are computed and reduced; expected constants");
    }
    int64_t *index = dt__onnx_memory(g, r->count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r->count; i++) index[i] = i;
    for (int64_t k = 0; k < n; k++) {
        if (index[place[k]] >= r->count)
            return dt__onnx_refuse(g, "a place is updated twice; expected once");
        index[place[k]] = r->count + k;
    }
    DT__TRY(updates_of(g, r, n, &updates));
    DT__TRY(dt__onnx_new(g, "concat", &l));
    ((dt_concat_layer *)l->options)->dim = 1;
    dt__onnx_read_from(l, r->l);
    DT__TRY(dt__onnx_add_on(g, l, updates));
    DT__TRY(dt__onnx_taken(g, l, 1, index, r->count, &l));
    return finish(g, l, r->rank, r->dims);
}

dt_status dt__onnx_scatter_elements(dt__onnx *g)
{
    const dt__onnx_value *at;
    row r;
    int axis;
    int64_t *place = NULL;
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_in(g, 1, &at));
    DT__TRY(axis_of(g, &r, 0, &axis));
    DT__TRY(places_along(g, &r, at, axis, &place));
    return scatter(g, &r, place, at->count);
}

dt_status dt__onnx_scatter_nd(dt__onnx *g)
{
    const dt__onnx_value *at;
    row r;
    int64_t *place = NULL, block = 0;
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_in(g, 1, &at));
    DT__TRY(places_of_tuples(g, &r, at, 0, &place, &block));
    const int64_t n = at->count / at->dims[at->rank - 1];
    DT__TRY(whole_blocks(g, place, n, block, &place));
    return scatter(g, &r, place, n * block);
}

/* ---- by conditions and lengths --------------------------------------------------------------- */

/* The elements, along an axis or of the row, whose condition is true. */
dt_status dt__onnx_compress(dt__onnx *g)
{
    const dt__onnx_value *at, *v = dt__onnx_in(g, 0);
    dt__onnx_layer *l;
    row r;
    int axis = 1;
    int64_t n = 0;
    const bool flat = dt__onnx_attribute_of(g->node, "axis") == NULL;
    DT__TRY(constant_in(g, 1, &at));
    if (flat) {
        DT__TRY(row_of(g, &r));
        l = r.l;
    } else {
        DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", 0), v->rank, &axis));
        if (v->kind != DT__ONNX_COMPUTED)
            return dt__onnx_refuse(g, "its input is a constant; expected a computed value");
        if (v->axis[axis] == 0)
            return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
        DT__TRY(dt__onnx_plain(g, v, &l));
    }
    int64_t *index = dt__onnx_memory(g, at->count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    if (at->count > l->shape.dims[axis - 1])
        return dt__onnx_refuse(g, "it has too many conditions");
    for (int64_t k = 0; k < at->count; k++) {
        if (dt__onnx_number_at(at, k).value != 0) index[n++] = k;
    }
    DT__TRY(dt__onnx_taken(g, l, axis, index, n, &l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* The first elements of each sequence in reverse order. */
dt_status dt__onnx_reverse_sequence(dt__onnx *g)
{
    const dt__onnx_value *at;
    row r;
    const int64_t time = dt__onnx_int_of(g->node, "time_axis", 0),
                  batch = dt__onnx_int_of(g->node, "batch_axis", 1);
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_in(g, 1, &at));
    if (r.rank < 2 || time < 0 || time > 1 || batch != 1 - time || at->count != r.dims[batch]) {
        return dt__onnx_refuse(g, "its axes must be 0 and 1, without lengths for examples");
    }
    int64_t *index = dt__onnx_memory(g, r.count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r.count; i++) {
        const int64_t step = i / r.stride[time] % r.dims[time];
        const double n = dt__onnx_number_at(at, i / r.stride[batch] % r.dims[batch]).value;
        if (!(n >= 0 && n <= (double)r.dims[time]))
            return dt__onnx_refuse(g, "a length is %g; expected 0 to %lld", n,
                                   (long long)r.dims[time]);
        const int64_t length = (int64_t)n, to = step < length ? length - 1 - step : step;
        index[i] = i + (to - step) * r.stride[time];
    }
    DT__TRY(dt__onnx_taken(g, r.l, 1, index, r.count, &r.l));
    return finish(g, r.l, r.rank, r.dims);
}
