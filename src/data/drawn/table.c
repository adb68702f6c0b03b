/* A table of twelve columns in different units, computed from v_0 ... v_9, uniform in -1 ... 1, a
 * switch with three positions, and a column without information. Three hidden numbers:
 *     a = 1.5 v0 v1 + sin(v2 / 2 turns) s         s = -1, 0, 1 by the switch
 *     b = 2 v3^2 - 0.7 + 0.8 v4 - v5 v6
 *     c = |v7| - 0.5 + v8 s + 0.5 v9
 * Targets, each hidden number with noise up to 0.15:
 *     classes  (a > 0) + 2 (b > 0)      values  2 a + b and 3 c - a      bits  a > 0, b > 0, c > 0
 * Only dt__sine and + - * / are used: the same bits on every machine. */
#include "data/drawn/drawn.h"

#define COLUMNS 12
#define LATENT 10
#define CLASSES 4
#define VALUES 2
#define BITS 3

static const char *const class_names[CLASSES] = { "poor", "dry", "hot", "good" };
static const char *const value_names[VALUES] = { "yield", "wear" };
static const char *const bit_names[BITS] = { "check_valve", "check_pump", "check_filter" };

/* Conversion from -1 ... 1 to the units of a column. */
static const struct {
    float middle, spread;
} units[LATENT] = {
    { 20, 15 },    { 1013, 30 }, { 0.5F, 0.5F }, { 300, 280 }, { -40, 5 },
    { 0, 0.001F }, { 7, 2 },     { 5000, 2500 }, { 1, 1 },     { 60, 40 },
};

static float noisy(dt__dice *d, double value)
{
    return (float)(value + (double)dt__roll_between(d, -0.15F, 0.15F));
}

static void draw(const dt_drawn *o, dt__dice *d, float *x, void *target)
{
    double v[LATENT];
    for (int i = 0; i < LATENT; i++) {
        v[i] = (double)dt__roll_between(d, -1, 1);
        x[i] = units[i].middle + units[i].spread * (float)v[i];
    }
    const int position = dt__roll_below(d, 3);
    x[LATENT] = (float)position;
    x[LATENT + 1] = dt__roll_between(d, 0, 100);
    const double s = position - 1;
    const float a = noisy(d, 1.5 * v[0] * v[1] + dt__sine(v[2] / 2) * s);
    const float b = noisy(d, 2 * v[3] * v[3] - 0.7 + 0.8 * v[4] - v[5] * v[6]);
    const float c = noisy(d, (v[7] < 0 ? -v[7] : v[7]) - 0.5 + v[8] * s + 0.5 * v[9]);
    float *y = target;
    if (o->target == DT_TARGET_CLASS) {
        *(int32_t *)target = (a > 0) + 2 * (b > 0);
    } else if (o->target == DT_TARGET_VALUES) {
        y[0] = 2 * a + b;
        y[1] = 3 * c - a;
    } else {
        y[0] = a > 0;
        y[1] = b > 0;
        y[2] = c > 0;
    }
}

dt_status dt_table_create(dt_ctx *ctx, const dt_drawn *o, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, o, out);
    const struct {
        int64_t outputs;
        const char *const *names;
    } targets[] = {
        [DT_TARGET_CLASS] = { CLASSES, class_names },
        [DT_TARGET_VALUES] = { VALUES, value_names },
        [DT_TARGET_BITS] = { BITS, bit_names },
    };
    *out = NULL;
    if ((unsigned)o->target > DT_TARGET_BITS || targets[o->target].outputs == 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "table: targets of kind %d: expected labels, values or bits",
                       (int)o->target);
    }
    const dt__drawing p = { .name = "table",
                            .purpose = DT__FOR_DIGITS,
                            .rank = 1,
                            .dims = { COLUMNS },
                            .outputs = targets[o->target].outputs,
                            .names = targets[o->target].names,
                            .draw = draw };
    return dt__draw(ctx, &p, o, out);
}
