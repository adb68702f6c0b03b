/* The coded kind: coded.h. */
#include "autograd/coded.h"

#include "autograd/tape.h"
#include "kernels/kernels.h"

#include <detent/experimental/device.h>
#include <stdio.h>
#include <string.h>

/* NULL if the tape has already dropped the tensor. */
dt__codes *dt__coded_codes(const dt_tensor *x) { return x->ext; }

static dt_status codes(dt_tape *t, dt_tensor *x, dt__codes **out)
{
    (void)t;
    *out = x->ext;
    dt__codes_retain(*out);
    return DT_OK;
}

static dt_status value(dt_tape *t, dt_tensor *x, dt_tensor **dense, dt__codes **used)
{
    *used = NULL;
    return dt__dequantized(t->ctx, x, x->ext, dense);
}

static dt_status pullback(dt_tape *t, dt_tensor *x, dt_tensor *dvalue, dt__codes *used)
{
    (void)used;
    return dt__accumulate(t, x, dvalue);
}

static void drop(dt_tensor *x)
{
    dt__codes_release(x->ext);
    x->ext = NULL;
}

static dt_status clone(dt_tensor *x, dt_tensor *copy)
{
    copy->kind = x->kind;
    copy->ext = x->ext;
    copy->drop_ext = drop;
    dt__codes_retain(x->ext);
    return DT_OK;
}

static size_t print(const dt_tensor *x, char *text, size_t size)
{
    char shape[192];
    return (size_t)snprintf(text, size, "coded %s", dt__shape_text(x, true, shape, sizeof shape));
}

const dt__kind dt__coded_kind = {
    .name = "coded",
    .value = value,
    .codes = codes,
    .pullback = pullback,
    .dropped = drop,
    .clone = clone,
    .print = print,
};

static dt_status fill_rows(dt__codes *codes, dt__coding_range r)
{
    const int64_t n = dt__max_i64(1, codes->rows);
    codes->scale = dt__alloc_array(codes->ctx, n, sizeof *codes->scale);
    codes->zero = dt__alloc_array(codes->ctx, n, sizeof *codes->zero);
    codes->zero_u = dt__alloc_array(codes->ctx, n, sizeof *codes->zero_u);
    if (codes->scale == NULL || codes->zero == NULL || codes->zero_u == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) codes->scale[i] = r.scale;
    for (int64_t i = 0; i < n; i++) codes->zero_u[i] = r.zero + 128;
    memset(codes->zero, r.zero, (size_t)n);
    return DT_OK;
}

static dt_status make_codes(dt_ctx *ctx, const dt_tensor *x, dt__coding_range r, dt__codes **out)
{
    DT__TRY(dt__codes_create(ctx, out));
    dt__codes *codes = *out;
    codes->rows = x->rank == 0 ? 1 : x->dims[0];
    codes->columns = codes->rows == 0 ? 0 : x->count / codes->rows;
    codes->group = dt__max_i64(1, codes->columns);
    codes->groups = 1;
    codes->bits = 8;
    codes->integer = true;
    codes->stride = codes->columns;
    codes->zero_step = 1;
    codes->u = dt__alloc(ctx, (size_t)x->count + DT__STEP);
    if (codes->u == NULL) return DT_ERR_NOMEM;
    memset(codes->u + x->count, 0, DT__STEP);
    return fill_rows(codes, r);
}

dt_status dt__result_to_coded(dt_call *c, int i, dt__coding_range r)
{
    dt__codes *codes;
    const dt_status s = make_codes(c->ctx, c->out[i], r, &codes);
    if (s != DT_OK) {
        dt__codes_release(codes);
        return s;
    }
    c->out[i]->kind = &dt__coded_kind;
    c->out[i]->ext = codes;
    c->out[i]->drop_ext = drop;
    return DT_OK;
}

dt_status dt__result_coded(dt_call *c, int i, int rank, const int64_t *dims, dt__coding_range r)
{
    DT__TRY(dt__handle_create(c->ctx, DT_F32, rank, dims, &c->out[i]));
    if (i >= c->n_out) c->n_out = i + 1;
    return dt__result_to_coded(c, i, r);
}

bool dt_is_coded(const dt_tensor *x) { return x != NULL && dt__is_coded(x); }

static dt_status check(const dt_tensor *x)
{
    if (dt__is_coded(x) && x->ext != NULL) return DT_OK;
    return dt_fail(x->ctx, DT_ERR_STATE, "coded: the tensor is %s",
                   x->dropped ? "dropped" : "not coded");
}

dt_status dt_coded_range(const dt_tensor *x, float *scale, int *zero_point)
{
    DT__NEED(NULL, x);
    DT__TRY(check(x));
    const dt__coding_range r = dt__range_of_codes(x->ext);
    if (scale != NULL) *scale = r.scale;
    if (zero_point != NULL) *zero_point = r.zero;
    return DT_OK;
}

dt_status dt_coded_read(const dt_tensor *x, int8_t *to)
{
    DT__NEED2(x->ctx, x, to);
    DT__TRY(check(x));
    const dt__codes *codes = x->ext;
    for (int64_t i = 0; i < x->count; i++) to[i] = (int8_t)(codes->u[i] - 128);
    return DT_OK;
}
