/* Gradients of adapters computed apart from that of the merged weight, against those that pass
 * through it: a weight hook that returns its tensor makes a layer take the second way. */
#include "models.h"
#include "testing.h"

#include "nn/layers/lora.h"
#include "qat/derived_quant.h"

#include <detent/experimental/all.h>
#include <math.h>
#include <string.h>

#define IDS 36

static dt_ctx *ctx;

static void setup(void) { TEST_OK(NULL, dt_ctx_create(&ctx, NULL)); }

static void teardown(void) { dt_ctx_free(ctx); }

static const dt_llama_options llama = { .vocab = 48,
                                        .context = 12,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .width = 32,
                                        .hidden = 64,
                                        .theta = 1e4,
                                        .eps = 1e-5 };

static const int64_t sizes[] = { 40, 24, 17, 10, 0 };

/* A model with random adapters in all linear layers, and what it is trained on. */
typedef struct subject {
    dt_module *m;
    dt_tensor *x, *labels;
} subject;

static void draw_adapters(dt_module *m)
{
    DT__EACH_ENTRY(layer, e, m) {
        (void)layer;
        if (strcmp(e->name, "lora_b") == 0) TEST_OK(ctx, dt_fill_normal(e->x, 0, 0.3));
    }
}

static subject open_subject(bool language, int64_t rank)
{
    subject s;
    const dt_mlp_options mlp = small_options(sizes, 0, 0);
    dt_lora_options o = dt_lora_defaults();
    o.rank = rank;
    o.alpha = 3;
    o.match = (dt_strings){ 1, { "**" } };
    if (language) {
        TEST_OK(ctx, dt_llama_create(ctx, &llama, &s.m));
        TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ 3, 12 }, &s.x));
        TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ 3, 12 }, &s.labels));
        int32_t *id = dt_data_mut(s.x);
        for (int i = 0; i < IDS; i++) id[i] = i * 7 % 48;
    } else {
        s.m = small_model(ctx, &mlp);
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ IDS, 40 }, &s.x));
        TEST_OK(ctx, dt_tensor_create(ctx, DT_I32, 1, (const int64_t[]){ IDS }, &s.labels));
        TEST_OK(ctx, dt_fill_normal(s.x, 0, 1));
    }
    int32_t *label = dt_data_mut(s.labels);
    for (int i = 0; i < IDS; i++) label[i] = i * 3 % 10;
    TEST_OK(ctx, dt_lora_add(s.m, &o));
    draw_adapters(s.m);
    return s;
}

static void close_subject(subject *s)
{
    dt_module_free(s->m);
    dt_tensor_free(s->x);
    dt_tensor_free(s->labels);
}

static dt_tensor *as_it_is(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    (void)user;
    (void)t;
    (void)m;
    return x;
}

/* The loss; gradients stay at the parameters. */
static float differentiate(const subject *s)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_zero_grad(s->m);
    dt_tensor *y = dt_forward(t, s->m, s->x);
    const int64_t rows[] = { IDS, dt_dim(y, -1) }, flat[] = { IDS };
    dt_tensor *loss =
        dt_cross_entropy(t, dt_reshape(t, y, 2, rows), dt_reshape(t, s->labels, 1, flat), NULL);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    const float value = *(const float *)dt_data(loss);
    dt_tape_free(t);
    return value;
}

static int count_apart(dt_module *m)
{
    dt_tape *t;
    int n = 0;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    DT__EACH_MODULE(layer, m) n += dt__lora_is_apart(t, layer);
    dt_no_grad(t, true);
    DT__EACH_MODULE(layer, m) ck_assert(!dt__lora_is_apart(t, layer));
    dt_tape_free(t);
    return n;
}

static void assert_near(const char *where, const dt_tensor *a, const dt_tensor *b, double bound)
{
    const float *x = dt_data(a), *y = dt_data(b);
    double most = 0, apart = 0;
    for (int64_t i = 0; i < dt_count(a); i++) {
        most = fmax(most, fabs((double)y[i]));
        apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
    }
    ck_assert_msg(apart <= bound * most, "%s: %g apart of %g", where, apart, most);
}

/* Both ways in one model: the loss has the same bits, gradients are near. Returns how many layers
 * computed gradients separately. */
static int compare(subject *s, double bound)
{
    dt_tensor *kept[64];
    int n = 0, i = 0;
    const int apart = count_apart(s->m);
    const float loss = differentiate(s);
    DT__EACH_ENTRY(holder, e, s->m) {
        (void)holder;
        if (strncmp(e->name, "lora_", 5) != 0) continue;
        ck_assert_int_lt(n, 64);
        ck_assert_ptr_nonnull(dt_grad(e->x));
        const dt_tensor *d = dt_grad(e->x);
        TEST_OK(ctx, dt_tensor_from(ctx, d->dtype, d->rank, d->dims, dt_data(d), &kept[n++]));
    }
    DT__EACH_MODULE(layer, s->m) {
        if (dt__has_lora(layer)) {
            TEST_OK(ctx, dt_hook_add(layer, DT_SITE_WEIGHT, as_it_is, NULL, NULL, NULL));
        }
    }
    ck_assert_int_eq(count_apart(s->m), 0);
    ck_assert(differentiate(s) == loss);
    DT__EACH_ENTRY(holder, e, s->m) {
        (void)holder;
        if (strncmp(e->name, "lora_", 5) != 0) continue;
        assert_near(e->path, kept[i], dt_grad(e->x), bound);
        dt_tensor_free(kept[i++]);
    }
    return apart;
}

/* The linear layers of either model. */
static int layers_of(bool language) { return language ? 2 * 7 + 1 : 3; }

START_TEST(floats_have_the_gradients_of_the_merged_weight)
{
    for (int language = 0; language < 2; language++) {
        for (int64_t rank = 1; rank <= 10; rank += 3) {
            subject s = open_subject(language, rank);
            ck_assert_int_eq(compare(&s, 1e-5), layers_of(language));
            close_subject(&s);
        }
    }
}
END_TEST

/* Integer gradients of the merged weight have codes of 7 bits; computed separately they are floats.
 * Presets with static weights go through the merged weight. */
START_TEST(every_preset_has_the_gradients_of_the_merged_weight)
{
    for (int preset = DT_INT8_DYNAMIC_INT4_WEIGHT; preset < TEST_PRESETS; preset++) {
        for (int way = 0; way < 4; way++) {
            subject s = open_subject(way % 2, 4);
            const dt_qat_options q = small_qat(preset, NULL);
            const int backward = way < 2 ? DT_BACKWARD_FLOAT : DT_BACKWARD_INT8_ALL;
            TEST_OK(ctx, dt_prepare(s.m, &q));
            TEST_OK(ctx, dt_set_backward(s.m, backward));
            const int apart = compare(&s, way < 2 ? 1e-4 : 0.2);
            const bool dynamic =
                preset == DT_INT8_DYNAMIC_INT4_WEIGHT || preset == DT_INT8_DYNAMIC_INT8_WEIGHT;
            ck_assert(apart == layers_of(way % 2) || (apart == 0 && !dynamic));
            close_subject(&s);
        }
    }
}
END_TEST

/* Whatever changes the gradient of the merged weight is not bypassed. */
START_TEST(masks_scales_and_trained_weights_go_through_the_merged_weight)
{
    const dt_quant_spec specs[] = { { .ste = DT_STE_CLIPPED }, { .range = DT_RANGE_LEARNED } };
    for (int i = 0; i < 3; i++) {
        subject s = open_subject(true, 2);
        dt_qat_options q = dt_qat_defaults();
        if (i < 2) {
            q.weight.quant = specs[i];
            q.weight.has_ste = i == 0;
            q.weight.has_range = i == 1;
        }
        q.weight.quant.group_size = 8;
        q.weight.has_group_size = true;
        TEST_OK(ctx, dt_prepare(s.m, &q));
        DT__EACH_ENTRY(layer, e, s.m) {
            const bool base = dt__has_lora(layer) && strcmp(e->name, "weight") == 0;
            if (i == 2 && base) TEST_OK(ctx, dt_set_requires_grad(e->x, true));
        }
        ck_assert_int_eq(count_apart(s.m), 0);
        close_subject(&s);
    }
}
END_TEST

Suite *test_lora_gradient_suite(void)
{
    Suite *s = suite_create("lora_gradient");
    TCase *c = tcase_create("lora_gradient");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, floats_have_the_gradients_of_the_merged_weight);
    tcase_add_test(c, every_preset_has_the_gradients_of_the_merged_weight);
    tcase_add_test(c, masks_scales_and_trained_weights_go_through_the_merged_weight);
    suite_add_tcase(s, c);
    return s;
}
