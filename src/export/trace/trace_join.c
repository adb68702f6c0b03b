/* Finds which extents of a trace depend on the batch or on the length, by comparing passes of two
 * sizes call by call. Then values on which no output depends are removed, and lifetimes are set. */
#include "export/trace/trace.h"

#include "autograd/kind.h"

#include <string.h>

/* A second pass of another size. */
typedef struct pair {
    dt_trace *t;
    const dt_trace *other;
    int64_t from, to; /* the extent that differs, batch or length, in both passes */
    int which;
} pair;

static dt_status fail(const pair *p, const dt_trace_call *c, const char *what)
{
    return dt_fail(p->t->ctx, DT_ERR_UNSUPPORTED, "trace: %s in %s (%s): %s depends on the %s%s",
                   c->op->name, c->module, c->type, what, p->which == 0 ? "batch" : "length",
                   p->which == 0 ? "; a layer must treat examples alike" : " in no simple way");
}

/* Whether both numbers are the same multiple of the extent that differs. */
static bool scales(const pair *p, int64_t a, int64_t b)
{
    return a != b && a % p->from == 0 && b % p->to == 0 && a / p->from == b / p->to;
}

static bool raise(const pair *p, dt_extent *e, int64_t a, int64_t b)
{
    if (a == b) return true;
    if (!scales(p, a, b)) return false;
    e->size /= p->from;
    if (p->which == 0) e->batch = 1;
    else e->length = 1;
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Whether all elements of x along dimension d are equal. */
static bool is_uniform(const dt_tensor *x, int d)
{
    int64_t inner = 1;
    for (int i = d + 1; i < x->rank; i++) inner *= x->dims[i];
    const size_t bytes = (size_t)inner * dt_dtype_size(x->dtype);
    const char *at = dt__values(x);
    const int64_t blocks = inner == 0 ? 0 : x->count / inner;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = i - i % x->dims[d];
        if (memcmp(at + (size_t)i * bytes, at + (size_t)first * bytes, bytes) != 0) return false;
    }
    return true;
}

/* Keeps the first element of *x along dimension d. */
static dt_status shorten(dt_tensor **x, int d)
{
    dt_tensor *part, *copy;
    DT__TRY(dt_tensor_narrow(*x, d, 0, 1, &part));
    dt_status s = dt__tensor_create_raw(part->ctx, part->dtype, part->rank, part->dims, &copy);
    if (s == DT_OK) {
        dt__copy_tensor(part, copy);
        dt_tensor_free(*x);
        *x = copy;
    }
    dt_tensor_free(part);
    return s;
}

/* Joins a constant of two extents: it must be uniform along that dimension, and one element is
 * kept. */
static dt_status join_constant(dt_trace_value *a, const dt_trace_value *b, int d, bool *fits)
{
    *fits = true;
    if (a->tensor->storage == NULL || a->tensor->count == 0) return DT_OK;
    *fits = is_uniform(a->tensor, d) && is_uniform(b->tensor, d);
    if (!*fits || a->tensor->dims[d] == 1) return DT_OK;
    return shorten(&a->tensor, d);
}

static dt_status join_value(const pair *p, int64_t id)
{
    dt_trace_value *a = &p->t->value[id];
    const dt_trace_value *b = &p->other->value[id];
    const dt_trace_call *c = a->call >= 0 ? &p->t->call[a->call] : NULL;
    for (int i = 0; i < a->rank; i++) {
        dt_extent *e = &a->extent[i];
        const int64_t was = e->size, is = b->extent[i].size;
        bool fits = true;
        if (was != is && a->kind == DT_VALUE_CONSTANT) DT__TRY(join_constant(a, b, i, &fits));
        if (fits && raise(p, e, was, is)) continue;
        if (c != NULL) return fail(p, c, "the extent of a result");
        return dt_fail(p->t->ctx, DT_ERR_UNSUPPORTED,
                       "trace: a constant of the model depends on "
                       "the %s",
                       p->which == 0 ? "batch" : "length");
    }
    return DT_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const size_t field_bytes[DT_KEY_LIST + 1] = {
    [DT_KEY_BOOL] = sizeof(bool),        [DT_KEY_INT] = sizeof(int64_t),
    [DT_KEY_REAL] = sizeof(double),      [DT_KEY_CHOICE] = sizeof(int),
    [DT_KEY_PAIR] = 2 * sizeof(int64_t), [DT_KEY_REALS] = sizeof(dt_reals),
};

static bool same_ints(const pair *p, const dt_ints *a, const dt_ints *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        if (a->v[i] != b->v[i] && !scales(p, a->v[i], b->v[i])) return false;
    }
    return true;
}

/* Compares options field by field, as padding bytes are undefined. Lists of integers may differ by
 * multiples. */
static bool same_options(const pair *p, const dt_trace_call *a, const dt_trace_call *b)
{
    const char *x = a->options, *y = b->options;
    if (x == NULL) return true;
    if (a->op->keys == NULL) return memcmp(x, y, a->op->options_size) == 0;
    for (const dt_key *k = a->op->keys; k->name != NULL; k++) {
        if (k->type == DT_KEY_INTS) {
            if (!same_ints(p, (const dt_ints *)(x + k->offset), (const dt_ints *)(y + k->offset))) {
                return false;
            }
        } else if (memcmp(x + k->offset, y + k->offset, field_bytes[k->type]) != 0) {
            return false;
        }
    }
    return true;
}

static bool same_call(const dt_trace_call *a, const dt_trace_call *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out) return false;
    for (int i = 0; i < a->n_in; i++) {
        if (a->in[i].value != b->in[i].value || a->in[i].coded != b->in[i].coded) return false;
    }
    return true;
}

static dt_status join_call(const pair *p, int64_t i)
{
    dt_trace_call *a = &p->t->call[i], *b = &p->other->call[i];
    if (!same_call(a, b)) return fail(p, a, "which op runs");
    if (!same_options(p, a, b)) return fail(p, a, "an option");
    a->other[p->which] = b->options;
    b->options = NULL;
    return DT_OK;
}

/* ---- examples -------------------------------------------------------------------------------- */

/* Ops that compute along dimensions: an option `dim`, or a list `dims` (none: all). */
static const struct {
    const char *op, *option;
} along[] = { { "softmax", "dim" }, { "log_softmax", "dim" }, { "max", "dim" },
              { "sum", "dims" },    { "mean", "dims" },       { "slice", "dims" } };

/* Whether dimension d of a value, negative from the end, depends on the batch. */
static bool is_batch(const dt_trace_value *v, int64_t d)
{
    if (d < 0) d += v->rank;
    return d >= 0 && d < v->rank && v->extent[d].batch != 0;
}

/* Whether call c computes along a dimension that depends on the batch. */
static bool joins_examples(const dt_trace *t, const dt_trace_call *c, const char *option)
{
    const dt_trace_value *x = &t->value[c->in[0].value];
    if (strcmp(option, "dim") == 0) return is_batch(x, dt__trace_integer(c, "dim"));
    const dt_ints *dims = dt__trace_list(c, "dims");
    bool batch = dims->n == 0;
    for (int i = 0; i < dims->n; i++) batch = batch || is_batch(x, dims->v[i]);
    if (strcmp(c->op->name, "slice") != 0 || !batch || c->out[0] < 0) return batch;
    batch = false; /* a slice may select parts of the batch's length */
    for (int i = 0; i < x->rank; i++) batch = batch || is_batch(&t->value[c->out[0]], i);
    return !batch;
}

/* Refuses calls that combine several examples, and outputs that do not have exactly one dimension
 * that depends on the batch (for states of an LSTM the second): then the results of an example do
 * not depend on the batch. */
static dt_status check_examples(const pair *p)
{
    const dt_trace *t = p->t;
    for (int64_t i = 0; i < t->n_calls; i++) {
        const dt_trace_call *c = &t->call[i];
        for (int k = 0; k < DT__COUNT_OF(along) && c->n_in > 0 && c->in[0].value >= 0; k++) {
            if (strcmp(c->op->name, along[k].op) == 0 && joins_examples(t, c, along[k].option))
                return fail(p, c, "a result of one example");
        }
    }
    for (int i = 0; i < t->n_out; i++) {
        const dt_trace_value *y = &t->value[t->out[i]];
        int of_batch = 0;
        for (int d = 0; d < y->rank; d++) of_batch += y->extent[d].batch;
        if (of_batch == 1) continue;
        return dt_fail(
            t->ctx, DT_ERR_UNSUPPORTED,
            "trace: output %d must have one dimension that grows with the batch; a layer "
            "must treat examples alike",
            i);
    }
    return DT_OK;
}

static bool same_value(const dt_trace_value *a, const dt_trace_value *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank && a->call == b->call;
}

dt_status dt__trace_join(dt_trace *t, dt_trace *other, const dt__trace_size *size,
                         const dt__trace_size *other_size, int which)
{
    const pair p = { t, other, which == 0 ? size->batch : size->length,
                     which == 0 ? other_size->batch : other_size->length, which };
    bool same = t->n_values == other->n_values && t->n_calls == other->n_calls;
    for (int64_t i = 0; i < t->n_values && same; i++) {
        same = same_value(&t->value[i], &other->value[i]);
    }
    if (!same) {
        return dt_fail(t->ctx, DT_ERR_UNSUPPORTED,
                       "trace: which ops the model runs depends on the "
                       "%s",
                       which == 0 ? "batch" : "length");
    }
    for (int64_t i = 0; i < t->n_values; i++) DT__TRY(join_value(&p, i));
    for (int64_t i = 0; i < t->n_calls; i++) DT__TRY(join_call(&p, i));
    return which == 0 ? check_examples(&p) : DT_OK;
}

/* ---- pruning --------------------------------------------------------------------------------- */

/* Marks values and calls on which the outputs depend. */
static void mark(const dt_trace *t, bool *value, bool *call)
{
    for (int i = 0; i < t->n_in; i++) value[t->in[i]] = true;
    for (int i = 0; i < t->n_out; i++) value[t->out[i]] = true;
    for (int64_t i = t->n_calls - 1; i >= 0; i--) {
        const dt_trace_call *c = &t->call[i];
        for (int k = 0; k < c->n_out; k++) call[i] = call[i] || value[c->out[k]];
        for (int k = 0; k < c->n_in && call[i]; k++) {
            if (c->in[k].value >= 0) value[c->in[k].value] = true;
        }
    }
}

/* Moves marked values and calls to the front; `to`: new index of each value, `at`: of each call. */
static void compact(dt_trace *t, const bool *value, const bool *call, int64_t *to, int64_t *at)
{
    int64_t n = 0, calls = 0;
    for (int64_t i = 0; i < t->n_calls; i++) {
        at[i] = call[i] ? calls : -1;
        if (call[i]) t->call[calls++] = t->call[i];
        else dt__trace_call_free(t->ctx, &t->call[i]);
    }
    for (int64_t i = 0; i < t->n_values; i++) {
        to[i] = value[i] ? n : -1;
        if (!value[i] && t->value[i].kind == DT_VALUE_CONSTANT) dt_tensor_free(t->value[i].tensor);
        if (!value[i]) continue;
        t->value[n] = t->value[i];
        if (t->value[n].call >= 0) t->value[n].call = at[t->value[n].call];
        n++;
    }
    t->n_values = n;
    t->n_calls = calls;
}

static void renumber(dt_trace *t, const int64_t *to)
{
    for (int64_t i = 0; i < t->n_calls; i++) {
        dt_trace_call *c = &t->call[i];
        for (int k = 0; k < c->n_in; k++) {
            if (c->in[k].value >= 0) c->in[k].value = to[c->in[k].value];
        }
        for (int k = 0; k < c->n_out; k++) c->out[k] = to[c->out[k]];
    }
    for (int i = 0; i < t->n_in; i++) t->in[i] = to[t->in[i]];
    for (int i = 0; i < t->n_out; i++) t->out[i] = to[t->out[i]];
}

static void set_lifetimes(dt_trace *t)
{
    for (int64_t i = 0; i < t->n_calls; i++) {
        const dt_trace_call *c = &t->call[i];
        for (int k = 0; k < c->n_out; k++) {
            if (c->out[k] >= 0) t->value[c->out[k]].first = t->value[c->out[k]].last = i;
        }
        for (int k = 0; k < c->n_in; k++) {
            if (c->in[k].value < 0) continue;
            dt_trace_value *v = &t->value[c->in[k].value];
            if (v->kind == DT_VALUE_RESULT) v->last = i;
        }
    }
    for (int i = 0; i < t->n_out; i++) t->value[t->out[i]].last = t->n_calls;
}

dt_status dt__trace_prune(dt_trace *t)
{
    const size_t n = (size_t)t->n_values, calls = (size_t)t->n_calls;
    bool *mark_of = dt__alloc_zero(t->ctx, n + calls + 1);
    int64_t *number = dt__alloc_array(t->ctx, (int64_t)(n + calls + 1), sizeof *number);
    if (mark_of != NULL && number != NULL) {
        mark(t, mark_of, mark_of + n);
        compact(t, mark_of, mark_of + n, number, number + n);
        renumber(t, number);
        set_lifetimes(t);
    }
    const bool done = mark_of != NULL && number != NULL;
    DT__RELEASE(t->ctx, mark_of, number);
    return done ? DT_OK : DT_ERR_NOMEM;
}
