/* Unfolded inputs and the sums of their products. Reference values: golden/rounding. The matrix of
 * a weight times the unfolded inputs X is the result of its op. */
#include "rounding_golden.h"

#include <detent/experimental/ops.h>

#include "core/tensor.h"
#include "kernels/convolution/row_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dt_ctx *context(int threads)
{
    dt_ctx *ctx;
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    return ctx;
}

static dt_tensor *random_tensor(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_uniform(x, -1, 1));
    return x;
}

/* All of X, [columns of all groups][samples]. */
static double *unfolded(const dt__inputs *in)
{
    const int64_t columns = in->of->groups * in->of->columns;
    double *x = malloc((size_t)(columns * in->samples) * sizeof *x);
    dt__inputs_unfold(in, &(dt__patch){ 0, columns, 0, in->samples, x, in->samples });
    return x;
}

/* ---- reference values ----------------------------------------------------------------------- */

static const char *const files[] = {
    "a2_conv",       "a2_s8",          "a2_tconv",        "a2_u8",
    "conv_6x4x3x3",  "conv_depthwise", "conv_grouped",    "conv_strided",
    "dead",          "equal_norm",     "lin_16x96",       "lin_48x128",
    "lin_8x32",      "lin_lowrank",    "tconv_depthmult", "tconv_depthwise",
    "tconv_dilated", "tconv_groups2",  "tconv_nooverlap", "tconv_plain",
    "tconv_stride2", "zeros_05",       "zeros_60",        "zeros_few",
};
#define FILES ((int)(sizeof files / sizeof files[0]))

static void compare_unfolded(const rounding_layer *l, const dt_tensor *x, const char *name)
{
    dt__unfolding u;
    dt__inputs in;
    dt_tensor *want;
    TEST_OK(l->ctx, dt__unfolding_of(l->ctx, &l->op, l->w->rank, l->w->dims, &u));
    TEST_OK(l->ctx, dt__inputs_of(l->ctx, &u, x, &in));
    TEST_OK(l->ctx, dt_file_load(l->file, name, DT_F32, &want));
    ck_assert_int_eq((int)want->count, (int)(u.groups * u.columns * in.samples));
    double *got = unfolded(&in);
    const float *values = dt_data(want);
    for (int64_t i = 0; i < want->count; i++) {
        TEST_EACH(got[i] == (double)values[i], "%s[%d]", name, (int)i);
    }
    free(got);
    dt_tensor_free(want);
}

/* The largest difference as a share of the largest entry. */
static double far_from(int64_t n, const double *want, const double *got)
{
    double most = 0, far = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(want[i]));
        far = fmax(far, fabs(want[i] - got[i]));
    }
    return far / most;
}

START_TEST(reference_values_are_equal)
{
    dt_ctx *ctx = context(2);
    rounding_layer l;
    if (!rounding_open(ctx, files[_i], &l)) {
        dt_ctx_free(ctx);
        return;
    }
    if (l.op.kind != DT_WEIGHT_LINEAR) {
        compare_unfolded(&l, l.x, "X");
        compare_unfolded(&l, l.xq, "Xq");
    }
    dt_statistics *s;
    TEST_OK(ctx, dt_statistics_create(ctx, &l.op, l.w->rank, l.w->dims, true, &s));
    TEST_OK(ctx, dt_statistics_add(s, l.xq, l.x));
    ck_assert_int_eq((int)dt_statistics_samples(s), (int)l.n);
    const dt__moments *m = dt__statistics_moments(s);
    const int64_t square = l.groups * l.columns * l.columns;
    ck_assert(far_from(square, l.h, m[0].h) < 1e-12);
    ck_assert(far_from(square, l.g, m[0].g) < 1e-12);
    dt_statistics_free(s);
    rounding_close(&l);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- unfolding ------------------------------------------------------------------------------ */

typedef struct geometry {
    dt_weight_op op;
    int rank;
    int64_t x[4], w[4];
} geometry;

#define CONV1D DT_WEIGHT_CONV1D
#define CONV2D DT_WEIGHT_CONV2D
#define TCONV1D DT_WEIGHT_CONV_TRANSPOSE1D
#define TCONV2D DT_WEIGHT_CONV_TRANSPOSE2D

static const geometry geometries[] = {
    { { CONV1D, { .stride = { 1 }, .dilation = { 1 }, .groups = 1 } },
      3,
      { 3, 2, 9 },
      { 5, 2, 3 } },
    { { CONV1D, { .stride = { 2 }, .padding = { 4 }, .dilation = { 3 }, .groups = 2 } },
      3,
      { 2, 6, 11 },
      { 4, 3, 4 } },
    { { TCONV1D, { .stride = { 1 }, .dilation = { 1 }, .groups = 1 } },
      3,
      { 3, 2, 9 },
      { 2, 5, 3 } },
    { { TCONV1D,
        { .stride = { 3 },
          .padding = { 2 },
          .dilation = { 2 },
          .groups = 3,
          .output_padding = { 2 } } },
      3,
      { 2, 6, 7 },
      { 6, 2, 4 } },
    { { CONV2D, { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 } },
      4,
      { 2, 3, 5, 4 },
      { 4, 3, 1, 1 } },
    { { CONV2D, { .stride = { 3, 2 }, .padding = { 2, 5 }, .dilation = { 2, 3 }, .groups = 4 } },
      4,
      { 3, 8, 9, 13 },
      { 8, 2, 3, 4 } },
    { { CONV2D, { .stride = { 1, 4 }, .padding = { 6, 0 }, .dilation = { 1, 1 }, .groups = 7 } },
      4,
      { 2, 7, 3, 10 },
      { 7, 1, 5, 2 } },
    { { TCONV2D,
        { .stride = { 2, 3 },
          .padding = { 1, 2 },
          .dilation = { 1, 2 },
          .groups = 2,
          .output_padding = { 1, 2 } } },
      4,
      { 2, 6, 4, 5 },
      { 6, 2, 3, 4 } },
    { { TCONV2D, { .stride = { 4, 1 }, .padding = { 0, 3 }, .dilation = { 1, 1 }, .groups = 5 } },
      4,
      { 3, 5, 3, 6 },
      { 5, 1, 2, 4 } },
};
#define GEOMETRIES ((int)(sizeof geometries / sizeof geometries[0]))

static dt_tensor *run_op(dt_tape *t, const geometry *g, dt_tensor *x, dt_tensor *w)
{
    switch (g->op.kind) {
    case CONV1D: return dt_conv1d(t, x, w, NULL, &g->op.conv);
    case CONV2D: return dt_conv2d(t, x, w, NULL, &g->op.conv);
    case TCONV1D: return dt_conv_transpose1d(t, x, w, NULL, &g->op.conv);
    default: return dt_conv_transpose2d(t, x, w, NULL, &g->op.conv);
    }
}

/* Output channel r at sample s: row r of the work matrices times X. */
static double output_at(const dt__unfolding *u, const float *rows, const double *x, int64_t samples,
                        int64_t per_group, int64_t r, int64_t s)
{
    double sum = 0;
    for (int64_t c = 0; c < u->columns; c++) {
        const int64_t column = r / per_group * u->columns + c;
        sum += (double)rows[r * u->columns + c] * x[column * samples + s];
    }
    return sum;
}

START_TEST(a_weight_times_X_equals_its_op)
{
    const geometry *g = &geometries[_i];
    dt_ctx *ctx = context(1);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_tensor *x = random_tensor(ctx, g->rank, g->x), *w = random_tensor(ctx, g->rank, g->w);
    dt_tensor *y = run_op(t, g, x, w);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    dt__unfolding u;
    dt__inputs in;
    TEST_OK(ctx, dt__unfolding_of(ctx, &g->op, g->rank, g->w, &u));
    TEST_OK(ctx, dt__inputs_of(ctx, &u, x, &in));
    double *unfold = unfolded(&in);
    float *rows = malloc((size_t)w->count * sizeof *rows);
    memcpy(rows, dt_data(w), (size_t)w->count * sizeof *rows);
    if (g->op.kind == TCONV1D || g->op.kind == TCONV2D) {
        dt__row_map map;
        ck_assert(dt__row_map_of(u.groups, g->rank, g->w, &map));
        dt__rows_gather(&map, dt_data(w), rows);
    }
    const int64_t channels = y->dims[1], plane = y->count / (y->dims[0] * channels);
    ck_assert_int_eq((int)(in.samples * channels), (int)y->count);
    const float *values = dt_data(y);
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t r = i / plane % channels, s = i / plane / channels * plane + i % plane;
        const double want = output_at(&u, rows, unfold, in.samples, channels / u.groups, r, s);
        TEST_EACH(fabs((double)values[i] - want) < 1e-5, "element %d", (int)i);
    }
    free(rows);
    free(unfold);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- sums ----------------------------------------------------------------------------------- */

/* All sums of a layer: H, G and C, one after the other. */
typedef struct values {
    int64_t n;
    double *v;
} values;

static values sums_of(dt_statistics *s)
{
    const int64_t k = s->layer.columns, square = s->layer.groups * k * k;
    const int64_t packed = s->layer.groups * (k * (k + 1) / 2);
    const dt__moments *m = dt__statistics_moments(s);
    values out = { s->differ ? 2 * square + packed : square, NULL };
    out.v = malloc((size_t)out.n * sizeof *out.v);
    memcpy(out.v, m->h, (size_t)square * sizeof *out.v);
    if (s->differ) {
        memcpy(out.v + square, m->g, (size_t)square * sizeof *out.v);
        memcpy(out.v + 2 * square, m->c, (size_t)packed * sizeof *out.v);
    }
    return out;
}

/* Sums with so many threads, in batches of so many of the first dimension. */
static values collect(int threads, int64_t batch, const geometry *g)
{
    dt_ctx *ctx = context(threads);
    dt_tensor *xq = random_tensor(ctx, g->rank, g->x), *x = random_tensor(ctx, g->rank, g->x);
    dt_statistics *s;
    TEST_OK(ctx, dt_statistics_create(ctx, &g->op, g->rank, g->w, true, &s));
    for (int64_t at = 0; at < g->x[0]; at += batch) {
        const int64_t n = at + batch < g->x[0] ? batch : g->x[0] - at;
        dt_tensor *a, *b;
        TEST_OK(ctx, dt_tensor_narrow(xq, 0, at, n, &a));
        TEST_OK(ctx, dt_tensor_narrow(x, 0, at, n, &b));
        TEST_OK(ctx, dt_statistics_add(s, a, b));
        dt_tensor_free(a);
        dt_tensor_free(b);
    }
    const values out = sums_of(s);
    dt_tensor_free(xq);
    dt_tensor_free(x);
    dt_statistics_free(s);
    dt_ctx_free(ctx);
    return out;
}

static const geometry large[] = {
    { { DT_WEIGHT_LINEAR, { .groups = 0 } }, 2, { 2500, 137 }, { 3, 137 } },
    { { CONV2D, { .stride = { 1, 1 }, .padding = { 1, 1 }, .dilation = { 1, 1 }, .groups = 2 } },
      4,
      { 12, 10, 13, 11 },
      { 4, 5, 3, 3 } },
    { { TCONV2D, { .stride = { 2, 2 }, .padding = { 1, 0 }, .dilation = { 1, 1 }, .groups = 40 } },
      4,
      { 7, 40, 6, 9 },
      { 40, 1, 3, 2 } },
};
#define LARGE ((int)(sizeof large / sizeof large[0]))

START_TEST(threads_and_batches_do_not_change_a_bit)
{
    const geometry *g = &large[_i];
    const values want = collect(1, g->x[0], g);
    static const struct {
        int threads;
        int64_t batch;
    } ways[] = { { 2, 1000 }, { 3, 1000 }, { 1, 1 }, { 2, 5 }, { 3, 3 } };
    for (int i = 0; i < 5; i++) {
        const values got = collect(ways[i].threads, ways[i].batch, g);
        ck_assert_int_eq((int)got.n, (int)want.n);
        ck_assert_msg(memcmp(got.v, want.v, (size_t)want.n * sizeof *want.v) == 0, "way %d", i);
        free(got.v);
    }
    free(want.v);
}
END_TEST

static double dot(int64_t n, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Every sum equals its definition, computed plainly. */
START_TEST(sums_equal_plain_sums)
{
    const geometry *g = &large[_i];
    const values got = collect(2, 2, g);
    dt_ctx *ctx = context(1);
    dt_tensor *xq = random_tensor(ctx, g->rank, g->x), *x = random_tensor(ctx, g->rank, g->x);
    dt__unfolding u;
    dt__inputs in[2];
    TEST_OK(ctx, dt__unfolding_of(ctx, &g->op, g->rank, g->w, &u));
    TEST_OK(ctx, dt__inputs_of(ctx, &u, xq, &in[0]));
    TEST_OK(ctx, dt__inputs_of(ctx, &u, x, &in[1]));
    double *a = unfolded(&in[0]), *b = unfolded(&in[1]);
    const int64_t k = u.columns, n = in[0].samples, square = u.groups * k * k;
    const double *h = got.v, *gg = got.v + square, *c = got.v + 2 * square;
    for (int64_t q = 0; q < square; q++) {
        const int64_t group = q / (k * k), i = q / k % k, j = q % k;
        const double *ai = a + (group * k + i) * n, *aj = a + (group * k + j) * n;
        const double *bi = b + (group * k + i) * n, *bj = b + (group * k + j) * n;
        TEST_EACH(fabs(h[q] - dot(n, ai, aj)) < 1e-12 * (double)n, "H %d", (int)q);
        TEST_EACH(fabs(gg[q] - dot(n, ai, bj)) < 1e-12 * (double)n, "G %d", (int)q);
        if (j > i) continue;
        const double packed = c[group * (k * (k + 1) / 2) + i * (i + 1) / 2 + j];
        TEST_EACH(fabs(packed - dot(n, bi, bj)) < 1e-12 * (double)n, "C %d", (int)q);
    }
    free(a);
    free(b);
    free(got.v);
    dt_tensor_free(xq);
    dt_tensor_free(x);
    dt_ctx_free(ctx);
}
END_TEST

static const dt_weight_op linear = { .kind = DT_WEIGHT_LINEAR };

START_TEST(inputs_of_a_linear_layer_have_any_rank)
{
    dt_ctx *ctx = context(2);
    values want = { 0, NULL };
    const int64_t dims[] = { 2, 3, 4, 5, 7 }, w[] = { 6, 7 };
    for (int rank = 1; rank <= 5; rank++) { /* the rows as [7], then [5, 7] and so on */
        const int64_t flat[2] = { 120, 7 };
        dt_statistics *s;
        dt_seed(ctx, 5);
        dt_tensor *x = random_tensor(ctx, 2, flat), *part, *shaped;
        int64_t rows = 1;
        for (int i = 5 - rank; i < 4; i++) rows *= dims[i];
        TEST_OK(ctx, dt_statistics_create(ctx, &linear, 2, w, false, &s));
        for (int64_t at = 0; at < 120; at += rows) {
            TEST_OK(ctx, dt_tensor_narrow(x, 0, at, rows, &part));
            TEST_OK(ctx,
                    dt_tensor_from(ctx, DT_F32, rank, dims + 5 - rank, dt_data(part), &shaped));
            TEST_OK(ctx, dt_statistics_add(s, shaped, NULL));
            dt_tensor_free(part);
            dt_tensor_free(shaped);
        }
        ck_assert_int_eq((int)dt_statistics_samples(s), 120);
        const values got = sums_of(s);
        if (rank == 1) want = got;
        else {
            ck_assert_mem_eq(got.v, want.v, 49 * sizeof(double));
            free(got.v);
        }
        ck_assert_int_eq((int)s->moments[0].n, 120);
        dt_tensor_free(x);
        dt_statistics_free(s);
    }
    free(want.v);
    dt_ctx_free(ctx);
}
END_TEST

/* Sums may be read in between, and continue. */
START_TEST(sums_go_on)
{
    dt_ctx *ctx = context(1);
    dt_statistics *s;
    dt_tensor *x;
    const int64_t w[] = { 1, 2 };
    TEST_OK(ctx, dt_statistics_create(ctx, &linear, 2, w, false, &s));
    ck_assert(dt__statistics_moments(s)->h[3] == 0);
    const float row[] = { 3, 2 };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 1, w + 1, row, &x));
    for (int i = 1; i < 4; i++) {
        TEST_OK(ctx, dt_statistics_add(s, x, NULL));
        const dt__moments *m = dt__statistics_moments(s);
        ck_assert_int_eq((int)m->n, i);
        ck_assert(m->h[0] == 9 * i && m->h[1] == 6 * i && m->h[2] == 6 * i && m->h[3] == 4 * i);
        ck_assert_ptr_null(m->g);
        ck_assert_ptr_null(m->c);
    }
    dt_tensor_free(x);
    dt_statistics_free(s);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- mistakes ------------------------------------------------------------------------------- */

typedef struct mistake {
    geometry g;
    int x_rank;
    dt_status status;
    const char *says;
} mistake;

#define PLAIN .stride = { 1, 1 }, .dilation = { 1, 1 }

/* Of the weight alone where x_rank is 0. */
static const mistake mistakes[] = {
    { { { .kind = 6 }, 2, .w = { 2, 2 } }, 0, DT_ERR_ARG, "not a kind of" },
    { { { .kind = -1 }, 2, .w = { 2, 2 } }, 0, DT_ERR_ARG, "not a kind of" },
    { { { .kind = CONV2D, { PLAIN, .groups = 1 } }, 3, .w = { 2, 2, 2 } },
      0,
      DT_ERR_SHAPE,
      "[2,2,2] is not a weight of a conv2d" },
    { { { .kind = CONV2D, { PLAIN, .groups = 0 } }, 4, .w = { 2, 2, 2, 2 } },
      0,
      DT_ERR_SHAPE,
      "not a weight of a conv2d in 0 groups" },
    { { { .kind = CONV1D, { PLAIN, .groups = INT64_MAX } }, 3, .w = { 0, 2, 2 } },
      0,
      DT_ERR_SHAPE,
      "not a weight of a conv1d in 9223372036854775807 groups" },
    { { { .kind = CONV1D, { .groups = 1 } }, 3, .w = { 2, 2, 2 } }, 0, DT_ERR_ARG, "stride is 0" },
    { { { .kind = CONV2D, { PLAIN, .groups = 3 } }, 4, .w = { 4, 2, 2, 2 } },
      0,
      DT_ERR_SHAPE,
      "not a weight of a conv2d in 3 groups" },
    { { { .kind = TCONV2D, { PLAIN, .groups = 1, .output_padding = { 1, 0 } } },
        4,
        .w = { 4, 2, 2, 2 } },
      0,
      DT_ERR_ARG,
      "output_padding is 1" },
    { { { .kind = DT_WEIGHT_LINEAR }, 2, { 9, 4 }, { 2, 5 } }, 2, DT_ERR_SHAPE, "rows of 5" },
    { { { .kind = CONV2D, { PLAIN, .groups = 2 } }, 4, { 1, 5, 4, 4 }, { 4, 2, 2, 2 } },
      4,
      DT_ERR_SHAPE,
      "2 groups do not divide 5 channels" },
    { { { .kind = CONV2D, { PLAIN, .groups = 2 } }, 4, { 1, 6, 4, 4 }, { 4, 2, 2, 2 } },
      4,
      DT_ERR_SHAPE,
      "x has 3 channels a group, weight takes 2" },
    { { { .kind = TCONV1D, { PLAIN, .groups = 1 } }, 3, { 1, 6, 4 }, { 4, 2, 2 } },
      3,
      DT_ERR_SHAPE,
      "conv_transpose1d: x has 6 channels" },
    { { { .kind = CONV2D, { PLAIN, .groups = 1 } }, 4, { 1, 2, 4, 3 }, { 4, 2, 2, 4 } },
      4,
      DT_ERR_SHAPE,
      "the kernel reaches over 4 columns, x has 3" },
    { { { .kind = CONV1D, { PLAIN, .groups = 1 } }, 3, { 1, 2, 4, 3 }, { 4, 2, 2 } },
      4,
      DT_ERR_SHAPE,
      "x has rank 4" },
};

START_TEST(mistakes_are_named)
{
    const mistake *m = &mistakes[_i];
    dt_ctx *ctx = context(1);
    dt_statistics *s = NULL;
    if (m->x_rank == 0) {
        TEST_FAILS(ctx, m->status, m->says,
                   dt_statistics_create(ctx, &m->g.op, m->g.rank, m->g.w, false, &s));
    } else {
        TEST_OK(ctx, dt_statistics_create(ctx, &m->g.op, m->g.rank, m->g.w, false, &s));
        dt_tensor *x = random_tensor(ctx, m->x_rank, m->g.x);
        TEST_FAILS(ctx, m->status, m->says, dt_statistics_add(s, x, NULL));
        ck_assert_int_eq((int)dt_statistics_samples(s), 0);
        dt_tensor_free(x);
        dt_statistics_free(s);
    }
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(inputs_are_checked)
{
    dt_ctx *ctx = context(2);
    dt_statistics *s, *both;
    const int64_t w[] = { 2, 3 }, dims[] = { 4, 3 }, other[] = { 3, 3 };
    TEST_OK(ctx, dt_statistics_create(ctx, &linear, 2, w, false, &s));
    TEST_OK(ctx, dt_statistics_create(ctx, &linear, 2, w, true, &both));
    dt_tensor *x = random_tensor(ctx, 2, dims), *y = random_tensor(ctx, 2, other), *wide, *turned;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, 2, dims, &wide));
    TEST_OK(ctx, dt_tensor_narrow(x, 1, 0, 2, &turned));
    TEST_FAILS(ctx, DT_ERR_ARG, "not announced", dt_statistics_add(s, x, x));
    TEST_FAILS(ctx, DT_ERR_ARG, "missing", dt_statistics_add(both, x, NULL));
    TEST_FAILS(ctx, DT_ERR_SHAPE, "[4,3], the float model's [3,3]", dt_statistics_add(both, x, y));
    TEST_FAILS(ctx, DT_ERR_DTYPE, "not f64", dt_statistics_add(s, wide, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "contiguous", dt_statistics_add(s, turned, NULL));
    TEST_OK(ctx, dt_statistics_add(both, x, x));
    dt_tensor *bad = random_tensor(ctx, 2, dims);
    ((float *)dt_data_mut(bad))[7] = INFINITY;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "element 7 of the inputs is inf",
               dt_statistics_add(s, bad, NULL));
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "element 7 of the float model's inputs is inf",
               dt_statistics_add(both, x, bad));
    dt_tensor_free(bad);
    ck_assert_int_eq((int)dt_statistics_samples(both), 4);
    dt_tensor_free(x);
    dt_tensor_free(y);
    dt_tensor_free(wide);
    dt_tensor_free(turned);
    dt_statistics_free(s);
    dt_statistics_free(both);
    dt_statistics_free(NULL);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status scenario(dt_ctx *ctx, void *user)
{
    (void)user;
    const geometry *g = &large[1];
    dt_tensor *x;
    dt_statistics *s;
    DT__TRY(dt_tensor_create(ctx, DT_F32, g->rank, g->x, &x));
    dt_status status = dt_statistics_create(ctx, &g->op, g->rank, g->w, true, &s);
    if (status == DT_OK) {
        status = dt_statistics_add(s, x, x);
        dt_statistics_free(s);
    }
    dt_tensor_free(x);
    return status;
}

START_TEST(memory_may_fail) { ck_assert_int_gt(test_every_allocation(scenario, NULL), 8); }
END_TEST

/* Two and a half squares, and slices. */
START_TEST(memory_is_only_that_of_the_sums)
{
    dt_ctx *ctx = context(1);
    dt_statistics *s;
    const int64_t w[] = { 1, 2048 };
    TEST_OK(ctx, dt_statistics_create(ctx, &linear, 2, w, true, &s));
    const double squares = (double)dt_memory_of(ctx).peak / (8.0 * 2048 * 2048);
    ck_assert_msg(squares > 2.5 && squares < 4, "%g squares", squares);
    dt_statistics_free(s);
    ck_assert_int_eq((int)dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_statistics_suite(void)
{
    Suite *suite = suite_create("statistics");
    TCase *c = tcase_create("statistics");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, reference_values_are_equal, 0, FILES);
    tcase_add_loop_test(c, a_weight_times_X_equals_its_op, 0, GEOMETRIES);
    tcase_add_loop_test(c, threads_and_batches_do_not_change_a_bit, 0, LARGE);
    tcase_add_loop_test(c, sums_equal_plain_sums, 0, LARGE);
    tcase_add_test(c, inputs_of_a_linear_layer_have_any_rank);
    tcase_add_test(c, sums_go_on);
    tcase_add_loop_test(c, mistakes_are_named, 0, (int)(sizeof mistakes / sizeof mistakes[0]));
    tcase_add_test(c, inputs_are_checked);
    tcase_add_test(c, memory_may_fail);
    tcase_add_test(c, memory_is_only_that_of_the_sums);
    suite_add_tcase(suite, c);
    return suite;
}
