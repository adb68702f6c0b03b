/* The order of a tensor's dimensions in a file, and a copy in the model's order. */
#include "core/block_list.h"
#include "core/tensor.h"
#include "io/weights/weights.h"

#include <string.h>

static void set_order(dt__weight_order *o, int n, const int *order)
{
    for (int i = 0; i < n; i++) {
        o->order[i] = order[i];
        o->turns |= order[i] != i;
    }
}

/* [height, width, in, out] becomes [out, in, height, width]; for a transposed convolution, [height,
 * width, out, in] becomes [in, out, height, width]. A depthwise kernel [height, width, channels,
 * multiplier] has one filter for each of channels x multiplier outputs. */
static void order_kernel(const dt_file_entry *e, const dt__weight_target *t, dt__weight_order *o)
{
    static const int usual[] = { 3, 2, 0, 1 }, by_channel[] = { 2, 3, 0, 1 }, line[] = { 2, 1, 0 };
    const bool depthwise = e->rank == 4 && t->x->dims[1] == 1 && e->dims[2] > 1;
    if (e->rank == 3) set_order(o, 3, line);
    else set_order(o, 4, depthwise ? by_channel : usual);
    if (!depthwise) return;
    o->shape = (dt_ints){ .n = 4, .v = { e->dims[2] * e->dims[3], 1, e->dims[0], e->dims[1] } };
}

static void order_by_layout(int layout, const dt_file_entry *e, const dt__weight_target *t,
                            dt__weight_order *o)
{
    static const int turned[] = { 1, 0 };
    if (layout != DT_LAYOUT_KERAS || e->rank != t->x->rank || t->is_embedding) return;
    if (e->rank == 2) set_order(o, 2, turned);
    if (e->rank == 3 || e->rank == 4) order_kernel(e, t, o);
}

const char *dt__weight_order_of(const dt_weight_rule *rule, int layout, const dt_file_entry *e,
                                const dt__weight_target *target, dt__weight_order *out)
{
    static const int turned[] = { 1, 0 };
    int order[DT_MAX_RANK];
    int64_t count;
    *out = (dt__weight_order){ .turns = false };
    for (int i = 0; i < e->rank; i++) out->order[i] = i;
    if (rule == NULL || (!rule->transpose && rule->permute.n == 0 && rule->shape.n == 0)) {
        order_by_layout(layout, e, target, out);
        return NULL;
    }
    if (rule->transpose && e->rank != 2) return "'transpose' is for two dimensions";
    if (rule->permute.n > 0 && rule->permute.n != e->rank) {
        return "'permute' has another number of dimensions";
    }
    for (int i = 0; i < rule->permute.n; i++) order[i] = (int)rule->permute.v[i];
    if (rule->transpose) set_order(out, 2, turned);
    set_order(out, rule->permute.n, order);
    out->shape = rule->shape;
    const bool same = dt__product(out->shape.n, out->shape.v, &count) && count == e->count;
    return out->shape.n == 0 || same ? NULL : "'shape' has another number of elements";
}

/* Copies in the order of the result's elements; `at` are the current indices. */
static void turn(const dt__weight_order *o, const dt_file_entry *e, const int64_t *dims, char *to)
{
    const size_t width = e->bytes / (size_t)e->count;
    int64_t stride[DT_MAX_RANK], step[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 }, from = 0;
    dt__contiguous_strides(e->rank, e->dims, stride);
    for (int i = 0; i < e->rank; i++) step[i] = stride[o->order[i]];
    for (int64_t n = 0; n < e->count; n++, to += width) {
        memcpy(to, (const char *)e->data + (size_t)from * width, width);
        for (int i = e->rank - 1; i >= 0; i--) {
            from += step[i];
            if (++at[i] < dims[i]) break;
            from -= step[i] * dims[i];
            at[i] = 0;
        }
    }
}

dt_status dt__weight_turn(dt_ctx *ctx, void **arena, const dt__weight_order *order,
                          dt_file_entry *e)
{
    if (!order->turns && order->shape.n == 0) return DT_OK;
    int64_t *dims = dt__block_list_add(ctx, arena, DT_MAX_RANK * sizeof *dims);
    if (dims == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < e->rank; i++) dims[i] = e->dims[order->order[i]];
    if (order->turns && e->count > 0) {
        char *to = dt__block_list_add(ctx, arena, e->bytes);
        if (to == NULL) return DT_ERR_NOMEM;
        turn(order, e, dims, to);
        e->data = to;
    }
    if (order->shape.n > 0) {
        e->rank = order->shape.n;
        memcpy(dims, order->shape.v, (size_t)e->rank * sizeof *dims);
    }
    e->dims = dims;
    return DT_OK;
}
