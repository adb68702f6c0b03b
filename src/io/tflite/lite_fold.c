/* Folds DEQUANTIZE of constants, which converters write for 16-bit float weights: operators that
 * read its result read the constant instead. */
#include "io/tflite/lite_import.h"

static bool is_of_constant(const dt__vlite *v, const dt__vlite_op *o)
{
    return o->code == DT__VLITE_DEQUANTIZE && o->n_in == 1 && o->n_out == 1 && o->in[0] >= 0 &&
           o->out[0] >= 0 && v->tensor[o->in[0]].constant && !v->tensor[o->out[0]].constant;
}

dt_status dt__lite_fold(dt__vlite *v)
{
    int *constant = dt__vlite_memory(v, v->tensors, sizeof *constant);
    int64_t kept = 0;
    if (constant == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < v->tensors; i++) constant[i] = (int)i;
    for (int64_t i = 0; i < v->ops; i++) {
        const dt__vlite_op *o = &v->op[i];
        for (int k = 0; k < o->n_in; k++) {
            if (o->in[k] >= 0) o->in[k] = constant[o->in[k]];
        }
        if (is_of_constant(v, o)) {
            dt__vlite_tensor *t = &v->tensor[o->in[0]];
            /* F16 values are stored as floats */
            if (t->type == DT__VLITE_F16) t->type = DT__VLITE_F32;
            constant[o->out[0]] = o->in[0];
        } else {
            v->op[kept++] = *o;
        }
    }
    v->ops = kept;
    return DT_OK;
}
