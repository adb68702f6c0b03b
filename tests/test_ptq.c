/* Models rounded layer by layer. Random networks of all kinds and families: rounder nearest gives
 * the model of dt_convert; the calibration cache, the number of threads, an interruption, and
 * saving and loading in between change no bit. 240 networks and 60 of each family; DETENT_NETWORKS
 * overrides the number. */
#include "models.h"
#include "random_nets.h"
#include "testing.h"

#include "core/tensor.h"
#include "nn/module.h"
#include "ptq/matrix.h"

#include <detent/experimental/ptq.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCHES 3

static const test_draws draws = { .usual = 240, .quick = 80, .sanitized = 12 };

static uint64_t networks(void) { return (uint64_t)test_networks(draws); }

/* ---- a case ---------------------------------------------------------------------------------- */

/* Batches that all come in one tensor. */
typedef struct batches {
    dt_tensor *x;
    float *values[BATCHES];
    int64_t fetched;
} batches;

static dt_status fetch(void *user, int64_t i, dt_tensor **x)
{
    batches *b = user;
    b->fetched++;
    memcpy(dt_data_mut(b->x), b->values[i], (size_t)b->x->count * sizeof(float));
    *x = b->x;
    return DT_OK;
}

/* A prepared network in its own context, and the same network in float. */
typedef struct prepared {
    const random_net *d;
    dt_ctx *ctx;
    dt_module *m, *reference;
    int64_t tables; /* embeddings are prepared, too */
    batches b;
    dt_calibration data;
} prepared;

static dt_ctx *context_of(uint64_t seed, int threads)
{
    dt_ctx_options options = dt_ctx_defaults();
    dt_ctx *ctx;
    options.seed = seed;
    options.threads = threads;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    return ctx;
}

static dt_status count_table(void *user, const char *path, dt_module *m)
{
    (void)path;
    if (strcmp(m->type->name, "embedding") != 0) return DT_OK;
    *(int64_t *)user += dt_is_fake_quant(dt_param(m, "weight"));
    return DT_OK;
}

/* The same seed gives the same values on any number of threads. */
static void prepare_net(prepared *p, const random_net *d, int threads)
{
    dt_ctx *ctx = context_of(d->seed, threads);
    *p = (prepared){ .d = d, .ctx = ctx, .b.x = random_net_input(ctx, d) };
    const size_t bytes = (size_t)p->b.x->count * sizeof(float);
    for (int i = 0; i < BATCHES; i++) {
        random_net_fill(d, p->b.x);
        p->b.values[i] = malloc(bytes + 1);
        memcpy(p->b.values[i], dt_data(p->b.x), bytes);
    }
    p->m = random_net_create(ctx, d);
    p->reference = random_net_create(ctx, d);
    TEST_OK(ctx, dt_module_copy_state(p->reference, p->m));
    TEST_EACH(dt_prepare(p->m, &d->qat) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    dt_module_visit_modules(p->m, count_table, &p->tables);
    p->data = (dt_calibration){ BATCHES, fetch, NULL };
}

static void free_net(prepared *p)
{
    for (int i = 0; i < BATCHES; i++) free(p->b.values[i]);
    dt_tensor_free(p->b.x);
    dt_module_free(p->m);
    dt_module_free(p->reference);
    dt_ctx_free(p->ctx);
}

static dt_status quantize(prepared *p, const dt_ptq_options *o, dt_ptq_report *report)
{
    p->data.user = &p->b;
    return dt_ptq(p->m, p->reference, &p->data, o, report);
}

static void quantize_well(prepared *p, const dt_ptq_options *o, dt_ptq_report *report)
{
    TEST_EACH(quantize(p, o, report) == DT_OK, "network %llu: %s", (unsigned long long)p->d->seed,
              dt_error(p->ctx));
    TEST_EACH(!dt_is_prepared(p->m), "network %llu: something is left",
              (unsigned long long)p->d->seed);
}

static bool has_groups(const random_net *d)
{
    const dt_quant_patch *w = &d->qat.weight;
    const bool preset =
        d->qat.preset == DT_INT8_DYNAMIC_INT4_WEIGHT || d->qat.preset == DT_INT4_WEIGHT;
    return preset && d->qat.n_rules == 0 &&
           (!w->has_granularity || w->quant.granularity == DT_PER_GROUP);
}

/* Settings that suit the network. */
static dt_ptq_options draw_options(const random_net *d)
{
    static const int rounders[] = { DT_ROUND_GPTQ, DT_ROUND_GPFQ, DT_ROUND_QRONOS };
    dt__stream s = dt__stream_of(d->seed, DT__FOR_SHUFFLE);
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = rounders[dt__random_below(&s, DT__COUNT_OF(rounders))];
    o.rounding.rounding.order = (int)dt__random_below(&s, has_groups(d) ? 3 : 2);
    o.rounding.rounding.keep_better = dt__random_below(&s, 2) == 0;
    o.rounding.rounding.alpha = 1e-3;
    o.correct_bias = dt__random_below(&s, 2) == 0;
    return o;
}

/* The output in evaluation mode on the first batch, a copy. */
static float *outputs(dt_module *m, const prepared *p, int64_t *n)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tensor *x;
    dt_tape *t;
    const dt_tensor *like = p->b.x;
    TEST_OK(ctx, dt_tensor_from(ctx, like->dtype, like->rank, like->dims, p->b.values[0], &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_no_grad(t, true);
    const dt_tensor *y = dt_forward(t, m, x);
    TEST_EACH(y != NULL, "network %llu: %s", (unsigned long long)p->d->seed, dt_error(ctx));
    *n = dt_count(y);
    float *copy = malloc((size_t)*n * sizeof(float) + 1);
    memcpy(copy, dt_data(y), (size_t)*n * sizeof(float));
    dt_tape_free(t);
    dt_tensor_free(x);
    return copy;
}

static void same_outputs(const prepared *p, dt_module *a, dt_module *b, const char *what)
{
    int64_t n, m;
    float *x = outputs(a, p, &n), *y = outputs(b, p, &m);
    TEST_EACH(n == m && memcmp(x, y, (size_t)n * sizeof(float)) == 0, "network %llu: %s",
              (unsigned long long)p->d->seed, what);
    free(x);
    free(y);
}

/* ---- nearest --------------------------------------------------------------------------------- */

/* Calibrates ranges as dt_ptq does, step by step. */
static void observe(prepared *p)
{
    dt_tape *t;
    if (!dt_is_observed(p->m)) return;
    TEST_OK(p->ctx, dt_tape_create(p->ctx, &t));
    TEST_OK(p->ctx, dt_enable(p->m, false));
    TEST_OK(p->ctx, dt_observe(p->m, true));
    dt_train(p->m, false);
    dt_no_grad(t, true);
    for (int i = 0; i < BATCHES; i++) {
        dt_tensor *x;
        fetch(&p->b, i, &x);
        dt_forward(t, p->m, x);
        TEST_OK(p->ctx, dt_tape_status(t));
        dt_tape_reset(t);
    }
    TEST_OK(p->ctx, dt_observe(p->m, false));
    TEST_OK(p->ctx, dt_enable(p->m, true));
    dt_train(p->m, true);
    dt_tape_free(t);
}

static void check_nearest(const random_net *d)
{
    prepared a, b;
    dt_ptq_report report;
    dt_convert_report converted;
    prepare_net(&a, d, 2);
    prepare_net(&b, d, 1);
    quantize_well(&a, NULL, &report);
    observe(&b);
    TEST_EACH(dt_convert(b.m, NULL, &converted) == DT_OK, "network %llu: %s",
              (unsigned long long)d->seed, dt_error(b.ctx));
    TEST_EACH(report.layers == converted.converted && report.elements == converted.elements &&
                  report.unreached == 0 && report.untreated == a.tables,
              "network %llu: the report", (unsigned long long)d->seed);
    same_models(a.m, b.m);
    same_outputs(&a, a.m, b.m, "nearest");
    free_net(&a);
    free_net(&b);
}

static const char *const families[] = { NULL, "mlp", "cnn", "resnet", "unet", "gpt", "llama" };

static random_net net_of(int kind, uint64_t seed)
{
    return families[kind] == NULL ? random_net_of(seed)
                                  : random_net_of_family(seed, families[kind]);
}

static uint64_t count_of(int kind) { return kind == 0 ? networks() : networks() / 4; }

START_TEST(nearest_equals_convert)
{
    for (uint64_t seed = 1; seed <= count_of(_i); seed++) {
        const random_net d = net_of(_i, seed);
        check_nearest(&d);
    }
}
END_TEST

/* ---- the same model by every way ------------------------------------------------------------ */

typedef struct stopping {
    dt_ctx *ctx;
    int64_t left;
} stopping;

static dt_status stop(void *user, const char *path, const dt_round_report *report)
{
    stopping *s = user;
    (void)report;
    if (--s->left > 0) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_INTERRUPTED, "stopped behind %s", path);
}

/* Stops after `layers`, saves and loads the model, and continues. */
static void interrupt(prepared *p, dt_ptq_options o, int64_t layers, const char *path)
{
    stopping s = { p->ctx, layers };
    o.done = stop;
    o.user = &s;
    TEST_EACH(quantize(p, &o, NULL) == DT_ERR_INTERRUPTED, "network %llu is not stopped",
              (unsigned long long)p->d->seed);
    random_net_save(p->d, p->m, path);
    dt_module *loaded = random_net_load(p->ctx, p->d, path);
    same_outputs(p, p->m, loaded, "partly converted, and loaded");
    dt_module_free(p->m);
    p->m = loaded;
    if (!dt_is_prepared(p->m)) return;
    o.done = NULL;
    quantize_well(p, &o, NULL);
}

static void check_roads(const random_net *d, const char *path)
{
    prepared whole, other;
    dt_ptq_report report;
    dt_ptq_options o = draw_options(d);
    prepare_net(&whole, d, 2);
    o.cache = SIZE_MAX;
    quantize_well(&whole, &o, &report);
    const size_t caches[] = { 0, (size_t)whole.b.x->count * 8, SIZE_MAX };
    for (int i = 0; i < 3; i++) {
        prepare_net(&other, d, 1 + (int)((d->seed + (uint64_t)i) % 3));
        o.cache = caches[i];
        if (i < 2) quantize_well(&other, &o, NULL);
        else interrupt(&other, o, 1 + (int64_t)(d->seed % (uint64_t)report.layers), path);
        same_models(whole.m, other.m);
        same_outputs(&whole, whole.m, other.m, "another road");
        free_net(&other);
    }
    free_net(&whole);
}

/* One network of as many: each is quantized four times. */
static const test_draws road_steps = { .usual = 1, .sanitized = 4 };

START_TEST(caching_threads_and_interruptions_change_no_bit)
{
    char folder[TEST_PATH], path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "net.safetensors");
    const uint64_t step = (uint64_t)test_count(road_steps);
    for (uint64_t seed = 1; seed <= count_of(_i); seed += step) {
        const random_net d = net_of(_i, seed);
        check_roads(&d, path);
    }
    remove(path);
}
END_TEST

/* ---- smaller errors ------------------------------------------------------------------------- */

typedef struct errors {
    double rounded, nearest; /* sums of logarithms */
    int64_t layers, worse;
} errors;

static dt_status add_error(void *user, const char *path, const dt_round_report *r)
{
    errors *e = user;
    (void)path;
    if (r->nearest_error <= 0 || r->error <= 0) return DT_OK;
    e->layers++;
    e->worse += r->error > r->nearest_error * (1 + 1e-9);
    e->rounded += log(r->error);
    e->nearest += log(r->nearest_error);
    return DT_OK;
}

START_TEST(errors_of_layers_are_smaller)
{
    static const char *const names[] = { "unet", "gpt", "llama" };
    errors e = { 0 };
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = DT_ROUND_GPTQ;
    o.done = add_error;
    o.user = &e;
    const int64_t n = test_networks((test_draws){ .usual = 20, .sanitized = 5 });
    for (uint64_t seed = 1; seed <= (uint64_t)n; seed++) {
        const random_net d = random_net_of_family(seed, names[_i]);
        prepared p;
        prepare_net(&p, &d, 2);
        quantize_well(&p, &o, NULL);
        free_net(&p);
    }
    const double ratio = exp((e.rounded - e.nearest) / (double)e.layers);
    ck_assert_int_gt(e.layers, 9 * n / 2);
    ck_assert_int_eq(e.worse, 0);
    ck_assert_msg(ratio < 0.9, "gptq / nearest is %g over %d layers", ratio, (int)e.layers);
}
END_TEST

/* Every pass but the first resumes where the previous one ended, in the float model too: a batch is
 * fetched once for each layer; a module without children runs once for each batch, a layer
 * twice. */
START_TEST(no_layer_is_computed_twice)
{
    const int64_t nets = test_networks((test_draws){ .usual = 10, .sanitized = 3 });
    for (uint64_t seed = 1; seed <= (uint64_t)nets; seed++) {
        random_net d = random_net_of_family(seed, families[_i]);
        prepared p;
        dt_ptq_report report;
        int64_t of_m = 0, of_reference = 0;
        d.qat.preset = DT_INT8_DYNAMIC_INT4_WEIGHT;
        d.qat.weight = d.qat.activation = (dt_quant_patch){ 0 };
        d.qat.fold_norm = false;
        prepare_net(&p, &d, 2);
        TEST_OK(p.ctx, random_net_count_calls(p.m, &of_m));
        TEST_OK(p.ctx, random_net_count_calls(p.reference, &of_reference));
        int64_t n;
        free(outputs(p.reference, &p, &n));
        const int64_t once = of_reference;
        of_reference = 0;
        dt_ptq_options o = dt_ptq_defaults();
        o.rounding.rounder = DT_ROUND_GPFQ;
        quantize_well(&p, &o, &report);
        ck_assert_int_eq(p.b.fetched, BATCHES * (report.layers - p.tables));
        ck_assert_int_le(of_m, BATCHES * (once + report.layers));
        ck_assert_int_le(of_reference, BATCHES * (once + report.layers));
        free_net(&p);
    }
}
END_TEST

/* ---- layers with unusual forwards ----------------------------------------------------------- */

#define WIDTH 16
#define ROWS 24

/* forward passes x through `first`, `tied` (with first's weight) and `again` twice, and adds a row
 * of `table`; `idle` is never used. */
typedef struct odd {
    dt_module *first, *tied, *again, *table, *idle;
    dt_tensor *index;
} odd;

static void run_odd(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const odd *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt_add(t, in[0], dt_forward(t, s->table, s->index));
    x = dt_forward(t, s->tied, dt_forward(t, s->first, x));
    x = dt_forward(t, s->again, dt_relu(t, dt_forward(t, s->again, x)));
    out[0] = dt_forward(t, s->first, x);
}

static void free_odd(dt_module *m) { dt_tensor_free(((odd *)dt_module_state(m))->index); }

static const dt_module_type odd_type = { .name = "odd",
                                         .forward = run_odd,
                                         .free_state = free_odd };

static dt_status build_odd(dt_ctx *ctx, dt_module *m)
{
    odd *s = dt_module_state(m);
    dt_module **const linear[] = { &s->first, &s->tied, &s->again, &s->idle };
    static const char *const names[] = { "first", "tied", "again", "idle" };
    for (int i = 0; i < 4; i++) {
        DT__TRY(dt_linear_create(ctx, WIDTH, WIDTH, true, linear[i]));
        DT__TRY(dt_module_add(m, names[i], *linear[i]));
    }
    DT__TRY(dt_embedding_create(ctx, 5, WIDTH, &s->table));
    DT__TRY(dt_module_add(m, "table", s->table));
    DT__TRY(dt_module_tie(m, "tied.weight", "first.weight"));
    const int64_t index[ROWS] = { 0, 1, 2, 3, 4, 3, 2, 1, 0 }, n = ROWS;
    return dt_tensor_from(ctx, DT_I64, 1, &n, index, &s->index);
}

static dt_status create_odd(dt_ctx *ctx, dt_module **out)
{
    *out = NULL;
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &odd_type, sizeof(odd), &m));
    const dt_status s = build_odd(ctx, m);
    if (s != DT_OK) dt_module_free(m);
    else *out = m;
    return s;
}

static dt_status prepare_odd(dt_module *m, int preset)
{
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    o.rules[0].match = "table";
    o.n_rules = 1;
    return dt_prepare(m, &o);
}

/* Numbers from a sine, so that no random stream advances. */
static dt_status sine(void *user, int64_t i, dt_tensor **x)
{
    *x = user;
    float *v = dt_data_mut(*x);
    for (int k = 0; k < ROWS * WIDTH; k++) v[k] = sinf((float)k * 1.7f + (float)i) + 0.2f;
    return DT_OK;
}

static dt_status new_rows(dt_ctx *ctx, dt_tensor **x)
{
    return dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ ROWS, WIDTH }, x);
}

typedef struct notes {
    char text[512];
} notes;

static dt_status note(void *user, const char *path, const dt_round_report *r)
{
    notes *n = user;
    const size_t used = strlen(n->text);
    snprintf(n->text + used, sizeof n->text - used, "%s %s %lld; ", path, r->method,
             (long long)r->samples);
    return DT_OK;
}

START_TEST(each_weight_has_its_turn)
{
    dt_ctx *ctx = context_of(3, 2);
    dt_module *m;
    dt_tensor *x;
    dt_ptq_report report;
    notes n = { "" };
    TEST_OK(ctx, create_odd(ctx, &m));
    TEST_OK(ctx, new_rows(ctx, &x));
    TEST_OK(ctx, prepare_odd(m, DT_INT8_DYNAMIC_INT4_WEIGHT));
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = DT_ROUND_GPTQ;
    o.done = note;
    o.user = &n;
    dt_train(dt_module_at(m, "again"), false); /* and stays so, as the others train */
    TEST_OK(ctx, dt_ptq(m, NULL, &(dt_calibration){ 2, sine, x }, &o, &report));
    ck_assert_str_eq(n.text, "table.weight nearest 0; first.weight gptq 48; again.weight gptq 48; "
                             "idle.weight nearest 0; ");
    ck_assert_int_eq(report.layers, 4);
    ck_assert_int_eq(report.unreached, 1);
    ck_assert_int_eq(report.untreated, 1);
    ck_assert_int_eq(report.elements, 5 * WIDTH + 3 * WIDTH * WIDTH);
    ck_assert(dt_is_training(m) && dt_is_training(dt_module_at(m, "first")));
    ck_assert(!dt_is_training(dt_module_at(m, "again")));
    TEST_FAILS(ctx, DT_ERR_STATE, "converted already",
               dt_ptq(m, NULL, &(dt_calibration){ 2, sine, x }, &o, &report));
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status quantize_odd(dt_ctx *ctx, void *user)
{
    dt_module *m = NULL, *reference = NULL;
    dt_tensor *x = NULL;
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = *(const int *)user;
    o.correct_bias = o.rounding.rounder != DT_ROUND_GPTQ;
    dt_status s = create_odd(ctx, &m);
    if (s == DT_OK) s = create_odd(ctx, &reference);
    if (s == DT_OK) s = dt_module_copy_state(reference, m);
    if (s == DT_OK) s = new_rows(ctx, &x);
    if (s == DT_OK) s = prepare_odd(m, DT_INT8_DYNAMIC_INT8_WEIGHT);
    if (s == DT_OK) s = dt_ptq(m, reference, &(dt_calibration){ 2, sine, x }, &o, NULL);
    if (m != NULL) TEST_EACH(dt_is_training(m), "the mode is lost");
    dt_tensor_free(x);
    dt_module_free(m);
    dt_module_free(reference);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    static const int rounders[] = { DT_ROUND_NEAREST, DT_ROUND_GPTQ, DT_ROUND_QRONOS };
    ck_assert_int_gt(test_every_allocation(quantize_odd, (void *)(uintptr_t)&rounders[_i]), 50);
}
END_TEST

/* ---- biases ---------------------------------------------------------------------------------- */

enum { GROUPED, DEPTHWISE, TRANSPOSED, ONE, DENSE, LASTS };

/* The layer whose outputs are compared; of images [N, 6, 7, 5], or of their 210 values. */
static dt_module *last_layer(dt_ctx *ctx, int kind)
{
    dt_module *m = NULL;
    dt_conv_layer conv = { 6, 6, { 3, 3 }, true, dt_conv_defaults() };
    conv.conv.padding[0] = conv.conv.padding[1] = 1;
    if (kind == DENSE) TEST_OK(ctx, dt_linear_create(ctx, 210, 9, true, &m));
    if (kind == DENSE) return m;
    conv.conv.groups = kind == DEPTHWISE ? 6 : kind == ONE ? 1 : 2;
    conv.conv.stride[0] = conv.conv.stride[1] = kind == ONE ? 2 : 1;
    if (kind == TRANSPOSED) TEST_OK(ctx, dt_conv_transpose2d_create(ctx, &conv, &m));
    else TEST_OK(ctx, dt_conv2d_create(ctx, &conv, &m));
    return m;
}

/* A convolution with a norm, relu, and the layer; `folded`: the norm is folded. */
static dt_module *small_net(dt_ctx *ctx, int kind)
{
    dt_module *m, *conv, *norm, *relu, *flatten;
    const dt_conv_layer first = { 6, 6, { 3, 3 }, false, dt_conv_defaults() };
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    TEST_OK(ctx, dt_conv2d_create(ctx, &first, &conv));
    TEST_OK(ctx, dt_batch_norm2d_create(ctx, 6, 0.1, 1e-5, &norm));
    TEST_OK(ctx, dt_activation_create(ctx, "relu", &relu));
    TEST_OK(ctx, dt_module_add(m, "conv", conv));
    TEST_OK(ctx, dt_module_add(m, "norm", norm));
    TEST_OK(ctx, dt_module_add(m, "relu", relu));
    TEST_OK(ctx, dt_module_folds(conv, norm));
    if (kind == DENSE) {
        TEST_OK(ctx, dt_flatten_create(ctx, &flatten));
        TEST_OK(ctx, dt_module_add(m, "flatten", flatten));
    }
    TEST_OK(ctx, dt_module_add(m, "last", last_layer(ctx, kind)));
    return m;
}

static dt_status lend_image(void *user, int64_t i, dt_tensor **x)
{
    *x = ((dt_tensor *const *)user)[i];
    return DT_OK;
}

/* The means of the outputs of m over both batches, [channels]; returns how many. */
static int64_t means_of(dt_module *m, dt_tensor *const *x, double *mean)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *t;
    int64_t channels = 0;
    memset(mean, 0, 16 * sizeof *mean);
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt_no_grad(t, true);
    for (int b = 0; b < 2; b++) {
        dt_tape_reset(t);
        const dt_tensor *y = dt_forward(t, m, x[b]);
        TEST_OK(ctx, dt_tape_status(t));
        channels = y->dims[1];
        const int64_t places = y->count / y->dims[0] / channels;
        for (int64_t i = 0; i < y->count; i++) {
            const double n = 2.0 * (double)(y->dims[0] * places);
            mean[i / places % channels] += (double)((const float *)dt_data(y))[i] / n;
        }
    }
    dt_tape_free(t);
    return channels;
}

/* The largest error of a mean after rounding, with and without correction. */
static double mean_error(int kind, int preset, int rounder, bool correct)
{
    dt_ctx *ctx = context_of((uint64_t)(17 + kind), 2);
    dt_module *m = small_net(ctx, kind), *reference = small_net(ctx, kind);
    dt_tensor *x[2];
    dt_ptq_report report;
    double want[16], got[16], most = 0;
    for (int b = 0; b < 2; b++) {
        const int64_t dims[] = { 4, 6, 9, 7 };
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, dims, &x[b]));
        TEST_OK(ctx, dt_fill_normal(x[b], 0.5, 1));
    }
    TEST_OK(ctx, dt_fill_normal(dt_param(m, "norm.running_mean"), 0, 0.3));
    TEST_OK(ctx, dt_fill_uniform(dt_param(m, "norm.running_var"), 0.5, 2));
    TEST_OK(ctx, dt_module_copy_state(reference, m));
    dt_qat_options q = dt_qat_defaults();
    q.preset = preset;
    q.weight = (dt_quant_patch){ .has_bits = true, .quant.bits = 2 };
    TEST_OK(ctx, dt_prepare(m, &q));
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = rounder;
    o.correct_bias = correct;
    TEST_OK(ctx, dt_ptq(m, reference, &(dt_calibration){ 2, lend_image, x }, &o, &report));
    ck_assert_int_eq(report.corrected, correct ? 2 : 0);
    const int64_t n = means_of(reference, x, want);
    ck_assert_int_eq(means_of(m, x, got), n);
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(want[i] - got[i]));
    dt_tensor_free(x[0]);
    dt_tensor_free(x[1]);
    dt_module_free(m);
    dt_module_free(reference);
    dt_ctx_free(ctx);
    return most;
}

START_TEST(corrected_biases_keep_the_means_of_outputs)
{
    static const int presets[] = { DT_INT4_WEIGHT, DT_INT8_DYNAMIC_INT4_WEIGHT },
                     rounders[] = { DT_ROUND_NEAREST, DT_ROUND_GPTQ, DT_ROUND_QRONOS };
    for (int kind = 0; kind < LASTS; kind++) {
        for (int i = 0; i < 6; i++) {
            const double before = mean_error(kind, presets[i % 2], rounders[i / 2], false),
                         after = mean_error(kind, presets[i % 2], rounders[i / 2], true);
            ck_assert_msg(after < 1e-5 && before > 100 * after, "%d, %d: %g, and %g uncorrected",
                          kind, i, after, before);
        }
    }
}
END_TEST

/* ---- mistakes ------------------------------------------------------------------------------- */

static dt_status spoilt(void *user, int64_t i, dt_tensor **x)
{
    sine(user, i, x);
    if (i == 1) ((float *)dt_data_mut(*x))[7] = NAN;
    return DT_OK;
}

static dt_status nothing(void *user, int64_t i, dt_tensor **x)
{
    (void)user;
    (void)i;
    (void)x;
    return DT_OK;
}

static dt_status unreadable(void *user, int64_t i, dt_tensor **x)
{
    (void)x;
    return dt_fail(user, DT_ERR_IO, "batch %d cannot be read", (int)i);
}

START_TEST(mistakes_are_named)
{
    dt_ctx *ctx = context_of(3, 1);
    dt_module *m, *other;
    dt_tensor *x;
    TEST_OK(ctx, create_odd(ctx, &m));
    TEST_OK(ctx, dt_linear_create(ctx, WIDTH, WIDTH, true, &other));
    TEST_OK(ctx, new_rows(ctx, &x));
    const dt_calibration good = { 2, sine, x }, bad = { 2, spoilt, x }, none = { 0, sine, x };
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = DT_ROUND_QRONOS;
    TEST_FAILS(ctx, DT_ERR_STATE, "not prepared", dt_ptq(m, NULL, &good, &o, NULL));
    TEST_OK(ctx, prepare_odd(m, DT_INT4_WEIGHT));
    TEST_FAILS(ctx, DT_ERR_ARG, "qronos needs batches", dt_ptq(m, NULL, NULL, &o, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "qronos needs batches", dt_ptq(m, NULL, &none, &o, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "no batch 0",
               dt_ptq(m, NULL, &(dt_calibration){ 2, nothing, NULL }, &o, NULL));
    TEST_FAILS(ctx, DT_ERR_IO, "batch 0 cannot be read",
               dt_ptq(m, NULL, &(dt_calibration){ 2, unreadable, ctx }, &o, NULL));
    TEST_FAILS(ctx, DT_ERR_NUMERIC, "ptq: first: ", dt_ptq(m, NULL, &bad, &o, NULL));
    TEST_FAILS(ctx, DT_ERR_ARG, "no layer like first", dt_ptq(m, other, &good, &o, NULL));
    o.rounding.rounder = DT_ROUND_A2GPTQ;
    o.rounding.accumulator.bits = 16;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "inputs of first stay float", dt_ptq(m, NULL, &good, &o, NULL));
    o.rounding.rounder = DT_ROUND_GPTQ;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "ptq: first: accumulator", dt_ptq(m, NULL, &good, &o, NULL));
    o.rounding.rounder = 77;
    TEST_FAILS(ctx, DT_ERR_CONFIG, "77 is not a rounder", dt_ptq(m, NULL, &good, &o, NULL));
    ck_assert(dt_is_training(m) && dt_is_prepared(m));
    dt_tensor_free(x);
    dt_module_free(other);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* Accumulators are bounded for all possible codes of a layer's inputs. */
START_TEST(accumulators_hold_the_codes_of_inputs)
{
    dt_ctx *ctx = context_of(3, 2);
    dt_module *m;
    dt_tensor *x;
    dt_ptq_report report;
    TEST_OK(ctx, create_odd(ctx, &m));
    TEST_OK(ctx, new_rows(ctx, &x));
    TEST_OK(ctx, prepare_odd(m, DT_INT8_DYNAMIC_INT8_WEIGHT));
    dt_ptq_options o = dt_ptq_defaults();
    o.rounding.rounder = DT_ROUND_A2GPTQ;
    o.rounding.accumulator.bits = 14;
    TEST_OK(ctx, dt_ptq(m, NULL, &(dt_calibration){ 2, sine, x }, &o, &report));
    ck_assert_int_le(report.accumulator_bits, 14);
    ck_assert_int_gt(report.accumulator_bits, 12);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_ptq_suite(void)
{
    Suite *s = suite_create("ptq");
    TCase *c = tcase_create("models");
    tcase_set_timeout(c, 600);
    tcase_add_loop_test(c, nearest_equals_convert, 0, DT__COUNT_OF(families));
    tcase_add_loop_test(c, caching_threads_and_interruptions_change_no_bit, 0,
                        DT__COUNT_OF(families));
    tcase_add_loop_test(c, errors_of_layers_are_smaller, 0, 3);
    tcase_add_loop_test(c, no_layer_is_computed_twice, 1, DT__COUNT_OF(families));
    tcase_add_test(c, each_weight_has_its_turn);
    tcase_add_loop_test(c, every_allocation_may_fail, 0, 3);
    tcase_add_test(c, corrected_biases_keep_the_means_of_outputs);
    tcase_add_test(c, mistakes_are_named);
    tcase_add_test(c, accumulators_hold_the_codes_of_inputs);
    suite_add_tcase(s, c);
    return s;
}
