/* Rotary position embedding (Su et al. 2021), and the scalings of Llama's rope_scaling.
 *     (u, v) -> (u cos a - v sin a, u sin a + v cos a), a = position f_j, f_j = theta^(-2j / n)
 * Backward rotates dy by -a. With longrope [Ding et al. 2024] f_j is divided by divisors[j], and
 * the rotated pairs are multiplied by the amplitude, in both directions. */
#include "autograd/op.h"
#include "ops/ops_list.h"
#include "ops/attention/rotary_frequency.h"

#include <math.h>
#include <string.h>

#define AT(field) .offset = offsetof(dt_rotary_options, field)

static const dt_rotary_options defaults = { .theta = 10000,
                                            .factor = 1,
                                            .low_freq_factor = 1,
                                            .high_freq_factor = 4,
                                            .original_context = 8192,
                                            .amplitude = 1 };

dt_rotary_options dt_rotary_defaults(void) { return defaults; }

static const char *const pairings[] = { "half", "interleaved", NULL };
static const char *const scalings[] = { "plain", "linear", "llama3", "longrope", NULL };

static const dt_key keys[] = {
    { "layout", DT_KEY_CHOICE, AT(pairing), .choices = pairings, .fallback = "half" },
    { "rotary_dim", DT_KEY_INT, AT(rotary_dim), .most = DT_NO_LIMIT, .fallback = "0" },
    { "theta", DT_KEY_REAL, AT(theta), .most = DT_NO_LIMIT, .fallback = "10000" },
    { "scaling", DT_KEY_CHOICE, AT(scaling), .choices = scalings, .fallback = "plain" },
    { "factor", DT_KEY_REAL, AT(factor), .most = DT_NO_LIMIT, .fallback = "1" },
    { "low_freq_factor", DT_KEY_REAL, AT(low_freq_factor), .most = DT_NO_LIMIT, .fallback = "1" },
    { "high_freq_factor", DT_KEY_REAL, AT(high_freq_factor), .most = DT_NO_LIMIT, .fallback = "4" },
    { "original_context", DT_KEY_INT, AT(original_context), .most = DT_NO_LIMIT,
      .fallback = "8192" },
    { "divisors", DT_KEY_REALS, AT(divisors), .most = DT_NO_LIMIT, .fallback = "[]" },
    { "amplitude", DT_KEY_REAL, AT(amplitude), .most = DT_NO_LIMIT, .fallback = "1" },
    { 0 },
};

static dt_status check_options(const dt_call *c)
{
    const dt_rotary_options *o = c->options;
    if (o->pairing < DT_ROTARY_HALF || o->pairing > DT_ROTARY_INTERLEAVED) {
        return dt_refuse(c, DT_ERR_ARG, "pairing %d is none of DT_ROTARY_...", o->pairing);
    }
    if (o->scaling < DT_ROPE_PLAIN || o->scaling > DT_ROPE_LONGROPE) {
        return dt_refuse(c, DT_ERR_ARG, "scaling %d is none of DT_ROPE_...", o->scaling);
    }
    if (!(o->theta > 0)) return dt_refuse(c, DT_ERR_ARG, "theta is %g, not above 0", o->theta);
    if (o->scaling == DT_ROPE_LONGROPE) return DT_OK; /* check_divisors */
    if (o->scaling != DT_ROPE_PLAIN && !(o->factor > 0)) {
        return dt_refuse(c, DT_ERR_ARG, "factor is %g, not above 0", o->factor);
    }
    if (o->scaling == DT_ROPE_LLAMA3 &&
        !(o->low_freq_factor > 0 && o->high_freq_factor > o->low_freq_factor &&
          o->original_context > 0)) {
        return dt_refuse(c, DT_ERR_ARG,
                         "llama3 requires 0 < low_freq_factor < high_freq_factor and "
                         "original_context above 0, not %g, %g and %lld",
                         o->low_freq_factor, o->high_freq_factor, (long long)o->original_context);
    }
    return DT_OK;
}

static dt_status check_divisors(const dt_call *c, int64_t pairs)
{
    const dt_rotary_options *o = c->options;
    if (o->scaling != DT_ROPE_LONGROPE) return DT_OK;
    if (o->divisors.n != pairs || pairs > DT_MAX_REALS) {
        return dt_refuse(
            c, DT_ERR_ARG,
            "longrope requires a divisor for each of %lld pairs, and has %d; %d are the most",
            (long long)pairs, o->divisors.n, DT_MAX_REALS);
    }
    for (int i = 0; i < o->divisors.n; i++) {
        if (o->divisors.v[i] > 0 && isfinite(o->divisors.v[i])) continue;
        return dt_refuse(c, DT_ERR_ARG, "divisor %d is %g, not above 0", i, o->divisors.v[i]);
    }
    if (o->amplitude > 0 && isfinite(o->amplitude)) return DT_OK;
    return dt_refuse(c, DT_ERR_ARG, "amplitude is %g, not above 0", o->amplitude);
}

/* state[0]: pairs */
static dt_status shape(dt_call *c)
{
    const dt_rotary_options *o = c->options;
    DT__TRY(dt__want_operands(c, 2, 2));
    DT__TRY(dt__want_rank(c, 0, 4, 4));
    DT__TRY(dt__want_dtype(c, 1, DT_I32));
    DT__TRY(dt__want_rank(c, 1, 1, 2));
    DT__TRY(check_options(c));
    const int64_t *dims = c->in[0]->dims;
    const int rank = c->in[1]->rank;
    DT__TRY(dt__want_dims(c, 1, rank, dims + 2 - rank));
    if (o->rotary_dim < 0 || o->rotary_dim > dims[3]) {
        return dt_refuse(c, DT_ERR_ARG, "rotary_dim is %lld, outside 0...%lld",
                         (long long)o->rotary_dim, (long long)dims[3]);
    }
    const int64_t turning = o->rotary_dim > 0 ? o->rotary_dim : dims[3];
    if (turning % 2 != 0) {
        return dt_refuse(c, DT_ERR_ARG, "%lld elements of a head make no pairs",
                         (long long)turning);
    }
    DT__TRY(check_divisors(c, turning / 2));
    c->state[0] = turning / 2;
    c->scratch_bytes = (size_t)c->state[0] * sizeof(double);
    return dt__shape_like(c, 0);
}

static size_t scratch(const dt_call *c) { return (size_t)c->state[0] * sizeof(double); }

/* The frequency with scaling llama3. */
static double scaled_frequency(const dt_rotary_options *o, double frequency)
{
    const double waves = (double)o->original_context * frequency / (2 * 3.14159265358979323846);
    if (waves < o->low_freq_factor) return frequency / o->factor;
    if (waves > o->high_freq_factor) return frequency;
    const double share = (waves - o->low_freq_factor) / (o->high_freq_factor - o->low_freq_factor);
    return (1 - share) * frequency / o->factor + share * frequency;
}

double dt__rotary_frequency(const dt_rotary_options *o, int64_t pair, int64_t pairs)
{
    const double frequency = pow(o->theta, -(double)pair / (double)pairs);
    if (o->scaling == DT_ROPE_LINEAR) return frequency / o->factor;
    if (o->scaling == DT_ROPE_LONGROPE) return frequency / o->divisors.v[pair];
    return o->scaling == DT_ROPE_LLAMA3 ? scaled_frequency(o, frequency) : frequency;
}

double dt__rotary_amplitude(const dt_rotary_options *o)
{
    return o->scaling == DT_ROPE_LONGROPE ? o->amplitude : 1;
}

static void turn(const dt_call *c, const dt_tensor *x, bool back, dt_tensor *y)
{
    const dt_rotary_options *o = c->options;
    const dt_tensor *position = c->arg[1];
    double *frequency = c->scratch;
    for (int64_t j = 0; j < c->state[0]; j++) {
        frequency[j] = dt__rotary_frequency(o, j, c->state[0]);
    }
    dt__rotary r = { .batch = x->dims[0],
                     .time = x->dims[1],
                     .heads = x->dims[2],
                     .width = x->dims[3],
                     .pairs = c->state[0],
                     .interleaved = o->pairing == DT_ROTARY_INTERLEAVED,
                     .back = back,
                     .amplitude = dt__rotary_amplitude(o),
                     .frequency = frequency,
                     .position = dt__data(position),
                     .x.x = dt__data(x),
                     .y = dt__data_mut(y) };
    memcpy(r.position_strides + 2 - position->rank, position->strides,
           (size_t)position->rank * sizeof position->strides[0]);
    memcpy(r.x.strides, x->strides, sizeof r.x.strides);
    c->kernels->rotary(&r);
}

static void forward(const dt_call *c) { turn(c, c->arg[0], false, c->y); }

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    turn(c, dy, true, dx[0]);
}

const dt_op dt__op_rotary = {
    .name = "rotary",
    .text = "pairs (u, v) of a head become (u cos - v sin, u sin + v cos) of position frequency[j]",
    .in_name = { "x", "position" },
    .out_name = { "y" },
    .undifferentiable = { false, true },
    .strided = true,
    .saves = { .arg = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_rotary_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .scratch = scratch,
};

dt_tensor *dt_rotary(dt_tape *t, dt_tensor *x, dt_tensor *position,
                     const dt_rotary_options *options)
{
    return dt_apply(t, &dt__op_rotary, DT__CALL_WITH(options, x, position));
}

#define WITH(...) DT__WITH(dt_rotary_options, .theta = 100, __VA_ARGS__)
#define POSITION(...) __VA_ARGS__, .low = 0, .high = 50, .dtype = DT_I32
#define LLAMA3                                                                                     \
    .scaling = DT_ROPE_LLAMA3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4,           \
    .original_context = 64
#define LONGROPE .scaling = DT_ROPE_LONGROPE, .divisors = { 2, { 2, 4 } }, .amplitude = 1.5

/* At position 1, frequencies 1 and 1/10. */
static const dt__case cases[] = {
    { "halves",
      .in = { { { 1, 1, 1, 5 }, .given = true, .values = { 1, 1, 0, 0, 7 } },
              { { 1 }, .given = true, .values = { 1 }, .dtype = DT_I32 } },
      .options = WITH(.rotary_dim = 4), .n_y = 5,
      .y = { 0.54030230586813972, 0.99500416527802577, 0.8414709848078965, 0.099833416646828152,
             7 } },
    { "neighbours",
      .in = { { { 1, 1, 1, 4 }, .given = true, .values = { 1, 0, 0, 1 } },
              { { 1, 1 }, .given = true, .values = { 1 }, .dtype = DT_I32 } },
      .options = WITH(.pairing = DT_ROTARY_INTERLEAVED), .n_y = 4,
      .y = { 0.54030230586813972, 0.8414709848078965, -0.099833416646828152,
             0.99500416527802577 } },
    { "linear",
      .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 0 } },
              { { 1 }, .given = true, .values = { 10 }, .dtype = DT_I32 } },
      .options = WITH(.scaling = DT_ROPE_LINEAR, .factor = 10), .n_y = 2,
      .y = { 0.54030230586813972, 0.8414709848078965 } },
    { "llama3",
      .in = { { { 1, 1, 1, 6 }, .given = true, .values = { 1, 1, 1, 0, 0, 0 } },
              { { 1 }, .given = true, .values = { 3 }, .dtype = DT_I32 } },
      .options = WITH(LLAMA3), .n_y = 6,
      .y = { -0.9899924966004454, 0.9535557986668483, 0.9998485201353698, 0.1411200080598672,
             0.30121643187055586, 0.017405079233111822 } },
    { "longrope",
      .in = { { { 1, 1, 1, 4 }, .given = true, .values = { 1, 1, 0, 0 } },
              { { 1 }, .given = true, .values = { 2 }, .dtype = DT_I32 } },
      .options = WITH(LONGROPE), .n_y = 4,
      .y = { 0.8104534588022096, 1.4981253905924494, 1.2622064772118446, 0.0749687539060175 } },
    { "longrope of many", .in = { { { 2, 3, 2, 6 } }, { POSITION({ 2, 3 }) } },
      .options = WITH(LONGROPE, .rotary_dim = 4) },
    { "divisors", .in = { { { 1, 1, 1, 6 } }, { POSITION({ 1 }) } }, .options = WITH(LONGROPE),
      .fails = DT_ERR_ARG, .says = "a divisor for each of 3 pairs, and has 2" },
    { "a divisor", .in = { { { 1, 1, 1, 2 } }, { POSITION({ 1 }) } },
      .options = WITH(.scaling = DT_ROPE_LONGROPE, .divisors = { 1, { 0 } }, .amplitude = 1),
      .fails = DT_ERR_ARG, .says = "divisor 0 is 0" },
    { "amplitude", .in = { { { 1, 1, 1, 2 } }, { POSITION({ 1 }) } },
      .options = WITH(.scaling = DT_ROPE_LONGROPE, .divisors = { 1, { 1 } }), .fails = DT_ERR_ARG,
      .says = "amplitude is 0" },
    { "batch", .in = { { { 2, 3, 2, 6 } }, { POSITION({ 2, 3 }) } } },
    { "same positions", .in = { { { 2, 3, 2, 6 } }, { POSITION({ 3 }) } },
      .options = WITH(.rotary_dim = 4) },
    { "neighbours of many", .in = { { { 2, 3, 2, 10 } }, { POSITION({ 2, 3 }) } },
      .options = WITH(.pairing = DT_ROTARY_INTERLEAVED, .rotary_dim = 8) },
    { "wide", .in = { { { 3, 40, 3, 150 } }, { POSITION({ 40 }) } }, .rough = true },
    { "far", .in = { { { 1, 3, 1, 4 } }, { { 3 }, .low = 1e6, .high = 9e8, .dtype = DT_I32 } },
      .rough = true },
    { "no positions", .in = { { { 2, 0, 2, 4 } }, { { 0 }, 1, .dtype = DT_I32 } } },
    { "no elements", .in = { { { 2, 1, 2, 0 }, 4 }, { POSITION({ 1 }) } } },
    { "odd", .in = { { { 1, 1, 1, 3 } }, { POSITION({ 1 }) } }, .fails = DT_ERR_ARG,
      .says = "3 elements of a head make no pairs" },
    { "too many", .in = { { { 1, 1, 1, 4 } }, { POSITION({ 1 }) } },
      .options = WITH(.rotary_dim = 6), .fails = DT_ERR_ARG,
      .says = "rotary_dim is 6, outside 0...4" },
    { "positions", .in = { { { 2, 3, 1, 4 } }, { POSITION({ 2 }) } }, .fails = DT_ERR_SHAPE,
      .says = "position must be [3]" },
    { "float positions", .in = { { { 1, 2, 1, 4 } }, { { 2 } } }, .fails = DT_ERR_DTYPE },
    { "rank", .in = { { { 2, 3, 4 } }, { POSITION({ 3 }) } }, .fails = DT_ERR_SHAPE,
      .says = "rank 3" },
    { "theta", .in = { { { 1, 1, 1, 4 } }, { POSITION({ 1 }) } },
      .options = &(const dt_rotary_options){ .theta = 0 }, .fails = DT_ERR_ARG, .says = "theta" },
    { "factor", .in = { { { 1, 1, 1, 4 } }, { POSITION({ 1 }) } },
      .options = &(const dt_rotary_options){ .theta = 1, .scaling = DT_ROPE_LINEAR },
      .fails = DT_ERR_ARG, .says = "factor is 0" },
    { "bounds of llama3", .in = { { { 1, 1, 1, 4 } }, { POSITION({ 1 }) } },
      .options =
          WITH(.scaling = DT_ROPE_LLAMA3, .factor = 8, .low_freq_factor = 4, .high_freq_factor = 4),
      .fails = DT_ERR_ARG, .says = "low_freq_factor < high_freq_factor" },
    { "pairing", .in = { { { 1, 1, 1, 4 } }, { POSITION({ 1 }) } }, .options = WITH(.pairing = 2),
      .fails = DT_ERR_ARG, .says = "pairing 2" },
    { "scaling", .in = { { { 1, 1, 1, 4 } }, { POSITION({ 1 }) } }, .options = WITH(.scaling = 4),
      .fails = DT_ERR_ARG, .says = "scaling 4" },
    { "integers", .in = { { { 1, 1, 1, 4 }, .dtype = DT_I32 }, { POSITION({ 1 }) } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(rotary, cases)
