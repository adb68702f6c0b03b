/* Recurrent networks: values and gradients against PyTorch's (golden/nets), sequences in parts, the
 * last step, what quantization sees of h. Layers' cases are in nn_gru.c and nn_lstm.c. */
#include "module_to.h"
#include "ops_run.h"
#include "testing.h"

#include "nn/module.h"
#include "qat/prepare.h"

#include <detent/experimental/io.h>
#include <detent/experimental/layers.h>
#include <detent/optim.h>
#include <detent/experimental/ptq.h>
#include <detent/experimental/qat.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct kind {
    const char *name;
    int gates, states;
    dt_status (*create)(dt_ctx *ctx, const dt_recurrent_layer *layer, dt_module **out);
} kind;

static const kind kinds[] = { { "gru", 3, 1, dt_gru_create },
                              { "lstm", 4, 2, dt_lstm_create },
                              { "rnn", 1, 1, dt_rnn_create } };

static dt_ctx *ctx;
static dt_tape *t;

static void setup(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 2;
    options.seed = 3;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
}

static void teardown(void)
{
    dt_tape_free(t);
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- reference values ------------------------------------------------------------------------ */

/* The files, and the kind of each. */
static const struct {
    const char *name;
    int kind;
    bool reset_before;
} files[] = {
    { "gru", 0, false }, { "gru_reset_before", 0, true }, { "lstm", 1, false }, { "rnn", 2, false }
};

typedef struct golden {
    const kind *kind;
    const char *name; /* of the file */
    dt_file *file;
    const char *c; /* the case: "c0" */
    dt_dtype dtype;
    dt_recurrent_layer options;
    dt_module *m;
} golden;

static const char *const inputs[] = { "x", "h0", "c0" }, *const outputs[] = { "y", "h_n", "c_n" };

static const char *setting(const golden *g, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", g->c, name);
    const char *text = dt_file_meta(g->file, key);
    ck_assert_msg(text != NULL, "no metadata %s", key);
    return text;
}

static bool is_set(const golden *g, const char *name)
{
    return strcmp(setting(g, name), "true") == 0;
}

/* "<case>.<part>.<name>"; NULL where the file has none. */
static dt_tensor *load(const golden *g, const char *part, const char *name, dt_dtype dtype)
{
    char path[128];
    dt_tensor *x;
    snprintf(path, sizeof path, "%s.%s.%s", g->c, part, name);
    if (dt_file_find(g->file, path) == NULL) return NULL;
    TEST_OK(ctx, dt_file_load(g->file, path, dtype, &x));
    return x;
}

/* Relative to the largest of the values wanted. */
static void compare(const golden *g, const char *part, const char *name, const dt_tensor *got)
{
    const bool gradient = strcmp(part, "grad") == 0;
    const double narrow = gradient ? 1e-4 : 1e-5;
    dt_tensor *want = load(g, part, name, DT_F64);
    TEST_EACH(want != NULL && got != NULL && dt__same_dims(got, want), "%s %s: %s.%s is missing",
              g->name, g->c, part, name);
    const ops_values a = ops_read(got), b = ops_read(want);
    TEST_EACH(ops_near(a, b, g->dtype == DT_F64 ? 1e-12 : narrow, 0), "%s %s %s: %s.%s", g->name,
              g->c, dt_dtype_name(g->dtype), part, name);
    free(a.v);
    free(b.v);
    dt_tensor_free(want);
}

/* layers.1.ih_reverse.weight is PyTorch's weight_ih_l1_reverse. */
static void their_name(const char *path, char name[64])
{
    int layer;
    char product[16], entry[16];
    ck_assert_int_eq(sscanf(path, "layers.%d.%15[a-z_].%15s", &layer, product, entry), 3);
    snprintf(name, 64, "%s_%.2s_l%d%s", entry, product, layer, product + 2);
}

static dt_status take_weight(void *user, const char *path, dt_tensor *x, dt_entry_kind entry)
{
    const golden *g = user;
    char name[64];
    (void)entry;
    their_name(path, name);
    dt_tensor *value = load(g, "param", name, g->dtype);
    TEST_EACH(value != NULL && dt__same_dims(value, x), "%s %s: %s", g->name, g->c, name);
    dt__copy_tensor(value, x);
    dt_tensor_free(value);
    return DT_OK;
}

static dt_status compare_gradient(void *user, const char *path, dt_tensor *x, dt_entry_kind entry)
{
    char name[64];
    (void)entry;
    their_name(path, name);
    compare(user, "grad", name, dt_grad(x));
    return DT_OK;
}

static void open_golden(golden *g)
{
    const bool reset_before = g->options.reset_before;
    g->options = (dt_recurrent_layer){ .in = atoi(setting(g, "in")),
                                       .hidden = atoi(setting(g, "hidden")),
                                       .layers = atoi(setting(g, "layers")),
                                       .bias = is_set(g, "bias"),
                                       .bidirectional = is_set(g, "bidirectional"),
                                       .relu = g->kind == &kinds[2] && is_set(g, "relu"),
                                       .reset_before = reset_before };
    TEST_OK(ctx, g->kind->create(ctx, &g->options, &g->m));
    TEST_OK(ctx, module_to(g->m, g->dtype));
    TEST_OK(ctx, dt_module_visit(g->m, take_weight, g));
}

static dt_tensor *weighted(dt_tensor *y, dt_tensor *up)
{
    return dt_sum(t, dt_mul(t, y, up), NULL);
}

static void run_golden(golden *g)
{
    dt_tensor *in[3] = { NULL }, *out[3], *up[3], *loss = NULL;
    const int n_out = 1 + g->kind->states;
    int n_in = 0;
    open_golden(g);
    while (n_in < n_out && (in[n_in] = load(g, "in", inputs[n_in], g->dtype)) != NULL) {
        TEST_OK(ctx, dt_set_requires_grad(in[n_in++], true));
    }
    TEST_OK(ctx, dt_forward_n(t, g->m, in, n_in, out, n_out));
    for (int i = 0; i < n_out; i++) {
        compare(g, "out", outputs[i], out[i]);
        up[i] = load(g, "up", outputs[i], g->dtype);
        loss = loss == NULL ? weighted(out[i], up[i]) : dt_add(t, loss, weighted(out[i], up[i]));
    }
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    for (int i = 0; i < n_in; i++) compare(g, "grad", inputs[i], dt_grad(in[i]));
    dt_module_visit(g->m, compare_gradient, g);
    dt_tape_reset(t);
    for (int i = 0; i < 3; i++) dt_tensor_free(in[i]);
    for (int i = 0; i < n_out; i++) dt_tensor_free(up[i]);
    dt_module_free(g->m);
}

START_TEST(reference_values)
{
    char name[64], path[TEST_PATH], list[64];
    int cases = 0;
    golden g = { .kind = &kinds[files[_i].kind],
                 .name = files[_i].name,
                 .options.reset_before = files[_i].reset_before };
    snprintf(name, sizeof name, "nets/%s.safetensors", g.name);
    if (!test_golden(path, name)) return;
    TEST_OK(ctx, dt_file_open(ctx, path, &g.file));
    snprintf(list, sizeof list, "%s", dt_file_meta(g.file, "cases"));
    for (g.c = strtok(list, ","); g.c != NULL; g.c = strtok(NULL, ","), cases++) {
        for (int dtype = DT_F32; dtype <= DT_F64; dtype++) {
            g.dtype = (dt_dtype)dtype;
            run_golden(&g);
        }
    }
    ck_assert_int_ge(cases, 5);
    dt_file_close(g.file);
}
END_TEST

/* ---- sequences ------------------------------------------------------------------------------- */

static dt_tensor *sequence(int64_t rows, int64_t steps, int64_t width)
{
    dt_tensor *x;
    const int64_t dims[] = { rows, steps, width };
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 3, dims, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 1));
    return x;
}

static dt_tensor *times(dt_tensor *x, int64_t first, int64_t end)
{
    const dt_slice_options o = { .dims = { 1, { 1 } },
                                 .starts = { 1, { first } },
                                 .stops = { 1, { end } } };
    return dt_slice(t, x, &o);
}

static bool same(const dt_tensor *a, const dt_tensor *b)
{
    ops_values x = ops_read(a), y = ops_read(b);
    const bool equal = dt__same_dims(a, b) && ops_near(x, y, 0, 0);
    free(x.v);
    free(y.v);
    return equal;
}

/* A sequence has the bits of its two parts, where the second one begins with the first one's final
 * state. 300 steps are joined in three levels, of 16 each. */
START_TEST(a_sequence_is_its_parts)
{
    const kind *k = &kinds[_i];
    const int n = 1 + k->states;
    dt_recurrent_layer o = dt_recurrent_defaults();
    dt_module *m;
    o.in = 3;
    o.hidden = 5;
    o.layers = 2;
    TEST_OK(ctx, k->create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, NULL));
    dt_tensor *x = sequence(4, 300, 3), *whole[3], *part[3], *in[3];
    dt_no_grad(t, true);
    TEST_OK(ctx, dt_forward_n(t, m, &x, 1, whole, n));
    in[0] = times(x, 0, 123);
    TEST_OK(ctx, dt_forward_n(t, m, in, 1, part, n));
    ck_assert(same(part[0], times(whole[0], 0, 123)));
    memcpy(in, part, sizeof in);
    in[0] = times(x, 123, 300);
    TEST_OK(ctx, dt_forward_n(t, m, in, n, part, n));
    ck_assert(same(part[0], times(whole[0], 123, 300)));
    for (int i = 1; i < n; i++) ck_assert(same(part[i], whole[i]));
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

/* `last` is h of the last step forward, of the first one backward; a batch may be empty. */
START_TEST(the_last_step_is_that_of_all)
{
    dt_recurrent_layer o = { .in = 3, .hidden = 5, .layers = 2, .bidirectional = true };
    dt_module *all, *last;
    TEST_OK(ctx, kinds[_i].create(ctx, &o, &all));
    o.last = true;
    TEST_OK(ctx, kinds[_i].create(ctx, &o, &last));
    TEST_OK(ctx, dt_module_copy_state(last, all));
    for (int64_t rows = 0; rows < 3; rows += 2) {
        dt_tensor *x = sequence(rows, 7, 3), *y = dt_forward(t, all, x);
        dt_tensor *h = dt_forward(t, last, x);
        ck_assert_msg(y != NULL && h != NULL, "%s", dt_error(ctx));
        ck_assert(h->rank == 2 && h->dims[0] == rows && h->dims[1] == 10);
        ck_assert(dt_is_contiguous(y) && y->dims[0] == rows && y->dims[2] == 10);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < 10; j++) {
                const int64_t step = j < 5 ? 6 : 0;
                ck_assert_double_eq(ops_at(h, i * 10 + j), ops_at(y, (i * 7 + step) * 10 + j));
            }
        }
        dt_tape_reset(t);
        dt_tensor_free(x);
    }
    dt_module_free(all);
    dt_module_free(last);
}
END_TEST

/* ---- quantization ---------------------------------------------------------------------------- */

static dt_module *make(const kind *k, int64_t hidden)
{
    dt_recurrent_layer o = dt_recurrent_defaults();
    dt_module *m;
    o.in = 4;
    o.hidden = hidden;
    TEST_OK(ctx, k->create(ctx, &o, &m));
    return m;
}

/* An observed range covers h of every step that is multiplied, and not the zeros before the first
 * one: with a single step more than one there is one observation, of one h. */
START_TEST(a_range_observes_all_steps)
{
    dt_module *m = make(&kinds[_i], 8);
    dt_qat_options o = dt_qat_defaults();
    dt_tensor *x = sequence(3, 12, 4);
    o.preset = DT_INT8_STATIC_INT8_WEIGHT;
    TEST_OK(ctx, dt_prepare(m, &o));
    TEST_OK(ctx, dt_enable(m, false));
    TEST_OK(ctx, dt_observe(m, true));
    const dt_tensor *y = dt_forward(t, m, x);
    ck_assert_msg(y != NULL, "%s", dt_error(ctx));
    const dt__quantizer *range = dt__input_hook_of(dt_module_at(m, "layers.0.hh"))->range;
    ck_assert_int_eq(*(const int64_t *)dt_data(range->count), 11 * 3 * 8);
    double lo = 0, hi = 0;
    for (int64_t e = 0; e < y->count; e++) {
        if (e / 8 % 12 == 11) continue; /* the last h is not multiplied */
        lo = fmin(lo, ops_at(y, e));
        hi = fmax(hi, ops_at(y, e));
    }
    if (range->quant.observer == DT_OBSERVER_MINMAX) {
        ck_assert_double_eq(ops_at(range->lo, 0), lo);
        ck_assert_double_eq(ops_at(range->hi, 0), hi);
    } else {
        ck_assert(ops_at(range->lo, 0) >= lo && ops_at(range->hi, 0) <= hi);
        ck_assert(ops_at(range->hi, 0) > 0);
    }
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

typedef struct calibrating {
    dt_tensor *x;
    int64_t samples[2]; /* of ih, of hh */
} calibrating;

static dt_status lend(void *user, int64_t i, dt_tensor **x)
{
    (void)i;
    *x = ((calibrating *)user)->x;
    return DT_OK;
}

static dt_status note(void *user, const char *path, const dt_round_report *report)
{
    ((calibrating *)user)->samples[strstr(path, ".hh") != NULL] = report->samples;
    return DT_OK;
}

/* Rounders sum the inputs of all steps, those with the float model's beside them too. */
START_TEST(a_rounder_sees_all_steps)
{
    static const int rounders[] = { DT_ROUND_GPTQ, DT_ROUND_GPFQ, DT_ROUND_QRONOS };
    for (int i = 0; i < DT__COUNT_OF(rounders); i++) {
        dt_module *m = make(&kinds[_i], 8), *reference = make(&kinds[_i], 8);
        calibrating c = { .x = sequence(3, 12, 4) };
        const dt_calibration data = { 2, lend, &c };
        dt_ptq_options o = dt_ptq_defaults();
        TEST_OK(ctx, dt_module_copy_state(reference, m));
        TEST_OK(ctx, dt_prepare(m, NULL));
        o.rounding.rounder = rounders[i];
        o.done = note;
        o.user = &c;
        TEST_OK(ctx, dt_ptq(m, reference, &data, &o, NULL));
        ck_assert_int_eq(c.samples[0], 2 * 3 * 12);
        ck_assert_int_eq(c.samples[1], 2 * 3 * 11);
        ck_assert_msg(dt_forward(t, m, c.x) != NULL, "%s", dt_error(ctx));
        dt_tape_reset(t);
        dt_tensor_free(c.x);
        dt_module_free(m);
        dt_module_free(reference);
    }
}
END_TEST

/* The loss of recalling the first number of [N, T, 4], averaged over the last steps. */
static double learn_to_recall(dt_module *m, int steps)
{
    dt_optimizer_options o = dt_optimizer_defaults();
    dt_optimizer *optimizer;
    double loss = 1;
    o.name = DT_ADAM;
    TEST_OK(ctx, dt_optimizer_create(m, &o, &optimizer));
    for (int i = 0; i < steps; i++) {
        dt_tensor *x = sequence(32, 5, 4);
        const dt_slice_options cut = { .dims = { 2, { 1, 2 } },
                                       .starts = { 2, { 0, 0 } },
                                       .stops = { 2, { 1, 1 } } };
        dt_tensor *want = dt_reshape(t, dt_slice(t, x, &cut), 2, (const int64_t[]){ 32, 1 });
        dt_tensor *error = dt_mse(t, dt_forward(t, m, x), want, DT_REDUCE_MEAN);
        TEST_OK(ctx, dt_backward(t, error, NULL));
        loss = 0.95 * loss + 0.05 * ops_at(error, 0);
        dt_tape_reset(t);
        TEST_OK(ctx, dt_optimizer_step(optimizer, t, 0.01));
        dt_zero_grad(m);
        dt_tensor_free(x);
    }
    dt_optimizer_free(optimizer);
    return loss;
}

/* Trained with codes of 4 bits, a network recalls what it read four steps earlier. */
START_TEST(it_learns_to_recall)
{
    dt_recurrent_layer o = dt_recurrent_defaults();
    dt_module *m, *part = NULL;
    o.in = 4;
    o.hidden = 32;
    o.last = true;
    TEST_OK(ctx, dt_sequential_create(ctx, &m));
    kinds[_i].create(ctx, &o, &part);
    TEST_OK(ctx, dt_module_add(m, "network", part));
    dt_linear_create(ctx, 32, 1, true, &part);
    TEST_OK(ctx, dt_module_add(m, "head", part));
    TEST_OK(ctx, dt_prepare(m, NULL));
    const double loss = learn_to_recall(m, 600);
    ck_assert_msg(loss < 0.25, "%s: a loss of %g; that of knowing nothing is 1", kinds[_i].name,
                  loss);
    dt_module_free(m);
}
END_TEST

/* Adapters of prepared products are merged with the same bits. */
START_TEST(adapters_reach_both_products)
{
    dt_module *m = make(&kinds[_i], 8);
    dt_lora_options o = dt_lora_defaults();
    dt_tensor *x = sequence(3, 6, 4);
    o.rank = 2;
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_lora_add(m, &o));
    dt_tensor *before = dt_forward(t, m, x);
    TEST_OK(ctx, dt_fill_normal(dt_param(m, "layers.0.ih.lora_b"), 0, 1));
    dt_tensor *first = dt_forward(t, m, x);
    TEST_OK(ctx, dt_fill_normal(dt_param(m, "layers.0.hh.lora_b"), 0, 1));
    dt_tensor *adapted = dt_forward(t, m, x);
    ck_assert(!same(before, first) && !same(first, adapted));
    TEST_OK(ctx, dt_lora_merge(m));
    ck_assert(same(adapted, dt_forward(t, m, x)));
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_module_free(m);
}
END_TEST

typedef struct pair {
    dt_module *other;
    int compared;
} pair;

static dt_status compare_modules(void *user, const char *path, dt_tensor *x, dt_entry_kind entry)
{
    pair *p = user;
    dt_tensor *y = dt_param(p->other, path);
    ck_assert_msg(same(x, y), "%s", path);
    if (entry != DT_PARAM) return DT_OK;
    ck_assert_msg(dt_grad(x) != NULL && same(dt_grad(x), dt_grad(y)), "gradient of %s", path);
    p->compared++;
    return DT_OK;
}

/* Each layer is run again by backward, with the same masks, ranges and gradients. */
START_TEST(layers_can_be_recomputed)
{
    dt_recurrent_layer o = { 4, 8, .layers = 3, .bias = true, .bidirectional = true, .last = true };
    dt_qat_options qat = dt_qat_defaults();
    dt_module *m[2];
    dt_tensor *x = sequence(3, 12, 4);
    o.dropout = 0.3;
    qat.preset = DT_INT8_STATIC_INT8_WEIGHT;
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, kinds[_i].create(ctx, &o, &m[i]));
        if (i == 1) TEST_OK(ctx, dt_module_copy_state(m[1], m[0]));
        ck_assert_int_eq(dt_recompute(m[i], i == 1), 3);
    }
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_prepare(m[i], &qat));
        dt_seed(ctx, 5);
        dt_tensor *loss = dt_sum(t, dt_square(t, dt_forward(t, m[i], x)), NULL);
        TEST_OK(ctx, dt_backward(t, loss, NULL));
        dt_tape_reset(t);
    }
    pair p = { m[1], 0 };
    dt_module_visit(m[0], compare_modules, &p);
    ck_assert_int_ge(p.compared, 3 * 2 * 4);
    for (int i = 0; i < 2; i++) dt_module_free(m[i]);
    dt_tensor_free(x);
}
END_TEST

static const dt_family *family_of(const char *name)
{
    int i = 0;
    while (strcmp(dt_family_at(i)->name, name) != 0) i++;
    return dt_family_at(i);
}

/* In a list of layers extents follow from the input; a converted file needs nothing else. */
START_TEST(lists_and_files_know_it)
{
    char folder[TEST_PATH], path[TEST_PATH];
    dt_recurrent_item network;
    dt_linear_layer head;
    dt_module *m, *again;
    const dt_item_kind *k = dt_layer_kind(kinds[_i].name);
    TEST_OK(ctx, dt_layer_defaults(ctx, k, &network));
    TEST_OK(ctx, dt_layer_defaults(ctx, dt_layer_kind("linear"), &head));
    network.head.name = "network";
    network.network.hidden = 6;
    network.network.bidirectional = network.network.last = true;
    head.out = 3;
    dt_list_item list[] = { { k, &network }, { dt_layer_kind("linear"), &head } };
    const dt_layers_options o = { .input = { .n = 1, .shape = { { 2, { 12, 4 } } } },
                                  .layers = { 2, list } };
    const dt_model_info info = { .family = family_of("layers"), .options = &o };
    TEST_OK(ctx, dt_layers_create(ctx, &o, &m));
    ck_assert_int_eq(dt_param_count(m), 2 * kinds[_i].gates * 6 * (4 + 6 + 2) + 3 * 13);
    TEST_OK(ctx, dt_prepare(m, NULL));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    ck_assert(dt_is_packed(dt_param(m, "network.layers.0.hh_reverse.weight")));
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
    TEST_OK(ctx, dt_model_save(m, &info, path));
    TEST_OK(ctx, dt_model_load(ctx, path, &again, NULL));
    dt_tensor *x = sequence(5, 9, 4); /* of another length */
    ck_assert(same(dt_forward(t, m, x), dt_forward(t, again, x)));
    dt_tape_reset(t);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_module_free(again);
}
END_TEST

Suite *test_recurrent_suite(void)
{
    Suite *s = suite_create("recurrent");
    TCase *c = tcase_create("networks");
    const int n = DT__COUNT_OF(kinds);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, reference_values, 0, DT__COUNT_OF(files));
    tcase_add_loop_test(c, a_sequence_is_its_parts, 0, n);
    tcase_add_loop_test(c, the_last_step_is_that_of_all, 0, n);
    tcase_add_loop_test(c, a_range_observes_all_steps, 0, n);
    tcase_add_loop_test(c, a_rounder_sees_all_steps, 0, n);
    tcase_add_loop_test(c, adapters_reach_both_products, 0, n);
    tcase_add_loop_test(c, layers_can_be_recomputed, 0, n);
    tcase_add_loop_test(c, it_learns_to_recall, 0, n);
    tcase_add_loop_test(c, lists_and_files_know_it, 0, n);
    suite_add_tcase(s, c);
    return s;
}
