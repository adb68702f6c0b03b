/* Grouped parameters in files: saved stacked or as one tensor per expert, loaded into grouped or
 * separate parameters, with the same bits; malformed files are refused and change nothing. */
#include "testing.h"

#include "core/core.h"

#include <detent/experimental/io.h>
#include <detent/experimental/ops.h>

#include <stdio.h>
#include <stdlib.h>

static dt_ctx *ctx;
static char folder[TEST_PATH], path[TEST_PATH];

static void setup(void)
{
    dt_ctx_options options = dt_ctx_defaults();
    options.threads = 1;
    TEST_OK(NULL, dt_ctx_create(&ctx, &options));
    test_folder(folder);
    test_join(path, folder, "model.safetensors");
}

static void teardown(void)
{
    ck_assert_uint_eq(dt_memory_of(ctx).used, 0);
    dt_ctx_free(ctx);
}

/* ---- models --------------------------------------------------------------------------------- */

#define N 4

enum { GROUPED, APART };

static const dt_module_type plain = { .name = "plain" };

static dt_status fill(dt_tensor *x, int64_t first)
{
    float *v = dt_data_mut(x);
    for (int64_t i = 0; i < dt_count(x); i++) v[i] = (float)((first + i) % 97) / 8 - 5;
    return DT_OK;
}

/* A parameter [N, ...] that is grouped, or a module of its name that holds N parameters. */
static dt_status add(dt_module *m, const char *name, int form, int rank, const int64_t *dims)
{
    dt_tensor *x;
    dt_module *list;
    if (form == GROUPED) {
        DT__TRY(dt_tensor_create(dt_module_ctx(m), DT_F32, rank, dims, &x));
        dt_status s = dt_set_grouped(x);
        if (s == DT_OK) s = fill(x, rank);
        if (s == DT_OK) return dt_module_add_param(m, name, x);
        dt_tensor_free(x);
        return s;
    }
    DT__TRY(dt_module_create(dt_module_ctx(m), &plain, 0, &list));
    DT__TRY(dt_module_add(m, name, list));
    int64_t count = 1;
    for (int i = 1; i < rank; i++) count *= dims[i];
    for (int64_t i = 0; i < dims[0]; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)i);
        DT__TRY(dt_tensor_create(dt_module_ctx(m), DT_F32, rank - 1, dims + 1, &x));
        fill(x, rank + i * count);
        DT__TRY(dt_module_add_param(list, number, x));
    }
    return DT_OK;
}

static dt_status build(dt_module *m, int form)
{
    static const int64_t weight[] = { N, 3, 5 }, bias[] = { N, 3 }, rest[] = { 7 };
    dt_module *experts;
    dt_tensor *x;
    DT__TRY(dt_module_create(dt_module_ctx(m), &plain, 0, &experts));
    DT__TRY(dt_module_add(m, "experts", experts));
    DT__TRY(add(experts, "weight", form, 3, weight));
    DT__TRY(add(experts, "bias", form, 2, bias));
    DT__TRY(dt_tensor_create(dt_module_ctx(m), DT_F32, 1, rest, &x));
    fill(x, 1);
    return dt_module_add_param(m, "rest", x);
}

static dt_status make(dt_ctx *c, int form, dt_module **out)
{
    DT__TRY(dt_module_create(c, &plain, 0, out));
    const dt_status s = build(*out, form);
    if (s != DT_OK) {
        dt_module_free(*out);
        *out = NULL;
    }
    return s;
}

static dt_module *made(int form)
{
    dt_module *m;
    TEST_OK(ctx, make(ctx, form, &m));
    return m;
}

/* All values, in the order of visiting, which is the same for both forms. */
static dt_status append(void *user, const char *name, dt_tensor *x, dt_entry_kind kind)
{
    float **to = user;
    (void)name;
    (void)kind;
    memcpy(*to, dt_data(x), (size_t)dt_count(x) * sizeof **to);
    *to += dt_count(x);
    return DT_OK;
}

#define VALUES (N * 15 + N * 3 + 7)

static void values_of(dt_module *m, float values[VALUES])
{
    float *to = values;
    TEST_OK(ctx, dt_module_visit(m, append, &to));
    ck_assert_int_eq(to - values, VALUES);
}

static dt_status clear(void *user, const char *name, dt_tensor *x, dt_entry_kind kind)
{
    (void)user;
    (void)name;
    (void)kind;
    memset(dt_data_mut(x), 0, (size_t)dt_count(x) * sizeof(float));
    return DT_OK;
}

static void save(dt_module *m, int grouped)
{
    const dt_model_info info = { .grouped = grouped };
    TEST_OK(ctx, dt_model_save(m, &info, path));
}

static int64_t tensors_in(const char *file)
{
    dt_file *f;
    TEST_OK(ctx, dt_file_open(ctx, file, &f));
    TEST_OK(ctx, dt_file_check(f));
    const int64_t n = dt_file_count(f);
    dt_file_close(f);
    return n;
}

/* ---- both forms ----------------------------------------------------------------------------- */

START_TEST(every_form_loads_into_every_model)
{
    const int from = _i & 1, grouped = _i >> 1 & 1, to = _i >> 2 & 1;
    float before[VALUES], after[VALUES];
    dt_module *m = made(from), *again = made(to);
    values_of(m, before);
    save(m, grouped);
    ck_assert_int_eq(tensors_in(path), from == GROUPED && grouped == DT_GROUPED_STACKED ? 3 : 9);
    TEST_OK(ctx, dt_module_visit(again, clear, NULL));
    TEST_OK(ctx, dt_model_load_weights(again, path));
    values_of(again, after);
    ck_assert_mem_eq(before, after, sizeof before);
    dt_module_free(m);
    dt_module_free(again);
}
END_TEST

/* The bytes are the same, whether the N tensors are experts or separate parameters. */
START_TEST(experts_are_plain_tensors)
{
    char other[TEST_PATH];
    size_t a, b;
    test_join(other, folder, "apart.safetensors");
    dt_module *grouped = made(GROUPED), *apart = made(APART);
    save(grouped, DT_GROUPED_EXPERTS);
    TEST_OK(ctx, dt_model_save(apart, NULL, other));
    char *x = test_read_file(path, &a), *y = test_read_file(other, &b);
    ck_assert_uint_eq(a, b);
    ck_assert_mem_eq(x, y, a);
    free(x);
    free(y);
    dt_module_free(grouped);
    dt_module_free(apart);
}
END_TEST

/* ---- damaged files -------------------------------------------------------------------------- */

/* The tensors of a file besides bias and rest. */
static const struct {
    const char *names;    /* separated by spaces; `!`: another shape, `~`: F64, `@`: a count of 3 */
    int form;             /* of the model */
    const char *words[3]; /* of the message; NULL: it loads */
} neither[] = {
    { "weight", GROUPED, { NULL } },
    { "weight", APART, { NULL } },
    { "weight.0 weight.1 weight.2 weight.3", GROUPED, { NULL } },
    { "weight.0 weight.1 weight.2 weight.3", APART, { NULL } },
    { "weight.0 weight.3", GROUPED, { "2 missing", "experts.weight.1", "experts.weight.2" } },
    { "weight.0 weight.1 weight.2", GROUPED, { "1 missing (experts.weight.3)", "", "" } },
    { "weight.1 weight.2 weight.3", APART, { "1 missing (experts.weight.0)", "", "" } },
    { "weight weight.0 weight.1 weight.2 weight.3",
      GROUPED,
      { "1 of another form", "experts.weight is there besides experts.weight.0", "" } },
    { "weight weight.2", GROUPED, { "experts.weight is there besides experts.weight.2", "", "" } },
    { "weight weight.0 weight.1 weight.2 weight.3",
      APART,
      { "experts.weight is there besides experts.weight.0", "", "" } },
    { "weight weight.2", APART, { "experts.weight is there besides experts.weight.2", "", "" } },
    { "weight.0 weight.1 weight.2 weight.3 weight.7",
      GROUPED,
      { "1 not of this model (experts.weight.7)", "", "" } },
    { "weight.0 weight.1 weight.2 weight.3 weight.4",
      APART,
      { "1 not of this model (experts.weight.4)", "", "" } },
    { "weight.0 weight.01 weight.2 weight.3",
      GROUPED,
      { "1 missing (experts.weight.1)", "1 not of this model (experts.weight.01)", "" } },
    { "weight weight.00",
      GROUPED,
      { "experts.weight is there besides experts.weight.00", "(experts.weight.00)", "" } },
    { "weight.0 weight.1 weight.2 weight.3 weight.99999999999999999999",
      GROUPED,
      { "not of this model (experts.weight.99999999999999999999)", "", "" } },
    { "weight.0 weight.1 !weight.2 weight.3",
      GROUPED,
      { "experts.weight.2 is F32[5,3], not [3,5]", "", "" } },
    { "weight.0 weight.1 !weight.2 weight.3",
      APART,
      { "experts.weight.2 is F32[5,3], not [3,5]", "", "" } },
    { "!weight.0 !weight.1 !weight.2 !weight.3", GROUPED, { "4 of another form", "", "" } },
    { "weight.0 ~weight.1 weight.2 weight.3",
      GROUPED,
      { "experts.weight.1 is F64[3,5], not F32[3,5] as experts.weight.0", "", "" } },
    { "~weight.0 ~weight.1 ~weight.2 ~weight.3", GROUPED, { NULL } },
    { "@weight", GROUPED, { "experts.weight is F32[3,3,5], not [4,3,5]", "", "" } },
    { "@weight", APART, { "experts.weight is F32[3,3,5], not the model's 4 tensors", "", "" } },
    { "weight.0.codes weight.1 weight.2 weight.3", GROUPED, { "missing", "weight.0", "" } },
    { "", GROUPED, { "1 missing (experts.weight)", "", "" } },
    { "", APART, { "4 missing (experts.weight.0, experts.weight.1", "", "" } },
};

#define FILES ((int)(sizeof neither / sizeof neither[0]))

static void write_tensor(dt_writer *w, const char *word)
{
    char name[64];
    static const double zeros[N * 15];
    const bool other = *word == '!', is_double = *word == '~', fewer = *word == '@';
    if (other || is_double || fewer) word++;
    snprintf(name, sizeof name, "experts.%s", word);
    const bool whole = strcmp(word, "weight") == 0;
    const int64_t dims[] = { fewer ? 3 : N, other ? 5 : 3, other ? 3 : 5 };
    const dt_file_entry e = { .name = name,
                              .dtype = is_double ? "F64" : "F32",
                              .rank = whole ? 3 : 2,
                              .dims = whole ? dims : dims + 1,
                              .data = zeros };
    TEST_OK(ctx, dt_writer_add_bytes(w, &e));
}

static void write_wrong_file(const char *names)
{
    char text[256], *rest = text;
    static const float zeros[N * 3];
    const int64_t bias[] = { N, 3 }, others[] = { 7 };
    dt_writer *w;
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    snprintf(text, sizeof text, "%s", names);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) write_tensor(w, word);
    const dt_file_entry b = { "experts.bias", "F32", 2, bias, .data = zeros };
    const dt_file_entry r = { "rest", "F32", 1, others, .data = zeros };
    TEST_OK(ctx, dt_writer_add_bytes(w, &b));
    TEST_OK(ctx, dt_writer_add_bytes(w, &r));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
}

START_TEST(malformed_expert_files_are_refused)
{
    float before[VALUES], after[VALUES];
    dt_module *m = made(neither[_i].form);
    write_wrong_file(neither[_i].names);
    values_of(m, before);
    const dt_status s = dt_model_load_weights(m, path);
    const bool loads = neither[_i].words[0] == NULL;
    ck_assert_msg(s == (loads ? DT_OK : DT_ERR_FORMAT), "%s: %s: %s", neither[_i].names,
                  dt_status_name(s), dt_error(ctx));
    values_of(m, after);
    ck_assert_msg((memcmp(before, after, sizeof before) == 0) != loads, "%s", neither[_i].names);
    for (int i = 0; i < 3 && !loads; i++) {
        ck_assert_msg(strstr(dt_error(ctx), neither[_i].words[i]) != NULL, "no '%s' in: %s",
                      neither[_i].words[i], dt_error(ctx));
    }
    dt_module_free(m);
}
END_TEST

/* ---- training checkpoints ------------------------------------------------------------------- */

typedef struct run {
    dt_module *m;
    dt_optimizer *optimizer;
    dt_training_state state;
} run;

static dt_status open_run(dt_ctx *c, int form, run *r)
{
    dt_optimizer_options o = dt_optimizer_defaults();
    *r = (run){ .m = NULL };
    o.name = DT_ADAMW;
    DT__TRY(make(c, form, &r->m));
    DT__TRY(dt_optimizer_create(r->m, &o, &r->optimizer));
    r->state = (dt_training_state){ .module = r->m, .optimizer = r->optimizer };
    return DT_OK;
}

static void close_run(run *r)
{
    dt_optimizer_free(r->optimizer);
    dt_module_free(r->m);
}

/* The gradient of the sum of all squares, in which elements are independent of each other. */
static dt_status add_squares(void *user, const char *name, dt_tensor *x, dt_entry_kind kind)
{
    dt_tensor **loss = user;
    dt_tape *t = *(dt_tape **)(loss + 1);
    (void)name;
    (void)kind;
    dt_tensor *own = dt_sum(t, dt_square(t, x), NULL);
    *loss = *loss == NULL ? own : dt_add(t, *loss, own);
    return dt_tape_status(t);
}

static dt_status update(run *r, int times)
{
    struct {
        dt_tensor *loss;
        dt_tape *t;
    } step;
    dt_status s = dt_tape_create(dt_module_ctx(r->m), &step.t);
    for (; times > 0 && s == DT_OK; times--) {
        step.loss = NULL;
        s = dt_module_visit(r->m, add_squares, &step);
        dt_zero_grad(r->m);
        if (s == DT_OK) s = dt_backward(step.t, step.loss, NULL);
        dt_tape_reset(step.t);
        if (s == DT_OK) s = dt_optimizer_step(r->optimizer, step.t, 0.1);
        dt_tape_reset(step.t);
    }
    dt_tape_free(step.t);
    return s;
}

/* Two updates, saved, loaded, two more, equal four uninterrupted ones in every form of file and
 * model. */
START_TEST(runs_resume_in_either_form)
{
    const int from = _i & 1, grouped = _i >> 1 & 1, to = _i >> 2 & 1;
    float want[VALUES], got[VALUES];
    run a, b;
    TEST_OK(ctx, open_run(ctx, from, &a));
    TEST_OK(ctx, open_run(ctx, to, &b));
    TEST_OK(ctx, update(&a, 2));
    a.state.info.grouped = grouped;
    TEST_OK(ctx, dt_checkpoint_save(&a.state, path));
    ck_assert_int_eq(tensors_in(path),
                     (from == GROUPED && grouped == DT_GROUPED_STACKED ? 4 * 3 : 4 * 9) + 4);
    TEST_OK(ctx, update(&a, 2));
    TEST_OK(ctx, dt_checkpoint_load(&b.state, path));
    TEST_OK(ctx, update(&b, 2));
    values_of(a.m, want);
    values_of(b.m, got);
    ck_assert_mem_eq(want, got, sizeof want);
    close_run(&a);
    close_run(&b);
}
END_TEST

/* A file of the state with one tensor left out or changed. */
static void write_changed(const char *name, bool drop, const char *to)
{
    dt_file *f;
    dt_writer *w;
    static const int64_t other = 77;
    const char *key, *value;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        TEST_OK(ctx, dt_writer_meta(w, key, value));
    }
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        dt_file_entry e = *dt_file_at(f, i);
        const bool meant = strcmp(e.name, name) == 0;
        if (meant) e.data = &other;
        if (!meant || !drop) TEST_OK(ctx, dt_writer_add_bytes(w, &e));
    }
    TEST_OK(ctx, dt_writer_write(w, to));
    dt_writer_free(w);
    dt_file_close(f);
}

START_TEST(a_lost_state_is_named)
{
    static const struct {
        const char *name, *text;
        bool drop;
    } lost[] = {
        { "detent.optim.exp_avg.experts.weight.2",
          "1 missing (detent.optim.exp_avg.experts.weight.2)", true },
        { "detent.optim.step.experts.bias.3", "1 missing (detent.optim.step.experts.bias.3)",
          true },
        { "detent.optim.step.experts.bias.3",
          "detent.optim.step.experts.bias.3 differs from detent.optim.step.experts.bias.0", false },
    };
    char other[TEST_PATH];
    float before[VALUES], after[VALUES];
    run a, b;
    test_join(other, folder, "changed.safetensors");
    TEST_OK(ctx, open_run(ctx, GROUPED, &a));
    TEST_OK(ctx, open_run(ctx, GROUPED, &b));
    TEST_OK(ctx, update(&a, 2));
    a.state.info.grouped = DT_GROUPED_EXPERTS;
    TEST_OK(ctx, dt_checkpoint_save(&a.state, path));
    write_changed(lost[_i].name, lost[_i].drop, other);
    values_of(b.m, before);
    TEST_FAILS(ctx, DT_ERR_FORMAT, lost[_i].text, dt_checkpoint_load(&b.state, other));
    values_of(b.m, after);
    ck_assert_mem_eq(before, after, sizeof before);
    close_run(&a);
    close_run(&b);
}
END_TEST

/* ---- quantized models ----------------------------------------------------------------------- */

static dt_llama_options llama_options(int64_t experts)
{
    return (dt_llama_options){ .vocab = 13,
                               .context = 16,
                               .layers = 2,
                               .heads = 2,
                               .width = 24,
                               .hidden = 20,
                               .theta = 500,
                               .eps = 1e-6,
                               .rope = { .factor = 1,
                                         .low_freq_factor = 1,
                                         .high_freq_factor = 4,
                                         .original_context = 8192 },
                               .moe = { .given = true,
                                        .experts = experts,
                                        .top_k = experts < 2 ? 1 : 2,
                                        .normalize = true } };
}

static dt_model_info llama_info(const dt_llama_options *o)
{
    dt_model_info info = { .options = o };
    for (int i = 0; (info.family = dt_family_at(i)) != NULL; i++) {
        if (strcmp(info.family->name, "llama") == 0) break;
    }
    return info;
}

/* Logits of a few tokens; in training observers see the batch, too. */
static void run_model(dt_module *m, bool training, float logits[2 * 6 * 13])
{
    int32_t ids[12];
    dt_tensor *x;
    dt_tape *t;
    for (int i = 0; i < 12; i++) ids[i] = i * 5 % 13;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, (const int64_t[]){ 2, 6 }, ids, &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(m, training);
    const dt_tensor *y = dt_forward(t, m, x);
    TEST_OK(ctx, dt_tape_status(t));
    memcpy(logits, dt_data(y), 2 * 6 * 13 * sizeof(float));
    dt_tape_free(t);
    dt_tensor_free(x);
}

static void check_same_bytes(const char *a, const char *b)
{
    size_t n, k;
    char *x = test_read_file(a, &n), *y = test_read_file(b, &k);
    ck_assert_uint_eq(n, k);
    ck_assert_msg(memcmp(x, y, n) == 0, "%s and %s differ", a, b);
    free(x);
    free(y);
}

/* A file in either form gives the bits of m, and saved again in either form the same file. */
static void check_file(dt_module *m, const char *file, int form, const char *const files[2])
{
    char again[TEST_PATH];
    float want[2 * 6 * 13], got[2 * 6 * 13];
    dt_module *loaded;
    dt_model_info info;
    test_join(again, folder, "again.safetensors");
    TEST_OK(ctx, dt_model_load(ctx, file, &loaded, &info));
    ck_assert_int_eq(info.grouped, form);
    run_model(m, false, want);
    run_model(loaded, false, got);
    ck_assert_mem_eq(want, got, sizeof want);
    for (int i = 0; i < 2; i++) {
        info.grouped = i;
        TEST_OK(ctx, dt_model_save(loaded, &info, again));
        check_same_bytes(again, files[i]);
    }
    dt_model_info_free(ctx, &info);
    dt_module_free(loaded);
}

static void check_listed(const char *const files[2])
{
    dt_file *f;
    dt_file_weights *w[2];
    for (int i = 0; i < 2; i++) {
        TEST_OK(ctx, dt_file_open(ctx, files[i], &f));
        TEST_OK(ctx, dt_model_check(f));
        TEST_OK(ctx, dt_file_weights_read(f, &w[i]));
        dt_file_close(f);
    }
    ck_assert_int_eq(dt_file_weights_count(w[0]), dt_file_weights_count(w[1]));
    for (int64_t i = 0; i < dt_file_weights_count(w[0]); i++) {
        const dt_file_weight *a = dt_file_weights_at(w[0], i), *b = dt_file_weights_at(w[1], i);
        ck_assert_str_eq(a->name, b->name);
        ck_assert_uint_gt(a->bytes, 0);
        ck_assert_uint_eq(a->bytes, b->bytes);
        ck_assert_int_eq(a->experts, b->experts);
    }
    for (int i = 0; i < 2; i++) dt_file_weights_free(w[i]);
}

static void check_forms(dt_module *m, const dt_llama_options *o)
{
    char path_of[2][TEST_PATH];
    const char *const files[] = { path_of[0], path_of[1] };
    for (int i = 0; i < 2; i++) {
        dt_model_info info = llama_info(o);
        test_join(path_of[i], folder, dt_grouped_forms[i]);
        info.grouped = i;
        TEST_OK(ctx, dt_model_save(m, &info, files[i]));
    }
    if (o->moe.experts > 1) ck_assert_int_gt(tensors_in(files[1]), tensors_in(files[0]));
    check_listed(files);
    for (int i = 0; i < 2; i++) check_file(m, files[i], i, files);
}

#define RANGES 3
static const int ranges[RANGES] = { DT_RANGE_DYNAMIC, DT_RANGE_STATIC, DT_RANGE_LEARNED };

/* Prepared and converted, with one of so many presets (another for each range), and every
 * granularity and range of weights. */
static const test_draws preset_steps = { .usual = 1, .sanitized = 3 };

START_TEST(quantized_models_in_either_form)
{
    const int range = _i % RANGES, granularity = _i / RANGES % 3, experts = _i / RANGES / 3;
    float logits[2 * 6 * 13];
    const dt_llama_options o = llama_options(experts == 0 ? 3 : 1);
    if (ranges[range] == DT_RANGE_LEARNED && granularity == DT_PER_GROUP)
        return; /* there is none */
    for (int preset = 0; preset < TEST_PRESETS; preset++) {
        dt_module *m;
        dt_qat_options qat = dt_qat_defaults();
        if (preset == DT_INT8_BLOCK_INT4_WEIGHT && granularity != DT_PER_GROUP) continue;
        if (TEST_OF_BLOCKS(preset)) continue; /* it has one form, of groups of its own */
        if ((preset + _i) % test_count(preset_steps) != 0) continue;
        qat.preset = preset;
        qat.weight.quant.granularity = granularity;
        qat.weight.has_granularity = true;
        qat.weight.quant.group_size = 8;
        qat.weight.has_group_size = granularity == DT_PER_GROUP;
        qat.weight.quant.range = ranges[range];
        qat.weight.has_range = true;
        TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
        TEST_OK(ctx, dt_prepare(m, &qat));
        run_model(m, true, logits);
        check_forms(m, &o);
        TEST_OK(ctx, dt_convert(m, NULL, NULL));
        check_forms(m, &o);
        dt_module_free(m);
    }
}
END_TEST

/* Random codes, and columns of each group of the op in another order. */
static dt_status deal(void *user, const char *name, const dt_tensor *master,
                      const dt_quant_spec *quant, const dt_code_rows *to)
{
    const int64_t columns = dt_dim(master, -1), rows = dt_count(master) / columns;
    const int64_t size = quant->group_size, groups = (columns + size - 1) / size;
    (void)user;
    (void)name;
    for (int64_t i = 0; i < rows * columns; i++) to->codes[i] = (int8_t)(i * 5 % 16 - 8);
    for (int64_t i = 0; i < rows * groups; i++) to->scale[i] = (float)(1 + i % 3) / 64;
    for (int64_t g = 0; g < to->op_groups; g++) {
        for (int64_t k = 0; k < columns; k++) {
            to->group_of[g * columns + (k * 7 + g) % columns] = (int32_t)(k / size);
        }
    }
    return DT_OK;
}

START_TEST(orders_of_experts)
{
    const dt_llama_options o = llama_options(_i == 0 ? 3 : 1);
    dt_module *m;
    dt_file *f;
    char file[TEST_PATH];
    dt_qat_options qat = dt_qat_defaults();
    qat.weight.quant.group_size = 8;
    qat.weight.has_group_size = true;
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_convert(m, &(dt_rounder){ .name = "dealer", .round = deal }, NULL));
    check_forms(m, &o);
    test_join(file, folder, "experts");
    TEST_OK(ctx, dt_file_open(ctx, file, &f));
    const dt_file_entry *e = dt_file_find(f, "model.layers.1.moe.w_up.weight.0.g_idx");
    ck_assert(e != NULL && e->rank == 1 && e->dims[0] == 24);
    dt_file_close(f);
    dt_module_free(m);
}
END_TEST

/* One update of a model that is quantized while it trains. */
static void train_model(run *r)
{
    int32_t ids[12];
    dt_tensor *x;
    dt_tape *t;
    for (int i = 0; i < 12; i++) ids[i] = i * 7 % 13;
    TEST_OK(ctx, dt_tensor_from(ctx, DT_I32, 2, (const int64_t[]){ 2, 6 }, ids, &x));
    TEST_OK(ctx, dt_tape_create(ctx, &t));
    dt_train(r->m, true);
    dt_tensor *loss = dt_token_loss(t, r->m, x, x, NULL, NULL);
    dt_zero_grad(r->m);
    TEST_OK(ctx, dt_backward(t, loss, NULL));
    dt_tape_reset(t);
    TEST_OK(ctx, dt_optimizer_step(r->optimizer, t, 0.01));
    dt_tape_free(t);
    dt_tensor_free(x);
}

static void open_model(run *r, const dt_llama_options *o)
{
    const dt_optimizer_options adamw = dt_optimizer_defaults();
    *r = (run){ .m = NULL };
    TEST_OK(ctx, dt_llama_create(ctx, o, &r->m));
    TEST_OK(ctx, dt_optimizer_create(r->m, &adamw, &r->optimizer));
    r->state =
        (dt_training_state){ .module = r->m, .info = llama_info(o), .optimizer = r->optimizer };
}

/* Masters, learned scales, observed ranges, and the moments of all of them. */
START_TEST(quantized_runs_resume_in_either_form)
{
    const dt_llama_options o = llama_options(3);
    char files[3][TEST_PATH];
    dt_qat_options qat = dt_qat_defaults();
    run a, b;
    qat.preset = _i;
    open_model(&a, &o);
    TEST_OK(ctx, dt_prepare(a.m, &qat));
    for (int i = 0; i < 2; i++) train_model(&a);
    for (int i = 0; i < 2; i++) {
        test_join(files[i], folder, dt_grouped_forms[i]);
        a.state.info.grouped = i;
        TEST_OK(ctx, dt_checkpoint_save(&a.state, files[i]));
    }
    test_join(files[2], folder, "again");
    a.state.info.grouped = DT_GROUPED_STACKED;
    train_model(&a);
    TEST_OK(ctx, dt_checkpoint_save(&a.state, path));
    for (int i = 0; i < 2; i++) {
        open_model(&b, &o);
        TEST_OK(ctx, dt_checkpoint_load(&b.state, files[i]));
        b.state.info.grouped = !i;
        TEST_OK(ctx, dt_checkpoint_save(&b.state, files[2]));
        check_same_bytes(files[!i], files[2]);
        b.state.info.grouped = DT_GROUPED_STACKED;
        train_model(&b);
        TEST_OK(ctx, dt_checkpoint_save(&b.state, files[2]));
        check_same_bytes(path, files[2]);
        close_run(&b);
    }
    close_run(&a);
}
END_TEST

#define DETENT DETENT_BINARY_DIR "/detent"

/* The program lists a grouped weight as one row in either form, and converts one form into the
 * other. */
START_TEST(commands)
{
    const dt_llama_options o = llama_options(3);
    dt_module *m;
    char *said;
    const dt_model_info info = llama_info(&o);
    const dt_qat_options qat = dt_qat_defaults();
    TEST_OK(ctx, dt_llama_create(ctx, &o, &m));
    TEST_OK(ctx, dt_prepare(m, &qat));
    TEST_OK(ctx, dt_convert(m, NULL, NULL));
    TEST_OK(ctx, dt_model_save(m, &info, path));
    dt_module_free(m);
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && " DETENT " export model.safetensors --format experts -o "
                                "m > said && " DETENT " export m --format stacked -o s >> said && "
                                "cmp s model.safetensors && ! cmp -s m s && " DETENT
                                " check m >> said && " DETENT " inspect m > i && " DETENT
                                " inspect s > j && cmp i j",
                                folder),
                     0);
    ck_assert_int_eq(test_shell(&said, "cat %s/i", folder), 0);
    ck_assert_ptr_nonnull(strstr(said, "3 x [20,24]"));
    free(said);
    ck_assert_int_eq(test_shell(&said,
                                "cd %s && " DETENT " export model.safetensors --format members -o "
                                "n 2>&1 && cmp m n",
                                folder),
                     0);
    ck_assert_ptr_nonnull(strstr(said, "--format members is now called experts"));
    free(said);
    ck_assert_int_eq(test_shell(&said, "cat %s/i", folder), 0);
    ck_assert_ptr_null(strstr(said, "weight.0"));
    free(said);
    ck_assert_int_eq(
        test_shell(&said, "cd %s && " DETENT " export m --format experts -o n --dequantize 2>&1",
                   folder),
        2);
    ck_assert_ptr_nonnull(strstr(said, "--dequantize is an option of --format hf, not of"));
    free(said);
}
END_TEST

/* ---- allocations and damaged files ---------------------------------------------------------- */

static dt_status save_and_load(dt_ctx *c, void *user)
{
    const int *grouped = user;
    run a = { .m = NULL }, b = { .m = NULL };
    dt_status s = open_run(c, GROUPED, &a);
    if (s == DT_OK) s = open_run(c, APART, &b);
    if (s == DT_OK) s = update(&a, 1);
    a.state.info.grouped = *grouped;
    if (s == DT_OK) s = dt_checkpoint_save(&a.state, path);
    if (s == DT_OK) s = dt_checkpoint_load(&b.state, path);
    if (s == DT_OK) s = dt_checkpoint_save(&b.state, path);
    if (s == DT_OK) s = dt_checkpoint_load(&a.state, path);
    close_run(&a);
    close_run(&b);
    return s;
}

START_TEST(memory_fails)
{
    int grouped = _i;
    ck_assert_int_gt(test_every_allocation(save_and_load, &grouped), 100);
}
END_TEST

/* After a change of any byte of the header the file loads, or there is an error. */
START_TEST(every_byte_of_a_header)
{
    size_t size;
    static const char with[] = { 0, '"', '}', '9', ',', '.', '0', (char)0xff };
    dt_module *m = made(GROUPED), *to = made(_i);
    save(m, _i == GROUPED ? DT_GROUPED_EXPERTS : DT_GROUPED_STACKED);
    char *bytes = test_read_file(path, &size);
    char *hash = strstr(bytes + 8, "detent.xxh3"); /* without its hash: the header decides */
    memcpy(hash, "no.longer..", strlen("detent.xxh3"));
    memcpy(strstr(bytes + 8, "detent.version"), "no.longer.....", strlen("detent.version"));
    const size_t header =
        8 + (size_t)(unsigned char)bytes[0] + 256 * (size_t)(unsigned char)bytes[1];
    for (size_t at = 8; at < header; at++) {
        for (int i = 0; i < 3; i++) {
            const char before = bytes[at];
            bytes[at] = with[(at + 3 * (size_t)i) % sizeof with];
            test_write_file(path, bytes, size);
            const dt_status s = dt_model_load_weights(to, path);
            TEST_EACH(s == DT_OK || s == DT_ERR_FORMAT || s == DT_ERR_UNSUPPORTED,
                      "byte %zu: %s: %s", at, dt_status_name(s), dt_error(ctx));
            bytes[at] = before;
        }
    }
    free(bytes);
    dt_module_free(m);
    dt_module_free(to);
}
END_TEST

Suite *test_expert_files_suite(void)
{
    Suite *s = suite_create("experts");
    TCase *c = tcase_create("experts");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, every_form_loads_into_every_model, 0, 8);
    tcase_add_test(c, experts_are_plain_tensors);
    tcase_add_loop_test(c, malformed_expert_files_are_refused, 0, FILES);
    tcase_add_loop_test(c, runs_resume_in_either_form, 0, 8);
    tcase_add_loop_test(c, a_lost_state_is_named, 0, 3);
    tcase_add_loop_test(c, quantized_models_in_either_form, 0, 2 * 3 * RANGES);
    tcase_add_loop_test(c, orders_of_experts, 0, 2);
    tcase_add_loop_test(c, quantized_runs_resume_in_either_form, 0, TEST_PRESETS);
    tcase_add_test(c, commands);
    tcase_add_loop_test(c, memory_fails, 0, 2);
    tcase_add_loop_test(c, every_byte_of_a_header, 0, 2);
    suite_add_tcase(s, c);
    return s;
}
