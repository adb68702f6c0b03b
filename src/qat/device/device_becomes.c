/* Which op of floats becomes which of codes in an integer network, and which calls of it cannot. */
#include "qat/device/device_becomes.h"

#include "nn/convolution/conv_layers.h"
#include "ops/ops_list.h"

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
    /* values below 0 where maxima alone read them: device_record.c */
    return o->mode == DT_PAD_CONSTANT && o->value <= 0 ? NULL : "only zeros can be padded";
}

static const char *bars_zip(const dt_call *c)
{
    return dt__same_dims(c->in[0], c->in[1]) ? NULL : "its operands must have one shape";
}

static const char *bars_permute(const dt_call *c)
{
    const dt_ints *dims = c->options;
    const bool first = dims->v[0] == 0 || dims->v[0] == -c->in[0]->rank;
    return first ? NULL : "the batch must stay in front";
}

static const dt__becomes ops[] = {
    { &dt__op_linear, true, true, bars_linear },
    { &dt__op_conv2d, true, true, NULL },
    { &dt__op_conv_transpose2d, true, true, NULL },
    { &dt__op_conv1d, true, true, NULL },
    { &dt__op_conv_transpose1d, true, true, NULL },
    { &dt__op_add, false, true, bars_zip },
    { &dt__op_mul, false, true, bars_zip },
    { &dt__op_max_pool2d, false, false, NULL },
    { &dt__op_avg_pool2d, false, false, NULL },
    { &dt__op_global_avg_pool2d, false, false, NULL },
    { &dt__op_adaptive_avg_pool2d, false, false, bars_adaptive },
    { &dt__op_max_pool1d, false, false, NULL },
    { &dt__op_avg_pool1d, false, false, NULL },
    { &dt__op_global_avg_pool1d, false, false, NULL },
    { &dt__op_adaptive_avg_pool1d, false, false, bars_adaptive },
    { &dt__op_softmax, false, false, bars_softmax },
    { &dt__op_pad, false, false, bars_pad },
    { &dt__op_concat, false, false, NULL },
    { &dt__op_reshape, false, false, NULL },
    { &dt__op_flatten, false, false, NULL },
    { &dt__op_permute, false, false, bars_permute },
};

const dt__becomes *dt__becomes_of(const dt_op *op)
{
    for (int i = 0; i < DT__COUNT_OF(ops); i++) {
        if (ops[i].op == op) return &ops[i];
    }
    return NULL;
}

static bool is_product(const dt_module *m)
{
    return m->type == &dt__nn_linear || dt__conv_state_of(m) != NULL;
}

const char *dt__bars_module(const dt_module *m)
{
    const dt_module_type *type = dt_module_type_of(m);
    if (type->repeats) return "its gates are not the arithmetic of int8 codes";
    if (is_product(m) || type->quantizable == DT_NOT_QUANTIZED) return NULL;
    return "docs/device.md lists the layers that can";
}

const char *dt__bars_call(const dt_call *c, const dt_module *m)
{
    const dt__becomes *b = dt__becomes_of(c->op);
    if (b == NULL) return "docs/device.md lists the layers that can";
    if (b->product && !is_product(m)) return "it is not the product of a layer";
    return b->bars != NULL ? b->bars(c) : NULL;
}
