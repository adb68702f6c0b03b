/* examples/qat_in_one_file.c computes what the library computes: both are trained on the same data
 * in the same order, of random sizes, and every weight, momentum, code, scale, loss and output has
 * the same bits, in float, after prepare, after QAT, and packed. */
#include "testing.h"

#include <detent/experimental/io.h>
#include <detent/ops.h>
#include <detent/optim.h>
#include <detent/qat.h>

int dt_one_file_main(int argc, char **argv);
#define main dt_one_file_main
#include "../examples/qat_in_one_file.c"
#undef main

typedef struct library {
    dt_ctx *ctx;
    dt_tape *t;
    dt_module *m;
    dt_optimizer *optimizer;
} library;

static const char *const names[LAYERS] = { "first", "second" };

static dt_tensor *param(const library *l, int i, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "%s.%s", names[i], name);
    dt_tensor *x = dt_param(l->m, path);
    ck_assert_ptr_nonnull(x);
    return x;
}

static void add(const library *l, const char *name, dt_status made, dt_module *const *part)
{
    ck_assert_int_eq(made, DT_OK);
    ck_assert_int_eq(dt_module_add(l->m, name, *part), DT_OK);
}

/* The module with the parameters of the file's network. */
static void make_library(library *l, const settings *s, const network *net)
{
    dt_module *part = NULL;
    ck_assert_int_eq(dt_ctx_create(&l->ctx, NULL), DT_OK);
    ck_assert_int_eq(dt_tape_create(l->ctx, &l->t), DT_OK);
    ck_assert_int_eq(dt_sequential_create(l->ctx, &l->m), DT_OK);
    add(l, names[0], dt_linear_create(l->ctx, s->inputs, s->hidden, true, &part), &part);
    add(l, "relu", dt_activation_create(l->ctx, "relu", &part), &part);
    add(l, names[1], dt_linear_create(l->ctx, s->hidden, s->outputs, true, &part), &part);
    for (int i = 0; i < LAYERS; i++) {
        const parameter *w = &net->layer[i].weight.master, *b = &net->layer[i].bias;
        memcpy(dt_data_mut(param(l, i, "weight")), w->value, (size_t)w->count * sizeof(float));
        memcpy(dt_data_mut(param(l, i, "bias")), b->value, (size_t)b->count * sizeof(float));
    }
    dt_optimizer_options o = dt_optimizer_defaults();
    o.name = DT_SGD;
    o.momentum = (double)s->momentum;
    o.weight_decay = 0;
    ck_assert_int_eq(dt_optimizer_create(l->m, &o, &l->optimizer), DT_OK);
}

static void free_library(library *l)
{
    dt_optimizer_free(l->optimizer);
    dt_module_free(l->m);
    dt_tape_free(l->t);
    dt_ctx_free(l->ctx);
}

static void check_bits(const char *what, int at, int64_t n, const float *of_library,
                       const float *of_file)
{
    for (int64_t i = 0; i < n; i++) {
        ck_assert_msg(memcmp(of_library + i, of_file + i, sizeof *of_file) == 0,
                      "%s %lld of layer %d: the library has %a, the file %a", what, (long long)i,
                      at, (double)of_library[i], (double)of_file[i]);
    }
}

static dt_tensor *tensor(const library *l, int rows, int columns, const float *values)
{
    dt_tensor *x;
    const int64_t dims[] = { rows, columns };
    ck_assert_int_eq(dt_tensor_from(l->ctx, DT_F32, 2, dims, values, &x), DT_OK);
    return x;
}

/* One update of both, of the same batch. */
static void step(library *l, network *net, const settings *s, const float *x, const float *target)
{
    const int64_t first = net->updates % (s->examples / s->batch) * s->batch;
    dt_tensor *from = tensor(l, s->batch, s->inputs, x + first * s->inputs);
    dt_tensor *to = tensor(l, s->batch, s->outputs, target + first * s->outputs);
    dt_tape_reset(l->t);
    dt_zero_grad(l->m);
    dt_tensor *loss = dt_mse(l->t, dt_forward(l->t, l->m, from), to, DT_REDUCE_MEAN);
    ck_assert_int_eq(dt_backward(l->t, loss, NULL), DT_OK);
    const float mine = (float)dt_item(loss), theirs = train_step(net, s, x, target);
    ck_assert_int_eq(dt_optimizer_step(l->optimizer, l->t, (double)s->rate), DT_OK);
    dt_tape_reset(l->t);
    dt_tensor_free(from);
    dt_tensor_free(to);
    check_bits("loss", 0, 1, &mine, &theirs);
}

/* Masters, biases, gradients. */
static void check_parameters(const library *l, const network *net)
{
    for (int i = 0; i < LAYERS; i++) {
        const parameter *w = &net->layer[i].weight.master, *b = &net->layer[i].bias;
        dt_tensor *weight = param(l, i, "weight"), *bias = param(l, i, "bias");
        check_bits("weight", i, w->count, dt_data(dt_inner(weight)), w->value);
        check_bits("bias", i, b->count, dt_data(bias), b->value);
        check_bits("gradient of weight", i, w->count, dt_data(dt_grad(weight)), w->gradient);
        check_bits("gradient of bias", i, b->count, dt_data(dt_grad(bias)), b->gradient);
    }
}

static void check_outputs(const library *l, const settings *s, const float *x, const float *file)
{
    dt_tensor *in = tensor(l, s->examples, s->inputs, x);
    dt_tape_reset(l->t);
    dt_train(l->m, false);
    const float *y = dt_data(dt_forward(l->t, l->m, in));
    ck_assert_ptr_nonnull(y);
    check_bits("output", LAYERS, (int64_t)s->examples * s->outputs, y, file);
    dt_train(l->m, true);
    dt_tape_reset(l->t);
    dt_tensor_free(in);
}

/* The file of the converted model holds codes as they were packed. */
static void check_packed(const library *l, const network *net)
{
    char path[TEST_PATH];
    dt_file *file;
    test_folder(path);
    test_join(path, path, "one_file.safetensors");
    ck_assert_int_eq(dt_model_save(l->m, &(dt_model_info){ .family = NULL }, path), DT_OK);
    ck_assert_int_eq(dt_file_open(l->ctx, path, &file), DT_OK);
    for (int i = 0; i < LAYERS; i++) {
        char name[48];
        weight_codes p = pack(&net->layer[i]);
        snprintf(name, sizeof name, "%s.weight.codes", names[i]);
        const dt_file_entry *codes = dt_file_find(file, name);
        ck_assert_ptr_nonnull(codes);
        ck_assert_uint_eq(codes->bytes, (size_t)(p.rows * ((p.columns + 1) / 2)));
        ck_assert_msg(memcmp(codes->data, p.packed, codes->bytes) == 0, "%s differ", name);
        snprintf(name, sizeof name, "%s.weight.scale", names[i]);
        const dt_file_entry *scale = dt_file_find(file, name);
        ck_assert_ptr_nonnull(scale);
        ck_assert_int_eq(scale->count, p.rows * p.groups);
        ck_assert_msg(memcmp(scale->data, p.scale, scale->bytes) == 0, "%s differ", name);
        free_packed(&p);
    }
    dt_file_close(file);
}

static void compare(const settings *s)
{
    network net = make_network(s);
    library l;
    float *x = floats(s->examples * s->inputs), *target = floats(s->examples * s->outputs);
    float *y = floats(s->examples * s->outputs);
    draw_examples(s, x, target);
    make_library(&l, s, &net);
    for (int i = 0; i < s->float_steps; i++) step(&l, &net, s, x, target);
    check_parameters(&l, &net);
    evaluate(&net, s, x, target, y);
    check_outputs(&l, s, x, y);
    prepare(&net);
    ck_assert_int_eq(dt_prepare(l.m, NULL), DT_OK);
    evaluate(&net, s, x, target, y);
    check_outputs(&l, s, x, y);
    for (int i = 0; i < s->qat_steps; i++) step(&l, &net, s, x, target);
    check_parameters(&l, &net);
    evaluate(&net, s, x, target, y);
    check_outputs(&l, s, x, y);
    ck_assert(packed_is_equal(&net, s, x, y));
    dt_optimizer_free(l.optimizer);
    l.optimizer = NULL;
    ck_assert_int_eq(dt_convert(l.m, NULL, NULL), DT_OK);
    check_outputs(&l, s, x, y);
    check_packed(&l, &net);
    free_library(&l);
    free_network(&net);
    free(x);
    free(target);
    free(y);
}

/* Rows of less than a group, of whole groups, and with a shorter last one; odd extents. */
START_TEST(the_file_and_the_library_have_the_same_bits)
{
    static const int inputs[] = { 5, 32, 64, 33, 77 };
    uint32_t state = (uint32_t)_i + 1;
    settings s = { .seed = (uint32_t)_i * 2654435761u + 7 };
    s.inputs = inputs[_i % 5] + (_i >= 5 ? (int)(30 * fabsf(draw(&state))) : 0);
    s.hidden = 2 + (int)(70 * fabsf(draw(&state)));
    s.outputs = 2 + (int)(9 * fabsf(draw(&state)));
    s.batch = 2 + (int)(22 * fabsf(draw(&state)));
    s.examples = 3 * s.batch;
    s.float_steps = 10;
    s.qat_steps = 15;
    s.rate = 0.02f + 0.02f * fabsf(draw(&state));
    s.momentum = _i % 2 == 0 ? 0.9f : 0.5f;
    compare(&s);
}
END_TEST

/* Words that are not numbers, sizes that are too small or large, and one word too many. */
START_TEST(wrong_arguments_are_refused)
{
    static const char *const given[][6] = {
        { "seed" },
        { "--help" },
        { "1x" },
        { "1", "40x" },
        { "1", "8", "1" },
        { "1", "8", "8", "1025" },
        { "1", "8", "", "2" },
        { "1", "8", "8", "2", "2" },
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        char *argv[8] = { "one" };
        int argc = 1;
        for (int k = 0; given[i][k] != NULL; k++) argv[argc++] = (char *)(uintptr_t)given[i][k];
        ck_assert_int_eq(dt_one_file_main(argc, argv), 2);
    }
}
END_TEST

Suite *test_one_file_suite(void)
{
    Suite *s = suite_create("one_file");
    TCase *c = tcase_create("bits");
    tcase_add_loop_test(c, the_file_and_the_library_have_the_same_bits, 0,
                        (int)test_count((test_draws){ .usual = 40, .sanitized = 4, .quick = 10 }));
    tcase_add_test(c, wrong_arguments_are_refused);
    suite_add_tcase(s, c);
    return s;
}
