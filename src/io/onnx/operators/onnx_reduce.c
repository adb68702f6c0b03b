/* Reductions over dimensions of an example, as a layer with elementwise functions before and behind
 * it; and norms that consist of reductions. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <string.h>

static const struct reduction {
    const char *op, *before, *kind, *behind; /* NULL: none */
    bool same;                               /* the reduction of one element is the element */
} reductions[] = {
    { "ReduceSum", NULL, "sum", NULL, true },
    { "ReduceMean", NULL, "mean", NULL, true },
    { "ReduceMax", NULL, "amax", NULL, true },
    { "ReduceMin", NULL, "amin", NULL, true },
    { "ReduceProd", NULL, "prod", NULL, true },
    { "ReduceL1", "abs", "sum", NULL, false },
    { "ReduceL2", NULL, "l2_norm", NULL, false },
    { "ReduceLogSum", NULL, "sum", "log", false },
    { "ReduceLogSumExp", NULL, "logsumexp", NULL, false },
    { "ReduceSumSquare", "square", "sum", NULL, false },
};

/* Marks the dimensions of v's layer that the axes name. */
static dt_status choose(dt__onnx *g, const dt__onnx_value *v, const dt_ints *axes,
                        bool over[DT_MAX_RANK])
{
    bool seen[DT_MAX_RANK] = { false };
    int axis;
    memset(over, 0, DT_MAX_RANK * sizeof over[0]);
    for (int i = 0; i < axes->n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes->v[i], v->rank, seen, &axis));
        if (v->axis[axis] == 0)
            return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
        over[v->axis[axis]] = true;
    }
    return DT_OK;
}

/* Removes the reduced dimensions, which were in a layer of `all` dimensions, from a value. */
static void leave_out(dt__onnx_value *v, const bool over[DT_MAX_RANK], int all)
{
    int left[DT_MAX_RANK] = { 0 }, rank = 0;
    for (int d = 1, at = 1; d < all; d++) {
        left[d] = at;
        at += !over[d];
    }
    for (int i = 0; i < v->rank; i++) {
        if (!over[v->axis[i]]) v->axis[rank++] = left[v->axis[i]];
    }
    v->rank = rank;
    v->outer = left[v->outer];
    v->inner = left[v->inner];
}

/* Whether this is the mean over all pixels, or samples, of each channel. */
static bool is_pool(const char *kind, const bool over[DT_MAX_RANK], int rank)
{
    bool spatial = strcmp(kind, "mean") == 0 && (rank == 3 || rank == 4) && !over[1];
    for (int d = 2; d < rank; d++) spatial &= over[d];
    return spatial;
}

/* Adds a layer that reduces dimensions of v, and sets v to its result. */
static dt_status reduce(dt__onnx *g, const char *kind, const bool over[DT_MAX_RANK], bool keep,
                        dt__onnx_value *v)
{
    dt__onnx_layer *l, *x = dt__onnx_maker(g, v);
    const int rank = x->shape.rank + 1;
    if (is_pool(kind, over, rank)) {
        kind = rank == 4 ? "global_avg_pool2d" : "global_avg_pool1d";
        DT__TRY(dt__onnx_simple(g, kind, x, &l));
        const dt_shape channels = { .rank = 1, .dims = { x->shape.dims[0] } };
        if (!keep) DT__TRY(dt__onnx_reshaped(g, l, &channels, &l));
    } else {
        DT__TRY(dt__onnx_new(g, kind, &l));
        dt_reduce_options *o = &((dt_reduce_layer *)l->options)->reduce;
        for (int d = 1; d < rank; d++) {
            if (over[d]) o->dims.v[o->dims.n++] = d;
        }
        o->keepdim = keep;
        DT__TRY(dt__onnx_add_on(g, l, x));
    }
    if (!keep) leave_out(v, over, rank);
    v->layer = l->index;
    v->plain = -1;
    return DT_OK;
}

static dt_status behind(dt__onnx *g, const char *kind, dt__onnx_value *v)
{
    dt__onnx_layer *l;
    if (kind == NULL) return DT_OK;
    DT__TRY(dt__onnx_simple(g, kind, dt__onnx_maker(g, v), &l));
    v->layer = l->index;
    v->plain = -1;
    return DT_OK;
}

dt_status dt__onnx_reduce(dt__onnx *g)
{
    const struct reduction *r = reductions;
    dt__onnx_value v = *dt__onnx_in(g, 0);
    bool over[DT_MAX_RANK];
    dt_ints axes;
    while (strcmp(r->op, g->node->op_type) != 0) r++;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    if (axes.n == 0 && dt__onnx_int_of(g->node, "noop_with_empty_axes", 0) != 0) {
        if (r->same) return dt__onnx_identity(g);
        return dt__onnx_refuse(g, "it has no axes and noop_with_empty_axes, which programs read as "
                                  "the input, or as a function of each element");
    }
    if (axes.n == 0 && g->front > 0) {
        for (; axes.n < v.rank - 1; axes.n++) axes.v[axes.n] = axes.n;
    }
    if (axes.n == 0)
        return dt__onnx_refuse(g, "it is over all dimensions, the batch among them; expected axes");
    DT__TRY(choose(g, &v, &axes, over));
    DT__TRY(behind(g, r->before, &v));
    DT__TRY(reduce(g, r->kind, over, dt__onnx_int_of(g->node, "keepdims", 1) != 0, &v));
    return dt__onnx_finish(g, behind(g, r->behind, &v), &v);
}

/* ArgMax at the end of a graph is removed: the model's result is the values from which it chooses,
 * which training needs; `predict` and other programs choose the largest. */
dt_status dt__onnx_arg_max(dt__onnx *g)
{
    const dt__onnx_value *x = dt__onnx_in(g, 0), *out = dt__onnx_out(g, 0);
    int64_t outputs = 0;
    int axis;
    for (size_t i = 0; i < g->graph->n_output; i++) {
        outputs += strcmp(g->graph->output[i]->name, out->name) == 0;
    }
    if (out->uses != outputs)
        return dt__onnx_refuse(g, "it is known at the end of the graph alone");
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", 0), x->rank, &axis));
    if (x->axis[axis] == 0)
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    dt__say(g->ctx,
            "%s: ArgMax '%.60s' is left out: the output is what it reads, %d numbers of which the "
            "largest is its choice",
            g->file->path, out->name, (int)dt__onnx_extent(g, x, axis).value);
    dt__onnx_same(g, 0, x);
    return DT_OK;
}

/* x / |x| along an axis, with the p-norm; 0 if the norm is 0 */
dt_status dt__onnx_lp_norm(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const dt_ints axes = { 1, { dt__onnx_int_of(g->node, "axis", -1) } };
    const bool first = dt__onnx_int_of(g->node, "p", 2) == 1;
    dt__onnx_value size = x, least, above, y;
    bool over[DT_MAX_RANK];
    DT__TRY(choose(g, &x, &axes, over));
    size.name = dt__onnx_out(g, 0)->name;
    if (first) DT__TRY(behind(g, "abs", &size));
    DT__TRY(reduce(g, first ? "sum" : "l2_norm", over, true, &size));
    DT__TRY(dt__onnx_numeral(g, (double)FLT_MIN, &least));
    const dt__onnx_value *const bounded[] = { &size, &least };
    DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "maximum", false }, bounded, 2, &above));
    const dt__onnx_value *const v[] = { &x, &above };
    return dt__onnx_finish(g, dt__onnx_apply(g, &(dt__onnx_form){ "div", false }, v, 2, &y), &y);
}

/* 1 / sqrt(the mean of x^2 over some dimensions + epsilon) */
static dt_status inverse_size(dt__onnx *g, const dt__onnx_value *x, const bool over[DT_MAX_RANK],
                              dt__onnx_value *out)
{
    dt__onnx_layer *l;
    *out = *x;
    DT__TRY(behind(g, "square", out));
    DT__TRY(reduce(g, "mean", over, true, out));
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, out), 1,
                            dt__onnx_real_attribute(g->node, "epsilon", (double)1e-5f), &l));
    out->layer = l->index;
    DT__TRY(behind(g, "sqrt", out));
    return behind(g, "reciprocal", out);
}

/* Reads the first input with its dimensions in order, and marks those from `axis` on. */
static dt_status read_norm(dt__onnx *g, dt__onnx_value *x, bool over[DT_MAX_RANK])
{
    int axis;
    memset(over, 0, DT_MAX_RANK * sizeof over[0]);
    *x = *dt__onnx_in(g, 0);
    DT__TRY(dt__onnx_ordered(g, x));
    x->name = dt__onnx_out(g, 0)->name;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", -1), x->rank, &axis));
    if (axis <= dt__onnx_batch_at(x))
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    for (int i = axis; i < x->rank; i++) over[x->axis[i]] = true;
    return DT_OK;
}

/* Result 0 is x * size * scale + bias. */
static dt_status scale_norm(dt__onnx *g, const dt__onnx_value *x, const dt__onnx_value *size)
{
    const dt__onnx_value *const v[] = { x, size };
    const dt__onnx_value *scale = dt__onnx_in(g, 1), *bias = dt__onnx_in(g, 2);
    dt__onnx_value y;
    DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "mul", false }, v, 2, &y));
    if (scale->kind == DT__ONNX_CONSTANT) DT__TRY(dt__onnx_times(g, &y, scale));
    else return dt__onnx_refuse(g, "its scale is computed; expected a constant");
    if (bias == NULL) return DT_OK;
    y = *dt__onnx_out(g, 0);
    return dt__onnx_plus(g, &y, bias);
}

/* LayerNormalization whose mean and deviation are also results. */
dt_status dt__onnx_long_norm(dt__onnx *g)
{
    dt__onnx_value x, mean, apart, size;
    bool over[DT_MAX_RANK];
    DT__TRY(read_norm(g, &x, over));
    mean = x;
    DT__TRY(reduce(g, "mean", over, true, &mean));
    const dt__onnx_value *const v[] = { &x, &mean };
    DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "sub", false }, v, 2, &apart));
    DT__TRY(inverse_size(g, &apart, over, &size));
    dt__onnx_same(g, 1, &mean);
    dt__onnx_same(g, 2, &size);
    return scale_norm(g, &apart, &size);
}
