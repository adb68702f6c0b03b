/* Sounds for keyword spotting: 12 classes of tones, chirps, beeps and noises of one second at
 * 8 kHz, with background noise and hum. A sound lasts from `onset` for `length` seconds; at the
 * fraction u of its length it has
 *     frequency  f0 sweep(u)
 *     loudness   gate(u), with 10 ms of attack and release
 * Only dt__sine and + - * / are used: the samples, rounded to 16 bits, are the same on every
 * machine. */
#include "data/drawn/drawn.h"

#define RATE DT_SOUNDS_RATE

typedef enum source { NOTHING, TONE, CHORD, NOISE, CLICKS } source;
typedef enum sweep { LEVEL, UP, DOWN, UP_DOWN, VIBRATO } sweep;
typedef enum gate { STEADY, TREMOLO, TWICE, THRICE } gate;

static const struct {
    source source;
    sweep sweep;
    gate gate;
} sounds[DT_SOUNDS] = {
    { NOTHING, LEVEL, STEADY }, { TONE, LEVEL, STEADY },  { CHORD, LEVEL, STEADY },
    { TONE, UP, STEADY },       { TONE, DOWN, STEADY },   { TONE, UP_DOWN, STEADY },
    { TONE, VIBRATO, STEADY },  { TONE, LEVEL, TREMOLO }, { TONE, LEVEL, TWICE },
    { TONE, LEVEL, THRICE },    { NOISE, LEVEL, STEADY }, { CLICKS, LEVEL, STEADY },
};

static const char *const names[DT_SOUNDS] = {
    "background", "tone",    "chord", "rise",   "fall", "siren",
    "vibrato",    "tremolo", "twice", "thrice", "hiss", "clicks",
};

typedef struct voice {
    double frequency, span; /* Hz; range of a sweep relative to the frequency */
    double speed;           /* of vibrato, tremolo and clicks, per second */
    double harmonics;       /* relative amplitude of the second and third harmonic */
    double onset, length, loudness;
    double noise, hum, hum_frequency;
} voice;

static voice take_voice(dt__dice *d)
{
    voice v;
    v.frequency = (double)dt__roll_between(d, 350, 1100);
    v.span = (double)dt__roll_between(d, 0.3F, 1.2F);
    v.speed = (double)dt__roll_between(d, 5, 11);
    v.harmonics = (double)dt__roll_between(d, 0, 0.5F);
    v.length = (double)dt__roll_between(d, 0.35F, 0.75F);
    v.onset = (double)dt__roll_between(d, 0, 1) * (1 - v.length);
    v.loudness = (double)dt__roll_between(d, 0.08F, 0.4F);
    v.noise = (double)dt__roll_between(d, 0.01F, 0.15F);
    v.hum = (double)dt__roll_between(d, 0, 0.1F);
    v.hum_frequency = (double)dt__roll_between(d, 50, 250);
    return v;
}

static double sweep_at(sweep s, const voice *v, double u, double t)
{
    switch (s) {
    case UP: return 1 + v->span * u;
    case DOWN: return 1 + v->span * (1 - u);
    case UP_DOWN: return 1 + v->span * (u < 0.5 ? 2 * u : 2 - 2 * u);
    case VIBRATO: return 1 + 0.12 * dt__sine(v->speed * t);
    default: return 1;
    }
}

static double gate_at(gate g, const voice *v, double u, double t)
{
    switch (g) {
    case TREMOLO: return 0.5 + 0.5 * dt__sine(v->speed * t);
    case TWICE: return u < 0.35 || u > 0.65 ? 1 : 0;
    case THRICE: return u < 0.2 || (u > 0.4 && u < 0.6) || u > 0.8 ? 1 : 0;
    default: return 1;
    }
}

static double ramp(const voice *v, double u)
{
    const double edge = 0.01 / v->length, from = u / edge, to = (1 - u) / edge;
    const double least = from < to ? from : to;
    return least < 1 ? least : 1;
}

/* The waveform at `phase`, in turns. */
static double wave(source s, const voice *v, double phase, double t, dt__dice *d)
{
    if (s == NOISE) return (double)dt__roll_between(d, -1, 1);
    if (s == CLICKS) {
        const double at = v->speed * t - floor(v->speed * t);
        return at < 0.05 ? (double)dt__roll_between(d, -2, 2) : 0;
    }
    const double rich = dt__sine(phase) + v->harmonics * dt__sine(2 * phase) +
                        0.5 * v->harmonics * dt__sine(3 * phase);
    return s == CHORD ? 0.6 * (rich + dt__sine(1.26 * phase) + dt__sine(1.5 * phase)) : rich;
}

static void draw(const dt_drawn *o, dt__dice *d, float *x, void *target)
{
    (void)o;
    const int label = dt__roll_below(d, DT_SOUNDS);
    const voice v = take_voice(d);
    double phase = (double)dt__roll_between(d, 0, 1);
    *(int32_t *)target = label;
    for (int i = 0; i < RATE; i++) {
        const double t = (double)i / RATE, u = (t - v.onset) / v.length;
        double y =
            v.noise * (double)dt__roll_between(d, -1, 1) + v.hum * dt__sine(v.hum_frequency * t);
        if (sounds[label].source != NOTHING && u >= 0 && u < 1) {
            phase += v.frequency * sweep_at(sounds[label].sweep, &v, u, t) / RATE;
            y += v.loudness * ramp(&v, u) * gate_at(sounds[label].gate, &v, u, t) *
                 wave(sounds[label].source, &v, phase, t, d);
        }
        y = y < -1 ? -1 : y > 1 ? 1 : y;
        x[i] = (float)(floor(y * 32767 + 0.5) / 32768);
    }
}

dt_status dt_sounds_create(dt_ctx *ctx, const dt_drawn *o, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, o, out);
    static const dt__drawing p = { .name = "sounds",
                                   .purpose = DT__FOR_DIGITS,
                                   .rank = 2,
                                   .dims = { RATE, 1 },
                                   .rate = RATE,
                                   .outputs = DT_SOUNDS,
                                   .names = names,
                                   .draw = draw };
    *out = NULL;
    if (o->target == DT_TARGET_CLASS) return dt__draw(ctx, &p, o, out);
    return dt_fail(ctx, DT_ERR_ARG, "sounds: targets of kind %d: expected labels", (int)o->target);
}
