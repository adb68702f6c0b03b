/* Selects or changes elements at constant indices over all dimensions: GatherElements, GatherND,
 * Compress, ScatterElements, ScatterND and ReverseSequence. The value is flattened to one row;
 * indices into the batch dimension are refused. */
#include "io/onnx/onnx.h"

#include <string.h>

/* A value of the file, flattened to one row per example. */
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

/* Input 1, which must be constant indices. */
static dt_status constant_places(dt__onnx *g, const dt__onnx_value **out)
{
    const dt__onnx_value *v = *out = dt__onnx_in(g, 1);
    if (v != NULL && v->kind == DT__ONNX_CONSTANT) return DT_OK;
    return dt__onnx_refuse(g, "its places are computed; expected constants");
}

/* ---- gathering ------------------------------------------------------------------------------- */

/* The numbers first ... first + n - 1 as a constant. */
static dt_status places_from(dt__onnx *g, int64_t first, int rank, const int64_t *dims,
                             dt__onnx_value *out)
{
    dt__onnx_number *n;
    *out = (dt__onnx_value){ .name = "" };
    DT__TRY(dt__onnx_constant(g, out, rank, dims, NULL, &n));
    for (int64_t i = 0; i < out->count; i++) n[i].value = (double)(first + i);
    return DT_OK;
}

static dt_status as_indices(dt__onnx *g, const dt__onnx_value *v, int64_t **out)
{
    int64_t *index = *out = dt__onnx_memory(g, v->count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < v->count; i++) index[i] = (int64_t)dt__onnx_number_at(v, i).value;
    return DT_OK;
}

/* Runs the operator on the indices 0, 1, ... of the elements: the result has the indices it
 * selects. */
static dt_status gather(dt__onnx *g)
{
    const dt__onnx_value *at;
    dt__onnx_value places, taken;
    int64_t *index = NULL;
    row r;
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_places(g, &at));
    DT__TRY(places_from(g, 0, r.rank, r.dims, &places));
    DT__TRY(dt__onnx_run_on(g, g->node->op_type, (const dt__onnx_value *[]){ &places }, 1, &taken));
    DT__TRY(as_indices(g, &taken, &index));
    DT__TRY(dt__onnx_taken(g, r.l, 1, index, taken.count, &r.l));
    return finish(g, r.l, taken.rank, taken.dims);
}

dt_status dt__onnx_gather_elements(dt__onnx *g) { return gather(g); }

dt_status dt__onnx_gather_nd(dt__onnx *g) { return gather(g); }

/* ---- scattering ------------------------------------------------------------------------------ */

/* Adds or multiplies by a constant, to change some elements of a row: the constant is the
 * operator's result on zeros, or on ones. */
static dt_status change(dt__onnx *g, const char *name, const row *r, bool adds)
{
    dt__onnx_layer *l;
    dt__onnx_value neutral = { .name = "" }, updates = *dt__onnx_in(g, 2), changed = neutral;
    float *data;
    const float *from;
    DT__TRY(dt__onnx_floats_of(g, &updates, "updates", &from));
    dt__onnx_lend_floats(&updates, updates.rank, updates.dims, updates.count, from);
    DT__TRY(dt__onnx_constant(g, &neutral, r->rank, r->dims, &data, NULL));
    for (int64_t i = 0; i < r->count; i++) data[i] = adds ? 0 : 1;
    const dt__onnx_value *const in[] = { &neutral, NULL, &updates };
    DT__TRY(dt__onnx_run_on(g, name, in, 3, &changed));
    DT__TRY(dt__onnx_new(g, "affine", &l));
    dt_affine_options *o = &((dt_affine_layer *)l->options)->affine;
    o->scale = !adds;
    o->bias = adds;
    o->trained = false;
    o->shape = (dt_ints){ 1, { r->count } };
    DT__TRY(dt__onnx_weigh_floats(g, l, adds ? "bias" : "weight", changed.f, r->count));
    DT__TRY(dt__onnx_add_on(g, l, r->l));
    return finish(g, l, r->rank, r->dims);
}

/* The updates as one row, and their indices after those of row r. */
static dt_status updates_of(dt__onnx *g, const row *r, dt__onnx_layer **out, dt__onnx_value *places)
{
    const dt__onnx_value *v = dt__onnx_in(g, 2);
    if (v->kind == DT__ONNX_COMPUTED) DT__TRY(dt__onnx_plain(g, v, out));
    else DT__TRY(dt__onnx_given(g, r->l, v, out));
    const dt_shape *shape = &(*out)->shape;
    DT__TRY(places_from(g, r->count, shape->rank, shape->dims, places));
    if (places->count < 1)
        return dt__onnx_refuse(g, "it has no updates; expected one for each place");
    return dt__onnx_reshaped(g, *out, &(dt_shape){ 1, { places->count } }, out);
}

/* Joins the row and the updates, and selects elements: the operator, run on indices, gives those to
 * select. */
static dt_status scatter(dt__onnx *g, const char *name)
{
    const dt__onnx_value *at;
    dt__onnx_value places, updates, chosen;
    dt__onnx_layer *more, *l;
    int64_t *index = NULL, updated = 0;
    row r;
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_places(g, &at));
    const bool adds = dt__onnx_says(g, "reduction", "add", "none");
    if (adds || dt__onnx_says(g, "reduction", "mul", "none")) {
        if (dt__onnx_in(g, 2)->kind == DT__ONNX_CONSTANT) return change(g, name, &r, adds);
        return dt__onnx_refuse(g, "its updates are computed and reduced; expected constants");
    }
    DT__TRY(updates_of(g, &r, &more, &updates));
    DT__TRY(places_from(g, 0, r.rank, r.dims, &places));
    const dt__onnx_value *const in[] = { &places, NULL, &updates };
    DT__TRY(dt__onnx_run_on(g, name, in, 3, &chosen));
    DT__TRY(as_indices(g, &chosen, &index));
    for (int64_t i = 0; i < r.count; i++) updated += index[i] >= r.count;
    if (updated != updates.count)
        return dt__onnx_refuse(g, "a place is updated twice; expected once");
    DT__TRY(dt__onnx_new(g, "concat", &l));
    ((dt_concat_layer *)l->options)->dim = 1;
    dt__onnx_read_from(l, r.l);
    DT__TRY(dt__onnx_add_on(g, l, more));
    DT__TRY(dt__onnx_taken(g, l, 1, index, r.count, &l));
    return finish(g, l, r.rank, r.dims);
}

dt_status dt__onnx_scatter_elements(dt__onnx *g) { return scatter(g, "ScatterElements"); }

dt_status dt__onnx_scatter_nd(dt__onnx *g) { return scatter(g, "ScatterND"); }

/* ---- by conditions and lengths --------------------------------------------------------------- */

/* Selects the elements, along an axis or of the flattened value, whose condition is true. */
dt_status dt__onnx_compress(dt__onnx *g)
{
    const dt__onnx_value *at, *v = dt__onnx_in(g, 0);
    dt__onnx_layer *l;
    row r;
    int axis = 1;
    int64_t n = 0;
    const bool flat = dt__onnx_attribute_of(g->node, "axis") == NULL;
    DT__TRY(constant_places(g, &at));
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

/* Reverses the first elements of each sequence. */
dt_status dt__onnx_reverse_sequence(dt__onnx *g)
{
    const dt__onnx_value *at;
    row r;
    const int64_t time = dt__onnx_int_of(g->node, "time_axis", 0),
                  batch = dt__onnx_int_of(g->node, "batch_axis", 1);
    DT__TRY(row_of(g, &r));
    DT__TRY(constant_places(g, &at));
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
