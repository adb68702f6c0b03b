/* Measures the latency of a model on this machine: normal passes, alternating with passes whose ops
 * are timed for the table. */
#include "autograd/tape.h"
#include "core/block_list.h"
#include "core/clock.h"
#include "core/quartiles.h"
#include "core/tensor.h"
#include "export/trace/trace.h"
#include "nn/lists/graph.h"
#include "nn/module.h"

#include <detent/experimental/machine.h>

#include <string.h>

#define MOST_TURNS 200
#define SECONDS 1.0 /* unless `repeat` is set */
#define LENGTH 64   /* tokens of a model without a context */

/* An op of a pass, with its times. */
typedef struct timed {
    const char *op, *module; /* the path is a copy */
    double *seconds;         /* per turn */
} timed;

typedef struct profile {
    dt_ctx *ctx;
    dt_module *m;
    dt_tape *t;
    dt_tensor *x[DT_MAX_IN];
    int n_in, n_out, turn;
    bool times;
    timed *row;
    int64_t n, room, at; /* number of rows, and the index of the next op's */
    double begun, *whole;
    void *memory;
    dt_status status;
} profile;

/* ---- a pass ---------------------------------------------------------------------------------- */

static dt_status add_row(profile *p, const dt_op *op)
{
    const char *path = p->t->where == NULL ? "" : p->t->where;
    DT__TRY(DT__RESERVE(p->ctx, p->row, p->n, p->room));
    char *copy = dt__block_list_text(p->ctx, &p->memory, "%s", path);
    double *seconds = dt__block_list_add(p->ctx, &p->memory, MOST_TURNS * sizeof *seconds);
    if (copy == NULL || seconds == NULL) return DT_ERR_NOMEM;
    p->row[p->n++] = (timed){ op->name, copy, seconds };
    return DT_OK;
}

static void on_compute(void *user, const dt_op *op, bool begins)
{
    profile *p = user;
    if (!p->times || p->status != DT_OK) return;
    if (begins) {
        p->begun = dt__seconds();
        return;
    }
    const double seconds = dt__seconds() - p->begun;
    if (p->at == p->n) p->status = add_row(p, op);
    if (p->status == DT_OK) p->row[p->at++].seconds[p->turn] = seconds;
}

static dt_status run(profile *p, bool times)
{
    dt_tensor *y[DT_MAX_OUT] = { NULL };
    dt_tape_reset(p->t);
    p->times = times;
    p->at = 0;
    const double before = dt__seconds();
    const dt_status s = dt_forward_n(p->t, p->m, p->x, p->n_in, y, p->n_out);
    if (!times) p->whole[p->turn] = dt__seconds() - before;
    return s != DT_OK ? s : p->status;
}

/* Runs both kinds of passes alternately. The first ones, which allocate memory, are not counted. */
static dt_status run_turns(profile *p, int repeat)
{
    for (int k = 0; k < 2; k++) DT__TRY(run(p, k == 1));
    const double end = dt__seconds() + SECONDS;
    const int most = repeat > 0 ? (int)dt__min_i64(repeat, MOST_TURNS) : MOST_TURNS;
    while (p->turn < most && (repeat > 0 || p->turn < 3 || dt__seconds() < end)) {
        DT__TRY(run(p, false));
        DT__TRY(run(p, true));
        p->turn++;
    }
    return DT_OK;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static dt_status make_input(profile *p, const dt_trace_input *in, int i, int64_t batch)
{
    int64_t dims[DT_MAX_RANK];
    memcpy(dims, in->dims, sizeof dims);
    dims[0] = batch;
    if (in->tokens) dims[1] = in->context > 0 ? in->context : LENGTH;
    DT__TRY(dt_tensor_create(p->ctx, in->dtype, in->rank, dims, &p->x[i]));
    return in->dtype == DT_F32 && in->below == 0 ? dt_fill_normal(p->x[i], 0, 1)
                                                 : dt_fill(p->x[i], 0);
}

static dt_status begin(profile *p, const dt_model_info *info, int64_t batch)
{
    dt_trace_input in[DT_MAX_IN];
    DT__TRY(dt__trace_inputs_of(p->m, info, in, &p->n_in));
    for (int i = 0; i < p->n_in; i++) DT__TRY(make_input(p, &in[i], i, batch));
    p->n_out = dt__module_outputs(p->m);
    p->whole = dt__block_list_add(p->ctx, &p->memory, MOST_TURNS * sizeof *p->whole);
    if (p->whole == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt_tape_create(p->ctx, &p->t));
    dt_no_grad(p->t, true);
    p->t->on_compute = on_compute;
    p->t->on_compute_user = p;
    return DT_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void tell(profile *p, const dt_latency_options *o, dt_latency *out)
{
    const dt__quartiles whole = dt__quartiles_of(p->turn, p->whole);
    *out = (dt_latency){ .batch = o->batch,
                         .repetitions = p->turn,
                         .threads = dt_threads(p->ctx),
                         .seconds = whole.median,
                         .low = whole.low,
                         .high = whole.high };
    for (int64_t i = 0; i < p->n; i++) {
        out->in_ops += dt__quartiles_of(p->turn, p->row[i].seconds).median;
    }
    for (int64_t i = 0; i < p->n && o->visit != NULL; i++) {
        const double seconds = dt__quartiles_of(p->turn, p->row[i].seconds).median;
        const dt_latency_op row = { p->row[i].module, p->row[i].op, seconds,
                                    out->in_ops > 0 ? seconds / out->in_ops : 0 };
        o->visit(o->user, &row);
    }
}

dt_status dt_latency_measure(dt_module *m, const dt_model_info *info, const dt_latency_options *o,
                             dt_latency *out)
{
    DT__NEED4(dt_module_ctx(m), m, info, o, out);
    profile p = { .ctx = dt_module_ctx(m), .m = m };
    if (o->batch < 1 || o->repeat < 0) {
        return dt_fail(p.ctx, DT_ERR_ARG,
                       "latency: the batch is %lld and must be at least 1; repeat is %d and must "
                       "not be negative",
                       (long long)o->batch, o->repeat);
    }
    const bool training = dt_is_training(m);
    dt_train(m, false);
    dt_status s = begin(&p, info, o->batch);
    if (s == DT_OK) s = run_turns(&p, o->repeat);
    if (s == DT_OK) tell(&p, o, out);
    dt_train(m, training);
    dt_tape_free(p.t);
    for (int i = 0; i < DT_MAX_IN; i++) dt_tensor_free(p.x[i]);
    dt__release(p.ctx, p.row);
    dt__block_list_free(p.ctx, &p.memory);
    return s;
}
