/* Cross entropy of logits and integer labels, in one pass over the logits (online softmax, Milakov
 * and Gimelshein 2018).  With p = softmax(x) along the classes, the loss of a row is
 *     l = (1-s) (-log p[label]) + s mean over classes of (-log p)
 *     dx = (p - (1-s) [label] - s/C) dloss, for the mean divided by the number of rows
 * Rows whose label is ignore_index are left out: loss 0, gradient 0, not counted. With a weight w
 * of each class the two terms are (1-s) w[label] (-log p[label]) and s mean over classes of
 * w (-log p), and the mean divides by the sum of w[label], as PyTorch's. With a gamma g and s = 0,
 * the focal loss (Lin et al. 2017, equations 4 and 5):
 *     l = w[label] (1 - p[label])^g (-log p[label]) */
#include "ops/ops_list.h"
#include "ops/softmax.h"

#include <math.h>

static const char *const reductions[] = { "mean", "sum", NULL };

#define AT(field) .offset = offsetof(dt_cross_entropy_options, field)

static const dt_key keys[] = {
    { "reduction", DT_KEY_CHOICE, AT(reduction), .choices = reductions, .fallback = "mean" },
    { "ignore_index", DT_KEY_INT, AT(ignore_index), .fallback = "-100" },
    { "label_smoothing", DT_KEY_REAL, AT(label_smoothing), .most = 1, .fallback = "0" },
    { "gamma", DT_KEY_REAL, AT(gamma), .most = 100, .fallback = "0" },
    { 0 },
};

static const dt_cross_entropy_options defaults = { .ignore_index = -100 };

dt_cross_entropy_options dt_cross_entropy_defaults(void) { return defaults; }

static dt_status check_options(const dt_call *c)
{
    const dt_cross_entropy_options *o = c->options;
    if (o->reduction != DT_REDUCE_MEAN && o->reduction != DT_REDUCE_SUM) {
        return dt_refuse(c, DT_ERR_ARG, "reduction %d does not exist", o->reduction);
    }
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1)) {
        return dt_refuse(c, DT_ERR_ARG, "label_smoothing is %g, outside 0...1", o->label_smoothing);
    }
    if (!(o->gamma >= 0 && o->gamma <= 100)) {
        return dt_refuse(c, DT_ERR_ARG, "gamma is %g, outside 0...100", o->gamma);
    }
    if (o->gamma > 0 && o->label_smoothing > 0) {
        return dt_refuse(c, DT_ERR_ARG, "gamma and label_smoothing exclude each other");
    }
    return DT_OK;
}

static dt_status check_weight(const dt_call *c)
{
    const dt_tensor *weight = c->arg[2];
    if (weight == NULL) return DT_OK;
    DT__TRY(dt__want_dtype(c, 2, c->in[0]->dtype));
    DT__TRY(dt__want_dims(c, 2, 1, &c->in[0]->dims[1]));
    for (int64_t i = 0; i < weight->count; i++) {
        const double value = dt__real_at(weight, i);
        if (value >= 0 && isfinite(value)) continue;
        return dt_refuse(c, DT_ERR_ARG, "weight[%lld] is %g: expected finite and at least 0",
                         (long long)i, value);
    }
    return DT_OK;
}

/* state[0]: the number of rows not ignored */
static dt_status shape(dt_call *c)
{
    const dt_cross_entropy_options *o = c->options;
    DT__TRY(dt__want_operands(c, 2, 3));
    DT__TRY(dt__want_float(c, 0));
    DT__TRY(dt__want_rank(c, 0, 2, DT_MAX_RANK));
    DT__TRY(check_options(c));
    const dt_tensor *x = c->in[0], *labels = c->arg[1];
    int64_t dims[DT_MAX_RANK] = { x->dims[0] };
    for (int d = 2; d < x->rank; d++) dims[d - 1] = x->dims[d];
    DT__TRY(dt__want_dims(c, 1, x->rank - 1, dims));
    DT__TRY(dt__want_indices(c, 1, x->dims[1], &o->ignore_index));
    DT__TRY(check_weight(c));
    c->state[0] = 0;
    for (int64_t k = 0; k < labels->count; k++) {
        c->state[0] += dt__index_at(labels, k) != o->ignore_index;
    }
    const int64_t rows[2] = { labels->count, 2 };
    c->scratch_bytes = ((size_t)labels->count + 1) * sizeof(double);
    DT__TRY(dt_result(c, 0, x->dtype, 0, NULL));
    return dt_result(c, 1, x->dtype, 2, rows);
}

static dt__cross_entropy problem(const dt_call *c)
{
    const dt_cross_entropy_options *o = c->options;
    return (dt__cross_entropy){ .lines = dt__lines_of(c->arg[0], 1),
                                .x = dt__data(c->arg[0]),
                                .labels = dt__data(c->arg[1]),
                                .wide = c->arg[1]->dtype == DT_I64,
                                .ignore = o->ignore_index,
                                .smoothing = o->label_smoothing,
                                .gamma = o->gamma,
                                .weight = c->arg[2] == NULL ? NULL : dt__data(c->arg[2]),
                                .row = dt__data_mut(c->out[1]),
                                .loss = c->scratch };
}

/* The divisor of the sum over rows; 1 if all are ignored, or have weight 0. */
static double divisor(const dt_call *c)
{
    const dt_cross_entropy_options *o = c->options;
    const dt_tensor *labels = c->arg[1], *weight = c->arg[2];
    if (o->reduction == DT_REDUCE_SUM || c->state[0] == 0) return 1;
    if (weight == NULL) return (double)c->state[0];
    double sum = 0;
    for (int64_t i = 0; i < labels->count; i++) {
        const int64_t label = dt__index_at(labels, i);
        sum += label == o->ignore_index ? 0 : dt__real_at(weight, label);
    }
    return sum == 0 ? 1 : sum;
}

static void forward(const dt_call *c)
{
    const dt__cross_entropy p = problem(c);
    const int64_t rows = c->arg[1]->count;
    c->kernels->cross_entropy(&p);
    dt__kernels_of(c->ctx, DT_F64)
        ->sum(&(dt__reduce){ .rank = 1,
                             .dims = { rows },
                             .over = { true },
                             .divisor = divisor(c),
                             .x = p.loss,
                             .y = p.loss + rows });
    c->kernels->fill(1, p.loss[rows], dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const dt__cross_entropy p = problem(c);
    c->kernels->cross_entropy_backward(&p, dt__scalar(dy) / divisor(c), dt__data_mut(dx[0]));
}

const dt_op dt__op_cross_entropy = {
    .name = "cross_entropy",
    .text = "the mean or sum of -log softmax(x)[label] over the rows",
    .in_name = { "x", "labels", "weight" },
    .out_name = { "loss", "row" },
    .undifferentiable = { false, true, true },
    .optional = { false, false, true },
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_cross_entropy_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_cross_entropy(dt_tape *t, dt_tensor *x, dt_tensor *labels,
                            const dt_cross_entropy_options *options)
{
    return dt_weighted_cross_entropy(t, x, labels, NULL, options);
}

dt_tensor *dt_weighted_cross_entropy(dt_tape *t, dt_tensor *x, dt_tensor *labels, dt_tensor *weight,
                                     const dt_cross_entropy_options *options)
{
    return dt_apply(t, &dt__op_cross_entropy, DT__CALL_WITH(options, x, labels, weight));
}

#define LABELS(...) __VA_ARGS__, .low = 0, .high = 3, .dtype = DT_I32
#define WITH(...) DT__WITH(dt_cross_entropy_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, -1 } },
              { { 2 }, .given = true, .values = { 1, 0 }, .dtype = DT_I64 } },
      .n_y = 1, .y = { 0.1657058077180163 } },
    { "ignored",
      .in = { { { 3, 3 } }, { { 3 }, .given = true, .values = { 1, -100, 0 }, .dtype = DT_I32 } } },
    { "all ignored",
      .in = { { { 2, 3 } }, { { 2 }, .given = true, .values = { 7, 7 }, .dtype = DT_I32 } },
      .options = WITH(.ignore_index = 7), .n_y = 1, .y = { 0 } },
    { "smoothed", .in = { { { 4, 3 } }, { LABELS({ 4 }) } },
      .options = WITH(.label_smoothing = 0.3, .ignore_index = 1) },
    { "summed", .in = { { { 4, 3 } }, { LABELS({ 4 }) } },
      .options = WITH(.ignore_index = -100, .reduction = DT_REDUCE_SUM) },
    { "weighted", /* (1 log(1 + e) + 0.25 log(1 + e^4)) / 1.25 */
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, -1 } },
              { { 2 }, .given = true, .values = { 0, 1 }, .dtype = DT_I64 },
              { { 2 }, .given = true, .values = { 1, 0.25 } } },
      .n_y = 1, .y = { 1.8542393355981404 } },
    { "weighted, smoothed values",
      .in = { { { 2, 3 }, .given = true, .values = { 0, 1, 2, 1, -1, 0.5 } },
              { { 2 }, .given = true, .values = { 2, 0 }, .dtype = DT_I32 },
              { { 3 }, .given = true, .values = { 1, 2, 0.5 } } },
      .options = WITH(.label_smoothing = 0.3, .ignore_index = -100), .n_y = 1,
      .y = { 1.128685960490104 } },
    { "weighted and smoothed",
      .in = { { { 2, 3, 5 } }, { LABELS({ 2, 5 }) }, { { 3 }, .low = 0.25, .high = 2 } },
      .options = WITH(.label_smoothing = 0.3, .ignore_index = 1) },
    { "weighted sum", .in = { { { 4, 3 } }, { LABELS({ 4 }) }, { { 3 }, .low = 0.25, .high = 2 } },
      .options = WITH(.ignore_index = -100, .reduction = DT_REDUCE_SUM) },
    { "focal", /* p = 1/(1+e), 1/(1+e^4): (1-p)^2 (-log p), the mean */
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, -1 } },
              { { 2 }, .given = true, .values = { 0, 1 }, .dtype = DT_I64 } },
      .options = WITH(.gamma = 2, .ignore_index = -100), .n_y = 1, .y = { 2.2883877706843663 } },
    { "focal and sure", /* p = 1 */
      .in = { { { 1, 2 }, .given = true, .values = { 0, 800 } },
              { { 1 }, .given = true, .values = { 1 }, .dtype = DT_I64 } },
      .options = WITH(.gamma = 2, .ignore_index = -100), .n_y = 1, .y = { 0 } },
    { "focal sum", .in = { { { 4, 3 } }, { LABELS({ 4 }) } },
      .options = WITH(.reduction = DT_REDUCE_SUM, .gamma = 2.5, .ignore_index = 1) },
    { "weighted and focal",
      .in = { { { 2, 3, 5 } }, { LABELS({ 2, 5 }) }, { { 3 }, .low = 0.25, .high = 2 } },
      .options = WITH(.gamma = 0.5, .ignore_index = -100) },
    { "gamma", .in = { { { 2, 3 } }, { LABELS({ 2 }) } },
      .options = WITH(.ignore_index = -100, .gamma = -1), .fails = DT_ERR_ARG,
      .says = "gamma is -1" },
    { "gamma and smoothing", .in = { { { 2, 3 } }, { LABELS({ 2 }) } },
      .options = WITH(.ignore_index = -100, .gamma = 1, .label_smoothing = 0.1),
      .fails = DT_ERR_ARG, .says = "exclude each other" },
    { "images", .in = { { { 2, 3, 4, 5 } }, { LABELS({ 2, 4, 5 }) } } },
    { "many classes",
      .in = { { { 40, 1300 } }, { { 40 }, .low = 0, .high = 1300, .dtype = DT_I32 } },
      .options = WITH(.ignore_index = -100, .label_smoothing = 0.1), .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0 }, 1, .dtype = DT_I32 } }, .n_y = 1, .y = { 0 } },
    { "label",
      .in = { { { 2, 3 } }, { { 2 }, .given = true, .values = { 1, 3 }, .dtype = DT_I32 } },
      .fails = DT_ERR_ARG, .says = "labels[1] is 3, outside 0...2" },
    { "labels' shape", .in = { { { 2, 3 } }, { LABELS({ 3 }) } }, .fails = DT_ERR_SHAPE,
      .says = "labels must be [2]" },
    { "float labels", .in = { { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_DTYPE },
    { "weights", .in = { { { 2, 3 } }, { LABELS({ 2 }) }, { { 2 } } }, .fails = DT_ERR_SHAPE,
      .says = "weight must be [3]" },
    { "weight",
      .in = { { { 2, 3 } }, { LABELS({ 2 }) }, { { 3 }, .given = true, .values = { 1, 2, -1 } } },
      .fails = DT_ERR_ARG, .says = "weight[2] is -1" },
    { "rank", .in = { { { 3 } }, { LABELS({ 3 }) } }, .fails = DT_ERR_SHAPE, .says = "rank 1" },
    { "smoothing", .in = { { { 2, 3 } }, { LABELS({ 2 }) } },
      .options = WITH(.ignore_index = -100, .label_smoothing = 1.5), .fails = DT_ERR_ARG,
      .says = "label_smoothing" },
};
DT__CASES(cross_entropy, cases)
