/* The head of a language model and its loss, without the logits.
 *     z = x W^T + b      l = (1-d) cross entropy of z + d T^2 KL(p || q)
 *     dx = dz W      dW = dz^T x      db = sum of dz
 * with q = softmax(z / T), and p that of a teacher's logits (Hinton et al. 2015). Logits exist one
 * block of rows and classes at a time. Backward computes them again and overwrites them with their
 * gradient. The size of blocks depends on shapes only. Each block of classes updates its rows'
 * maximum and sum (online softmax, Milakov and Gimelshein 2018), in the same steps as
 * cross_entropy. */
#include "ops/products/linear_codes.h"
#include "ops/ops_list.h"

enum { X, WEIGHT, BIAS, LABELS, TEACHER_X, TEACHER_WEIGHT, TEACHER_BIAS };
enum { LOSS, ROW_LOSS, ROW_BEST, KEPT };

#define BLOCK_BYTES ((int64_t)4 << 20) /* bytes of a block of logits, the teacher's included */
/* with more classes than this, a block has only some of them: */
#define WIDE 8192
#define CLASSES 4096 /* about this number, */
#define ROWS 64      /* and a multiple of this many rows */

static const char *const reductions[] = { "mean", "sum", NULL };

#define AT(field) .offset = offsetof(dt_linear_cross_entropy_options, field)

static const dt_key keys[] = {
    { "reduction", DT_KEY_CHOICE, AT(reduction), .choices = reductions, .fallback = "mean" },
    { "ignore_index", DT_KEY_INT, AT(ignore_index), .fallback = "-100" },
    { "label_smoothing", DT_KEY_REAL, AT(label_smoothing), .most = 1, .fallback = "0" },
    { "distill", DT_KEY_REAL, AT(distill), .most = 1, .fallback = "0" },
    { "temperature", DT_KEY_REAL, AT(temperature), .most = 1e6, .fallback = "1" },
    { 0 },
};

static const dt_linear_cross_entropy_options defaults = { .ignore_index = -100, .temperature = 1 };

dt_linear_cross_entropy_options dt_linear_cross_entropy_defaults(void) { return defaults; }

/* ---- shape ----------------------------------------------------------------------------------- */

static dt_status check_options(const dt_call *c)
{
    const dt_linear_cross_entropy_options *o = c->options;
    if (o->reduction != DT_REDUCE_MEAN && o->reduction != DT_REDUCE_SUM) {
        return dt_refuse(c, DT_ERR_ARG, "reduction %d does not exist", o->reduction);
    }
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1)) {
        return dt_refuse(c, DT_ERR_ARG, "label_smoothing is %g, outside 0...1", o->label_smoothing);
    }
    if (!(o->distill >= 0 && o->distill <= 1)) {
        return dt_refuse(c, DT_ERR_ARG, "distill is %g, outside 0...1", o->distill);
    }
    if (!(o->temperature > 0 && o->temperature <= 1e6)) {
        return dt_refuse(c, DT_ERR_ARG, "temperature is %g: expected above 0 and at most 1e6",
                         o->temperature);
    }
    if (o->distill > 0 && (c->n_in <= TEACHER_WEIGHT || c->in[TEACHER_WEIGHT] == NULL)) {
        return dt_refuse(c, DT_ERR_ARG, "distill is %g, but there is no teacher", o->distill);
    }
    return DT_OK;
}

/* Checks a head: x [..., k], weight [V, k], bias [V] or NULL. */
static dt_status check_head(const dt_call *c, int x, int64_t classes)
{
    const int weight = x == X ? WEIGHT : TEACHER_WEIGHT, bias = x == X ? BIAS : TEACHER_BIAS;
    DT__TRY(dt__want_float(c, x));
    DT__TRY(dt__want_float(c, weight));
    DT__TRY(dt__want_rank(c, x, 1, DT_MAX_RANK));
    const int64_t dims[2] = { classes, dt__columns(c->in[x]) };
    DT__TRY(dt__want_dims(c, weight, 2, dims));
    if (bias >= c->n_in || c->in[bias] == NULL) return DT_OK;
    DT__TRY(dt__want_float(c, bias));
    return dt__want_dims(c, bias, 1, &classes);
}

static dt_status check_operands(const dt_call *c)
{
    const dt_tensor *x = c->in[X];
    DT__TRY(dt__want_operands(c, 4, 7));
    DT__TRY(dt__want_rank(c, WEIGHT, 2, 2));
    const int64_t classes = c->in[WEIGHT]->dims[0];
    if (classes > INT32_MAX) return dt_refuse(c, DT_ERR_SHAPE, "at most %d classes", INT32_MAX);
    DT__TRY(check_head(c, X, classes));
    DT__TRY(dt__want_dims(c, LABELS, x->rank - 1, x->dims));
    if (c->n_in <= TEACHER_X || c->in[TEACHER_X] == NULL) return DT_OK;
    if (c->n_in <= TEACHER_WEIGHT || c->in[TEACHER_WEIGHT] == NULL) {
        return dt_refuse(c, DT_ERR_ARG, "teacher_x needs teacher_weight");
    }
    DT__TRY(check_head(c, TEACHER_X, classes));
    if (dt__rows(c->in[TEACHER_X]) == dt__rows(x)) return DT_OK;
    return dt_refuse(c, DT_ERR_SHAPE, "teacher_x must have the %lld rows of x",
                     (long long)dt__rows(x));
}

static bool has_teacher(const dt_call *c)
{
    return ((const dt_linear_cross_entropy_options *)c->options)->distill > 0;
}

/* How the logits are divided into blocks. */
typedef struct blocking {
    int64_t rows, classes;       /* per block */
    int64_t of_rows, of_classes; /* in total */
} blocking;

static blocking blocking_of(const dt_call *c)
{
    const int64_t rows = dt__rows(c->arg[X]), classes = c->arg[WEIGHT]->dims[0];
    const int64_t element = (int64_t)dt_dtype_size(c->arg[X]->dtype) * (has_teacher(c) ? 2 : 1);
    blocking k = { rows, classes, rows, classes };
    if (classes > WIDE) {
        const int64_t blocks = dt__ceil_div(classes, CLASSES);
        k.classes = dt__round_up(dt__ceil_div(classes, blocks), DT__LOGITS);
    }
    const int64_t most = BLOCK_BYTES / element / dt__max_i64(1, k.classes);
    k.rows = dt__min_i64(rows, dt__max_i64(ROWS, most / ROWS * ROWS));
    return k;
}

/* The block of logits that begins at row m and class n. */
static dt__linear_part part_of(const dt_call *c, const blocking *k, int x, int64_t m, int64_t n)
{
    const int64_t m1 = dt__min_i64(m + k->rows, k->of_rows);
    const int64_t n1 = dt__min_i64(n + k->classes, k->of_classes);
    return (dt__linear_part){ c, x, x == X ? WEIGHT : TEACHER_WEIGHT, m, m1, n, n1 };
}

/* ---- scratch --------------------------------------------------------------------------------- */

/* Offsets in scratch, behind the scratch of the products. */
typedef struct room {
    size_t logits, teacher, sum, row, loss, bytes;
} room;

static size_t place(room *r, int64_t count, size_t element)
{
    const size_t at = r->bytes;
    r->bytes += dt__scratch_part((size_t)count * element);
    return at;
}

/* The largest scratch of any product. The last blocks are smaller but may need more, so all four
 * sizes of blocks are checked. */
static size_t products_room(const dt_call *c, const blocking *k, bool backward)
{
    const int64_t last_m = k->rows > 0 ? (k->of_rows - 1) / k->rows * k->rows : 0;
    const int64_t last_n = k->classes > 0 ? (k->of_classes - 1) / k->classes * k->classes : 0;
    size_t most = 0;
    for (int i = 0; i < 4; i++) {
        const int64_t m = i % 2 == 0 ? 0 : last_m, n = i < 2 ? 0 : last_n;
        const dt__linear_part p = part_of(c, k, X, m, n);
        size_t needed[3] = { dt__linear_forward_scratch(&p) };
        if (backward) needed[1] = dt__linear_backward_scratch(&p);
        if (has_teacher(c)) {
            const dt__linear_part teacher = part_of(c, k, TEACHER_X, m, n);
            needed[2] = dt__linear_forward_scratch(&teacher);
        }
        for (int j = 0; j < 3; j++) most = needed[j] > most ? needed[j] : most;
    }
    return most;
}

static room room_of(const dt_call *c, const blocking *k, bool backward)
{
    const size_t element = dt_dtype_size(c->arg[X]->dtype);
    const int64_t block = k->rows * k->classes;
    room r = { 0 };
    place(&r, (int64_t)products_room(c, k, backward), 1);
    r.logits = place(&r, block, element);
    r.teacher = place(&r, has_teacher(c) ? block : 0, element);
    r.sum = place(&r, backward ? k->classes : 0, element);
    r.row = place(&r, backward ? 0 : k->rows, sizeof(dt__logits_row));
    r.loss = place(&r, backward ? 0 : k->of_rows + 1, sizeof(double));
    return r;
}

static size_t scratch(const dt_call *c)
{
    const blocking k = blocking_of(c);
    return room_of(c, &k, true).bytes;
}

/* state[0]: the number of rows not ignored */
static dt_status shape(dt_call *c)
{
    const dt_linear_cross_entropy_options *o = c->options;
    DT__TRY(check_operands(c));
    DT__TRY(check_options(c));
    const dt_tensor *x = c->in[X], *labels = c->arg[LABELS];
    DT__TRY(dt__want_indices(c, LABELS, c->in[WEIGHT]->dims[0], &o->ignore_index));
    c->state[0] = 0;
    for (int64_t i = 0; i < labels->count; i++) {
        c->state[0] += dt__index_at(labels, i) != o->ignore_index;
    }
    const blocking k = blocking_of(c);
    c->scratch_bytes = room_of(c, &k, false).bytes;
    const int64_t kept[2] = { k.of_rows, DT__LOGITS_KEPT };
    DT__TRY(dt_result(c, LOSS, x->dtype, 0, NULL));
    DT__TRY(dt_result(c, ROW_LOSS, x->dtype, labels->rank, labels->dims));
    DT__TRY(dt_result(c, ROW_BEST, DT_I32, labels->rank, labels->dims));
    return dt_result(c, KEPT, x->dtype, 2, kept);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void *at_row(const dt_tensor *x, int64_t row)
{
    const size_t columns = x->rank == 2 ? (size_t)x->dims[1] : 1;
    return (char *)dt__data_mut((dt_tensor *)(uintptr_t)x) +
           (size_t)row * columns * dt_dtype_size(x->dtype);
}

/* z = the logits of a block, with the bias. */
static void make_logits(const dt__linear_part *p, int bias_at, void *z)
{
    const dt_call *c = p->c;
    const bool biased = bias_at < c->n_in && c->arg[bias_at] != NULL;
    const char *bias = biased ? dt__data(c->arg[bias_at]) : NULL;
    if (dt__linear_product(p, bias, z) || !biased) return;
    const int64_t n = p->n1 - p->n0;
    const size_t skip = (size_t)p->n0 * dt_dtype_size(c->arg[bias_at]->dtype);
    c->kernels->add_rows(p->m1 - p->m0, n, bias + skip, z);
}

/* Computes the logits of a block, and the teacher's, in scratch. */
static dt__logits open_block(const dt_call *c, const dt__linear_part *p, const room *r)
{
    const dt_linear_cross_entropy_options *o = c->options;
    const dt_tensor *labels = c->arg[LABELS];
    char *scratch_ = c->scratch;
    dt__logits l = { .rows = p->m1 - p->m0,
                     .n = p->n1 - p->n0,
                     .first = p->n0,
                     .classes = c->arg[WEIGHT]->dims[0],
                     .x = scratch_ + r->logits,
                     .wide = labels->dtype == DT_I64,
                     .ignore = o->ignore_index,
                     .smoothing = o->label_smoothing,
                     .share = o->distill,
                     .temperature = o->temperature,
                     .kept = at_row(c->out[KEPT], p->m0) };
    l.labels = (const char *)dt__data(labels) + (size_t)p->m0 * dt_dtype_size(labels->dtype);
    make_logits(p, BIAS, l.x);
    if (has_teacher(c)) {
        dt__linear_part teacher = *p;
        teacher.x = TEACHER_X;
        teacher.weight = TEACHER_WEIGHT;
        l.teacher = scratch_ + r->teacher;
        make_logits(&teacher, TEACHER_BIAS, scratch_ + r->teacher);
    }
    return l;
}

/* The divisor of the sum over rows; 1 if all are ignored. */
static double divisor(const dt_call *c)
{
    const dt_linear_cross_entropy_options *o = c->options;
    return o->reduction == DT_REDUCE_SUM || c->state[0] == 0 ? 1 : (double)c->state[0];
}

static void forward(const dt_call *c)
{
    const blocking k = blocking_of(c);
    const room r = room_of(c, &k, false);
    double *loss = (double *)(void *)((char *)c->scratch + r.loss);
    for (int64_t m = 0; m < k.of_rows; m += k.rows) {
        for (int64_t n = 0; n == 0 || n < k.of_classes; n += dt__max_i64(1, k.classes)) {
            const dt__linear_part p = part_of(c, &k, X, m, n);
            dt__logits l = open_block(c, &p, &r);
            l.row = (dt__logits_row *)(void *)((char *)c->scratch + r.row);
            l.loss = loss + m;
            l.entropy = (char *)dt__data_mut(c->out[ROW_LOSS]) +
                        (size_t)m * dt_dtype_size(c->out[ROW_LOSS]->dtype);
            l.best = (int32_t *)dt__data_mut(c->out[ROW_BEST]) + m;
            c->kernels->logits(&l);
        }
    }
    dt__kernels_of(c->ctx, DT_F64)
        ->sum(&(dt__reduce){ .rank = 1,
                             .dims = { k.of_rows },
                             .over = { true },
                             .divisor = divisor(c),
                             .x = loss,
                             .y = loss + k.of_rows });
    c->kernels->fill(1, loss[k.of_rows], dt__data_mut(c->y));
}

/* Adds the sum of a block's gradient over rows to db. */
static void add_bias_gradient(const dt__linear_part *p, const dt__logits *l, const room *r,
                              void *db)
{
    const dt_call *c = p->c;
    char *to = (char *)db + (size_t)p->n0 * dt_dtype_size(c->arg[X]->dtype);
    char *sum = p->m0 == 0 ? to : (char *)c->scratch + r->sum;
    c->kernels->sum(&(dt__reduce){ .rank = 2,
                                   .dims = { l->rows, l->n },
                                   .over = { true },
                                   .divisor = 1,
                                   .x = l->x,
                                   .y = sum });
    if (sum != to) c->kernels->add_into(l->n, sum, to);
}

static void backward(const dt_call *c, const dt_tensor *dy, dt_tensor *const *dx)
{
    const blocking k = blocking_of(c);
    const room r = room_of(c, &k, true);
    const double scale = dt__scalar(dy) / divisor(c);
    void *d[3] = { NULL };
    for (int i = 0; i < 3; i++) d[i] = dx[i] != NULL ? dt__data_mut(dx[i]) : NULL;
    for (int64_t m = 0; m == 0 || m < k.of_rows; m += dt__max_i64(1, k.rows)) {
        for (int64_t n = 0; n == 0 || n < k.of_classes; n += dt__max_i64(1, k.classes)) {
            const dt__linear_part p = part_of(c, &k, X, m, n);
            const dt__logits l = open_block(c, &p, &r);
            c->kernels->logits_backward(&l, scale);
            dt__linear_backward(&p, l.x, d[X], d[WEIGHT]);
            if (d[BIAS] != NULL) add_bias_gradient(&p, &l, &r, d[BIAS]);
        }
    }
}

/* Codes of a weight are multiplied by few rows of floats as they are. */
static dt_precision precision(const dt_call *c, int i)
{
    if (c->coded) return DT_EXACT;
    if (i == X || i == TEACHER_X) return DT_BF16;
    return i == WEIGHT || i == TEACHER_WEIGHT ? DT_ROUNDED : DT_EXACT;
}

/* ---- the op ---------------------------------------------------------------------------------- */

const dt_op dt__op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .text = "(1 - d) cross_entropy(x W^T + bias) + d T^2 KL(teacher || model); logits are not kept",
    .in_name = { "x", "weight", "bias", "labels", "teacher_x", "teacher_weight", "teacher_bias" },
    .out_name = { "loss", "row_loss", "row_best", "kept" },
    .role = { DT_CODES, DT_CODES, DT_READ, DT_READ, DT_CODES, DT_CODES, DT_READ },
    .ungrouped = true,
    .optional = { [BIAS] = true,
                  [TEACHER_X] = true,
                  [TEACHER_WEIGHT] = true,
                  [TEACHER_BIAS] = true },
    .undifferentiable = { [LABELS] = true,
                          [TEACHER_X] = true,
                          [TEACHER_WEIGHT] = true,
                          [TEACHER_BIAS] = true },
    .saves = { .arg = { DT_VALUE, DT_VALUE, DT_VALUE, DT_VALUE, DT_VALUE, DT_VALUE, DT_VALUE },
               .out = { [KEPT] = DT_VALUE } },
    .saves_coded = { .arg = { DT_SAVE_CODES, DT_SAVE_CODES, DT_VALUE, DT_VALUE, DT_SAVE_CODES,
                              DT_SAVE_CODES, DT_VALUE },
                     .out = { [KEPT] = DT_VALUE } },
    DT__OP_OPTIONS(dt_linear_cross_entropy_options, defaults, keys),
    .shape = shape,
    .forward = forward,
    .forward_codes = forward,
    .takes_codes = dt__linear_takes_codes,
    .precision = precision,
    .backward = backward,
    .scratch = scratch,
};

dt_tensor *dt_linear_cross_entropy(dt_tape *t, const dt_head_operands *in,
                                   const dt_linear_cross_entropy_options *options,
                                   dt_tensor **row_loss, dt_tensor **row_best)
{
    DT__NEED_OP(t, in);
    dt_tensor *with[] = { in->x,         in->weight,         in->bias,        in->labels,
                          in->teacher_x, in->teacher_weight, in->teacher_bias };
    dt_tensor *out[KEPT] = { NULL };
    const int n = in->teacher_x == NULL && in->teacher_weight == NULL ? TEACHER_X : 7;
    dt_apply_n(t, &dt__op_linear_cross_entropy, with, n, options, out, KEPT);
    if (row_loss != NULL) *row_loss = out[ROW_LOSS];
    if (row_best != NULL) *row_best = out[ROW_BEST];
    return out[LOSS];
}

#define LABEL(count, ...) __VA_ARGS__, .low = 0, .high = count, .dtype = DT_I32
#define WITH(...) DT__WITH(dt_linear_cross_entropy_options, __VA_ARGS__)

static const dt__case cases[] = {
    { "values",
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, -1 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, 0, 1 } },
              { { 2 }, .given = true, .values = { 2, 2 } },
              { { 2 }, .given = true, .values = { 1, 0 }, .dtype = DT_I32 } },
      .n_y = 1, .y = { 0.1657058077180163 } },
    { "no bias",
      .in = { { { 2, 2 }, .given = true, .values = { 0, 1, 3, -1 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, 0, 1 } },
              { .absent = true },
              { { 2 }, .given = true, .values = { 1, 0 }, .dtype = DT_I64 } },
      .n_y = 1, .y = { 0.1657058077180163 } },
    { "random", .in = { { { 6, 5 } }, { { 7, 5 } }, { { 7 } }, { LABEL(7, { 6 }) } } },
    { "rank 3",
      .in = { { { 2, 3, 5 } }, { { 4, 5 } }, { .absent = true }, { LABEL(4, { 2, 3 }) } } },
    { "ignored and smoothed", .in = { { { 6, 3 } }, { { 4, 3 } }, { { 4 } }, { LABEL(4, { 6 }) } },
      .options = WITH(.label_smoothing = 0.3, .ignore_index = 1, .temperature = 1) },
    { "all ignored",
      .in = { { { 2, 3 } },
              { { 5, 3 } },
              { { 5 } },
              { { 2 }, .given = true, .values = { 7, 7 }, .dtype = DT_I32 } },
      .options = WITH(.ignore_index = 7, .temperature = 1), .n_y = 1, .y = { 0 } },
    { "summed", .in = { { { 4, 3 } }, { { 6, 3 } }, { .absent = true }, { LABEL(6, { 4 }) } },
      .options = WITH(.ignore_index = -100, .reduction = DT_REDUCE_SUM, .temperature = 1) },
    { "a teacher",
      .in = { { { 5, 4 } },
              { { 6, 4 } },
              { { 6 } },
              { LABEL(6, { 5 }) },
              { { 5, 3 } },
              { { 6, 3 } },
              { { 6 } } },
      .options = WITH(.distill = 0.4, .temperature = 2.5, .ignore_index = 2) },
    { "a teacher alone",
      .in = { { { 5, 4 } },
              { { 6, 4 } },
              { .absent = true },
              { LABEL(6, { 5 }) },
              { { 5, 4 } },
              { { 6, 4 } } },
      .options = WITH(.distill = 1, .temperature = 1, .ignore_index = -100) },
    { "a teacher like the student",
      .in = { { { 1, 2 }, .given = true, .values = { 1, -2 } },
              { { 2, 2 }, .given = true, .values = { 1, 0, 0, 1 } },
              { .absent = true },
              { { 1 }, .given = true, .values = { 1 }, .dtype = DT_I32 },
              { { 1, 1 }, .given = true, .values = { 1 } },
              { { 2, 1 }, .given = true, .values = { 1, -2 } } },
      .options = WITH(.ignore_index = -100, .distill = 1, .temperature = 3), .n_y = 1, .y = { 0 },
      .rough = true },
    { "blocks of rows",
      .in = { { { 131, 3 } }, { { 8191, 3 } }, { { 8191 } }, { LABEL(8191, { 131 }) } },
      .options = WITH(.ignore_index = -100, .label_smoothing = 0.1, .temperature = 1),
      .rough = true },
    { "blocks of classes",
      .in = { { { 5, 3 } }, { { 9001, 3 } }, { { 9001 } }, { LABEL(9001, { 5 }) } },
      .options = WITH(.ignore_index = -100, .label_smoothing = 0.1, .temperature = 1),
      .rough = true },
    { "blocks of both, with a teacher",
      .in = { { { 67, 3 } },
              { { 8201, 3 } },
              { { 8201 } },
              { LABEL(8201, { 67 }) },
              { { 67, 2 } },
              { { 8201, 2 } } },
      .options = WITH(.ignore_index = -100, .distill = 0.5, .temperature = 2), .rough = true },
    { "empty", .in = { { { 0, 3 } }, { { 4, 3 } }, { { 4 } }, { { 0 }, 1, .dtype = DT_I32 } },
      .n_y = 1, .y = { 0 } },
    { "no features", .in = { { { 3, 0 }, 2 }, { { 4, 0 }, 2 }, { { 4 } }, { LABEL(4, { 3 }) } } },
    { "label",
      .in = { { { 2, 3 } },
              { { 3, 3 } },
              { .absent = true },
              { { 2 }, .given = true, .values = { 1, 3 }, .dtype = DT_I32 } },
      .fails = DT_ERR_ARG, .says = "labels[1] is 3, outside 0...2" },
    { "features", .in = { { { 2, 3 } }, { { 5, 4 } }, { .absent = true }, { LABEL(5, { 2 }) } },
      .fails = DT_ERR_SHAPE, .says = "weight must be [5,3]" },
    { "labels' shape",
      .in = { { { 2, 3 } }, { { 5, 3 } }, { .absent = true }, { LABEL(5, { 3 }) } },
      .fails = DT_ERR_SHAPE, .says = "labels must be [2]" },
    { "no teacher", .in = { { { 2, 3 } }, { { 5, 3 } }, { .absent = true }, { LABEL(5, { 2 }) } },
      .options = WITH(.ignore_index = -100, .distill = 0.5, .temperature = 1), .fails = DT_ERR_ARG,
      .says = "there is no teacher" },
    { "teacher's classes",
      .in = { { { 2, 3 } },
              { { 5, 3 } },
              { .absent = true },
              { LABEL(5, { 2 }) },
              { { 2, 4 } },
              { { 6, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "teacher_weight must be [5,4]" },
    { "teacher's rows",
      .in = { { { 2, 3 } },
              { { 5, 3 } },
              { .absent = true },
              { LABEL(5, { 2 }) },
              { { 3, 4 } },
              { { 5, 4 } } },
      .fails = DT_ERR_SHAPE, .says = "the 2 rows of x" },
    { "temperature", .in = { { { 2, 3 } }, { { 5, 3 } }, { .absent = true }, { LABEL(5, { 2 }) } },
      .options = WITH(.ignore_index = -100, .temperature = 0), .fails = DT_ERR_ARG,
      .says = "temperature is 0" },
    { "float labels", .in = { { { 2, 3 } }, { { 5, 3 } }, { .absent = true }, { { 2 } } },
      .fails = DT_ERR_DTYPE },
};
DT__CASES(linear_cross_entropy, cases)
