/* The distillation loss of a student against a teacher's logits (Hinton et al. 2015).
 *     l = T^2 sum of p (log p - log q)      p = softmax(teacher / T), q = softmax(student / T)
 *     dstudent = T (q - p) dl, for the mean divided by the number of rows not ignored. */
#include "autograd/op.h"
#include "ops/ops_list.h"

enum { STUDENT, TEACHER, LABELS };

static const char *const reductions[] = { "mean", "sum", NULL };

#define AT(field) .offset = offsetof(dt_distill_options, field)

static const dt_key keys[] = {
    { "reduction", DT_KEY_CHOICE, AT(reduction), .choices = reductions, .fallback = "mean" },
    { "ignore_index", DT_KEY_INT, AT(ignore_index), .fallback = "-100" },
    { "temperature", DT_KEY_REAL, AT(temperature), .most = 1e6, .fallback = "1" },
    { 0 },
};

static const dt_distill_options defaults = { .ignore_index = -100, .temperature = 1 };

dt_distill_options dt_distill_defaults(void) { return defaults; }

/* state[0]: the number of rows not ignored */
static dt_status shape(dt_call *c)
{
    const dt_distill_options *o = c->options;
    DT__TRY(dt__want_operands(c, 3, 3));
    const dt_tensor *x = c->in[STUDENT], *labels = c->arg[LABELS];
    for (int i = STUDENT; i <= TEACHER; i++) DT__TRY(dt__want_float(c, i));
    DT__TRY(dt__want_rank(c, STUDENT, 1, DT_MAX_RANK));
    DT__TRY(dt__want_dims(c, TEACHER, x->rank, x->dims));
    DT__TRY(dt__want_dims(c, LABELS, x->rank - 1, x->dims));
    DT__TRY(dt__want_indices(c, LABELS, dt__columns(x), &o->ignore_index));
    if (o->reduction != DT_REDUCE_MEAN && o->reduction != DT_REDUCE_SUM) {
        return dt_refuse(c, DT_ERR_ARG, "reduction is %d; expected DT_REDUCE_MEAN or DT_REDUCE_SUM",
                         o->reduction);
    }
    if (!(o->temperature > 0 && o->temperature <= 1e6)) {
        return dt_refuse(c, DT_ERR_ARG, "temperature is %g: expected above 0 and at most 1e6",
                         o->temperature);
    }
    c->state[0] = 0;
    for (int64_t k = 0; k < labels->count; k++) {
        c->state[0] += dt__index_at(labels, k) != o->ignore_index;
    }
    const int64_t kept[2] = { labels->count, DT__LOGITS_KEPT };
    const size_t row = sizeof(double) + sizeof(dt__logits_row);
    c->scratch_bytes = (size_t)labels->count * row + sizeof(double);
    DT__TRY(dt_result(c, 0, x->dtype, 0, NULL));
    return dt_result(c, 1, x->dtype, 2, kept);
}

static dt__logits problem(const dt_call *c)
{
    const dt_distill_options *o = c->options;
    const dt_tensor *x = c->arg[STUDENT];
    return (dt__logits){ .rows = dt__rows(x),
                         .n = dt__columns(x),
                         .classes = dt__columns(x),
                         .teacher = dt__data(c->arg[TEACHER]),
                         .labels = dt__data(c->arg[LABELS]),
                         .wide = c->arg[LABELS]->dtype == DT_I64,
                         .ignore = o->ignore_index,
                         .share = 1,
                         .temperature = o->temperature,
                         .kept = dt__data_mut(c->out[1]) };
}

/* The divisor of the sum over rows; 1 if all are ignored. */
static double divisor(const dt_call *c)
{
    const dt_distill_options *o = c->options;
    return o->reduction == DT_REDUCE_SUM || c->state[0] == 0 ? 1 : (double)c->state[0];
}

static void forward(const dt_call *c)
{
    dt__logits l = problem(c);
    l.x = (void *)(uintptr_t)dt__data(c->arg[STUDENT]); /* only read in forward */
    l.loss = c->scratch;
    l.row = (dt__logits_row *)(void *)(l.loss + l.rows + 1);
    c->kernels->logits(&l);
    dt__kernels_of(c->ctx, DT_F64)
        ->sum(&(dt__reduce){ .rank = 1,
                             .dims = { l.rows },
                             .over = { true },
                             .divisor = divisor(c),
                             .x = l.loss,
                             .y = l.loss + l.rows });
    c->kernels->fill(1, l.loss[l.rows], dt__data_mut(c->y));
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    dt__logits l = problem(c);
    dt__copy_tensor(c->arg[STUDENT], dx[STUDENT]);
    l.x = dt__data_mut(dx[STUDENT]);
    c->kernels->logits_backward(&l, dt__scalar(dy) / divisor(c));
}

const dt_op dt__op_distill = {
    .name = "distill",
    .text = "T^2 KL(softmax(teacher / T) || softmax(student / T)), mean or sum over the rows",
    .in_name = { "student", "teacher", "labels" },
    .out_name = { "loss", "kept" },
    .undifferentiable = { false, true, true },
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_VALUE }, .out = { DT_NOTHING, DT_VALUE } },
    DT__OP_OPTIONS(dt_distill_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .backward = backward,
};

dt_tensor *dt_distill(dt_tape *t, dt_tensor *student, dt_tensor *teacher, dt_tensor *labels,
                      const dt_distill_options *options)
{
    return dt_apply(t, &dt__op_distill, DT__CALL_WITH(options, student, teacher, labels));
}

#define LABEL(count, ...) __VA_ARGS__, .low = 0, .high = count, .dtype = DT_I32
#define WITH(...) DT__WITH(dt_distill_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values",
      .in = { { { 1, 2 }, .given = true, .values = { 0, 0 } },
              { { 1, 2 }, .given = true, .values = { 1.0986122886681098, 0 } },
              { { 1 }, .given = true, .values = { 1 }, .dtype = DT_I32 } },
      .n_y = 1, .y = { 0.13081203594113694 } },
    { "impossible for the teacher",
      .in = { { { 1, 2 }, .given = true, .values = { 0, 0 } },
              { { 1, 2 }, .given = true, .values = { 0, -1e30 } },
              { { 1 }, .given = true, .values = { 1 }, .dtype = DT_I64 } },
      .n_y = 1, .y = { 0.69314718055994531 }, .rough = true },
    { "warm", .in = { { { 6, 7 } }, { { 6, 7 } }, { LABEL(7, { 6 }) } },
      .options = WITH(.temperature = 2.5, .ignore_index = 3) },
    { "summed", .in = { { { 2, 3, 5 } }, { { 2, 3, 5 } }, { LABEL(5, { 2, 3 }) } },
      .options = WITH(.ignore_index = -100, .reduction = DT_REDUCE_SUM, .temperature = 0.5) },
    { "all ignored",
      .in = { { { 2, 3 } },
              { { 2, 3 } },
              { { 2 }, .given = true, .values = { -100, -100 }, .dtype = DT_I32 } },
      .n_y = 1, .y = { 0 } },
    { "many classes", .in = { { { 40, 1300 } }, { { 40, 1300 } }, { LABEL(1300, { 40 }) } },
      .options = WITH(.ignore_index = -100, .temperature = 2), .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 0, 3 } }, { { 0 }, 1, .dtype = DT_I32 } }, .n_y = 1,
      .y = { 0 } },
    { "shape", .in = { { { 2, 3 } }, { { 2, 4 } }, { LABEL(3, { 2 }) } }, .fails = DT_ERR_SHAPE,
      .says = "teacher must be [2,3]" },
    { "label",
      .in = { { { 2, 3 } },
              { { 2, 3 } },
              { { 2 }, .given = true, .values = { 1, 3 }, .dtype = DT_I32 } },
      .fails = DT_ERR_ARG, .says = "labels[1] is 3, outside 0...2" },
    { "temperature", .in = { { { 2, 3 } }, { { 2, 3 } }, { LABEL(3, { 2 }) } },
      .options = WITH(.ignore_index = -100, .temperature = 0), .fails = DT_ERR_ARG,
      .says = "temperature is 0" },
    { "float labels", .in = { { { 2, 3 } }, { { 2, 3 } }, { { 2 } } }, .fails = DT_ERR_DTYPE },
};
DT__CASES(distill, cases)
