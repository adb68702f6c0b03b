/* The calibration cache: while a model is converted layer by layer, in the order in which its
 * layers run, each layer gets the same input whether the outputs of earlier layers are cached or
 * computed again, and cached outputs are not computed again. 200 random networks and 40 of each
 * family; DETENT_NETWORKS overrides the number. */
#include "random_nets.h"
#include "testing.h"

#include "core/tensor.h"
#include "nn/cache/calib_cache.h"
#include "qat/convert.h"

#include <detent/experimental/ops.h>

#include <stdlib.h>

static const test_draws draws = { .usual = 200, .quick = 100, .sanitized = 20 };
#define BATCHES 2

static bool is_prepared(void *user, const dt_module *m)
{
    (void)user;
    return dt__layer_quant(m) != NULL;
}

static const dt__calib_target first_prepared = { is_prepared, NULL };

static bool is_it(void *user, const dt_module *m) { return m == user; }

/* Static ranges of inputs see a batch; then the model is put into evaluation mode, for
 * converting. */
static void calibrate(dt_module *m, dt_tensor *x)
{
    dt_ctx *ctx = dt_module_ctx(m);
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    if (dt_is_observed(m)) {
        TEST_OK(ctx, dt_observe(m, true));
        dt_forward(t, m, x);
        TEST_OK(ctx, dt_tape_status(t));
        TEST_OK(ctx, dt_observe(m, false));
    }
    dt_tape_free(t);
}

static void same_input(const random_net *d, const dt_module *m, dt_tensor *a, dt_tensor *b)
{
    TEST_EACH(a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
                  memcmp(dt_data(a), dt_data(b), (size_t)a->count * sizeof(float)) == 0,
              "network %llu: the input of %s", (unsigned long long)d->seed, m->path);
}

static void same_calls(const random_net *d, const dt__calib_stop *a, const dt__calib_stop *b)
{
    TEST_EACH(a->n_calls == b->n_calls, "network %llu is called otherwise",
              (unsigned long long)d->seed);
    for (int64_t k = 0; k < a->n_calls; k++) {
        for (int i = 0; i < 2; i++) {
            dt_tensor *one = a->call[k].input[i], *other = b->call[k].input[i];
            TEST_EACH((one == NULL) == (other == NULL), "network %llu has other inputs",
                      (unsigned long long)d->seed);
            if (one != NULL) same_input(d, b->at, one, other);
        }
    }
}

/* ---- cached or computed again ---------------------------------------------------------------- */

enum { NOTHING, LITTLE, ALL, ROOMS };

typedef struct walk {
    const random_net *d;
    dt_module *m;
    dt_tape *t;
    float *values[BATCHES]; /* of the batches */
    dt_tensor *x;           /* which all come in the same tensor */
    dt__calib_budget room[ROOMS];
    dt__calib_cache cache[ROOMS][BATCHES];
} walk;

/* All rooms stop at the same module, with the same input. */
static dt_module *step(walk *w, int batch)
{
    dt__calib_stop stop[ROOMS];
    for (int r = 0; r < ROOMS; r++) {
        memcpy(dt_data_mut(w->x), w->values[batch], (size_t)w->x->count * sizeof(float));
        TEST_EACH(dt__calib_run(&w->cache[r][batch], w->t, w->x, &first_prepared, &stop[r]) ==
                      DT_OK,
                  "network %llu: %s", (unsigned long long)w->d->seed, dt_error(w->t->ctx));
        TEST_EACH(stop[r].at == stop[0].at, "network %llu ends elsewhere",
                  (unsigned long long)w->d->seed);
        same_calls(w->d, &stop[0], &stop[r]);
        TEST_EACH(w->room[r].used <= w->room[r].limit, "network %llu keeps too much",
                  (unsigned long long)w->d->seed);
    }
    dt_module *at = stop[0].at;
    for (int r = 0; r < ROOMS; r++) dt__calib_stop_free(w->t->ctx, &stop[r]);
    return at;
}

static void walk_through(walk *w)
{
    for (;;) {
        dt_module *at = step(w, 0);
        for (int b = 1; b < BATCHES; b++) ck_assert_ptr_eq(step(w, b), at);
        if (at == NULL) break;
        TEST_OK(w->t->ctx, dt__convert_layer(w->m, at, NULL));
    }
    ck_assert(!dt_is_prepared(w->m));
    for (int r = 0; r < ROOMS; r++) ck_assert_uint_eq(w->room[r].used, 0); /* it came to its end */
}

static void check_network(const random_net *d)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.seed = d->seed;
    options.threads = 2;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    walk w = { .d = d, .m = random_net_create(ctx, d), .x = random_net_input(ctx, d) };
    TEST_OK(ctx, dt_tape_create(ctx, &w.t));
    const size_t bytes = (size_t)w.x->count * sizeof(float);
    w.room[LITTLE].limit = 3 * bytes;
    w.room[ALL].limit = SIZE_MAX;
    for (int b = 0; b < BATCHES; b++) {
        random_net_fill(d, w.x);
        w.values[b] = malloc(bytes);
        memcpy(w.values[b], dt_data(w.x), bytes);
        for (int r = 0; r < ROOMS; r++)
            w.cache[r][b] = (dt__calib_cache){ .m = w.m, .budget = &w.room[r] };
    }
    TEST_EACH(dt_prepare(w.m, &d->qat) == DT_OK, "network %llu: %s", (unsigned long long)d->seed,
              dt_error(ctx));
    calibrate(w.m, w.x);
    walk_through(&w);
    for (int b = 0; b < BATCHES; b++) free(w.values[b]);
    dt_tape_free(w.t);
    dt_tensor_free(w.x);
    dt_module_free(w.m);
    dt_ctx_free(ctx);
}

static uint64_t networks(void) { return (uint64_t)test_networks(draws); }

START_TEST(cached_activations_equal_computed_ones)
{
    for (uint64_t seed = 1; seed <= networks(); seed++) {
        const random_net d = random_net_of(seed);
        check_network(&d);
    }
}
END_TEST

static const char *const families[] = { "mlp", "cnn", "resnet", "unet", "gpt", "llama" };

START_TEST(cached_activations_equal_computed_ones_in_families)
{
    for (uint64_t seed = 1; seed <= networks() / 5; seed++) {
        const random_net d = random_net_of_family(seed, families[_i]);
        check_network(&d);
    }
}
END_TEST

/* ---- each module runs once ------------------------------------------------------------------- */

/* Every module without children runs once, and a quantized layer once more, up to its hooks. */
START_TEST(each_module_runs_once_a_batch)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        random_net d = random_net_of_family(seed, families[_i]);
        dt_ctx *ctx;
        int64_t calls = 0;
        TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
        dt_module *m = random_net_create(ctx, &d);
        dt__calib_stop stop;
        dt_tensor *x = random_net_input(ctx, &d);
        dt_tape *t;
        TEST_OK(ctx, dt_tape_create(ctx, &t));
        d.qat.fold_norm = false; /* so that a norm runs until the end */
        TEST_OK(ctx, dt_prepare(m, &d.qat));
        calibrate(m, x);
        TEST_OK(ctx, random_net_count_calls(m, &calls));
        TEST_EACH(dt_forward(t, m, x) != NULL, "%s", dt_error(ctx));
        const int64_t once = calls;
        int64_t layers = 0;
        calls = 0;
        dt__calib_budget room = { SIZE_MAX, 0 };
        dt__calib_cache cache = { .m = m, .budget = &room };
        for (;; layers++) {
            TEST_OK(ctx, dt__calib_run(&cache, t, x, &first_prepared, &stop));
            dt_module *at = stop.at;
            dt__calib_stop_free(ctx, &stop);
            if (at == NULL) break;
            TEST_OK(ctx, dt__convert_layer(m, at, NULL));
        }
        TEST_EACH(calls == once + layers, "%s %llu: %lld calls of modules, not %lld + %lld",
                  families[_i], (unsigned long long)seed, (long long)calls, (long long)once,
                  (long long)layers);
        dt_tape_free(t);
        dt_tensor_free(x);
        dt_module_free(m);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* Values that no later layer reads are freed: of an mlp at most one value per layer is kept. */
START_TEST(activations_that_no_later_layer_reads_are_freed)
{
    dt_mlp_options o = { .sizes = { 6, { 64, 64, 64, 64, 64, 64 } }, .bias = true, .eps = 1e-5 };
    const int64_t dims[2] = { 32, 64 };
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_tensor *x;
    dt__calib_stop stop;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, false);
    dt__calib_budget room = { SIZE_MAX, 0 };
    dt__calib_cache cache = { .m = m, .budget = &room };
    const dt__calib_target target = { is_it, dt_module_at(m, "head") };
    TEST_OK(ctx, dt__calib_run(&cache, t, x, &target, &stop));
    ck_assert_ptr_eq(stop.at, target.user);
    ck_assert_uint_le(room.used, 32 * 64 * sizeof(float) + 256);
    dt__calib_stop_free(ctx, &stop);
    dt__calib_clear(&cache);
    ck_assert_uint_eq(room.used, 0);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* Results of networks of integers alone are codes, a byte each, which the limit bounds, too. Of an
 * mlp of drawn widths the result of the last hidden layer is kept at least. */
START_TEST(codes_are_counted)
{
    for (int i = 0; i < 10; i++) {
        const int64_t rows = 1 + rand() % 40, width = 8 + rand() % 60;
        dt_mlp_options o = { .sizes = { 4, { 8, 8 + rand() % 60, width, 3 } }, .bias = true };
        const int64_t dims[2] = { rows, 8 };
        dt_qat_options q = dt_qat_defaults();
        dt_ctx *ctx;
        dt_tape *t;
        dt_module *m;
        dt_tensor *x;
        dt__calib_stop stop;
        TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
        o.eps = 1e-5;
        q.preset = DT_DEVICE_INT8;
        TEST_OK(ctx, dt_mlp_create(ctx, &o, &m));
        TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, dims, &x));
        TEST_OK(ctx, dt_fill_normal(x, 0, 1));
        TEST_OK(ctx, dt_tape_create(ctx, &t));
        TEST_OK(ctx, dt_prepare(m, &q));
        calibrate(m, x);
        const dt__calib_target target = { is_it, dt_module_at(m, "head") };
        const size_t least = (size_t)(rows * width);
        for (int k = 0; k < 2; k++) {
            dt__calib_budget room = { k == 0 ? SIZE_MAX : least - 1, 0 };
            dt__calib_cache cache = { .m = m, .budget = &room };
            TEST_OK(ctx, dt__calib_run(&cache, t, x, &target, &stop));
            ck_assert_ptr_eq(stop.at, target.user);
            if (k == 0) ck_assert_uint_ge(room.used, least);
            ck_assert_int_eq(cache.n > 0, k == 0);
            dt__calib_stop_free(ctx, &stop);
            dt__calib_clear(&cache);
        }
        dt_tape_free(t);
        dt_tensor_free(x);
        dt_module_free(m);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- modules with unusual forwards ----------------------------------------------------------- */

#define WIDTH 16

/* Layers a, b, c, an identity i, and a module with two outputs; each habit uses them
 * differently. */
typedef struct odd {
    dt_module *a, *b, *c, *i, *pair;
} odd;

/* A wrapper of the input, and the sum of both inputs, written over the first. */
static void run_pair(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                     int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_fake_quant(t, in[1], NULL, true);
    out[1] = dt_add_(t, in[0], in[1], 1.0);
}

static const dt_module_type pair_type = { .name = "pair", .forward = run_pair };

static dt_tensor *last(dt_tape *t, const odd *s, dt_tensor *x)
{
    return dt_forward(t, s->c, dt_forward(t, s->b, x));
}

/* The same layers over and over. */
static dt_tensor *again(dt_tape *t, odd *s, dt_tensor *x)
{
    dt_tensor *y = dt_forward(t, s->a, x);
    y = dt_forward(t, s->a, dt_forward(t, s->i, y));
    y = dt_forward(t, s->a, last(t, s, y));
    return last(t, s, dt_forward(t, s->i, y));
}

/* Writes into what a layer returned. */
static dt_tensor *in_place(dt_tape *t, odd *s, dt_tensor *x)
{
    dt_tensor *y = dt_forward(t, s->a, x);
    dt_add_(t, y, x, 1.0);
    y = dt_forward(t, s->b, y);
    dt_add_(t, y, x, 0.5);
    return last(t, s, y);
}

/* A module returns the batch itself; there are ops between modules, and tensors that are dropped at
 * once. */
static dt_tensor *between(dt_tape *t, odd *s, dt_tensor *x)
{
    dt_tensor *y = dt_forward(t, s->i, x), *z = dt_forward(t, s->a, y);
    dt_tensor *sum = dt_add(t, z, y);
    dt_drop(t, z);
    z = dt_forward(t, s->b, sum);
    dt_drop(t, sum);
    return dt_forward(t, s->c, dt_mul(t, z, dt_forward(t, s->i, y)));
}

/* A wrapper and a detached handle of a tensor that is then dropped without an op having read it. */
static dt_tensor *wrapped(dt_tape *t, odd *s, dt_tensor *x)
{
    dt_tensor *y = dt_forward(t, s->a, x), *w = dt_fake_quant(t, y, NULL, true);
    dt_tensor *copy = dt_detach(t, y);
    dt_drop(t, y);
    y = dt_forward(t, s->b, dt_add(t, w, copy));
    return dt_forward(t, s->c, dt_forward(t, s->i, y));
}

/* Two results, one a wrapper, the other an input that was written. */
static dt_tensor *paired(dt_tape *t, odd *s, dt_tensor *x)
{
    dt_tensor *in[2] = { dt_forward(t, s->a, x), dt_forward(t, s->b, x) }, *out[2] = { NULL };
    dt_forward_n(t, s->pair, in, 2, out, 2);
    dt_drop(t, in[1]);
    return dt_forward(t, s->c, dt_mul(t, out[0], out[1]));
}

typedef struct habit {
    dt_tensor *(*run)(dt_tape *t, odd *s, dt_tensor *x);
    bool repeats; /* all calls of a layer count */
} habit;

static const habit habits[] = {
    { again, false },  { in_place, false }, { between, false }, { wrapped, false },
    { paired, false }, { again, true },     { paired, true },
};

typedef struct odd_net {
    odd parts;
    habit how;
} odd_net;

static void run_odd(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    odd_net *s = dt_module_state(m);
    (void)n_in;
    (void)n_out;
    out[0] = s->how.run(t, &s->parts, in[0]);
}

static const dt_module_type odd_type = { .name = "odd", .forward = run_odd };
static const dt_module_type repeating_type = { .name = "odd", .forward = run_odd, .repeats = true };

static dt_status add_odd(dt_module *m, const char *name, dt_module **part)
{
    dt_ctx *ctx = dt_module_ctx(m);
    DT__TRY(name[0] == 'i'   ? dt_activation_create(ctx, "identity", part)
            : name[0] == 'p' ? dt_module_create(ctx, &pair_type, 0, part)
                             : dt_linear_create(ctx, WIDTH, WIDTH, true, part));
    return dt_module_add(m, name, *part);
}

static dt_status create_odd(dt_ctx *ctx, habit how, dt_module **out)
{
    dt_module *m;
    const dt_module_type *type = how.repeats ? &repeating_type : &odd_type;
    DT__TRY(dt_module_create(ctx, type, sizeof(odd_net), &m));
    odd_net *s = dt_module_state(m);
    s->how = how;
    dt_status status = add_odd(m, "a", &s->parts.a);
    if (status == DT_OK) status = add_odd(m, "b", &s->parts.b);
    if (status == DT_OK) status = add_odd(m, "c", &s->parts.c);
    if (status == DT_OK) status = add_odd(m, "i", &s->parts.i);
    if (status == DT_OK) status = add_odd(m, "pair", &s->parts.pair);
    if (status == DT_OK) status = dt_prepare(m, NULL);
    if (status != DT_OK) dt_module_free(m);
    else *out = m;
    return status;
}

static dt_status walk_odd(dt_ctx *ctx, void *user)
{
    const int64_t dims[2] = { 5, WIDTH };
    const random_net d = { .seed = 0 };
    dt__calib_budget kept = { SIZE_MAX, 0 }, anew = { 0, 0 };
    dt__calib_stop a = { .at = NULL }, b = a;
    dt_module *m = NULL;
    dt_tensor *x = NULL;
    dt_tape *t = NULL;
    dt_status s = create_odd(ctx, *(const habit *)user, &m);
    dt__calib_cache cache = { .m = m, .budget = &kept }, plain = { .m = m, .budget = &anew };
    if (s == DT_OK) s = dt_tensor_create(ctx, DT_F32, 2, dims, &x);
    if (s == DT_OK) s = dt_fill_normal(x, 0, 1);
    if (s == DT_OK) s = dt_tape_create(ctx, &t);
    for (bool done = false; s == DT_OK && !done;) {
        s = dt__calib_run(&cache, t, x, &first_prepared, &a);
        if (s == DT_OK) s = dt__calib_run(&plain, t, x, &first_prepared, &b);
        if (s == DT_OK) TEST_EACH(a.at == b.at, "habit ends elsewhere");
        dt_module *at = a.at;
        done = s == DT_OK && at == NULL;
        if (s == DT_OK && !done) same_calls(&d, &a, &b);
        dt__calib_stop_free(ctx, &a);
        dt__calib_stop_free(ctx, &b);
        if (s == DT_OK && !done) s = dt__convert_layer(m, at, NULL);
    }
    if (m != NULL) dt__calib_clear(&cache);
    dt_tape_free(t);
    dt_tensor_free(x);
    dt_module_free(m);
    return s;
}

START_TEST(modules_with_unusual_forwards_are_cached_correctly)
{
    ck_assert_int_gt(test_every_allocation(walk_odd, (void *)(uintptr_t)&habits[_i]), 20);
}
END_TEST

/* ---- one layer converted --------------------------------------------------------------------- */

START_TEST(a_layer_is_converted_once)
{
    dt_ctx *ctx;
    dt_module *m;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, create_odd(ctx, habits[0], &m));
    dt_module *a = dt_module_at(m, "a");
    TEST_OK(ctx, dt__convert_layer(m, a, NULL));
    ck_assert(dt_is_packed(dt_param(a, "weight")) && dt_is_prepared(m));
    TEST_FAILS(ctx, DT_ERR_STATE, "a has no weight that is prepared",
               dt__convert_layer(m, a, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL)); /* what is left */
    ck_assert(!dt_is_prepared(m));
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_calib_cache_suite(void)
{
    Suite *s = suite_create("calib_cache");
    TCase *c = tcase_create("networks");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, cached_activations_equal_computed_ones);
    tcase_add_loop_test(c, cached_activations_equal_computed_ones_in_families, 0,
                        DT__COUNT_OF(families));
    tcase_add_loop_test(c, each_module_runs_once_a_batch, 0, DT__COUNT_OF(families));
    tcase_add_test(c, activations_that_no_later_layer_reads_are_freed);
    tcase_add_test(c, codes_are_counted);
    tcase_add_loop_test(c, modules_with_unusual_forwards_are_cached_correctly, 0,
                        DT__COUNT_OF(habits));
    tcase_add_test(c, a_layer_is_converted_once);
    suite_add_tcase(s, c);
    return s;
}
