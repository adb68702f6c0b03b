/* Weights whose scale groups are not consecutive columns: rounders that give each column a group,
 * dequantized values, products and gradients of every kind of layer, and files of such weights. */
#include "module_to.h"
#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/experimental/nn.h>
#include <detent/ops.h>
#include <detent/qat.h>

#include "autograd/codes.h"
#include "core/tensor.h"
#include "io/model/model.h"
#include "nn/module.h"
#include "qat/prepare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static dt_ctx *ctx;
static char folder[TEST_PATH], path[TEST_PATH];

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
}

static void teardown(void) { dt_ctx_free(ctx); }

/* ---- a rounder that assigns groups at random ------------------------------------------------ */

enum { DEALT, LEFT, WRITTEN, OUTSIDE, NEGATIVE, UNEVEN }; /* the groups that a dealer gives */

/* A rounder that gives groups; those of the last weight. */
typedef struct dealer {
    int how;
    int64_t rows, columns, groups;
    dt_code_rows given;
    int32_t *group_of; /* [op groups][columns], also where none may be given */
    dt__stream random;
} dealer;

static dealer dealer_of(int how, int seed)
{
    return (dealer){ .how = how, .random = dt__stream_of((uint64_t)seed, DT__FOR_INIT) };
}

static int64_t below(dealer *d, int64_t n)
{
    return (int64_t)dt__random_below(&d->random, (uint64_t)n);
}

static void forget(dealer *d)
{
    free(d->given.codes);
    free(d->given.scale);
    free(d->given.zero_point);
    free(d->group_of);
}

static void deal(dealer *d, int64_t op_groups)
{
    const int64_t n = op_groups * d->columns;
    for (int64_t i = 0; i < n && d->how == DEALT; i++) {
        int32_t *other = d->group_of + i / d->columns * d->columns + below(d, d->columns);
        const int32_t swapped = *other;
        *other = d->group_of[i];
        d->group_of[i] = swapped;
    }
    if (d->how == OUTSIDE) d->group_of[n - 1] = (int32_t)d->groups;
    if (d->how == NEGATIVE) d->group_of[0] = -1;
    if (d->how == UNEVEN) d->group_of[0] = 1;
}

static dt_status round_dealt(void *user, const char *name, const dt_tensor *master,
                             const dt_quant_spec *quant, const dt_code_rows *to)
{
    dealer *d = user;
    const int64_t group = quant->granularity == DT_PER_GROUP ? quant->group_size : INT64_MAX;
    const int qmin = -(1 << (quant->bits - 1)), span = 1 << quant->bits;
    ck_assert_ptr_nonnull(strstr(name, "weight"));
    forget(d);
    d->rows = dt_dim(master, 0);
    d->columns = dt_count(master) / d->rows;
    d->groups = dt__ceil_div(d->columns, dt__min_i64(group, d->columns));
    const int64_t n = d->rows * d->columns, blocks = d->rows * d->groups;
    for (int64_t i = 0; i < n; i++) to->codes[i] = (int8_t)(qmin + below(d, span));
    for (int64_t i = 0; i < blocks; i++) to->scale[i] = (float)(1 + below(d, 1000)) * 0x1p-12f;
    for (int64_t i = 0; i < blocks && to->zero_point != NULL; i++) {
        to->zero_point[i] = (int8_t)(qmin + below(d, span));
    }
    d->given = (dt_code_rows){ malloc((size_t)n), malloc((size_t)blocks * sizeof(float)),
                               to->zero_point == NULL ? NULL : malloc((size_t)blocks), NULL,
                               to->op_groups };
    memcpy(d->given.codes, to->codes, (size_t)n);
    memcpy(d->given.scale, to->scale, (size_t)blocks * sizeof(float));
    if (to->zero_point != NULL) memcpy(d->given.zero_point, to->zero_point, (size_t)blocks);
    const size_t bytes = (size_t)(to->op_groups * d->columns) * sizeof(int32_t);
    d->group_of = calloc(1, bytes);
    ck_assert_int_eq(to->group_of != NULL, d->groups > 1);
    if (to->group_of == NULL) return DT_OK;
    for (int64_t i = 0; i < to->op_groups * d->columns; i++) {
        d->group_of[i] = (int32_t)(i % d->columns / group);
        TEST_EACH(to->group_of[i] == d->group_of[i], "groups begin as consecutive ones");
    }
    deal(d, to->op_groups);
    if (d->how != LEFT) memcpy(to->group_of, d->group_of, bytes);
    return DT_OK;
}

/* ---- layers of every kind ------------------------------------------------------------------- */

typedef struct kind {
    const char *name;
    int rank; /* of x; 2 or 3 of a linear layer */
    bool transposed;
    int64_t in, out, groups, kernel;
    int64_t x[4];
} kind;

static const kind kinds[] = {
    { "linear", 2, .in = 45, .out = 37, .x = { 5, 45 } },
    { "linear, many rows", 3, .in = 70, .out = 9, .x = { 3, 17, 70 } },
    { "linear, one row", 2, .in = 200, .out = 70, .x = { 1, 200 } },
    { "linear, one group", 2, .in = 8, .out = 3, .x = { 2, 8 } },
    { "conv1d", 3, false, 4, 6, 1, 5, { 3, 4, 21 } },
    { "conv1d, groups", 3, false, 8, 6, 2, 4, { 2, 8, 30 } },
    { "transposed 1d", 3, true, 6, 4, 2, 4, { 2, 6, 9 } },
    { "conv2d", 4, false, 3, 8, 1, 3, { 3, 3, 9, 7 } },
    { "conv2d, points", 4, false, 40, 35, 1, 1, { 2, 40, 5, 4 } },
    { "conv2d, groups", 4, false, 16, 12, 4, 3, { 2, 16, 6, 11 } },
    { "depthwise", 4, false, 8, 16, 8, 3, { 2, 8, 10, 9 } },
    { "depthwise of five", 4, false, 40, 40, 40, 5, { 1, 40, 8, 9 } },
    { "transposed 2d", 4, true, 5, 34, 1, 3, { 2, 5, 4, 5 } },
    { "transposed 2d, groups", 4, true, 12, 6, 3, 3, { 2, 12, 5, 4 } },
    { "transposed depthwise", 4, true, 9, 9, 9, 4, { 1, 9, 5, 3 } },
};

static dt_module *model_of(const kind *k)
{
    dt_module *m, *layer;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    dt_conv_layer l = { k->in, k->out, { k->kernel, k->kernel }, true, dt_conv_defaults() };
    l.conv.groups = dt__max_i64(1, k->groups);
    l.conv.stride[0] = 2;
    l.conv.padding[0] = l.conv.padding[1] = k->kernel / 2;
    if (k->kernel == 0) {
        TEST_OK(ctx, dt_linear_create(ctx, k->in, k->out, true, &layer));
    } else if (k->rank == 3) {
        TEST_OK(ctx,
                (k->transposed ? dt_conv_transpose1d_create : dt_conv1d_create)(ctx, &l, &layer));
    } else {
        TEST_OK(ctx,
                (k->transposed ? dt_conv_transpose2d_create : dt_conv2d_create)(ctx, &l, &layer));
    }
    TEST_OK(ctx, dt_module_add(m, "layer", layer));
    return m;
}

static dt_tensor *input_of(const kind *k)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, k->rank, k->x, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0.2, 1));
    return x;
}

enum { INTEGER, SIMULATED, ZERO_POINTS, FLOAT_INPUT, FOUR_BITS, VARIANTS };
static const char *const variants[] = { "integer", "simulated", "zero points", "float input",
                                        "4-bit input" };

static dt_qat_options options_of(int variant)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = variant == FLOAT_INPUT ? DT_INT4_WEIGHT : DT_INT8_DYNAMIC_INT4_WEIGHT;
    if (variant == SIMULATED) o.forward = DT_FORWARD_SIMULATED;
    o.weight.has_group_size = true;
    o.weight.quant.group_size = 8;
    o.weight.has_scheme = variant == ZERO_POINTS;
    o.weight.quant.scheme = DT_SCHEME_ASYMMETRIC;
    o.activation.has_bits = variant == FOUR_BITS;
    o.activation.quant.bits = 4;
    return o;
}

/* A layer prepared and converted by a dealer. */
static dt_module *converted(const kind *k, int variant, dealer *d)
{
    dt_module *m = model_of(k);
    const dt_qat_options o = options_of(variant);
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, &(dt_rounder){ "dealer", round_dealt, d }, NULL));
    return m;
}

static dt_tensor *weight_of(dt_module *m) { return dt_param(m, "layer.weight"); }

static bool has_order(dt_module *m)
{
    return ((const dt__packed *)weight_of(m)->ext)->codes->order != NULL;
}

/* ---- dequantized values --------------------------------------------------------------------- */

/* Where element (row, column) of a transposed layer's weight lies. */
static int64_t element(const kind *k, int64_t row, int64_t column)
{
    const int64_t taps = k->rank == 4 ? k->kernel * k->kernel : k->kernel;
    const int64_t out = k->out / k->groups, in = k->in / k->groups, g = row / out;
    return ((g * in + column / taps) * out + row % out) * taps + column % taps;
}

static float value_of(const dealer *d, int64_t row, int64_t column)
{
    const int64_t op_group = row / (d->rows / d->given.op_groups);
    const int64_t block = row * d->groups + d->group_of[op_group * d->columns + column];
    const int zero = d->given.zero_point == NULL ? 0 : d->given.zero_point[block];
    return (float)(d->given.codes[row * d->columns + column] - zero) * d->given.scale[block];
}

static void check_image(const kind *k, dt_module *m, const dealer *d, const char *what)
{
    dt_tensor *image;
    TEST_OK(ctx, dt_dequantize(weight_of(m), &image));
    const float *y = dt_data(image);
    for (int64_t r = 0; r < d->rows; r++) {
        for (int64_t c = 0; c < d->columns; c++) {
            const int64_t i = k->transposed ? element(k, r, c) : r * d->columns + c;
            TEST_EACH(y[i] == value_of(d, r, c), "%s: %s: row %d, column %d is %g, not %g", k->name,
                      what, (int)r, (int)c, (double)y[i], (double)value_of(d, r, c));
        }
    }
    dt_tensor_free(image);
}

/* Tiles of the dequantized value with any begin and end. */
static void check_tiles(dt_module *m, dealer *d)
{
    const dt__codes *codes = ((const dt__packed *)weight_of(m)->ext)->codes;
    float *y = malloc((size_t)(d->rows * d->columns) * sizeof *y);
    for (int i = 0; i < 40; i++) {
        dt__patch p = { .r0 = below(d, d->rows), .c0 = below(d, d->columns), .y = y };
        p.r1 = p.r0 + 1 + below(d, d->rows - p.r0);
        p.c1 = p.c0 + 1 + below(d, d->columns - p.c0);
        p.ldy = p.c1 - p.c0;
        dt__codes_expand(codes, &p);
        for (int64_t r = p.r0; r < p.r1; r++) {
            for (int64_t c = p.c0; c < p.c1; c++) {
                TEST_EACH(y[(r - p.r0) * p.ldy + c - p.c0] == value_of(d, r, c),
                          "a tile: row %d, column %d", (int)r, (int)c);
            }
        }
    }
    free(y);
}

/* ---- outputs and gradients ------------------------------------------------------------------ */

typedef struct outcome {
    int64_t n, n_x;
    double *y, *dx;
} outcome;

static double *doubles(const dt_tensor *x)
{
    double *out = malloc((size_t)dt_count(x) * sizeof *out);
    for (int64_t i = 0; i < dt_count(x); i++) {
        out[i] = dt_dtype_of(x) == DT_F64 ? ((const double *)dt_data(x))[i]
                                          : (double)((const float *)dt_data(x))[i];
    }
    return out;
}

/* y and dx of sum(y dy), dy being the same numbers for each dtype. */
static outcome pass(dt_module *m, dt_tensor *x)
{
    dt_tape *t;
    dt_tensor *dy;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    dt_train(m, false);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    outcome o = { dt_count(y), dt_count(x), doubles(y), NULL };
    TEST_OK(ctx, dt_tensor_create(ctx, dt_dtype_of(y), dt_rank(y), y->dims, &dy));
    for (int64_t i = 0; i < o.n; i++) {
        const double v = (double)(i * 37 % 64) / 32 - 1;
        if (dt_dtype_of(y) == DT_F64) ((double *)dt_data_mut(dy))[i] = v;
        else ((float *)dt_data_mut(dy))[i] = (float)v;
    }
    TEST_OK(ctx, dt_backward(t, y, dy));
    o.dx = doubles(dt_grad(x));
    dt_grad_clear(x);
    dt_tensor_free(dy);
    dt_tape_free(t);
    return o;
}

static void free_outcome(outcome *o)
{
    free(o->y);
    free(o->dx);
}

/* The layer's input: the dequantized value of x, as a double. */
static dt_tensor *input_image(dt_module *m, dt_tensor *x)
{
    dt_module *layer = dt_module_at(m, "layer");
    const dt__input_hook *hook = dt__input_hook_of(layer);
    dt_tensor *image = x, *out;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    if (hook != NULL) {
        const dt__fq fq = { .quant = hook->quant,
                            .enabled = true,
                            .samples = layer->type->samples };
        TEST_OK(ctx, dt_dequantize(dt__fake_quant_as(t, x, &fq), &image));
    }
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F64, dt_rank(x), x->dims, &out));
    double *to = dt_data_mut(out);
    for (int64_t i = 0; i < dt_count(x); i++) to[i] = (double)((const float *)dt_data(image))[i];
    if (image != x) dt_tensor_free(image);
    dt_tape_free(t);
    return out;
}

/* The same layer in double, with the dequantized weight. */
static dt_module *double_model(const kind *k, dt_module *m)
{
    dt_module *plain = model_of(k);
    dt_tensor *image;
    TEST_OK(ctx, dt_dequantize(weight_of(m), &image));
    const size_t bytes = (size_t)dt_count(image) * sizeof(float);
    memcpy(dt_data_mut(weight_of(plain)), dt_data(image), bytes);
    const dt_tensor *bias = dt_param(m, "layer.bias");
    memcpy(dt_data_mut(dt_param(plain, "layer.bias")), dt_data(bias),
           (size_t)dt_count(bias) * sizeof(float));
    dt_tensor_free(image);
    TEST_OK(ctx, module_to(plain, DT_F64));
    return plain;
}

static double largest(const dt_tensor *x)
{
    double most = 0;
    for (int64_t i = 0; i < dt_count(x); i++) {
        most = fmax(most, fabs((double)((const float *)dt_data(x))[i]));
    }
    return most;
}

/* The largest sum of a row's magnitudes, a bound on the terms of an error. */
static double largest_row(const dealer *d)
{
    double most = 0;
    for (int64_t r = 0; r < d->rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < d->columns; c++) sum += fabs((double)value_of(d, r, c));
        most = fmax(most, sum);
    }
    return most;
}

static void near_all(const double *got, const double *want, int64_t n, double within,
                     const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(fabs(got[i] - want[i]) <= within, "%s: element %d is %.9g, not %.9g +- %.2g",
                  what, (int)i, got[i], want[i], within);
    }
}

/* Compares with the product of the dequantized weight and x, in double. Error bounds: the integer
 * form adds terms of codes + 128, at most 510 steps of x; sums of floats have `columns` terms. */
static void check_outcome(const kind *k, int variant, dt_module *m, const dealer *d)
{
    char what[120];
    snprintf(what, sizeof what, "%s, %s", k->name, variants[variant]);
    dt_tensor *x = input_of(k), *x64 = input_image(m, x);
    dt_module *plain = double_model(k, m);
    outcome got = pass(m, x), want = pass(plain, x64);
    ck_assert_int_eq(got.n, want.n);
    const double terms = 2 * largest(x) * largest_row(d) + 1, eps = 0x1p-24;
    near_all(got.y, want.y, got.n, 510 * terms * (double)(d->groups + 6) * eps / 15, what);
    near_all(got.dx, want.dx, got.n_x, 1e-5 * largest_row(d) * (double)d->rows, what);
    free_outcome(&got);
    free_outcome(&want);
    dt_module_free(plain);
    dt_tensor_free(x);
    dt_tensor_free(x64);
}

START_TEST(every_layer_multiplies_its_dequantized_weight)
{
    const kind *k = &kinds[_i];
    for (int variant = 0; variant < VARIANTS; variant++) {
        dealer d = dealer_of(DEALT, _i);
        dt_module *m = converted(k, variant, &d);
        ck_assert_int_eq(has_order(m), d.groups > 1);
        check_image(k, m, &d, variants[variant]);
        check_tiles(m, &d);
        check_outcome(k, variant, m, &d);
        dt_module_free(m);
        forget(&d);
    }
}
END_TEST

/* The results of an op on the weight and on its dequantized value, which uses another kernel. */
static void same_as_image(dt_tensor *(*op)(dt_tape *t, dt_tensor *x, dt_tensor *w), dt_tensor *x,
                          dt_tensor *w)
{
    dt_tape *t;
    dt_tensor *image;
    dt__fq fq = { .quant = dt_activation_quant_defaults(), .enabled = true, .samples = true };
    fq.quant.granularity = DT_PER_SAMPLE;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_dequantize(w, &image));
    dt_tensor *u = dt__fake_quant_as(t, x, &fq);
    dt_tensor *got = op(t, u, w), *want = op(t, u, image);
    TEST_OK(ctx, dt_tape_status(t));
    ck_assert_mem_eq(dt_data(got), dt_data(want), (size_t)dt_count(got) * sizeof(float));
    dt_tensor_free(image);
    dt_tape_free(t);
}

static dt_tensor *conv_of_two(dt_tape *t, dt_tensor *x, dt_tensor *w)
{
    dt_conv_options o = dt_conv_defaults();
    o.groups = 2;
    return dt_conv2d(t, x, w, NULL, &o);
}

static dt_tensor *linear_of(dt_tape *t, dt_tensor *x, dt_tensor *w)
{
    return dt_linear(t, x, w, NULL);
}

/* An op whose groups are not those of the orders computes with the dequantized value. */
START_TEST(orders_of_other_ops)
{
    dealer d = dealer_of(DEALT, 1);
    dt_module *m = converted(&kinds[9], INTEGER, &d); /* [12,4,3,3] of four groups */
    dt_tensor *x, *w;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 2, 8, 5, 6 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    same_as_image(conv_of_two, x, weight_of(m));
    dt_tensor_free(x);

    const dt__codes *codes = ((const dt__packed *)weight_of(m)->ext)->codes;
    dt__packed *packed = dt__alloc(ctx, sizeof *packed);
    *packed = *(const dt__packed *)weight_of(m)->ext;
    dt__codes_retain(packed->codes);
    const int64_t dims[2] = { codes->rows, codes->columns };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &w));
    dt__packed_take(w, packed);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 3, codes->columns }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    same_as_image(linear_of, x, w);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_module_free(m);
    forget(&d);
}
END_TEST

/* ---- the products of linear, bit for bit ---------------------------------------------------- */

typedef struct linear {
    int64_t m, rows, columns, group;
    int bits, input_bits, scale_dtype;
    bool straight; /* groups are consecutive */
    dt__panel_layout layout;
    dt_code_rows given;
    dt_tensor *x;
    dt__codes *x_codes, *w;
} linear;

static void make_linear(linear *p, dealer *d)
{
    const dt__panel_shape shape = { p->rows, p->columns, p->group, p->bits, p->scale_dtype, 0 };
    ck_assert(dt__panel_layout_of(&shape, &p->layout));
    const int64_t n = p->rows * p->columns, blocks = p->rows * p->layout.groups;
    p->given = (dt_code_rows){ malloc((size_t)n), malloc((size_t)blocks * sizeof(float)), NULL,
                               malloc((size_t)p->columns * sizeof(int32_t)), 1 };
    const int64_t span = 1 << p->bits;
    for (int64_t i = 0; i < n; i++) p->given.codes[i] = (int8_t)(below(d, span) - span / 2);
    for (int64_t i = 0; i < blocks; i++) p->given.scale[i] = (float)(1 + below(d, 100)) * 0x1p-9f;
    for (int64_t i = 0; i < p->columns; i++) p->given.group_of[i] = (int32_t)(i / p->group);
    d->columns = p->columns;
    d->group_of = p->given.group_of;
    if (!p->straight) deal(d, 1);
    d->group_of = NULL;
    TEST_OK(ctx, dt__codes_from_rows(ctx, &p->layout, false, &p->given, &p->w));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ p->m, p->columns }, &p->x));
    TEST_OK(ctx, dt_fill_normal(p->x, 0.1, 1));
    dt__fq like = { .quant = dt_activation_quant_defaults() };
    like.quant.bits = p->input_bits;
    TEST_OK(ctx, dt__codes_make(p->x, &like, "x", &p->x_codes));
}

static void free_linear(linear *p)
{
    free(p->given.codes);
    free(p->given.scale);
    free(p->given.group_of);
    dt__codes_release(p->w);
    dt__codes_release(p->x_codes);
    dt_tensor_free(p->x);
}

/* The sum of group g of a row: of u q, or of q. */
static int64_t sum_of(const linear *p, int64_t row, int64_t g, const uint8_t *u)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < p->columns; k++) {
        if (p->given.group_of[k] != g) continue;
        sum += (u == NULL ? 1 : u[k]) * p->given.codes[row * p->columns + k];
    }
    return sum;
}

/* Numerics §2, for groups that are not cut into pieces. */
static float integer_output(const linear *p, const uint8_t *u, int64_t m, int64_t row)
{
    const float *scale = p->given.scale + row * p->layout.groups;
    float ksum = 0;
    for (int64_t g = 0; g < p->layout.groups; g++) {
        ksum = fmaf(scale[g], (float)sum_of(p, row, g, NULL), ksum);
    }
    float acc = -((float)p->x_codes->zero_u[m] * ksum);
    for (int64_t g = 0; g < p->layout.groups; g++) {
        acc = fmaf((float)sum_of(p, row, g, u), scale[g], acc);
    }
    return p->x_codes->scale[m] * acc;
}

static float float_output(const linear *p, const float *x, int64_t row)
{
    float acc = 0;
    for (int64_t g = 0; g < p->layout.groups; g++) {
        float part[2] = { 0, 0 };
        int64_t place = 0;
        for (int64_t k = 0; k < p->columns; k++) {
            if (p->given.group_of[k] != g) continue;
            float *sum = &part[place++ / 4 % 2];
            *sum = fmaf(x[k], (float)p->given.codes[row * p->columns + k], *sum);
        }
        acc = fmaf(part[0] + part[1], p->given.scale[row * p->layout.groups + g], acc);
    }
    return acc;
}

/* Rows of every product against the formula; of many rows only some. */
static void check_linear(const linear *p)
{
    const int64_t n = p->rows;
    float *y = malloc((size_t)(p->m * n) * sizeof *y);
    void *room = malloc(dt__codes_product_room(p->x_codes, p->w) + 1);
    uint8_t *bytes = malloc(dt__codes_room(p->x_codes) + 1);
    const uint8_t *u = dt__codes_bytes(p->x_codes, 0, dt__codes_slice(p->x_codes), bytes);
    const dt__codes_weight w = { .w = p->w, .y = y };
    dt__codes_product(&(dt__codes_products){ .x = p->x_codes, .n = 1, .weight = &w, .room = room });
    for (int64_t m = 0; m < dt__codes_slice(p->x_codes); m += 1 + p->m / 8) {
        for (int64_t row = 0; row < n; row++) {
            const float want = integer_output(p, u + m * dt__codes_byte_stride(p->x_codes), m, row);
            TEST_EACH(y[m * n + row] == want, "m %d, row %d: %.9g, not %.9g", (int)m, (int)row,
                      (double)y[m * n + row], (double)want);
        }
    }
    free(room);
    free(bytes);
    if (dt__codes_multiply_floats(p->m, p->w)) {
        room = malloc(dt__codes_floats_room(p->m, p->w) + 1);
        const dt__codes_weight of = { .w = p->w, .y = y };
        dt__codes_product_floats(&(dt__codes_floats){ p->m, dt_data(p->x), 1, &of, room });
        for (int64_t i = 0; i < p->m * n; i++) {
            const float *x = (const float *)dt_data(p->x) + i / n * p->columns;
            TEST_EACH(y[i] == float_output(p, x, i % n), "floats: element %d", (int)i);
        }
        free(room);
    }
    free(y);
}

/* The rows are restored. */
static void check_rows(const linear *p)
{
    const size_t n = (size_t)(p->rows * p->columns), blocks = (size_t)(p->rows * p->layout.groups);
    dt_code_rows back = { malloc(n), malloc(blocks * sizeof(float)), NULL,
                          malloc((size_t)p->columns * sizeof(int32_t)), 1 };
    dt__codes_to_rows(p->w, &back);
    ck_assert_mem_eq(back.codes, p->given.codes, n);
    ck_assert_mem_eq(back.scale, p->given.scale, blocks * sizeof(float));
    ck_assert_int_eq(dt__codes_op_groups(p->w), p->straight || p->layout.groups == 1 ? 0 : 1);
    if (dt__codes_op_groups(p->w) > 0) {
        ck_assert_mem_eq(back.group_of, p->given.group_of, (size_t)p->columns * sizeof(int32_t));
    }
    free(back.codes);
    free(back.scale);
    free(back.group_of);
}

START_TEST(linear_products_are_the_formula)
{
    static const linear shapes[] = {
        { 1, 70, 128, 32, 4, 8, DT__SCALE_F32, false, .x = NULL },
        { 7, 33, 45, 8, 3, 8, DT__SCALE_F32, false, .x = NULL },
        { 16, 5, 19, 16, 2, 4, DT__SCALE_BF16, false, .x = NULL },
        { 3, 40, 200, 64, 8, 8, DT__SCALE_F16, false, .x = NULL },
        { 5, 32, 31, 8, 6, 4, DT__SCALE_F32, false, .x = NULL },
        { 20, 9, 64, 8, 4, 3, DT__SCALE_F32, false, .x = NULL },
        { 1200, 3, 1601, 128, 4, 8, DT__SCALE_F32, false, .x = NULL }, /* several slices */
        { 1200, 3, 1601, 128, 4, 4, DT__SCALE_F32, false, .x = NULL },
        { 4, 33, 45, 8, 4, 8, DT__SCALE_F32, true, .x = NULL },
        { 4, 33, 40, 64, 4, 8, DT__SCALE_F32, false, .x = NULL }, /* one group */
    };
    linear p = shapes[_i];
    dealer d = dealer_of(DEALT, _i);
    make_linear(&p, &d);
    check_rows(&p);
    check_linear(&p);
    free_linear(&p);
}
END_TEST

/* Groups that panels cut into pieces. */
START_TEST(long_groups)
{
    linear p = { 2, 2, 70001, 40000, 4, 8, DT__SCALE_F32, false, .x = NULL };
    dealer d = dealer_of(DEALT, 1);
    make_linear(&p, &d);
    check_rows(&p);
    float *y = malloc((size_t)(p.rows * p.columns) * sizeof *y);
    dt__codes_expand(p.w, &(dt__patch){ 0, p.rows, 0, p.columns, y, p.columns });
    for (int64_t i = 0; i < p.rows * p.columns; i++) {
        const int64_t block = i / p.columns * 2 + p.given.group_of[i % p.columns];
        TEST_EACH(y[i] == (float)p.given.codes[i] * p.given.scale[block], "element %d", (int)i);
    }
    free(y);
    free_linear(&p);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

START_TEST(threads_change_nothing)
{
    const kind *k = &kinds[_i];
    double *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        dt_ctx_options o = dt_ctx_defaults();
        dt_ctx *outer = ctx;
        o.threads = threads;
        TEST_OK(NULL, dt_ctx_create(&ctx, &o));
        dealer d = dealer_of(DEALT, _i);
        dt_module *m = converted(k, INTEGER, &d);
        dt_tensor *x = input_of(k);
        outcome y = pass(m, x);
        if (first == NULL) first = y.y, y.y = NULL;
        else ck_assert_mem_eq(first, y.y, (size_t)y.n * sizeof(double));
        free_outcome(&y);
        dt_tensor_free(x);
        dt_module_free(m);
        forget(&d);
        dt_ctx_free(ctx);
        ctx = outer;
    }
    free(first);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static dt_module *loaded(const kind *k, const char *from)
{
    dt_file *f;
    dt_module *m = model_of(k);
    TEST_OK(ctx, dt_file_open(ctx, from, &f));
    TEST_OK(ctx, dt_model_check(f));
    TEST_OK(ctx, dt__restore(&(dt__restoring){ .file = f, .m = m, .quantized = true }));
    dt_file_close(f);
    return m;
}

static void check_entry(const kind *k, const dealer *d)
{
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    const dt_file_entry *e = dt_file_find(f, "layer.weight.g_idx");
    ck_assert_int_eq(e != NULL, d->groups > 1);
    if (e != NULL) {
        const bool one = k->groups <= 1;
        ck_assert_str_eq(e->dtype, "I32");
        ck_assert_int_eq(e->rank, one ? 1 : 2);
        ck_assert_int_eq(e->dims[e->rank - 1], d->columns);
        ck_assert_int_eq(e->count, d->columns * (one ? 1 : k->groups));
        ck_assert_mem_eq(e->data, d->group_of, e->bytes);
    }
    dt_file_close(f);
}

START_TEST(files_hold_orders)
{
    const kind *k = &kinds[_i];
    char again[TEST_PATH];
    test_join(again, folder, "again.safetensors");
    for (int variant = 0; variant < VARIANTS; variant++) {
        dealer d = dealer_of(DEALT, _i);
        dt_module *m = converted(k, variant, &d);
        TEST_OK(ctx, dt_model_save(m, NULL, path));
        check_entry(k, &d);
        dt_module *copy = loaded(k, path);
        dt_tensor *x = input_of(k);
        outcome a = pass(m, x), b = pass(copy, x);
        ck_assert_mem_eq(a.y, b.y, (size_t)a.n * sizeof(double));
        ck_assert_mem_eq(a.dx, b.dx, (size_t)a.n_x * sizeof(double));
        TEST_OK(ctx, dt_model_save(copy, NULL, again));
        size_t size[2];
        char *bytes[2] = { test_read_file(path, &size[0]), test_read_file(again, &size[1]) };
        ck_assert_uint_eq(size[0], size[1]);
        ck_assert_mem_eq(bytes[0], bytes[1], size[0]);
        free(bytes[0]);
        free(bytes[1]);
        free_outcome(&a);
        free_outcome(&b);
        dt_tensor_free(x);
        dt_module_free(copy);
        dt_module_free(m);
        forget(&d);
    }
}
END_TEST

/* An explicit list of consecutive groups gives the bits of no list. */
START_TEST(consecutive_groups_written_out_change_nothing)
{
    const kind *k = &kinds[9];
    outcome y[2];
    char *bytes[2];
    size_t size[2];
    dt_tensor *x = input_of(k);
    const dt__stream init = ctx->stream[DT__FOR_INIT];
    for (int i = 0; i < 2; i++) {
        dealer d = dealer_of(i == 0 ? LEFT : WRITTEN, 3);
        ctx->stream[DT__FOR_INIT] = init;
        dt_module *m = converted(k, INTEGER, &d);
        ck_assert(!has_order(m));
        y[i] = pass(m, x);
        TEST_OK(ctx, dt_model_save(m, NULL, path));
        bytes[i] = test_read_file(path, &size[i]);
        dt_module_free(m);
        forget(&d);
    }
    ck_assert_uint_eq(size[0], size[1]);
    ck_assert_mem_eq(bytes[0], bytes[1], size[0]);
    ck_assert_mem_eq(y[0].y, y[1].y, (size_t)y[0].n * sizeof(double));
    for (int i = 0; i < 2; i++) {
        free_outcome(&y[i]);
        free(bytes[i]);
    }
    dt_tensor_free(x);
}
END_TEST

START_TEST(wrong_groups_of_a_rounder_are_refused)
{
    static const char *const says[] = {
        [OUTSIDE] = "column 35 of op group 3: group 5 of 5 does not exist",
        [NEGATIVE] = "column 0 of op group 0: group -1 of 5 does not exist",
        [UNEVEN] = "column 15 of op group 0: group 1 has its columns already",
    };
    const kind *k = &kinds[9]; /* rows of 36 in groups of 8 */
    dt_module *m = model_of(k);
    const dt_qat_options o = options_of(INTEGER);
    TEST_OK(ctx, dt_prepare(m, &o));
    for (int how = OUTSIDE; how <= UNEVEN; how++) {
        dealer d = dealer_of(how, 1);
        const dt_rounder rounder = { "dealer", round_dealt, &d };
        TEST_FAILS(ctx, DT_ERR_ARG, says[how], dt_convert(m, &rounder, NULL));
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "convert: layer.weight: column "));
        ck_assert(dt_is_fake_quant(weight_of(m)));
        forget(&d);
    }
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    dt_module_free(m);
}
END_TEST

/* A rounder may not reorder columns with granularity channel, nor with a static range. */
START_TEST(some_groups_must_stay)
{
    dt_qat_options o = options_of(INTEGER);
    dealer d = dealer_of(DEALT, 1);
    dt_module *m = model_of(&kinds[0]);
    o.weight.has_granularity = true;
    o.weight.quant.granularity = DT_PER_CHANNEL;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_convert(m, &(dt_rounder){ "dealer", round_dealt, &d }, NULL));
    ck_assert(!has_order(m));
    dt_module_free(m);
    forget(&d);
}
END_TEST

START_TEST(groups_of_the_op_are_checked)
{
    dealer d = dealer_of(DEALT, 1);
    dt_file *f;
    dt_module *m = converted(&kinds[9], INTEGER, &d), *other;
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    TEST_OK(ctx, dt_sequential_create(ctx, &other));
    dt_conv_layer l = {
        8, 12, { 3, 3 }, true, dt_conv_defaults()
    }; /* a weight of the same shape */
    l.conv.groups = 2;
    dt_module *layer;
    TEST_OK(ctx, dt_conv2d_create(ctx, &l, &layer));
    TEST_OK(ctx, dt_module_add(other, "layer", layer));
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_FAILS(ctx, DT_ERR_FORMAT, "its g_idx is not of as many groups as the model's op has",
               dt__restore(&(dt__restoring){ .file = f, .m = other, .quantized = true }));
    ck_assert(!dt_is_converted(other));
    dt_file_close(f);
    dt_module_free(other);
    dt_module_free(m);
    forget(&d);
}
END_TEST

START_TEST(inspect_and_check_read_orders)
{
    dealer d = dealer_of(DEALT, 1);
    dt_module *m = converted(&kinds[9], INTEGER, &d);
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    char *out;
    ck_assert_int_eq(test_shell(&out, DETENT "inspect '%s'", path), 0);
    ck_assert_ptr_nonnull(strstr(out, "int4 symmetric group 8, packed, g_idx"));
    ck_assert_ptr_null(strstr(out, "weight.g_idx")); /* a part of its weight */
    free(out);
    ck_assert_int_eq(test_shell(&out, DETENT "inspect --json '%s'", path), 0);
    ck_assert_ptr_nonnull(strstr(out, "\"g_idx\": true"));
    free(out);
    ck_assert_int_eq(test_shell(NULL, DETENT "check '%s' >'%s.out'", path, path), 0);
    dt_module_free(m);
    forget(&d);
}
END_TEST

/* Every allocation of converting, saving and loading may fail. */
static dt_status every_step(dt_ctx *c, void *user)
{
    (void)user;
    dt_ctx *outer = ctx;
    dt_module *m = NULL, *copy = NULL;
    dt_file *f = NULL;
    dealer d = dealer_of(DEALT, 1);
    const dt_qat_options o = options_of(ZERO_POINTS);
    dt_status s = dt_linear_create(c, 19, 3, true, &m);
    if (s == DT_OK) s = dt_linear_create(c, 19, 3, true, &copy);
    if (s == DT_OK) s = dt_prepare(m, &o);
    if (s == DT_OK) s = dt_convert(m, &(dt_rounder){ "dealer", round_dealt, &d }, NULL);
    if (s == DT_OK) s = dt_model_save(m, NULL, path);
    if (s == DT_OK) s = dt_file_open(c, path, &f);
    if (s == DT_OK) s = dt__restore(&(dt__restoring){ .file = f, .m = copy, .quantized = true });
    if (f != NULL) dt_file_close(f);
    dt_module_free(m);
    dt_module_free(copy);
    forget(&d);
    ctx = outer;
    return s;
}

START_TEST(every_allocation) { ck_assert_int_gt(test_every_allocation(every_step, NULL), 20); }
END_TEST

Suite *test_column_order_suite(void)
{
    Suite *s = suite_create("column_order");
    TCase *c = tcase_create("column_order");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, every_layer_multiplies_its_dequantized_weight, 0, DT__COUNT_OF(kinds));
    tcase_add_test(c, orders_of_other_ops);
    tcase_add_loop_test(c, linear_products_are_the_formula, 0, 10);
    tcase_add_test(c, long_groups);
    tcase_add_loop_test(c, threads_change_nothing, 0, DT__COUNT_OF(kinds));
    tcase_add_loop_test(c, files_hold_orders, 0, DT__COUNT_OF(kinds));
    tcase_add_test(c, consecutive_groups_written_out_change_nothing);
    tcase_add_test(c, wrong_groups_of_a_rounder_are_refused);
    tcase_add_test(c, some_groups_must_stay);
    tcase_add_test(c, groups_of_the_op_are_checked);
    tcase_add_test(c, inspect_and_check_read_orders);
    tcase_add_test(c, every_allocation);
    suite_add_tcase(s, c);
    return s;
}
