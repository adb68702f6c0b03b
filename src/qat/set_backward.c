/* dt_set_backward: which layers multiply gradients as integers. The choice is a flag of the layer's
 * quantized weight, which its codes carry to the ops. */
#include "nn/convolution/conv_layers.h"
#include "qat/derived_quant.h"
#include "qat/prepare.h"

/* The settings of a layer's quantized weight; NULL: it has none. */
static dt__fq *weight_of(const dt_module *m)
{
    if (m->type->quantizable == DT_NOT_QUANTIZED) return NULL;
    dt__fq *derived = dt__derived_quant(m);
    if (derived != NULL) return derived;
    const dt__entry *w = dt__entry_find(m, "weight");
    return w != NULL && dt_is_fake_quant(w->x) ? w->x->ext : NULL;
}

/* Groups of one channel are not multiplied as integers. */
static bool is_depthwise(const dt_module *m)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    return conv != NULL && conv->layer.conv.groups > 1 && conv->layer.in == conv->layer.conv.groups;
}

static bool is_transposed(const dt_module *m)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    return conv != NULL && conv->kind->transposed;
}

typedef struct ends {
    const dt_module *first, *last;
} ends;

static dt_status find_ends(void *user, const char *path, dt_module *m)
{
    ends *e = user;
    (void)path;
    if (m->type->quantizable == DT_NOT_QUANTIZED) return DT_OK;
    if (e->first == NULL) e->first = m;
    e->last = m;
    return DT_OK;
}

typedef struct choice {
    int backward;
    ends ends;
} choice;

static bool is_end(const choice *c, const dt_module *m)
{
    return m == c->ends.first || m == c->ends.last;
}

static dt_status choose(void *user, const char *path, dt_module *m)
{
    const choice *c = user;
    (void)path;
    dt__fq *fq = weight_of(m);
    const bool chosen =
        c->backward == DT_BACKWARD_INT8 && !is_end(c, m) && dt__conv_state_of(m) == NULL;
    if (fq != NULL) fq->int8_backward = chosen || c->backward == DT_BACKWARD_INT8_ALL;
    return DT_OK;
}

/* A tied weight is the first layer's, too. */
static dt_status leave_out(void *user, const char *path, dt_module *m)
{
    const choice *c = user;
    (void)path;
    dt__fq *fq = weight_of(m);
    if (fq != NULL && is_end(c, m) && c->backward == DT_BACKWARD_INT8) fq->int8_backward = false;
    return DT_OK;
}

dt_status dt_set_backward(dt_module *m, int backward)
{
    DT__NEED(dt_module_ctx(m), m);
    choice c = { .backward = backward };
    if (backward < DT_BACKWARD_FLOAT || backward > DT_BACKWARD_INT8_ALL) {
        return dt_fail(m->ctx, DT_ERR_ARG, "set_backward: %d is not one of the backward passes",
                       backward);
    }
    if (!dt_is_prepared(m)) {
        return dt_fail(m->ctx, DT_ERR_STATE, "set_backward: the model is not prepared");
    }
    DT__TRY(dt_module_visit_modules(m, find_ends, &c.ends));
    DT__TRY(dt_module_visit_modules(m, choose, &c));
    return dt_module_visit_modules(m, leave_out, &c);
}

int dt_gradients_of(const dt_module *layer)
{
    if (layer == NULL) return 0;
    const dt__fq *fq = weight_of(layer);
    if (fq == NULL || !fq->int8_backward || is_depthwise(layer)) return DT_GRADIENTS_FLOAT;
    const dt__input_hook *input = dt__input_hook_of(layer);
    const bool both = input != NULL && !input->simulated && !is_transposed(layer);
    return both ? DT_GRADIENTS_INT8 : DT_GRADIENTS_INT8_DX;
}
