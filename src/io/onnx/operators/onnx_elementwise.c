/* Operators of several operands that broadcast, each computed or constant: constants are options of
 * the layer (dt_operands). Maxima, comparisons, logic, Where. */
#include "io/onnx/onnx.h"

#include <string.h>

static bool is_constant(const dt__onnx_value *v) { return v->kind == DT__ONNX_CONSTANT; }

/* ---- operands -------------------------------------------------------------------------------- */

/* What the operands of a node share. */
typedef struct common {
    int rank;
    bool keep;           /* all computed operands have the same order of dimensions */
    int batch;           /* the batch dimension */
    dt__onnx_value like; /* the order of the result's dimensions; its layer is not used */
} common;

static dt_status look(dt__onnx *g, const dt__onnx_value *const *v, int n, bool in_order, common *c)
{
    const dt__onnx_value *first = NULL;
    *c = (common){ .keep = !in_order };
    for (int i = 0; i < n; i++) {
        const int rank = v[i]->rank + (is_constant(v[i]) ? g->front : 0);
        if (rank > c->rank) c->rank = rank;
    }
    for (int i = 0; i < n; i++) {
        if (is_constant(v[i])) continue;
        const int more = g->front > 0 ? 0 : c->rank - v[i]->rank,
                  at = dt__onnx_batch_at(v[i]) + more;
        if (first == NULL || first->rank < v[i]->rank) c->batch = at;
        if (first == NULL || first->rank < v[i]->rank) first = v[i];
    }
    if (first == NULL)
        return dt__onnx_refuse(g, "all its inputs are constants; expected one that is computed");
    for (int i = 0; i < n; i++) {
        c->keep &= is_constant(v[i]) || (v[i]->rank == c->rank && dt__onnx_alike(v[i], first));
    }
    c->like = *first;
    return DT_OK;
}

/* Moves the batch of v, which has the result's rank, to the position it has in the other operands:
 * a batch of 1 may swap with a dimension of 1. */
static dt_status move_batch(dt__onnx *g, dt__onnx_value *v, const common *c)
{
    const int at = dt__onnx_batch_at(v), axis = v->axis[c->batch];
    if (at == c->batch) return DT_OK;
    if (g->batch != 1 || dt__onnx_is_merged(v) || dt__onnx_extent(g, v, c->batch).value != 1) {
        return dt__onnx_refuse(
            g, "the batches of its inputs are dimensions %d and %d; expected the same", at,
            c->batch);
    }
    v->axis[c->batch] = 0;
    v->axis[at] = axis;
    v->plain = -1;
    return DT_OK;
}

/* Whether the batches of two values are merged with equally many elements. */
static bool merged_alike(const dt__onnx *g, const dt__onnx_value *a, const dt__onnx_value *b)
{
    const dt_shape *x = &dt__onnx_maker(g, a)->shape, *y = &dt__onnx_maker(g, b)->shape;
    if (a->outer != b->outer || a->inner != b->inner) return false;
    return (a->outer == 0 || x->dims[a->outer - 1] == y->dims[b->outer - 1]) &&
           (a->inner == 0 || x->dims[a->inner - 1] == y->dims[b->inner - 1]);
}

/* The layer of a computed operand, with the rank and order of the result; *first: the first
 * operand, or empty when called for it. */
static dt_status layer_of(dt__onnx *g, const dt__onnx_value *v, common *c, dt__onnx_value *first,
                          dt__onnx_layer **out)
{
    dt__onnx_value x = *v;
    if (!c->keep) {
        while (x.rank < c->rank) DT__TRY(dt__onnx_inserted(g, &x, g->front));
        DT__TRY(move_batch(g, &x, c));
        DT__TRY(dt__onnx_ordered(g, &x));
    }
    *out = dt__onnx_maker(g, &x);
    if (first->kind == DT__ONNX_UNSET) *first = x;
    if (!merged_alike(g, first, &x)) {
        return dt__onnx_refuse(g, "the batches of its inputs are merged in two ways");
    }
    if (!c->keep) c->like = x;
    return DT_OK;
}

/* A constant operand in the result's order of dimensions, without the batch and, while its rank
 * exceeds `least`, without leading dimensions of 1. */
static dt_status constant_of(dt__onnx *g, const dt__onnx_value *v, const common *c, int least,
                             dt__onnx_value *out)
{
    int skip = 0;
    DT__TRY(dt__onnx_arranged(g, &c->like, v, out));
    while (out->rank - skip > least && out->dims[skip] == 1) skip++;
    out->rank -= skip;
    memmove(out->dims, out->dims + skip, (size_t)out->rank * sizeof out->dims[0]);
    if (out->rank == 0) out->dims[out->rank++] = 1;
    return DT_OK;
}

static dt_status put_constant(dt__onnx *g, dt__onnx_layer *l, int place, const dt__onnx_value *c)
{
    static const char *const paths[] = { "first", "second", "third" };
    dt_operands *o = &((dt_operands_layer *)l->options)->operands;
    dt_ints *shape = place == 0 ? &o->first : place == 1 ? &o->second : &o->third;
    if (place >= DT__COUNT_OF(paths)) return dt__onnx_refuse(g, "it has more than 2 constants");
    shape->n = c->rank;
    for (int i = 0; i < c->rank; i++) shape->v[i] = c->dims[i];
    return dt__onnx_weigh(g, l, paths[place], c);
}

static dt_status apply(dt__onnx *g, const dt__onnx_form *form, const dt__onnx_value *const *v,
                       int n, dt__onnx_value *out)
{
    common c;
    dt__onnx_layer *l, *in;
    dt__onnx_value own, first = { .kind = DT__ONNX_UNSET };
    const bool matrix = strcmp(form->kind, "matmul") == 0;
    if (n > DT_MAX_IN - 2) return dt__onnx_refuse(g, "it has more than %d inputs", DT_MAX_IN - 2);
    DT__TRY(look(g, v, n, matrix, &c));
    DT__TRY(dt__onnx_new(g, form->kind, &l));
    if (matrix && c.batch >= c.rank - 2)
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    for (int i = 0; i < n; i++) {
        if (is_constant(v[i])) continue;
        DT__TRY(layer_of(g, v[i], &c, &first, &in));
        dt__onnx_read_from(l, in);
    }
    for (int i = 0; i < n; i++) {
        if (!is_constant(v[i])) continue;
        own = (dt__onnx_value){ .name = v[i]->name };
        DT__TRY(constant_of(g, v[i], &c, matrix ? 2 : 0, &own));
        DT__TRY(put_constant(g, l, i, &own));
    }
    if (form->equal) ((dt_operands_layer *)l->options)->equal = true;
    DT__TRY(dt__onnx_add(g, l));
    *out = c.like;
    out->name = dt__onnx_out(g, 0)->name;
    out->layer = l->index;
    out->plain = -1;
    out->codes = NULL;
    out->integers = out->rounded = false;
    return DT_OK;
}

/* A constant of a layer has at least one dimension, so a scalar per example gets one, too. */
dt_status dt__onnx_apply(dt__onnx *g, const dt__onnx_form *form, const dt__onnx_value *const *v,
                         int n, dt__onnx_value *out)
{
    dt__onnx_value wide[DT_MAX_IN];
    const dt__onnx_value *in[DT_MAX_IN];
    bool rows = true, constants = false;
    for (int i = 0; i < n; i++) {
        rows &= v[i]->rank <= 1 && (is_constant(v[i]) || !dt__onnx_is_merged(v[i]));
        constants |= is_constant(v[i]);
    }
    if (!rows || !constants || g->front > 0 || n > DT_MAX_IN) return apply(g, form, v, n, out);
    for (int i = 0; i < n; i++) {
        wide[i] = *v[i];
        in[i] = &wide[i];
        if (!is_constant(v[i])) DT__TRY(dt__onnx_inserted(g, &wide[i], 1));
        else if (v[i]->count != 1)
            return dt__onnx_refuse(g, "its constant differs along the batch dimension");
    }
    DT__TRY(apply(g, form, in, n, out));
    return dt__onnx_dropped(g, out, 1);
}

dt_status dt__onnx_finish(dt__onnx *g, dt_status s, const dt__onnx_value *v)
{
    if (s == DT_OK) dt__onnx_same(g, 0, v);
    return s;
}

dt_status dt__onnx_numeral(dt__onnx *g, double value, dt__onnx_value *out)
{
    float *f;
    *out = (dt__onnx_value){ .name = "" };
    DT__TRY(dt__onnx_constant(g, out, 0, NULL, &f, NULL));
    *f = (float)value;
    return DT_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Operators that are a layer with the same operands, or with the two swapped. */
static const struct row {
    const char *op;
    dt__onnx_form form;
    bool swapped;  /* the two operands */
    bool negative; /* the layer's boolean result is negated */
} rows[] = {
    { "Greater", { "greater", false }, false, false },
    { "GreaterOrEqual", { "greater", true }, false, false },
    { "Less", { "greater", false }, true, false },
    { "LessOrEqual", { "greater", true }, true, false },
    { "Equal", { "equal", false }, false, false },
    { "IsNaN", { "equal", false }, false, true }, /* not equal to itself */
    { "And", { "minimum", false }, false, false },
    { "Or", { "maximum", false }, false, false },
    { "Xor", { "equal", false }, false, true },
    { "Where", { "where", false }, false, false },
    { "Div", { "div", false }, false, false },
};

dt_status dt__onnx_operate(dt__onnx *g)
{
    const struct row *r = rows;
    const dt__onnx_value *v[DT_MAX_IN];
    dt__onnx_value y;
    dt__onnx_layer *l;
    const bool alone = g->node->n_input == 1;
    const int n = alone ? 2 : (int)g->node->n_input;
    while (strcmp(r->op, g->node->op_type) != 0) r++;
    for (int i = 0; i < n; i++) v[i] = dt__onnx_in(g, alone ? 0 : r->swapped ? n - 1 - i : i);
    if (n == 3 && is_constant(v[0]) && (dt__onnx_hides(v[1]) || dt__onnx_hides(v[2]))) {
        return dt__onnx_hidden(g);
    }
    DT__TRY(dt__onnx_apply(g, &r->form, v, n, &y));
    if (r->negative) {
        DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, &y), -1, 1, &l));
        y.layer = l->index;
    }
    return dt__onnx_finish(g, DT_OK, &y);
}

dt_status dt__onnx_not(dt__onnx *g)
{
    dt__onnx_value y = *dt__onnx_in(g, 0);
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, &y), -1, 1, &l));
    y.layer = l->index;
    y.plain = -1;
    return dt__onnx_finish(g, DT_OK, &y);
}

dt_status dt__onnx_truth(dt__onnx *g, const dt__onnx_value *x)
{
    dt__onnx_value zero, y;
    dt__onnx_layer *l = dt__onnx_maker(g, x);
    if (dt__onnx_is(l, "greater") || dt__onnx_is(l, "equal")) return dt__onnx_finish(g, DT_OK, x);
    DT__TRY(dt__onnx_numeral(g, 0, &zero));
    const dt__onnx_value *const v[] = { x, &zero };
    DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "equal", false }, v, 2, &y));
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, &y), -1, 1, &l));
    dt__onnx_keep(g, 0, &y, l);
    return DT_OK;
}

/* Max and Min of any number of values; constants come first. */
dt_status dt__onnx_extreme(dt__onnx *g)
{
    const dt__onnx_form form = { *g->node->op_type == 'M' && g->node->op_type[1] == 'a' ? "maximum"
                                                                                        : "minimum",
                                 false };
    const dt__onnx_value *v[DT_MAX_IN];
    dt__onnx_value y;
    int n = 0;
    if (g->node->n_input > DT_MAX_IN)
        return dt__onnx_refuse(g, "it has more than %d inputs", DT_MAX_IN);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < g->node->n_input; i++) {
            const dt__onnx_value *x = dt__onnx_in(g, (int)i);
            if (is_constant(x) == (pass == 0)) v[n++] = x;
        }
    }
    if (n == 1) return dt__onnx_identity(g);
    return dt__onnx_finish(g, dt__onnx_apply(g, &form, v, n, &y), &y);
}
