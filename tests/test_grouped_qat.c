/* Experts of grouped weights under QAT: their codes and dequantized values are those of the whole
 * weight's rows, packed or not; gradients through the straight-through masks and into learned
 * scales; ranges initialized together; stale codes; experts after convert; a layer that computes
 * with experts, with the optimizer, recompute, files and module state. */
#include "schemes.h"
#include "testing.h"

#include "autograd/codes.h"
#include "qat/quantized.h"
#include "qat/quantizer.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/ops.h>
#include <detent/optim.h>
#include <detent/experimental/qat.h>

#include <math.h>
#include <stdlib.h>

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_tape_create(ctx, &t), DT_OK);
}

static void teardown(void)
{
    dt_tape_free(t);
    dt_ctx_free(ctx);
}

static dt_tensor *random_tensor(int rank, const int64_t *dims)
{
    dt_tensor *x;
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, rank, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

static dt_tensor *experts(int64_t count, int64_t rows, int64_t columns)
{
    dt_tensor *w = random_tensor(3, (const int64_t[]){ count, rows, columns });
    TEST_OK(ctx, dt_set_grouped(w));
    TEST_OK(ctx, dt_set_requires_grad(w, true));
    return w;
}

static dt_tensor *expert(dt_tensor *w, int64_t i)
{
    dt_tensor *m = dt_grouped_expert(w, i);
    ck_assert_msg(m != NULL, "%s", dt_error(ctx));
    return m;
}

static dt_tensor *image_of(dt_tensor *w)
{
    dt_tensor *image;
    TEST_OK(ctx, dt_dequantize(w, &image));
    return image;
}

static void check_text(const dt_tensor *x, const char *wanted)
{
    char text[256];
    dt_describe(x, text, sizeof text);
    ck_assert_str_eq(text, wanted);
}

/* The dequantized value of each expert is a slice of the whole weight's. */
static void check_images(dt_tensor *w)
{
    dt_tensor *all = image_of(w);
    const int64_t count = dt_grouped_count(w), n = dt_count(w) / count;
    for (int64_t i = 0; i < count; i++) {
        dt_tensor *m = expert(w, i), *image = image_of(m);
        const float *wanted = (const float *)dt_data(all) + i * n;
        TEST_EACH(memcmp(dt_data(image), wanted, (size_t)n * sizeof(float)) == 0, "expert %lld",
                  (long long)i);
        dt_tensor_free(image);
        dt_tensor_free(m);
    }
    dt_tensor_free(all);
}

/* ---- codes ----------------------------------------------------------------------------------- */

static dt_quant_spec random_quant(int seed)
{
    static const int cuts[] = { DT_PER_GROUP, DT_PER_CHANNEL, DT_PER_TENSOR };
    dt_quant_spec q = dt_weight_quant_defaults();
    q.scheme = weight_scheme(seed);
    q.granularity = cuts[seed / 3 % 3];
    q.bits = 2 + seed % 7;
    if (dt__scheme_of(q.scheme)->bits != 0) q.bits = dt__scheme_of(q.scheme)->bits;
    q.group_size = 8 << seed % 3;
    q.scale_dtype = seed % 2;
    q.ste = seed % 4 == 3 ? DT_STE_CLIPPED : DT_STE_DEFAULT;
    return q;
}

static dt_tensor *wrapped(int seed, const dt_quant_spec *q)
{
    dt_tensor *w = experts(1 + seed % 4, 1 + seed * 13 % 70, 1 + seed * 29 % 90);
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = *q }));
    return w;
}

static dt__codes *codes_of(dt_tensor *w)
{
    dt__codes *codes;
    TEST_OK(ctx, dt__fq_codes(w, &codes));
    return codes;
}

START_TEST(codes_of_one_expert_have_the_same_bits)
{
    const dt_quant_spec q = random_quant(_i);
    dt_tensor *w = wrapped(_i, &q);
    dt__codes *all = codes_of(w);
    ck_assert_ptr_nonnull(all->panels);
    const size_t bytes = (size_t)all->layout.expert_panels * all->layout.panel_bytes;
    int64_t clipped = 0;
    for (int64_t i = 0; i < dt_grouped_count(w); i++) {
        dt_tensor *m = expert(w, i);
        dt__codes *alone = codes_of(m);
        const char *wanted = (const char *)all->panels + (size_t)i * bytes;
        TEST_EACH(alone->layout.bytes == bytes && memcmp(alone->panels, wanted, bytes) == 0,
                  "the panels of expert %lld", (long long)i);
        clipped += alone->clipped;
        dt__codes_release(alone);
        dt_tensor_free(m);
    }
    ck_assert_int_eq(clipped, all->clipped);
    dt__codes_release(all);
    check_images(w);
    dt_tensor_free(w);
}
END_TEST

/* An expert's packed codes are in the memory of the whole weight's, and outlive the parameter. */
static void pack(dt_tensor *w, const dt_quant_spec *q)
{
    dt__packed *packed = dt__alloc_zero(ctx, sizeof *packed);
    ck_assert_ptr_nonnull(packed);
    packed->quant = *q;
    packed->codes = codes_of(w);
    dt__packed_take(w, packed);
}

START_TEST(packed_experts_hold_the_same_codes)
{
    const dt_quant_spec q = random_quant(_i);
    dt_tensor *w = wrapped(_i, &q), *before = image_of(w);
    pack(w, &q);
    check_images(w);
    const int64_t last = dt_grouped_count(w) - 1, n = dt_count(w) / (last + 1);
    const size_t used = dt_memory_of(ctx).used;
    dt_tensor *m = expert(w, last), *x = random_tensor(2, (const int64_t[]){ 3, dt_dim(w, 2) });
    ck_assert(dt_is_packed(m) && !dt_requires_grad(m));
    ck_assert_uint_lt(dt_memory_of(ctx).used, used + 4096);
    ck_assert_ptr_null(dt_grad(m));
    dt_tensor_free(w);
    dt_tensor *image = image_of(m);
    ck_assert_mem_eq(dt_data(image), (const float *)dt_data(before) + last * n,
                     (size_t)n * sizeof(float));
    TEST_EACH(dt_linear(t, x, m, NULL) != NULL, "%s", dt_error(ctx));
    dt_tensor_free(image);
    dt_tensor_free(x);
    dt_tensor_free(m);
    dt_tensor_free(before);
}
END_TEST

/* An integer product with each expert, before and after packing. */
START_TEST(products_with_experts_agree)
{
    dt_quant_spec q = dt_weight_quant_defaults();
    q.bits = 4 + 4 * (_i % 2);
    dt_tensor *w = experts(3, 40 - _i, 64);
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = q }));
    dt_tensor *x = random_tensor(2, (const int64_t[]){ 1 + 9 * _i, 64 });
    dt_no_grad(t, true);
    dt_tensor *xq = dt_fake_quant(t, x, NULL, true), *y[3];
    const size_t bytes = (size_t)((1 + 9 * _i) * (40 - _i)) * sizeof(float);
    for (int i = 0; i < 3; i++) {
        dt_tensor *m = expert(w, i);
        y[i] = dt_linear(t, xq, m, NULL);
        ck_assert_msg(y[i] != NULL, "%s", dt_error(ctx));
        dt_tensor_free(m);
    }
    pack(w, &q);
    for (int i = 0; i < 3; i++) {
        dt_tensor *m = expert(w, i);
        ck_assert_mem_eq(dt_data(dt_linear(t, xq, m, NULL)), dt_data(y[i]), bytes);
        dt_tensor_free(m);
    }
    dt_tensor_free(x);
    dt_tensor_free(w);
}
END_TEST

START_TEST(wrapped_experts_print_and_name_their_master)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = experts(8, 6, 64);
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = q }));
    dt_tensor *m = expert(w, 5), *alias, *inner = dt_inner(m);
    check_text(m, "fake_quant(int4 symmetric group 32, enabled) f32[6,64]");
    ck_assert(!dt_is_grouped(m) && !dt_is_grouped(inner));
    check_text(inner, "f32[6,64]");
    ck_assert_ptr_eq(dt_inner(inner), inner);
    ck_assert_ptr_eq(dt_data(inner), (const float *)dt_data(dt_inner(w)) + 5 * 6 * 64);
    ck_assert_ptr_null(dt_data(m)); /* a wrapper has none of its own */
    TEST_OK(ctx, dt_alias(m, &alias));
    check_text(alias, "fake_quant(int4 symmetric group 32, enabled) f32[6,64]");
    check_text(dt_detach(t, alias), "fake_quant(int4 symmetric group 32, enabled) f32[6,64]");
    TEST_OK(ctx, dt_fake_quant_enable(m, false));
    check_text(m, "fake_quant(int4 symmetric group 32, disabled) f32[6,64]");
    check_text(w, "fake_quant(int4 symmetric group 32, enabled) grouped(8 x [6,64]) f32");
    pack(w, &q);
    check_text(w, "packed(int4 symmetric group 32) grouped(8 x [6,64])");
    dt_tensor *packed = expert(w, 5);
    check_text(packed, "packed(int4 symmetric group 32) [6,64]");
    dt_tensor_free(packed);
    dt_tensor_free(alias);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* Wrappers of experts of aliases of wrappers: each is one step from dense. */
START_TEST(handles_upon_handles_compute)
{
    dt_tensor *w = experts(3, 5, 32), *x = random_tensor(2, (const int64_t[]){ 4, 32 });
    const dt_quant_spec q = dt_weight_quant_defaults();
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = q }));
    dt_tensor *alias, *again, *m = expert(w, 1);
    TEST_OK(ctx, dt_alias(w, &alias));
    dt_tensor *of_alias = expert(alias, 1);
    TEST_OK(ctx, dt_alias(of_alias, &again));
    dt_tensor *of_detached = expert(dt_detach(t, w), 1);
    dt_tensor *of_master = expert(dt_inner(w), 1), *dense = dt_detach(t, of_master);
    const size_t bytes = 4 * 5 * sizeof(float);
    const void *wanted = dt_data(dt_linear(t, x, m, NULL));
    dt_tensor *const same[] = { of_alias, again, of_detached, dt_detach(t, again),
                                dt_fake_quant(t, dense, &q, true) };
    for (int i = 0; i < 5; i++) {
        dt_tensor *y = dt_linear(t, x, same[i], NULL);
        ck_assert_msg(y != NULL, "%d: %s", i, dt_error(ctx));
        ck_assert_mem_eq(dt_data(y), wanted, bytes);
    }
    dt_tensor_free(of_master);
    dt_tensor_free(of_detached);
    dt_tensor_free(again);
    dt_tensor_free(of_alias);
    dt_tensor_free(alias);
    dt_tensor_free(m);
    dt_tensor_free(x);
    dt_tensor_free(w);
}
END_TEST

/* ---- gradients ------------------------------------------------------------------------------- */

/* The gradient of tanh of the dequantized value, through experts and through the whole weight. */
START_TEST(gradients_pass_the_masks)
{
    const dt_quant_spec q = random_quant(_i);
    dt_tensor *w = wrapped(_i, &q), *whole;
    TEST_OK(ctx, dt_fake_quant_enable(w, _i % 5 != 4));
    TEST_OK(ctx, dt_alias(w, &whole));
    for (int64_t i = 0; i < dt_grouped_count(w); i++) {
        dt_tensor *m = expert(w, i);
        TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_tanh(t, m), NULL), NULL));
        ck_assert_ptr_null(dt_grad(dt_inner(m)));
        dt_tensor_free(m);
        dt_tape_reset(t);
    }
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_tanh(t, whole), NULL), NULL));
    ck_assert_ptr_null(dt_grad(dt_inner(w)));
    ck_assert_mem_eq(dt_data(dt_grad(w)), dt_data(dt_grad(whole)),
                     (size_t)dt_count(w) * sizeof(float));
    dt_tensor_free(whole);
    dt_tensor_free(w);
}
END_TEST

START_TEST(an_alias_of_an_expert_has_its_own_slot)
{
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = experts(2, 3, 32), *alias;
    TEST_OK(ctx, dt__fq_wrap(w, &(dt__fq){ .quant = q }));
    dt_tensor *m = expert(w, 1);
    TEST_OK(ctx, dt_alias(m, &alias));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, alias, NULL), NULL));
    ck_assert_ptr_null(dt_grad(w));
    ck_assert_int_eq(dt_count(dt_grad(alias)), 96);
    dt_tensor_free(alias);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* Wrapped during a pass, as activations and derived weights are: the gradient flows on to the
 * expert. */
START_TEST(experts_are_wrapped_on_a_tape)
{
    dt_quant_spec q = dt_weight_quant_defaults();
    dt_tensor *w = experts(3, 4, 32), *m = expert(w, 1), *scale;
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_fake_quant(t, m, &q, true), NULL), NULL));
    const float *g = dt_data(dt_grad(w));
    for (int i = 0; i < 3 * 4 * 32; i++) TEST_EACH(g[i] == (i / 128 == 1), "element %d", i);
    dt_tape_reset(t);
    dt_grad_clear(w);
    q.granularity = DT_PER_CHANNEL;
    q.range = DT_RANGE_LEARNED;
    TEST_OK(ctx, dt_learned_scale(m, &q, &scale));
    dt_tensor *y = dt_fake_quant_learned(t, m, &q, scale);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_tanh(t, y), NULL), NULL));
    ck_assert_int_eq(dt_count(dt_grad(scale)), 4);
    g = dt_data(dt_grad(w));
    int inside = 0;
    for (int i = 0; i < 3 * 4 * 32; i++) {
        TEST_EACH(i / 128 == 1 || g[i] == 0, "element %d", i);
        inside += g[i] != 0;
    }
    ck_assert_int_gt(inside, 64);
    dt_tensor_free(scale);
    dt_tensor_free(m);
    dt_tensor_free(w);
}
END_TEST

/* ---- a layer that computes with experts ------------------------------------------------------ */

#define COUNT 3
#define OUT 40
#define IN 64

/* y = the sum over e of x W_e^T / (e + 1) */
static void forward(dt_tape *tape, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    dt_tensor *w = dt_module_weight(tape, m), *y = NULL;
    for (int e = 0; e < COUNT && w != NULL; e++) {
        dt_tensor *one = dt_grouped_expert(w, e);
        dt_tensor *part = dt_linear(tape, in[0], one, NULL);
        for (int k = 0; k < e; k++) part = dt_add(tape, part, dt_linear(tape, in[0], one, NULL));
        y = y == NULL ? part : dt_add(tape, y, part);
        dt_tensor_free(one);
    }
    out[0] = y;
}

static const dt_module_type experts_type = {
    .name = "experts",
    .forward = forward,
    .quantizable = DT_QUANTIZED_BY_PRESET,
    .block = true,
};

static dt_module *layer(void)
{
    dt_module *m;
    TEST_OK(ctx, dt_module_create(ctx, &experts_type, 0, &m));
    TEST_OK(ctx, dt_module_add_param(m, "weight", experts(COUNT, OUT, IN)));
    return m;
}

static dt_module *prepared(int preset)
{
    dt_module *m = layer();
    dt_qat_options o = dt_qat_defaults();
    o.preset = preset;
    TEST_OK(ctx, dt_prepare(m, &o));
    return m;
}

static dt_tensor *run(dt_module *m, dt_tensor *x)
{
    dt_tensor *y = dt_forward(t, m, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    return y;
}

static void backward(dt_module *m, dt_tensor *x)
{
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_square(t, run(m, x)), NULL), NULL));
    dt_tape_reset(t);
}

/* The optimizer's step on the whole parameter changes each expert. */
static void step(dt_module *m, dt_tensor *x)
{
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_tensor *w = dt_param(m, "weight");
    const uint64_t before = dt_tensor_version(dt_inner(w));
    backward(m, x);
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    ck_assert_uint_eq(dt_tensor_version(dt_inner(w)), before + 1); /* once, on the flat storage */
    dt_optimizer_free(o);
}

START_TEST(no_allocation_from_the_second_step)
{
    dt_module *m = prepared(_i);
    dt_tensor *x = random_tensor(2, (const int64_t[]){ 5, IN });
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    uint64_t after = 0;
    for (int i = 0; i < 4; i++) {
        dt_zero_grad(m);
        backward(m, x);
        TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
        if (i == 0) after = dt_memory_of(ctx).allocations;
    }
    ck_assert_uint_eq(dt_memory_of(ctx).allocations, after);
    dt_optimizer_free(o);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

START_TEST(gradients_reach_the_parameter_by_the_module_path)
{
    dt_module *m = prepared(_i);
    dt_tensor *x = random_tensor(2, (const int64_t[]){ 5, IN }), *w = dt_param(m, "weight");
    ck_assert(dt_requires_grad(w));
    backward(m, x);
    ck_assert_msg(dt_grad(w) != NULL, "no gradient on the module path");
    const float *g = dt_data(dt_grad(w));
    for (int e = 0; e < COUNT; e++) {
        int zeros = 0;
        for (int i = 0; i < OUT * IN; i++) zeros += g[e * OUT * IN + i] == 0;
        TEST_EACH(zeros < OUT * IN / 2, "expert %d has %d zeros", e, zeros);
    }
    dt_zero_grad(m);
    ck_assert_ptr_null(dt_grad(w));
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

START_TEST(prepared_and_converted_agree)
{
    dt_module *m = prepared(_i);
    dt_tensor *x = random_tensor(2, (const int64_t[]){ 5, IN });
    step(m, x);
    dt_train(m, false);
    dt_no_grad(t, true);
    float before[5 * OUT];
    memcpy(before, dt_data(run(m, x)), sizeof before);
    check_images(dt_param(m, "weight"));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert(dt_is_packed(dt_param(m, "weight")));
    ck_assert_mem_eq(dt_data(run(m, x)), before, sizeof before);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* An expert's learned scales are a slice of the whole parameter's, and initialized with them. */
START_TEST(learned_scales_are_cut_as_experts_are)
{
    dt_module *m = prepared(DT_INT4_INT4);
    dt_tensor *w = dt_param(m, "weight"), *scale = dt_param(m, "weight.scale");
    ck_assert_int_eq(dt_count(scale), COUNT * OUT);
    dt_tensor *one = expert(w, 1);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_tanh(t, one), NULL), NULL));
    const float *s = dt_data(scale), *g = dt_data(dt_grad(scale));
    for (int r = 0; r < COUNT * OUT; r++) {
        TEST_EACH(s[r] != 1, "scale %d has not begun", r);
        TEST_EACH((g[r] != 0) == (r / OUT == 1), "the gradient of scale %d is %g", r, (double)g[r]);
    }
    dt_tape_reset(t);
    dt_tensor *whole;
    float mine[OUT];
    memcpy(mine, g + OUT, sizeof mine);
    dt_zero_grad(m);
    TEST_OK(ctx, dt_alias(w, &whole));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, dt_tanh(t, whole), NULL), NULL));
    ck_assert_mem_eq((const float *)dt_data(dt_grad(scale)) + OUT, mine, sizeof mine);
    dt_tensor_free(whole);
    dt_tensor_free(one);
    dt_module_free(m);
}
END_TEST

/* ---- writes ---------------------------------------------------------------------------------- */

START_TEST(writes_to_expert_or_whole_make_codes_stale)
{
    dt_module *m = prepared(_i);
    dt_tensor *w = dt_param(m, "weight"), *x = random_tensor(2, (const int64_t[]){ 5, IN });
    dt_tensor *one = expert(w, 1), *other = expert(w, 2);
    run(m, x); /* ranges begin */
    dt_tape_reset(t);
    check_images(w);
    dt_tensor *before = image_of(one), *untouched = image_of(other);
    ck_assert_ptr_nonnull(dt_mul_(t, one, NULL, -1)); /* the expert's master, and so that of w */
    dt_tensor *after = image_of(one), *still = image_of(other);
    const size_t bytes = (size_t)OUT * IN * sizeof(float);
    ck_assert(memcmp(dt_data(before), dt_data(after), bytes) != 0);
    ck_assert_mem_eq(dt_data(untouched), dt_data(still), bytes);
    check_images(w);
    dt_tensor_free(after);
    ck_assert_ptr_nonnull(dt_mul_(t, w, NULL, -1));
    after = image_of(one);
    ck_assert(memcmp(dt_data(untouched), dt_data(still), bytes) == 0);
    check_images(w);
    dt_tensor_free(after);
    dt_tensor_free(still);
    dt_tensor_free(untouched);
    dt_tensor_free(before);
    dt_tensor_free(one);
    dt_tensor_free(other);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* An optimizer's op works block by block and renews the codes of the handle that it writes. */
START_TEST(codes_renewed_by_an_optimizer)
{
    dt_module *m = prepared(_i);
    dt_tensor *w = dt_param(m, "weight"), *x = random_tensor(2, (const int64_t[]){ 5, IN });
    backward(m, x);
    dt_tensor *one = expert(w, 1), *again = expert(w, 1);
    const dt_sgd_step_options o = { .lr = 0.1, .step = 1 };
    dt_tensor *const p[] = { one, w, again, w };
    for (int i = 0; i < 4; i++) {
        dt_tensor_free(image_of(one)); /* codes that are renewed, or not */
        dt_tensor_free(image_of(w));
        ck_assert_ptr_nonnull(dt_sgd_step_(t, p[i], dt_grad(p[i]), NULL, &o));
        check_images(w);
        dt_tensor *a = image_of(one), *b = image_of(again);
        ck_assert_mem_eq(dt_data(a), dt_data(b), (size_t)OUT * IN * sizeof(float));
        dt_tensor_free(a);
        dt_tensor_free(b);
    }
    dt_tensor_free(one);
    dt_tensor_free(again);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* Reading dequantized values does not change masters: they have the bits of a float parameter that
 * had the same gradient. */
START_TEST(masters_are_never_rebuilt_from_dequantized_values)
{
    dt_module *m = prepared(DT_INT8_DYNAMIC_INT4_WEIGHT);
    dt_tensor *w = dt_param(m, "weight"), *x = random_tensor(2, (const int64_t[]){ 5, IN });
    const size_t bytes = (size_t)COUNT * OUT * IN * sizeof(float);
    void *before = malloc(bytes);
    memcpy(before, dt_data(dt_inner(w)), bytes);
    backward(m, x);
    check_images(w);
    dt_tensor *one = expert(w, 0);
    TEST_OK(ctx, dt_fake_quant_enable(one, false));
    ck_assert_ptr_nonnull(dt_tanh(t, one));
    dt_tensor_free(one);
    ck_assert_mem_eq(dt_data(dt_inner(w)), before, bytes);
    dt_tensor *p, *moment[2], *grad = dt_grad(w);
    const int64_t dims[] = { COUNT, OUT, IN };
    TEST_OK(ctx, dt_tensor_from(ctx, DT_F32, 3, dims, before, &p));
    dt_optimizer *o;
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    const dt_optimizer_options d = dt_optimizer_defaults();
    const dt_adam_step_options a = { .lr = 0.01,
                                     .beta1 = d.beta1,
                                     .beta2 = d.beta2,
                                     .eps = d.eps,
                                     .weight_decay = d.weight_decay,
                                     .step = 1 };
    for (int i = 0; i < 2; i++) TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, dims, &moment[i]));
    ck_assert_msg(dt_adamw_step_(t, p, grad, moment[0], moment[1], &a) != NULL, "%s",
                  dt_error(ctx));
    ck_assert_mem_eq(dt_data(dt_inner(w)), dt_data(p), bytes);
    check_images(w);
    for (int i = 0; i < 2; i++) dt_tensor_free(moment[i]);
    dt_optimizer_free(o);
    dt_tensor_free(p);
    dt_tensor_free(x);
    dt_module_free(m);
    free(before);
}
END_TEST

/* ---- before and after ------------------------------------------------------------------------ */

START_TEST(experts_from_before_prepare_see_the_master)
{
    dt_module *m = layer();
    dt_tensor *w = dt_param(m, "weight"), *early = expert(w, 2);
    TEST_OK(ctx, dt_prepare(m, NULL));
    check_text(early, "f32[40,64]");
    ck_assert_ptr_eq(dt_data(early), (const float *)dt_data(dt_inner(w)) + 2 * OUT * IN);
    TEST_OK(ctx, dt_backward(t, dt_sum(t, early, NULL), NULL));
    ck_assert_float_eq(((const float *)dt_data(dt_grad(w)))[2 * OUT * IN], 1);
    dt_tensor *late = expert(w, 2);
    ck_assert(dt_is_fake_quant(late) && dt_requires_grad(late));
    dt_tensor_free(late);
    dt_tensor_free(early);
    dt_module_free(m);
}
END_TEST

START_TEST(experts_from_before_convert_take_no_gradient)
{
    dt_module *m = prepared(DT_INT8_DYNAMIC_INT4_WEIGHT);
    dt_tensor *w = dt_param(m, "weight"), *early = expert(w, 2), *image = image_of(early);
    dt_tensor *y = dt_sum(t, dt_tanh(t, early), NULL);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert(!dt_requires_grad(early)); /* as w */
    ck_assert_int_eq(dt_backward(t, y, NULL), DT_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "was converted after"));
    dt_tensor *still = image_of(early);
    ck_assert_mem_eq(dt_data(image), dt_data(still), (size_t)OUT * IN * sizeof(float));
    dt_tensor_free(still);
    dt_tensor_free(image);
    dt_tensor_free(early);
    dt_module_free(m);
}
END_TEST

START_TEST(experts_keep_the_gradient_after_switching)
{
    dt_module *m = prepared(DT_INT8_DYNAMIC_INT4_WEIGHT);
    dt_tensor *w = dt_param(m, "weight");
    TEST_OK(ctx, dt_set_requires_grad(w, false));
    dt_tensor *one = expert(w, 0);
    ck_assert(!dt_requires_grad(one));
    TEST_OK(ctx, dt_set_requires_grad(w, true));
    TEST_OK(ctx, dt_fake_quant_enable(w, false));
    TEST_OK(ctx, dt_backward(t, dt_sum(t, one, NULL), NULL));
    ck_assert_ptr_nonnull(dt_grad(one));
    dt_tensor_free(one);
    dt_module_free(m);
}
END_TEST

/* A checkpointed block uses experts twice; its gradients have the bits of a single run. */
START_TEST(recompute_runs_experts_twice)
{
    dt_module *m = prepared(_i);
    dt_tensor *w = dt_param(m, "weight"), *x = random_tensor(2, (const int64_t[]){ 5, IN });
    TEST_OK(ctx, dt_set_requires_grad(x, true));
    backward(m, x);
    const size_t bytes = (size_t)COUNT * OUT * IN * sizeof(float);
    float *wanted = malloc(bytes), dx[5 * IN];
    dt_zero_grad(m);
    dt_grad_clear(x);
    backward(m, x);
    memcpy(wanted, dt_data(dt_grad(w)), bytes);
    memcpy(dx, dt_data(dt_grad(x)), sizeof dx);
    dt_zero_grad(m);
    dt_grad_clear(x);
    ck_assert_int_eq(dt_recompute(m, true), 1);
    backward(m, x);
    ck_assert_mem_eq(dt_data(dt_grad(w)), wanted, bytes);
    ck_assert_mem_eq(dt_data(dt_grad(x)), dx, sizeof dx);
    free(wanted);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* An expert as the input of a checkpointed block: its gradient is stored as without checkpointing,
 * and adds up. */
START_TEST(an_expert_as_the_input_of_a_block)
{
    dt_module *m = layer();
    dt_tensor *w = experts(2, 3, IN), *x = expert(w, 1);
    float wanted[2 * 3 * IN];
    backward(m, x);
    backward(m, x);
    memcpy(wanted, dt_data(dt_grad(w)), sizeof wanted);
    dt_grad_clear(w);
    dt_recompute(m, true);
    backward(m, x);
    backward(m, x);
    ck_assert_mem_eq(dt_data(dt_grad(w)), wanted, sizeof wanted);
    ck_assert_mem_eq(dt_data(dt_grad(x)), wanted + 3 * IN, sizeof wanted / 2);
    dt_tensor_free(x);
    dt_tensor_free(w);
    dt_module_free(m);
}
END_TEST

/* A state is loaded by name, with tensors in any order; experts read the loaded values. */
START_TEST(a_state_is_restored_by_name)
{
    dt_module *net, *fresh;
    TEST_OK(ctx, dt_sequential_create(ctx, &net));
    TEST_OK(ctx, dt_module_add(net, "0", prepared(DT_INT4_INT4)));
    TEST_OK(ctx, dt_module_add(net, "1", layer()));
    TEST_OK(ctx, dt_sequential_create(ctx, &fresh));
    TEST_OK(ctx, dt_module_add(fresh, "0", prepared(DT_INT4_INT4)));
    TEST_OK(ctx, dt_module_add(fresh, "1", layer()));
    dt_tensor *x = random_tensor(2, (const int64_t[]){ 5, IN });
    run(dt_module_at(net, "0"), x); /* ranges begin */
    dt_tape_reset(t);
    dt_tensor *one = expert(dt_param(fresh, "0.weight"), 1), *before = image_of(one);
    TEST_OK(ctx, dt_module_copy_state(fresh, net));
    dt_tensor *after = image_of(one), *from = expert(dt_param(net, "0.weight"), 1);
    dt_tensor *wanted = image_of(from);
    const size_t bytes = (size_t)OUT * IN * sizeof(float);
    ck_assert(memcmp(dt_data(before), dt_data(after), bytes) != 0);
    ck_assert_mem_eq(dt_data(after), dt_data(wanted), bytes);
    dt_tensor *a = dt_inner(dt_param(net, "1.weight")), *b = dt_inner(dt_param(fresh, "1.weight"));
    const dt_named swapped[] = { { "1.weight", b }, { "0.weight", a } };
    ck_assert_int_eq(dt_module_load(net, swapped, 2), DT_ERR_ARG); /* the message names missing
                                                                    * tensors */
    ck_assert_ptr_nonnull(strstr(dt_error(ctx), "missing"));
    ck_assert_mem_eq(dt_data(a), dt_data(b), COUNT * bytes);
    check_images(dt_param(fresh, "0.weight"));
    dt_tensor_free(wanted);
    dt_tensor_free(from);
    dt_tensor_free(after);
    dt_tensor_free(before);
    dt_tensor_free(one);
    dt_tensor_free(x);
    dt_module_free(net);
    dt_module_free(fresh);
}
END_TEST

static dt_status every_allocation(dt_ctx *c, void *user)
{
    (void)user;
    dt_tape *tape = NULL;
    dt_tensor *w = NULL, *m = NULL, *packed = NULL, *image = NULL;
    const dt_quant_spec q = dt_weight_quant_defaults();
    dt_status s = dt_tape_create(c, &tape);
    if (s == DT_OK) s = dt_tensor_create(c, DT_F32, 3, (const int64_t[]){ 2, 3, 32 }, &w);
    if (s == DT_OK) s = dt_set_grouped(w);
    if (s == DT_OK) s = dt_set_requires_grad(w, true);
    if (s == DT_OK) s = dt__fq_wrap(w, &(dt__fq){ .quant = q });
    if (s == DT_OK && (m = dt_grouped_expert(w, 1)) == NULL) s = dt_error_status(c);
    if (s == DT_OK) s = dt_backward(tape, dt_sum(tape, dt_square(tape, m), NULL), NULL);
    dt__packed *p = s == DT_OK ? dt__alloc_zero(c, sizeof *p) : NULL;
    if (s == DT_OK && p == NULL) s = DT_ERR_NOMEM;
    if (s == DT_OK) s = dt__fq_codes(w, &p->codes);
    if (s == DT_OK) {
        p->quant = q;
        dt__packed_take(w, p);
        packed = dt_grouped_expert(w, 0);
        s = packed == NULL ? dt_error_status(c) : dt_dequantize(packed, &image);
    } else {
        dt__release(c, p);
    }
    dt_tensor_free(image);
    dt_tensor_free(packed);
    dt_tensor_free(m);
    dt_tensor_free(w);
    dt_tape_free(tape);
    return s;
}

START_TEST(no_allocation_may_fail_badly) { test_every_allocation(every_allocation, NULL); }
END_TEST

Suite *test_grouped_qat_suite(void)
{
    Suite *s = suite_create("grouped_qat");
    TCase *codes = tcase_create("codes");
    tcase_add_checked_fixture(codes, setup, teardown);
    tcase_add_loop_test(codes, codes_of_one_expert_have_the_same_bits, 0, 36);
    tcase_add_loop_test(codes, packed_experts_hold_the_same_codes, 0, 36);
    tcase_add_loop_test(codes, products_with_experts_agree, 0, 6);
    tcase_add_test(codes, wrapped_experts_print_and_name_their_master);
    tcase_add_test(codes, handles_upon_handles_compute);
    tcase_add_test(codes, no_allocation_may_fail_badly);
    suite_add_tcase(s, codes);
    TCase *gradients = tcase_create("gradients");
    tcase_add_checked_fixture(gradients, setup, teardown);
    tcase_add_loop_test(gradients, gradients_pass_the_masks, 0, 24);
    tcase_add_test(gradients, an_alias_of_an_expert_has_its_own_slot);
    tcase_add_test(gradients, experts_are_wrapped_on_a_tape);
    suite_add_tcase(s, gradients);
    TCase *modules = tcase_create("modules");
    tcase_add_checked_fixture(modules, setup, teardown);
    tcase_add_loop_test(modules, gradients_reach_the_parameter_by_the_module_path, 0, 5);
    tcase_add_loop_test(modules, no_allocation_from_the_second_step, 0, 5);
    tcase_add_loop_test(modules, prepared_and_converted_agree, 0, 5);
    tcase_add_test(modules, learned_scales_are_cut_as_experts_are);
    tcase_add_loop_test(modules, writes_to_expert_or_whole_make_codes_stale, 0, 5);
    tcase_add_loop_test(modules, codes_renewed_by_an_optimizer, 0, 5);
    tcase_add_test(modules, masters_are_never_rebuilt_from_dequantized_values);
    tcase_add_test(modules, experts_from_before_prepare_see_the_master);
    tcase_add_test(modules, experts_from_before_convert_take_no_gradient);
    tcase_add_test(modules, experts_keep_the_gradient_after_switching);
    tcase_add_loop_test(modules, recompute_runs_experts_twice, 0, 5);
    tcase_add_test(modules, an_expert_as_the_input_of_a_block);
    tcase_add_test(modules, a_state_is_restored_by_name);
    suite_add_tcase(s, modules);
    return s;
}
