/* Layers that are a function of ops. */
#include "nn/layers/op_layer.h"

#include <stddef.h>
#include <string.h>

typedef struct op_state {
    const dt__op_layer *op;
    _Alignas(max_align_t) unsigned char options[];
} op_state;

static const char *const names[] = { "first", "second", "third" };

#define NAMES DT__COUNT_OF(names)

static const dt_operands *constants_of(const dt__op_layer *op, const void *options)
{
    if (op->constants == 0) return NULL;
    return (const void *)((const char *)options + op->constants);
}

/* The constant that replaces an operand; NULL: the operand is an input. */
static dt_tensor *constant_at(const dt_module *m, const dt__op_layer *op, int i)
{
    const dt__entry *e = op->constants == 0 || i >= NAMES ? NULL : dt__entry_find(m, names[i]);
    return e == NULL ? NULL : e->x;
}

/* Assigns inputs and constants to operands; false: an operand has neither, or there are too many
 * inputs. */
static bool arrange(const dt_module *m, const dt__op_layer *op, dt_tensor *const *in, int n_in,
                    dt_tensor *operand[DT_MAX_IN], int *n)
{
    int constants = 0;
    for (int i = 0; i < NAMES; i++) constants += constant_at(m, op, i) != NULL;
    *n = n_in + constants;
    if (*n > DT_MAX_IN || (op->operands != 0 && *n != op->operands)) return false;
    for (int i = 0, from = 0; i < *n; i++) {
        operand[i] = constant_at(m, op, i);
        if (operand[i] == NULL && from == n_in) return false;
        if (operand[i] == NULL) operand[i] = in[from++];
    }
    return true;
}

/* Refuses inputs of different ranks: the batch of one would broadcast against another dimension. */
static bool fit_together(dt_tape *t, const dt_module *m, dt_tensor *const *in, int n_in)
{
    const dt__op_layer *op = ((const op_state *)m->state)->op;
    for (int i = 1; i < n_in; i++) {
        if (in[i]->rank == in[0]->rank) continue;
        dt_tape_fail(t, DT_ERR_SHAPE, "%s: inputs of %d and %d dimensions; expected equal numbers",
                     m->type->name, in[0]->rank, in[i]->rank);
        return false;
    }
    for (int i = 0; i < NAMES; i++) {
        const dt_tensor *x = constant_at(m, op, i);
        if (x == NULL || x->rank < in[0]->rank) continue;
        dt_tape_fail(t, DT_ERR_SHAPE, "%s: the constant `%s` has %d dimensions; an example has %d",
                     m->type->name, names[i], x->rank, in[0]->rank - 1);
        return false;
    }
    return true;
}

void dt__op_forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const op_state *s = dt_module_state(m);
    dt_tensor *operand[DT_MAX_IN];
    int n;
    (void)n_out;
    if (!arrange(m, s->op, in, n_in, operand, &n)) {
        dt_tape_fail(t, DT_ERR_ARG, "%s: expected %d inputs, not %d", m->type->name,
                     (s->op->operands == 0 ? DT_MAX_IN : s->op->operands) - (n - n_in), n_in);
    } else if (!s->op->joins || fit_together(t, m, in, n_in)) {
        out[0] = s->op->apply(t, s->options, operand, n);
    }
}

const dt_module_type dt__op_module = { .name = "op", .forward = dt__op_forward };

static const dt_ints *shape_of(const dt_operands *c, int i)
{
    return i == 0 ? &c->first : i == 1 ? &c->second : &c->third;
}

static dt_status add_constants(dt_module *m, const dt_operands *c)
{
    dt_status (*const add)(dt_module *, const char *, int, const int64_t *, dt_tensor **) =
        c->trained ? dt__new_param : dt__new_buffer;
    dt_tensor *x;
    for (int i = 0; i < NAMES; i++) {
        const dt_ints *shape = shape_of(c, i);
        if (shape->n == 0) continue;
        if (shape->n < 0 || shape->n >= DT_MAX_RANK) {
            return dt_fail(m->ctx, DT_ERR_ARG, "%s: `%s` has %d extents; it can have 1 to %d",
                           m->type->name, names[i], shape->n, DT_MAX_RANK - 1);
        }
        for (int k = 0; k < shape->n; k++) {
            DT__TRY(dt__want_extent(m->ctx, m->type->name, "an extent", shape->v[k]));
        }
        DT__TRY(add(m, names[i], shape->n, shape->v, &x));
        DT__TRY(dt_fill(x, 1));
    }
    return DT_OK;
}

dt_status dt__op_layer_create(dt_ctx *ctx, const dt__op_layer *op, const void *options,
                              dt_module **out)
{
    dt_module *m;
    const dt_operands *constants = constants_of(op, options);
    *out = NULL;
    if (op->check != NULL) DT__TRY(op->check(ctx, op->module->name, options));
    DT__TRY(dt_module_create(ctx, op->module, sizeof(op_state) + op->size, &m));
    op_state *s = dt_module_state(m);
    s->op = op;
    memcpy(s->options, options, op->size);
    memset(s->options, 0, sizeof(dt_layer_head)); /* its strings are only lent */
    return dt__layer_done(constants == NULL ? DT_OK : add_constants(m, constants), m, out);
}

dt_status dt__op_layer_in_list(dt_ctx *ctx, const dt__op_layer *op, const void *options, int n_in,
                               dt_module **out)
{
    const dt_operands *c = constants_of(op, options);
    const int least = op->operands == 0 ? 2 : op->operands;
    int n = n_in;
    for (int i = 0; c != NULL && i < NAMES; i++) n += shape_of(c, i)->n != 0;
    if (c != NULL && (n < least || (op->operands != 0 && n != least))) {
        return dt_fail(ctx, DT_ERR_ARG, "%d operands with its constants; expected %s%d", n,
                       op->operands == 0 ? "at least " : "", least);
    }
    return dt__op_layer_create(ctx, op, options, out);
}
