/* The dense kind: a tensor that is its own value, and whose gradients add up in its slot. Also
 * dt_describe. */
#include "autograd/kind.h"
#include "autograd/tape.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <string.h>

static dt_status value(dt_tape *t, dt_tensor *x, dt_tensor **dense, dt__codes **codes)
{
    (void)t;
    *codes = NULL;
    dt__retain(x);
    *dense = x;
    return DT_OK;
}

static dt_tensor *inner(dt_tensor *x) { return x; }

static dt_status pullback(dt_tape *t, dt_tensor *x, dt_tensor *dvalue, dt__codes *codes)
{
    (void)codes;
    return dt__accumulate(t, x, dvalue);
}

static size_t print(const dt_tensor *x, char *text, size_t size)
{
    char shape[192];
    return (size_t)snprintf(text, size, "%s", dt__shape_text(x, true, shape, sizeof shape));
}

const dt__kind dt__dense = {
    .name = "dense",
    .value = value,
    .inner = inner,
    .pullback = pullback,
    .print = print,
};

size_t dt_describe(const dt_tensor *x, char *text, size_t size)
{
    if (x == NULL) return 0;
    if (text == NULL && size > 0) return 0;
    return dt__kind_of(x)->print(x, text, size);
}

const void *dt_strided_data(const dt_tensor *x)
{
    if (x == NULL) return NULL;
    return dt__may_read_data(x, "dt_strided_data") ? dt__data(x) : NULL;
}

void *dt_strided_data_mut(dt_tensor *x)
{
    if (x == NULL) return NULL;
    if (!dt__may_write_data(x, "dt_strided_data_mut")) return NULL;
    x->storage->version++;
    return dt__data_mut(x);
}

/* The first contribution becomes the gradient, without a copy. */
dt_status dt__accumulate(dt_tape *t, dt_tensor *x, dt_tensor *d)
{
    if (x->whole != NULL) return dt__accumulate_portion(t, x, d);
    if (x->grad == NULL) {
        x->grad = d;
        return DT_OK;
    }
    t->ctx->kernels[x->dtype]->add_into(d->count, dt__data(d), dt__data_mut(x->grad));
    x->grad->storage->version++;
    dt_tensor_free(d);
    return DT_OK;
}

dt_tensor *dt_grad(const dt_tensor *x)
{
    if (x == NULL) return NULL;
    return x->whole != NULL ? dt__grad_of_portion(x) : x->grad;
}

void dt_grad_clear(dt_tensor *x)
{
    if (x == NULL) return;
    if (x->whole != NULL) {
        dt__clear_portion(x);
        return;
    }
    dt_tensor_free(x->grad);
    x->grad = NULL;
}

dt_status dt_set_requires_grad(dt_tensor *x, bool on)
{
    DT__NEED(dt_ctx_of(x), x);
    if (on && !dt__is_float(x->dtype)) {
        return dt_fail(x->ctx, DT_ERR_DTYPE, "requires_grad: must be f32 or f64, not %s",
                       dt_dtype_name(x->dtype));
    }
    if (x->tape != NULL) {
        return dt_fail(x->ctx, DT_ERR_STATE,
                       "requires_grad: it can only be set on a leaf, not on the result of an op");
    }
    if (x->whole != NULL) {
        return dt_fail(x->ctx, DT_ERR_STATE,
                       "requires_grad: %s is an expert, and follows its grouped parameter",
                       x->name != NULL ? x->name : "x");
    }
    if (on && dt__kind_of(x)->inner == NULL) {
        return dt_fail(x->ctx, DT_ERR_STATE, "requires_grad: a %s tensor is read-only",
                       dt__kind_of(x)->name);
    }
    x->requires_grad = on;
    return DT_OK;
}

void dt__copy_tensor(const dt_tensor *from, dt_tensor *to)
{
    dt__copy c = { .rank = from->rank, .x = dt__data(from), .y = dt__data_mut(to) };
    memcpy(c.dims, from->dims, sizeof c.dims);
    memcpy(c.x_strides, from->strides, sizeof c.x_strides);
    memcpy(c.y_strides, to->strides, sizeof c.y_strides);
    if (from->count > 0) dt__copy_bytes(&c, dt_dtype_size(from->dtype));
}
