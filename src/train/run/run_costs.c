/* Measures the time of an update by op, forward and backward, and the speed of its multiply-adds
 * compared with one large float product on this machine. */
#include "autograd/tape.h"
#include "core/clock.h"
#include "core/tensor.h"
#include "train/run/run.h"

#include <detent/ops.h>

#define SIDE 512     /* of the matrices of that product */
#define TURNS 4      /* repetitions; fewer, */
#define SECONDS 0.05 /* if they take longer than this */

static void on_compute(void *user, const dt_op *op, bool begins)
{
    dt__costs *c = user;
    if (begins && c->depth++ == 0) c->begun = dt__seconds();
    if (begins || --c->depth > 0) return; /* an op within another op counts as the outer one */
    const double seconds = dt__seconds() - c->begun;
    int i = 0;
    while (i < c->n && c->part[i].op != op->name) i++;
    if (i == DT__COSTS) return;
    if (i == c->n) c->part[c->n++] = (dt_step_part){ .op = op->name };
    c->part[i].share += seconds;
}

void dt__costs_begin(dt__costs *c, dt_tape *t)
{
    *c = (dt__costs){ .tape = t };
    t->on_compute = on_compute;
    t->on_compute_user = c;
}

void dt__costs_end(dt__costs *c, double seconds, dt_step_part *most)
{
    c->tape->on_compute = NULL;
    for (int i = 0; i < DT_STEP_PARTS && i < c->n; i++) {
        int at = i;
        for (int k = i + 1; k < c->n; k++) {
            if (c->part[k].share > c->part[at].share) at = k;
        }
        const dt_step_part part = c->part[at];
        c->part[at] = c->part[i];
        c->part[i] = most[i] = part;
        most[i].share /= seconds;
    }
}

dt_status dt__costs_product(dt_tape *t, double *speed)
{
    dt_ctx *ctx = t->ctx;
    dt_tensor *x = NULL;
    const int64_t dims[] = { SIDE, SIDE };
    DT__TRY(dt_tensor_create(ctx, DT_F32, 2, dims, &x));
    dt_status s = dt_fill(x, 0.5);
    dt_no_grad(t, true);
    double best = 0;
    const double end = dt__seconds() + SECONDS;
    for (int i = 0; i < TURNS && s == DT_OK && (i == 0 || dt__seconds() < end); i++) {
        const double before = dt__seconds();
        dt_matmul(t, x, x);
        const double seconds = dt__seconds() - before;
        if (i == 0 || seconds < best) best = seconds;
        s = dt_tape_status(t);
        dt_tape_reset(t);
    }
    dt_no_grad(t, false);
    dt_tensor_free(x);
    *speed = best > 0 ? (double)SIDE * SIDE * SIDE / best : 0;
    return s;
}
