/* Which device op each float op becomes in an integer network, and which calls none can compute. */
#include "qat/device/device_becomes.h"

#include "nn/convolution/conv_layers.h"
#include "ops/device/device_functions.h"
#include "ops/ops_list.h"

#include <math.h>
#include <string.h>

static const char *bars_linear(const dt_call *c)
{
    return c->in[0]->rank == 2 ? NULL : "its input must be [batch, features]; flatten it";
}

static const char *bars_softmax(const dt_call *c)
{
    const dt_tensor *x = c->in[0];
    if (c->state[0] != x->rank - 1) return "it must be over the last dimension";
    return dt__columns(x) <= 511 ? NULL : "a row has more than 511 elements";
}

static const char *bars_adaptive(const dt_call *c)
{
    for (int i = 2; i < c->in[0]->rank; i++) {
        if (c->in[0]->dims[i] % c->y->dims[i] != 0) return "its windows have different sizes";
    }
    return NULL;
}

static const char *bars_pad(const dt_call *c)
{
    const dt_pad_options *o = c->options;
    /* pads with a value below 0 only where max_pool2d alone reads it: device_record.c */
    return o->mode == DT_PAD_CONSTANT && o->value <= 0 ? NULL : "only zeros can be padded";
}

static const char *bars_zip(const dt_call *c)
{
    const dt_tensor *a = c->in[0], *b = c->in[1];
    const bool fits = a->rank == b->rank && a->rank > 0 && a->dims[0] == b->dims[0];
    return fits ? NULL : "its operands must have as many dimensions, the batch first";
}

static const char *bars_slice(const dt_call *c)
{
    return c->in[0]->dims[0] == c->y->dims[0] ? NULL : "it cuts the batch";
}

static const char *bars_permute(const dt_call *c)
{
    const dt_ints *dims = c->options;
    const bool first = dims->v[0] == 0 || dims->v[0] == -c->in[0]->rank;
    return first ? NULL : "the batch must stay in front";
}

/* The options of elu and leaky_relu are one double. */
static const char *bars_elu(const dt_call *c)
{
    return *(const double *)c->options == 1 ? NULL : "its alpha must be 1";
}

static const char *bars_leaky(const dt_call *c)
{
    return fabs(*(const double *)c->options) <= 256 ? NULL : "its slope is above 256";
}

static const char *bars_mean(const dt_call *c)
{
    if ((c->state[0] & 1) != 0) return "it must not be over the batch";
    return c->state[1] <= 65536 ? NULL : "a mean has more than 65536 elements";
}

static const dt__becomes ops[] = {
    { &dt__op_linear, .product = true, .ranged = true, .clamps = true, .bars = bars_linear },
    { &dt__op_conv2d, .product = true, .ranged = true, .clamps = true },
    { &dt__op_conv_transpose2d, .product = true, .ranged = true, .clamps = true },
    { &dt__op_conv1d, .product = true, .ranged = true, .clamps = true },
    { &dt__op_conv_transpose1d, .product = true, .ranged = true, .clamps = true },
    { &dt__op_add, .ranged = true, .pairs = true, .clamps = true, .bars = bars_zip },
    { &dt__op_sub, .ranged = true, .pairs = true, .clamps = true, .bars = bars_zip },
    { &dt__op_mul, .ranged = true, .pairs = true, .clamps = true, .bars = bars_zip },
    { &dt__op_prelu, .ranged = true, .pairs = true },
    { &dt__op_mean, .ranged = true, .bars = bars_mean },
    { &dt__op_sigmoid, .table = 1 + DT_TABLE_SIGMOID },
    { &dt__op_tanh, .table = 1 + DT_TABLE_TANH },
    { &dt__op_elu, .ranged = true, .table = 1 + DT_TABLE_ELU, .bars = bars_elu },
    { &dt__op_gelu, .ranged = true, .table = 1 + DT_TABLE_GELU },
    { &dt__op_leaky_relu, .ranged = true, .table = 1 + DT_TABLE_LEAKY_RELU, .bars = bars_leaky },
    { &dt__op_hardswish, .ranged = true, .table = 1 + DT_TABLE_HARDSWISH },
    { &dt__op_relu, .ranged = true, .table = 1 + DT_TABLE_RELU },
    { &dt__op_relu6, .ranged = true, .table = 1 + DT_TABLE_RELU6 },
    { &dt__op_upsample_nearest, .bars = NULL },
    { &dt__op_upsample_nearest1d, .bars = NULL },
    { &dt__op_max_pool2d, .bars = NULL },
    { &dt__op_avg_pool2d, .bars = NULL },
    { &dt__op_global_avg_pool2d, .bars = NULL },
    { &dt__op_adaptive_avg_pool2d, .bars = bars_adaptive },
    { &dt__op_max_pool1d, .bars = NULL },
    { &dt__op_avg_pool1d, .bars = NULL },
    { &dt__op_global_avg_pool1d, .bars = NULL },
    { &dt__op_adaptive_avg_pool1d, .bars = bars_adaptive },
    { &dt__op_softmax, .bars = bars_softmax },
    { &dt__op_pad, .bars = bars_pad },
    { &dt__op_concat, .bars = NULL },
    { &dt__op_reshape, .bars = NULL },
    { &dt__op_flatten, .bars = NULL },
    { &dt__op_slice, .bars = bars_slice },
    { &dt__op_permute, .bars = bars_permute },
};

const dt__becomes *dt__becomes_of(const dt_op *op)
{
    for (int i = 0; i < DT__COUNT_OF(ops); i++) {
        if (ops[i].op == op) return &ops[i];
    }
    return NULL;
}

dt__coding_range dt__fixed_range(const dt_op *op)
{
    const dt__becomes *b = op == NULL ? NULL : dt__becomes_of(op);
    if (op == &dt__op_softmax) return (dt__coding_range){ 0x1p-8f, -128 };
    return b != NULL && b->table > 0 ? dt__device_table_range(b->table - 1)
                                     : (dt__coding_range){ 0, 0 };
}

static bool is_product(const dt_module *m)
{
    return m->type == &dt__nn_linear || dt__conv_state_of(m) != NULL;
}

static const char no_integers[] = "integers do not compute it; docs/device.md lists the layers "
                                  "that they do";

const char *dt__bars_module(const dt_module *m)
{
    const dt_module_type *type = dt_module_type_of(m);
    if (type->repeats) return "its gates are not the arithmetic of int8 codes";
    if (is_product(m) || type->quantizable == DT_NOT_QUANTIZED) return NULL;
    return no_integers;
}

const char *dt__bars_call(const dt_call *c, const dt_module *m)
{
    const dt__becomes *b = dt__becomes_of(c->op);
    if (b == NULL && strncmp(c->op->name, "batch_norm", strlen("batch_norm")) == 0) {
        return "a batch norm is computed where it is folded into a convolution or linear layer "
               "before it (qat.fold_norm)";
    }
    if (b == NULL) return no_integers;
    if (b->product && !is_product(m)) return "it is not the product of a layer";
    return b->bars != NULL ? b->bars(c) : NULL;
}
