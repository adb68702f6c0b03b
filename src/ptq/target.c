/* The weight op and the rounding options of a model's layer. */
#include "ptq/target.h"

#include "nn/convolution/conv_layers.h"
#include "qat/prepare.h"

#include <stdio.h>

bool dt__weight_op_of(const dt_module *m, dt_weight_op *out)
{
    static const int kinds[2][2] = {
        { DT_WEIGHT_CONV1D, DT_WEIGHT_CONV_TRANSPOSE1D },
        { DT_WEIGHT_CONV2D, DT_WEIGHT_CONV_TRANSPOSE2D },
    };
    const dt__conv_state *conv = dt__conv_state_of(m);
    *out = (dt_weight_op){ .kind = DT_WEIGHT_LINEAR };
    if (conv == NULL && m->type == &dt__nn_grouped_linear) out->kind = DT_WEIGHT_GROUPED_LINEAR;
    if (conv == NULL) {
        return m->type == &dt__nn_linear || m->type == &dt__nn_router ||
               m->type == &dt__nn_grouped_linear;
    }
    *out = (dt_weight_op){ kinds[conv->kind->axes - 1][conv->kind->transposed], conv->layer.conv };
    return true;
}

/* The range of input codes. Unsigned ones are counted from 0, although they are stored with an
 * offset. */
static dt_ints codes_of(const dt_quant_spec *input)
{
    const int64_t least = dt__qmin(input), most = dt__qmax(input);
    if (input->is_unsigned) return (dt_ints){ 2, { 0, most - least } };
    return (dt_ints){ 2, { least, most } };
}

dt_status dt__layer_options(const dt_module *layer, const dt_quant_spec *quant,
                            const dt_rounding_options *options, dt_rounding_options *out)
{
    const dt__input_hook *hook = dt__input_hook_of(layer);
    const dt__method *method = dt__method_of(options->rounder);
    *out = *options;
    const bool given = options->accumulator.input.n != 0;
    const bool integers = hook != NULL && dt__real_of(&hook->quant) == NULL;
    if (!given && integers) out->accumulator.input = codes_of(&hook->quant);
    if (!given && !integers && method != NULL && method->bounded) {
        return dt_fail(layer->ctx, DT_ERR_CONFIG,
                       "ptq: the inputs of %s stay float, so nothing bounds its accumulators; %s "
                       "requires integers, or accumulator.input",
                       layer->path, method->name);
    }
    if (hook != NULL && hook->quant.granularity == DT_PER_GROUP &&
        out->rounding.order == DT_ORDER_GROUP) {
        return dt_fail(layer->ctx, DT_ERR_CONFIG,
                       "ptq: the inputs of %s are in blocks, which are its weight's groups: order "
                       "group, which moves columns to other groups, does not go with them",
                       layer->path);
    }
    const dt_status s = dt__rounding_check(layer->ctx, out, quant);
    if (s == DT_OK) return DT_OK;
    char text[DT__MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", dt_error(layer->ctx));
    return dt_fail(layer->ctx, s, "ptq: %s: %s", layer->path, text);
}
