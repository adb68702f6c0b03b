/* Runs every check on every case of every op of ops.inc. The suite prints a table of ops, cases and
 * checks, and fails on gaps: an op without cases, a differentiable operand whose gradient is never
 * checked, an op without an error case or a case of zero size. */
#include "ops_run.h"
#include "taken_sets.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DT__OP(name) extern const dt__op_cases dt__cases_of_##name;
#include "ops/ops.inc"
#undef DT__OP

static const dt__op_cases *const all[] = {
#define DT__OP(name) &dt__cases_of_##name,
#include "ops/ops.inc"
#undef DT__OP
};

static const char *op_name(int i) { return all[i]->op->name; }

typedef enum mark { NONE, GOOD, BAD } mark;

/* A case that succeeds, and what it gives on two threads. */
typedef struct subject {
    const dt_op *op;
    const dt__case *k;
    int number; /* of the case */
    ops_outcome f32, f64;
} subject;

/* A check of one case. NONE where it does not apply. */
typedef struct check {
    const char *name;
    mark (*run)(const subject *s);
    bool emulated; /* also of emulated kernels, which `sets` compares with plain C */
} check;

#ifdef DETENT_EMULATE
static const bool emulating = true;
#else
static const bool emulating = false;
#endif

/* Cases of several blocks take longer than all others together. One of three layouts, operands or
 * sets of kernels is enough for them. */
#define LARGE 10000 /* elements of operands */

static bool is_large(const dt__case *k)
{
    int64_t count = 0;
    for (int i = 0; i < ops_count(k); i++) {
        int64_t n = 1;
        for (int d = 0; d < DT_MAX_RANK && k->in[i].dims[d] > 0; d++) n *= k->in[i].dims[d];
        count += n;
    }
    return count > LARGE;
}

/* The step of draws, for a large case at least `large`. */
static int64_t step_of(const dt__case *k, test_draws draws, int64_t large)
{
    const int64_t step = test_count(draws);
    return is_large(k) && !test_all() && step < large ? large : step;
}

/* One of so many operands of a case is tried; the next case tries others. */
static const test_draws operand_steps = { .usual = 1, .sanitized = 5 };

static bool is_drawn(const subject *s, int operand)
{
    const int64_t step = step_of(s->k, operand_steps, 3);
    return ops_count(s->k) <= step || (operand + s->number) % step == 0;
}

static void complain(const dt_op *op, const dt__case *k, const char *format, ...) DT_PRINTF(3, 4);
static void complain(const dt_op *op, const dt__case *k, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("ops: %s, case '%s': ", op->name, k->name);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

/* ---- values and errors ----------------------------------------------------------------------- */

static mark values(const subject *s)
{
    const dt__case *k = s->k;
    mark m = k->n_y > 0 ? GOOD : NONE;
    for (int real = DT_F32; real <= DT_F64; real++) {
        const ops_outcome *o = real == DT_F32 ? &s->f32 : &s->f64;
        const double near = real == DT_F32 ? 1e-6 : 1e-14;
        bool fits = o->status == DT_OK && (k->n_y == 0 || k->n_y == o->y.n);
        for (int i = 0; i < k->n_y && fits; i++) fits = test_near(o->y.v[i], k->y[i], near, near);
        if (fits) continue;
        complain(s->op, k, "%s: expected not the values %s", dt_dtype_name((dt_dtype)real),
                 o->message);
        m = BAD;
    }
    return m;
}

/* "weight f32[2,3]", as messages show an operand. */
static bool names_operands(const dt_op *op, const dt__case *k, const char *message)
{
    dt_ctx *ctx;
    bool named = true;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    for (int i = 0; i < ops_count(k) && named; i++) {
        if (k->in[i].absent) continue;
        dt_tensor *x = ops_operand(ctx, k, i, DT_F32);
        char text[256], shape[200];
        dt_describe(x, shape, sizeof shape);
        const char *name = op->in_name[i] != NULL ? op->in_name[i] : "operand";
        snprintf(text, sizeof text, "%s %s", name, shape);
        named = strstr(message, text) != NULL;
        dt_tensor_free(x);
    }
    dt_ctx_free(ctx);
    return named;
}

static mark refused(const dt_op *op, const dt__case *k)
{
    ops_outcome o;
    ops_run(&(ops_setup){ .op = op, .k = k }, &o);
    const size_t length = strlen(op->name);
    const bool right = o.status == k->fails && strncmp(o.message, op->name, length) == 0 &&
                       o.message[length] == ':' &&
                       (k->says == NULL || strstr(o.message, k->says) != NULL) &&
                       names_operands(op, k, o.message);
    if (!right) complain(op, k, "%s: %s", dt_status_name(o.status), o.message);
    ops_free(&o);
    return right ? GOOD : BAD;
}

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct probe {
    const dt_op *op;
    const dt__case *k;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *in[DT__CASE_IN], *up;
    int n;
} probe;

/* sum of up * y */
static double loss_of(probe *p)
{
    dt_seed(p->ctx, 1);
    dt_tensor *y = dt_apply(p->t, p->op, p->in, p->n, p->k->options);
    ck_assert_msg(y != NULL, "%s", dt_error(p->ctx));
    if (p->up == NULL) p->up = ops_upstream(y);
    double total = 0;
    for (int64_t e = 0; e < y->count; e++) total += ops_at(y, e) * ops_at(p->up, e);
    dt_tape_reset(p->t);
    return total;
}

/* Central differences; a step of 1e-5 leaves an error of about 1e-10. */
static double difference(probe *p, int i, int64_t e)
{
    const double h = 1e-5;
    double *x = (double *)dt_data_mut(p->in[i]) + e;
    const double before = *x;
    *x = before + h;
    const double above = loss_of(p);
    *x = before - h;
    const double below = loss_of(p);
    *x = before;
    return (above - below) / (2 * h);
}

/* One of so many elements: under a sanitizer the values of a gradient do not matter. */
static const test_draws element_steps = { .usual = 1, .sanitized = 7 };

static mark gradient(const subject *s)
{
    const dt_op *op = s->op;
    const dt__case *k = s->k;
    if (op->backward == NULL || k->rough || k->by_lower) return NONE;
    const int64_t step = test_count(element_steps);
    probe p = { .op = op, .k = k, .n = ops_count(k) };
    TEST_OK(NULL, dt_ctx_create(&p.ctx, NULL));
    TEST_OK(p.ctx, dt_tape_create(p.ctx, &p.t));
    for (int i = 0; i < p.n; i++) p.in[i] = ops_operand(p.ctx, k, i, DT_F64);
    mark m = NONE;
    for (int i = 0; i < p.n; i++) {
        if (!ops_differentiable(op, k, i)) continue;
        if (m == NONE) m = GOOD;
        bool near = s->f64.grad[i].v != NULL;
        for (int64_t e = 0; e < p.in[i]->count && near; e += step) {
            const double want = difference(&p, i, e);
            const double got = s->f64.grad[i].v[e];
            near = test_near(got, want, 1e-7, 1e-6);
            if (!near) {
                complain(op, k, "gradient of %s at %lld: %.12g, differences say %.12g",
                         op->in_name[i], (long long)e, got, want);
            }
        }
        if (!near) m = BAD;
        dt_tensor_free(p.in[i]);
        p.in[i] = NULL;
        p.in[i] = ops_operand(p.ctx, k, i, DT_F64);
    }
    dt_tensor_free(p.up);
    for (int i = 0; i < p.n; i++) dt_tensor_free(p.in[i]);
    dt_tape_free(p.t);
    dt_ctx_free(p.ctx);
    return m;
}

/* Two passes double every gradient, exactly. */
static mark adds_up(const subject *s)
{
    if (s->op->backward == NULL) return NONE;
    mark m = NONE;
    ops_outcome twice;
    ops_run(&(ops_setup){ .op = s->op, .k = s->k, .passes = 2 }, &twice);
    for (int i = 0; i < ops_count(s->k); i++) {
        const ops_values once = s->f32.grad[i];
        if (once.v == NULL) continue;
        if (m == NONE) m = GOOD;
        for (int64_t e = 0; e < once.n; e++) {
            if (!test_near(twice.grad[i].v[e], 2 * once.v[e], 0, 0)) m = BAD;
        }
    }
    if (m == BAD) complain(s->op, s->k, "two passes do not double a gradient");
    ops_free(&twice);
    return m;
}

/* ---- layouts, precision, threads, memory ----------------------------------------------------- */

/* One of so many layouts, another for each operand. */
static const test_draws layout_steps = { .usual = 1, .sanitized = 5 };

static mark layouts(const subject *s)
{
    const dt_op *op = s->op;
    const dt__case *k = s->k;
    const int step = (int)step_of(k, layout_steps, 3);
    mark m = GOOD;
    for (int i = 0; i < ops_count(k); i++) {
        if (k->in[i].absent) continue;
        for (int layout = OPS_TRANSPOSED + i % step; layout < OPS_LAYOUTS; layout += step) {
            ops_outcome o;
            ops_run(&(ops_setup){ .op = op, .k = k, .laid = i, .layout = (ops_layout)layout }, &o);
            if (!ops_same(&o, &s->f32) || o.stray) {
                complain(op, k, "operand %s in layout %d: %s %s", op->in_name[i], layout,
                         o.stray ? "a write outside it" : "other values", o.message);
                m = BAD;
            }
            ops_free(&o);
        }
    }
    return m;
}

static mark precision(const subject *s)
{
    const ops_outcome *a = &s->f32, *b = &s->f64;
    bool near = ops_near(a->y, b->y, 1e-5, 1e-6);
    for (int i = 0; i < DT__CASE_IN && near; i++) {
        near = ops_near(a->written[i], b->written[i], 1e-5, 1e-6) &&
               ops_near(a->grad[i], b->grad[i], 1e-4, 1e-6);
    }
    if (!near) complain(s->op, s->k, "f32 is far from f64");
    return near ? GOOD : BAD;
}

static bool alike_by_sets(const ops_setup *setup, const ops_outcome *a, const ops_outcome *b)
{
    const double bound = ops_set_bound(setup->op, setup->real);
    if (bound == 0) return ops_same(a, b);
    bool near = ops_near(a->y, b->y, bound, 1e-6);
    for (int i = 0; i < DT__CASE_IN && near; i++) {
        near = ops_near(a->grad[i], b->grad[i], bound, 1e-6);
    }
    return near;
}

/* One of so many sets: under a sanitizer only plain C, since suite kernels runs all; when emulated
 * each. */
static const test_draws set_steps = { .usual = 1, .sanitized = 4 };
static const test_draws every_set = { .usual = 1, .sanitized = 1 };

/* Whether each lower set of this machine has the results of the best one. Where not all are drawn,
 * `turn` says which. */
static bool sets_agree(ops_setup setup, int turn, const ops_outcome *best)
{
    bool good = true;
    const dt__kernel_set *set;
    const int64_t step = step_of(setup.k, emulating ? every_set : set_steps, 3);
    for (int i = 0; (set = dt__kernel_set_at(i)) != NULL; i++) {
        if ((i + turn) % step != 0 || !test_takes_set(set) || dt__kernel_set_at(i + 1) == NULL)
            continue;
        ops_outcome o;
        setup.set = set->name;
        ops_run(&setup, &o);
        if (!alike_by_sets(&setup, best, &o)) {
            complain(setup.op, setup.k, "the best kernels give other bits than %s %s", set->name,
                     best->message);
            good = false;
        }
        ops_free(&o);
    }
    return good;
}

/* Floats of both widths, and each operand that may be codes. */
static mark sets(const subject *s)
{
    const dt_op *op = s->op;
    const dt__case *k = s->k;
    ops_setup setup = { .op = op, .k = k, .real = DT_F32, .wrap = OPS_BARE };
#ifdef TEST_SANITIZED /* where plain products of this size take seconds; release has them */
    if (is_large(k) && !emulating && !test_all()) return NONE;
#endif
    const int turn = is_large(k) ? s->number : 0;
    bool good = sets_agree(setup, turn, &s->f32);
    setup.real = DT_F64;
    good = sets_agree(setup, turn == 0 ? 0 : turn + 1, &s->f64) && good;
    setup.real = DT_F32;
    setup.wrap = OPS_PARAMETER;
    for (int i = 0; i < ops_count(k); i++) {
        if (op->role[i] != DT_CODES || k->in[i].dtype != DT_F32 || !is_drawn(s, i)) continue;
        ops_outcome best;
        setup.wrapped = i;
        setup.set = NULL;
        ops_run(&setup, &best);
        good = sets_agree(setup, turn == 0 ? 0 : turn + 2 + i, &best) && good;
        ops_free(&best);
    }
    return good ? GOOD : BAD;
}

/* One of so many numbers of threads. */
static const test_draws thread_steps = { .usual = 1, .sanitized = 4 };

static mark threads(const subject *s)
{
    static const int counts[] = { 3, 1, 4, 8 };
    mark m = GOOD;
    for (int real = DT_F32; real <= DT_F64; real++) {
        const ops_outcome *two = real == DT_F32 ? &s->f32 : &s->f64;
        for (int64_t c = 0; c < DT__COUNT_OF(counts); c += step_of(s->k, thread_steps, 2)) {
            ops_setup setup = { s->op, s->k, .real = (dt_dtype)real, .threads = counts[c] };
            ops_outcome o;
            ops_run(&setup, &o);
            if (!ops_same(&o, two)) {
                complain(s->op, s->k, "%d threads give other bits than 2", counts[c]);
                m = BAD;
            }
            ops_free(&o);
        }
    }
    return m;
}

typedef struct work {
    const dt_op *op;
    const dt__case *k;
} work;

static dt_status operands_of(dt_ctx *ctx, const work *w, dt_tensor **in)
{
    for (int i = 0; i < ops_count(w->k); i++) {
        if (w->k->in[i].absent) continue;
        in[i] = ops_operand(ctx, w->k, i, DT_F32);
        if (in[i] == NULL) return dt_error_status(ctx);
        if (ops_differentiable(w->op, w->k, i)) DT__TRY(dt_set_requires_grad(in[i], true));
    }
    return DT_OK;
}

static dt_status forward_and_backward(dt_ctx *ctx, void *user)
{
    const work *w = user;
    dt_tape *t = NULL;
    dt_tensor *in[DT__CASE_IN] = { NULL };
    dt_status s = dt_tape_create(ctx, &t);
    if (s == DT_OK) s = operands_of(ctx, w, in);
    if (s == DT_OK) {
        dt_tensor *y = dt_apply(t, w->op, in, ops_count(w->k), w->k->options), *up = NULL;
        if (y != NULL && y->requires_grad) {
            up = ops_upstream(y);
            if (up == NULL) s = dt_error_status(ctx);
            else dt_backward(t, y, up);
        }
        dt_tensor_free(up);
        if (s == DT_OK) s = dt_tape_status(t);
    }
    for (int i = 0; i < DT__CASE_IN; i++) dt_tensor_free(in[i]);
    dt_tape_free(t);
    return s;
}

static mark memory(const subject *s)
{
    work w = { s->op, s->k };
    test_every_allocation(forward_and_backward, &w);
    return GOOD;
}

/* ---- memory kept for backward --------------------------------------------------------------- */

/* Operand or result i, as the tape keeps it. */
typedef struct place {
    bool result;
    int i;
} place;

static void spoil(dt_tensor *x)
{
    for (int64_t e = 0; e < x->count; e++) {
        if (x->dtype == DT_F32) ((float *)dt__data_mut(x))[e] = NAN;
        else if (x->dtype == DT_F64) ((double *)dt__data_mut(x))[e] = (double)NAN;
    }
    if (!dt__is_float(x->dtype)) {
        memset(dt__data_mut(x), 0, (size_t)x->count * dt_dtype_size(x->dtype));
    }
}

/* Whether a gradient of the case changes when the saved value is overwritten before backward. */
static bool is_read(const dt_op *op, const dt__case *k, place at)
{
    const work w = { op, k };
    ops_outcome plain;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *in[DT__CASE_IN] = { NULL };
    bool changed = false;
    ops_run(&(ops_setup){ .op = op, .k = k }, &plain);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_seed(ctx, 1);
    TEST_OK(ctx, operands_of(ctx, &w, in));
    dt_tensor *y = dt_apply(t, op, in, ops_count(k), k->options);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    dt__replay replay;
    const dt_call *c = &replay.call;
    if (t->n_records > 0) dt__record_replay(t, t->records[0], &replay);
    if (t->n_records > 0 && at.i < (at.result ? c->n_out : c->n_in)) {
        dt_tensor *up = ops_upstream(y), *slot = at.result ? c->out[at.i] : c->arg[at.i];
        if (slot != NULL && slot->storage != NULL) spoil(slot);
        TEST_OK(ctx, dt_backward(t, y, up));
        for (int i = 0; i < ops_count(k); i++) {
            ops_values g = { 0 };
            if (in[i] != NULL && dt_grad(in[i]) != NULL) g = ops_read(dt_grad(in[i]));
            changed = changed || !ops_near(g, plain.grad[i], 0, 0);
            free(g.v);
        }
        dt_tensor_free(up);
    }
    for (int i = 0; i < DT__CASE_IN; i++) dt_tensor_free(in[i]);
    dt_tape_free(t);
    dt_ctx_free(ctx);
    ops_free(&plain);
    return changed;
}

static bool some_case_reads(const dt__op_cases *cases, place at)
{
    bool read = false;
    for (int c = 0; c < cases->n && !read; c++) {
        const dt__case *k = &cases->cases[c];
        read = k->fails == DT_OK && !ops_is_empty(k) && is_read(cases->op, k, at);
    }
    return read;
}

/* ---- fake quantization ----------------------------------------------------------------------- */

static bool near_all(const ops_outcome *a, const ops_outcome *b)
{
    bool near = a->status == b->status && ops_near(a->y, b->y, 1e-5, 1e-6);
    for (int i = 0; i < DT__CASE_IN && near; i++) {
        near = ops_near(a->grad[i], b->grad[i], 1e-4, 1e-6);
    }
    return near;
}

/* Operand i wrapped as `wrap` gives the results `want`. An op with a product of codes may round at
 * other places. */
static bool alike(const subject *s, int i, ops_wrap wrap, const ops_outcome *want)
{
    ops_outcome o;
    ops_run(&(ops_setup){ .op = s->op, .k = s->k, .wrapped = i, .wrap = wrap }, &o);
    const bool coded = s->op->forward_codes != NULL && wrap != OPS_DISABLED;
    const bool equal = coded ? near_all(&o, want) : ops_same(&o, want);
    if (!equal) {
        complain(s->op, s->k, "%s as wrapper %d gives other results: %s%s", s->op->in_name[i],
                 (int)wrap, o.message, want->message);
    }
    ops_free(&o);
    return equal;
}

/* After an in-place op the wrapper's dequantized value is that of the new master. */
static bool image_follows(const dt_op *op, const dt__case *k, int i)
{
    ops_outcome o;
    ops_run(&(ops_setup){ .op = op, .k = k, .wrapped = i, .wrap = OPS_PARAMETER }, &o);
    double most = 0;
    const ops_values master = o.written[i];
    for (int64_t e = 0; e < master.n; e++) most = fmax(most, fabs(master.v[e]));
    const bool follows = ops_near(o.image, master, 0, most / 127.5 * 0.51);
    if (!follows && most > 0) complain(op, k, "the image of %s does not follow", op->in_name[i]);
    ops_free(&o);
    return follows || most == 0;
}

/* Every f32 operand in turn is a FakeQuantTensor: roles READ and CODES read the dequantized value,
 * with gradients on the wrapper; roles WRITE and RAW access the master. */
static mark wrapped(const subject *s)
{
    const dt_op *op = s->op;
    const dt__case *k = s->k;
    mark m = NONE;
    for (int i = 0; i < ops_count(k); i++) {
        if (k->in[i].absent || k->in[i].dtype != DT_F32 || !is_drawn(s, i)) continue;
        const bool raw = op->role[i] == DT_WRITE || op->role[i] == DT_RAW;
        ops_outcome image = { 0 };
        if (!raw) ops_run(&(ops_setup){ op, k, .wrapped = i, .wrap = OPS_IMAGE }, &image);
        bool good = alike(s, i, OPS_PARAMETER, raw ? &s->f32 : &image) &&
                    alike(s, i, OPS_DISABLED, &s->f32);
        if (good && raw) good = op->role[i] != DT_WRITE || image_follows(op, k, i);
        else if (good) good = alike(s, i, OPS_ON_TAPE, &image);
        m = good && m != BAD ? GOOD : BAD;
        ops_free(&image);
    }
    return m;
}

/* ---- the calls of `lower` -------------------------------------------------------------------- */

/* Leaves out elements where an operand is 0: |x| has a kink there. */
static void leave_out_zeros(const subject *s, int i, dt_dtype real, ops_values *a, ops_values *b)
{
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt_tensor *x = ops_operand(ctx, s->k, i, real);
    for (int64_t e = 0; e < x->count; e++) {
        if (ops_at(x, e) == 0) a->v[e] = b->v[e] = 0;
    }
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}

/* The primitives of the op's `lower`: in f64 results and gradients equal those of the op up to
 * rounding, in f32 they are near. */
static mark lowered(const subject *s)
{
    if (s->op->lower == NULL) return NONE;
    mark m = GOOD;
    for (int real = DT_F32; real <= DT_F64; real++) {
        const double bound = real == DT_F32 ? 1e-5 : 1e-12;
        ops_outcome want, o;
        ops_run(&(ops_setup){ s->op, s->k, .real = (dt_dtype)real }, &want);
        ops_run(&(ops_setup){ s->op, s->k, .real = (dt_dtype)real, .lowered = true }, &o);
        bool near = o.status == want.status && ops_near(o.y, want.y, bound, bound);
        for (int i = 0; i < ops_count(s->k) && near && !s->k->rough; i++) {
            if (want.grad[i].v == NULL) continue;
            near = o.grad[i].n == want.grad[i].n;
            if (near) leave_out_zeros(s, i, (dt_dtype)real, &o.grad[i], &want.grad[i]);
            near = near && ops_near(o.grad[i], want.grad[i], bound, bound);
        }
        if (!near) complain(s->op, s->k, "its calls give other results: %s", o.message);
        if (!near) m = BAD;
        ops_free(&o);
        ops_free(&want);
    }
    return m;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const check checks[] = {
    { "values", values, true },    { "gradient", gradient, false }, { "adds up", adds_up, false },
    { "layouts", layouts, false }, { "f32~f64", precision, false }, { "threads", threads, false },
    { "memory", memory, false },   { "wrapped", wrapped, false },   { "sets", sets, true },
    { "lowered", lowered, false },
};

#define CHECKS DT__COUNT_OF(checks)
static const char *const mark_text[] = { "-", "ok", "FAIL" };

typedef struct tally {
    int cases, checks, failures, holes, golden, compared;
} tally;

static void count(tally *total, mark m)
{
    total->checks += m == GOOD || m == BAD;
    total->failures += m == BAD;
}

static void run_case(const dt_op *op, const dt__case *k, int number, tally *total)
{
    mark m[CHECKS] = { NONE };
    if (k->fails != DT_OK) {
        const mark r = refused(op, k);
        printf("%-14s %-20s refused: %s\n", op->name, k->name, mark_text[r]);
        count(total, r);
        return;
    }
    subject s = { .op = op, .k = k, .number = number };
    ops_run(&(ops_setup){ .op = op, .k = k, .real = DT_F32 }, &s.f32);
    ops_run(&(ops_setup){ .op = op, .k = k, .real = DT_F64 }, &s.f64);
    for (int i = 0; i < CHECKS; i++) {
        if (!emulating || checks[i].emulated) m[i] = checks[i].run(&s);
        count(total, m[i]);
    }
    ops_free(&s.f32);
    ops_free(&s.f64);
    printf("%-14s %-20s", op->name, k->name);
    for (int i = 0; i < CHECKS; i++) printf(" %-8s", mark_text[m[i]]);
    printf("\n");
}

static void hole(const dt_op *op, const char *what, const char *which, tally *total)
{
    printf("ops: HOLE: %s: %s%s\n", op->name, what, which);
    total->holes++;
}

static void find_holes(const dt__op_cases *cases, int golden, tally *total)
{
    const dt_op *op = cases->op;
    bool error = false, empty = false, good = false, known = golden > 0,
         checked[DT__CASE_IN] = { false };
    for (int c = 0; c < cases->n; c++) {
        const dt__case *k = &cases->cases[c];
        error = error || k->fails != DT_OK;
        if (k->fails != DT_OK) continue;
        good = true;
        known = known || k->n_y > 0;
        empty = empty || ops_is_empty(k);
        for (int i = 0; i < ops_count(k) && !k->rough && !ops_is_empty(k); i++) {
            checked[i] = checked[i] || ops_differentiable(op, k, i);
        }
    }
    if (!good) hole(op, "no case that succeeds", "", total);
    if (!known) hole(op, "no case with known values, and no reference", "", total);
    if (!error) hole(op, "no error case", "", total);
    if (!empty) hole(op, "no case of zero size", "", total);
    if (op->text == NULL) hole(op, "no sentence", "", total);
    if (op->options_size > 0 && op->keys == NULL) hole(op, "no keys", "", total);
    for (int i = 0; i < DT__CASE_IN && op->in_name[i] != NULL && op->backward != NULL; i++) {
        const bool wants = op->role[i] <= DT_CODES && !op->undifferentiable[i];
        const bool many = strcmp(op->name, "concat") == 0 && i > 2; /* all equal */
        /* straight-through: tests/test_attention_cached.c */
        const bool rounds = strcmp(op->name, "attention_cached") == 0;
        if (!wants || checked[i] || many || rounds) continue;
        hole(op, "gradient never checked: ", op->in_name[i], total);
    }
}

/* A saved value that no backward reads would only occupy memory. */
START_TEST(saved_values_are_read_by_backward)
{
    const dt_op *op = all[_i]->op;
    for (int i = 0; i < DT__CASE_IN; i++) {
        if (op->saves.arg[i] == DT_NOTHING) continue;
        ck_assert_msg(some_case_reads(all[_i], (place){ false, i }), "%s keeps %s in vain",
                      op->name, op->in_name[i]);
    }
    for (int i = 0; i < DT_MAX_OUT; i++) {
        if (op->saves.out[i] == DT_NOTHING) continue;
        ck_assert_msg(some_case_reads(all[_i], (place){ true, i }), "%s keeps %s in vain", op->name,
                      op->out_name[i]);
    }
}
END_TEST

START_TEST(every_op_every_case_every_check)
{
    const dt__op_cases *cases = all[_i];
    tally total = { .cases = cases->n };
    printf("%-14s %-20s", "op", "case");
    for (int i = 0; i < CHECKS; i++) printf(" %-8s", checks[i].name);
    printf("\n");
    for (int c = 0; c < cases->n; c++) run_case(cases->op, &cases->cases[c], c, &total);
    total.failures += ops_golden(cases->op, &total.golden, &total.compared);
    find_holes(cases, total.golden, &total);
    printf("%s: %d cases, %d checks; %d golden cases, %d tensors compared; %d failures, "
           "%d holes\n",
           cases->op->name, total.cases, total.checks, total.golden, total.compared, total.failures,
           total.holes);
    ck_assert_int_eq(total.failures, 0);
    ck_assert_int_eq(total.holes, 0);
}
END_TEST

/* ---- refusals that dispatch words for all ops ------------------------------------------------ */

typedef struct stage {
    dt_ctx *ctx;
    dt_tape *t;
    const dt_op *op;
    const dt__case *k;
    dt_tensor *in[DT__CASE_IN];
    int n;
} stage;

static const dt__case *first_good(const dt__op_cases *cases)
{
    const dt__case *k = cases->cases;
    while (k->fails != DT_OK || ops_is_empty(k)) k++;
    return k;
}

static void open_stage(stage *s, const dt__op_cases *cases)
{
    *s = (stage){ .op = cases->op, .k = first_good(cases) };
    TEST_OK(NULL, dt_ctx_create(&s->ctx, NULL));
    TEST_OK(s->ctx, dt_tape_create(s->ctx, &s->t));
    s->n = ops_count(s->k);
    for (int i = 0; i < s->n; i++) s->in[i] = ops_operand(s->ctx, s->k, i, DT_F32);
}

static void close_stage(stage *s)
{
    for (int i = 0; i < s->n; i++) dt_tensor_free(s->in[i]);
    dt_tape_free(s->t);
    dt_ctx_free(s->ctx);
}

/* With `x` as operand i the op fails with `code`, and the message has the op's name and `text`. */
static void must_refuse(stage *s, int i, dt_tensor *x, dt_status status, const char *text)
{
    dt_tensor *in[DT__CASE_IN];
    memcpy(in, s->in, sizeof in);
    in[i] = x;
    const dt_tensor *y = dt_apply(s->t, s->op, in, s->n, s->k->options);
    const char *says = dt_error(s->ctx);
    ck_assert_msg(y == NULL && dt_tape_status(s->t) == status && strstr(says, text) != NULL &&
                      strncmp(says, s->op->name, strlen(s->op->name)) == 0,
                  "%s, operand %d: %s: %s", s->op->name, i, dt_status_name(dt_tape_status(s->t)),
                  says);
    dt_tape_reset(s->t);
}

START_TEST(null_operands_are_refused)
{
    stage s;
    open_stage(&s, all[_i]);
    for (int i = 0; i < s.n; i++) {
        if (!s.op->optional[i]) must_refuse(&s, i, NULL, DT_ERR_ARG, "is NULL");
    }
    close_stage(&s);
}
END_TEST

START_TEST(mixed_floats_are_refused)
{
    stage s;
    open_stage(&s, all[_i]);
    for (int i = 0; i < s.n; i++) {
        const int other = i > 0 ? 0 : 1;
        if (s.n < 2 || s.k->in[i].dtype != DT_F32 || s.k->in[other].dtype != DT_F32) continue;
        dt_tensor *wide = ops_operand(s.ctx, s.k, i, DT_F64);
        must_refuse(&s, i, wide, DT_ERR_DTYPE, "mix f32 and f64");
        dt_tensor_free(wide);
    }
    close_stage(&s);
}
END_TEST

START_TEST(opaque_and_dropped_operands_are_refused)
{
    const int64_t two = 2;
    stage s;
    open_stage(&s, all[_i]);
    for (int i = 0; i < s.n; i++) {
        dt_tensor *opaque;
        TEST_OK(s.ctx, dt_tensor_create(s.ctx, DT_I4, 1, &two, &opaque));
        must_refuse(&s, i, opaque, DT_ERR_DTYPE, "opaque i4");
        dt_tensor_free(opaque);
        dt_tensor *x = ops_operand(s.ctx, s.k, i, DT_F32);
        dt_tensor *gone = dt_reshape(s.t, x, 1, (const int64_t[]){ -1 });
        dt_drop(s.t, gone);
        must_refuse(&s, i, gone, DT_ERR_STATE, "was dropped");
        dt_tensor_free(x);
    }
    close_stage(&s);
}
END_TEST

/* An in-place op on a tensor that a tape still needs, or on a frozen one. */
START_TEST(writes_that_would_harm_are_refused)
{
    stage s;
    open_stage(&s, all[_i]);
    for (int i = 0; i < s.n; i++) {
        if (s.op->role[i] != DT_WRITE) continue;
        TEST_OK(s.ctx, dt_set_requires_grad(s.in[i], true));
        ck_assert_ptr_nonnull(dt_square(s.t, s.in[i]));
        must_refuse(&s, i, s.in[i], DT_ERR_STATE, "still needed by a recorded square");
        s.in[i]->storage->frozen = true;
        must_refuse(&s, i, s.in[i], DT_ERR_STATE, "frozen");
        s.in[i]->storage->frozen = false;
        TEST_OK(s.ctx, dt_set_requires_grad(s.in[i], false));
    }
    close_stage(&s);
}
END_TEST

START_TEST(evaluation_of_a_frozen_batch_norm_writes_nothing)
{
    stage s;
    open_stage(&s, &dt__cases_of_batch_norm1d);
    for (int i = 3; i < 5; i++) s.in[i]->storage->frozen = true;
    dt_batch_norm_options options = dt_batch_norm_defaults();
    options.training = false;
    const uint64_t version = dt_tensor_version(s.in[3]);
    ck_assert_ptr_nonnull(dt_apply(s.t, s.op, s.in, s.n, &options));
    ck_assert_uint_eq(dt_tensor_version(s.in[3]), version);
    close_stage(&s);
}
END_TEST

/* ---- dropout --------------------------------------------------------------------------------- */

START_TEST(dropout_keeps_its_rate_and_scale)
{
    const int64_t n = 200000;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1, &n, &x));
    TEST_OK(ctx, dt_fill(x, 1));
    for (int tenth = 1; tenth < 10; tenth += 4) {
        const double p = tenth / 10.0;
        const float *y = dt_data(dt_dropout(t, x, p));
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++) {
            ck_assert(y[i] == 0 || y[i] == (float)(1 / (1 - p)));
            kept += y[i] != 0;
        }
        TEST_NEAR((double)kept / (double)n, 1 - p, 5 * sqrt(p * (1 - p) / (double)n), 0);
    }
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

static void draw(uint64_t seed, int threads, int calls, double *y, double *grad)
{
    const int64_t n = 40003;
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = seed;
    options.threads = threads;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x, *up;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, 1, &n, &x));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, 1, &n, &up));
    TEST_OK(ctx, dt_fill(x, 1));
    TEST_OK(ctx, dt_fill(up, 1));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    dt_tensor *out = NULL;
    for (int c = 0; c < calls; c++) out = dt_dropout(t, x, 0.3);
    memcpy(y, dt_data(out), (size_t)n * sizeof(double));
    TEST_OK(ctx, dt_backward(t, out, up));
    memcpy(grad, dt_data(dt_grad(x)), (size_t)n * sizeof(double));
    dt_tensor_free(x);
    dt_tensor_free(up);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

/* Backward drops the elements that forward dropped; they depend on the seed and the number of the
 * call, not on threads. */
/* Element k is decided by word k of the stream, on any number of threads. */
START_TEST(dropout_follows_the_stream)
{
    const int64_t n = 40003;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1, &n, &x));
    TEST_OK(ctx, dt_fill(x, 1));
    for (int call = 0; call < 2; call++) {
        const dt__stream s = ctx->stream[DT__FOR_DROPOUT];
        const float *y = dt_data(dt_dropout(t, x, 0.25));
        for (int64_t k = 0; k < n; k++) {
            uint32_t word[4];
            dt__philox(s.key, s.next + (uint64_t)k / 4, word);
            ck_assert((y[k] != 0) == (word[k % 4] >= 0x40000000u));
        }
    }
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(dropout_replays)
{
    enum { N = 40003 };
    double *v = malloc(8 * N * sizeof(double));
    ck_assert_ptr_nonnull(v);
    const size_t bytes = N * sizeof(double);
    draw(3, 1, 1, v, v + N);
    ck_assert_mem_eq(v, v + N, bytes);
    draw(3, 4, 1, v + 2 * N, v + 3 * N);
    ck_assert_mem_eq(v, v + 2 * N, bytes);
    draw(4, 1, 1, v + 4 * N, v + 5 * N);
    ck_assert_mem_ne(v, v + 4 * N, bytes);
    draw(3, 1, 2, v + 6 * N, v + 7 * N);
    ck_assert_mem_ne(v, v + 6 * N, bytes);
    free(v);
}
END_TEST

/* ---- memory kept for backward ---------------------------------------------------------------- */

START_TEST(relu_keeps_one_bit_an_element)
{
    const int64_t n = 1 << 20;
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 1, &n, &x));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    const size_t before = dt_memory_of(ctx).used;
    dt_drop(t, dt_relu(t, x));
    const size_t kept = dt_memory_of(ctx).used - before;
    ck_assert_msg(kept >= (size_t)n / 8 && kept < (size_t)n / 4, "%zu bytes kept", kept);
    dt_tensor_free(x);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_ops_suite(void)
{
    Suite *s = suite_create("ops");
    TCase *c = tcase_create("table");
    tcase_add_named_test(c, every_op_every_case_every_check, DT__COUNT_OF(all), op_name);
    tcase_add_named_test(c, saved_values_are_read_by_backward, DT__COUNT_OF(all), op_name);
    tcase_add_named_test(c, null_operands_are_refused, DT__COUNT_OF(all), op_name);
    tcase_add_named_test(c, mixed_floats_are_refused, DT__COUNT_OF(all), op_name);
    tcase_add_named_test(c, opaque_and_dropped_operands_are_refused, DT__COUNT_OF(all), op_name);
    tcase_add_named_test(c, writes_that_would_harm_are_refused, DT__COUNT_OF(all), op_name);
    tcase_add_test(c, evaluation_of_a_frozen_batch_norm_writes_nothing);
    tcase_add_test(c, dropout_keeps_its_rate_and_scale);
    tcase_add_test(c, dropout_follows_the_stream);
    tcase_add_test(c, dropout_replays);
    tcase_add_test(c, relu_keeps_one_bit_an_element);
    suite_add_tcase(s, c);
    return s;
}
