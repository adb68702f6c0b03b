/* Sums, products, powers: of computed values the layers add, sub and mul; with a constant the layer
 * affine, or the bias of the layer before. Some products are parts of an activation:
 *     silu(x) = x sigmoid(x)      hardswish(x) = x hardsigmoid(x)
 *     gelu(x) = x (1 + erf(x / sqrt 2)) / 2, with the factors in any order */
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

/* ---- functions that are spelled out ---------------------------------------------------------- */

static const dt__onnx_layer *before(const dt__onnx *g, const dt__onnx_layer *l)
{
    return g->layer[l->from[0]];
}

/* relative error of factors between 0.5 and 1, from their rounding, or that of a reciprocal */
#define NEAR 0x1p-23

/* Whether l is y = x scale + bias with one number each. */
static bool is_scaled(const dt__onnx_layer *l, double scale, double bias)
{
    double is[2] = { 1, 0 };
    if (!dt__onnx_is(l, "affine")) return false;
    for (int i = 0; i < l->n_weights; i++) {
        if (l->weight[i].count != 1) return false;
        is[strcmp(l->weight[i].path, "bias") == 0] = (double)l->weight[i].data[0];
    }
    return fabs(is[0] - scale) <= NEAR && fabs(is[1] - bias) <= NEAR;
}

/* Whether l is 1 + erf(x / sqrt 2). */
static bool is_bell(const dt__onnx *g, const dt__onnx_layer *l, const dt__onnx_layer *x)
{
    if (!is_scaled(l, 1, 1)) return false;
    l = before(g, l);
    if (!dt__onnx_is(l, "erf")) return false;
    l = before(g, l);
    return is_scaled(l, sqrt(0.5), 0) && before(g, l) == x;
}

/* The activation that equals the product of two layers, and its operand *x; NULL: none. */
static const char *function_of(const dt__onnx *g, dt__onnx_layer *const in[2], dt__onnx_layer **x)
{
    for (int i = 0; i < 2; i++) {
        const dt__onnx_layer *gate = in[1 - i];
        *x = in[i];
        if (gate->n_from == 1 && before(g, gate) == *x) {
            if (dt__onnx_is(gate, "sigmoid")) return "silu";
            if (dt__onnx_is(gate, "hardsigmoid")) return "hardswish";
        }
        if (!is_scaled(*x, 0.5, 0)) continue;
        *x = g->layer[in[i]->from[0]];
        if (is_bell(g, gate, *x)) return "gelu";
    }
    return NULL;
}

/* The x of a product x (1 + erf(x / sqrt 2)); NULL: not such a product. */
static dt__onnx_layer *doubled_gelu(const dt__onnx *g, const dt__onnx_layer *l)
{
    if (!dt__onnx_is(l, "mul") || l->n_from != 2) return NULL;
    for (int i = 0; i < 2; i++) {
        dt__onnx_layer *x = g->layer[l->from[i]];
        if (is_bell(g, g->layer[l->from[1 - i]], x)) return x;
    }
    return NULL;
}

/* ---- two computed values --------------------------------------------------------------------- */

static dt_status join(dt__onnx *g, const char *kind)
{
    const dt__onnx_value *v[2] = { dt__onnx_in(g, 0), dt__onnx_in(g, 1) };
    dt__onnx_layer *in[2] = { dt__onnx_maker(g, v[0]), dt__onnx_maker(g, v[1]) }, *l, *x;
    dt__onnx_value y;
    const bool alike = dt__onnx_alike(v[0], v[1]);
    const char *function = alike && strcmp(kind, "mul") == 0 ? function_of(g, in, &x) : NULL;
    if (function == NULL) {
        return dt__onnx_finish(g, dt__onnx_apply(g, &(dt__onnx_form){ kind, false }, v, 2, &y), &y);
    }
    DT__TRY(dt__onnx_simple(g, function, x, &l));
    dt__onnx_keep(g, 0, v[0], l);
    return DT_OK;
}

/* ---- with a constant ------------------------------------------------------------------------- */

/* Broadcasts v to the constant's shape: adds missing dimensions, and repeats those of extent 1. */
static dt_status widen(dt__onnx *g, dt__onnx_value *v, const dt__onnx_value *c)
{
    while (v->rank < c->rank + g->front) DT__TRY(dt__onnx_inserted(g, v, g->front));
    for (int i = 0, more = v->rank - c->rank; i < c->rank && more >= 0; i++) {
        const dt__onnx_number n = dt__onnx_extent(g, v, i + more);
        if (c->dims[i] == 1 || n.batch || (double)c->dims[i] == n.value) continue;
        if (n.value == 1) {
            DT__TRY(dt__onnx_repeated(g, v, i + more, c->dims[i]));
            continue;
        }
        return dt__onnx_refuse(
            g, "its constant has %lld elements in dimension %d, where its input has %g",
            (long long)c->dims[i], i + more, n.value);
    }
    return DT_OK;
}

/* Whether c can be the bias of v's layer: the layer has none, no other node reads its result, and c
 * has one number per output. Channels are the first dimension of an image, features the last. */
static bool is_bias_of(const dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c)
{
    const dt__onnx_layer *l = dt__onnx_maker(g, v);
    const bool linear = dt__onnx_is(l, "linear");
    const bool alone = v->uses == 1 && v->maker >= 0 && g->graph->node[v->maker] == l->node;
    if (!alone || l->n_weights != 1 || l->shape.rank < 1) return false;
    if (!linear && (l->type == NULL || strncmp(l->type->item.name, "conv", 4) != 0)) return false;
    const int axis = linear ? l->shape.rank - 1 : 0;
    return c->count == l->shape.dims[axis] && c->rank == l->shape.rank && c->dims[axis] == c->count;
}

static dt_status add_bias(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c)
{
    dt__onnx_layer *l = dt__onnx_maker(g, v);
    const bool linear = dt__onnx_is(l, "linear");
    if (linear) ((dt_linear_layer *)l->options)->bias = true;
    else ((dt_conv_item *)l->options)->bias = true;
    DT__TRY(dt__onnx_weigh(g, l, "bias", c));
    const dt__onnx_value x = *v;
    dt__onnx_same(g, 0, &x);
    return DT_OK;
}

/* Result 0 is v * c (`path` "weight") or v + c ("bias"). Constants named like a module's are
 * parameters. */
static dt_status with_constant(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c,
                               const char *path)
{
    const bool adds = strcmp(path, "bias") == 0;
    dt__onnx_layer *l = doubled_gelu(g, dt__onnx_maker(g, v));
    dt__onnx_value own = { .name = c->name }, bounded = *c, wide = *v;
    const float *data;
    if (adds) DT__TRY(dt__onnx_masked(g, v->rank, c, &bounded));
    c = &bounded;
    DT__TRY(dt__onnx_floats_of(g, c, "the constant", &data));
    if (!adds && l != NULL && c->count == 1 && data[0] == 0.5f) {
        DT__TRY(dt__onnx_simple(g, "gelu", l, &l));
        dt__onnx_keep(g, 0, v, l);
        return DT_OK;
    }
    DT__TRY(widen(g, &wide, c));
    v = &wide;
    DT__TRY(dt__onnx_arranged(g, v, c, &own));
    if (adds && is_bias_of(g, v, &own)) return add_bias(g, v, &own);
    while (own.rank > 0 && own.dims[0] == 1) {
        own.rank--;
        memmove(own.dims, own.dims + 1, (size_t)own.rank * sizeof own.dims[0]);
    }
    DT__TRY(dt__onnx_new(g, "affine", &l));
    dt_affine_options *o = &((dt_affine_layer *)l->options)->affine;
    o->scale = !adds;
    o->bias = adds;
    o->shape.n = own.rank > 0 ? own.rank : 1;
    o->shape.v[0] = 1;
    for (int i = 0; i < own.rank; i++) o->shape.v[i] = own.dims[i];
    DT__TRY(dt__onnx_weigh(g, l, path, &own));
    o->trained = own.count > 1 && own.initializer != NULL;
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, v)));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

dt_status dt__onnx_times(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c)
{
    return with_constant(g, v, c, "weight");
}

dt_status dt__onnx_plus(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *c)
{
    return with_constant(g, v, c, "bias");
}

/* c with f applied to each element. */
static dt_status each(dt__onnx *g, const dt__onnx_value *c, float (*f)(float), dt__onnx_value *out)
{
    const float *from;
    float *to;
    const char *initializer = c->initializer;
    DT__TRY(dt__onnx_floats_of(g, c, "the constant", &from));
    *out = (dt__onnx_value){ .name = c->name };
    DT__TRY(dt__onnx_constant(g, out, c->rank, c->dims, &to, NULL));
    out->initializer = initializer;
    for (int64_t i = 0; i < out->count; i++) to[i] = f(from[i]);
    return DT_OK;
}

static float negative(float x) { return -x; }
static float reciprocal(float x) { return 1 / x; }

/* ---- the four operators ---------------------------------------------------------------------- */

static bool is_constant(const dt__onnx_value *v) { return v->kind == DT__ONNX_CONSTANT; }

dt_status dt__onnx_sum(dt__onnx *g)
{
    const dt__onnx_value *a = dt__onnx_in(g, 0), *b = dt__onnx_in(g, 1);
    if (is_constant(a)) return with_constant(g, b, a, "bias");
    return is_constant(b) ? with_constant(g, a, b, "bias") : join(g, "add");
}

dt_status dt__onnx_product(dt__onnx *g)
{
    const dt__onnx_value *a = dt__onnx_in(g, 0), *b = dt__onnx_in(g, 1);
    if (is_constant(a)) return with_constant(g, b, a, "weight");
    return is_constant(b) ? with_constant(g, a, b, "weight") : join(g, "mul");
}

dt_status dt__onnx_difference(dt__onnx *g)
{
    const dt__onnx_value *a = dt__onnx_in(g, 0), *b = dt__onnx_in(g, 1);
    dt__onnx_value c;
    dt__onnx_layer *l;
    if (is_constant(b)) {
        DT__TRY(each(g, b, negative, &c));
        return with_constant(g, a, &c, "bias");
    }
    if (!is_constant(a)) return join(g, "sub");
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, b), -1, 0, &l));
    dt__onnx_value minus = *b; /* c - x = -x + c */
    minus.layer = l->index;
    minus.plain = -1;
    return with_constant(g, &minus, a, "bias");
}

#define MOST_POWER 16 /* rounding errors grow with it */

dt_status dt__onnx_power(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0), *exponent = dt__onnx_in(g, 1);
    dt__onnx_layer *l;
    double n;
    if (!is_constant(exponent) || is_constant(v)) {
        return dt__onnx_refuse(g, "its exponent is computed; expected a constant");
    }
    DT__TRY(dt__onnx_real_of(g, exponent, "the exponent", &n));
    if (!(fabs(n) <= MOST_POWER)) {
        return dt__onnx_refuse(g, "its exponent is %g; expected %d to %d", n, -MOST_POWER,
                               MOST_POWER);
    }
    if (n == 1) return dt__onnx_identity(g);
    DT__TRY(dt__onnx_new(g, n == 2 ? "square" : n == 0.5 ? "sqrt" : "pow", &l));
    if (dt__onnx_is(l, "pow")) ((dt_pow_layer *)l->options)->exponent = n;
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, v)));
    dt__onnx_keep(g, 0, v, l);
    return DT_OK;
}

dt_status dt__onnx_quotient(dt__onnx *g)
{
    const dt__onnx_value *a = dt__onnx_in(g, 0), *b = dt__onnx_in(g, 1);
    dt__onnx_value c;
    if (!is_constant(b)) return dt__onnx_operate(g);
    DT__TRY(each(g, b, reciprocal, &c));
    return with_constant(g, a, &c, "weight");
}

/* Sum and Mean of any number of values: computed ones, then constants one by one. */
dt_status dt__onnx_sum_of(dt__onnx *g)
{
    const dt__onnx_value *v[DT_MAX_IN];
    const size_t all = g->node->n_input;
    dt__onnx_value y;
    dt__onnx_layer *l;
    int n = 0;
    if (all > DT_MAX_IN - 2) return dt__onnx_refuse(g, "it has more than %d inputs", DT_MAX_IN - 2);
    for (size_t i = 0; i < all; i++) {
        const dt__onnx_value *x = dt__onnx_in(g, (int)i);
        if (!is_constant(x)) v[n++] = x;
    }
    if (n == 0)
        return dt__onnx_refuse(g, "all its inputs are constants; expected one that is computed");
    y = *v[0];
    if (n > 1) DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "add", false }, v, n, &y));
    dt__onnx_same(g, 0, &y);
    for (size_t i = 0; i < all; i++) {
        const dt__onnx_value *x = dt__onnx_in(g, (int)i);
        y = *dt__onnx_out(g, 0);
        if (is_constant(x)) DT__TRY(with_constant(g, &y, x, "bias"));
    }
    if (strcmp(g->node->op_type, "Mean") != 0) return DT_OK;
    y = *dt__onnx_out(g, 0);
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, &y), 1 / (double)all, 0, &l));
    dt__onnx_keep(g, 0, &y, l);
    return DT_OK;
}
