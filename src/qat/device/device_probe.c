/* Checks whether the integers of a network fit: when a model is prepared, if the recipe gives
 * ranges, and when it is converted, where it also reports the scales that are enlarged. Each node
 * whose operands and result have known ranges runs by itself, on zeros: its op computes
 * multipliers, biases and the largest sums from scales and weights alone, whatever the input is. */
#include "core/refusals.h"
#include "ops/device/device_products.h"
#include "ops/ops_list.h"
#include "qat/device/device_becomes.h"
#include "qat/device/device_plan.h"

#include <detent/experimental/device.h>

typedef struct probe {
    const dt__device *d;
    dt_tape *t;
    dt_tensor **value;
    dt__refusals refusals;
    bool tells;
} probe;

/* The quantizer of a value's range; NULL: it is fixed, or has seen no batch. */
static const dt__quantizer *range_of(const dt__device *d, int64_t value)
{
    if (value < DT__PLAN_FIRST) return NULL;
    const dt__quantizer *q = dt__quantizer_of(dt__device_holder(d, value)->range);
    return q != NULL && dt__quantizer_has_seen(q) ? q : NULL;
}

static dt_tensor *zeros(dt_tape *t, const dt__plan_node *like)
{
    dt_tensor *x;
    dt_status s = dt_tensor_create(t->ctx, DT_F32, like->rank, like->dims, &x);
    s = dt__tape_adopt(t, s);
    if (s == DT_OK) s = dt_fill(x, 0);
    return s == DT_OK && dt__tape_adopt(t, dt__tape_lend(t, x)) == DT_OK ? x : NULL;
}

/* Whether a node can run; if so, its operands are set to zeros. */
static bool begin(probe *p, const dt__plan_node *node, int64_t value)
{
    const dt__becomes *b = node->op == NULL ? NULL : dt__becomes_of(node->op);
    if (b == NULL || (b->ranged && range_of(p->d, value) == NULL)) return false;
    for (int i = 0; i < node->n_in; i++) {
        if (range_of(p->d, node->in[i]) == NULL) return false;
    }
    for (int i = 0; i < node->n_in; i++) {
        const dt__plan_node *from = &p->d->node[node->in[i] - DT__PLAN_FIRST];
        const dt__quantizer *q = range_of(p->d, node->in[i]);
        const dt_device_range range = { q->scale, q->zero_point, NULL };
        dt_tensor *x = zeros(p->t, from);
        p->value[node->in[i]] = dt_device_quantize(p->t, x, &range);
    }
    return true;
}

/* Refuses a result with a coarser scale than its range: the op enlarged the scale for its integers
 * to fit. */
static void check_range(probe *p, int64_t i, const dt_tensor *y)
{
    const dt__quantizer *q = range_of(p->d, DT__PLAN_FIRST + i);
    float scale;
    if (p->tells || q == NULL || y == NULL || dt_coded_range(y, &scale, NULL) != DT_OK) return;
    const float given = *(const float *)dt__values(q->scale);
    if (scale == given) return;
    dt__refusals_add(
        &p->refusals,
        "in %s: the result's scale %.9g is too small: integers and kernels take it from %.9g on",
        dt__plan_path(p->d->node[i].m), (double)given, (double)scale);
}

static dt_status try_node(probe *p, int64_t i)
{
    const dt__plan_node *node = &p->d->node[i];
    dt_tensor *y = NULL;
    if (begin(p, node, DT__PLAN_FIRST + i)) y = dt__device_run_node(p->d, p->t, p->value, i);
    const dt_status s = dt_tape_status(p->t);
    if (s == DT_OK) check_range(p, i, y);
    if (s == DT_ERR_NUMERIC) dt__refusals_add(&p->refusals, "%s", dt_error(p->d->ctx));
    dt_tape_reset(p->t);
    return s == DT_ERR_NUMERIC ? DT_OK : s;
}

/* Whether m was not reported before; marks it as reported. */
static bool is_new(const dt__device *d, const dt_module *m)
{
    for (int64_t i = 0; i < d->n; i++) {
        if (d->node[i].m != m) continue;
        const bool told = d->node[i].told;
        d->node[i].told = true;
        return !told;
    }
    return true;
}

void dt__device_tell(void *device, const dt_call *c)
{
    const dt_module *m = c->tape->open != NULL ? c->tape->open->m : NULL;
    const char *path = m != NULL ? dt__plan_path(m) : "a layer";
    const bool product = c->op == &dt__op_device_linear || c->op == &dt__op_device_conv2d ||
                         c->op == &dt__op_device_conv_transpose2d;
    const bool other = c->op == &dt__op_device_add || c->op == &dt__op_device_sub ||
                       c->op == &dt__op_device_mul || c->op == &dt__op_device_prelu ||
                       c->op == &dt__op_device_table || c->op == &dt__op_device_mean;
    const int64_t widened = product ? c->state[DT__DEVICE_WIDENED] : 0;
    const bool coarser = (product || other) && c->state[DT__DEVICE_COARSER] != 0;
    if ((widened == 0 && !coarser) || !is_new(device, m)) return;
    if (widened > 0) {
        dt__say(c->ctx,
                "%s: the weights of %lld of %lld outputs are small beside their biases: they get a "
                "larger scale, with which the biases fit int32",
                path, (long long)widened, (long long)c->codes[1]->rows);
    }
    if (coarser) {
        dt__say(c->ctx,
                "%s: the range of its result is tiny beside those of what it computes with: its "
                "scale becomes larger, %.3g, as kernels take it",
                path, (double)dt__range_of_codes(dt__coded_codes(c->y)).scale);
    }
}

dt_status dt__device_probe(const dt__device *d, bool tells)
{
    probe p = { .d = d, .tells = tells };
    dt_status s = dt_tape_create(d->ctx, &p.t);
    p.value = dt__alloc_zero(d->ctx, (size_t)(DT__PLAN_FIRST + d->n) * sizeof *p.value);
    if (s == DT_OK && p.value == NULL) s = DT_ERR_NOMEM;
    if (s == DT_OK) dt_no_grad(p.t, true);
    if (s == DT_OK && tells) p.t->on_call = dt__device_tell;
    if (s == DT_OK) p.t->on_call_user = (void *)(uintptr_t)d;
    for (int64_t i = 0; i < d->n && s == DT_OK; i++) s = try_node(&p, i);
    dt_tape_free(p.t);
    dt__release(d->ctx, p.value);
    DT__TRY(s);
    return dt__refusals_end(d->ctx, &p.refusals, DT_ERR_NUMERIC,
                            "%s: the integers of this model do not fit",
                            tells ? "convert" : "prepare");
}
