/* The cost of rounding a weight (rounding_cost.h), and measuring its speed on this machine with a
 * random weight. */
#include "ptq/rounding_cost.h"

#include "core/tensor.h"
#include "ptq/layer.h"

#include <detent/qat.h>

#define FILL 32  /* copying an input into a slice takes the time of so many multiply-adds */
#define CODE 200 /* likewise choosing a code and comparing it with nearest */

#define COLUMN 3e5  /* likewise starting the loops of a column */
#define FACTOR 1000 /* likewise, times columns squared: the quadratic part of a factor */

double dt__sums_cost(int64_t groups, int64_t columns, bool differ, double samples)
{
    const double inputs = samples * (double)groups * (double)columns, c = (double)columns;
    return inputs * (differ ? 2 * c + 2 * FILL : c / 2 + FILL);
}

double dt__factor_cost(int64_t columns)
{
    return (double)columns * (double)columns * ((double)columns + FACTOR);
}

double dt__codes_cost(const dt__method *method, int64_t rows, int64_t columns)
{
    const double r = (double)rows, c = (double)columns;
    return dt__needs_data(method) ? c * (r * (c + CODE) + COLUMN) : r * c * CODE;
}

void dt__round_cost_add(dt_ctx *ctx, const dt__round_case *of, dt__round_cost *cost)
{
    dt__work_shape s;
    if (dt__work_shape_of(ctx, "", of->op, of->rank, of->dims, &s) != DT_OK) return;
    const double groups = (double)s.groups, weights = groups * (double)s.rows * (double)s.columns;
    cost->codes += groups * dt__codes_cost(of->method, s.rows, s.columns);
    if (!dt__needs_data(of->method)) return;
    cost->forward += (of->differ ? 2 : 1) * of->samples * weights;
    cost->sums += dt__sums_cost(s.groups, s.columns, of->differ, of->samples);
    if (of->method->rounder->prepare != NULL) cost->factor += groups * dt__factor_cost(s.columns);
}

void dt__plan_rounding(dt_ctx *ctx, const dt__round_cost *cost)
{
    dt__plan_work(ctx, DT__FORWARD, cost->forward);
    dt__plan_work(ctx, DT__SUMS, cost->sums);
    dt__plan_work(ctx, DT__FACTOR, cost->factor);
    dt__plan_work(ctx, DT__ROUND, cost->codes);
}

/* ---- times ---------------------------------------------------------------------------------- */

#define LONG 8e9 /* multiply-adds in double that take about a second */
/* COLUMNS is large enough for a factor to reach its full speed. */
enum { ROWS = 128, COLUMNS = 1024, SAMPLES = 1024 };

static dt_status draw(dt_ctx *ctx, int64_t rows, int64_t columns, dt_tensor **out)
{
    DT__TRY(dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ rows, columns }, out));
    float *x = dt_data_mut(*out);
    dt__stream numbers = { .key = 1 };
    for (int64_t i = 0; i < rows * columns; i++) x[i] = (float)dt__random_unit(&numbers) - 0.5F;
    return DT_OK;
}

typedef struct drawn {
    dt_tensor *weight, *x;
    dt_statistics *statistics;
    dt_rounded *rounded;
} drawn;

static dt_status round_drawn(dt_ctx *ctx, int rounder, drawn *d)
{
    const dt_weight_op linear = { .kind = DT_WEIGHT_LINEAR };
    dt_quant_spec quant, activation;
    dt_rounding_options options = dt_rounding_defaults();
    const dt__method *method = dt__method_of(rounder);
    const bool differ = method->rounder->needs_float;
    options.rounder = rounder;
    if (method->bounded) options.accumulator.bits = 32;
    dt_qat_preset(DT_INT8_DYNAMIC_INT4_WEIGHT, &quant, &activation);
    DT__TRY(draw(ctx, ROWS, COLUMNS, &d->weight));
    DT__TRY(draw(ctx, SAMPLES, COLUMNS, &d->x));
    DT__TRY(dt_statistics_create(ctx, &linear, 2, d->weight->dims, differ, &d->statistics));
    dt__pass_work(ctx);
    DT__TRY(dt_statistics_add(d->statistics, d->x, differ ? d->x : NULL));
    const dt_round_work work = { .weight = d->weight,
                                 .op = &linear,
                                 .quant = &quant,
                                 .options = &options,
                                 .statistics = d->statistics };
    return dt_round(ctx, &work, &d->rounded, NULL);
}

static dt_status try_drawn(dt_ctx *ctx, int rounder)
{
    drawn d = { .weight = NULL };
    const dt_status s = round_drawn(ctx, rounder, &d);
    dt_rounded_free(ctx, d.rounded);
    dt_statistics_free(d.statistics);
    DT__TENSORS_FREE(d.weight, d.x);
    return s;
}

/* Rounds a random weight twice. The first run allocates memory and starts libraries; only the
 * second one counts. */
dt_status dt__try_rounding(dt_ctx *ctx, int rounder, const dt__round_cost *planned)
{
    const dt__method *method = dt__method_of(rounder);
    if (method == NULL || !dt__needs_data(method) ||
        planned->sums + planned->factor + planned->codes < LONG) {
        return DT_OK;
    }
    const dt__ledger before = ctx->work;
    const dt_memory memory = ctx->pool.count;
    ctx->work.trying = true;
    dt_status s = try_drawn(ctx, rounder);
    ctx->work = before;
    ctx->work.trying = true;
    if (s == DT_OK) s = try_drawn(ctx, rounder);
    ctx->work.trying = false;
    ctx->pool.count.peak = memory.peak; /* the trial does not count */
    dt__pass_work(ctx);
    return s;
}
