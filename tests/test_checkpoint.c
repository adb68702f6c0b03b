/* Training checkpoints: 7 steps, save, load, 7 more equal 14 uninterrupted steps, bit for bit, on
 * any number of threads; checkpoints of another model are refused and change nothing; the newest
 * undamaged one is found. */
#include "models.h"
#include "testing.h"

#include "core/core.h"

#include <detent/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[TEST_PATH], path[TEST_PATH];
static char said[2048]; /* what contexts logged */

static void setup(void)
{
    test_folder(folder);
    test_join(path, folder, "run.safetensors");
    said[0] = 0;
}

static void listen(void *user, const char *line)
{
    (void)user;
    snprintf(said, sizeof said, "%s", line);
}

/* ---- a small run ---------------------------------------------------------------------------- */

typedef struct run {
    dt_ctx *ctx;
    dt_dataset *data;
    dt_loader *loader;
    dt_module *m;
    dt_optimizer *optimizer;
    dt_tape *t;
    dt_mlp_options model;
    dt_named_count counts[2];
    dt_named_value values[2];
    dt_training_state state;
} run;

typedef struct plan {
    int threads;
    int optimizer;
    int64_t prepare_at, enable_at; /* steps; -1: never */
    int64_t batch_size;
    int observer;     /* 0: dynamic; else 1 + DT_OBSERVER_... */
    int64_t adapt_at; /* a step; -1: never */
} plan;

static const int64_t sizes[] = { 784, 24, 17, 10, 0 };

static dt_status create(run *r, const plan *p)
{
    dt_optimizer_options o = dt_optimizer_defaults();
    dt_loader_options l = dt_loader_defaults();
    o.name = p->optimizer;
    o.momentum = 0.9;
    l.batch_size = p->batch_size;
    l.seed = 11;
    l.augment.shift = 1;
    r->model = small_options(sizes, 1, 0.2);
    DT__TRY(dt_mlp_create(r->ctx, &r->model, &r->m));
    DT__TRY(dt_digits_create(r->ctx, 100, 3, DT_TARGET_CLASS, &r->data));
    DT__TRY(dt_loader_create(r->data, &l, &r->loader));
    DT__TRY(dt_optimizer_create(r->m, &o, &r->optimizer));
    DT__TRY(dt_tape_create(r->ctx, &r->t));
    r->counts[0].name = "step";
    r->counts[1].name = "since";
    r->values[0].name = "loss_sum";
    r->values[1].name = "best";
    r->values[1].value = INFINITY;
    r->state = (dt_training_state){
        .module = r->m,
        .info = small_info(&r->model),
        .optimizer = r->optimizer,
        .loaders = &r->loader,
        .n_loaders = 1,
        .counts = r->counts,
        .n_counts = 2,
        .values = r->values,
        .n_values = 2,
        .recipe = "run: {dir: \"r\"}\n",
    };
    return DT_OK;
}

static void open_run(run *r, const plan *p, uint64_t seed)
{
    *r = (run){ .ctx = NULL };
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = p->threads;
    o.seed = seed;
    o.log = listen;
    TEST_OK(NULL, dt_ctx_create(&r->ctx, &o));
    TEST_OK(r->ctx, create(r, p));
}

static void free_parts(run *r)
{
    dt_tape_free(r->t);
    dt_optimizer_free(r->optimizer);
    dt_loader_free(r->loader);
    dt_dataset_free(r->data);
    dt_module_free(r->m);
}

static void close_run(run *r)
{
    free_parts(r);
    dt_ctx_free(r->ctx);
}

static dt_status step(run *r)
{
    dt_tensor *x, *labels;
    DT__TRY(dt_loader_next(r->loader, &x, &labels));
    dt_tensor *loss = dt_cross_entropy(r->t, dt_forward(r->t, r->m, x), labels, NULL);
    dt_zero_grad(r->m);
    DT__TRY(dt_backward(r->t, loss, NULL));
    const double value = dt_item(loss);
    dt_tape_reset(r->t);
    DT__TRY(dt_optimizer_step(r->optimizer, r->t, 1e-2 / (double)(1 + r->counts[0].value)));
    dt_tape_reset(r->t);
    r->counts[0].value++;
    r->counts[1].value = value < r->values[1].value ? 0 : r->counts[1].value + 1;
    r->values[0].value += value;
    r->values[1].value = fmin(value, r->values[1].value);
    return DT_OK;
}

static dt_qat_options options_of(const plan *p)
{
    dt_qat_options o = dt_qat_defaults();
    if (p->observer == 0) return o;
    o.preset = DT_INT8_STATIC_INT8_WEIGHT;
    o.activation = (dt_quant_patch){ .quant = { .observer = p->observer - 1, .samples = 2000 },
                                     .has_observer = true,
                                     .has_samples = true };
    return o;
}

static void steps(run *r, const plan *p, int64_t until)
{
    while (r->counts[0].value < until) {
        if (r->counts[0].value == p->adapt_at) {
            const dt_lora_options o = { .rank = 3, .alpha = 5, .train_rest = p->adapt_at % 2 == 1 };
            TEST_OK(r->ctx, dt_lora_add(r->m, &o));
        }
        if (r->counts[0].value == p->prepare_at) {
            const dt_qat_options o = options_of(p);
            TEST_OK(r->ctx, dt_prepare(r->m, &o));
            TEST_OK(r->ctx, dt_enable(r->m, false));
        }
        if (r->counts[0].value == p->enable_at) TEST_OK(r->ctx, dt_enable(r->m, true));
        TEST_OK(r->ctx, step(r));
    }
}

/* ---- equality ------------------------------------------------------------------------------- */

typedef struct slots {
    dt_tensor *at[128];
    char name[128][64];
    int n;
} slots;

static dt_status note_slot(void *user, const char *slot, const char *of, dt_tensor *x)
{
    slots *s = user;
    snprintf(s->name[s->n], sizeof s->name[0], "%s %s", slot, of);
    s->at[s->n++] = x;
    return DT_OK;
}

static void same_runs(run *a, run *b)
{
    static slots x, y;
    x.n = y.n = 0;
    same_models(a->m, b->m);
    dt_optimizer_visit(a->optimizer, note_slot, &x);
    dt_optimizer_visit(b->optimizer, note_slot, &y);
    ck_assert_int_eq(x.n, y.n);
    for (int i = 0; i < x.n; i++) {
        ck_assert_str_eq(x.name[i], y.name[i]);
        const size_t bytes = (size_t)dt_count(x.at[i]) * dt_dtype_size(dt_dtype_of(x.at[i]));
        ck_assert_msg(memcmp(dt_data(x.at[i]), dt_data(y.at[i]), bytes) == 0, "%s differs",
                      x.name[i]);
    }
    ck_assert_int_eq(dt_optimizer_updates(a->optimizer), dt_optimizer_updates(b->optimizer));
    ck_assert_mem_eq(a->ctx->stream, b->ctx->stream, sizeof a->ctx->stream);
    ck_assert_uint_eq(a->ctx->seed, b->ctx->seed);
    const dt_position p = dt_loader_position(a->loader), q = dt_loader_position(b->loader);
    ck_assert(p.epoch == q.epoch && p.batch == q.batch);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(a->counts[i].value, b->counts[i].value);
        ck_assert_mem_eq(&a->values[i].value, &b->values[i].value, sizeof(double));
    }
}

static const plan plans[] = {
    { 1, DT_ADAMW, -1, -1, 32, 0, -1 }, { 3, DT_ADAMW, 0, 0, 32, 0, -1 },
    { 1, DT_ADAMW, 2, 9, 32, 0, -1 },   { 2, DT_SGD, 3, 5, 16, 0, -1 },
    { 1, DT_ADAM, 9, 11, 100, 0, -1 },  { 1, DT_SGD, -1, -1, 7, 0, -1 },
    { 1, DT_ADAMW, 0, 2, 32, 1, -1 },   { 2, DT_ADAMW, 3, 3, 32, 2, -1 },
    { 3, DT_ADAMW, 2, 2, 32, 3, -1 },   { 1, DT_ADAMW, 3, 9, 32, 4, -1 },
    { 2, DT_ADAMW, -1, -1, 32, 0, 0 },  { 1, DT_ADAMW, 2, 5, 32, 0, 3 },
    { 3, DT_SGD, 3, 9, 32, 2, 1 },
};

/* Saved after 7 steps, loaded into another run, made with another seed on other threads. */
START_TEST(training_resumes_bit_for_bit)
{
    const plan *p = &plans[_i];
    plan other = *p;
    other.threads = 4 - p->threads;
    run whole, first, second;
    open_run(&whole, p, 1);
    open_run(&first, p, 1);
    steps(&whole, p, 14);
    steps(&first, p, 7);
    TEST_OK(first.ctx, dt_checkpoint_save(&first.state, path));
    steps(&first, p, 10); /* saving changed nothing of the continued run */
    open_run(&second, &other, 99);
    TEST_OK(second.ctx, dt_checkpoint_load(&second.state, path));
    ck_assert_str_eq(said, "");
    ck_assert_int_eq(second.counts[0].value, 7);
    steps(&second, p, 10);
    same_runs(&first, &second);
    steps(&second, p, 14);
    same_runs(&whole, &second);
    close_run(&whole);
    close_run(&first);
    close_run(&second);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------- */

static void save_seven(const plan *p)
{
    run r;
    open_run(&r, p, 1);
    steps(&r, p, 7);
    TEST_OK(r.ctx, dt_checkpoint_save(&r.state, path));
    close_run(&r);
}

/* Loading into `r` fails and leaves it equal to `same`, which was made in the same way. */
static void refused(run *r, run *same, dt_status status, const char *words)
{
    TEST_FAILS(r->ctx, status, words, dt_checkpoint_load(&r->state, path));
    same_runs(r, same);
    close_run(r);
    close_run(same);
}

START_TEST(mismatching_checkpoints_are_refused)
{
    const plan p = plans[1];
    plan other = p;
    run r, same;
    save_seven(&p);
    other.optimizer = DT_SGD;
    open_run(&r, &other, 1);
    open_run(&same, &other, 1);
    refused(&r, &same, DT_ERR_FORMAT, "another optimizer");
    other = p;
    other.batch_size = 100;
    open_run(&r, &other, 1);
    open_run(&same, &other, 1);
    refused(&r, &same, DT_ERR_FORMAT, "another batch size");
    open_run(&r, &p, 1);
    open_run(&same, &p, 1);
    r.counts[1].name = "patience";
    refused(&r, &same, DT_ERR_FORMAT, "no patience");
    open_run(&r, &p, 1);
    open_run(&same, &p, 1);
    r.state.n_loaders = 0;
    refused(&r, &same, DT_ERR_FORMAT, "the run has 0");
    open_run(&r, &p, 1);
    open_run(&same, &p, 1);
    r.state.optimizer = NULL;
    refused(&r, &same, DT_ERR_FORMAT, "another optimizer");
    open_run(&r, &p, 1);
    open_run(&same, &p, 1);
    TEST_OK(r.ctx, dt_prepare(r.m, NULL));
    TEST_OK(same.ctx, dt_prepare(same.m, NULL));
    refused(&r, &same, DT_ERR_STATE, "prepared");
}
END_TEST

/* A counter that is newer than the checkpoint keeps its value; older counters are required in
 * it. */
START_TEST(an_older_checkpoint_is_read)
{
    dt_file *f;
    run r, same;
    int64_t step = -1, since = -1;
    open_run(&r, &plans[0], 1);
    steps(&r, &plans[0], 3);
    r.state.n_counts = 1;
    TEST_OK(r.ctx, dt_checkpoint_save(&r.state, path));
    TEST_OK(r.ctx, dt_file_open(r.ctx, path, &f));
    TEST_OK(r.ctx, dt_checkpoint_count(f, "step", &step));
    TEST_OK(r.ctx, dt_checkpoint_count(f, "since", &since));
    ck_assert(step == 3 && since == -1);
    dt_file_close(f);
    close_run(&r);
    open_run(&r, &plans[0], 2);
    r.counts[1] = (dt_named_count){ .name = "since", .value = 77, .is_newer = true };
    TEST_OK(r.ctx, dt_checkpoint_load(&r.state, path));
    ck_assert(r.counts[0].value == 3 && r.counts[1].value == 77);
    close_run(&r);
    open_run(&r, &plans[0], 1);
    open_run(&same, &plans[0], 1);
    refused(&r, &same, DT_ERR_FORMAT, "no since");
}
END_TEST

START_TEST(a_model_file_is_no_checkpoint)
{
    const plan p = plans[0];
    run r, same;
    open_run(&r, &p, 1);
    open_run(&same, &p, 1);
    TEST_OK(r.ctx, dt_model_save(r.m, &r.state.info, path));
    refused(&r, &same, DT_ERR_FORMAT, "not a training checkpoint");
}
END_TEST

START_TEST(two_counters_of_one_name_are_refused)
{
    run r;
    open_run(&r, &plans[0], 1);
    r.counts[1].name = "step";
    TEST_FAILS(r.ctx, DT_ERR_ARG, "step", dt_checkpoint_save(&r.state, path));
    ck_assert(!test_file_exists(path));
    close_run(&r);
}
END_TEST

/* A copy of the checkpoint with one metadata value or tensor changed; NULL: left out. */
static void rewrite(dt_ctx *ctx, const char *name, const char *text, const dt_file_entry *entry)
{
    dt_file *f;
    dt_writer *w;
    const char *key, *value;
    TEST_OK(ctx, dt_file_open(ctx, path, &f));
    TEST_OK(ctx, dt_writer_create(ctx, &w));
    for (int64_t i = 0; dt_file_meta_at(f, i, &key, &value); i++) {
        if (strcmp(key, "detent.version") == 0 || strcmp(key, "detent.xxh3") == 0) continue;
        if (strcmp(key, name) != 0) TEST_OK(ctx, dt_writer_meta(w, key, value));
    }
    if (text != NULL) TEST_OK(ctx, dt_writer_meta(w, name, text));
    for (int64_t i = 0; i < dt_file_count(f); i++) {
        const dt_file_entry *e = dt_file_at(f, i);
        if (strcmp(e->name, name) != 0) TEST_OK(ctx, dt_writer_add_bytes(w, e));
    }
    if (entry != NULL) TEST_OK(ctx, dt_writer_add_bytes(w, entry));
    TEST_OK(ctx, dt_writer_write(w, path));
    dt_writer_free(w);
    dt_file_close(f);
}

typedef struct bad {
    const char *name;  /* of the metadata key or tensor that is changed */
    const char *text;  /* metadata: the new value; NULL: none */
    const char *dtype; /* tensor: the new one; NULL: none */
    int rank;
    int64_t dims[2];
    int64_t first; /* its first number */
    const char *words;
} bad;

static const bad bads[] = {
    { "detent.run", .words = "detent.run is missing" },
    { "detent.run", "", .words = "detent.run" },
    { "detent.run", "{}", .words = "'counts' is missing" },
    { "detent.run", "[]", .words = "'{' is expected here" },
    { "detent.run", "{\"counts\":[],\"values\":[],\"updates\":7}", .words = "detent.counts" },
    { "detent.run", "{\"counts\":[\"step\",\"since\"],\"values\":[\"loss_sum\",\"best\"]}",
      .words = "'updates' is missing" },
    { "detent.run",
      "{\"counts\":[\"step\",\"since\"],\"values\":[\"loss_sum\",\"best\"],"
      "\"updates\":-1}",
      .words = "updates" },
    { "detent.run",
      "{\"counts\":[\"step\",\"since\"],\"values\":[\"loss_sum\",\"best\"],"
      "\"updates\":7,\"more\":1}",
      .words = "unknown key 'more'" },
    { "detent.run",
      "{\"counts\":[\"step\",2],\"values\":[\"loss_sum\",\"best\"],"
      "\"updates\":7}",
      .words = "a string is expected here" },
    { "detent.machine", .words = "detent.machine is missing" },
    { "detent.machine", "{\"processor\":\"p\"}", .words = "'kernels' is missing" },
    { "detent.machine", "{\"processor\":\"p\",\"kernels\":7}",
      .words = "a string is expected here" },
    { "detent.rng", .words = "'detent.rng' is missing" },
    { "detent.rng", .dtype = "I64", .rank = 2, .dims = { 4, 2 }, .words = "detent.rng" },
    { "detent.rng", .dtype = "U64", .rank = 2, .dims = { 4, 3 }, .words = "detent.rng" },
    { "detent.rng", .dtype = "U64", .rank = 1, .dims = { 8 }, .words = "detent.rng" },
    { "detent.rng", .dtype = "U64", .rank = 2, .dims = { 0, 2 }, .words = "detent.rng" },
    { "detent.rng", .dtype = "U64", .rank = 2, .dims = { 50, 2 }, .words = "49 random streams" },
    { "detent.data", .words = "'detent.data' is missing" },
    { "detent.data", .dtype = "I64", .rank = 0, .words = "detent.data" },
    { "detent.data", .dtype = "I64", .rank = 2, .dims = { 2, 2 }, .words = "the run has 1" },
    { "detent.data", .dtype = "I64", .rank = 2, .dims = { 1, 2 }, .first = -1,
      .words = "epoch -1" },
    { "detent.counts", .words = "'detent.counts' is missing" },
    { "detent.counts", .dtype = "I64", .rank = 1, .dims = { 3 }, .words = "detent.counts" },
    { "detent.counts", .dtype = "F64", .rank = 1, .dims = { 2 }, .words = "detent.counts" },
    { "detent.values", .words = "'detent.values' is missing" },
    { "detent.values", .dtype = "F64", .rank = 1, .dims = { 0 }, .words = "detent.values" },
    { "detent.optim.exp_avg.head.bias", .words = "exp_avg of head.bias is missing" },
    { "detent.optim.exp_avg.head.bias", .dtype = "F32", .rank = 1, .dims = { 9 },
      .words = "of another form" },
    { "detent.optim.exp_avg.head.bias", .dtype = "F64", .rank = 1, .dims = { 10 },
      .words = "of another form" },
    { "detent.optim.exp_avg.nobody", .dtype = "F32", .rank = 1, .dims = { 9 },
      .words = "another optimizer" },
    { "head.bias", .words = "missing (head.bias)" },
    { "detent.quant", .text = "{}", .words = NULL }, /* float: a checkpoint like any other */
};

START_TEST(damaged_parts_are_refused)
{
    const bad *b = &bads[_i];
    const plan p = plans[1];
    static const int64_t zeros[256];
    int64_t numbers[256];
    run r, same;
    save_seven(&p);
    open_run(&r, &p, 1);
    memcpy(numbers, zeros, sizeof numbers);
    numbers[0] = b->first;
    const dt_file_entry e = {
        .name = b->name, .dtype = b->dtype, .rank = b->rank, .dims = b->dims, .data = numbers
    };
    rewrite(r.ctx, b->name, b->text, b->dtype == NULL ? NULL : &e);
    if (b->words == NULL) {
        TEST_OK(r.ctx, dt_checkpoint_load(&r.state, path));
        ck_assert(!dt_is_prepared(r.m));
        close_run(&r);
        return;
    }
    open_run(&same, &p, 1);
    refused(&r, &same, DT_ERR_FORMAT, b->words);
}
END_TEST

/* Mistakes that are visible without the run are found by `check`, and when only the model is
 * loaded. */
START_TEST(check_reads_checkpoints)
{
    run r;
    dt_file *f;
    save_seven(&plans[1]);
    open_run(&r, &plans[1], 1);
    TEST_OK(r.ctx, dt_file_open(r.ctx, path, &f));
    TEST_OK(r.ctx, dt_model_check(f));
    ck_assert_str_eq(dt_checkpoint_recipe(f), r.state.recipe);
    dt_file_close(f);
    const dt_file_entry e = { .name = "detent.optim.exp_avg.nobody", .dtype = "U8", .data = "" };
    rewrite(r.ctx, e.name, NULL, &e);
    TEST_OK(r.ctx, dt_file_open(r.ctx, path, &f));
    TEST_FAILS(r.ctx, DT_ERR_FORMAT, "nobody", dt_model_check(f));
    dt_file_close(f);
    dt_module *m;
    TEST_FAILS(r.ctx, DT_ERR_FORMAT, "nobody", dt_model_load(r.ctx, path, &m, NULL));
    close_run(&r);
}
END_TEST

START_TEST(another_machine_warns)
{
    run r;
    save_seven(&plans[0]);
    open_run(&r, &plans[0], 1);
    rewrite(r.ctx, "detent.machine", "{\"processor\":\"abacus\",\"blas\":\"Beads\"}", NULL);
    TEST_OK(r.ctx, dt_checkpoint_load(&r.state, path));
    ck_assert_msg(strstr(said, "abacus (kernels Beads)") != NULL, "%s", said);
    close_run(&r);
}
END_TEST

/* ---- a folder ------------------------------------------------------------------------------- */

static void newest(dt_ctx *ctx, int64_t wanted)
{
    char found[TEST_PATH];
    int64_t at = -1;
    TEST_OK(ctx, dt_checkpoint_newest(ctx, folder, found, sizeof found, &at));
    ck_assert_int_eq(at, wanted);
    TEST_FAILS(ctx, DT_ERR_ARG, "does not fit", dt_checkpoint_newest(ctx, folder, found, 8, NULL));
}

START_TEST(the_newest_good_one_is_found)
{
    char text[TEST_PATH];
    run r;
    open_run(&r, &plans[0], 1);
    TEST_FAILS(r.ctx, DT_ERR_IO, "no good checkpoint",
               dt_checkpoint_newest(r.ctx, folder, text, sizeof text, NULL));
    for (int64_t at = 0; at <= 40; at += 10) {
        TEST_OK(r.ctx, dt_checkpoint_save_step(&r.state, folder, at, 3));
        newest(r.ctx, at);
    }
    char *output;
    ck_assert_int_eq(test_shell(&output, "ls -A %s | tr '\\n' ' '", folder), 0);
    ck_assert_str_eq(output, "step-0000000020.safetensors step-0000000030.safetensors "
                             "step-0000000040.safetensors ");
    free(output);
    test_join(text, folder, "step-0000000050.safetensors");
    test_write_text(text, "{}"); /* truncated when it was written */
    test_join(text, folder, "step-99.safetensors");
    test_write_text(text, "not one of ours");
    test_join(text, folder, "step-0000000040.safetensors");
    size_t n;
    char *bytes = test_read_file(text, &n);
    bytes[n - 1] ^= 4;
    test_write_file(text, bytes, n);
    free(bytes);
    newest(r.ctx, 30);
    ck_assert_msg(strstr(said, "step-0000000040") != NULL, "%s", said);
    /* resumed from 30: newer checkpoints are kept, older ones pruned */
    TEST_OK(r.ctx, dt_checkpoint_save_step(&r.state, folder, 35, 1));
    ck_assert_int_eq(test_shell(&output, "ls -A %s | wc -l", folder), 0);
    ck_assert_str_eq(output, "4\n");
    free(output);
    TEST_FAILS(r.ctx, DT_ERR_ARG, "negative", dt_checkpoint_save_step(&r.state, folder, -1, 1));
    TEST_FAILS(r.ctx, DT_ERR_IO, "nowhere",
               dt_checkpoint_newest(r.ctx, "/nowhere/x", text, 9, NULL));
    TEST_FAILS(r.ctx, DT_ERR_IO, "nowhere", dt_checkpoint_save_step(&r.state, "/nowhere/x", 1, 1));
    close_run(&r);
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------- */

static dt_status save_and_load(dt_ctx *failing, void *user)
{
    const plan p = { 1, DT_ADAMW, 0, 0, 50, 0, 0 };
    run a = { .ctx = failing }, b = { .ctx = failing };
    (void)user;
    dt_status s = create(&a, &p);
    if (s == DT_OK) s = dt_prepare(a.m, NULL);
    if (s == DT_OK) s = dt_checkpoint_save_step(&a.state, folder, 1, 1);
    if (s == DT_OK) s = dt_checkpoint_save_step(&a.state, folder, 2, 1);
    if (s == DT_OK) s = dt_checkpoint_newest(failing, folder, path, sizeof path, NULL);
    if (s == DT_OK) s = create(&b, &p);
    if (s == DT_OK) s = dt_checkpoint_load(&b.state, path);
    if (s != DT_OK && b.m != NULL) ck_assert(!dt_is_prepared(b.m)); /* all or nothing */
    free_parts(&a);
    free_parts(&b);
    return s;
}

START_TEST(every_allocation_fails_once)
{
    const int64_t runs = test_every_allocation(save_and_load, NULL);
    printf("checkpoint: %lld allocations failed\n", (long long)runs - 1);
}
END_TEST

Suite *test_checkpoint_suite(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *c = tcase_create("checkpoint");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_loop_test(c, training_resumes_bit_for_bit, 0, DT__COUNT_OF(plans));
    tcase_add_test(c, mismatching_checkpoints_are_refused);
    tcase_add_test(c, a_model_file_is_no_checkpoint);
    tcase_add_test(c, an_older_checkpoint_is_read);
    tcase_add_test(c, two_counters_of_one_name_are_refused);
    tcase_add_loop_test(c, damaged_parts_are_refused, 0, DT__COUNT_OF(bads));
    tcase_add_test(c, check_reads_checkpoints);
    tcase_add_test(c, another_machine_warns);
    tcase_add_test(c, the_newest_good_one_is_found);
    tcase_add_test(c, every_allocation_fails_once);
    suite_add_tcase(s, c);
    return s;
}
