/* Recording the plan of an integer network (device_plan.h): one evaluation pass of the model, op by
 * op. Calls that no device op computes are collected, so that one error names all of them: after a
 * refused call the pass goes on, and a call that reads its result is not listed for that. */
#include "autograd/op.h"
#include "core/refusals.h"
#include "nn/fold.h"
#include "nn/lists/graph.h"
#include "ops/ops_list.h"
#include "qat/device/device_becomes.h"
#include "qat/device/device_plan.h"

#include <string.h>

typedef struct recorder {
    dt__device *d;
    struct handle {
        dt_tensor *x; /* a reference */
        int64_t value;
        bool before;  /* an activation was fused behind it: this is the value in front of that */
        bool refused; /* the call that made it was refused */
    } * handle;
    int64_t n, room;
    dt_status status;
    dt__refusals refusals;
} recorder;

static dt_status know(recorder *r, dt_tensor *x, int64_t value)
{
    DT__TRY(DT__RESERVE(r->d->ctx, r->handle, r->n, r->room));
    dt__retain(x);
    r->handle[r->n++] = (struct handle){ x, value, false, false };
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
    node->last = node->constant != NULL ? INT64_MAX : -1; /* parameters are never freed */
    node->rank = x->rank;
    memcpy(node->dims, x->dims, sizeof node->dims);
    for (int i = 0; i < node->n_in; i++) {
        dt__plan_node *from = node_of(r, node->in[i]);
        if (from != NULL && from->constant == NULL) from->last = d->n;
    }
    return know(r, x, DT__PLAN_FIRST + d->n++);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* The outermost module around m that is refused as a whole; NULL: none. */
static const dt_module *barred_around(const dt_module *m)
{
    const dt_module *found = NULL;
    for (; m != NULL; m = m->parent) {
        if (dt__bars_module(m) != NULL) found = m;
    }
    return found;
}

static void check_modules(recorder *r)
{
    DT__EACH_MODULE(m, r->d->m) {
        if (dt__bars_module(m) == NULL || barred_around(m) != m) continue;
        dt__refusals_add(&r->refusals, "%s of %s: %s", m->type->name, dt__plan_path(m),
                         dt__bars_module(m));
    }
}

/* Refuses a call for a reason; NULL: an operand or the module was refused, with its own message.
 * The results of the call are marked as refused. */
static dt_status refuse(recorder *r, const dt_call *c, dt_module *m, const char *why)
{
    if (why != NULL && barred_around(m) == NULL) {
        dt__refusals_add(&r->refusals, "%s of %s: %s", c->op->name, dt__plan_path(m), why);
    }
    for (int i = 0; i < c->n_out; i++) {
        if (c->out[i] == NULL) continue;
        DT__TRY(append(r, &(dt__plan_node){ .m = m }, c->out[i]));
        r->handle[r->n - 1].refused = true;
    }
    return DT_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Whether relu or relu6 can be a clamp in the layer before it: nothing else reads that layer's
 * result. Otherwise it becomes a table. */
static bool clamps_before(const recorder *r, const dt_call *c)
{
    if (c->op != &dt__op_relu && c->op != &dt__op_relu6) return false;
    const struct handle *from = find(r, c->in[0]);
    const dt__plan_node *node = node_of(r, from->value);
    const dt__becomes *b = node == NULL || node->op == NULL ? NULL : dt__becomes_of(node->op);
    return !from->refused && b != NULL && b->clamps && node->activation == DT_ACT_NONE &&
           node->last < 0;
}

static dt_status fuse(recorder *r, const dt_call *c)
{
    struct handle *from = find(r, c->in[0]);
    node_of(r, from->value)->activation = c->op == &dt__op_relu ? DT_ACT_RELU : DT_ACT_RELU6;
    from->before = true;
    return know(r, c->y, from->value);
}

/* A batch norm that dt_prepare folds into the layer before it. */
static bool is_folded_norm(const dt_call *c, const dt_module *m)
{
    const bool norm = c->op == &dt__op_batch_norm2d || c->op == &dt__op_batch_norm1d;
    return norm && m->normed != NULL && dt__can_fold(m->normed, true);
}

/* Sets the node's operands; returns why that is not possible, or NULL. *refused: the call of an
 * operand was refused. */
static const char *take_operands(const recorder *r, const dt_call *c, dt__plan_node *node,
                                 bool *refused)
{
    const char *why = NULL;
    for (int i = 0; i < node->n_in; i++) {
        const struct handle *x = find(r, c->in[i]);
        if (x == NULL) return "an operand is a constant";
        if (x->before) why = "it reads a layer without the activation behind it";
        *refused = *refused || x->refused;
        node->in[i] = x->value;
    }
    return why;
}

/* Makes the operand of a pair that is an entry of m, number *at of the call, the node's constant;
 * returns why that is not possible, or NULL. The result must have the extents of the other
 * operand. */
static const char *take_constant(const recorder *r, const dt_call *c, const dt_module *m, int *at,
                                 dt__plan_node *node)
{
    *at = find(r, c->in[0]) == NULL ? 0 : 1;
    const dt_tensor *x = c->in[1 - *at];
    for (int64_t i = 0; i < m->n_entries; i++) {
        if (m->entries[i].x == c->in[*at]) node->constant = m->entries[i].name;
    }
    if (node->constant == NULL) return "an operand is a constant";
    if (c->op == &dt__op_prelu) return *at == 1 ? NULL : "its slopes must be those of the layer";
    const bool same = x->rank == c->y->rank && x->count == c->y->count;
    return same ? NULL : "a constant repeats its other operand";
}

static dt_status add_constant(recorder *r, const dt_call *c, dt_module *m, const char **why)
{
    int at;
    dt__plan_node node = { .m = m };
    *why = take_constant(r, c, m, &at, &node);
    if (*why != NULL) return DT_OK;
    DT__TRY(append(r, &node, c->in[at]));
    return DT_OK;
}

static dt_status add_node(recorder *r, const dt_call *c, dt_module *m, int variable)
{
    bool refused = false;
    const dt__becomes *b = dt__becomes_of(c->op);
    const bool adds = b != NULL && b->pairs && variable == 1 && c->n_in == 2;
    const char *why = NULL;
    if (adds) DT__TRY(add_constant(r, c, m, &why));
    else why = dt__bars_call(c, m);
    if (why != NULL) return refuse(r, c, m, why);
    variable += adds;
    dt__plan_node node = { .op = c->op, .m = m, .n_in = b->product ? 1 : c->n_in };
    why = variable != node.n_in ? "an operand is a constant" : take_operands(r, c, &node, &refused);
    if (why != NULL || refused) return refuse(r, c, m, refused ? NULL : why);
    DT__TRY(dt__copy_call_options(r->d->ctx, c, &node.options));
    const dt_status s = append(r, &node, c->y);
    if (s != DT_OK) dt__release(r->d->ctx, (void *)(uintptr_t)node.options);
    return s;
}

static dt_status add_call(recorder *r, const dt_call *c)
{
    dt_module *m = (dt_module *)(uintptr_t)(c->tape->open != NULL ? c->tape->open->m : r->d->m);
    int variable = 0;
    for (int i = 0; i < c->n_in; i++) variable += c->in[i] != NULL && find(r, c->in[i]) != NULL;
    if (variable == 0) return DT_OK; /* reads parameters alone, as the folding of a weight does */
    if (is_folded_norm(c, m)) {
        const struct handle x = *find(r, c->in[0]);
        DT__TRY(know(r, c->y, x.value));
        r->handle[r->n - 1].refused = x.refused;
        return DT_OK;
    }
    if (clamps_before(r, c)) return fuse(r, c);
    return add_node(r, c, m, variable);
}

static void on_call(void *user, const dt_call *c)
{
    recorder *r = user;
    if (r->status == DT_OK) r->status = add_call(r, c);
}

/* Records dropout as a module, since it runs no op in evaluation. */
static void on_forward(void *user, const dt__module_call *call)
{
    recorder *r = user;
    if (r->status != DT_OK || call->m->type != &dt__nn_dropout) return;
    const struct handle *x = find(r, call->in[0]);
    if (x == NULL || x->refused) return;
    const dt__plan_node node = { .m = call->m, .n_in = 1, .in = { x->value } };
    r->status = append(r, &node, call->out[0]);
}

/* ---- padding below 0 ------------------------------------------------------------------------- */

/* Whether node i pads with a value below 0, which may lie outside of its operand's range. */
static bool pads_below(const dt__device *d, int64_t i)
{
    const dt__plan_node *node = &d->node[i];
    return node->op == &dt__op_pad && ((const dt_pad_options *)node->options)->value < 0;
}

/* Refuses padding below 0 unless max_pool2d alone reads it. A padding value below the range becomes
 * the lowest code, which a maximum returns only if the window has no larger value. */
static void check_pads(recorder *r)
{
    const dt__device *d = r->d;
    for (int64_t i = 0; i < d->n; i++) {
        if (!pads_below(d, i)) continue;
        bool maxima = d->node[i].last < INT64_MAX;
        for (int64_t k = i + 1; k < d->n; k++) {
            for (int in = 0; in < d->node[k].n_in; in++) {
                const bool reads = d->node[k].in[in] == DT__PLAN_FIRST + i;
                maxima = maxima && (!reads || d->node[k].op == &dt__op_max_pool2d);
            }
        }
        if (maxima) continue;
        dt__refusals_add(&r->refusals,
                         "pad of %s: only zeros can be padded, and numbers below 0 where "
                         "max_pool2d alone reads them",
                         dt__plan_path(d->node[i].m));
    }
}

/* ---- the pass -------------------------------------------------------------------------------- */

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

/* Adds an input as a node that quantizes. */
static dt_status add_input(recorder *r, const dt_shape *in, int i, dt_tensor **x)
{
    int64_t dims[DT_MAX_RANK] = { 1 };
    if (in->rank < 0 || in->rank >= DT_MAX_RANK) {
        return dt_fail(r->d->ctx, DT_ERR_ARG, "prepare: input %d has rank %d; expected 0 to %d", i,
                       in->rank, DT_MAX_RANK - 1);
    }
    memcpy(dims + 1, in->dims, (size_t)in->rank * sizeof *dims);
    DT__TRY(dt__tensor_create_shape(r->d->ctx, DT_F32, 1 + in->rank, dims, x));
    const dt__plan_node node = { .m = r->d->m, .n_in = 1, .in = { i } };
    return append(r, &node, *x);
}

static dt_status run(recorder *r, dt_tape *t, const dt_shape *in, int n_in, dt_tensor **x)
{
    dt_tensor *y[DT_MAX_OUT];
    const int n_out = dt__module_outputs(r->d->m);
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
    if (s == DT_OK && r->refusals.n == 0) {
        DT__TRY(find_outputs(r, y, n_out));
        check_pads(r);
    }
    DT__TRY(dt__refusals_end(r->d->ctx, &r->refusals, DT_ERR_UNSUPPORTED,
                             "prepare: this model cannot be computed by integers alone"));
    return s;
}

dt_status dt__device_run_shapes(dt__device *d, const dt_shape *in, int n_in)
{
    dt_tape *t = NULL;
    dt_tensor *x[DT_MAX_IN] = { NULL };
    recorder r = { .d = d };
    check_modules(&r);
    dt_status s = dt_tape_create(d->ctx, &t);
    if (s == DT_OK) s = run(&r, t, in, n_in, x);
    for (int64_t i = 0; i < r.n; i++) dt_tensor_free(r.handle[i].x);
    dt__release(d->ctx, r.handle);
    for (int i = 0; i < n_in; i++) dt_tensor_free(x[i]);
    dt_tape_free(t);
    return s;
}
