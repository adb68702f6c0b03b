/* Makes operands of cases, runs forward and backward, and collects the results. */
#include "ops_run.h"

#include "autograd/coded.h"

#include <detent/experimental/device.h>

#include "qat/quantized.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define POISON 1e30

int ops_count(const dt__case *k)
{
    int n = 0;
    while (n < DT__CASE_IN &&
           (k->in[n].absent || k->in[n].r != 0 || k->in[n].dims[0] != 0 || k->in[n].dims[1] != 0)) {
        n++;
    }
    return n;
}

static int rank_of(const dt__case_tensor *x)
{
    if (x->r != 0) return x->r == DT__SCALAR ? 0 : x->r;
    int r = DT_MAX_RANK;
    while (r > 0 && x->dims[r - 1] == 0) r--;
    return r;
}

bool ops_is_empty(const dt__case *k)
{
    for (int i = 0; i < ops_count(k); i++) {
        for (int d = 0; d < rank_of(&k->in[i]); d++) {
            if (k->in[i].dims[d] == 0) return true;
        }
    }
    return false;
}

bool ops_differentiable(const dt_op *op, const dt__case *k, int i)
{
    return op->backward != NULL && !op->undifferentiable[i] && !k->in[i].absent &&
           k->in[i].dtype == DT_F32 && (op->role[i] == DT_READ || op->role[i] == DT_CODES);
}

/* ---- values ---------------------------------------------------------------------------------- */

double ops_at(const dt_tensor *x, int64_t k)
{
    const int64_t o = dt__offset_of(k, x->rank, x->dims, x->strides);
    const void *p = dt__data(x);
    switch (x->dtype) {
    case DT_F32: return (double)((const float *)p)[o];
    case DT_F64: return ((const double *)p)[o];
    case DT_I32: return ((const int32_t *)p)[o];
    case DT_I64: return (double)((const int64_t *)p)[o];
    case DT_I8: return ((const int8_t *)p)[o];
    default: return ((const uint8_t *)p)[o];
    }
}

static void put(void *data, dt_dtype dtype, int64_t o, double v)
{
    switch (dtype) {
    case DT_F32: ((float *)data)[o] = (float)v; break;
    case DT_F64: ((double *)data)[o] = v; break;
    case DT_I32: ((int32_t *)data)[o] = v < 1e9 ? (int32_t)v : INT32_MAX; break;
    case DT_I64: ((int64_t *)data)[o] = v < 1e9 ? (int64_t)v : INT64_MAX; break;
    case DT_I8: ((int8_t *)data)[o] = v < 127 ? (int8_t)v : INT8_MAX; break;
    default: ((uint8_t *)data)[o] = v < 255 ? (uint8_t)v : 255;
    }
}

ops_values ops_read(const dt_tensor *x)
{
    ops_values out = { x->count, malloc((size_t)x->count * sizeof(double) + 1) };
    ck_assert_ptr_nonnull(out.v);
    if (dt_is_coded(x)) {
        float *values = malloc((size_t)x->count * sizeof *values + 1);
        dt__codes_expand_all(dt__coded_codes(x), values);
        for (int64_t i = 0; i < x->count; i++) out.v[i] = (double)values[i];
        free(values);
        return out;
    }
    for (int64_t i = 0; i < x->count; i++) out.v[i] = ops_at(x, i);
    return out;
}

static double random_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) * 0x1p-24;
}

dt_tensor *ops_operand(dt_ctx *ctx, const dt__case *k, int i, dt_dtype real)
{
    const dt__case_tensor *x = &k->in[i];
    const dt_dtype other = real == DT_F32 ? DT_F64 : DT_F32;
    const bool integer = x->dtype != DT_F32;
    const dt_dtype dtype = integer ? x->dtype : x->other ? other : real;
    dt_tensor *out = NULL;
    if (x->absent) return NULL;
    if (dt_tensor_create(ctx, dtype, rank_of(x), x->dims, &out) != DT_OK) return NULL;
    const bool bounded = x->low != 0 || x->high != 0;
    const double low = bounded ? x->low : -1, high = bounded ? x->high : 1;
    uint64_t state = (uint64_t)i * 77 + 5;
    for (int64_t e = 0; e < out->count; e++) {
        double v = low + random_unit(&state) * (high - low);
        v = integer ? floor(v) : (double)(float)v; /* the same numbers in f32 and f64 */
        put(dt__data_mut(out), dtype, e, x->given ? x->values[e] : v);
    }
    return out;
}

dt_tensor *ops_upstream(const dt_tensor *y)
{
    dt_tensor *up = NULL;
    if (dt_tensor_create(y->ctx, y->dtype, y->rank, y->dims, &up) != DT_OK) return NULL;
    uint64_t state = 99;
    for (int64_t e = 0; e < up->count; e++) {
        put(dt__data_mut(up), up->dtype, e, (double)(float)(random_unit(&state) - 0.5));
    }
    return up;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void strides_of(const dt_tensor *x, ops_layout layout, int64_t *strides)
{
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    const int r = x->rank;
    const bool swap = layout == OPS_TRANSPOSED && r > 1;
    if (swap) {
        dims[r - 2] = x->dims[r - 1];
        dims[r - 1] = x->dims[r - 2];
    }
    dt__contiguous_strides(r, dims, strides);
    if (swap) {
        const int64_t last = strides[r - 1];
        strides[r - 1] = strides[r - 2];
        strides[r - 2] = last;
    }
    for (int d = 0; d < r && layout == OPS_SPREAD; d++) strides[d] *= 2;
}

dt_tensor *ops_lay_out(const dt_tensor *x, ops_layout layout)
{
    const int64_t room = 2 * x->count + 7;
    dt_tensor *whole, *out;
    TEST_OK(x->ctx, dt_tensor_create(x->ctx, x->dtype, 1, &room, &whole));
    for (int64_t e = 0; e < room; e++) put(dt__data_mut(whole), x->dtype, e, POISON);
    TEST_OK(x->ctx, dt__view(x->ctx, x, &out));
    dt__storage_release(out->storage);
    out->storage = whole->storage;
    dt__storage_retain(out->storage);
    out->offset = 3;
    strides_of(x, layout, out->strides);
    for (int64_t e = 0; e < x->count; e++) {
        put(dt__data_mut(out), x->dtype, dt__offset_of(e, out->rank, out->dims, out->strides),
            ops_at(x, e));
    }
    dt_tensor_free(whole);
    return out;
}

/* Whether memory between the elements of x still holds what ops_lay_out wrote there. */
static bool untouched(const dt_tensor *x)
{
    dt_tensor poison = *x;
    double one;
    const size_t size = dt_dtype_size(x->dtype);
    put(&one, x->dtype, 0, POISON);
    const int64_t room = 2 * x->count + 7;
    int64_t found = 0;
    for (int64_t e = 0; e < room; e++) {
        found += memcmp((const char *)poison.storage->data + (size_t)e * size, &one, size) == 0;
    }
    return found >= room - x->count;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct scene {
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *in[DT__CASE_IN];
    int n;
} scene;

static const dt_quant_spec int8_tensor = { .scheme = DT_SCHEME_SYMMETRIC,
                                           .bits = 8,
                                           .granularity = DT_PER_TENSOR };

static dt_status wrap(const ops_setup *s, dt_tensor **x)
{
    if (s->wrap == OPS_BARE || s->wrap == OPS_ON_TAPE) return DT_OK;
    DT__TRY(dt__fq_wrap(*x, &(dt__fq){ .quant = int8_tensor }));
    if (s->wrap == OPS_DISABLED) return dt_fake_quant_enable(*x, false);
    dt_tensor *image;
    DT__TRY(dt_dequantize(*x, &image));
    if (s->wrap == OPS_PARAMETER) { /* it has cached codes now, which a write must invalidate */
        dt_tensor_free(image);
        return DT_OK;
    }
    dt_tensor_free(*x);
    *x = image;
    return DT_OK;
}

static bool all_of_them(void *user, const dt_op *op)
{
    (void)user;
    (void)op;
    return true;
}

static dt_status open_scene(const ops_setup *s, scene *o)
{
    dt_status status = DT_OK;
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = s->threads > 0 ? s->threads : 2;
    if (s->set != NULL) setenv("DETENT_CPU", s->set, 1);
    TEST_OK(NULL, dt_ctx_create(&o->ctx, &options));
    TEST_OK(o->ctx, dt_tape_create(o->ctx, &o->t));
    if (s->set != NULL) unsetenv("DETENT_CPU"); /* read by the tape, once */
    if (s->lowered) o->t->lowers = all_of_them;
    o->n = ops_count(s->k);
    for (int i = 0; i < o->n; i++) {
        o->in[i] = ops_operand(o->ctx, s->k, i, s->real);
        if (s->layout != OPS_PLAIN && s->laid == i) {
            dt_tensor *plain = o->in[i];
            o->in[i] = ops_lay_out(plain, s->layout);
            dt_tensor_free(plain);
        }
        if (s->wrapped == i && status == DT_OK) status = wrap(s, &o->in[i]);
        if (ops_differentiable(s->op, s->k, i)) {
            TEST_OK(o->ctx, dt_set_requires_grad(o->in[i], true));
        }
    }
    return status;
}

static void close_scene(scene *o)
{
    for (int i = 0; i < o->n; i++) dt_tensor_free(o->in[i]);
    dt_tape_free(o->t);
    dt_ctx_free(o->ctx);
}

static void pass(const ops_setup *s, scene *o, ops_outcome *out)
{
    dt_tape_reset(o->t);
    dt_seed(o->ctx, 1);
    dt_tensor *in[DT__CASE_IN];
    memcpy(in, o->in, sizeof in);
    if (s->wrap == OPS_ON_TAPE) {
        in[s->wrapped] = dt_fake_quant(o->t, in[s->wrapped], &int8_tensor, true);
    }
    dt_tensor *y = dt_apply(o->t, s->op, in, o->n, s->k->options);
    if (y != NULL) {
        free(out->y.v);
        out->y = ops_read(s->op->role[0] == DT_WRITE ? dt_inner(y) : y);
        if (y->requires_grad) {
            dt_tensor *up = ops_upstream(y);
            dt_backward(o->t, y, up);
            dt_tensor_free(up);
        }
    }
    out->status = dt_tape_status(o->t);
    if (out->status != DT_OK) snprintf(out->message, sizeof out->message, "%s", dt_error(o->ctx));
}

void ops_run(const ops_setup *s, ops_outcome *out)
{
    scene o;
    memset(out, 0, sizeof *out);
    out->status = open_scene(s, &o);
    for (int p = 0; out->status == DT_OK && (p == 0 || p < s->passes); p++) pass(s, &o, out);
    for (int i = 0; i < o.n && out->status == DT_OK; i++) {
        if (s->op->role[i] == DT_WRITE) out->written[i] = ops_read(dt_inner(o.in[i]));
        const dt_tensor *grad = o.in[i] == NULL ? NULL : dt_grad(o.in[i]);
        if (grad != NULL) out->grad[i] = ops_read(grad);
    }
    if (s->wrap == OPS_PARAMETER && out->status == DT_OK) {
        dt_tensor *image = NULL;
        out->status = dt_dequantize(o.in[s->wrapped], &image);
        if (image != NULL) out->image = ops_read(image);
        dt_tensor_free(image);
    }
    if (s->layout != OPS_PLAIN) out->stray = !untouched(o.in[s->laid]);
    close_scene(&o);
}

void ops_free(ops_outcome *o)
{
    free(o->y.v);
    free(o->image.v);
    for (int i = 0; i < DT__CASE_IN; i++) {
        free(o->written[i].v);
        free(o->grad[i].v);
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same(ops_values a, ops_values b)
{
    if (a.n != b.n || (a.v == NULL) != (b.v == NULL)) return false;
    for (int64_t e = 0; e < a.n; e++) {
        if (a.v[e] != b.v[e] && !(isnan(a.v[e]) && isnan(b.v[e]))) return false;
    }
    return true;
}

double ops_set_bound(const dt_op *op, dt_dtype real)
{
    return strncmp(op->name, "conv", 4) == 0 && real == DT_F32 ? 1e-5 : 0;
}

bool ops_same(const ops_outcome *a, const ops_outcome *b)
{
    bool equal = a->status == b->status && same(a->y, b->y);
    for (int i = 0; i < DT__CASE_IN && equal; i++) {
        equal = same(a->written[i], b->written[i]) && same(a->grad[i], b->grad[i]);
    }
    return equal;
}

bool ops_near(ops_values a, ops_values b, double relative, double absolute)
{
    if (a.n != b.n || (a.v == NULL) != (b.v == NULL)) return false;
    double most = 0;
    for (int64_t e = 0; e < b.n; e++) {
        if (isfinite(b.v[e])) most = fmax(most, fabs(b.v[e]));
    }
    for (int64_t e = 0; e < a.n; e++) {
        if (!test_near(a.v[e], b.v[e], absolute + relative * most, 0)) return false;
    }
    return true;
}
