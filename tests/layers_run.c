/* Layers of cases: created, moved from their initial values, run forward and backward. */
#include "layers_run.h"
#include "module_to.h"

#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the holder ----------------------------------------------------------------------------- */

typedef struct holder {
    dt_module *layer;
    dt_tensor *in[DT__LAYER_IN]; /* the second and further ones, lent by the scene */
    int n_in;
} holder;

static void hold(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                 int n_out)
{
    const holder *s = dt_module_state(m);
    dt_tensor *x[DT__LAYER_IN];
    (void)n_in;
    memcpy(x, s->in, sizeof x);
    x[0] = in[0];
    dt_forward_n(t, s->layer, x, s->n_in, out, n_out);
}

static const dt_module_type holder_type = { .name = "holder", .forward = hold };

/* ---- making --------------------------------------------------------------------------------- */

static dt__case case_of(const dt__layer_case *k)
{
    dt__case c = { .name = k->name };
    memcpy(c.in, k->in, sizeof k->in);
    return c;
}

int layers_inputs(const dt__layer_case *k)
{
    const dt__case c = case_of(k);
    const int n = ops_count(&c);
    return n < DT__LAYER_IN ? n : DT__LAYER_IN;
}

/* Changes the initial values of norms and biases, ones and zeros, with which a wrong multiplication
 * or addition would not be noticed. */
static dt_status move(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    uint64_t *state = user;
    (void)path;
    float *v = dt_data_mut(x);
    for (int64_t i = 0; i < x->count && kind == DT_PARAM; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        v[i] += 0.25f * ((float)(*state >> 40) * 0x1p-23f - 1);
    }
    return DT_OK;
}

static dt_status give(dt_module *m, const dt__layer_case *k)
{
    for (int i = 0; i < DT__LAYER_PARAMS && k->given[i].path != NULL; i++) {
        dt_tensor *x = dt_param(m, k->given[i].path);
        if (x == NULL) return dt_error_status(dt_module_ctx(m));
        float *v = dt_data_mut(x);
        for (int64_t e = 0; e < x->count && e < DT__CASE_VALUES; e++) {
            v[e] = (float)k->given[i].values[e];
        }
    }
    return DT_OK;
}

static dt_status make_holder(layers_scene *o, const layers_setup *s)
{
    dt_module *layer = (void *)o;
    uint64_t state = 1;
    DT__TRY(dt_module_create(o->ctx, &holder_type, sizeof(holder), &o->holder));
    const dt_status made = s->k->create(o->ctx, &layer);
    TEST_EACH(made == DT_OK || layer == NULL, "%s: create fails and hands out a layer", s->k->name);
    DT__TRY(made);
    DT__TRY(dt_module_add(o->holder, "layer", layer));
    o->layer = layer;
    layer->recomputed = s->checkpointed;
    DT__TRY(dt_module_visit(layer, move, &state));
    DT__TRY(give(layer, s->k));
    if (s->real == DT_F64) DT__TRY(module_to(layer, DT_F64));
    dt_train(o->holder, s->training);
    return s->prepared ? dt_prepare(o->holder, NULL) : DT_OK;
}

dt_status layers_make(layers_scene *o, const layers_setup *s, dt_ctx *ctx)
{
    const dt__case c = case_of(s->k);
    *o = (layers_scene){ .ctx = ctx, .n_in = layers_inputs(s->k) };
    o->n_out = s->k->n_out > 0 ? s->k->n_out : 1;
    DT__TRY(dt_tape_create(ctx, &o->t));
    DT__TRY(make_holder(o, s));
    holder *h = dt_module_state(o->holder);
    h->layer = o->layer;
    h->n_in = o->n_in;
    for (int i = 0; i < o->n_in; i++) {
        o->in[i] = h->in[i] = ops_operand(ctx, &c, i, s->real);
        if (o->in[i] == NULL) return dt_error_status(ctx);
        if (dt__is_float(o->in[i]->dtype)) DT__TRY(dt_set_requires_grad(o->in[i], true));
    }
    return DT_OK;
}

void layers_unmake(layers_scene *o)
{
    dt_tape_free(o->t);
    dt_module_free(o->holder);
    for (int i = 0; i < o->n_in; i++) dt_tensor_free(o->in[i]);
}

void layers_open(layers_scene *o, const layers_setup *s)
{
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *ctx;
    options.threads = s->threads > 0 ? s->threads : 2;
    options.seed = 7;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, layers_make(o, s, ctx));
}

void layers_close(layers_scene *o)
{
    layers_unmake(o);
    ck_assert_uint_eq(dt_memory_of(o->ctx).used, 0);
    dt_ctx_free(o->ctx);
}

/* ---- running -------------------------------------------------------------------------------- */

dt_status layers_forward(layers_scene *o, dt_tensor **y)
{
    return dt_forward_n(o->t, o->holder, o->in, 1, y, o->n_out);
}

dt_tensor *layers_loss(layers_scene *o, dt_tensor *const *y)
{
    dt_tensor *loss = NULL;
    for (int i = 0; i < o->n_out; i++) {
        dt_tensor *up = ops_upstream(y[i]);
        if (dt__tape_adopt(o->t, up == NULL ? dt_error_status(o->ctx) : dt__tape_lend(o->t, up)) !=
            DT_OK) {
            return NULL;
        }
        dt_tensor *part = dt_sum(o->t, dt_mul(o->t, y[i], up), NULL);
        loss = loss == NULL ? part : dt_add(o->t, loss, part);
    }
    return loss;
}

static dt_status read_tensor(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    layers_outcome *out = user;
    (void)path;
    (void)kind;
    ck_assert_int_lt(out->n, LAYERS_TENSORS);
    dt_tensor *inner = dt_inner(x);
    if (inner != NULL) out->state[out->n] = ops_read(inner);
    if (dt_grad(x) != NULL) out->grad[out->n] = ops_read(dt_grad(x));
    out->n++;
    return DT_OK;
}

void layers_run(const layers_setup *s, layers_outcome *out)
{
    layers_scene o;
    dt_tensor *y[DT_MAX_OUT];
    dt__stream before[DT__PURPOSES];
    memset(out, 0, sizeof *out);
    layers_open(&o, s);
    dt_seed(o.ctx, 1);
    memcpy(before, o.ctx->stream, sizeof before);
    if (layers_forward(&o, y) == DT_OK) {
        out->drew = memcmp(before, o.ctx->stream, sizeof before) != 0;
        for (int i = 0; i < o.n_out; i++) out->y[i] = ops_read(y[i]);
        dt_backward(o.t, layers_loss(&o, y), NULL);
    }
    out->status = dt_tape_status(o.t);
    if (out->status != DT_OK) snprintf(out->message, sizeof out->message, "%s", dt_error(o.ctx));
    for (int i = 0; i < o.n_in; i++) {
        if (dt_grad(o.in[i]) != NULL) out->grad_in[i] = ops_read(dt_grad(o.in[i]));
    }
    dt_module_visit(o.layer, read_tensor, out);
    layers_close(&o);
}

void layers_free(layers_outcome *o)
{
    for (int i = 0; i < DT_MAX_OUT; i++) free(o->y[i].v);
    for (int i = 0; i < DT__LAYER_IN; i++) free(o->grad_in[i].v);
    for (int i = 0; i < o->n; i++) {
        free(o->state[i].v);
        free(o->grad[i].v);
    }
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool same(const ops_values *a, const ops_values *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (a[i].n != b[i].n || (a[i].v == NULL) != (b[i].v == NULL)) return false;
        if (a[i].n > 0 && memcmp(a[i].v, b[i].v, (size_t)a[i].n * sizeof(double)) != 0) {
            return false;
        }
    }
    return true;
}

const char *layers_difference(const layers_outcome *a, const layers_outcome *b)
{
    if (a->status != b->status || a->n != b->n) return "status";
    if (!same(a->y, b->y, DT_MAX_OUT)) return "outputs";
    if (!same(a->state, b->state, a->n)) return "parameters or buffers";
    if (!same(a->grad_in, b->grad_in, DT__LAYER_IN)) return "gradients of inputs";
    if (!same(a->grad, b->grad, a->n)) return "gradients of parameters";
    return a->drew != b->drew ? "random numbers" : NULL;
}
