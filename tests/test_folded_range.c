/* Static and learned ranges of weights behind a folded norm: gradients equal those of the network
 * with a separate norm, and those of double precision; codes do not change with the norm; one scale
 * for all channels; files of older versions; bits on threads. */
#include "testing.h"

#include "core/tensor.h"
#include "nn/module.h"
#include "qat/folded_range.h"

#include <detent/io.h>
#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { IN = 5, OUT = 12, SAMPLES = 6, SIDE = 4 };

static dt_ctx *ctx;

static void setup(void) { ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK); }
static void teardown(void) { dt_ctx_free(ctx); }

/* ---- a convolution and its norm -------------------------------------------------------------- */

static void run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out, int n)
{
    (void)n_in;
    (void)n;
    out[0] = dt_forward(t, m->children[1], dt_forward(t, m->children[0], in[0]));
}

static const dt_module_type type = { .name = "conv and norm", .forward = run };

/* Weights of the norm are above 0, and alternate in sign where they are `mixed`. */
static dt_module *model(dt_ctx *of, int64_t kernel, bool mixed)
{
    static const char *const names[] = { "weight", "bias", "running_mean", "running_var" };
    dt_conv_layer layer = { IN, OUT, { kernel, kernel }, true, dt_conv_defaults() };
    layer.conv.padding[0] = layer.conv.padding[1] = kernel / 2;
    dt_module *m, *conv, *norm;
    TEST_OK(of, dt_module_create(of, &type, 0, &m));
    TEST_OK(of, dt_conv2d_create(of, &layer, &conv));
    TEST_OK(of, dt_module_add(m, "conv", conv));
    TEST_OK(of, dt_batch_norm2d_create(of, OUT, 0.1, 1e-5, &norm));
    TEST_OK(of, dt_module_add(m, "norm", norm));
    TEST_OK(of, dt_module_folds(conv, norm));
    for (int i = 0; i < 4; i++) {
        TEST_OK(of, dt_fill_uniform(dt_param(norm, names[i]), i == 2 ? -0.3 : 0.3, 1.7));
    }
    float *gain = dt_data_mut(dt_param(norm, "weight"));
    for (int i = 0; i < OUT && mixed; i += 2) gain[i] = -gain[i];
    return m;
}

/* Normal numbers [SAMPLES, channels, SIDE, SIDE]. */
static dt_tensor *normal(dt_ctx *of, int64_t channels)
{
    const int64_t dims[] = { SAMPLES, channels, SIDE, SIDE };
    dt_tensor *x;
    TEST_OK(of, dt_tensor_create(of, DT_F32, 4, dims, &x));
    TEST_OK(of, dt_fill_normal(x, 0, 1));
    return x;
}

/* The model's input, and dL/dy of the loss L = sum dy y. */
typedef struct batch {
    dt_tensor *x, *dy;
} batch;

static batch batch_of(dt_ctx *of) { return (batch){ normal(of, IN), normal(of, OUT) }; }

static void discard(const batch *b)
{
    dt_tensor_free(b->x);
    dt_tensor_free(b->dy);
}

typedef struct kind {
    int scheme, bits, granularity, range;
} kind;

static const kind kinds[] = {
    { DT_SCHEME_SYMMETRIC, 2, DT_PER_CHANNEL, DT_RANGE_LEARNED },
    { DT_SCHEME_SYMMETRIC, 4, DT_PER_GROUP, DT_RANGE_LEARNED },
    { DT_SCHEME_HALF_LEVELS, 2, DT_PER_CHANNEL, DT_RANGE_LEARNED },
    { DT_SCHEME_SYMMETRIC, 3, DT_PER_CHANNEL, DT_RANGE_STATIC },
    { DT_SCHEME_ASYMMETRIC, 2, DT_PER_CHANNEL, DT_RANGE_STATIC },
    { DT_SCHEME_ASYMMETRIC, 3, DT_PER_GROUP, DT_RANGE_STATIC },
};

static dt_qat_options settings(const kind *k)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = DT_INT4_WEIGHT;
    o.weight.quant = (dt_quant_spec){ .scheme = k->scheme,
                                      .bits = k->bits,
                                      .granularity = k->granularity,
                                      .group_size = 16,
                                      .range = k->range };
    o.weight.has_scheme = o.weight.has_bits = o.weight.has_granularity = true;
    o.weight.has_group_size = o.weight.has_range = true;
    return o;
}

/* A pass, backward, and an update where there is an optimizer; y is to be freed. */
static dt_tensor *update(dt_module *m, const batch *b, dt_optimizer *optimizer)
{
    dt_tape *t;
    dt_tensor *y;
    TEST_OK(m->ctx, dt_tape_create(m->ctx, &t));
    dt_zero_grad(m);
    dt_tensor *out = dt_forward(t, m, b->x);
    TEST_OK(m->ctx, dt_tape_status(t));
    TEST_OK(m->ctx, dt_tensor_from(m->ctx, DT_F32, out->rank, out->dims, dt_data(out), &y));
    TEST_OK(m->ctx, dt_backward(t, dt_sum(t, dt_mul(t, out, b->dy), NULL), NULL));
    if (optimizer != NULL) TEST_OK(m->ctx, dt_optimizer_step(optimizer, t, 1e-2));
    dt_tape_free(t);
    return y;
}

static dt_tensor *train_once(dt_module *m, const batch *b) { return update(m, b, NULL); }

static void assert_near(const dt_tensor *a, const dt_tensor *b, double within, const char *what)
{
    double most = 0, apart = 0;
    const float *x = dt_data(a), *y = dt_data(b);
    ck_assert_int_eq(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        most = fmax(most, fabs((double)y[i]));
        apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
    }
    ck_assert_msg(apart <= within * most, "%s: %g apart, %g large", what, apart, most);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void compare_with_norm_apart(const kind *k)
{
    static const char *const trained[] = { "conv.weight", "conv.weight.scale", "norm.weight",
                                           "norm.bias" };
    dt_module *apart = model(ctx, 3, false), *folded = model(ctx, 3, false);
    dt_qat_options o = settings(k);
    const batch b = batch_of(ctx);
    TEST_OK(ctx, dt_prepare(folded, &o));
    o.fold_norm = false;
    TEST_OK(ctx, dt_prepare(apart, &o));
    dt_tensor_free(train_once(apart, &b)); /* its range begins */
    dt_tensor *scale = dt_param(apart, "conv.weight.scale");
    float *s = dt_data_mut(scale); /* which may have put a weight between two codes */
    for (int64_t i = 0; i < scale->count; i++) s[i] *= 1.013F;
    TEST_OK(ctx, dt_module_copy_state(folded, apart));
    dt_tensor *y = train_once(apart, &b), *z = train_once(folded, &b);
    assert_near(z, y, 1e-5, "y");
    for (int i = 0; i < 4; i++) {
        if (i == 1 && k->range == DT_RANGE_STATIC) continue;
        assert_near(dt_grad(dt_param(folded, trained[i])), dt_grad(dt_param(apart, trained[i])),
                    2e-4, trained[i]);
    }
    DT__TENSORS_FREE(y, z);
    discard(&b);
    dt_module_free(apart);
    dt_module_free(folded);
}

START_TEST(gradients_are_those_of_a_norm_apart)
{
    dt_seed(ctx, 21);
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) compare_with_norm_apart(&kinds[i]);
}
END_TEST

/* With frozen statistics and a kernel of 1, of rows x of IN values: y = x W^' + b'. */
typedef struct reference {
    double y[SAMPLES * SIDE * SIDE][OUT], dw[OUT][IN], ds[OUT];
} reference;

static void compute(dt_module *m, const batch *of, const dt_quant_spec *q, reference *r)
{
    const float *data = dt_data(of->x), *dy = dt_data(of->dy),
                *w = dt_data(dt_param(m, "conv.weight"));
    const float *b = dt_data(dt_param(m, "conv.bias")),
                *s = dt_data(dt_param(m, "conv.weight.scale"));
    const float *gain = dt_data(dt_param(m, "norm.weight")),
                *beta = dt_data(dt_param(m, "norm.bias"));
    const float *mean = dt_data(dt_param(m, "norm.running_mean"));
    const float *var = dt_data(dt_param(m, "norm.running_var"));
    const int plane = SIDE * SIDE, qmin = -(1 << (q->bits - 1)), qmax = -qmin - 1;
    for (int o = 0; o < OUT; o++) {
        const double f = gain[o] / sqrt(var[o] + 1e-5), g = 1 / sqrt((double)IN * qmax);
        double code[IN], v[IN];
        for (int k = 0; k < IN; k++) {
            v[k] = (f < 0 ? -1 : 1) * (double)w[o * IN + k] / (double)s[o];
            code[k] = fmin(fmax(rint(v[k]), qmin), qmax);
            r->dw[o][k] = 0;
        }
        for (int i = 0; i < SAMPLES * plane; i++) {
            const double d = (double)dy[(i / plane * OUT + o) * plane + i % plane];
            double y = (double)beta[o] + ((double)b[o] - (double)mean[o]) * f;
            const float *at = data + i / plane * IN * plane + i % plane;
            for (int k = 0; k < IN; k++)
                y += code[k] * (double)s[o] * fabs(f) * (double)at[k * plane];
            for (int k = 0; k < IN; k++) r->dw[o][k] += d * (double)at[k * plane];
            r->y[i][o] = y;
        }
        r->ds[o] = 0;
        for (int k = 0; k < IN; k++) {
            const bool in = rint(v[k]) >= qmin && rint(v[k]) <= qmax;
            r->ds[o] += g * fabs(f) * r->dw[o][k] * (code[k] - (in ? v[k] : 0));
            r->dw[o][k] *= in ? f : 0;
        }
    }
}

START_TEST(gradients_are_those_of_double_precision)
{
    for (int bits = 2; bits <= 4; bits++) {
        static reference r;
        dt_seed(ctx, 30 + (uint64_t)bits);
        dt_module *m = model(ctx, 1, true);
        const dt_qat_options o =
            settings(&(kind){ DT_SCHEME_SYMMETRIC, bits, DT_PER_CHANNEL, DT_RANGE_LEARNED });
        const batch b = batch_of(ctx);
        TEST_OK(ctx, dt_prepare(m, &o));
        dt_norms_freeze(m, true);
        dt_tensor *y = train_once(m, &b);
        compute(m, &b, &o.weight.quant, &r);
        const float *found = dt_data(y), *dw = dt_data(dt_grad(dt_param(m, "conv.weight")));
        const float *ds = dt_data(dt_grad(dt_param(m, "conv.weight.scale")));
        for (int i = 0; i < SAMPLES * OUT * SIDE * SIDE; i++) {
            const int plane = SIDE * SIDE, sample = i / (OUT * plane);
            const double want = r.y[sample * plane + i % plane][i / plane % OUT];
            TEST_NEAR(found[i], want, 1e-5, 1e-5);
        }
        for (int i = 0; i < OUT * IN; i++) TEST_NEAR(dw[i], r.dw[i / IN][i % IN], 2e-4, 1e-5);
        for (int i = 0; i < OUT; i++) TEST_NEAR(ds[i], r.ds[i], 2e-4, 1e-5);
        discard(&b);
        dt_tensor_free(y);
        dt_module_free(m);
    }
}
END_TEST

/* ---- codes stay ------------------------------------------------------------------------------ */

/* The values of the converted weight, after each weight of the norm was multiplied. */
static dt_tensor *converted(const kind *k, const batch *b, const float *by)
{
    dt_tensor *values;
    dt_seed(ctx, 40);
    dt_module *m = model(ctx, 3, true);
    const dt_qat_options o = settings(k);
    TEST_OK(ctx, dt_prepare(m, &o));
    dt_norms_freeze(m, true); /* the batch does not change statistics */
    dt_tensor_free(train_once(m, b));
    float *gain = dt_data_mut(dt_param(m, "norm.weight"));
    for (int i = 0; i < OUT; i++) gain[i] *= by[i];
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_dequantize(dt_param(m, "conv.weight"), &values));
    dt_module_free(m);
    return values;
}

START_TEST(codes_stay_when_the_norm_changes)
{
    float same[OUT], by[OUT];
    const batch in = batch_of(ctx);
    for (int i = 0; i < OUT; i++) {
        same[i] = 1;
        by[i] = ldexpf(i % 3 == 0 ? -1 : 1, i - 5); /* exact */
    }
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        const bool mirrors = kinds[i].scheme != DT_SCHEME_SYMMETRIC; /* its levels */
        for (int o = 0; o < OUT && !mirrors; o++) by[o] = fabsf(by[o]);
        for (int o = 0; o < OUT && mirrors; o += 3) by[o] = -fabsf(by[o]);
        dt_tensor *a = converted(&kinds[i], &in, same), *c = converted(&kinds[i], &in, by);
        const float *before = dt_data(a), *after = dt_data(c);
        const int64_t row = a->count / OUT;
        for (int64_t e = 0; e < a->count; e++) {
            ck_assert_msg(after[e] == before[e] * by[e / row], "kind %d, element %lld: %g, not %g",
                          i, (long long)e, (double)after[e], (double)(before[e] * by[e / row]));
        }
        dt_tensor_free(a);
        dt_tensor_free(c);
    }
    discard(&in);
}
END_TEST

/* ---- one scale for all channels -------------------------------------------------------------- */

/* Fewer than 6 bits: the norm stays apart, so a channel keeps its share of the codes whatever its
 * norm; from 6 on it is folded. Either way conversion keeps all bits, and `fold_norm: false` gives
 * the same as fewer bits do. */
static void check_one_scale(int bits, int range, bool fold)
{
    dt_module *m = model(ctx, 3, true);
    dt_qat_options o = settings(&(kind){ DT_SCHEME_SYMMETRIC, bits, DT_PER_TENSOR, range });
    o.fold_norm = fold;
    dt_tape *t;
    const batch b = batch_of(ctx);
    TEST_OK(ctx, dt_prepare(m, &o));
    const bool folded = fold && bits >= 6;
    ck_assert_int_eq(m->children[0]->folding, folded ? DT__FOLDED : DT__APART);
    dt_tensor_free(train_once(m, &b));
    dt_train(m, false);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_tensor *y = dt_forward(t, m, b.x), *trained;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, y->rank, y->dims, dt_data(y), &trained));
    dt_tape_reset(t);
    dt_convert_report report;
    TEST_OK(ctx, dt_convert(m, NULL, &report));
    ck_assert_int_eq(report.folded, folded);
    y = dt_forward(t, m, b.x);
    ck_assert_mem_eq(dt_data(y), dt_data(trained), (size_t)y->count * sizeof(float));
    dt_tensor_free(trained);
    dt_tape_free(t);
    discard(&b);
    dt_module_free(m);
}

START_TEST(few_bits_of_one_scale_leave_the_norm_apart)
{
    static const int ranges[] = { DT_RANGE_DYNAMIC, DT_RANGE_STATIC, DT_RANGE_LEARNED };
    for (int bits = 2; bits <= 8; bits++) {
        dt_seed(ctx, 60 + (uint64_t)bits);
        for (int i = 0; i < DT__COUNT_OF(ranges); i++) {
            check_one_scale(bits, ranges[i], true);
            check_one_scale(bits, ranges[i], false);
        }
    }
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

/* The file of an older version, without `range_of`: its scales are those of the folded weight. */
static void make_older(const char *path, const char *to)
{
    static const char said[] = ",\"range_of\":\"own\"";
    const char *key, *value;
    dt_file *f;
    dt_writer *w;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        char text[4096];
        const char *at = strstr(value, said);
        const int before = at == NULL ? (int)strlen(value) : (int)(at - value);
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        ck_assert_int_eq(at != NULL, strcmp(key, "detent.quant") == 0);
        snprintf(text, sizeof text, "%.*s%s", before, value,
                 at == NULL ? "" : at + sizeof said - 1);
        TEST_OK(ctx, dt_writer_meta(w, key, text));
    }
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        TEST_OK(ctx, dt_writer_add_bytes(w, dt_file_at(f, i)));
    }
    TEST_OK(ctx, dt_writer_write(w, to));
    dt_writer_free(w);
    dt_file_close(f);
}

START_TEST(files_of_older_versions_have_scales_of_the_folded_weight)
{
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        char path[TEST_PATH], older[TEST_PATH];
        test_folder(path);
        test_join(older, path, "older.safetensors");
        test_join(path, path, "model.safetensors");
        dt_module *m = model(ctx, 3, true), *copy = model(ctx, 3, false);
        const dt_qat_options o = settings(&kinds[i]);
        TEST_OK(ctx, dt_prepare(m, &o));
        TEST_OK(ctx, dt_model_save(m, NULL, path));
        make_older(path, older);
        TEST_OK(ctx, dt_model_restore(copy, older));
        const float *s = dt_data(dt_param(m, "conv.weight.scale"));
        const float *got = dt_data(dt_param(copy, "conv.weight.scale"));
        const int64_t each = dt_param(m, "conv.weight.scale")->count / OUT;
        for (int c = 0; c < OUT; c++) {
            const double gain = ((const float *)dt_data(dt_param(m, "norm.weight")))[c];
            const double var = ((const float *)dt_data(dt_param(m, "norm.running_var")))[c];
            TEST_NEAR(got[c * each], s[c * each] / fabs(gain) * sqrt(var + 1e-5), 0, 1e-6);
        }
        dt_module_free(m);
        dt_module_free(copy);
    }
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

/* The state after some updates, to be freed. */
static float *trained_on(int threads, int64_t *count)
{
    dt_ctx_options c = dt_ctx_defaults();
    dt_ctx *own;
    dt_optimizer *optimizer;
    c.threads = threads;
    ck_assert_int_eq(dt_ctx_create(&own, &c), DT_OK);
    dt_seed(own, 50);
    dt_module *m = model(own, 3, true);
    const dt_qat_options o = settings(&kinds[0]);
    const dt_optimizer_options adam = dt_optimizer_defaults();
    const batch b = batch_of(own);
    TEST_OK(own, dt_prepare(m, &o));
    TEST_OK(own, dt_optimizer_create(m, &adam, &optimizer));
    for (int step = 0; step < 5; step++) dt_tensor_free(update(m, &b, optimizer));
    const dt_tensor *s = dt_param(m, "conv.weight.scale"), *w = dt_param(m, "conv.weight");
    float *state = malloc((size_t)(s->count + w->count) * sizeof *state);
    memcpy(state, dt_data(s), (size_t)s->count * sizeof *state);
    memcpy(state + s->count, dt_data(w), (size_t)w->count * sizeof *state);
    *count = s->count + w->count;
    discard(&b);
    dt_optimizer_free(optimizer);
    dt_module_free(m);
    dt_ctx_free(own);
    return state;
}

START_TEST(bits_do_not_depend_on_threads)
{
    int64_t count;
    float *one = trained_on(1, &count), *three = trained_on(3, &count);
    ck_assert_mem_eq(one, three, (size_t)count * sizeof *one);
    free(one);
    free(three);
}
END_TEST

Suite *test_folded_range_suite(void)
{
    Suite *s = suite_create("folded_range");
    TCase *c = tcase_create("folded_range");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, gradients_are_those_of_a_norm_apart);
    tcase_add_test(c, gradients_are_those_of_double_precision);
    tcase_add_test(c, codes_stay_when_the_norm_changes);
    tcase_add_test(c, few_bits_of_one_scale_leave_the_norm_apart);
    tcase_add_test(c, files_of_older_versions_have_scales_of_the_folded_weight);
    tcase_add_test(c, bits_do_not_depend_on_threads);
    suite_add_tcase(s, c);
    return s;
}
