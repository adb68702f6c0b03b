/* Traces: a trace contains all that a model computes. Random networks of every kind are traced, and
 * their calls are run again, one by one, for another batch and length than those of the trace: the
 * results must be the model's, bit for bit. */
#include "random_nets.h"
#include "testing.h"

#include "autograd/tape.h"
#include "nn/module.h"
#include "qat/quantized.h"

#include <detent/experimental/export.h>

#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 150, .quick = 75, .sanitized = 20 };

/* ---- running a trace ------------------------------------------------------------------------- */

typedef struct replay {
    dt_tape *t;
    const dt_trace *trace;
    int64_t batch, length;
    dt_tensor **value; /* of each value; lent by the tape, the model or the trace */
} replay;

static dt_tensor *on_tape(replay *r, dt_tensor *x)
{
    ck_assert_int_eq(dt__tape_lend(r->t, x), DT_OK);
    return x;
}

/* A constant with all its extents. */
static dt_tensor *spread(replay *r, const dt_trace_value *v)
{
    int64_t dims[DT_MAX_RANK];
    dt_tensor *x;
    for (int i = 0; i < v->rank; i++) dims[i] = dt_extent_at(v->extent[i], r->batch, r->length);
    TEST_OK(r->t->ctx, dt_tensor_create(r->t->ctx, v->dtype, v->rank, dims, &x));
    const size_t size = dt_dtype_size(v->dtype);
    for (int64_t k = 0; k < x->count; k++) {
        int64_t rest = k, at = 0;
        for (int i = v->rank - 1, step = 1; i >= 0; i--) {
            const int64_t n = v->tensor->dims[i];
            if (n == dims[i]) at += rest % dims[i] * step;
            rest /= dims[i];
            step *= (int)n;
        }
        memcpy((char *)dt_data_mut(x) + (size_t)k * size,
               (const char *)dt_data(v->tensor) + (size_t)at * size, size);
    }
    return on_tape(r, x);
}

static dt_tensor *positions(replay *r)
{
    dt_tensor *x;
    TEST_OK(r->t->ctx, dt_tensor_create(r->t->ctx, DT_I32, 1, &r->length, &x));
    for (int64_t i = 0; i < r->length; i++) ((int32_t *)dt_data_mut(x))[i] = (int32_t)i;
    return on_tape(r, x);
}

static dt_tensor *operand(replay *r, const dt_trace_operand *o)
{
    if (o->value < 0) return NULL;
    dt_tensor *x = r->value[o->value];
    if (o->quant == NULL || o->weight) return x;
    const dt__fq fq = { .quant = *o->quant,
                        .enabled = true,
                        .simulated = !o->coded,
                        .samples = o->sample,
                        .scale = o->scale,
                        .zero_point = o->zero_point };
    return dt__fake_quant_as(r->t, x, &fq);
}

/* The options of a call for this batch and length. */
static void *options_of(const replay *r, const dt_trace_call *c)
{
    if (c->options == NULL) return NULL;
    char *o = malloc(c->op->options_size);
    memcpy(o, c->options, c->op->options_size);
    for (const dt_key *k = c->op->keys; k != NULL && k->name != NULL; k++) {
        if (k->type != DT_KEY_INTS) continue;
        dt_ints *v = (dt_ints *)(void *)(o + k->offset);
        for (int i = 0; i < v->n; i++) {
            const size_t at = k->offset + offsetof(dt_ints, v) + (size_t)i * sizeof v->v[0];
            v->v[i] = dt_extent_at(dt_trace_option(c, at), r->batch, r->length);
        }
    }
    return o;
}

static void run_call(replay *r, const dt_trace_call *c)
{
    dt_tensor *in[DT_MAX_IN], *out[DT_MAX_OUT];
    void *options = options_of(r, c);
    for (int i = 0; i < c->n_in; i++) in[i] = operand(r, &c->in[i]);
    TEST_OK(r->t->ctx, dt_apply_n(r->t, c->op, in, c->n_in, options, out, c->n_out));
    free(options);
    for (int i = 0; i < c->n_out; i++) {
        if (c->out[i] < 0) continue;
        const dt_trace_value *v = dt_trace_value_at(r->trace, c->out[i]);
        ck_assert_int_eq(v->rank, out[i]->rank);
        for (int k = 0; k < v->rank; k++) {
            ck_assert_int_eq(dt_extent_at(v->extent[k], r->batch, r->length), out[i]->dims[k]);
        }
        r->value[c->out[i]] = out[i];
    }
}

/* The results of the trace on x. */
static void run_trace(replay *r, dt_tensor *x, dt_tensor **y)
{
    const int64_t n = dt_trace_values(r->trace), *in, *out;
    r->value = calloc((size_t)n, sizeof(dt_tensor *));
    dt_trace_inputs(r->trace, &in);
    for (int64_t i = 0; i < n; i++) {
        const dt_trace_value *v = dt_trace_value_at(r->trace, i);
        if (v->kind == DT_VALUE_PARAMETER) r->value[i] = v->tensor;
        else if (v->kind == DT_VALUE_CONSTANT) r->value[i] = spread(r, v);
        else if (v->kind == DT_VALUE_POSITIONS) r->value[i] = positions(r);
    }
    r->value[in[0]] = x;
    for (int64_t i = 0; i < dt_trace_calls(r->trace); i++) {
        run_call(r, dt_trace_call_at(r->trace, i));
    }
    dt_trace_outputs(r->trace, &out);
    *y = r->value[out[0]];
    free(r->value);
}

/* ---- random networks ------------------------------------------------------------------------- */

static const char *const families[] = { "mlp", "cnn", "resnet", "unet", "gpt", "llama" };

static random_net net_of(uint64_t seed)
{
    const int n = DT__COUNT_OF(families) + 3;
    if (seed % (uint64_t)n < DT__COUNT_OF(families)) {
        return random_net_of_family(seed, families[seed % (uint64_t)n]);
    }
    return random_net_of(seed);
}

static dt_status trace_of(dt_module *m, const random_net *d, const dt_tensor *x, bool shapes_only,
                          dt_trace **out)
{
    dt_trace_input in = { .dtype = x->dtype, .rank = x->rank, .below = d->vocab };
    if (d->vocab > 0) in.context = dt_module_type_of(m)->language->context(m);
    memcpy(in.dims, x->dims, sizeof in.dims);
    in.dims[0] = 1;
    in.tokens = d->vocab > 0;
    const dt_trace_options o = { .input = &in, .n_inputs = 1, .shapes_only = shapes_only };
    return dt_trace_create(m, &o, out);
}

/* Whether a weight is quantized that is computed from others, as with folded norms in a prepared
 * model. Its scales are made with the rows of its layer, which a trace does not hold. */
static bool derives_weights(const dt_trace *t)
{
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        const dt_trace_operand *w = &dt_trace_call_at(t, i)->in[1];
        if (dt_trace_call_at(t, i)->n_in < 2 || !w->weight || w->quant == NULL) continue;
        if (dt_trace_value_at(t, w->value)->kind != DT_VALUE_PARAMETER) return true;
    }
    return false;
}

static void compare(dt_ctx *ctx, dt_module *m, const random_net *d, dt_tensor *x)
{
    dt_trace *trace, *shapes;
    dt_tensor *y;
    TEST_OK(ctx, trace_of(m, d, x, false, &trace));
    TEST_OK(ctx, trace_of(m, d, x, true, &shapes));
    ck_assert_int_eq(dt_trace_calls(trace), dt_trace_calls(shapes));
    ck_assert_int_eq(dt_trace_values(trace), dt_trace_values(shapes));
    dt_trace_free(shapes);
    if (derives_weights(trace)) {
        ck_assert(dt_is_prepared(m));
        dt_trace_free(trace);
        return;
    }
    replay r = { .trace = trace, .batch = x->dims[0], .length = d->vocab > 0 ? x->dims[1] : 1 };
    TEST_OK(ctx, dt_tape_create(ctx, &r.t));
    dt_no_grad(r.t, true);
    run_trace(&r, x, &y);
    dt_tensor *wanted = dt_forward(r.t, m, x);
    TEST_OK(ctx, dt_tape_status(r.t));
    ck_assert_int_eq(y->count, wanted->count);
    ck_assert_msg(memcmp(dt_data(y), dt_data(wanted), (size_t)y->count * sizeof(float)) == 0,
                  "seed %llu: the trace of a %s computes something else",
                  (unsigned long long)d->seed, d->family != NULL ? d->family->name : "network");
    dt_tape_free(r.t);
    dt_trace_free(trace);
}

static uint64_t first_seed(void)
{
    const char *text = getenv("DETENT_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

START_TEST(a_trace_computes_what_the_model_does)
{
    const int64_t count = test_networks(draws);
    for (int64_t i = 0; i < count; i++) {
        dt_ctx *ctx;
        TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
        const random_net d = net_of(first_seed() + (uint64_t)i);
        dt_module *m = random_net_create(ctx, &d);
        dt_tensor *x = random_net_input(ctx, &d);
        compare(ctx, m, &d, x);
        TEST_OK(ctx, dt_prepare(m, &d.qat));
        random_net_observe(ctx, &d, m);
        compare(ctx, m, &d, x);
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
        compare(ctx, m, &d, x);
        dt_tensor_free(x);
        dt_module_free(m);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* ---- one example and many -------------------------------------------------------------------- */

/* The results on x, on a tape without gradients: malloc'ed. */
static float *results_on(dt_ctx *ctx, dt_module *m, dt_tensor *x, int64_t *count)
{
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_no_grad(t, true);
    dt_train(m, false);
    dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    *count = y->count;
    float *copy = malloc((size_t)y->count * sizeof *copy);
    memcpy(copy, dt_data(y), (size_t)y->count * sizeof *copy);
    dt_tape_free(t);
    return copy;
}

/* Compares each example alone with its place in the batch. */
static void compare_alone(dt_ctx *ctx, dt_module *m, const random_net *d, dt_tensor *x)
{
    int64_t all, one;
    float *together = results_on(ctx, m, x, &all);
    for (int64_t i = 0; i < x->dims[0]; i++) {
        dt_tensor *own;
        TEST_OK(ctx, dt_tensor_narrow(x, 0, i, 1, &own));
        float *alone = results_on(ctx, m, own, &one);
        ck_assert_int_eq(all, one * x->dims[0]);
        ck_assert_msg(memcmp(alone, together + i * one, (size_t)one * sizeof(float)) == 0,
                      "seed %llu: example %lld of a %s", (unsigned long long)d->seed, (long long)i,
                      d->family != NULL ? d->family->name : "network");
        free(alone);
        dt_tensor_free(own);
    }
    free(together);
}

/* Without gradients an example has the same results alone and in a batch, float or quantized;
 * except where a scale of the tensor depends on the batch. */
START_TEST(a_result_does_not_depend_on_the_batch)
{
    const int64_t count = test_networks((test_draws){ .usual = 60, .sanitized = 10 });
    for (int64_t i = 0; i < count; i++) {
        dt_ctx *ctx;
        TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
        random_net d = net_of(first_seed() + 1000 + (uint64_t)i);
        if (d.batch > 5) d.batch = 5;
        dt_module *m = random_net_create(ctx, &d);
        dt_tensor *x = random_net_input(ctx, &d);
        dt_qat_options qat = dt_qat_defaults();
        qat.preset = (int)(i % 3);
        compare_alone(ctx, m, &d, x);
        TEST_OK(ctx, dt_prepare(m, &qat));
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
        compare_alone(ctx, m, &d, x);
        dt_tensor_free(x);
        dt_module_free(m);
        dt_ctx_free(ctx);
    }
}
END_TEST

/* The results of the network of a seed, float and by preset int4-weight, with the kernels of a
 * mask. */
static float *results_with(uint64_t mask, uint64_t seed, bool quantized, int64_t *count)
{
    dt_ctx_options o = dt_ctx_defaults();
    dt_ctx *ctx;
    o.cpu_mask = mask;
    TEST_OK(NULL, dt_ctx_create(&ctx, &o));
    const random_net d = net_of(seed);
    dt_module *m = random_net_create(ctx, &d);
    dt_tensor *x = random_net_input(ctx, &d);
    dt_qat_options qat = dt_qat_defaults();
    qat.preset = DT_INT4_WEIGHT;
    if (quantized) TEST_OK(ctx, dt_prepare(m, &qat));
    if (quantized) TEST_OK(ctx, dt_convert(m, NULL, NULL));
    float *y = results_on(ctx, m, x, count);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
    return y;
}

/* Without gradients every instruction set gives the same bits, products of floats included. */
START_TEST(a_result_does_not_depend_on_the_processor)
{
    const int64_t networks = test_networks((test_draws){ .usual = 30, .sanitized = 6 });
    for (int64_t i = 0; i < 2 * networks; i++) {
        const uint64_t seed = first_seed() + 2000 + (uint64_t)(i / 2);
        int64_t count, n;
        float *plain = results_with(DT_CPU_PLAIN, seed, i % 2 == 1, &count);
        for (uint64_t mask = 1; mask < 8; mask = 2 * mask + 1) {
            float *y = results_with(mask, seed, i % 2 == 1, &n);
            ck_assert_int_eq(n, count);
            ck_assert_msg(memcmp(y, plain, (size_t)n * sizeof(float)) == 0, "seed %llu, mask %llu",
                          (unsigned long long)seed, (unsigned long long)mask);
            free(y);
        }
        free(plain);
    }
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

static bool overlap(const dt_plan_block *a, const dt_plan_block *b)
{
    const bool meet = a->first <= b->last && b->first <= a->last;
    return meet && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

START_TEST(blocks_in_use_together_do_not_overlap)
{
    dt_plan_block block[40];
    dt_ctx *ctx;
    size_t bytes;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    dt__stream s = dt__stream_of(7, DT__FOR_USER);
    for (int round = 0; round < 200; round++) {
        const int64_t n = 1 + (int64_t)dt__random_below(&s, 40);
        size_t most = 0;
        for (int64_t i = 0; i < n; i++) {
            block[i] = (dt_plan_block){ .bytes = (size_t)dt__random_below(&s, 1000),
                                        .first = (int64_t)dt__random_below(&s, 20) };
            block[i].last = block[i].first + (int64_t)dt__random_below(&s, 6);
        }
        TEST_OK(ctx, dt_plan_blocks(ctx, block, n, 16, &bytes));
        for (int64_t i = 0; i < n; i++) {
            ck_assert_uint_eq(block[i].offset % 16, 0);
            if (block[i].offset + block[i].bytes > most) most = block[i].offset + block[i].bytes;
            for (int64_t k = 0; k < i; k++) ck_assert(!overlap(&block[i], &block[k]));
        }
        ck_assert_uint_eq(bytes, most);
    }
    ck_assert_int_eq(dt_plan_blocks(ctx, block, 3, 12, &bytes), DT_ERR_ARG);
    TEST_FAILS(ctx, DT_ERR_ARG, "-1 blocks", dt_plan_blocks(ctx, block, -1, 8, &bytes));
    for (int i = 0; i < 2; i++) { /* rounded up, and the sum */
        block[0].bytes = SIZE_MAX - (size_t)i * 100;
        TEST_FAILS(ctx, DT_ERR_ARG, "more bytes than", dt_plan_blocks(ctx, block, 3, 8, &bytes));
    }
    dt_ctx_free(ctx);
}
END_TEST

/* ---- what no trace can hold ------------------------------------------------------------------ */

static void mix_examples(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                         int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_slice(
        t, in[0],
        &(dt_slice_options){ .dims = { 1, { 0 } }, .starts = { 1, { 0 } }, .stops = { 1, { 1 } } });
    if (in[0]->dims[0] > 1) out[0] = dt_relu(t, out[0]);
}

static void draw(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                 int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_dropout(t, in[0], 0.5);
}

static void write_input(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                        int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    out[0] = dt_zero_(t, in[0]);
}

#define FORWARD(name)                                                                              \
    static void name(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,    \
                     int n_out)
#define UNUSED ((void)m, (void)n_in, (void)n_out)

/* Examples are joined although every extent is a multiple of the batch. */
FORWARD(softmax_of_batch)
{
    UNUSED;
    out[0] = dt_softmax(t, in[0], -2);
}

FORWARD(less_the_mean)
{
    const dt_reduce_options o = { .dims = { 1, { 0 } }, .keepdim = true };
    UNUSED;
    out[0] = dt_sub(t, in[0], dt_mean(t, in[0], &o));
}

FORWARD(less_the_first)
{
    const dt_slice_options o = { .dims = { 1, { 0 } },
                                 .starts = { 1, { 0 } },
                                 .stops = { 1, { 1 } } };
    UNUSED;
    out[0] = dt_sub(t, in[0], dt_slice(t, in[0], &o));
}

FORWARD(products_of_batch)
{
    UNUSED;
    out[0] = dt_matmul(t, dt_transpose(t, in[0], 0, 1), in[0]);
}

static const struct {
    dt_module_type type;
    const char *says;
} refused[] = {
    { { .name = "mixes", .forward = mix_examples },
      "which ops the model runs depends on the batch" },
    { { .name = "draws", .forward = draw }, "draws random numbers" },
    { { .name = "softmax", .forward = softmax_of_batch }, "a result of one example depends on" },
    { { .name = "mean", .forward = less_the_mean },
      "a result of one example depends on the batch" },
    { { .name = "first", .forward = less_the_first }, "a result of one example depends on" },
    { { .name = "products", .forward = products_of_batch },
      "output 0 must have one dimension that grows" },
    { { .name = "writes", .forward = write_input }, "writes a tensor" },
};

START_TEST(what_no_trace_holds_is_refused)
{
    const dt_trace_input in = { .dtype = DT_F32, .rank = 2, .dims = { 1, 6 } };
    const dt_trace_options o = { .input = &in, .n_inputs = 1 };
    dt_module *m;
    dt_trace *t;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_module_create(ctx, &refused[_i].type, 0, &m));
    ck_assert_int_eq(dt_trace_create(m, &o, &t), DT_ERR_UNSUPPORTED);
    ck_assert_ptr_null(t);
    ck_assert_msg(strstr(dt_error(ctx), refused[_i].says) != NULL, "%s", dt_error(ctx));
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* A convolution without filters: its weight is module state, a constant of the trace. */
static void convolve(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                     int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_conv2d(t, in[0], dt_param(m, "weight"), NULL, NULL);
}

START_TEST(no_filters_cost_nothing)
{
    static const dt_module_type type = { .name = "empty", .forward = convolve };
    const dt_trace_input in = { .dtype = DT_F32, .rank = 4, .dims = { 1, 2, 4, 4 } };
    const dt_trace_options o = { .input = &in, .n_inputs = 1 };
    dt_module *m;
    dt_tensor *w;
    dt_trace *t;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_module_create(ctx, &type, 0, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 4, (const int64_t[]){ 0, 2, 3, 3 }, &w));
    TEST_OK(ctx, dt_module_add_param(m, "weight", w));
    TEST_OK(ctx, dt_trace_create(m, &o, &t));
    ck_assert_int_ge((int)dt_trace_calls(t), 1);
    for (int64_t i = 0; i < dt_trace_calls(t); i++) {
        ck_assert_int_eq((int)dt_trace_multiply_adds(t, dt_trace_call_at(t, i), 1, 1), 0);
    }
    dt_trace_free(t);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

static dt_status trace_once(dt_ctx *ctx, void *user)
{
    const random_net *d = user;
    dt_trace *trace = NULL;
    dt_trace_plan plan = { .bytes = 0 };
    dt_module *m = NULL;
    dt_tensor *x = NULL;
    dt_status s = d->family->create(ctx, &d->options, &m);
    if (s == DT_OK) s = dt_tensor_create(ctx, DT_I32, 2, (const int64_t[]){ 1, 2 }, &x);
    if (s == DT_OK) s = trace_of(m, d, x, false, &trace);
    if (s == DT_OK) s = dt_trace_plan_create(trace, 1, 3, 8, &plan);
    dt_trace_plan_free(ctx, &plan);
    dt_trace_free(trace);
    dt_tensor_free(x);
    dt_module_free(m);
    return s;
}

START_TEST(every_allocation_may_fail)
{
    random_net d = random_net_of_family(3, "gpt");
    test_every_allocation(trace_once, &d);
}
END_TEST

Suite *test_trace_suite(void)
{
    Suite *s = suite_create("trace");
    TCase *c = tcase_create("traces");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, a_trace_computes_what_the_model_does);
    tcase_add_test(c, a_result_does_not_depend_on_the_batch);
    tcase_add_test(c, a_result_does_not_depend_on_the_processor);
    tcase_add_test(c, blocks_in_use_together_do_not_overlap);
    tcase_add_loop_test(c, what_no_trace_holds_is_refused, 0, DT__COUNT_OF(refused));
    tcase_add_test(c, no_filters_cost_nothing);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(s, c);
    return s;
}
