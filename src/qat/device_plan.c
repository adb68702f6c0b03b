/* Recording the plan of an integer network: device_plan.h. */
#include "qat/device_plan.h"

#include "autograd/op.h"
#include "nn/conv_layers.h"
#include "nn/fold.h"
#include "ops/ops_list.h"
#include "ops/pool_ops.h"
#include "ops/softmax.h"
#include "qat/device_ends.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the ops --------------------------------------------------------------------------------- */

/* What an op of floats becomes. */
typedef struct becomes {
    const dt_op *op;
    bool product, ranged; /* it has a weight; its result has a range of its own */
    /* Why a call cannot be computed by codes; NULL: it can. */
    const char *(*bars)(const dt_call *c);
} becomes;

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

static const char *bars_average(const dt_call *c)
{
    const dt_pool_options *o = c->options;
    const bool pads = o->padding[0] > 0 || o->padding[1] > 0;
    return o->count_include_pad && pads ? "padding must not count (count_include_pad: false)"
                                        : NULL;
}

static const char *bars_adaptive(const dt_call *c)
{
    for (int i = 2; i < 4; i++) {
        if (c->in[0]->dims[i] % c->y->dims[i] != 0) return "its windows have different sizes";
    }
    return NULL;
}

static const char *bars_pad(const dt_call *c)
{
    const dt_pad_options *o = c->options;
    return o->mode == DT_PAD_CONSTANT && o->value == 0 ? NULL : "only zeros can be padded";
}

static const char *bars_zip(const dt_call *c)
{
    return dt__same_dims(c->in[0], c->in[1]) ? NULL : "its operands must have one shape";
}

static const becomes ops[] = {
    { &dt__op_linear, true, true, bars_linear },
    { &dt__op_conv2d, true, true, NULL },
    { &dt__op_conv_transpose2d, true, true, NULL },
    { &dt__op_add, false, true, bars_zip },
    { &dt__op_mul, false, true, bars_zip },
    { &dt__op_max_pool2d, false, false, NULL },
    { &dt__op_avg_pool2d, false, false, bars_average },
    { &dt__op_global_avg_pool2d, false, false, NULL },
    { &dt__op_adaptive_avg_pool2d, false, false, bars_adaptive },
    { &dt__op_softmax, false, false, bars_softmax },
    { &dt__op_pad, false, false, bars_pad },
    { &dt__op_concat, false, false, NULL },
    { &dt__op_reshape, false, false, NULL },
    { &dt__op_flatten, false, false, NULL },
};

static const becomes *becomes_of(const dt_op *op)
{
    for (int i = 0; i < DT__COUNT_OF(ops); i++) {
        if (ops[i].op == op) return &ops[i];
    }
    return NULL;
}

/* ---- recording ------------------------------------------------------------------------------- */

typedef struct recorder {
    dt__device *d;
    struct handle {
        dt_tensor *x; /* a reference */
        int64_t value;
        bool before; /* a sum whose activation follows */
    } * handle;
    int64_t n, room;
    dt_status status;
} recorder;

static dt_status know(recorder *r, dt_tensor *x, int64_t value)
{
    DT__TRY(DT__RESERVE(r->d->ctx, r->handle, r->n, r->room));
    dt__retain(x);
    r->handle[r->n++] = (struct handle){ x, value, false };
    return DT_OK;
}

static struct handle *find(const recorder *r, const dt_tensor *x)
{
    for (int64_t i = r->n - 1; i >= 0; i--) {
        if (r->handle[i].x == x) return &r->handle[i];
    }
    return NULL;
}

static dt__plan_node *node_of(const recorder *r, int64_t value)
{
    return value < DT__PLAN_FIRST ? NULL : &r->d->node[value - DT__PLAN_FIRST];
}

/* Appends a node whose result is x. */
static dt_status append(recorder *r, const dt__plan_node *like, dt_tensor *x)
{
    dt__device *d = r->d;
    DT__TRY(DT__RESERVE(d->ctx, d->node, d->n, d->room));
    dt__plan_node *node = &d->node[d->n];
    *node = *like;
    node->last = -1;
    node->rank = x->rank;
    memcpy(node->dims, x->dims, sizeof node->dims);
    for (int i = 0; i < node->n_in; i++) {
        dt__plan_node *from = node_of(r, node->in[i]);
        if (from != NULL) from->last = d->n;
    }
    return know(r, x, DT__PLAN_FIRST + d->n++);
}

static const char *path_of(const dt_module *m)
{
    return m->path[0] != '\0' ? m->path : "the model";
}

static dt_status refuse(const recorder *r, const dt_call *c, const dt_module *m, const char *why)
{
    return dt_fail(r->d->ctx, DT_ERR_UNSUPPORTED,
                   "prepare: %s of %s cannot be computed by integers alone: %s", c->op->name,
                   path_of(m), why);
}

/* relu and relu6 are clamps of the layer before them, which nobody else may read. */
static dt_status fuse(recorder *r, const dt_call *c, const dt_module *m)
{
    struct handle *from = find(r, c->in[0]);
    dt__plan_node *node = node_of(r, from->value);
    const becomes *b = node == NULL || node->op == NULL ? NULL : becomes_of(node->op);
    if (b == NULL || !b->ranged || node->activation != DT_ACT_NONE) {
        return refuse(r, c, m, "it must follow a linear layer, a convolution, a sum or a product");
    }
    if (node->last >= 0) {
        return refuse(r, c, m, "another layer reads what it would clamp, without the clamp");
    }
    node->activation = c->op == &dt__op_relu ? DT_ACT_RELU : DT_ACT_RELU6;
    from->before = true;
    return know(r, c->y, from->value);
}

static bool runs_twice(const dt__device *d, const dt_module *m)
{
    for (int64_t i = 0; i < d->n; i++) {
        const becomes *b = d->node[i].op == NULL ? NULL : becomes_of(d->node[i].op);
        if (b != NULL && b->product && d->node[i].m == m) return true;
    }
    return false;
}

/* A product's module holds its weight. */
static const char *bars_product(const recorder *r, const dt_call *c, const dt_module *m)
{
    const dt__conv_state *conv = dt__conv_state_of(m);
    const bool fits =
        c->op == &dt__op_linear ? m->type == &dt__nn_linear : conv != NULL && conv->kind->axes == 2;
    if (!fits) return "it is not the product of a layer";
    return runs_twice(r->d, m) ? "the layer runs twice, and each result needs a range" : NULL;
}

static dt_status copy_options(dt_ctx *ctx, const dt_call *c, const void **out)
{
    *out = NULL;
    if (c->op->options_size == 0) return DT_OK;
    void *copy = dt__alloc(ctx, c->op->options_size);
    if (copy == NULL) return DT_ERR_NOMEM;
    memcpy(copy, c->options, c->op->options_size);
    *out = copy;
    return DT_OK;
}

/* A batch norm that dt_prepare folds into the layer before it. */
static bool is_folded_norm(const dt_call *c, const dt_module *m)
{
    return c->op == &dt__op_batch_norm2d && m->normed != NULL && dt__can_fold(m->normed);
}

static dt_status add_call(recorder *r, const dt_call *c)
{
    dt_module *m = (dt_module *)(uintptr_t)(c->tape->open != NULL ? c->tape->open->m : r->d->m);
    int variable = 0;
    for (int i = 0; i < c->n_in; i++) variable += c->in[i] != NULL && find(r, c->in[i]) != NULL;
    if (variable == 0) return DT_OK; /* of parameters alone: a folded weight */
    if (is_folded_norm(c, m)) return know(r, c->y, find(r, c->in[0])->value);
    if (c->op == &dt__op_relu || c->op == &dt__op_relu6) return fuse(r, c, m);
    const becomes *b = becomes_of(c->op);
    if (b == NULL) return refuse(r, c, m, "docs/device.md lists the layers that can");
    dt__plan_node node = { .op = c->op, .m = m, .n_in = b->product ? 1 : c->n_in };
    if (variable != node.n_in) return refuse(r, c, m, "an operand is a constant");
    for (int i = 0; i < node.n_in; i++) {
        const struct handle *x = find(r, c->in[i]);
        if (x == NULL) return refuse(r, c, m, "an operand is a constant");
        if (x->before) return refuse(r, c, m, "it reads a layer without the activation behind it");
        node.in[i] = x->value;
    }
    const char *why = b->product ? bars_product(r, c, m) : NULL;
    if (why == NULL && b->bars != NULL) why = b->bars(c);
    if (why != NULL) return refuse(r, c, m, why);
    DT__TRY(copy_options(r->d->ctx, c, &node.options));
    const dt_status s = append(r, &node, c->y);
    if (s != DT_OK) dt__release(r->d->ctx, (void *)(uintptr_t)node.options);
    return s;
}

static void on_call(void *user, const dt_call *c)
{
    recorder *r = user;
    if (r->status == DT_OK) r->status = add_call(r, c);
}

/* Dropout runs no op in evaluation. */
static void on_forward(void *user, const dt__module_call *call)
{
    recorder *r = user;
    if (r->status != DT_OK || call->m->type != &dt__nn_dropout) return;
    const struct handle *x = find(r, call->in[0]);
    if (x == NULL) return;
    const dt__plan_node node = { .m = call->m, .n_in = 1, .in = { x->value } };
    r->status = append(r, &node, call->out[0]);
}

static dt_status find_outputs(recorder *r, dt_tensor *const *y, int n)
{
    for (int i = 0; i < n; i++) {
        const struct handle *h = find(r, y[i]);
        if (h == NULL || h->value < DT__PLAN_FIRST) {
            return dt_fail(r->d->ctx, DT_ERR_UNSUPPORTED, "prepare: output %d is an input", i);
        }
        node_of(r, h->value)->last = INT64_MAX;
        r->d->out[i] = h->value;
    }
    r->d->n_out = n;
    return DT_OK;
}

/* Inputs are nodes, too: of quantization. */
static dt_status add_input(recorder *r, const dt_shape *in, int i, dt_tensor **x)
{
    int64_t dims[DT_MAX_RANK] = { 1 };
    if (in->rank < 0 || in->rank >= DT_MAX_RANK) return DT_ERR_ARG;
    memcpy(dims + 1, in->dims, (size_t)in->rank * sizeof *dims);
    DT__TRY(dt__tensor_create_shape(r->d->ctx, DT_F32, 1 + in->rank, dims, x));
    const dt__plan_node node = { .m = r->d->m, .n_in = 1, .in = { i } };
    return append(r, &node, *x);
}

static dt_status record(recorder *r, dt_tape *t, const dt_shape *in, int n_in, dt_tensor **x)
{
    dt_tensor *y[DT_MAX_OUT];
    const int n_out = 1;
    for (int i = 0; i < n_in; i++) DT__TRY(add_input(r, &in[i], i, &x[i]));
    r->d->n_in = n_in;
    dt_no_grad(t, true);
    t->shapes_only = true;
    t->on_call = on_call;
    t->on_call_user = r;
    t->on_forward = on_forward;
    t->on_forward_user = r;
    const bool training = dt_is_training(r->d->m);
    dt_train(r->d->m, false);
    const dt_status s = dt_forward_n(t, r->d->m, x, n_in, y, n_out);
    dt_train(r->d->m, training);
    DT__TRY(r->status);
    return s == DT_OK ? find_outputs(r, y, n_out) : s;
}

/* ---- ranges are shared ----------------------------------------------------------------------- */

static int64_t root_of(const dt__device *d, int64_t value)
{
    while (d->node[value - DT__PLAN_FIRST].shares != value) {
        value = d->node[value - DT__PLAN_FIRST].shares;
    }
    return value;
}

/* Which value's range each result has: its own, that of its operand, or one for all operands of a
 * concatenation. */
static dt_status share(dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        dt__plan_node *node = &d->node[i];
        const becomes *b = node->op == NULL ? NULL : becomes_of(node->op);
        const bool own =
            node->in[0] < DT__PLAN_FIRST || (b != NULL && b->ranged) || node->op == &dt__op_softmax;
        node->shares = own ? DT__PLAN_FIRST + i : root_of(d, node->in[0]);
        for (int k = 1; node->op == &dt__op_concat && k < node->n_in; k++) {
            const int64_t other = root_of(d, node->in[k]);
            d->node[node->shares - DT__PLAN_FIRST].joined = true;
            if (other == node->shares) continue;
            if (d->node[other - DT__PLAN_FIRST].op == &dt__op_softmax ||
                d->node[node->shares - DT__PLAN_FIRST].op == &dt__op_softmax) {
                return dt_fail(d->ctx, DT_ERR_UNSUPPORTED,
                               "prepare: concat of %s reads softmax of %s, whose scale is fixed, "
                               "and other results",
                               path_of(node->m), path_of(d->node[other - DT__PLAN_FIRST].m));
            }
            d->node[other - DT__PLAN_FIRST].shares = node->shares;
        }
    }
    return DT_OK;
}

/* Layers that run several times, and weights of other layers. */
static dt_status check_module(void *user, const char *path, dt_module *m)
{
    const dt_module_type *type = dt_module_type_of(m);
    const dt__conv_state *conv = dt__conv_state_of(m);
    const bool product = type == &dt__nn_linear || (conv != NULL && conv->kind->axes == 2);
    (void)user;
    if (!type->repeats && (product || type->quantizable == DT_NOT_QUANTIZED)) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_UNSUPPORTED,
                   "prepare: %s of %s cannot be computed by integers alone: docs/device.md lists "
                   "the layers that can",
                   type->name, path[0] != '\0' ? path : "the model");
}

dt_status dt__device_record(dt_module *m, const dt_shape *in, int n_in, dt__device **out)
{
    dt_tape *t = NULL;
    dt_tensor *x[DT_MAX_IN] = { NULL };
    *out = NULL;
    if (n_in < 1 || n_in > DT_MAX_IN) {
        return dt_fail(m->ctx, DT_ERR_CONFIG,
                       "prepare: a preset for devices wants the shapes of the model's inputs "
                       "(dt_qat_options.inputs); models of tokens have no form of integers");
    }
    DT__TRY(dt_module_visit_modules(m, check_module, NULL));
    dt__device *d = dt__alloc_zero(m->ctx, sizeof *d);
    if (d == NULL) return DT_ERR_NOMEM;
    d->ctx = m->ctx;
    d->m = m;
    d->enabled = true;
    recorder r = { .d = d };
    dt_status s = dt_tape_create(m->ctx, &t);
    if (s == DT_OK) s = record(&r, t, in, n_in, x);
    if (s == DT_OK) s = share(d);
    for (int64_t i = 0; i < r.n; i++) dt_tensor_free(r.handle[i].x);
    dt__release(m->ctx, r.handle);
    for (int i = 0; i < n_in; i++) dt_tensor_free(x[i]);
    dt_tape_free(t);
    if (s == DT_OK) *out = d;
    else dt__device_free(m->ctx, d);
    return s;
}

void dt__device_free(dt_ctx *ctx, void *device)
{
    dt__device *d = device;
    if (d == NULL) return;
    for (int64_t i = 0; i < d->n; i++) dt__release(ctx, (void *)(uintptr_t)d->node[i].options);
    dt__release(ctx, d->node);
    dt__release(ctx, d);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void range_name(const dt__device *d, int64_t i, char name[24])
{
    const dt__plan_node *node = &d->node[i];
    const bool input = node->in[0] < DT__PLAN_FIRST;
    int before = 1;
    for (int64_t k = 0; k < i; k++) {
        const dt__plan_node *other = &d->node[k];
        const bool ranged = other->shares == DT__PLAN_FIRST + k && other->op != &dt__op_softmax;
        before += ranged && other->m == node->m && (other->in[0] < DT__PLAN_FIRST) == input;
    }
    snprintf(name, 24, before == 1 ? "%s" : "%s%d", input ? "input" : "output", before);
}

static dt_status give_range(dt__device *d, int64_t i, dt__spec_of *spec_of, void *user)
{
    dt__plan_node *node = &d->node[i];
    char name[24];
    dt_quant_spec spec;
    if (node->shares != DT__PLAN_FIRST + i || node->op == &dt__op_softmax) return DT_OK;
    range_name(d, i, name);
    node->range = dt__quantizer_at(node->m, name);
    if (node->range != NULL) return DT_OK;
    dt_module *made;
    dt__quantizer_size size = { .scales = 1 };
    DT__TRY(spec_of(user, node->m->path, name, &spec, &size.fixed));
    DT__TRY(dt__quantizer_create(d->ctx, &spec, &size, &made));
    const dt_status s = dt__module_attach(node->m, name, made);
    if (s == DT_OK) node->range = made;
    else dt_module_free(made);
    return s;
}

dt_status dt__device_ranges(dt__device *d, dt__spec_of *spec_of, void *user)
{
    for (int64_t i = 0; i < d->n; i++) DT__TRY(give_range(d, i, spec_of, user));
    return DT_OK;
}

void dt__device_unrange(dt__device *d)
{
    for (int64_t i = 0; i < d->n; i++) {
        dt_module_free(d->node[i].range);
        d->node[i].range = NULL;
    }
}

void dt__device_install(dt__device *d)
{
    d->m->form = (dt__form){ dt__device_run, dt__device_free, d };
}

dt__device *dt__device_of(const dt_module *m)
{
    return m->form.run == dt__device_run ? m->form.user : NULL;
}

dt_status dt__device_check_ranges(const dt__device *d, const char *what)
{
    for (int64_t i = 0; i < d->n; i++) {
        const dt__plan_node *node = &d->node[i];
        if (node->range == NULL) continue;
        const dt__quantizer *q = dt__quantizer_of(node->range);
        if (dt__quantizer_has_seen(q)) {
            DT__TRY(dt__ends_settle(q));
            continue;
        }
        return dt_fail(d->ctx, DT_ERR_STATE,
                       "%s: %s: its range has seen no batch; train, or run batches under "
                       "dt_observe",
                       what, node->range->path);
    }
    return DT_OK;
}
