/* The packed kind: a converted parameter, which has integer codes and scales but no master.
 * Read-only. Ops that multiply codes get the same codes as in training, other ops the dequantized
 * values. */
#include "autograd/tape.h"
#include "qat/quantized.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>

static dt__packed *packed_of(const dt_tensor *x) { return x->ext; }

static dt__codes *retained(const dt_tensor *x)
{
    dt__codes *all = packed_of(x)->codes;
    dt__codes_retain(all);
    return all;
}

/* Codes that are floats are not multiplied: ops get their dequantized values instead. */
static dt_status codes(dt_tape *t, dt_tensor *x, dt__codes **out)
{
    (void)t;
    *out = dt__real_of(&packed_of(x)->quant) != NULL ? NULL : retained(x);
    return DT_OK;
}

static dt_status value(dt_tape *t, dt_tensor *x, dt_tensor **dense, dt__codes **used)
{
    *used = retained(x);
    return dt__dequantized(t->ctx, x, *used, dense);
}

/* Reached where a model was converted between a forward pass that saved only codes and its
 * backward. */
static dt_status pullback(dt_tape *t, dt_tensor *x, dt_tensor *dvalue, dt__codes *used)
{
    (void)used;
    dt_tensor_free(dvalue);
    return dt_fail(t->ctx, DT_ERR_STATE, "a packed tensor%s%s takes no gradient",
                   x->name != NULL ? " " : "", x->name != NULL ? x->name : "");
}

static size_t print(const dt_tensor *x, char *text, size_t size)
{
    char shape[192], scheme[96];
    return (size_t)snprintf(text, size, "packed(%s) %s",
                            dt__quant_text(&packed_of(x)->quant, scheme, sizeof scheme),
                            dt__shape_text(x, false, shape, sizeof shape));
}

static void drop(dt_tensor *x)
{
    dt__packed *p = packed_of(x);
    x->ext = NULL;
    dt__codes_release(p->codes);
    dt__release(x->ctx, p);
}

/* Makes the dense handle x packed; adds a reference on `codes`. */
static dt_status become(dt_tensor *x, const dt_quant_spec *quant, bool simulated, dt__codes *codes_)
{
    dt__packed *p = dt__alloc(x->ctx, sizeof *p);
    if (p == NULL) return DT_ERR_NOMEM;
    *p = (dt__packed){ .quant = *quant, .simulated = simulated, .codes = codes_ };
    dt__codes_retain(codes_);
    x->kind = &dt__packed_kind;
    x->ext = p;
    x->drop_ext = drop;
    return DT_OK;
}

static dt_status clone(dt_tensor *x, dt_tensor *copy)
{
    const dt__packed *p = packed_of(x);
    return become(copy, &p->quant, p->simulated, p->codes);
}

static dt_status make_expert(dt_tensor *x, int64_t i, dt_tensor *expert)
{
    const dt__packed *p = packed_of(x);
    dt__codes *part;
    DT__TRY(dt__codes_expert(p->codes, i, &part));
    const dt_status s = become(expert, &p->quant, p->simulated, part);
    dt__codes_release(part);
    return s;
}

const dt__kind dt__packed_kind = {
    .name = "packed",
    .value = value,
    .codes = codes,
    .pullback = pullback,
    .clone = clone,
    .expert = make_expert,
    .print = print,
};

void dt__packed_take(dt_tensor *w, dt__packed *packed)
{
    if (dt_is_fake_quant(w)) dt__fq_unwrap(w);
    if (dt_is_packed(w)) drop(w);
    dt_grad_clear(w);
    dt__drop_storage(w);
    w->requires_grad = false;
    w->kind = &dt__packed_kind;
    w->ext = packed;
    w->drop_ext = drop;
}

bool dt_is_packed(const dt_tensor *x) { return x == NULL ? false : x->kind == &dt__packed_kind; }

const dt_quant_spec *dt__quant_of(const dt_tensor *x)
{
    if (dt_is_fake_quant(x)) return &((const dt__fq *)x->ext)->quant;
    return dt_is_packed(x) ? &packed_of(x)->quant : NULL;
}

const dt__row_map *dt__row_map_of_weight(const dt_tensor *x)
{
    if (dt_is_fake_quant(x)) return &((const dt__fq *)x->ext)->map;
    return dt_is_packed(x) ? &packed_of(x)->codes->map : NULL;
}

bool dt__is_simulated(const dt_tensor *x)
{
    if (dt_is_fake_quant(x)) return ((const dt__fq *)x->ext)->simulated;
    return dt_is_packed(x) && packed_of(x)->simulated;
}

dt_status dt_dequantize(dt_tensor *x, dt_tensor **out)
{
    DT__NEED2(dt_ctx_of(x), x, out);
    *out = NULL;
    dt__codes *used = NULL;
    if (dt_is_packed(x)) {
        used = retained(x);
    } else if (dt_is_fake_quant(x)) {
        DT__TRY(dt__fq_codes(x, &used));
    } else {
        return dt_fail(x->ctx, DT_ERR_STATE, "dequantize: x is a plain tensor");
    }
    const dt_status s = dt__dequantized(x->ctx, x, used, out);
    dt__codes_release(used);
    if (s == DT_OK) (*out)->storage->dequantized = false; /* the caller's own copy */
    return s;
}
