/* Static ranges in models: which modules observe and when, freezing, calibration, convert, files.
 * test_observers.c tests the observers' values; test_checkpoint.c checkpoints of runs. */
#include "schemes.h"
#include "models.h"
#include "testing.h"

#include "core/core.h"
#include "nn/module.h"
#include "qat/schemes/least_error.h"
#include "qat/prepare.h"
#include "qat/schemes/scheme.h"

#include <detent/experimental/ops.h>
#include <detent/optim.h>

#include <math.h>
#include <stdlib.h>

static const int64_t sizes[] = { 20, 24, 12, 5, 0 };

static dt_ctx *ctx;
static dt_tape *t;
static dt_module *m;
static dt_mlp_options options;
static dt_qat_options qat;

static void setup(void)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = 2;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    options = small_options(sizes, 1, 0.1);
    m = small_model(ctx, &options);
    qat = small_qat(DT_INT8_STATIC_INT8_WEIGHT, NULL);
}

static void teardown(void)
{
    dt_module_free(m);
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static const dt__quantizer *range_of(const char *layer)
{
    return dt__quantizer_of(dt__quantizer_at(dt_module_at(m, layer), "input"));
}

static int64_t seen(const char *layer) { return *(const int64_t *)dt_data(range_of(layer)->count); }

static float scale_of(const char *layer) { return *(const float *)dt_data(range_of(layer)->scale); }

static dt_tensor *batch(int number)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 16, 20 }, &x));
    float *v = dt_data_mut(x);
    for (int i = 0; i < 320; i++) v[i] = sinf((float)(i * 7 + number)) * (float)(1 + number % 3);
    return x;
}

static dt_status run(int number)
{
    dt_tensor *x = batch(number);
    dt_forward(t, m, x);
    const dt_status s = dt_tape_status(t);
    dt_tape_reset(t);
    dt_tensor_free(x);
    return s;
}

static void prepare(void)
{
    ck_assert_msg(dt_prepare(m, &qat) == DT_OK, "%s", dt_error(ctx));
    dt_train(m, true);
}

static void observe_some(void)
{
    for (int i = 0; i < 3; i++) TEST_OK(ctx, run(i));
}

/* ---- prepare -------------------------------------------------------------------------------- */

START_TEST(a_range_is_a_module_below_its_layer)
{
    prepare();
    ck_assert_ptr_eq(dt_param(m, "layers.0.input.scale"), range_of("layers.0")->scale);
    ck_assert_ptr_nonnull(dt_param(m, "head.input.zero_point"));
    ck_assert_ptr_nonnull(dt_param(m, "head.input.count"));
    ck_assert_ptr_null(dt_param(m, "head.input.values"));
    char text[256];
    ck_assert_str_eq(dt__quant_text(&range_of("head")->quant, text, sizeof text),
                     "int8 asymmetric per tensor, static moving average");
}
END_TEST

/* A parameter and a child may have the same name. */
START_TEST(a_child_may_be_named_as_a_parameter)
{
    dt_module *layer = dt_module_at(m, "head"), *range;
    dt_quant_spec q = dt_weight_quant_defaults();
    TEST_OK(ctx, dt__quantizer_create(ctx, &q, &(dt__quantizer_size){ .scales = 1, .fixed = true },
                                      &range));
    TEST_OK(ctx, dt__module_attach(layer, "weight", range));
    ck_assert_ptr_eq(dt_module_at(m, "head.weight"), range);
    ck_assert_int_eq(dt_count(dt_param(m, "head.weight")), 12 * 5);
    ck_assert_ptr_eq(dt_param(m, "head.weight.scale"), dt__quantizer_of(range)->scale);
    TEST_FAILS(ctx, DT_ERR_ARG, "already", dt__module_attach(layer, "weight", range));
    dt_module_free(range);
    ck_assert_ptr_null(dt_param(m, "head.weight.scale"));
}
END_TEST

START_TEST(wrong_settings_are_refused)
{
    const dt_quant_patch good = { .quant = { .range = DT_RANGE_STATIC }, .has_range = true };
    struct {
        dt_quant_patch patch;
        const char *says;
    } bad[] = {
        { good, "requires granularity tensor" },
        { good, "not an observer" },
        { good, "percentile" },
        { good, "averaging" },
        { good, "not a range" },
    };
    bad[0].patch.quant.granularity = DT_PER_TOKEN;
    bad[0].patch.has_granularity = true;
    bad[1].patch.quant.observer = 4;
    bad[1].patch.has_observer = true;
    bad[2].patch.quant.observer = DT_OBSERVER_PERCENTILE;
    bad[2].patch.quant.percentile = 49;
    bad[2].patch.has_observer = bad[2].patch.has_percentile = true;
    bad[3].patch.quant.observer = DT_OBSERVER_MSE;
    bad[3].patch.has_observer = bad[3].patch.has_averaging = true;
    bad[4].patch.quant.range = DT_RANGE_FIXED + 1;
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        qat = dt_qat_defaults();
        qat.activation = bad[i].patch;
        TEST_FAILS(ctx, DT_ERR_CONFIG, bad[i].says, dt_prepare(m, &qat));
        ck_assert_ptr_null(dt__quantizer_at(dt_module_at(m, "head"), "input"));
    }
    qat = dt_qat_defaults();
    qat.weight = good;
    qat.weight.has_observer = true; /* minmax */
    TEST_FAILS(ctx, DT_ERR_CONFIG, "of observer mse", dt_prepare(m, &qat));
}
END_TEST

static dt_status prepare_all(dt_ctx *c, void *user)
{
    dt_module *net;
    dt_qat_options o = small_qat(DT_INT8_STATIC_INT8_WEIGHT, NULL);
    (void)user;
    o.activation = (dt_quant_patch){ .quant = { .observer = DT_OBSERVER_PERCENTILE, .samples = 9 },
                                     .has_observer = true,
                                     .has_samples = true };
    DT__TRY(dt_mlp_create(c, &options, &net));
    const dt_status s = dt_prepare(net, &o);
    if (s != DT_OK) {
        dt_module *head = dt_module_at(net, "head");
        if (dt__quantizer_at(head, "input") != NULL || dt__input_hook_of(head) != NULL) {
            dt_module_free(net);
            return DT_ERR_STATE;
        }
    }
    dt_module_free(net);
    return s;
}

START_TEST(a_failed_prepare_leaves_nothing)
{
    ck_assert_int_gt(test_every_allocation(prepare_all, NULL), 50);
}
END_TEST

/* ---- observing ------------------------------------------------------------------------------ */

START_TEST(training_observes_and_evaluation_does_not)
{
    prepare();
    TEST_OK(ctx, run(0));
    ck_assert_int_eq(seen("layers.0"), 320);
    const float scale = scale_of("head");
    dt_train(m, false);
    TEST_OK(ctx, run(1));
    ck_assert_int_eq(seen("layers.0"), 320);
    ck_assert(scale_of("head") == scale);
    dt_train(m, true);
    TEST_OK(ctx, run(1));
    ck_assert_int_eq(seen("layers.0"), 640);
    TEST_OK(ctx, dt_enable(m, false));
    TEST_OK(ctx, run(1));
    ck_assert_int_eq(seen("layers.0"), 640);
}
END_TEST

START_TEST(frozen_observers_see_nothing)
{
    prepare();
    TEST_OK(ctx, run(0));
    TEST_OK(ctx, dt_observers_freeze(m, true));
    TEST_OK(ctx, run(1));
    TEST_OK(ctx, dt_observe(m, true));
    TEST_OK(ctx, run(1));
    ck_assert_int_eq(seen("head"), 16 * 12);
    TEST_OK(ctx, dt_observers_freeze(m, false));
    TEST_OK(ctx, run(1));
    ck_assert_int_eq(seen("head"), 2 * 16 * 12);
}
END_TEST

/* Ranges of the float model's activations: nothing is quantized while it is disabled. */
START_TEST(calibration_observes_the_float_model)
{
    dt_tensor *x = batch(0);
    prepare();
    dt_train(m, false);
    TEST_OK(ctx, dt_enable(m, false));
    float *before = outputs_of(m, 3, 20);
    TEST_OK(ctx, dt_observe(m, true));
    observe_some();
    TEST_OK(ctx, dt_observe(m, false));
    ck_assert_int_eq(seen("layers.0"), 3 * 320);
    float *after = outputs_of(m, 3, 20);
    ck_assert_mem_eq(before, after, 15 * sizeof(float));
    TEST_OK(ctx, dt_enable(m, true));
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    ck_assert_int_eq(seen("layers.0"), 3 * 320);
    free(before);
    free(after);
    dt_tape_reset(t);
    dt_tensor_free(x);
}
END_TEST

START_TEST(an_unseen_range_is_named)
{
    prepare();
    dt_train(m, false);
    TEST_FAILS(ctx, DT_ERR_STATE, "layers.0: the range of its input", run(0));
    TEST_OK(ctx, dt_enable(m, false));
    TEST_OK(ctx, run(0));
    TEST_FAILS(ctx, DT_ERR_STATE, "layers.0: the range of its input", dt_convert(m, NULL, NULL));
    ck_assert(dt_is_prepared(m) && !dt_is_converted(m));
    dt_module_free(m);
    m = small_model(ctx, &options);
    TEST_FAILS(ctx, DT_ERR_STATE, "no range to observe", dt_observe(m, true));
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_FAILS(ctx, DT_ERR_STATE, "no range to observe", dt_observers_freeze(m, true));
}
END_TEST

START_TEST(bad_values_name_the_module)
{
    dt_tensor *x = batch(0);
    prepare();
    TEST_OK(ctx, run(0));
    ((float *)dt_data_mut(x))[41] = NAN;
    for (int training = 0; training < 2; training++) { /* observed, and not */
        dt_train(m, training == 1);
        ck_assert_ptr_null(dt_forward(t, m, x));
        ck_assert_int_eq(dt_tape_status(t), DT_ERR_NUMERIC);
        ck_assert_ptr_nonnull(strstr(dt_error(ctx), "element 41 is NaN"));
        ck_assert_msg(strstr(dt_error(ctx), "layers.0") != NULL, "%s", dt_error(ctx));
        dt_tape_reset(t);
    }
    dt_tensor_free(x);
}
END_TEST

/* ---- gradients ------------------------------------------------------------------------------ */

/* By default nothing passes where a code was clipped; dx = dy W elsewhere. */
START_TEST(gradients_are_masked)
{
    dt_module *layer;
    dt_tensor *x, *y;
    const float wide[] = { 1, -1, 0.5f, 2, -0.25f, 3, 0, 1 };
    TEST_OK(ctx, dt_linear_create(ctx, 8, 4, false, &layer));
    dt_module_free(m);
    m = layer;
    prepare();
    const float narrow[] = { 1, -1, 0.5f, 0, -0.25f, 0.75f, 0, 1 };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (int64_t[]){ 1, 8 }, narrow, &x));
    ck_assert_ptr_nonnull(dt_forward(t, m, x));
    dt_tape_reset(t);
    dt_tensor_free(x);
    TEST_OK(ctx, dt_observers_freeze(m, true));
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 2, (int64_t[]){ 1, 8 }, wide, &x));
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    y = dt_sum(t, dt_forward(t, m, x), NULL);
    TEST_OK(ctx, dt_backward(t, y, NULL));
    const float *dx = dt_data(dt_grad(x));
    for (int i = 0; i < 8; i++) TEST_EACH((dx[i] == 0) == (fabsf(wide[i]) > 1), "element %d", i);
    dt_tape_reset(t);
    dt_tensor_free(x);
}
END_TEST

/* ---- convert and files ---------------------------------------------------------------------- */

static void round_trip(const char *path)
{
    const dt_model_info info = small_info(&options);
    dt_module *again;
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_model_load(ctx, path, &again, NULL));
    same_models(m, again);
    float *a = outputs_of(m, 9, 20), *b = outputs_of(again, 9, 20);
    ck_assert_mem_eq(a, b, 45 * sizeof(float));
    free(a);
    free(b);
    dt_module_free(again);
}

static void use_observer(int observer)
{
    qat.activation = (dt_quant_patch){
        .quant = { .observer = observer, .samples = 1000, .percentile = 99 },
        .has_observer = true,
        .has_samples = true,
        .has_percentile = true,
    };
    if (observer == DT_OBSERVER_MINMAX) { /* one without zero points, too */
        qat.activation.quant.scheme = DT_SCHEME_SYMMETRIC;
        qat.activation.has_scheme = true;
    }
}

/* Prepared, frozen, converted and loaded models have the same bits. */
START_TEST(converted_models_give_the_same_bits)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    use_observer(_i);
    prepare();
    observe_some();
    round_trip(path);
    TEST_OK(ctx, dt_observers_freeze(m, true));
    round_trip(path);
    float *before = outputs_of(m, 9, 20);
    const float scale = scale_of("head");
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    float *after = outputs_of(m, 9, 20);
    ck_assert_mem_eq(before, after, 45 * sizeof(float));
    ck_assert(scale_of("head") == scale);
    ck_assert_ptr_null(dt_param(m, "head.input.count"));
    ck_assert_ptr_null(dt_param(m, "head.input.values"));
    dt_train(m, true);
    TEST_FAILS(ctx, DT_ERR_STATE, "no range to observe", dt_observe(m, true));
    round_trip(path);
    dt_freeze(m);
    dt_train(m, false);
    TEST_OK(ctx, run(1));
    round_trip(path);
    free(before);
    free(after);
}
END_TEST

START_TEST(weights_load_from_a_file_with_ranges)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    use_observer(DT_OBSERVER_PERCENTILE);
    prepare();
    observe_some();
    TEST_OK(ctx, dt_model_save(m, NULL, path));
    dt_module *plain = small_model(ctx, &options);
    TEST_OK(ctx, dt_model_load_weights(plain, path));
    ck_assert_mem_eq(dt_data(dt_param(plain, "head.weight")),
                     dt_data(dt_inner(dt_param(m, "head.weight"))), 60 * sizeof(float));
    dt_module_free(plain);
}
END_TEST

/* One tensor of a file, replaced by another of its form. */
static void rewrite(const char *path, const char *name, const void *data)
{
    dt_file *f;
    dt_writer *w;
    const char *key, *value;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        TEST_OK(ctx, dt_writer_meta(w, key, value));
    }
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        dt_file_entry e = *dt_file_at(f, i);
        if (strcmp(e.name, name) == 0) e.data = data;
        if (e.data != NULL || e.bytes == 0) TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

START_TEST(damaged_ranges_are_refused)
{
    const float minus = -1, nothing = 0, nan = NAN, positive = 0.5f;
    const int8_t high = 100;
    const int64_t less = -5;
    float values[1000] = { [7] = INFINITY };
    const struct {
        const char *name;
        const void *data;
        const char *says;
    } bad[] = {
        { "head.input.scale", &minus, "a scale" },
        { "head.input.scale", &nothing, "a scale" },
        { "head.input.scale", &nan, "a scale" },
        { "head.input.scale", NULL, "missing" },
        { "head.input.lo", &positive, "the observed range is not finite" },
        { "head.input.hi", &nan, "the observed range is not finite" },
        { "head.input.count", &less, "negative number" },
        { "head.input.values", values, "the observed range is not finite" },
        { "head.input.values", NULL, "not there" },
        { "head.input.zero_point", &high, "zero point" },
    };
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    use_observer(DT_OBSERVER_PERCENTILE);
    qat.activation.quant.bits = 7;
    qat.activation.has_bits = true;
    prepare();
    observe_some();
    const dt_model_info info = small_info(&options);
    for (int i = 0; i < DT__COUNT_OF(bad); i++) {
        dt_module *again;
        TEST_OK(ctx, dt_model_save(m, &info, path));
        rewrite(path, bad[i].name, bad[i].data);
        TEST_FAILS(ctx, DT_ERR_FORMAT, bad[i].says, dt_model_load(ctx, path, &again, NULL));
    }
}
END_TEST

static dt_status load_all(dt_ctx *c, void *path)
{
    dt_module *again;
    DT__TRY(dt_model_load(c, path, &again, NULL));
    dt_module_free(again);
    return DT_OK;
}

START_TEST(a_failed_load_leaves_nothing)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    use_observer(DT_OBSERVER_PERCENTILE);
    prepare();
    observe_some();
    const dt_model_info info = small_info(&options);
    TEST_OK(ctx, dt_model_save(m, &info, path));
    ck_assert_int_gt(test_every_allocation(load_all, path), 100);
}
END_TEST

/* ---- weights with ranges of least error ----------------------------------------------------- */

/* Every scheme and granularity that a range of least error may have. */
static dt_quant_patch least_error_weight(int i)
{
    return (dt_quant_patch){ .quant = { .range = DT_RANGE_STATIC,
                                        .scheme = weight_scheme(i),
                                        .granularity = i / weight_schemes(),
                                        .group_size = 8,
                                        .scale_dtype = i % 2 == 0 ? DT_SCALE_F32 : DT_SCALE_F16 },
                             .has_range = true,
                             .has_scheme = true,
                             .has_granularity = true,
                             .has_group_size = true,
                             .has_scale_dtype = true };
}

static const dt__quantizer *weight_range(const char *layer)
{
    return dt__quantizer_of(dt__quantizer_at(dt_module_at(m, layer), "weight"));
}

/* The scale of block i, from the definition. */
static void check_block(const dt__quantizer *r, const float *w, int64_t columns, int64_t i)
{
    const int granularity = r->quant.granularity;
    const int64_t groups = granularity == DT_PER_GROUP ? (columns + 7) / 8 : 1;
    const int64_t n = granularity == DT_PER_TENSOR    ? 24 * columns
                      : granularity == DT_PER_CHANNEL ? columns
                      : i % groups == groups - 1      ? columns - 8 * (groups - 1)
                                                      : 8;
    const float *x = granularity == DT_PER_TENSOR ? w : w + i / groups * columns + i % groups * 8;
    float lo = 0, hi = 0, scale;
    int8_t zero;
    for (int64_t k = 0; k < n; k++) {
        lo = x[k] < lo ? x[k] : lo;
        hi = x[k] > hi ? x[k] : hi;
    }
    dt__least_error(&r->quant, n, x, &lo, &hi);
    dt__range_scale(&r->quant, lo, hi, &scale, r->zero_point != NULL ? &zero : NULL);
    TEST_EACH(scale == ((const float *)dt_data(r->scale))[i], "scale %lld", (long long)i);
    if (r->zero_point == NULL) return;
    TEST_EACH(zero == ((const int8_t *)dt_data(r->zero_point))[i], "zero %lld", (long long)i);
}

START_TEST(weights_have_ranges_of_least_error)
{
    char path[TEST_PATH];
    test_folder(path);
    test_join(path, path, "model.safetensors");
    qat.weight = least_error_weight(_i);
    prepare();
    const dt__quantizer *r = weight_range("layers.0");
    const float *w = dt_data(dt_inner(dt_param(m, "layers.0.weight")));
    for (int64_t i = 0; i < dt_count(r->scale); i++) check_block(r, w, 20, i);
    observe_some();
    round_trip(path);
    float *before = outputs_of(m, 9, 20);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert_ptr_null(dt__quantizer_at(dt_module_at(m, "head"), "weight"));
    float *after = outputs_of(m, 9, 20);
    ck_assert_mem_eq(before, after, 45 * sizeof(float));
    round_trip(path);
    free(before);
    free(after);
}
END_TEST

static void train_a_step(dt_optimizer *o)
{
    dt_tensor *x = batch(0);
    dt_zero_grad(m);
    TEST_OK(ctx, dt_backward(t, dt_mean(t, dt_square(t, dt_forward(t, m, x)), NULL), NULL));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.05));
    dt_tape_reset(t);
    dt_tensor_free(x);
}

START_TEST(a_weights_range_is_kept_until_it_is_refreshed)
{
    dt_optimizer *o;
    qat.weight = least_error_weight(weight_schemes());
    TEST_FAILS(ctx, DT_ERR_STATE, "no weight", dt_refresh(m));
    prepare();
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    const dt__quantizer *r = weight_range("layers.0");
    float first[24];
    train_a_step(o);
    memcpy(first, dt_data(r->scale), sizeof first);
    for (int i = 0; i < 3; i++) train_a_step(o);
    ck_assert_mem_eq(first, dt_data(r->scale), sizeof first);
    TEST_OK(ctx, dt_refresh(m));
    ck_assert_mem_eq(first, dt_data(r->scale), sizeof first); /* when it is trained, not before */
    const float *w = dt_data(dt_inner(dt_param(m, "layers.0.weight")));
    float master[24 * 20];
    memcpy(master, w, sizeof master);
    train_a_step(o);
    ck_assert_mem_ne(first, dt_data(r->scale), sizeof first);
    for (int64_t i = 0; i < 24; i++) check_block(r, master, 20, i);
    dt_optimizer_free(o);
}
END_TEST

START_TEST(bad_weights_are_named)
{
    qat.weight = least_error_weight(2 * weight_schemes());
    ((float *)dt_data_mut(dt_param(m, "head.weight")))[3] = NAN;
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "quantize head.weight: element 3", dt_prepare(m, &qat));
    ck_assert_ptr_null(dt__quantizer_at(dt_module_at(m, "layers.0"), "weight"));
    ck_assert(!dt_is_prepared(m));
}
END_TEST

/* ---- convolutions --------------------------------------------------------------------------- */

static dt_module *small_conv_net(void)
{
    dt_module *net, *layer;
    dt_conv_layer c = { .in = 2, .out = 8, .kernel = { 3, 3 }, .bias = true };
    c.conv = dt_conv_defaults();
    c.conv.padding[0] = c.conv.padding[1] = 1;
    TEST_OK(ctx, dt_sequential_create(ctx, &net));
    TEST_OK(ctx, dt_conv2d_create(ctx, &c, &layer));
    TEST_OK(ctx, dt_module_add(net, "a", layer));
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &layer));
    TEST_OK(ctx, dt_module_add(net, "act", layer));
    c.in = 8;
    c.conv.stride[0] = 2;
    TEST_OK(ctx, dt_conv2d_create(ctx, &c, &layer));
    TEST_OK(ctx, dt_module_add(net, "b", layer));
    return net;
}

static float *images_through(dt_tensor *x)
{
    const dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    const size_t bytes = (size_t)dt_count(y) * sizeof(float);
    float *out = malloc(bytes + sizeof(float));
    ck_assert_ptr_nonnull(out);
    memcpy(out, dt_data(y), bytes);
    dt_tape_reset(t);
    return out;
}

START_TEST(convolutions_have_static_ranges)
{
    dt_tensor *x;
    dt_module_free(m);
    m = small_conv_net();
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (int64_t[]){ 3, 2, 7, 6 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0.3, 1));
    qat.weight = least_error_weight(weight_schemes());
    prepare();
    free(images_through(x));
    ck_assert_int_eq(seen("b"), 3 * 8 * 7 * 6);
    ck_assert_int_eq(dt_count(weight_range("b")->scale), 8);
    dt_train(m, false);
    float *before = images_through(x);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    float *after = images_through(x);
    ck_assert_mem_eq(before, after, 3 * 8 * 4 * 6 * sizeof(float));
    free(before);
    free(after);
    dt_tensor_free(x);
}
END_TEST

Suite *test_static_suite(void)
{
    Suite *s = suite_create("static");
    TCase *c = tcase_create("ranges");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_range_is_a_module_below_its_layer);
    tcase_add_test(c, a_child_may_be_named_as_a_parameter);
    tcase_add_test(c, wrong_settings_are_refused);
    tcase_add_test(c, a_failed_prepare_leaves_nothing);
    tcase_add_test(c, training_observes_and_evaluation_does_not);
    tcase_add_test(c, frozen_observers_see_nothing);
    tcase_add_test(c, calibration_observes_the_float_model);
    tcase_add_test(c, an_unseen_range_is_named);
    tcase_add_test(c, bad_values_name_the_module);
    tcase_add_test(c, gradients_are_masked);
    tcase_add_loop_test(c, converted_models_give_the_same_bits, 0, 4);
    tcase_add_test(c, weights_load_from_a_file_with_ranges);
    tcase_add_test(c, damaged_ranges_are_refused);
    tcase_add_test(c, a_failed_load_leaves_nothing);
    tcase_add_loop_test(c, weights_have_ranges_of_least_error, 0, 3 * weight_schemes());
    tcase_add_test(c, a_weights_range_is_kept_until_it_is_refreshed);
    tcase_add_test(c, bad_weights_are_named);
    tcase_add_test(c, convolutions_have_static_ranges);
    suite_add_tcase(s, c);
    return s;
}
