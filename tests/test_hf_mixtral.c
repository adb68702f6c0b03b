/* Folders of Mixtral: broken ones made from golden/hf/tiny-mixtral, the stacked experts of
 * transformers 5, new folders, quantized models. test_hf.c compares logits, losses and
 * gradients. */
#include "testing.h"

#include <detent/experimental/io.h>

#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static char from[TEST_PATH], own[TEST_PATH];

static void setup(void)
{
    ck_assert_int_eq(dt_ctx_create(&ctx, NULL), DT_OK);
    ck_assert(test_golden(from, "hf/tiny-mixtral"));
    test_folder(own);
}

static void teardown(void)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- changed folders ------------------------------------------------------------------------ */

#define EDITS 3

/* Changes of a folder's tensors: those whose names contain `drop` are removed; `add` gets the bytes
 * of `copy`, transposed where it ends in '!'. */
typedef struct edit {
    const char *drop, *add, *copy;
} edit;

static void add_copy(dt_writer *w, const dt_file *f, const edit *e)
{
    char name[128];
    snprintf(name, sizeof name, "%s", e->copy);
    const size_t n = strlen(name);
    const bool turned = name[n - 1] == '!';
    if (turned) name[n - 1] = 0;
    dt_file_entry x = *dt_file_find(f, name);
    const int64_t dims[2] = { x.dims[x.rank - 1], x.dims[0] };
    if (turned) x.dims = dims;
    x.name = e->add;
    TEST_OK(ctx, dt_writer_add_bytes(w, &x));
}

static bool is_dropped(const char *name, const edit edits[EDITS])
{
    for (int i = 0; i < EDITS; i++) {
        if (edits[i].drop != NULL && strstr(name, edits[i].drop) != NULL) return true;
    }
    return false;
}

static void write_tensors(const edit edits[EDITS])
{
    char path[TEST_PATH];
    dt_file *f;
    dt_writer *w;
    TEST_OK(ctx, dt_file_open(ctx, from, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        const dt_file_entry *e = dt_file_at(f, i);
        if (!is_dropped(e->name, edits)) TEST_OK(ctx, dt_writer_add_bytes(w, e));
    }
    for (int i = 0; i < EDITS; i++) {
        if (edits[i].add != NULL) add_copy(w, f, &edits[i]);
    }
    test_join(path, own, "model.safetensors");
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

/* config.json, one of its lines in place of that of the same key. */
static void write_config(const char *line)
{
    char path[TEST_PATH], key[64], text[4096];
    size_t size;
    test_join(path, from, "config.json");
    char *config = test_read_file(path, &size);
    test_join(path, own, "config.json");
    if (line == NULL) {
        test_write_file(path, config, size);
    } else {
        const int n = (int)strcspn(line, ":");
        snprintf(key, sizeof key, "%.*s", n, line);
        char *at = strstr(config, key);
        ck_assert_ptr_nonnull(at);
        const char *rest = at + strcspn(at, ",\n");
        snprintf(text, sizeof text, "%.*s%s%.*s", (int)(at - config), config, line,
                 (int)(config + size - rest), rest);
        test_write_text(path, text);
    }
    free(config);
}

#define MOE(layer, rest) "model.layers." #layer ".block_sparse_moe." rest
#define W1(expert) MOE(0, "experts." #expert ".w1.weight")

static const struct {
    const char *line; /* of config.json */
    edit edits[EDITS];
    dt_status status;
    const char *words[2];
} broken[] = {
    { NULL, { { NULL } }, DT_OK, { "", "" } },
    { NULL, { { .drop = W1(3) } }, DT_ERR_FORMAT, { "1 missing (" W1(3) ")", "config.json" } },
    { NULL,
      { { .drop = "layers.0.block_sparse_moe.experts.2." } },
      DT_ERR_FORMAT,
      { "3 missing (", W1(2) } },
    { NULL,
      { { .add = W1(4), .copy = W1(3) } },
      DT_ERR_FORMAT,
      { "1 not of this model (" W1(4) ")", "" } },
    { NULL,
      { { .add = W1(03), .copy = W1(3) } },
      DT_ERR_FORMAT,
      { "1 not of this model (" W1(03) ")", "" } },
    { NULL,
      { { .drop = W1(2), .add = W1(2), .copy = W1(1) "!" } },
      DT_ERR_FORMAT,
      { W1(2) " is BF16[16,24], not [24,16]", "" } },
    { NULL,
      { { .drop = MOE(1, "gate"), .add = MOE(1, "gate.weight"), .copy = "lm_head.weight" } },
      DT_ERR_FORMAT,
      { MOE(1, "gate.weight") " is BF16[32,16], not [4,16]", "" } },
    { NULL,
      { { .drop = "layers.1.block_sparse_moe",
          .add = "model.layers.1.mlp.gate_proj.weight",
          .copy = W1(0) },
        { .add = "model.layers.1.mlp.up_proj.weight", .copy = W1(0) },
        { .add = "model.layers.1.mlp.down_proj.weight", .copy = W1(0) "!" } },
      DT_ERR_FORMAT,
      { "4 missing (" MOE(1, "gate.weight"), "model.layers.1.mlp.gate_proj.weight" } },
    { NULL,
      { { .add = "model.layers.1.mlp.gate_proj.weight", .copy = W1(0) } },
      DT_ERR_FORMAT,
      { "1 not of this model (model.layers.1.mlp.gate_proj.weight)", "" } },
    { NULL,
      { { .add = MOE(2, "gate.weight"), .copy = MOE(1, "gate.weight") } },
      DT_ERR_FORMAT,
      { "1 not of this model (" MOE(2, "gate.weight") ")", "" } },
    { NULL,
      { { .add = MOE(2, "experts.0.w1.weight"), .copy = W1(0) } },
      DT_ERR_FORMAT,
      { "1 not of this model (" MOE(2, "experts.0.w1.weight") ")", "" } },
    { NULL,
      { { .add = "model.layers.0.moe.router.weight", .copy = MOE(1, "gate.weight") } },
      DT_ERR_FORMAT,
      { "gate.weight occurs twice", "" } },
    { NULL,
      { { .add = "model.layers.0.mlp.gate.weight", .copy = MOE(1, "gate.weight") } },
      DT_ERR_FORMAT,
      { "gate.weight occurs twice", MOE(0, "gate.weight") } },
    { NULL,
      { { .add = "model.layers.0.mlp.experts.gate_up_proj", .copy = "lm_head.weight" } },
      DT_ERR_FORMAT,
      { "model.layers.0.mlp.experts.gate_up_proj", "[experts, 2 intermediate_size" } },
    { "\"num_local_experts\": 3", { { NULL } }, DT_ERR_FORMAT, { "not of this model", W1(3) } },
    { "\"num_local_experts\": 5", { { NULL } }, DT_ERR_FORMAT, { "missing", W1(4) } },
    { "\"num_local_experts\": 0", { { NULL } }, DT_ERR_FORMAT, { "num_local_experts", "" } },
    { "\"num_local_experts\": 60000", { { NULL } }, DT_ERR_FORMAT, { "config.json", "" } },
    { "\"num_local_experts\": 1000000000", { { NULL } }, DT_ERR_FORMAT, { "", "" } },
    { "\"num_local_experts\": null",
      { { NULL } },
      DT_ERR_FORMAT,
      { "24 missing", "experts.7.w2.weight" } },
    { "\"num_experts_per_tok\": 5",
      { { NULL } },
      DT_ERR_FORMAT,
      { "num_experts_per_tok 5", "num_local_experts 4" } },
    { "\"num_experts_per_tok\": \"2\"",
      { { NULL } },
      DT_ERR_FORMAT,
      { "num_experts_per_tok", "" } },
    { "\"num_experts_per_tok\": null", { { NULL } }, DT_OK, { "", "" } },
    { "\"router_jitter_noise\": 0.1",
      { { NULL } },
      DT_ERR_UNSUPPORTED,
      { "router_jitter_noise 0.1", "" } },
    { "\"router_jitter_noise\": null", { { NULL } }, DT_OK, { "", "" } },
    { "\"router_aux_loss_coef\": -1", { { NULL } }, DT_ERR_FORMAT, { "router_aux_loss_coef", "" } },
    { "\"output_router_logits\": true", { { NULL } }, DT_OK, { "", "" } },
    { "\"sliding_window\": 0", { { NULL } }, DT_ERR_UNSUPPORTED, { "sliding_window 0", "" } },
    { "\"sliding_window\": 63", { { NULL } }, DT_OK, { "", "" } },
    { "\"sliding_window\": 64", { { NULL } }, DT_OK, { "", "" } },
    { "\"intermediate_size\": 23",
      { { NULL } },
      DT_ERR_FORMAT,
      { "24 of another form", "w2.weight is BF16[16,24], not [16,23]" } },
};

#define BROKEN ((int)(sizeof broken / sizeof broken[0]))

START_TEST(broken_folders)
{
    dt_module *m;
    dt_model_info info;
    write_tensors(broken[_i].edits);
    write_config(broken[_i].line);
    const dt_status s = dt_hf_load(ctx, own, &m, &info);
    ck_assert_msg(s == broken[_i].status, "%s: %s", dt_status_name(s), dt_error(ctx));
    for (int i = 0; i < 2 && s != DT_OK; i++) {
        ck_assert_msg(strstr(dt_error(ctx), broken[_i].words[i]) != NULL, "no '%s' in: %s",
                      broken[_i].words[i], dt_error(ctx));
    }
    ck_assert_uint_lt(dt_memory_of(ctx).peak, (size_t)256 << 20);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
}
END_TEST

/* ---- stacked experts of transformers 5 ------------------------------------------------------ */

/* [experts, ...] of one or two matrices of each expert, one after the other. */
static void add_stack(dt_writer *w, const dt_file *f, int layer, const char *name, const char *of,
                      char *bytes)
{
    int64_t dims[3] = { 4 };
    char text[128];
    size_t used = 0;
    const size_t n = strlen(of);
    for (int e = 0; e < 4; e++) {
        for (size_t k = 0; k < n; k++) {
            snprintf(text, sizeof text, "model.layers.%d.block_sparse_moe.experts.%d.w%c.weight",
                     layer, e, of[k]);
            const dt_file_entry *x = dt_file_find(f, text);
            memcpy(bytes + used, x->data, x->bytes);
            used += x->bytes;
            dims[1] = x->dims[0] * (int64_t)n;
            dims[2] = x->dims[1];
        }
    }
    snprintf(text, sizeof text, "model.layers.%d.mlp.experts.%s", layer, name);
    const dt_file_entry whole = { text, "BF16", 3, dims, .data = bytes };
    TEST_OK(ctx, dt_writer_add_bytes(w, &whole));
}

static void write_stacked(void)
{
    static char bytes[4][1 << 14];
    char path[TEST_PATH], name[64];
    dt_file *f;
    dt_writer *w;
    TEST_OK(ctx, dt_file_open(ctx, from, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        dt_file_entry e = *dt_file_at(f, i);
        if (strstr(e.name, ".experts.") != NULL) continue;
        const bool gate = strstr(e.name, "moe.gate") != NULL;
        snprintf(name, sizeof name, "model.layers.%c.mlp.gate.weight", e.name[13]);
        if (gate) e.name = name;
        TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    for (int layer = 0; layer < 2; layer++) {
        add_stack(w, f, layer, "gate_up_proj", "13", bytes[2 * layer]);
        add_stack(w, f, layer, "down_proj", "2", bytes[2 * layer + 1]);
    }
    test_join(path, own, "model.safetensors");
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

static void check_same_tensors(const char *a, const char *b)
{
    dt_file *file[2];
    TEST_OK(ctx, dt_file_open(ctx, a, &file[0]));
    TEST_OK(ctx, dt_file_open(ctx, b, &file[1]));
    ck_assert_int_eq(dt_file_count(file[0]), dt_file_count(file[1]));
    for (int64_t i = 0; i < dt_file_count(file[0]); i++) {
        const dt_file_entry *x = dt_file_at(file[0], i), *y = dt_file_find(file[1], x->name);
        TEST_EACH(y != NULL && strcmp(x->dtype, y->dtype) == 0 && x->bytes == y->bytes &&
                      memcmp(x->data, y->data, x->bytes) == 0,
                  "'%s' has other bytes", x->name);
    }
    dt_file_close(file[0]);
    dt_file_close(file[1]);
}

/* The same model, written with a tensor for each expert. */
START_TEST(stacked_experts)
{
    char to[TEST_PATH];
    dt_module *m;
    dt_model_info info;
    write_stacked();
    write_config("\"rope_theta\": 500.0, \"rope_parameters\": "
                 "{\"rope_theta\": 500.0, \"rope_type\": \"default\"}");
    check_same_tensors(from, own);
    TEST_OK(ctx, dt_hf_load(ctx, own, &m, &info));
    ck_assert_int_eq(info.grouped, DT_GROUPED_STACKED);
    test_join(to, own, "new");
    TEST_OK(ctx, dt_hf_save(m, &info, NULL, to));
    check_same_tensors(from, to);
    ck_assert_int_eq(test_shell(NULL, "cmp %s/config.json %s/config.json", own, to), 0);
    dt_model_info_free(ctx, &info);
    dt_module_free(m);
    write_config("\"num_local_experts\": 3");
    TEST_FAILS(ctx, DT_ERR_FORMAT, "is of 4 experts; num_local_experts is 3",
               dt_hf_load(ctx, own, &m, NULL));
}
END_TEST

/* ---- saving --------------------------------------------------------------------------------- */

static dt_model_info llama_info(const dt_llama_options *o)
{
    dt_model_info info = { .options = o };
    for (int i = 0; (info.family = dt_family_at(i)) != NULL; i++) {
        if (strcmp(info.family->name, "llama") == 0) break;
    }
    return info;
}

static dt_llama_options small_mixture(void)
{
    return (dt_llama_options){
        .vocab = 11,
        .context = 32,
        .layers = 2,
        .heads = 4,
        .width = 16,
        .hidden = 24,
        .theta = 500,
        .eps = 1e-6,
        .rope = { .factor = 1,
                  .low_freq_factor = 1,
                  .high_freq_factor = 4,
                  .original_context = 8192 },
        .moe = { .given = true, .experts = 3, .top_k = 2, .normalize = true, .balance = 0.02 }
    };
}

/* A model of detent is exported as Mixtral if Mixtral has all its options. */
START_TEST(new_folders)
{
    dt_llama_options o = small_mixture();
    char to[TEST_PATH], again[TEST_PATH];
    dt_module *m;
    dt_model_info info = llama_info(&o), said;
    if (_i == 1) o.qkv_bias = true;
    if (_i == 2) o.moe.normalize = false;
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    test_join(to, own, "hf");
    test_join(again, own, "again");
    if (_i > 0) {
        TEST_FAILS(ctx, DT_ERR_UNSUPPORTED, _i == 1 ? "qkv_bias 1" : "moe.normalize 0",
                   dt_hf_save(m, &info, NULL, to));
        ck_assert(!test_file_exists(to));
    } else {
        TEST_OK(ctx, dt_hf_save(m, &info, NULL, to));
        dt_module_free(m);
        TEST_OK(ctx, dt_hf_load(ctx, to, &m, &said));
        const dt_llama_options *got = said.options;
        ck_assert(got->moe.given && got->moe.normalize && got->moe.balance == 0.02);
        ck_assert(got->moe.experts == 3 && got->moe.top_k == 2 && got->eps == 1e-6);
        TEST_OK(ctx, dt_hf_save(m, &said, NULL, again));
        check_same_tensors(to, again);
        test_join(again, to, "config.json"); /* transformers 5 refuses 0 where it has a float */
        char *config = test_read_file(again, NULL);
        ck_assert(strstr(config, "\"router_jitter_noise\": 0.0") != NULL);
        ck_assert(strstr(config, "\"rope_theta\": 500.0") != NULL);
        free(config);
        dt_model_info_free(ctx, &said);
    }
    dt_module_free(m);
}
END_TEST

static void note_line(void *user, const char *line) { snprintf(user, 256, "%s", line); }

/* The factor of the z-loss is left out with a message; without a factor there is no message. */
START_TEST(factor_without_a_place)
{
    char to[TEST_PATH], said[256] = "";
    const dt_ctx_options options = { .log = note_line, .log_user = said };
    dt_llama_options o = small_mixture();
    const dt_model_info info = llama_info(&o);
    dt_ctx *c;
    dt_module *m;
    o.moe.z = _i * 0.25;
    ck_assert_int_eq(dt_ctx_create(&c, &options), DT_OK);
    TEST_OK(c, dt_llama_create(c, &o, &m));
    test_join(to, own, "hf");
    TEST_OK(c, dt_hf_save(m, &info, NULL, to));
    ck_assert_int_eq(strstr(said, "no place for moe.z, which is 0.25") != NULL, _i == 1);
    ck_assert(_i == 1 || *said == 0);
    dt_module_free(m);
    dt_ctx_free(c);
}
END_TEST

static dt_status load_and_save(dt_ctx *c, void *user)
{
    char to[TEST_PATH];
    dt_module *m = NULL;
    dt_model_info info = { .family = NULL };
    test_join(to, user, "new");
    test_remove(to);
    dt_status s = dt_hf_load(c, user, &m, &info);
    if (s == DT_OK) s = dt_hf_save(m, &info, NULL, to);
    dt_model_info_free(c, &info);
    dt_module_free(m);
    TEST_EACH((s == DT_OK) == test_file_exists(to), "%s: half a folder", dt_status_name(s));
    return s;
}

START_TEST(memory_fails)
{
    write_stacked();
    write_config(NULL);
    ck_assert_int_gt(test_every_allocation(load_and_save, own), 100);
}
END_TEST

/* After a change of any byte of the header the model loads, or there is an error. */
START_TEST(every_byte_of_a_header)
{
    char path[TEST_PATH];
    size_t size;
    static const char with[] = { 0, '"', '}', '9', ',', '.', '0', (char)0xff };
    if (_i == 0) write_stacked();
    else write_tensors((const edit[EDITS]){ { NULL } });
    write_config(NULL);
    test_join(path, own, "model.safetensors");
    char *bytes = test_read_file(path, &size);
    memcpy(strstr(bytes + 8, "detent.xxh3"), "no.longer..", strlen("detent.xxh3"));
    memcpy(strstr(bytes + 8, "detent.version"), "no.longer.....", strlen("detent.version"));
    const size_t header =
        8 + (size_t)(unsigned char)bytes[0] + 256 * (size_t)(unsigned char)bytes[1];
    for (size_t at = 8; at < header; at++) {
        dt_module *m;
        const char before = bytes[at];
        bytes[at] = with[(at + at / 8) % sizeof with];
        test_write_file(path, bytes, size);
        const dt_status s = dt_hf_load(ctx, own, &m, NULL);
        TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED, "byte %zu: %s: %s",
                  at, dt_status_name(s), dt_error(ctx));
        dt_module_free(m);
        bytes[at] = before;
    }
    free(bytes);
}
END_TEST

#define DETENT DETENT_BINARY_DIR "/detent"

/* A recipe may change how experts are trained, but not what they compute. */
START_TEST(recipes)
{
    char path[TEST_PATH], text[3 * TEST_PATH], *said;
    test_join(path, own, "r.yaml");
    snprintf(text, sizeof text,
             "run: {dir: %s/run}\nmodel: {family: llama, init: %s, moe: {balance: 0.5, z: 0.25}}\n"
             "data: {format: digits}\ntrain: {epochs: 1}\n",
             own, from);
    test_write_text(path, text);
    ck_assert_int_eq(test_shell(&said, DETENT " config show %s", path), 0);
    ck_assert_ptr_nonnull(strstr(said, "experts: 4 "));
    ck_assert_ptr_nonnull(strstr(said, "balance: 0.5 "));
    free(said);
    ck_assert_int_eq(test_shell(&said, DETENT " config show %s model.moe.top_k=1 2>&1", path), 2);
    ck_assert_ptr_nonnull(strstr(said, "'model.moe.top_k' is 1, but it is 2 in"));
    free(said);
    if (!test_golden(from, "hf/tiny")) return;
    ck_assert_int_eq(test_shell(&said,
                                DETENT " config show %s model.init=%s model.moe.experts=4 2>&1",
                                path, from),
                     2);
    ck_assert_ptr_nonnull(strstr(said, "'model.moe' is"));
    ck_assert_ptr_nonnull(strstr(said, "but it is not there in"));
    free(said);
}
END_TEST

Suite *test_hf_mixtral_suite(void)
{
    Suite *s = suite_create("hf_mixtral");
    TCase *c = tcase_create("hf_mixtral");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, broken_folders, 0, BROKEN);
    tcase_add_test(c, stacked_experts);
    tcase_add_loop_test(c, new_folders, 0, 3);
    tcase_add_loop_test(c, factor_without_a_place, 0, 2);
    tcase_add_test(c, recipes);
    tcase_add_test(c, memory_fails);
    tcase_add_loop_test(c, every_byte_of_a_header, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
