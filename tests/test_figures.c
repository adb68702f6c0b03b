/* Figures of layers: by their formulas from masters and dequantized values; those of a converted
 * model; and that measuring changes nothing. */
#include "models.h"
#include "plain_arrays.h"
#include "testing.h"

#include <detent/experimental/figures.h>
#include <detent/experimental/layers.h>
#include <detent/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 8

static const int64_t sizes[] = { 20, 24, 12, 5, 0 };

static dt_ctx *ctx;
static dt_tape *t;
static dt_module *m;
static dt_tensor *x;
static dt_layer_figures found[MOST];
static char path[MOST][64];
static int n;

static void setup(void)
{
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    const dt_mlp_options options = small_options(sizes, 1, 0.1);
    m = small_model(ctx, &options);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 16, 20 }, &x));
    float *v = dt_data_mut(x);
    for (int i = 0; i < 320; i++) v[i] = sinf((float)(i * 7)) * (float)(1 + i % 3);
}

static void teardown(void)
{
    dt_tensor_free(x);
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static void keep(void *user, const dt_layer_figures *layer)
{
    (void)user;
    ck_assert_int_lt(n, MOST);
    strcpy(path[n], layer->path);
    found[n] = *layer;
    found[n].path = path[n];
    n++;
}

static void measure(void)
{
    n = 0;
    TEST_OK(ctx, dt_figures(m, x, keep, NULL));
}

static int64_t sum(const int64_t *count, int64_t k)
{
    int64_t all = 0;
    for (int64_t i = 0; i < k; i++) all += count[i];
    return all;
}

/* 10 log10(sum a^2 / sum (a - b)^2) */
static double noise_ratio(const dt_tensor *a, const dt_tensor *b)
{
    const float *p = dt_data(a), *q = dt_data(b);
    long double signal = 0, noise = 0;
    for (int64_t i = 0; i < dt_count(a); i++) {
        signal += (long double)p[i] * p[i];
        noise += ((long double)p[i] - q[i]) * ((long double)p[i] - q[i]);
    }
    return (double)(10 * log10l(signal / noise));
}

static void check_weight(const dt_layer_figures *f)
{
    char name[96];
    dt_tensor *dequantized;
    snprintf(name, sizeof name, "%s.weight", f->path);
    dt_tensor *w = dt_param(m, name);
    TEST_OK(ctx, dt_dequantize(w, &dequantized));
    TEST_NEAR(f->weight.snr, noise_ratio(dt_inner(w), dequantized), 0, 1e-9);
    ck_assert_int_eq(f->weight.elements, dt_count(w));
    ck_assert_int_eq(sum(f->weight.code, f->weight.codes), dt_count(w));
    ck_assert_int_eq(sum(f->weight.bin, DT_FIGURE_BINS), dt_count(w));
    int64_t dead = 0;
    for (int64_t i = 0; i < f->weight.codes; i++) dead += f->weight.code[i] == 0;
    TEST_NEAR(f->weight.dead, (double)dead / (double)f->weight.codes, 0, 0);
    dt_tensor_free(dequantized);
}

START_TEST(figures_are_those_of_the_formulas)
{
    TEST_OK(ctx, dt_prepare(m, NULL));
    measure();
    ck_assert_int_eq(n, 3);
    ck_assert_str_eq(found[0].path, "layers.0");
    ck_assert_str_eq(found[2].path, "head");
    ck_assert_str_eq(found[2].type, "linear");
    ck_assert_str_eq(found[2].weight_scheme, "int4 symmetric group 32");
    for (int i = 0; i < n; i++) check_weight(&found[i]);
    const dt_quant_figures *in = &found[0].input;
    ck_assert(in->given && in->compared && in->codes == 256 && in->elements == 320);
    double bound = 0;
    for (int i = 0; i < 320; i++) bound = fmax(bound, fabs((double)((const float *)dt_data(x))[i]));
    TEST_NEAR(in->bound, bound, 0, 0);
    dt_tensor *y = dt_fake_quant(t, x, &found[0].input_quant, true),
              *read = dt_neg(t, dt_neg(t, y));
    TEST_NEAR(in->snr, noise_ratio(x, read), 0, 1e-9);
    ck_assert_int_eq(sum(in->code, 256), 320);
}
END_TEST

/* -1, 0 and 1 times a scale fit 2 bits exactly: no noise, and the code -2 is dead. */
START_TEST(values_on_the_grid_have_no_noise)
{
    dt_module *layer;
    const dt_quant_patch two = { .quant = { .bits = 2, .granularity = DT_PER_CHANNEL },
                                 .has_bits = true,
                                 .has_granularity = true };
    dt_qat_options o = dt_qat_defaults();
    o.weight = two;
    o.weight.quant.scheme = DT_SCHEME_SYMMETRIC_NO_CLIP;
    o.weight.has_scheme = true;
    TEST_OK(ctx, dt_linear_create(ctx, 20, 4, false, &layer));
    float *w = dt_data_mut(dt_param(layer, "weight"));
    for (int i = 0; i < 80; i++) w[i] = (float)(i % 3 - 1) * 0.5f;
    TEST_OK(ctx, dt_prepare(layer, &o));
    n = 0;
    TEST_OK(ctx, dt_figures(layer, x, keep, NULL));
    ck_assert_int_eq(n, 1);
    ck_assert(isinf(found[0].weight.snr) && found[0].weight.snr > 0);
    TEST_NEAR(found[0].weight.dead, 0.25, 0, 0);
    TEST_NEAR(found[0].weight.clipped, 0, 0, 0);
    ck_assert_int_eq(found[0].weight.code[0], 0);
    ck_assert_int_eq(found[0].weight.code[1] + found[0].weight.code[3],
                     80 - found[0].weight.code[2]);
    TEST_NEAR(found[0].weight.most_scale, 0.5, 0, 1e-6);
    dt_module_free(layer);
}
END_TEST

START_TEST(a_converted_model_has_the_same_codes)
{
    TEST_OK(ctx, dt_prepare(m, NULL));
    measure();
    dt_layer_figures before[MOST];
    memcpy(before, found, sizeof before);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    measure();
    ck_assert_int_eq(n, 3);
    for (int i = 0; i < n; i++) {
        ck_assert(found[i].weight.given && !found[i].weight.compared);
        ck_assert_mem_eq(found[i].weight.code, before[i].weight.code, sizeof found[i].weight.code);
        ck_assert_mem_eq(&found[i].input, &before[i].input, sizeof found[i].input);
        TEST_NEAR(found[i].weight.most_scale, before[i].weight.most_scale, 0, 0);
    }
}
END_TEST

START_TEST(measuring_changes_nothing)
{
    TEST_OK(ctx, dt_prepare(m, NULL));
    dt_train(m, true);
    measure();
    ck_assert(dt_is_training(m));
    dt_train(m, false);
    dt_tensor *y = dt_keep(t, dt_forward(t, m, x));
    float first[80];
    memcpy(first, dt_data(y), sizeof first);
    measure();
    ck_assert(!dt_is_training(m));
    dt_tape_reset(t);
    ck_assert_mem_eq(dt_data(dt_forward(t, m, x)), first, sizeof first);
}
END_TEST

START_TEST(a_disabled_layer_is_float)
{
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_enable(dt_module_at(m, "layers.1"), false));
    measure();
    ck_assert_int_eq(n, 2);
    ck_assert_str_eq(found[1].path, "head");
}
END_TEST

START_TEST(float_models_are_refused)
{
    TEST_FAILS(ctx, DT_ERR_STATE, "neither prepared", dt_figures(m, x, keep, NULL));
}
END_TEST

/* ---- inputs that are views ------------------------------------------------------------------ */

/* What a layer is called with, before and after its input is quantized. */
typedef struct seen {
    plain_array value, dequantized;
} seen;

static dt_tensor *see_value(void *user, dt_tape *tape, dt_module *layer, dt_tensor *in)
{
    (void)tape;
    (void)layer;
    plain_of(in, &((seen *)user)->value);
    return in;
}

static dt_tensor *see_dequantized(void *user, dt_tape *tape, dt_module *layer, dt_tensor *in)
{
    (void)layer;
    plain_of(dt_neg(tape, dt_neg(tape, in)), &((seen *)user)->dequantized);
    return in;
}

/* All figures of an input, by their definitions. */
static void check_input(const dt_quant_figures *f, const seen *s)
{
    const plain_array *a = &s->value, *b = &s->dequantized;
    long double signal = 0, noise = 0;
    int64_t bin[DT_FIGURE_BINS] = { 0 };
    double bound = 0;
    ck_assert_int_eq(f->elements, a->count);
    for (int64_t i = 0; i < a->count; i++) {
        const long double error = (long double)a->v[i] - b->v[i];
        signal += (long double)a->v[i] * a->v[i];
        noise += error * error;
        bound = fmax(bound, fabs((double)a->v[i]));
    }
    TEST_NEAR(f->snr, (double)(10 * log10l(signal / noise)), 0, 1e-9);
    ck_assert_double_gt(f->snr, 10);
    TEST_NEAR(f->bound, bound, 0, 0);
    for (int64_t i = 0; i < a->count; i++) {
        const int k = (int)(((double)a->v[i] + bound) / (2 * bound) * DT_FIGURE_BINS);
        bin[k < DT_FIGURE_BINS ? k : DT_FIGURE_BINS - 1]++;
    }
    int64_t moved = 0; /* by rounding, from a bin to its neighbour */
    for (int k = 0; k < DT_FIGURE_BINS; k++) moved += llabs(bin[k] - f->bin[k]);
    ck_assert_int_le(moved, 2);
}

/* Codes of one scale: counts, dead ones, and values beyond them. */
static void check_codes(const dt_quant_figures *f, const seen *s)
{
    int64_t count[DT_FIGURE_CODES] = { 0 }, clipped = 0, dead = 0;
    const double scale = f->least_scale;
    int64_t lowest = INT64_MAX, first = 0;
    ck_assert_double_eq(scale, f->most_scale);
    for (int64_t k = f->codes - 1; k >= 0; k--) first = f->code[k] > 0 ? k : first;
    for (int64_t i = 0; i < s->value.count; i++) {
        const int64_t q = llround((double)s->dequantized.v[i] / scale);
        lowest = q < lowest ? q : lowest;
    }
    for (int64_t i = 0; i < s->value.count; i++) {
        const double apart = fabs((double)s->value.v[i] - (double)s->dequantized.v[i]);
        count[llround((double)s->dequantized.v[i] / scale) - lowest + first]++;
        clipped += apart > 0.5001 * scale;
    }
    for (int64_t k = 0; k < f->codes; k++) {
        ck_assert_int_eq(count[k], f->code[k]);
        dead += count[k] == 0;
    }
    TEST_NEAR(f->dead, (double)dead / (double)f->codes, 0, 1e-12);
    TEST_NEAR(f->clipped, (double)clipped / (double)s->value.count, 1e-12, 0);
}

/* A layer behind views that are drawn, of rank 2 and more. */
static dt_module *behind_views(dt__stream *s, dt_tensor *in, dt_module **layer)
{
    static plain_array shape;
    static const char *const names[] = { "a", "b", "c", "l" };
    dt_module *net, *part;
    int k = 0;
    TEST_OK(ctx, dt_sequential_create(ctx, &net));
    plain_of(in, &shape);
    for (int64_t views = 1 + (int64_t)dt__random_below(s, 3); views > 0; views--) {
        const int d = 1 + (int)dt__random_below(s, (uint64_t)shape.rank - 1);
        if (dt__random_below(s, 2) == 0 && shape.dims[d] > 2) {
            const dt_slice_options cut = { .dims = { 1, { d } },
                                           .starts = { 1, { 1 } },
                                           .stops = { 1, { shape.dims[d] } } };
            TEST_OK(ctx, dt_slice_create(ctx, &cut, &part));
            plain_slice(&shape, d, 1, shape.dims[d], 1);
        } else {
            dt_ints order = { shape.rank, { 0 } };
            for (int i = 1; i < shape.rank; i++) order.v[i] = i + 1 < shape.rank ? i + 1 : 1;
            TEST_OK(ctx, dt_permute_create(ctx, &order, &part));
            plain_permute(&shape, order.v);
        }
        TEST_OK(ctx, dt_module_add(net, names[k++], part));
    }
    const int64_t width = shape.dims[shape.rank - 1];
    TEST_OK(ctx, dt_linear_create(ctx, width, 6, true, layer));
    TEST_OK(ctx, dt_module_add(net, names[k], *layer));
    return net;
}

START_TEST(inputs_that_are_views)
{
    static const int presets[] = { DT_INT8_DYNAMIC_INT4_WEIGHT, DT_INT8_STATIC_INT8_WEIGHT,
                                   DT_INT8_DYNAMIC_INT8_WEIGHT };
    static seen s;
    dt__stream stream = dt__stream_of(9, DT__FOR_USER);
    for (int i = 0; i < 24; i++) {
        const int64_t dims[] = { 5, 4, 3 + i % 4, 7 };
        dt_tensor *in;
        dt_module *layer;
        dt_qat_options o = dt_qat_defaults();
        o.preset = presets[i % 3];
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3 + i % 2, dims, &in));
        TEST_OK(ctx, dt_fill_normal(in, 0, 1));
        dt_module *net = behind_views(&stream, in, &layer);
        TEST_OK(ctx, dt_hook_add(layer, DT_SITE_INPUT, see_value, &s, NULL, NULL));
        TEST_OK(ctx, dt_prepare(net, &o));
        if (i % 3 == 1) { /* ranges of another batch: values beyond them are clipped */
            dt_train(net, true);
            ck_assert_ptr_nonnull(dt_forward(t, net, in));
            TEST_OK(ctx, dt_fill_normal(in, 0, 1.3));
        }
        TEST_OK(ctx, dt_hook_add(layer, DT_SITE_INPUT, see_dequantized, &s, NULL, NULL));
        dt_tape_reset(t);
        n = 0;
        TEST_OK(ctx, dt_figures(net, in, keep, NULL));
        ck_assert_int_eq(n, 1);
        check_input(&found[0].input, &s);
        if (i % 3 == 1) check_codes(&found[0].input, &s);
        dt_module_free(net);
        dt_tensor_free(in);
    }
}
END_TEST

static void ignore(void *user, const dt_layer_figures *layer)
{
    (void)user;
    (void)layer;
}

static dt_status measure_new(dt_ctx *with, void *user)
{
    dt_module *layer = NULL;
    dt_tensor *in = NULL;
    (void)user;
    dt_status s = dt_linear_create(with, 8, 40, true, &layer);
    if (s == DT_OK) s = dt_prepare(layer, NULL);
    if (s == DT_OK) s = dt_tensor_create(with, DT_F32, 2, (int64_t[]){ 3, 8 }, &in);
    if (s == DT_OK) s = dt_fill(in, 1);
    if (s == DT_OK) s = dt_figures(layer, in, ignore, NULL);
    dt_tensor_free(in);
    dt_module_free(layer);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_gt(test_every_allocation(measure_new, NULL), 10);
}
END_TEST

Suite *test_figures_suite(void)
{
    Suite *s = suite_create("figures");
    TCase *c = tcase_create("figures");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, figures_are_those_of_the_formulas);
    tcase_add_test(c, values_on_the_grid_have_no_noise);
    tcase_add_test(c, a_converted_model_has_the_same_codes);
    tcase_add_test(c, measuring_changes_nothing);
    tcase_add_test(c, a_disabled_layer_is_float);
    tcase_add_test(c, float_models_are_refused);
    tcase_add_test(c, inputs_that_are_views);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
