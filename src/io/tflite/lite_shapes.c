/* Shape arithmetic in TFLite models. Nodes use the extents that the file declares; where it leaves
 * more than the batch undeclared, a shape is computed by nodes, which are then folded. */
#include "io/tflite/lite_forms.h"

static bool is_whole(const dt__vlite_tensor *t)
{
    return t == NULL || t->type == DT__VLITE_I32 || t->type == DT__VLITE_I64;
}

/* Whether an operator computes integers from integers, or from a shape, that are not outputs. */
static bool is_of_shapes(const dt__lite_nodes *b)
{
    const dt__vlite_tensor *y = dt__form_out(b, 0);
    bool whole = y != NULL && is_whole(y);
    for (int i = 0; i < b->op->n_in && b->op->code != DT__VLITE_SHAPE; i++) {
        whole = whole && is_whole(dt__form_tensor(b, i));
    }
    for (int i = 0; i < b->v->outs; i++) whole = whole && b->v->out[i] != b->op->out[0];
    return whole;
}

static bool is_wanted(const dt__lite_nodes *b)
{
    for (int i = 0; i < b->op->n_out; i++) {
        if (b->op->out[i] >= 0 && b->wanted[b->op->out[i]]) return true;
    }
    return false;
}

bool dt__lite_is_idle(const dt__lite_nodes *b)
{
    return (is_of_shapes(b) && !is_wanted(b)) || dt__lite_wraps(b);
}

static void want(dt__lite_nodes *b, int i)
{
    const dt__vlite_tensor *t = dt__form_tensor(b, i);
    if (t != NULL && is_whole(t)) b->wanted[b->op->in[i]] = true;
}

void dt__lite_want_shapes(dt__lite_nodes *b)
{
    for (int64_t k = b->v->ops - 1; k >= 0 && b->status == DT_OK; k--) {
        b->op = &b->v->op[k];
        const dt__vlite_tensor *y = dt__form_out(b, 0);
        const bool vague = y != NULL && y->vague && b->op->code == DT__VLITE_RESHAPE;
        const bool computes = is_of_shapes(b) && is_wanted(b);
        if (vague) want(b, 1);
        if (b->op->code == DT__VLITE_FILL) want(b, 0);
        for (int i = 0; i < b->op->n_in && computes; i++) want(b, i);
    }
    b->op = NULL;
}

dt_status dt__form_shape(dt__lite_nodes *b)
{
    const dt__vlite_tensor *to = dt__form_out(b, 0);
    const char *y = DT__LITE_NODE(b, "Cast", DT__LITE_NODE(b, "Shape", dt__form_in(b, 0)));
    dt__form_int(b, "to", to != NULL && to->type == DT__VLITE_I64 ? DT__ONNX_I64 : DT__ONNX_I32);
    return dt__form_set(b, 0, y);
}

dt_status dt__form_fill(dt__lite_nodes *b)
{
    return dt__form_set(b, 0, DT__LITE_NODE(b, "Expand", dt__form_in(b, 1), dt__form_in(b, 0)));
}

/* The product of all elements of a list. */
dt_status dt__form_extents_product(dt__lite_nodes *b)
{
    const dt__vlite_tensor *x = dt__form_tensor(b, 0), *to = dt__form_out(b, 0);
    const char *y = "";
    if (x == NULL || to == NULL || x->rank != 1 || x->count < 1 || to->count != 1) {
        return dt__form_refuse(b, "its integers must be a list");
    }
    for (int64_t i = 0; i < x->count && b->status == DT_OK; i++) {
        const char *one = DT__LITE_NODE(b, "Gather", dt__form_in(b, 0), dt__form_list(b, 1, &i));
        y = i == 0 ? one : DT__LITE_NODE(b, "Mul", y, one);
    }
    return dt__form_set(b, 0, dt__form_shaped(b, y, to));
}
