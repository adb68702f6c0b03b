/* Constant folding: nodes whose inputs are all constant are computed by the interpreter
 * (io/onnx/interpret).
 *
 * Operators that only rearrange elements run on the indices of elements that are not floats, so any
 * type is possible. Others run on numbers: integers as doubles, and results beyond 2^53, where
 * doubles are not exact, are refused. The batch size is a symbol: operators compute as if it were
 * 1, and `with_batch` finds how it occurs in the result. */
#include "core/text/row_named.h"
#include "io/onnx/interpret/interpret.h"
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

#define MOST_FILLED 65536 /* elements of a constant that is filled to a given shape */
#define MOST_PRODUCTS ((int64_t)1 << 26)
#define ATTRIBUTES 3
#define NOT_READ "it is not read of these numbers, or of the size of the batch"

/* Operators that rearrange elements. */
static const struct arrangement {
    const char *op;
    /* bit i: the elements of input i are moved; other inputs are integers or booleans */
    unsigned moved;
    bool is_shape; /* input 1 is a shape: the batch size in it becomes 1, which broadcasts */
    bool in_order; /* the result has the elements of input 0 in the same order */
    const char *was[ATTRIBUTES]; /* attributes of old versions that became inputs 1, 2... */
} arrangements[] = {
    { "Reshape", 1, false, true, { NULL } },
    { "Flatten", 1, false, true, { NULL } },
    { "Squeeze", 1, false, true, { "axes" } },
    { "Unsqueeze", 1, false, true, { "axes" } },
    { "Concat", ~0u, false, false, { NULL } },
    { "Slice", 1, false, false, { "starts", "ends", "axes" } },
    { "Split", 1, false, false, { "split" } },
    { "Gather", 1, false, false, { NULL } },
    { "GatherElements", 1, false, false, { NULL } },
    { "GatherND", 1, false, false, { NULL } },
    { "ScatterElements", 5, false, false, { NULL } },
    { "ScatterND", 5, false, false, { NULL } },
    { "Expand", 1, true, false, { NULL } },
    { "Tile", 1, true, false, { NULL } },
    { "Where", 6, false, false, { NULL } },
    { "Trilu", 1, false, false, { NULL } },
};

typedef struct folding {
    dt__onnx *g;
    const char *name;                /* of the operator */
    const struct arrangement *moves; /* NULL: it computes numbers */
    int n;
    const dt__onnx_value **from; /* NULL: absent */
    dt__verify_value *in;        /* `from` as values of the interpreter */
    const dt__verify_value **at;
    const dt__onnx_value *like; /* the first input whose type the result has */
    bool floats;                /* all elements that move are floats */
    bool batch;                 /* a computed number contains the batch size */
    /* receives the only result; NULL: results go to the node's outputs */
    dt__onnx_value *only;
    dt__onnx_number *number; /* moved elements if not all are floats; the first is a zero */
    int64_t n_numbers;
} folding;

static bool is_moved(const folding *f, int i)
{
    return f->moves != NULL && (f->moves->moved >> (i < 31 ? i : 31) & 1) != 0;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* A list attribute as a constant; NULL: it is absent. */
static dt_status listed(dt__onnx *g, const char *name, const dt__onnx_value **out)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, name);
    dt__onnx_number *n;
    if (a == NULL) return DT_OK;
    const int64_t count = (int64_t)a->n_ints;
    dt__onnx_value *v = dt__onnx_memory(g, 1, sizeof *v);
    if (v == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__onnx_constant(g, v, 1, &count, NULL, &n));
    for (int64_t i = 0; i < count; i++) n[i].value = (double)a->ints[i];
    *out = v;
    return DT_OK;
}

static dt_status list_inputs(folding *f)
{
    dt__onnx *g = f->g;
    const int given = (int)g->node->n_input;
    f->n = given > ATTRIBUTES ? given : ATTRIBUTES + 1;
    f->from = dt__onnx_memory(g, f->n, sizeof *f->from);
    f->in = dt__onnx_memory(g, f->n, sizeof *f->in);
    f->at = dt__onnx_memory(g, f->n, sizeof *f->at);
    if (f->from == NULL || f->in == NULL || f->at == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < given; i++) f->from[i] = dt__onnx_in(g, i);
    for (int i = 0; i < ATTRIBUTES && f->moves != NULL; i++) {
        const char *was = f->moves->was[i];
        if (was != NULL && f->from[i + 1] == NULL) DT__TRY(listed(g, was, &f->from[i + 1]));
    }
    while (f->n > given && f->from[f->n - 1] == NULL) f->n--;
    return DT_OK;
}

/* Type of an input that is not moved. Div and Mod of integers truncate. */
static dt__verify_type type_of(const folding *f, const dt__onnx_value *v)
{
    const bool cuts = strcmp(f->name, "Div") == 0 || strcmp(f->name, "Mod") == 0;
    if (v->type == DT__ONNX_BOOL) return DT__VERIFY_BOOL;
    if (v->type == DT__ONNX_DOUBLE) return DT__VERIFY_F64;
    if (dt__onnx_is_real(v->type)) return DT__VERIFY_F32;
    return f->moves != NULL || cuts ? DT__VERIFY_I64 : DT__VERIFY_F64;
}

/* Sets an input that the operator computes with, or that has indices. */
static dt_status put_numbers(folding *f, int i)
{
    const dt__onnx_value *v = f->from[i];
    const bool integers = !dt__onnx_is_real(v->type) && v->type != DT__ONNX_BOOL;
    dt__verify_value *to = &f->in[i];
    to->type = type_of(f, v);
    to->data = dt__onnx_memory(f->g, v->count, sizeof(double));
    if (to->data == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < v->count; k++) {
        dt__onnx_number x = dt__onnx_number_at(v, k);
        if (f->moves == NULL && integers && fabs(x.value) >= 0x1p53) {
            return dt__onnx_refuse(f->g, NOT_READ);
        }
        if (f->moves != NULL && x.batch && !f->moves->is_shape) {
            return dt__onnx_refuse(f->g, "its input %d must not depend on the batch", i);
        }
        if (f->moves != NULL && x.batch) x.value = 1;
        f->batch = f->batch || (f->moves == NULL && x.batch);
        const int64_t whole = dt__onnx_whole(x.value);
        if (to->type == DT__VERIFY_I64) dt__verify_store_whole(to, k, 1, &whole);
        else dt__verify_store_real(to, k, 1, &x.value);
    }
    return DT_OK;
}

/* Sets an input whose elements are moved, to their indices in f->number. */
static dt_status put_places(folding *f, int i)
{
    const dt__onnx_value *v = f->from[i];
    int64_t *place = f->in[i].data = dt__onnx_memory(f->g, v->count, sizeof *place);
    if (place == NULL) return DT_ERR_NOMEM;
    f->in[i].type = DT__VERIFY_I64;
    for (int64_t k = 0; k < v->count; k++) {
        place[k] = f->n_numbers;
        f->number[f->n_numbers++] = dt__onnx_number_at(v, k);
    }
    return DT_OK;
}

static dt_status put_input(folding *f, int i)
{
    const dt__onnx_value *v = f->from[i];
    dt__verify_value *to = &f->in[i];
    const bool moves = is_moved(f, i), in_order = moves && f->moves->in_order;
    to->type = DT__VERIFY_F32;
    to->rank = v->rank;
    to->count = v->count;
    memcpy(to->dims, v->dims, sizeof to->dims);
    to->data = (void *)(uintptr_t)(v->f != NULL ? (const void *)v->f : (const void *)v->n);
    f->at[i] = to;
    if (in_order || (v->f != NULL && (f->floats || !moves))) return DT_OK;
    return moves ? put_places(f, i) : put_numbers(f, i);
}

static dt_status put_inputs(folding *f, int same)
{
    int64_t count = 1;
    f->floats = true;
    for (int i = 0; i < f->n; i++) {
        const dt__onnx_value *v = f->from[i];
        if (v == NULL || (f->moves != NULL ? !is_moved(f, i) : same >= 0 && i >= same)) continue;
        if (f->like == NULL) f->like = v;
        if (v->type != f->like->type) {
            return dt__onnx_refuse(f->g, "its inputs are of two types; expected one");
        }
        count += v->count;
        f->floats = f->floats && v->f != NULL;
    }
    f->n_numbers = 1;
    f->number = f->floats ? NULL : dt__onnx_memory(f->g, count, sizeof *f->number);
    if (!f->floats && f->number == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < f->n; i++) {
        if (f->from[i] != NULL && f->from[i]->kind != DT__ONNX_CONSTANT) {
            return dt__onnx_refuse(f->g, "its input %d must be constant", i);
        }
        if (f->from[i] != NULL) DT__TRY(put_input(f, i));
    }
    return DT_OK;
}

/* ---- the batch size -------------------------------------------------------------------------- */

enum { MUL, ADD, SUB, DIV, EQUAL, RULES };

/* Derives how the batch size occurs in a result y that was computed with batch size 1. It may occur
 * once in a product, and only beside another multiple of it in a sum. False: the result is not a
 * number times the batch size. */
static bool with_batch(int rule, bool integers, dt__onnx_number a, dt__onnx_number b,
                       dt__onnx_number *y)
{
    const bool both = a.batch && b.batch;
    const double other = a.batch ? b.value : a.value;
    y->batch = a.batch || b.batch;
    if (!y->batch) return true;
    if (rule == MUL) return !both;
    if (rule == ADD || rule == SUB) return both || other == 0;
    y->batch = rule == DIV && !both;
    if (rule == DIV) return a.batch && (!integers || fmod(a.value, b.value) == 0);
    if (!both) y->value = 0;
    return both || other < 1; /* a batch has at least one example */
}

/* Finds which elements of a and b each result combines: (index in a) * count of b + (index in
 * b). */
static dt_status meet(folding *f, dt__verify_alone run, dt__verify_value *out)
{
    const int64_t step = f->in[1].count;
    for (int k = 0; k < 2; k++) {
        int64_t *place = f->in[k].data = dt__onnx_memory(f->g, f->in[k].count, sizeof *place);
        if (place == NULL) return DT_ERR_NOMEM;
        f->in[k].type = DT__VERIFY_I64;
        for (int64_t i = 0; i < f->in[k].count; i++) place[i] = k == 0 ? i * step : i;
    }
    run.op = dt__verify_operator_of("Add");
    return dt__verify_alone_run(&run, f->at, 2, out);
}

static dt_status put_batch_of_two(folding *f, const dt__verify_alone *run, dt__onnx_value *out,
                                  dt__onnx_number *n)
{
    static const char *const rules[RULES] = { "Mul", "Add", "Sub", "Div", "Equal" };
    const bool integers = !dt__onnx_is_real(f->like->type);
    const int64_t step = f->from[1]->count;
    dt__verify_value places;
    int rule = 0;
    while (rule < RULES && strcmp(rules[rule], f->name) != 0) rule++;
    if (rule == RULES) return dt__onnx_refuse(f->g, NOT_READ);
    DT__TRY(meet(f, *run, &places));
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t at = dt__verify_whole_at(&places, i);
        const dt__onnx_number a = dt__onnx_number_at(f->from[0], at / step);
        const dt__onnx_number b = dt__onnx_number_at(f->from[1], at % step);
        if (!with_batch(rule, integers, a, b, &n[i])) return dt__onnx_refuse(f->g, NOT_READ);
    }
    return DT_OK;
}

static dt_status put_batch(folding *f, const dt__verify_alone *run, dt__onnx_value *out,
                           dt__onnx_number *n)
{
    if (f->n == 2) return put_batch_of_two(f, run, out, n);
    for (int64_t i = 0; i < out->count; i++) {
        const dt__onnx_number x = dt__onnx_number_at(f->from[0], i);
        n[i].batch = x.batch;
        if (f->n > 1 || (x.batch && n[i].value != x.value)) return dt__onnx_refuse(f->g, NOT_READ);
    }
    return DT_OK;
}

/* Dimensions of the result that have the batch size get extent 1 and are marked to stand for it. */
static dt_status note_batch(const folding *f)
{
    dt__onnx_value *out = dt__onnx_out(f->g, 0);
    const dt__onnx_value *shape = f->from[1];
    const int more = out->rank - (int)shape->count;
    for (int i = more; i < out->rank; i++) {
        const dt__onnx_number n = dt__onnx_number_at(shape, i - more);
        if (!n.batch) continue;
        if (out->dims[i] != 1) {
            return dt__onnx_refuse(f->g, "extent %lld cannot become the size of the batch",
                                   (long long)out->dims[i]);
        }
        out->spread = out->spread == 0 && n.value == 1 ? i + 1 : -1;
    }
    return DT_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Converts result i of the node to numbers. */
static dt_status take_numbers(folding *f, const dt__verify_alone *run, const dt__verify_value *y,
                              dt__onnx_value *out)
{
    dt__onnx_number *n;
    DT__TRY(dt__onnx_constant(f->g, out, y->rank, y->dims, NULL, &n));
    out->type = y->type == DT__VERIFY_BOOL ? DT__ONNX_BOOL : f->like->type;
    for (int64_t i = 0; i < out->count; i++) {
        if (f->moves != NULL) {
            n[i] = f->number[dt__verify_whole_at(y, i)];
            continue;
        }
        n[i].value = dt__verify_real_at(y, i);
        if (!dt__onnx_round(out->type, &n[i].value)) return dt__onnx_refuse(f->g, NOT_READ);
    }
    return f->batch ? put_batch(f, run, out, n) : DT_OK;
}

static dt_status take(folding *f, const dt__verify_alone *run, int i, const dt__verify_value *y)
{
    dt__onnx_value *out = f->only != NULL ? f->only : dt__onnx_out(f->g, i);
    if (out == NULL) return DT_OK;
    if (f->moves != NULL && f->moves->in_order) {
        dt__onnx_same(f->g, i, f->from[0]);
        out->codes = NULL; /* the scales had other dimensions */
        out->spread = 0;   /* set by dt__onnx_keep_spread */
        out->rank = y->rank;
        memcpy(out->dims, y->dims, sizeof out->dims);
        return DT_OK;
    }
    if (y->type != DT__VERIFY_F32 || f->batch) return take_numbers(f, run, y, out);
    float *at = y->data;
    for (int64_t k = 0; f->moves == NULL && f->like->type != DT__ONNX_FLOAT && k < y->count; k++) {
        double x = (double)at[k];
        dt__onnx_round(f->like->type, &x);
        at[k] = (float)x;
    }
    dt__onnx_lend_floats(out, y->rank, y->dims, y->count, at);
    out->type = f->like->type;
    return DT_OK;
}

/* Runs the node with the listed inputs as operator f->name. */
static dt_status run_listed(folding *f, bool product)
{
    dt__onnx *g = f->g;
    dt__verify_alone run = { .ctx = g->ctx,
                             .path = g->file->path,
                             .node = g->node,
                             .op = dt__verify_operator_of(f->name),
                             .limits = { .bytes = SIZE_MAX,
                                         .work = product ? 3.0 * MOST_PRODUCTS : INFINITY,
                                         .elements = product ? MOST_PRODUCTS : MOST_FILLED },
                             .blocks = &g->blocks };
    const int64_t n_out = (int64_t)g->node->n_output;
    dt__verify_value *y = dt__onnx_memory(g, n_out, sizeof *y);
    if (y == NULL) return DT_ERR_NOMEM;
    DT__TRY(put_inputs(f, run.op->same));
    for (int i = 0; i < f->n; i++) {
        run.limits.elements = dt__max_i64(run.limits.elements, f->in[i].count);
    }
    DT__TRY(dt__verify_alone_run(&run, f->at, f->n, y));
    for (int i = 0; i < n_out; i++) DT__TRY(take(f, &run, i, &y[i]));
    return f->moves != NULL && f->moves->is_shape ? note_batch(f) : DT_OK;
}

static dt_status start(folding *f, dt__onnx *g, const char *name)
{
    *f = (folding){ .g = g, .name = name, .moves = DT__ROW_NAMED(arrangements, name) };
    return list_inputs(f);
}

dt_status dt__onnx_fold(dt__onnx *g)
{
    folding f;
    DT__TRY(start(&f, g, g->node->op_type));
    return run_listed(&f, false);
}

dt_status dt__onnx_fold_product(dt__onnx *g)
{
    folding f;
    DT__TRY(start(&f, g, g->node->op_type));
    return run_listed(&f, true);
}

dt_status dt__onnx_run_on(dt__onnx *g, const char *name, const dt__onnx_value *const *in, int n,
                          dt__onnx_value *out)
{
    folding f;
    DT__TRY(start(&f, g, name));
    f.only = out;
    for (int i = 0; i < n; i++) f.from[i] = in[i] != NULL ? in[i] : f.from[i];
    return run_listed(&f, true);
}

/* A constant of a given shape with one number in all elements. */
dt_status dt__onnx_fold_filled(dt__onnx *g)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, "value");
    const float zero = 0;
    dt__onnx_value value = {
        .f = &zero, .count = 1, .kind = DT__ONNX_CONSTANT, .type = DT__ONNX_FLOAT
    };
    folding f;
    if (a != NULL && a->t != NULL) DT__TRY(dt__onnx_decode(g, a->t, &value));
    if (value.count != 1) return dt__onnx_refuse(g, "its value must be one number");
    value.rank = 0;
    DT__TRY(start(&f, g, "Expand"));
    f.from[1] = f.from[0];
    f.from[0] = &value;
    f.n = 2;
    return run_listed(&f, false);
}

dt_status dt__onnx_fold_constant(dt__onnx *g)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute_of(g->node, "value");
    dt__onnx_value *out = dt__onnx_out(g, 0);
    float *f;
    dt__onnx_number *n;
    if (g->node->n_attribute != 1) return dt__onnx_refuse(g, "it must have one attribute");
    if (a != NULL && a->t != NULL) return dt__onnx_decode(g, a->t, out);
    const DtOnnx__Attribute *real = dt__onnx_attribute_of(g->node, "value_float");
    const DtOnnx__Attribute *reals = dt__onnx_attribute_of(g->node, "value_floats");
    if (real != NULL || reals != NULL) {
        const int64_t count = real != NULL ? 1 : (int64_t)reals->n_floats;
        DT__TRY(dt__onnx_constant(g, out, real != NULL ? 0 : 1, &count, &f, &n));
        for (int64_t i = 0; i < count; i++) f[i] = real != NULL ? real->f : reals->floats[i];
        return DT_OK;
    }
    const DtOnnx__Attribute *whole = dt__onnx_attribute_of(g->node, "value_int");
    const DtOnnx__Attribute *list = dt__onnx_attribute_of(g->node, "value_ints");
    if (whole == NULL && list == NULL) return dt__onnx_refuse(g, "it has no numbers");
    const int64_t count = whole != NULL ? 1 : (int64_t)list->n_ints;
    DT__TRY(dt__onnx_constant(g, out, whole != NULL ? 0 : 1, &count, NULL, &n));
    for (int64_t i = 0; i < count; i++) {
        n[i] = (dt__onnx_number){ (double)(whole != NULL ? whole->i : list->ints[i]), false };
    }
    return DT_OK;
}
