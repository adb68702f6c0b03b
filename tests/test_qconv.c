/* Convolutions of integer codes: a plain implementation of numerics §2 against every kernel and
 * instruction set, groups, the unfolded matrix of a transposed convolution, gradients, memory kept
 * for backward. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "testing.h"

#include <detent/experimental/ops.h>

#include "autograd/codes.h"
#include "core/tensor.h"
#include "kernels/convolution/qconv.h"
#include "kernels/sets.h"
#include "qat/quantized.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const test_draws draws = { .usual = 8, .quick = 4, .sanitized = 2 };
static const test_draws rounds = { .usual = 60, .sanitized = 21 };

static dt_ctx *context(int threads)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = threads;
    dt_ctx *ctx;
    ck_assert_int_eq(dt_ctx_create(&ctx, &o), DT_OK);
    TEST_OK(ctx, dt__kernels_open(ctx));
    return ctx;
}

/* ---- problems -------------------------------------------------------------------------------- */

typedef struct problem {
    bool transposed, ordered; /* ordered: groups of the weight's columns are any */
    int64_t batch, in, out, size[2], kernel[2];
    dt_conv_options o;
} problem;

/* The call on two operands, in a new context. */
typedef struct call {
    dt_ctx *ctx;
    dt_tape *t;
    dt_tensor *x, *w, *bias, *y;
    dt_quant_spec of_x, of_w;
    dt__fq like; /* of the weight */
    int32_t *group_of;
    dt_tensor *packed; /* the weight of the last run, where it has those groups */
} call;

static dt_tensor *random_tensor(dt_ctx *ctx, int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0.3, 1));
    return x;
}

static int64_t pick(int64_t n) { return rand() % n; }

/* The scale group of each column: groups of the usual sizes, assigned at random. */
static int32_t *random_groups(int64_t op_groups, int64_t columns, int64_t group)
{
    const int64_t n = op_groups * columns;
    int32_t *of = malloc((size_t)n * sizeof *of + 1);
    for (int64_t i = 0; i < n; i++) of[i] = (int32_t)(i % columns / group);
    for (int64_t i = 0; i < n; i++) {
        const int64_t other = i / columns * columns + pick(columns);
        const int32_t swapped = of[i];
        of[i] = of[other];
        of[other] = swapped;
    }
    return of;
}

static void open_call(call *c, dt_ctx *ctx, const problem *p, const dt_quant_spec *of_w)
{
    const int64_t g = p->o.groups;
    const int64_t w[4] = { p->transposed ? p->in : p->out, (p->transposed ? p->out : p->in) / g,
                           p->kernel[0], p->kernel[1] };
    *c = (call){ .ctx = ctx, .of_x = dt_activation_quant_defaults(), .of_w = *of_w };
    c->of_x.granularity = DT_PER_SAMPLE;
    c->x = random_tensor(ctx, 4, (const int64_t[]){ p->batch, p->in, p->size[0], p->size[1] });
    c->w = random_tensor(ctx, 4, w);
    c->bias = random_tensor(ctx, 1, &p->out);
    c->like = (dt__fq){ .quant = *of_w };
    ck_assert(dt__row_map_of(p->transposed ? g : 0, 4, w, &c->like.map));
    const int64_t columns = p->in / g * w[2] * w[3];
    if (p->ordered) c->group_of = random_groups(g, columns, of_w->group_size);
    TEST_OK(ctx, dt_tape_create(ctx, &c->t));
}

/* The weight's codes; in groups of the call's where it has some. */
static dt__codes *codes_of(const call *c, const problem *p)
{
    dt__codes *nearest, *codes;
    TEST_OK(c->ctx, dt__codes_make(c->w, &c->like, "w", &nearest));
    if (c->group_of == NULL) return nearest;
    const dt__panel_layout l = nearest->layout;
    const dt_code_rows rows = { malloc((size_t)(l.rows * l.columns) + 1),
                                malloc((size_t)(l.rows * l.groups) * sizeof(float) + 1), NULL,
                                c->group_of, p->o.groups };
    dt__codes_to_rows(nearest, &(dt_code_rows){ .codes = rows.codes, .scale = rows.scale });
    TEST_OK(c->ctx, dt__codes_from_rows(c->ctx, &l, false, &rows, &codes));
    codes->map = nearest->map;
    dt__codes_release(nearest);
    free(rows.codes);
    free(rows.scale);
    return codes;
}

/* A packed weight. */
static dt_tensor *packed_weight(const call *c, const problem *p)
{
    dt_tensor *w = random_tensor(c->ctx, 4, c->w->dims);
    dt__packed *packed = dt__alloc(c->ctx, sizeof *packed);
    *packed = (dt__packed){ .quant = c->of_w, .codes = codes_of(c, p) };
    dt__packed_take(w, packed);
    return w;
}

static dt_tensor *run(call *c, const problem *p, bool bias)
{
    const dt__fq samples = { .quant = c->of_x, .enabled = true, .samples = true };
    dt__fq weight = c->like;
    weight.enabled = true;
    dt_tensor *x = dt__fake_quant_as(c->t, c->x, &samples);
    dt_tensor *own = p->ordered ? packed_weight(c, p) : NULL;
    dt_tensor *w = own != NULL ? own : dt__fake_quant_as(c->t, c->w, &weight);
    dt_tensor_free(c->packed);
    c->packed = own;
    c->y =
        (p->transposed ? dt_conv_transpose2d : dt_conv2d)(c->t, x, w, bias ? c->bias : NULL, &p->o);
    TEST_OK(c->ctx, dt_tape_status(c->t));
    return c->y;
}

static void close_call(call *c)
{
    dt_tape_free(c->t);
    dt_tensor *all[] = { c->x, c->w, c->bias, c->packed };
    for (int i = 0; i < 4; i++) dt_tensor_free(all[i]);
    free(c->group_of);
}

/* ---- numerics §2, one output at a time ------------------------------------------------------ */

typedef struct plain {
    dt__codes *x, *w;
    int8_t *q;
    float *scale;
    const int32_t *group_of;
    int *u;       /* of each column, for the output at hand */
    int32_t *sum; /* of each scale group of the row at hand */
    float *ksum;  /* of each row: the sum of scale times q, the factor of the inputs' zero point */
} plain;

static void open_plain(plain *p, const problem *of, const call *c)
{
    const dt__fq samples = { .quant = c->of_x, .samples = true };
    TEST_OK(c->ctx, dt__codes_make(c->x, &samples, "x", &p->x));
    p->w = codes_of(c, of);
    p->group_of = c->group_of;
    p->q = malloc((size_t)(p->w->rows * p->w->columns) + 1);
    p->scale = malloc((size_t)(p->w->rows * p->w->groups) * sizeof(float) + 1);
    p->u = malloc((size_t)p->w->columns * sizeof *p->u + 1);
    p->sum = malloc((size_t)p->w->groups * sizeof *p->sum + 1);
    p->ksum = malloc((size_t)p->w->rows * sizeof *p->ksum + 1);
    dt__codes_to_rows(p->w, &(dt_code_rows){ .codes = p->q, .scale = p->scale });
}

static void close_plain(plain *p)
{
    dt__codes_release(p->x);
    dt__codes_release(p->w);
    free(p->q);
    free(p->scale);
    free(p->u);
    free(p->sum);
    free(p->ksum);
}

/* Where kernel position k of output o reads along an axis; -1: outside. */
static int64_t place(const problem *p, int axis, int64_t o, int64_t k)
{
    const dt_conv_options *c = &p->o;
    int64_t i = o * c->stride[axis] - c->padding[axis] + k * c->dilation[axis];
    if (p->transposed) {
        i = o + c->padding[axis] - k * c->dilation[axis];
        if (i % c->stride[axis] != 0) return -1;
        i /= c->stride[axis];
    }
    return i >= 0 && i < p->size[axis] ? i : -1;
}

/* u of column `at` of the row of an output at (row, column) of sample n in group g. */
static int code_at(const problem *p, const plain *c, const int64_t *o, int64_t g, int64_t at)
{
    const int64_t taps = p->kernel[0] * p->kernel[1], in = p->in / p->o.groups;
    const int64_t channel = g * in + at / taps, k = at % taps;
    const int64_t i = place(p, 0, o[1], k / p->kernel[1]), j = place(p, 1, o[2], k % p->kernel[1]);
    if (i < 0 || j < 0) return c->x->zero_u[o[0]];
    return c->x->u[o[0] * c->x->stride + (channel * p->size[0] + i) * p->size[1] + j];
}

/* sum[i] = the sum of u q over the columns of scale group i of a row of group g. */
static void group_sums(const plain *c, int64_t g, int64_t row)
{
    const int64_t columns = c->w->columns;
    const int8_t *q = c->q + row * columns;
    memset(c->sum, 0, (size_t)c->w->groups * sizeof *c->sum);
    for (int64_t k = 0; k < columns; k++) {
        const int64_t i = c->group_of == NULL ? k / c->w->group : c->group_of[g * columns + k];
        c->sum[i] += c->u[k] * q[k];
    }
}

static void weigh_codes(const problem *p, const plain *c)
{
    for (int64_t k = 0; k < c->w->columns; k++) c->u[k] = 1;
    for (int64_t row = 0; row < p->out; row++) {
        const float *scale = c->scale + row * c->w->groups;
        float ksum = 0;
        group_sums(c, row / (p->out / p->o.groups), row);
        for (int64_t i = 0; i < c->w->groups; i++) ksum = fmaf(scale[i], (float)c->sum[i], ksum);
        c->ksum[row] = ksum;
    }
}

static float output(const plain *c, int64_t n, int64_t g, int64_t row)
{
    const float *scale = c->scale + row * c->w->groups;
    float acc = -((float)c->x->zero_u[n] * c->ksum[row]);
    group_sums(c, g, row);
    for (int64_t i = 0; i < c->w->groups; i++) acc = fmaf((float)c->sum[i], scale[i], acc);
    return c->x->scale[n] * acc;
}

/* All of y, without a bias. */
static float *plainly(const problem *p, const call *c)
{
    const int64_t *d = c->y->dims, plane = d[2] * d[3], rows = d[1] / p->o.groups;
    float *y = malloc((size_t)c->y->count * sizeof *y + 1);
    plain codes;
    open_plain(&codes, p, c);
    weigh_codes(p, &codes);
    for (int64_t o = 0; o < d[0] * p->o.groups * plane; o++) {
        const int64_t i = o % plane, g = o / plane % p->o.groups, n = o / plane / p->o.groups;
        const int64_t at[] = { n, i / d[3], i % d[3] };
        for (int64_t k = 0; k < codes.w->columns; k++) codes.u[k] = code_at(p, &codes, at, g, k);
        for (int64_t row = g * rows; row < (g + 1) * rows; row++) {
            y[(n * d[1] + row) * plane + i] = output(&codes, n, g, row);
        }
    }
    close_plain(&codes);
    return y;
}

/* y and the bias, or 0. */
static float *biased(const float *y, const call *c, bool bias)
{
    const int64_t *d = c->y->dims, plane = d[2] * d[3];
    const float *of_row = dt_data(c->bias);
    float *sum = malloc((size_t)c->y->count * sizeof *sum + 1);
    for (int64_t i = 0; i < c->y->count; i++) sum[i] = y[i] + (bias ? of_row[i / plane % d[1]] : 0);
    return sum;
}

/* ---- random geometry ------------------------------------------------------------------------ */

static problem random_problem(int round)
{
    static const int64_t channels[] = { 1, 2, 3, 4, 8, 9, 16, 20, 33, 40 };
    problem p = { .transposed = round % 3 == 2, .batch = pick(4), .o = dt_conv_defaults() };
    p.batch = p.batch == 0 && round % 16 != 0 ? 1 : p.batch;
    p.o.groups = round % 4 == 1 ? 1 + pick(5) : 1;
    p.in = channels[pick(10)];
    p.out = channels[pick(10)];
    if (round % 4 == 3) p.o.groups = p.in; /* depthwise */
    p.in = dt__round_up(p.in, p.o.groups);
    p.out = dt__round_up(p.out, p.o.groups);
    for (int i = 0; i < 2; i++) {
        p.kernel[i] = round % 5 == 0 ? 1 : round % 5 == 1 ? 3 : 1 + pick(9);
        p.o.stride[i] = 1 + pick(5);
        p.o.dilation[i] = pick(3) == 0 ? 1 + pick(3) : 1;
        p.o.padding[i] = pick(2) == 0 ? 0 : pick(5);
        const int64_t reach = (p.kernel[i] - 1) * p.o.dilation[i] + 1;
        p.size[i] = dt__max_i64(1 + pick(i == 1 ? 40 : 13), reach - 2 * p.o.padding[i]);
        if (!p.transposed) continue;
        p.o.output_padding[i] = pick(dt__max_i64(p.o.stride[i], p.o.dilation[i]));
        const int64_t most = (p.size[i] - 1) * p.o.stride[i] + reach + p.o.output_padding[i] - 1;
        p.o.padding[i] = dt__min_i64(p.o.padding[i], most / 2);
    }
    return p;
}

static dt_quant_spec random_quant(int round)
{
    static const int64_t groups[] = { 8, 16, 32, 64, 1024 };
    dt_quant_spec q = dt_weight_quant_defaults();
    q.bits = 2 + pick(7);
    q.granularity = round % 7 == 0 ? DT_PER_TENSOR : round % 3 == 0 ? DT_PER_CHANNEL : DT_PER_GROUP;
    q.group_size = groups[pick(5)];
    return q;
}

static void describe(char *text, size_t size, const problem *p, const dt_quant_spec *q)
{
    const dt_conv_options *o = &p->o;
    snprintf(text, size,
             "%s%sx [%d,%d,%d,%d] out %d kernel %dx%d stride %d,%d padding %d,%d dilation %d,%d "
             "groups %d, %d bits group %d",
             p->transposed ? "transposed " : "", p->ordered ? "ordered " : "", (int)p->batch,
             (int)p->in, (int)p->size[0], (int)p->size[1], (int)p->out, (int)p->kernel[0],
             (int)p->kernel[1], (int)o->stride[0], (int)o->stride[1], (int)o->padding[0],
             (int)o->padding[1], (int)o->dilation[0], (int)o->dilation[1], (int)o->groups,
             (int)q->bits, (int)q->group_size);
}

static void assert_bits(const float *got, const float *wanted, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(memcmp(got + i, wanted + i, sizeof *got) == 0, "%s: element %d is %.9g, not %.9g",
                  what, (int)i, (double)got[i], (double)wanted[i]);
    }
}

/* Bytes that end at a page that must not be accessed; the test's process frees the pages at its
 * end. */
static uint8_t *guarded(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = (bytes + page - 1) / page * page;
    uint8_t *at =
        mmap(NULL, all + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TEST_EACH(at != MAP_FAILED && mprotect(at + all, page, PROT_NONE) == 0, "no memory");
    return at + all - bytes;
}

/* Every instruction set of this machine, with both algorithms. No byte is read beyond the codes and
 * their slack; no byte beyond the scratch memory is accessed. */
static void compare_sets(const problem *p, call *c, const float *wanted, const char *what)
{
    plain codes;
    open_plain(&codes, p, c);
    const int64_t *x = c->x->dims, *y = c->y->dims;
    dt__conv conv = { .batch = p->batch, .in = p->in, .out = p->out, .groups = p->o.groups };
    for (int i = 0; i < 2; i++) {
        conv.x_size[i] = p->transposed ? y[2 + i] : x[2 + i];
        conv.y_size[i] = p->transposed ? x[2 + i] : y[2 + i];
        conv.kernel[i] = p->kernel[i];
        conv.stride[i] = p->o.stride[i];
        conv.padding[i] = p->o.padding[i];
        conv.dilation[i] = p->o.dilation[i];
    }
    if (p->transposed) conv.in = p->out, conv.out = p->in;
    const size_t bytes = (size_t)(codes.x->rows * codes.x->stride + DT__STEP);
    uint8_t *u = guarded(bytes);
    memcpy(u, codes.x->u, bytes);
    dt__qconv q = { .conv = &conv,
                    .transposed = p->transposed,
                    .layout = &codes.w->layout,
                    .panels = codes.w->panels,
                    .u = u,
                    .ldu = codes.x->stride,
                    .sx = codes.x->scale,
                    .zu = codes.x->zero_u,
                    .bias = dt_data(c->bias),
                    .y = (float *)(void *)guarded((size_t)c->y->count * sizeof(float)),
                    .threads = 3 };
    q.scratch = guarded((size_t)dt__round_up((int64_t)dt__qconv_scratch(&q), 64));
    const dt__kernel_set *set;
    for (int s = 0; (set = dt__kernel_set_at(s)) != NULL; s++) {
        if (!dt__kernel_set_runs(set)) continue;
        memset(q.y, 0x55, (size_t)c->y->count * sizeof(float));
        dt__qconv_run(set->f32, &q);
        assert_bits(q.y, wanted, c->y->count, what);
        memset(q.y, 0x55, (size_t)c->y->count * sizeof(float));
        dt__qconv_run_general(set->f32, &q);
        assert_bits(q.y, wanted, c->y->count, what);
    }
    close_plain(&codes);
}

START_TEST(test_random)
{
    char what[300];
    srand((unsigned)_i);
    for (int round = 0; round < (int)test_count(rounds); round++) {
        problem p = random_problem(round);
        dt_quant_spec q = random_quant(round);
        p.ordered = _i % 2 == 1;
        if (p.ordered) q.granularity = DT_PER_GROUP;
        describe(what, sizeof what, &p, &q);
        dt_ctx *ctx = context(1 + round % 3);
        call c;
        open_call(&c, ctx, &p, &q);
        if (round % 6 == 5) c.of_x.granularity = DT_PER_TENSOR;
        run(&c, &p, round % 2 == 0);
        float *y = plainly(&p, &c), *wanted = biased(y, &c, round % 2 == 0);
        assert_bits(dt_data(c.y), wanted, c.y->count, what);
        free(wanted);
        wanted = biased(y, &c, true);
        compare_sets(&p, &c, wanted, what);
        free(wanted);
        free(y);
        close_call(&c);
        dt_ctx_free(ctx);
    }
}
END_TEST

Suite *test_qconv_suite(void)
{
    Suite *s = suite_create("qconv");
    TCase *c = tcase_create("qconv");
    tcase_add_loop_test(c, test_random, 0, (int)test_count(draws));
    suite_add_tcase(s, c);
    return s;
}
