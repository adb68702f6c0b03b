/* Constants with a dimension of extent 1 that stands for the batch: zeros of the batch's size, such
 * as the initial state of a recurrent layer. */
#include "core/text/row_named.h"
#include "io/onnx/onnx.h"

#include <string.h>

/* Turns such a constant into a computed value. */
static dt_status compute(dt__onnx *g, dt__onnx_value *v)
{
    dt__onnx_layer *l;
    dt__onnx_value own = *v;
    const int at = v->spread - 1;
    own.rank--;
    for (int i = at; i < own.rank; i++) own.dims[i] = v->dims[i + 1];
    DT__TRY(dt__onnx_given(g, g->layer[0], &own, &l));
    v->kind = DT__ONNX_COMPUTED;
    v->layer = l->index;
    v->plain = -1;
    v->codes = NULL;
    dt__onnx_put_batch_at(v, at);
    return DT_OK;
}

dt_status dt__onnx_compute_spread(dt__onnx *g, bool *any)
{
    *any = false;
    for (size_t i = 0; i < g->node->n_input && g->n_layers > 0; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, (int)i);
        if (v == NULL || v->kind != DT__ONNX_CONSTANT || v->spread <= 0 || v->f == NULL) continue;
        DT__TRY(compute(g, dt__onnx_find(g, v->name)));
        *any = true;
    }
    return DT_OK;
}

/* The position of dimension `at` after a Slice of other dimensions; -1: it is sliced. */
static int behind_slice(dt__onnx *g, const dt__onnx_value *v, int at)
{
    dt__onnx_range range[DT_MAX_RANK];
    int n;
    if (dt__onnx_ranges(g, v->rank, &n, range) != DT_OK) return -1;
    for (int i = 0; i < n; i++) {
        if (range[i].axis == at) return -1;
    }
    return at;
}

/* The position of dimension `at` after a node removes or adds dimensions; -1: it is removed. */
static int behind_axes(dt__onnx *g, const dt__onnx_value *v, int rank, int at)
{
    const bool adds = rank > v->rank;
    bool named[DT_MAX_RANK] = { false };
    dt_ints axes;
    int axis;
    if (dt__onnx_list_or_in(g, "axes", 1, &axes) != DT_OK || axes.n == 0) return -1;
    for (int i = 0; i < axes.n; i++) {
        const dt_status s = dt__onnx_new_axis(g, axes.v[i], adds ? rank : v->rank, named, &axis);
        if (s != DT_OK) return -1;
    }
    if (!adds && named[at]) return -1;
    int to = at;
    for (int i = 0; !adds && i < at; i++) to -= named[i];
    for (int i = 0; adds && i <= to; i++) to += named[i];
    return to;
}

/* The position of dimension `at` of input v in a result; -1: unknown. */
static int place_behind(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *out, int at)
{
    static const char *const elements[] = {
        "Add", "Sub", "Mul", "Div", "Cast", "Where", "Neg", "QuantizeLinear", "DequantizeLinear"
    };
    const bool axes =
        strcmp(g->node->op_type, "Squeeze") == 0 || strcmp(g->node->op_type, "Unsqueeze") == 0;
    if (axes) return behind_axes(g, v, out->rank, at);
    if (strcmp(g->node->op_type, "Slice") == 0) return behind_slice(g, v, at);
    return DT__IS_ONE_OF(g->node->op_type, elements) && out->rank == v->rank ? at : -1;
}

void dt__onnx_keep_spread(dt__onnx *g)
{
    static const char *const shapes[] = { "Shape", "Size" };
    if (DT__IS_ONE_OF(g->node->op_type, shapes)) return;
    for (size_t i = 0; i < g->node->n_input; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, (int)i);
        if (v == NULL || v->kind != DT__ONNX_CONSTANT || v->spread == 0) continue;
        for (size_t k = 0; k < g->node->n_output; k++) {
            dt__onnx_value *out = dt__onnx_out(g, (int)k);
            if (out == NULL || (out->spread != 0 && out->spread == v->spread)) continue;
            const int at = v->spread > 0 ? place_behind(g, v, out, v->spread - 1) : -1;
            const bool known = at >= 0 && at < out->rank && out->dims[at] == 1 && out->spread == 0;
            out->spread = known ? at + 1 : -1;
        }
    }
}
