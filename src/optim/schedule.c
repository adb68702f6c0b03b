/* Schedules of the learning rate in closed form; the formulas are in optim.h. */
#include "core/core.h"

#include <detent/optim.h>
#include <math.h>

/* p: progress from the end of the warmup (0) to the end of the run (1); after: updates since the
 * end of the warmup. */
typedef double (*factor)(const dt_schedule *s, double p, int64_t after);

static double constant(const dt_schedule *s, double p, int64_t after)
{
    (void)s;
    (void)p;
    (void)after;
    return 1.0;
}

static double steps(const dt_schedule *s, double p, int64_t after)
{
    (void)p;
    return pow(s->gamma, (double)(after / dt__max_i64(s->every, 1)));
}

static double linear(const dt_schedule *s, double p, int64_t after)
{
    (void)after;
    return s->floor + (1.0 - s->floor) * (1.0 - p);
}

static double cosine(const dt_schedule *s, double p, int64_t after)
{
    (void)after;
    const double pi = 3.14159265358979323846;
    return s->floor + (1.0 - s->floor) * 0.5 * (1.0 + cos(pi * p));
}

static const factor factors[] = {
    [DT_CONSTANT] = constant,
    [DT_STEP] = steps,
    [DT_LINEAR] = linear,
    [DT_COSINE] = cosine,
};

double dt_schedule_rate(const dt_schedule *s, double lr, int64_t t)
{
    if (s->name < 0 || s->name >= DT__COUNT_OF(factors)) return lr;
    const int64_t warmup = dt__max_i64(s->warmup_steps, 0), after = dt__max_i64(t, 0) - warmup;
    if (after < 0) return lr * (double)(after + warmup + 1) / (double)warmup;
    const int64_t length = s->total_steps - warmup;
    const double p = length > 0 ? fmin((double)after / (double)length, 1.0) : 1.0;
    return lr * factors[s->name](s, p, after);
}
