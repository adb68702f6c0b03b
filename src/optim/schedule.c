/* Schedules of the learning rate in closed form, and the plateau's reductions; the formulas are in
 * optim.h. Sources: cosine and its restarts [Loshchilov and Hutter 2017], one cycle [Smith and
 * Topin 2018, in PyTorch's form with cosines], warmup, stable, decay [Hu et al. 2024]. */
#include "optim/optimizer.h"

#include <detent/experimental/optim.h>
#include <math.h>

/* The position of an update: its number; updates since the end of the warmup; updates from there to
 * the end of the run; and the progress between these two, from 0 to 1. */
typedef struct place {
    int64_t t, after, length;
    double p;
} place;

typedef double (*factor)(const dt_schedule *s, const place *at);

static double between(const dt_schedule *s, double u) { return s->floor + (1.0 - s->floor) * u; }

/* Cosine from 1 to 0 while u goes from 0 to 1. */
static double half_cosine(double u)
{
    const double pi = 3.14159265358979323846;
    return 0.5 * (1.0 + cos(pi * u));
}

static double constant(const dt_schedule *s, const place *at)
{
    (void)s;
    (void)at;
    return 1.0;
}

static double steps(const dt_schedule *s, const place *at)
{
    return pow(s->gamma, (double)(at->after / s->every));
}

static double multistep(const dt_schedule *s, const place *at)
{
    int passed = 0;
    for (int i = 0; i < s->milestones.n; i++) passed += s->milestones.v[i] <= at->t;
    return pow(s->gamma, passed);
}

static double linear(const dt_schedule *s, const place *at) { return between(s, 1.0 - at->p); }

static double cosine(const dt_schedule *s, const place *at)
{
    return between(s, half_cosine(at->p));
}

/* Cycles grow by a factor, so there are few of them; or all have the same length. */
static double cosine_restarts(const dt_schedule *s, const place *at)
{
    int64_t length = s->every, left = at->after;
    if (s->growth <= 1) left %= length;
    while (left >= length) {
        left -= length;
        length = length > INT64_MAX / s->growth ? INT64_MAX : length * s->growth;
    }
    return between(s, half_cosine((double)left / (double)length));
}

static double polynomial(const dt_schedule *s, const place *at)
{
    return between(s, pow(1.0 - at->p, s->power));
}

static double one_cycle(const dt_schedule *s, const place *at)
{
    if (at->p < s->rise) {
        return s->start + (1.0 - s->start) * half_cosine(1.0 - at->p / s->rise);
    }
    return between(s, s->rise < 1 ? half_cosine((at->p - s->rise) / (1.0 - s->rise)) : 0.0);
}

static double warmup_stable_decay(const dt_schedule *s, const place *at)
{
    const int64_t length = dt__max_i64(at->length, 1);
    const int64_t decay = s->decay_steps > 0 ? s->decay_steps : dt__ceil_div(length, 10);
    const int64_t down = dt__min_i64(at->after - (length - decay), decay);
    return down <= 0 ? 1.0 : between(s, 1.0 - (double)down / (double)decay);
}

/* Fields that a schedule requires: with 0 its rate would be 0, or would never fall. */
enum { LENGTH = 1, GAMMA = 2, EVERY = 4, POWER = 8 };

static const struct {
    factor of;
    unsigned needs;
} schedules[] = {
    [DT_CONSTANT] = { constant, 0 },
    [DT_STEP] = { steps, GAMMA | EVERY },
    [DT_LINEAR] = { linear, LENGTH },
    [DT_COSINE] = { cosine, LENGTH },
    [DT_MULTISTEP] = { multistep, GAMMA },
    [DT_COSINE_RESTARTS] = { cosine_restarts, EVERY },
    [DT_POLYNOMIAL] = { polynomial, LENGTH | POWER },
    [DT_ONE_CYCLE] = { one_cycle, LENGTH },
    [DT_WARMUP_STABLE_DECAY] = { warmup_stable_decay, LENGTH },
    [DT_PLATEAU] = { constant, GAMMA },
};

static bool is_known(const dt_schedule *s)
{
    return s->name >= 0 && s->name < DT__COUNT_OF(schedules);
}

static bool is_set(const dt_schedule *s)
{
    const unsigned needs = is_known(s) ? schedules[s->name].needs : 0;
    return !((needs & LENGTH && s->total_steps <= 0) || (needs & GAMMA && !(s->gamma > 0)) ||
             (needs & EVERY && s->every <= 0) || (needs & POWER && !(s->power > 0)));
}

bool dt__schedule_ends(const dt_schedule *s)
{
    return is_known(s) && (schedules[s->name].needs & LENGTH) != 0;
}

double dt_schedule_rate(const dt_schedule *s, double lr, int64_t t)
{
    if (s == NULL) return NAN;
    if (!is_known(s)) return lr;
    if (!is_set(s)) return NAN;
    const int64_t warmup = dt__max_i64(s->warmup_steps, 0), update = dt__max_i64(t, 0);
    const int64_t after = update - warmup, length = s->total_steps - warmup;
    if (after < 0) return lr * (double)(update + 1) / (double)warmup;
    const double p = length > 0 ? fmin((double)after / (double)length, 1.0) : 1.0;
    return lr * schedules[s->name].of(s, &(const place){ update, after, length, p });
}

bool dt_plateau_take(const dt_schedule *s, dt_plateau *p, double loss)
{
    if (s == NULL || p == NULL) return false;
    const bool better = p->seen == 0 || p->best - loss > s->least_improvement;
    p->seen += isfinite(loss);
    if (better && isfinite(loss)) {
        p->best = loss;
        p->waited = 0;
    } else {
        p->waited++;
    }
    if (p->cooling > 0) {
        p->cooling--;
        p->waited = 0;
    }
    if (p->waited < dt__max_i64(s->patience, 1)) return false;
    p->reductions++;
    p->waited = 0;
    p->cooling = s->cooldown;
    return true;
}

double dt_plateau_factor(const dt_schedule *s, const dt_plateau *p)
{
    if (s == NULL) return NAN;
    if (s->name != DT_PLATEAU) return 1.0;
    if (!is_set(s)) return NAN;
    return fmax(pow(s->gamma, (double)p->reductions), s->floor);
}
