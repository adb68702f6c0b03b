/* The promise of test_fidelity.c for networks of convolutions: a model prepared in evaluation,
 * converted, and loaded from a file on 1 and 3 threads has the same bits. Random networks of images
 * and signals: depth, channels, kernels, strides, paddings, dilations, groups and depthwise,
 * transposed or not, norms folded or not, activations, pools, with and without a linear head; all
 * presets, bits, granularities, groups that do not divide rows. Each network makes one training
 * step: gradients are finite, and an input whose product was computed on codes is kept as codes
 * only. 1000 networks, 60 under a sanitizer; DETENT_NETWORKS overrides the number, DETENT_SEED
 * sets the first seed. */
#include "random_nets.h"
#include "testing.h"

#include "autograd/tape.h"
#include "nn/module.h"
#include "qat/derived_quant.h"

#include <detent/optim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 1000, .quick = 300, .sanitized = 40 };
/* ---- running it ------------------------------------------------------------------------------ */

static dt_tensor *input_like(dt_ctx *ctx, const dt_tensor *x)
{
    dt_tensor *y;
    TEST_OK(ctx, dt_tensor_from(ctx, x->dtype, x->rank, x->dims, dt_data(x), &y));
    return y;
}

/* The input of a product on codes is kept as codes only, and an integer forward multiplies
 * codes. */
static void check_record(const random_net *d, const dt__record *r)
{
    const bool product = strncmp(r->op->name, "conv", 4) == 0 || strcmp(r->op->name, "linear") == 0;
    if (!product || !r->coded) return;
    const dt__saved *x = &r->kept[0];
    TEST_EACH(x->codes == NULL || x->storage == NULL,
              "network %llu: %s keeps codes and values of x", (unsigned long long)d->seed,
              r->op->name);
}

static int codes_kept(const random_net *d, const dt_tape *t)
{
    int codes = 0;
    for (int64_t i = 0; i < t->n_records; i++) {
        check_record(d, t->records[i]);
        codes += t->records[i]->kept[0].codes != NULL;
    }
    return codes;
}

static void check_gradients(const random_net *d, dt_module *m)
{
    const dt__param *params;
    int64_t n;
    TEST_OK(m->ctx, dt__module_params(m, &params, &n));
    for (int64_t i = 0; i < n; i++) {
        const dt_tensor *g = dt_grad(params[i].x);
        TEST_EACH(g != NULL, "network %llu: no gradient of %s", (unsigned long long)d->seed,
                  params[i].path);
        for (int64_t k = 0; k < g->count; k++) {
            const float v = ((const float *)dt_data(g))[k];
            TEST_EACH(isfinite(v), "network %llu: the gradient of %s is %g at %lld",
                      (unsigned long long)d->seed, params[i].path, (double)v, (long long)k);
        }
    }
}

static bool quantizes_inputs(const random_net *d)
{
    return !TEST_FLOAT_IMAGES(d->qat.preset) && d->n > (int)d->qat.n_rules;
}

static void train_once(const random_net *d, dt_module *m, dt_tensor *x, bool prepared)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    dt_tensor *loss = dt_mean(t, dt_mul(t, y, y), NULL);
    TEST_EACH(loss != NULL, "network %llu: %s", (unsigned long long)d->seed, dt_error(ctx));
    const int codes = codes_kept(d, t);
    TEST_EACH(!prepared || !quantizes_inputs(d) || codes > 0, "network %llu keeps no codes",
              (unsigned long long)d->seed);
    TEST_EACH(dt_backward(t, loss, NULL) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    check_gradients(d, m);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_zero_grad(m);
    dt_optimizer_free(o);
    dt_tape_free(t);
}

/* The output in evaluation mode, a copy. */
static float *outputs(const random_net *d, dt_module *m, dt_tensor *x, int64_t *n)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_EACH(y != NULL, "network %llu: %s", (unsigned long long)d->seed, dt_error(ctx));
    *n = dt_count(y);
    float *copy = malloc((size_t)*n * sizeof(float) + 1);
    memcpy(copy, dt_data(y), (size_t)*n * sizeof(float));
    dt_tape_free(t);
    return copy;
}

static void compare(const random_net *d, const float *want, const float *got, int64_t n,
                    const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        TEST_EACH(memcmp(&want[i], &got[i], sizeof got[i]) == 0,
                  "network %llu: %s: output %lld is %.9g, prepared %.9g",
                  (unsigned long long)d->seed, what, (long long)i, (double)got[i], (double)want[i]);
    }
}

static void check_loaded(const random_net *d, const char *path, int threads, const dt_tensor *x,
                         const float *want)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = threads;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_module *m = random_net_load(ctx, d, path);
    ck_assert(dt_is_converted(m));
    dt_tensor *input = input_like(ctx, x);
    int64_t n;
    float *got = outputs(d, m, input, &n);
    compare(d, want, got, n, threads == 1 ? "loaded, 1 thread" : "loaded, 3 threads");
    free(got);
    dt_tensor_free(input);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

/* For layers without a rule, which share a spec: whether norms are folded into such weights. */
static bool folds(dt_module *m)
{
    dt_quant_spec last = { .granularity = DT_PER_CHANNEL };
    DT__EACH_MODULE(layer, m) {
        const dt__fq *fq = dt__derived_quant(layer);
        const dt__entry *w = dt__entry_find(layer, "weight");
        if (fq == NULL && w != NULL && dt_is_fake_quant(w->x)) fq = w->x->ext;
        if (fq != NULL) last = fq->quant;
    }
    return last.granularity != DT_PER_TENSOR || last.bits >= 6;
}

static int norms_to_fold(const random_net *d, bool any)
{
    int n = 0;
    if (!any) return 0;
    for (int i = (int)d->qat.n_rules; i < d->n && d->qat.fold_norm; i++) n += d->layers[i].norm;
    return n;
}

static void check_network(const random_net *d, const char *path)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = d->seed;
    options.threads = 2;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_module *m = random_net_create(ctx, d);
    dt_tensor *x = random_net_input(ctx, d);
    if (d->float_step) train_once(d, m, x, false);
    TEST_EACH(dt_prepare(m, &d->qat) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    train_once(d, m, x, true);
    const int norms = norms_to_fold(d, folds(m));
    if (d->freeze) {
        dt_norms_freeze(m, true);
        train_once(d, m, x, true);
    }
    int64_t n;
    float *prepared = outputs(d, m, x, &n);
    dt_convert_report report;
    TEST_EACH(dt_convert(m, NULL, &report) == DT_OK, "network %llu: %s",
              (unsigned long long)d->seed, dt_error(ctx));
    TEST_EACH(d->family != NULL || report.folded == norms, "network %llu: %d norms folded, not %d",
              (unsigned long long)d->seed, (int)report.folded, norms);
    float *converted = outputs(d, m, x, &n);
    compare(d, prepared, converted, n, "converted");
    random_net_save(d, m, path);
    for (int threads = 1; threads <= 3; threads += 2) check_loaded(d, path, threads, x, prepared);
    free(prepared);
    free(converted);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

#define PARTS 4

START_TEST(prepared_converted_and_loaded_are_equal)
{
    const uint64_t first = number_from("DETENT_SEED", 1);
    const uint64_t count = (uint64_t)test_networks(draws);
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "net.safetensors");
    for (uint64_t i = (uint64_t)_i; i < count; i += PARTS) {
        const random_net d = random_net_of(first + i);
        check_network(&d, path);
    }
    remove(path);
}
END_TEST

START_TEST(families_are_equal_too)
{
    static const char *const names[] = { "cnn", "resnet", "unet", "gpt", "llama" };
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "net.safetensors");
    const uint64_t count = (uint64_t)test_networks(draws) / 10;
    for (uint64_t seed = 1; seed <= count; seed++) {
        const random_net d = random_net_of_family(seed, names[_i]);
        check_network(&d, path);
    }
    remove(path);
}
END_TEST

Suite *test_conv_nets_suite(void)
{
    Suite *s = suite_create("conv_nets");
    TCase *c = tcase_create("networks");
    tcase_set_timeout(c, 900);
    tcase_add_loop_test(c, prepared_converted_and_loaded_are_equal, 0, PARTS);
    tcase_add_loop_test(c, families_are_equal_too, 0, 5);
    suite_add_tcase(s, c);
    return s;
}
