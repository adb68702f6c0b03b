/* The common part of batch_norm1d and batch_norm2d: batch normalization per channel (Ioffe and
 * Szegedy 2015).
 *     z = x / factor      y = f((z - mean) / sqrt(var + eps) * weight + bias + residual)
 * Mean and variance are those of z. f is the identity, relu or relu6; the last two keep one bit per
 * element for backward. Training uses the batch's mean and biased variance and updates the running
 * values (the variance by the unbiased one). Evaluation uses the running values. Statistics that
 * were used are kept for backward in f64. */
#include "ops/norm/batch_norm_ops.h"

#include "ops/device/device_ops.h"
#include "ops/ops_list.h"

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR, RESIDUAL, FACTOR };
enum { Y, STATS, BITS };

#define AT(field) .offset = offsetof(dt_batch_norm_options, field)

const dt_batch_norm_options dt__batch_norm_defaults = { .training = true,
                                                        .momentum = 0.1,
                                                        .eps = 1e-5 };

dt_batch_norm_options dt_batch_norm_defaults(void) { return dt__batch_norm_defaults; }

const dt_key dt__batch_norm_keys[] = {
    { "training", DT_KEY_BOOL, AT(training), .fallback = "true" },
    { "momentum", DT_KEY_REAL, AT(momentum), .most = 1, .fallback = "0.1" },
    { "eps", DT_KEY_REAL, AT(eps), .most = 1, .fallback = "1e-5" },
    { "activation", DT_KEY_CHOICE, AT(activation), .choices = dt__device_activation_names,
      .fallback = "none" },
    { 0 },
};

bool dt__batch_norm_writes(const void *options)
{
    return ((const dt_batch_norm_options *)options)->training;
}

static dt_status check_options(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    if (!(o->eps >= 0)) return dt_refuse(c, DT_ERR_ARG, "eps is %g, below 0", o->eps);
    if (!(o->momentum >= 0 && o->momentum <= 1)) {
        return dt_refuse(c, DT_ERR_ARG, "momentum is %g, outside 0...1", o->momentum);
    }
    return dt__device_check_activation(c, o->activation);
}

/* x as [batch, channels, elements of a plane]. */
static dt__lines lines_of(const dt_tensor *x)
{
    int64_t inner = 1;
    for (int i = 2; i < x->rank; i++) inner *= x->dims[i];
    return (dt__lines){ x->dims[0], x->dims[1], inner };
}

static size_t scratch_of(const dt__lines *l)
{
    return (size_t)dt__batch_norm_room(l) * sizeof(double);
}

/* Whether statistics are computed over all shards of the batch (cluster.sync_norm). */
static bool is_synced(const dt_call *c)
{
    return c->tape->add_norms != NULL && dt__batch_norm_writes(c->options);
}

static size_t room_of(const dt_call *c, const dt__lines *l)
{
    return scratch_of(l) + (is_synced(c) ? 4 * (size_t)l->n * sizeof(double) : 0);
}

size_t dt__batch_norm_scratch(const dt_call *c)
{
    const dt__lines l = lines_of(c->arg[X]);
    return room_of(c, &l);
}

static bool has_activation(const dt_call *c, int activation)
{
    return ((const dt_batch_norm_options *)c->options)->activation == activation;
}

static dt_status make_results(dt_call *c, const dt__lines *l)
{
    const dt_tensor *x = c->in[X];
    DT__TRY(dt_result(c, Y, x->dtype, x->rank, x->dims));
    DT__TRY(dt_result(c, STATS, DT_F64, 2, (const int64_t[]){ 3, l->n }));
    if (!c->recording || has_activation(c, DT_ACT_NONE)) return DT_OK;
    const int64_t images[2] = { l->outer * l->n, dt__bit_row(l->inner) };
    const int64_t points[2] = { l->outer, dt__bit_row(l->n) };
    return dt_result(c, BITS, DT_U8, 2, l->inner == 1 ? points : images);
}

dt_status dt__batch_norm_shape(dt_call *c, int least, int most)
{
    DT__TRY(dt__want_operands(c, 5, 7));
    DT__TRY(dt__want_float(c, X));
    DT__TRY(dt__want_rank(c, X, least, most));
    const dt_tensor *x = c->in[X];
    for (int i = 1; i < c->n_in; i++) {
        if (c->in[i] == NULL) continue;
        DT__TRY(dt__want_float(c, i));
        if (i == RESIDUAL) DT__TRY(dt__want_dims(c, i, x->rank, x->dims));
        else DT__TRY(dt__want_dims(c, i, 1, x->dims + 1));
    }
    DT__TRY(check_options(c));
    const dt__lines l = lines_of(x);
    const bool alone = dt__batch_norm_writes(c->options) && !is_synced(c);
    if (alone && l.outer * l.inner < 2 && l.n > 0) {
        return dt_refuse(c, DT_ERR_SHAPE, "%lld values a channel; training requires at least 2",
                         (long long)(l.outer * l.inner));
    }
    c->scratch_bytes = room_of(c, &l);
    return make_results(c, &l);
}

static dt__batch_norm problem(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    return (dt__batch_norm){ .lines = lines_of(c->arg[X]),
                             .eps = o->eps,
                             .training = o->training,
                             .relu = has_activation(c, DT_ACT_RELU),
                             .relu6 = has_activation(c, DT_ACT_RELU6),
                             .x = dt__data(c->arg[X]),
                             .weight = dt__arg_data(c, WEIGHT),
                             .factor = dt__arg_data(c, FACTOR),
                             .stats = dt__data_mut(c->out[STATS]),
                             .room = c->scratch,
                             .bits = c->out[BITS] != NULL ? dt__data_mut(c->out[BITS]) : NULL };
}

/* After DT__NORM_SUMS: gets the sums over all shards, for DT__NORM_APPLY. */
static void add_shards(const dt_call *c, dt__batch_norm *b, bool backward)
{
    dt__norm_sums s = { .channels = b->lines.n,
                        .backward = backward,
                        .count = (double)(b->lines.outer * b->lines.inner),
                        .own = b->own,
                        .all = b->own + 2 * b->lines.n };
    c->tape->add_norms(c->tape->add_norms_user, &s);
    b->stage = DT__NORM_APPLY;
    b->all = s.all;
    b->all_count = s.all_count;
}

static void begin_sums(const dt_call *c, dt__batch_norm *b)
{
    b->stage = DT__NORM_SUMS;
    b->own = (double *)c->scratch + dt__batch_norm_room(&b->lines);
}

void dt__batch_norm_forward(const dt_call *c)
{
    const dt_batch_norm_options *o = c->options;
    void *mean = dt__data_mut(c->arg[RUNNING_MEAN]), *var = dt__data_mut(c->arg[RUNNING_VAR]);
    dt__batch_norm b = problem(c);
    b.bias = dt__arg_data(c, BIAS);
    b.residual = dt__arg_data(c, RESIDUAL);
    b.mean = mean;
    b.var = var;
    b.y = dt__data_mut(c->y);
    if (is_synced(c)) {
        begin_sums(c, &b);
        c->kernels->batch_norm(&b);
        add_shards(c, &b, false);
    }
    c->kernels->batch_norm(&b);
    if (o->training) c->kernels->batch_norm_running(&b, o->momentum, mean, var);
}

void dt__batch_norm_backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    static const int operands[5] = { X, WEIGHT, BIAS, RESIDUAL, FACTOR };
    dt__batch_norm b = problem(c);
    void *d[5] = { NULL };
    for (int i = 0; i < 5; i++) {
        if (dx[operands[i]] != NULL) d[i] = dt__data_mut(dx[operands[i]]);
    }
    if (is_synced(c)) {
        begin_sums(c, &b);
        c->kernels->batch_norm_backward(&b, dt__data(dy), d);
        add_shards(c, &b, true);
    }
    c->kernels->batch_norm_backward(&b, dt__data(dy), d);
}

static dt_tensor *apply(dt_tape *t, const dt_op *op, dt_tensor *x, const dt_batch_norm_operands *o,
                        const dt_batch_norm_options *options)
{
    dt_tensor *in[] = { x,           o->weight, o->bias, o->running_mean, o->running_var,
                        o->residual, o->factor };
    const int n = o->factor != NULL ? 7 : o->residual != NULL ? 6 : 5;
    return dt_apply(t, op, in, n, options);
}

dt_tensor *dt_batch_norm1d(dt_tape *t, dt_tensor *x, const dt_batch_norm_operands *operands,
                           const dt_batch_norm_options *options)
{
    DT__NEED_OP(t, operands);
    return apply(t, &dt__op_batch_norm1d, x, operands, options);
}

dt_tensor *dt_batch_norm2d(dt_tape *t, dt_tensor *x, const dt_batch_norm_operands *operands,
                           const dt_batch_norm_options *options)
{
    DT__NEED_OP(t, operands);
    return apply(t, &dt__op_batch_norm2d, x, operands, options);
}

void dt__batch_norm_lower(dt_tape *t, dt_tensor *const *in, const void *options, dt_tensor **out)
{
    const dt_batch_norm_options *o = options;
    if (o->training) return; /* it updates statistics, which no other op does */
    dt_tensor *v[FACTOR + 1] = { NULL }, *x = in[X];
    int64_t dims[DT_MAX_RANK] = { x->dims[1] };
    for (int i = 2; i < x->rank; i++) dims[i - 1] = 1;
    for (int i = WEIGHT; i <= FACTOR; i++) {
        if (in[i] != NULL && i != RESIDUAL) v[i] = dt_reshape(t, in[i], x->rank - 1, dims);
    }
    if (in[FACTOR] != NULL) x = dt_div(t, x, v[FACTOR]);
    x = dt_sub(t, x, v[RUNNING_MEAN]);
    x = dt_div(t, x, dt_sqrt(t, dt_add(t, v[RUNNING_VAR], dt_number(t, in[X], o->eps))));
    if (in[WEIGHT] != NULL) x = dt_mul(t, x, v[WEIGHT]);
    if (in[BIAS] != NULL) x = dt_add(t, x, v[BIAS]);
    if (in[RESIDUAL] != NULL) x = dt_add(t, x, in[RESIDUAL]);
    if (o->activation == DT_ACT_RELU) x = dt_relu(t, x);
    out[0] = o->activation == DT_ACT_RELU6 ? dt_relu6(t, x) : x;
}
