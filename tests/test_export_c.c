/* Format c: random networks, layers and presets are exported, compiled and run; each folder's
 * self-test compares bits with dt_forward. Warnings are errors. 20 networks, 4 under a sanitizer;
 * DETENT_NETWORKS overrides the number, DETENT_SEED sets the first seed. */
#include "c_folder.h"
#include "layers_run.h"
#include "models.h"
#include "random_nets.h"
#include "testing.h"

#include "core/core.h"
#include "export/c/c_program.h"
#include "nn/layers/op_layer.h"

#include <detent/experimental/export.h>
#include <detent/experimental/layers.h>
#include <detent/optim.h>

#include <stdio.h>
#include <stdlib.h>

static const test_draws draws = { .usual = 20, .quick = 6, .sanitized = 2 };

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* A step of training, so that norms have statistics and ranges are observed. */
static void train_once(dt_ctx *ctx, dt_module *m, dt_tensor *x)
{
    dt_optimizer *o;
    dt_tape *t;
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    TEST_OK(ctx, dt_optimizer_create(m, NULL, &o));
    dt_train(m, true);
    dt_tensor *y = dt_forward(t, m, x);
    dt_tensor *loss = dt_mean(t, dt_mul(t, y, y), NULL);
    TEST_EACH(dt_backward(t, loss, NULL) == DT_OK, "%s", dt_error(ctx));
    TEST_OK(ctx, dt_optimizer_step(o, t, 0.01));
    dt_zero_grad(m);
    dt_optimizer_free(o);
    dt_tape_free(t);
}

/* Trains, prepares and converts; with qat NULL the model stays float. */
static void make_integer(dt_ctx *ctx, dt_module *m, dt_tensor *x, const dt_qat_options *qat)
{
    train_once(ctx, m, x);
    if (qat == NULL) return;
    TEST_OK(ctx, dt_prepare(m, qat));
    train_once(ctx, m, x);
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
}

/* ---- random networks ------------------------------------------------------------------------- */

static void check_network(const random_net *d, const char *cc)
{
    dt_ctx_options options = dt_ctx_defaults();
    char what[64];
    dt_ctx *ctx;
    options.seed = d->seed;
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    dt_module *m = random_net_create(ctx, d);
    dt_tensor *x = random_net_input(ctx, d);
    snprintf(what, sizeof what, "%s network %llu", d->family == NULL ? "a" : d->family->name,
             (unsigned long long)d->seed);
    make_integer(ctx, m, x, d->seed % 5 == 0 ? NULL : &d->qat);
    c_check_model(m, x, cc, what);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}

#define PARTS 2

START_TEST(random_networks_have_the_same_bits)
{
    static const char *const names[] = { NULL, "mlp", NULL, "cnn", NULL, "resnet", NULL, "unet" };
    const uint64_t first = number_from("DETENT_SEED", 1);
    const uint64_t count = (uint64_t)test_networks(draws);
    for (uint64_t i = (uint64_t)_i; i < count; i += PARTS) {
        const char *family = names[i / PARTS % DT__COUNT_OF(names)];
        const random_net d =
            family == NULL ? random_net_of(first + i) : random_net_of_family(first + i, family);
        check_network(&d, i % 8 == 3 ? "cc -O3 -march=native -ffp-contract=fast -w"
                                     : "cc " C_STRICT " -O1");
    }
}
END_TEST

/* ---- every kind of layer --------------------------------------------------------------------- */

#define DT__NN(name) extern const dt__layer_cases dt__cases_of_layer_##name;
#include "nn/nn.inc"
#undef DT__NN

static const dt__layer_cases *const layers[] = {
#define DT__NN(name) &dt__cases_of_layer_##name,
#include "nn/nn.inc"
#undef DT__NN
};

/* Layers of language models, which have an example of their own (tokens). */
static bool is_of_language(const char *name)
{
    static const char *const names[] = { "embedding",      "attention", "moe",
                                         "router",         "decoder",   "transformer_block",
                                         "grouped_linear", "list",      NULL };
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

/* A layer of a case that has seen a batch; preset -1: float. */
static void open_layer(layers_scene *o, const dt__layer_case *k, int preset)
{
    dt_qat_options options = dt_qat_defaults();
    const layers_setup s = { .k = k, .real = DT_F32, .threads = 1 };
    dt_tensor *y[DT_MAX_OUT];
    layers_open(o, &s);
    options.preset = preset;
    if (preset < 0) return;
    if (dt_prepare(o->holder, &options) != DT_OK) return; /* it has nothing to quantize */
    dt_train(o->holder, true);
    const bool observed = dt_is_observed(o->holder);
    if (observed) TEST_OK(o->ctx, dt_observe(o->holder, true));
    TEST_OK(o->ctx, layers_forward(o, y));
    if (observed) TEST_OK(o->ctx, dt_observe(o->holder, false));
    dt_tape_reset(o->t);
    dt_train(o->holder, false);
    TEST_OK(o->ctx, dt_convert(o->holder, NULL, NULL));
}

/* Returns whether the layer of the case takes examples side by side. */
static bool check_case(const dt__layer_cases *l, const dt__layer_case *k, int preset)
{
    layers_scene o;
    char path[TEST_PATH], what[200];
    dt_trace *t = NULL;
    snprintf(what, sizeof what, "layer %s, case \"%s\", preset %d", l->name, k->name, preset);
    open_layer(&o, k, preset);
    const c_subject of = { o.layer, o.in, o.n_in, o.n_out, "net" };
    const bool traced = c_trace_of(&of, &t) == DT_OK;
    dt_trace_free(t);
    if (traced) {
        c_new_folder(path);
        TEST_EACH(c_export(&of, NULL, path) == DT_OK, "%s: %s", what, dt_error(o.ctx));
        c_check_folder(path, "cc " C_STRICT " -O0", what);
    }
    layers_close(&o);
    return traced;
}

static bool is_usable(const dt__layer_case *k)
{
    bool is = k->fails == DT_OK && !k->training && layers_inputs(k) > 0;
    for (int i = 0; i < layers_inputs(k); i++) {
        is = is && k->in[i].dims[0] > 0 && (k->in[i].dtype == 0 || k->in[i].dtype == DT_F32);
    }
    return is;
}

/* Cases of each kind of layer are sampled, since each needs a compiler, and compiled code has no
 * sanitizer. */
static const test_draws layer_cases = { .usual = 3, .quick = 2, .sanitized = 1 };

START_TEST(layers_have_the_same_bits)
{
    const int64_t few = test_count(layer_cases);
    int preset = -1, cases = 0, kinds = 0;
    for (int i = _i; i < DT__COUNT_OF(layers); i += PARTS) {
        const dt__layer_cases *l = layers[i];
        const int64_t most = l->type == &dt__op_module ? 6 * few : few; /* of several kinds */
        int done = 0;
        for (int k = 0; k < l->n && !is_of_language(l->name) && done < most; k++) {
            if (!is_usable(&l->cases[k])) continue;
            if (!check_case(l, &l->cases[k], preset)) continue;
            done++;
            preset = preset == TEST_PRESETS - 1 ? -1 : preset + 1;
        }
        cases += done;
        kinds += done > 0;
        if (done == 0 && !is_of_language(l->name)) printf("export_c: no case of %s\n", l->name);
    }
    printf("export_c: %d cases of %d kinds of layers\n", cases, kinds);
}
END_TEST

/* ---- memory that values share ---------------------------------------------------------------- */

static dt_tensor *part_of(dt_tape *t, dt_tensor *x, int64_t start, int64_t stop)
{
    const dt_slice_options o = { { 1, { 1 } }, { 1, { start } }, { 1, { stop } }, { 0, { 0 } } };
    return dt_slice(t, x, &o);
}

/* x [1, 16]: results that may be written over an operand, or into a concatenation, if nothing later
 * reads or writes there. */
static void share_memory(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                         int n_out)
{
    (void)m;
    (void)n_in;
    (void)n_out;
    dt_tensor *x = dt_neg(t, in[0]), *a = dt_square(t, in[0]), *b = dt_neg(t, a);
    dt_tensor *apart = dt_add(t, part_of(t, x, 4, 12), part_of(t, x, 0, 8));
    dt_tensor *both = dt_concat(t, (dt_tensor *[]){ a, b }, 2, 1);
    dt_tensor *later = dt_sigmoid(t, a); /* over a, which lies in `both` */
    dt_tensor *other = dt_concat(t, (dt_tensor *[]){ b, later }, 2, 1);
    dt_tensor *over = dt_tanh(t, other); /* over `other`, in which b lies */
    dt_tensor *sum = dt_add(t, over, both);
    out[0] = dt_concat(t, (dt_tensor *[]){ sum, dt_mul(t, b, later), apart }, 3, 1);
}

static const dt_module_type sharing = { .name = "sharing", .forward = share_memory };

START_TEST(values_that_share_memory_keep_their_bits)
{
    char path[TEST_PATH];
    dt_tensor *x;
    dt_module *m;
    dt_ctx *ctx;
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_module_create(ctx, &sharing, 0, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, 16 }, &x));
    const c_subject o = { m, &x, 1, 1, "net" };
    c_new_folder(path);
    TEST_OK(ctx, c_export(&o, NULL, path));
    c_check_folder(path, "cc " C_STRICT " -O0", "shared memory");
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- files ----------------------------------------------------------------------------------- */

static dt_module *small_mlp(dt_ctx *ctx)
{
    static const dt_mlp_options options = {
        .sizes = { 3, { 12, 9, 4 } }, .bias = true, .eps = 1e-5, .momentum = 0.1
    };
    const dt_qat_options qat = dt_qat_defaults();
    dt_module *m;
    if (dt_mlp_create(ctx, &options, &m) != DT_OK) return NULL;
    if (dt_prepare(m, &qat) == DT_OK && dt_convert(m, NULL, NULL) == DT_OK) return m;
    dt_module_free(m);
    return NULL;
}

static dt_status export_mlp(dt_ctx *ctx, void *user)
{
    dt_tensor *x = NULL;
    dt_module *m = small_mlp(ctx);
    if (m == NULL) return dt_error_status(ctx);
    dt_status s = dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, 12 }, &x);
    const c_subject o = { m, &x, 1, 1, "net" };
    test_remove(user);
    if (s == DT_OK) s = c_export(&o, NULL, user);
    TEST_EACH((s == DT_OK) == test_file_exists(user), "%s, and a folder", dt_status_name(s));
    dt_tensor_free(x);
    dt_module_free(m);
    return s;
}

static void export_new(char path[TEST_PATH])
{
    dt_ctx *ctx;
    c_new_folder(path);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, export_mlp(ctx, path));
    dt_ctx_free(ctx);
}

/* The self-test notices one changed byte in each table. */
START_TEST(a_changed_constant_is_noticed)
{
    char path[TEST_PATH], *output;
    export_new(path);
    const int status = test_shell(
        &output,
        "cd %s && for t in $(sed -n 's/^static const [a-z0-9_]* \\([cw][0-9a-z_]*\\)\\[.*/\\1/p' "
        "net.c); do sed \"/ $t\\[.*= {/{n;s/^    [^,]*,/    1,/}\" net.c > changed.c; "
        "cc -O0 changed.c net_test.c -o changed && { cmp -s net.c changed.c || ! ./changed; } > "
        "log "
        "|| { echo \"$t\"; exit 1; }; echo $t >> done; done 2>&1; wc -l < done",
        path);
    ck_assert_msg(status == 0, "%s", output);
    ck_assert_msg(atoi(output) >= 8, "%s tables were changed", output);
    free(output);
}
END_TEST

/* All compilers that are installed, C and C++, at several levels of optimization. */
START_TEST(compilers_agree)
{
    static const char *const compilers[] = {
        "gcc " C_STRICT " -O0",
        "gcc " C_STRICT " -O3 -march=native",
        "gcc -std=gnu17 -O3 -march=native -ffp-contract=fast -funroll-loops",
        "gcc " C_STRICT " -Os -DFMA_BY_INTEGERS",
        "g++ -x c++ -std=c++17 -pedantic -Wall -Wextra -Wconversion -Werror -O2",
        "clang " C_STRICT " -O2",
        "clang -O3 -march=native -ffp-contract=fast",
        "clang++ -x c++ -std=c++17 -pedantic -Wall -Wextra -Wconversion -Werror -O2",
    };
    char path[TEST_PATH];
    export_new(path);
    for (int i = 0; i < DT__COUNT_OF(compilers); i++) {
        if (test_has_compiler(compilers[i])) c_check_folder(path, compilers[i], "mlp");
    }
    char *output;
    ck_assert_int_ne(test_shell(&output, "cd %s && cc -ffast-math -c net.c 2>&1", path), 0);
    ck_assert_msg(strstr(output, "-ffast-math") != NULL, "%s", output);
    free(output);
}
END_TEST

/* Activations in blocks: sums by vectors, of pairs of bytes, and by plain C. Rows of 100 end in a
 * block that is not full. */
START_TEST(blocks_by_every_loop)
{
    static const char *const compilers[] = { "cc " C_STRICT " -O3 -march=native",
                                             "cc " C_STRICT " -O1 -DPLAIN_LOOPS" };
    static const int64_t bits[] = { 2, 4, 8 };
    const dt_mlp_options o = small_options((int64_t[]){ 100, 37, 5, 0 }, DT_NORM_NONE, 0);
    dt_qat_options qat = dt_qat_defaults();
    char what[32];
    dt_ctx *ctx;
    dt_module *m;
    dt_tensor *x;
    qat.preset = DT_INT8_BLOCK_INT4_WEIGHT;
    qat.weight = (dt_quant_patch){ .quant.bits = bits[_i], .has_bits = true };
    snprintf(what, sizeof what, "%d bits", (int)bits[_i]);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    m = small_model(ctx, &o);
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (int64_t[]){ 3, 100 }, &x));
    TEST_OK(ctx, dt_fill_normal(x, 0, 2));
    make_integer(ctx, m, x, &qat);
    for (int i = 0; i < DT__COUNT_OF(compilers); i++) c_check_model(m, x, compilers[i], what);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

START_TEST(names_become_identifiers)
{
    static const struct {
        const char *from, *to;
    } names[] = { { "digits", "digits" },
                  { "my-net.v2", "my_net_v2" },
                  { "7up", "up" },
                  { "int", "int_" },
                  { "string", "string_" },
                  { "moe", "moe_" },
                  { "text", "text_" },
                  { "", "model" },
                  { "*/ #include <x>", "include_x" },
                  { "\xc3\xa9t\xc3\xa9", "t" },
                  { "a\nb", "a_b" },
                  { "__x__", "x" } };
    char name[DT__C_NAME], text[DT__C_COMMENT];
    for (int i = 0; i < DT__COUNT_OF(names); i++) {
        dt__c_identifier(names[i].from, name);
        ck_assert_str_eq(name, names[i].to);
    }
    ck_assert_str_eq(dt__c_comment("a*/b\\\n?"
                                   "?/\x7f",
                                   text),
                     "a__b______");
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char path[TEST_PATH];
    c_new_folder(path);
    ck_assert_int_gt(test_every_allocation(export_mlp, path), 20);
}
END_TEST

START_TEST(a_failed_write_leaves_nothing)
{
    char folder[TEST_PATH], path[TEST_PATH], *output;
    dt_ctx *ctx;
    test_folder(folder);
    test_join(path, folder, "net");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    bool limited = test_limit_files(1000);
    const dt_status s = export_mlp(ctx, path);
    test_limit_files(-1);
    if (limited) ck_assert_int_eq(s, DT_ERR_IO);
    ck_assert_int_eq(test_shell(&output, "ls -A %s", folder), 0);
    if (limited) ck_assert_str_eq(output, "");
    free(output);
    dt_ctx_free(ctx);
}
END_TEST

/* Constants become text one piece at a time: their numbers are kept in memory, not their text,
 * which is four times as large. */
START_TEST(memory_is_that_of_the_numbers)
{
    static const dt_mlp_options options = {
        .sizes = { 3, { 512, 2048, 512 } }, .bias = true, .eps = 1e-5, .momentum = 0.1
    };
    const size_t weights = (size_t)2 * 512 * 2048 * sizeof(float);
    char path[TEST_PATH];
    dt_ctx *ctx;
    dt_module *m;
    dt_tensor *x;
    c_new_folder(path);
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_mlp_create(ctx, &options, &m));
    TEST_OK(ctx, dt_tensor_create(ctx, DT_F32, 2, (const int64_t[]){ 1, 512 }, &x));
    const c_subject o = { m, &x, 1, 1, "net" };
    dt_memory_reset_peak(ctx);
    const size_t before = dt_memory_of(ctx).used;
    TEST_OK(ctx, c_export(&o, NULL, path));
    const size_t most = dt_memory_of(ctx).peak - before;
    ck_assert_msg(most < 2 * weights, "%zu bytes for %zu of weights", most, weights);
    dt_tensor_free(x);
    dt_module_free(m);
    dt_ctx_free(ctx);
}
END_TEST

Suite *test_export_c_suite(void)
{
    Suite *s = suite_create("export_c");
    TCase *c = tcase_create("networks");
    tcase_set_timeout(c, 900);
    tcase_add_loop_test(c, random_networks_have_the_same_bits, 0, PARTS);
    tcase_add_loop_test(c, layers_have_the_same_bits, 0, PARTS);
    tcase_add_test(c, a_changed_constant_is_noticed);
    tcase_add_test(c, compilers_agree);
    tcase_add_test(c, values_that_share_memory_keep_their_bits);
    tcase_add_loop_test(c, blocks_by_every_loop, 0, 3);
    tcase_add_test(c, names_become_identifiers);
    tcase_add_test(c, every_allocation_may_fail);
    tcase_add_test(c, a_failed_write_leaves_nothing);
    tcase_add_test(c, memory_is_that_of_the_numbers);
    suite_add_tcase(s, c);
    return s;
}
