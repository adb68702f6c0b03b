/* Windows of a motion sensor worn on the body: accelerations in g and turning rates in rad/s of
 * three axes each, 128 time steps at 50 Hz. The sensor has a random orientation: gravity is a
 * random unit vector g, and motions are along random axes. A walk or run is a sum of harmonics of a
 * step frequency; ranges of the classes overlap. Only dt__sine, + - * / and sqrt are used: the same
 * bits on every machine. */
#include "data/drawn/drawn.h"

#define MOMENTS 128
#define CHANNELS 6
#define SPEED 50.0 /* time steps a second */

enum { REST, WALK, RUN, SHAKE, ROTATE, TAP, MOTIONS };

static const char *const names[MOTIONS] = { "rest", "walk", "run", "shake", "rotate", "tap" };
static const char *const kinds[2] = { "normal", "anomalous" };

/* Anomaly detection: the normal motions, and the anomalous ones. */
static const int normal[] = { REST, WALK, ROTATE }, anomalous[] = { RUN, SHAKE, TAP };

typedef struct direction {
    double v[3];
} direction;

typedef struct range {
    float low, high;
} range;

/* Periodic motions: frequency in Hz, acceleration in g, rotation in rad/s, relative amplitude of
 * the second and third harmonic. */
static const struct {
    range frequency, force, turning, second, third;
} motions[MOTIONS] = {
    [REST] = { { 0.1F, 0.4F }, { 0, 0.03F }, { 0, 0.1F }, { 0, 0 }, { 0, 0 } },
    [WALK] = { { 1.3F, 2.4F }, { 0.1F, 0.5F }, { 0.2F, 1.2F }, { 0.2F, 0.7F }, { 0, 0.3F } },
    [RUN] = { { 2.1F, 3.4F }, { 0.4F, 1.6F }, { 0.5F, 2.5F }, { 0.3F, 0.8F }, { 0.1F, 0.5F } },
    [SHAKE] = { { 2.4F, 6 }, { 0.4F, 2 }, { 0.3F, 3 }, { 0, 0.2F }, { 0, 0.1F } },
    [ROTATE] = { { 0.15F, 0.6F }, { 0, 0.1F }, { 0, 0.2F }, { 0, 0 }, { 0, 0 } },
    [TAP] = { { 0.1F, 0.4F }, { 0, 0.05F }, { 0, 0.1F }, { 0, 0 }, { 0, 0 } },
};

static double take(dt__dice *d, range r) { return (double)dt__roll_between(d, r.low, r.high); }

static double dot(direction a, direction b)
{
    return a.v[0] * b.v[0] + a.v[1] * b.v[1] + a.v[2] * b.v[2];
}

/* A point uniform on the unit sphere, by rejection from a cube. */
static direction take_direction(dt__dice *d)
{
    for (;;) {
        direction a;
        for (int i = 0; i < 3; i++) a.v[i] = (double)dt__roll_between(d, -1, 1);
        const double length = sqrt(dot(a, a));
        if (length > 1 || length < 0.1) continue;
        for (int i = 0; i < 3; i++) a.v[i] /= length;
        return a;
    }
}

static direction cross(direction a, direction b)
{
    return (direction){ { a.v[1] * b.v[2] - a.v[2] * b.v[1], a.v[2] * b.v[0] - a.v[0] * b.v[2],
                          a.v[0] * b.v[1] - a.v[1] * b.v[0] } };
}

/* a rotated about the unit vector `axis` by `turns` (Rodrigues). */
static direction turned(direction a, direction axis, double turns)
{
    const double c = dt__cosine(turns), s = dt__sine(turns), along = (1 - c) * dot(a, axis);
    const direction side = cross(axis, a);
    for (int i = 0; i < 3; i++) a.v[i] = c * a.v[i] + s * side.v[i] + along * axis.v[i];
    return a;
}

typedef struct motion {
    int label;
    direction gravity, force, axis;
    double frequency, strength, turning, second, third, phase, shift; /* phases in turns */
    double rotation;                                                  /* turns a second */
    double tap[3]; /* time steps of impulses; below 0: none */
    double hardness, noise;
} motion;

static motion take_motion(dt__dice *d, int label)
{
    motion m = { .label = label };
    m.gravity = take_direction(d);
    m.force = take_direction(d);
    m.axis = take_direction(d);
    m.frequency = take(d, motions[label].frequency);
    m.strength = take(d, motions[label].force);
    m.turning = take(d, motions[label].turning);
    m.second = take(d, motions[label].second);
    m.third = take(d, motions[label].third);
    m.phase = take(d, (range){ 0, 1 });
    m.shift = take(d, (range){ 0, 1 });
    m.rotation = label == ROTATE ? take(d, (range){ 0.1F, 0.6F }) : 0;
    const int taps = label == TAP ? 1 + dt__roll_below(d, 3) : 0;
    for (int i = 0; i < 3; i++) m.tap[i] = i < taps ? take(d, (range){ 5, MOMENTS - 10 }) : -1;
    m.hardness = take(d, (range){ 0.5F, 2.5F });
    m.noise = take(d, (range){ 0.02F, 0.15F });
    return m;
}

static double beat(const motion *m, double t, double shift)
{
    const double p = m->frequency * t + m->phase + shift;
    return dt__sine(p) + m->second * dt__sine(2 * p + m->shift) +
           m->third * dt__sine(3 * p + 2 * m->shift);
}

/* Impulses that decay within half a second. */
static double taps_at(const motion *m, int i)
{
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        const double since = (double)i - m->tap[k];
        if (m->tap[k] < 0 || since < 0 || since > 30) continue;
        sum += m->hardness * dt__cosine(since * 0.23) / (1 + since * since * 0.03);
    }
    return sum;
}

static void draw_moment(const motion *m, int i, dt__dice *d, float *x)
{
    const double t = (double)i / SPEED, force = m->strength * beat(m, t, 0) + taps_at(m, i);
    const double turning = m->turning * beat(m, t, 0.3) + 6.283185307179586 * m->rotation;
    const direction g = turned(m->gravity, m->axis, m->rotation * t);
    for (int k = 0; k < 3; k++) {
        const double noise = m->noise * (double)dt__roll_between(d, -1, 1);
        const double drift = m->noise * (double)dt__roll_between(d, -1, 1);
        x[k] = (float)(g.v[k] + force * m->force.v[k] + noise);
        x[k + 3] = (float)(turning * m->axis.v[k] + 2 * drift);
    }
}

static void draw(const dt_drawn *o, dt__dice *d, float *x, void *target)
{
    const bool odd = o->target == DT_TARGET_ANOMALY && o->anomalies && dt__roll_below(d, 2) == 1;
    int label = dt__roll_below(d, o->target == DT_TARGET_CLASS ? MOTIONS : 3);
    *(int32_t *)target = o->target == DT_TARGET_CLASS ? label : odd;
    if (o->target != DT_TARGET_CLASS) label = (odd ? anomalous : normal)[label];
    const motion m = take_motion(d, label);
    for (int i = 0; i < MOMENTS; i++) draw_moment(&m, i, d, x + i * CHANNELS);
}

dt_status dt_sensors_create(dt_ctx *ctx, const dt_drawn *o, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, o, out);
    const bool classes = o->target == DT_TARGET_CLASS;
    const dt__drawing p = { .name = "sensors",
                            .purpose = DT__FOR_DIGITS,
                            .rank = 2,
                            .dims = { MOMENTS, CHANNELS },
                            .outputs = classes ? MOTIONS : 2,
                            .names = classes ? names : kinds,
                            .draw = draw };
    *out = NULL;
    if (classes || o->target == DT_TARGET_ANOMALY) return dt__draw(ctx, &p, o, out);
    return dt_fail(ctx, DT_ERR_ARG, "sensors: targets of kind %d: expected labels or anomalies",
                   (int)o->target);
}
