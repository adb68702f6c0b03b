/* Running the plan of an integer network: device_plan.h. */
#include "qat/device/device_plan.h"

#include "autograd/segment.h"
#include "nn/convolution/conv_layers.h"
#include "nn/lists/graph.h"
#include "ops/ops_list.h"
#include "ops/softmax.h"
#include "qat/device/device_becomes.h"
#include "qat/device/device_ends.h"
#include "qat/observe.h"
#include "qat/quantized.h"

#include <detent/experimental/device.h>
#include <string.h>

#define FIRST DT__PLAN_FIRST

/* One pass over the nodes. */
typedef struct pass {
    dt_tape *t;
    const dt__device *d;
    dt_tensor **value;
    bool floats, observes;
} pass;

static dt_tensor *in_of(const pass *p, const dt__plan_node *node, int i)
{
    return p->value[node->in[i]];
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static const dt__plan_node *holder(const pass *p, const dt__plan_node *node)
{
    return dt__device_holder(p->d, node->shares);
}

/* Scale and zero point are saved reads, since a later batch may change an observed range before a
 * checkpointed segment runs again. */
static dt_device_range range_of(const pass *p, const dt__plan_node *node)
{
    const dt__quantizer *q = dt__quantizer_of(holder(p, node)->range);
    return (dt_device_range){ dt__tape_save_read(p->t, q->scale),
                              dt__tape_save_read(p->t, q->zero_point), q->ends };
}

/* Updates a static range from x, or initializes a learned one. For concatenated values only the
 * result is observed. */
static void observe(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    const dt__plan_node *of = holder(p, node);
    const dt__quantizer *q = of->range == NULL ? NULL : dt__quantizer_of(of->range);
    const bool ends_it = node->op == &dt__op_concat ||
                         (node == of && of->shares == FIRST + (node - p->d->node) && !of->joined);
    if (q == NULL || q->count == NULL || x == NULL || !ends_it) return;
    if (q->ends != NULL) dt__tape_adopt(p->t, dt__ends_observe(p->t, x, q));
    else if (q->lo != NULL) dt__observe(p->t, x, q);
}

/* ---- nodes in floats ------------------------------------------------------------------------- */

static dt_tensor *activated(dt_tape *t, int activation, dt_tensor *x)
{
    if (activation == DT_ACT_NONE) return x;
    return dt__then(t, x, activation == DT_ACT_RELU ? dt_relu(t, x) : dt_relu6(t, x));
}

/* Reshapes examples; the batch size is that of x. */
static dt_tensor *reshaped(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, node->dims, sizeof dims);
    dims[0] = x->dims[0];
    return p->floats ? dt_reshape(p->t, x, node->rank, dims)
                     : dt_device_reshape(p->t, x, node->rank, dims);
}

static dt_tensor *run_floats(const pass *p, const dt__plan_node *node, dt_tensor *weight,
                             dt_tensor *bias)
{
    dt_tensor *in[DT_MAX_IN] = { NULL };
    int n = node->n_in;
    for (int i = 0; i < n; i++) in[i] = in_of(p, node, i);
    if (node->op == &dt__op_reshape || node->op == &dt__op_flatten) return reshaped(p, node, in[0]);
    if (weight != NULL) in[n++] = weight;
    if (weight != NULL && bias != NULL) in[n++] = bias;
    dt_tensor *y = dt_apply(p->t, node->op, in, n, node->options);
    return activated(p->t, node->activation, y);
}

/* ---- nodes of codes -------------------------------------------------------------------------- */

/* Averages of whole planes, or of equal windows. */
static dt_tensor *averaged(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    dt_pool_options o = dt_pool_defaults();
    for (int i = 0; i < 2; i++) o.kernel[i] = x->dims[2 + i];
    if (node->op == &dt__op_avg_pool2d) return dt_device_avg_pool2d(p->t, x, node->options);
    for (int i = 0; i < 2 && node->op == &dt__op_adaptive_avg_pool2d; i++) {
        o.kernel[i] = x->dims[2 + i] / node->dims[2 + i];
    }
    return dt_device_avg_pool2d(p->t, x, &o);
}

static bool is_line_pool(const dt__plan_node *node)
{
    return node->op == &dt__op_max_pool1d || node->op == &dt__op_avg_pool1d ||
           node->op == &dt__op_global_avg_pool1d || node->op == &dt__op_adaptive_avg_pool1d;
}

/* Pools signals [N, C, L] as images [N, C, L, 1]. */
static dt_tensor *pooled_line(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    int64_t dims[DT_MAX_RANK] = { x->dims[0], x->dims[1], x->dims[2], 1 };
    const bool max = node->op == &dt__op_max_pool1d;
    dt_pool_options o = dt_pool_defaults();
    if (max || node->op == &dt__op_avg_pool1d) o = *(const dt_pool_options *)node->options;
    else o.kernel[0] = node->op == &dt__op_global_avg_pool1d ? dims[2] : dims[2] / node->dims[2];
    o.kernel[1] = o.dilation[1] = 1;
    o.stride[1] = o.padding[1] = 0;
    dt_tensor *plane = dt_device_reshape(p->t, x, 4, dims);
    dt_tensor *y =
        max ? dt_device_max_pool2d(p->t, plane, &o) : dt_device_avg_pool2d(p->t, plane, &o);
    memcpy(dims + 1, node->dims + 1, (size_t)(node->rank - 1) * sizeof dims[0]);
    return dt__then(p->t, plane, dt__then(p->t, y, dt_device_reshape(p->t, y, node->rank, dims)));
}

static dt_tensor *upsampled(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    const int64_t *dims = node->dims;
    int64_t plane[] = { x->dims[0], x->dims[1], x->dims[2], 1 };
    if (node->rank == 4) return dt_device_upsample_nearest(p->t, x, dims[2], dims[3]);
    dt_tensor *image = dt_device_reshape(p->t, x, 4, plane);
    dt_tensor *y = dt_device_upsample_nearest(p->t, image, dims[2], 1);
    plane[2] = dims[2];
    return dt__then(p->t, image, dt__then(p->t, y, dt_device_reshape(p->t, y, 3, plane)));
}

static dt_tensor *permuted(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    return dt_device_permute(p->t, x, ((const dt_ints *)node->options)->v);
}

static bool has_one_scale(const dt_tensor *weight)
{
    const dt_quant_spec *quant = dt__quant_of(weight);
    return quant != NULL && (quant->granularity == DT_PER_TENSOR || weight->dims[0] == 1);
}

static dt_tensor *run_product(const pass *p, const dt__plan_node *node, dt_tensor *weight,
                              dt_tensor *bias)
{
    const dt_device_range range = range_of(p, node);
    dt_tensor *x = in_of(p, node, 0);
    if (node->op == &dt__op_linear) {
        const dt_device_linear_options o = { node->activation,
                                             weight != NULL && has_one_scale(weight) };
        return dt_device_linear(p->t, x, weight, bias, &range, &o);
    }
    dt_device_conv_options o = { .activation = node->activation };
    o.conv = *(const dt_conv_options *)node->options;
    return node->op == &dt__op_conv2d || node->op == &dt__op_conv1d
               ? dt_device_conv2d(p->t, x, weight, bias, &range, &o)
               : dt_device_conv_transpose2d(p->t, x, weight, bias, &range, &o);
}

static dt_tensor *looked_up(const pass *p, const dt__plan_node *node, int function, dt_tensor *x)
{
    dt_device_table_options o = { function, 0 };
    if (node->op == &dt__op_leaky_relu) o.slope = *(const double *)node->options;
    if (node->op == &dt__op_gelu && *(const int *)node->options == DT_GELU_TANH) {
        o.function = DT_TABLE_GELU_TANH;
    }
    if (dt__has_fixed_range(node->op)) return dt_device_table(p->t, x, NULL, &o);
    const dt_device_range range = range_of(p, node);
    return dt_device_table(p->t, x, &range, &o);
}

/* Reshapes the slopes of prelu so that they broadcast along dimension 1, the channels. */
static dt_tensor *sloped(const pass *p, const dt_device_range *range, dt_tensor *const *x)
{
    int64_t dims[DT_MAX_RANK] = { x[1]->count };
    for (int i = 1; i < x[0]->rank - 1; i++) dims[i] = 1;
    const int rank = x[1]->count == 1 ? 1 : x[0]->rank - 1;
    dt_tensor *slopes = dt_device_reshape(p->t, x[1], rank, dims);
    return dt__then(p->t, slopes, dt_device_prelu(p->t, x[0], slopes, range));
}

/* Runs ops whose result has a range of its own: sums, differences, products, means, prelu. */
static dt_tensor *on_own_range(const pass *p, const dt__plan_node *node, dt_tensor *const *x)
{
    const dt_device_range range = range_of(p, node);
    const dt_device_zip_options o = { node->activation };
    if (node->op == &dt__op_mean) return dt_device_mean(p->t, x[0], &range, node->options);
    if (node->op == &dt__op_prelu) return sloped(p, &range, x);
    return node->op == &dt__op_add   ? dt_device_add(p->t, x[0], x[1], &range, &o)
           : node->op == &dt__op_sub ? dt_device_sub(p->t, x[0], x[1], &range, &o)
                                     : dt_device_mul(p->t, x[0], x[1], &range, &o);
}

static dt_tensor *run_codes(const pass *p, const dt__plan_node *node)
{
    dt_tape *t = p->t;
    dt_tensor *x[DT_MAX_IN];
    for (int i = 0; i < node->n_in; i++) x[i] = in_of(p, node, i);
    const dt__becomes *b = dt__becomes_of(node->op);
    if (b->table > 0) return looked_up(p, node, b->table - 1, x[0]);
    if (b->ranged) return on_own_range(p, node, x);
    if (node->op == &dt__op_max_pool2d) return dt_device_max_pool2d(t, x[0], node->options);
    if (is_line_pool(node)) return pooled_line(p, node, x[0]);
    if (node->op == &dt__op_permute) return permuted(p, node, x[0]);
    if (node->op == &dt__op_softmax) return dt_device_softmax(t, x[0]);
    if (node->op == &dt__op_upsample_nearest || node->op == &dt__op_upsample_nearest1d) {
        return upsampled(p, node, x[0]);
    }
    if (node->op == &dt__op_slice) return dt_device_slice(t, x[0], node->options);
    if (node->op == &dt__op_pad) return dt_device_pad(t, x[0], node->options);
    if (node->op == &dt__op_concat) {
        return dt_device_concat(t, x, node->n_in, ((const dt__dim_options *)node->options)->dim);
    }
    if (node->op == &dt__op_reshape || node->op == &dt__op_flatten) return reshaped(p, node, x[0]);
    return averaged(p, node, x[0]);
}

/* ---- a node ---------------------------------------------------------------------------------- */

typedef struct product {
    const pass *p;
    const dt__plan_node *node;
} product;

static bool is_disabled(const dt_tensor *weight)
{
    return dt_is_fake_quant(weight) && !((const dt__fq *)weight->ext)->enabled;
}

/* Runs a layer whose weight alone is disabled (to measure the error of its codes): in floats, then
 * quantizes the result. */
static dt_tensor *run_disabled(const pass *p, const dt__plan_node *node, dt_tensor *weight,
                               dt_tensor *bias)
{
    const dt_device_range range = range_of(p, node);
    dt_tensor *y = run_floats(p, node, weight, bias);
    return dt__then(p->t, y, dt_device_quantize(p->t, y, &range));
}

/* Body of the layer's module call, so that its weight, hooks and path apply. */
static void product_body(void *user, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                         dt_tensor **out, int n_out)
{
    const product *of = user;
    (void)in;
    (void)n_in;
    (void)n_out;
    if (of->p->observes && dt__device_warms(of->node)) {
        dt_tensor *y = dt__device_warm(t, of->node, in_of(of->p, of->node, 0));
        out[0] = activated(t, of->node->activation, y);
        return;
    }
    dt_tensor *weight = dt_module_weight(t, m), *bias = dt__module_bias(t, m);
    if (t->status != DT_OK) return;
    out[0] = of->p->floats         ? run_floats(of->p, of->node, weight, bias)
             : is_disabled(weight) ? run_disabled(of->p, of->node, weight, bias)
                                   : run_product(of->p, of->node, weight, bias);
}

/* Reshapes an input to the recorded shape, if the model flattens it: examples may then have any
 * shape with the same number of values. */
static dt_tensor *shaped(const pass *p, const dt__plan_node *node, dt_tensor *x)
{
    int64_t dims[DT_MAX_RANK], count = 1;
    memcpy(dims, node->dims, sizeof dims);
    for (int i = 1; i < node->rank; i++) count *= dims[i];
    if (x->rank < 1 || x->rank == node->rank || x->count != count * x->dims[0]) return x;
    dims[0] = x->dims[0];
    return dt_reshape(p->t, x, node->rank, dims);
}

static dt_tensor *run_input(const pass *p, const dt__plan_node *node)
{
    dt_tensor *x = shaped(p, node, in_of(p, node, 0));
    if (p->floats) return x;
    const dt_device_range range = range_of(p, node);
    return dt_device_quantize(p->t, x, &range);
}

/* Quantizes a parameter or buffer of the layer. */
static dt_tensor *run_constant(const pass *p, const dt__plan_node *node)
{
    dt_tensor *x = dt__entry_find(node->m, node->constant)->x;
    if (p->floats) return x;
    const dt_device_range range = range_of(p, node);
    return dt_device_quantize(p->t, x, &range);
}

static dt_tensor *run_dropout(const pass *p, const dt__plan_node *node)
{
    dt_tensor *x = in_of(p, node, 0);
    const double share = *(const double *)dt_module_state(node->m);
    if (!dt_is_training(node->m) || share == 0 || p->observes) return x;
    return p->floats ? dt_dropout(p->t, x, share) : dt_device_dropout(p->t, x, share);
}

static dt_tensor *run_other(const pass *p, const dt__plan_node *node)
{
    dt_tape *t = p->t;
    const char *before = t->where;
    const dt__open_module here = { node->m, t->open };
    if (node->m->path[0] != '\0') t->where = node->m->path;
    t->open = &here;
    dt_tensor *y = node->constant != NULL ? run_constant(p, node)
                   : node->op == NULL
                       ? node->in[0] < FIRST ? run_input(p, node) : run_dropout(p, node)
                   : p->floats ? run_floats(p, node, NULL, NULL)
                               : run_codes(p, node);
    t->open = here.caller;
    t->where = before;
    return y;
}

static bool is_product(const dt__plan_node *node)
{
    return node->op == &dt__op_linear || node->op == &dt__op_conv2d ||
           node->op == &dt__op_conv_transpose2d || node->op == &dt__op_conv1d ||
           node->op == &dt__op_conv_transpose1d;
}

static dt_tensor *run_node(const pass *p, const dt__plan_node *node)
{
    if (!is_product(node)) return run_other(p, node);
    product of = { p, node };
    dt_tensor *x = in_of(p, node, 0), *y = NULL;
    dt__forward_call(p->t,
                     &(dt__module_call){ node->m, &x, 1, &y, 1, { product_body, &of, false } });
    return y;
}

dt_tensor *dt__device_run_node(const dt__device *d, dt_tape *t, dt_tensor **value, int64_t i)
{
    const pass p = { .t = t, .d = d, .value = value };
    return run_node(&p, &d->node[i]);
}

/* Frees the operands whose last reader is node i, unless another value is the same tensor. */
static void drop_read(const pass *p, int64_t i)
{
    const dt__plan_node *node = &p->d->node[i];
    for (int k = 0; k < node->n_in; k++) {
        const int64_t v = node->in[k];
        if (v < FIRST || p->d->node[v - FIRST].last != i || p->value[v] == NULL) continue;
        bool alone = true;
        for (int64_t w = 0; w <= FIRST + i; w++) alone &= w == v || p->value[w] != p->value[v];
        if (alone) dt__drop_step(p->t, p->value[v], p->value[FIRST + i]);
        p->value[v] = NULL;
    }
}

static void run_nodes(const pass *p)
{
    for (int64_t i = 0; i < p->d->n && p->t->status == DT_OK; i++) {
        p->value[FIRST + i] = run_node(p, &p->d->node[i]);
        if (p->t->status != DT_OK) return;
        if (p->observes) observe(p, &p->d->node[i], p->value[FIRST + i]);
        drop_read(p, i);
    }
}

/* ---- a pass ---------------------------------------------------------------------------------- */

/* A pass in floats, without gradients: ranges observe its results, and folded norms update their
 * statistics. */
static void observe_all(const pass *like, dt_tensor *const *in)
{
    pass p = *like;
    p.floats = p.observes = true;
    memset(p.value, 0, (size_t)(FIRST + p.d->n) * sizeof *p.value);
    memcpy(p.value, in, (size_t)p.d->n_in * sizeof in[0]);
    if (dt__scope_enter(p.t) != DT_OK) return;
    const bool before = dt_no_grad(p.t, true), first_run = p.t->in_first_run;
    p.t->in_first_run = false; /* a second run does not observe, so no read is saved */
    run_nodes(&p);
    p.t->in_first_run = first_run;
    dt_no_grad(p.t, before);
    dt__scope_leave(p.t, NULL, 0);
}

static void run_pass(const dt__device *d, dt_tape *t, dt_tensor *const *in, dt_tensor **value,
                     dt_tensor **out)
{
    const bool trains = dt_is_training(d->m) && d->enabled;
    const bool observes = !d->frozen && !t->shapes_only && (trains || d->observing);
    pass p = { .t = t, .d = d, .value = value, .floats = !d->enabled };
    if (observes && !dt__runs_again(t)) observe_all(&p, in);
    if (t->status != DT_OK) return;
    if (d->enabled && !t->shapes_only) dt__tape_adopt(t, dt__device_check_ranges(d, "forward"));
    const bool tells = trains && t->on_call == NULL;
    if (tells) {
        t->on_call = dt__device_tell;
        t->on_call_user = (void *)(uintptr_t)d;
    }
    memset(value, 0, (size_t)(FIRST + d->n) * sizeof *value);
    memcpy(value, in, (size_t)d->n_in * sizeof in[0]);
    run_nodes(&p);
    if (tells) t->on_call = NULL;
    for (int i = 0; i < d->n_out && t->status == DT_OK; i++) {
        dt_tensor *y = value[d->out[i]];
        out[i] = p.floats ? y : dt_device_dequantize(t, y);
    }
}

/* Inputs or outputs of a graph may come as one tensor (nn/lists/graph.h). */
static void run_packed(const dt__device *d, dt_tape *t, dt_tensor *const *in, int n_in,
                       dt_tensor **value, dt_tensor **out, int n_out)
{
    dt_tensor *x[DT_MAX_IN], *y[DT_MAX_OUT] = { NULL };
    memcpy(x, in, (size_t)n_in * sizeof *x);
    if (n_in != d->n_in) dt__graph_unpack(t, d->m, in[0], x);
    if (t->status == DT_OK) run_pass(d, t, x, value, y);
    memcpy(out, y, (size_t)n_out * sizeof *out);
    if (n_out != d->n_out && t->status == DT_OK) out[0] = dt__graph_pack(t, d->m, y);
}

void dt__device_run(void *device, dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in,
                    dt_tensor **out, int n_out)
{
    const dt__device *d = device;
    const bool packs = dt__graph_outputs(m) != NULL;
    if ((n_in != d->n_in && (n_in != 1 || !packs)) ||
        (n_out != d->n_out && (n_out != 1 || !packs))) {
        dt_tape_fail(t, DT_ERR_ARG, "%d inputs and %d outputs; the prepared model has %d and %d",
                     n_in, n_out, d->n_in, d->n_out);
        return;
    }
    dt_tensor **value = dt__alloc_zero(m->ctx, (size_t)(FIRST + d->n) * sizeof *value);
    if (value == NULL) dt__tape_adopt(t, DT_ERR_NOMEM);
    else run_packed(d, t, in, n_in, value, out, n_out);
    dt__release(m->ctx, value);
}
