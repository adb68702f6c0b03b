/* Valid arguments for every type of the public headers. Objects are made when they are needed and
 * never freed: a call may have freed them, and its process ends. */
#include "misuse.h"

#include "ops/ops_list.h"

#include <stdio.h>
#include <stdlib.h>

/* Zeros for callers' structs and arrays, more than any struct of the headers. */
#define BLOCK (256 << 10)

bool misuse_is_null(const misuse *m, int argument)
{
    return m->wrong == MISUSE_NULL && m->bad == argument;
}

int64_t misuse_integer(const misuse *m, int argument)
{
    return m->wrong == MISUSE_INTEGER && m->bad == argument ? m->integer : 1;
}

double misuse_real(const misuse *m, int argument)
{
    return m->wrong == MISUSE_INTEGER && m->bad == argument ? m->real : 0.5;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

void good_dt_cost_fn(void *user, const dt_cost_row *row)
{
    (void)user;
    (void)row;
}

void good_dt_drop_user(dt_ctx *ctx, void *user)
{
    (void)ctx;
    (void)user;
}

void good_dt_work_told(void *user, const dt_work_state *state)
{
    (void)user;
    (void)state;
}

void good_dt_figures_visit(void *user, const dt_layer_figures *layer)
{
    (void)user;
    (void)layer;
}

dt_tensor *good_dt_hook(void *user, dt_tape *t, dt_module *m, dt_tensor *x)
{
    (void)user;
    (void)t;
    (void)m;
    return x;
}

void good_dt_layer_visit(void *user, const dt_layer_row *row)
{
    (void)user;
    (void)row;
}

void good_dt_option_fault(void *user, const char *path, const char *text)
{
    (void)user;
    (void)path;
    (void)text;
}

dt_status good_dt_sink(void *user, const char *text, size_t bytes)
{
    (void)user;
    (void)text;
    (void)bytes;
    return DT_OK;
}

dt_status good_dt_visit_module(void *user, const char *path, dt_module *m)
{
    (void)user;
    (void)path;
    (void)m;
    return DT_OK;
}

dt_status good_dt_visit_slot(void *user, const char *slot, const char *path, dt_tensor *x)
{
    (void)user;
    (void)slot;
    (void)path;
    (void)x;
    return DT_OK;
}

dt_status good_dt_visit_tensor(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    (void)user;
    (void)path;
    (void)x;
    (void)kind;
    return DT_OK;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Makes huge sizes fail, as on a machine with this much memory. */
static void *allocate(void *user, size_t bytes, size_t alignment)
{
    void *p = NULL;
    (void)user;
    return bytes > (size_t)64 << 20 || posix_memalign(&p, alignment, bytes) != 0 ? NULL : p;
}

static void release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(pointer);
}

static dt_ctx *ctx_of(dt_ctx **ctx)
{
    dt_ctx_options o = dt_ctx_defaults();
    o.threads = 1;
    o.allocator = (dt_allocator){ allocate, release, NULL };
    if (*ctx == NULL) dt_ctx_create(ctx, &o);
    return *ctx;
}

static dt_tensor *tensor_of(misuse *m, misuse_wrong wrong)
{
    static const int64_t usual[] = { 2, 3 }, empty[] = { 0, 3 },
                         eight[] = { 1, 1, 1, 1, 1, 1, 2, 3 };
    const int64_t *dims = wrong == MISUSE_EMPTY ? empty : wrong == MISUSE_RANK ? eight : usual;
    const int rank = wrong == MISUSE_SCALAR ? 0 : wrong == MISUSE_RANK ? 8 : 2;
    dt_tensor *x = NULL;
    dt_tensor_create(ctx_of(wrong == MISUSE_CONTEXT ? &m->other : &m->ctx),
                     wrong == MISUSE_DTYPE ? DT_I32 : DT_F32, rank, dims, &x);
    return x;
}

static dt_module *module_of(misuse *m)
{
    if (m->module == NULL) dt_linear_create(ctx_of(&m->ctx), 3, 3, true, &m->module);
    return m->module;
}

static void *a_tape(misuse *m)
{
    if (m->tape == NULL) dt_tape_create(ctx_of(&m->ctx), &m->tape);
    return m->tape;
}

static void *a_ctx(misuse *m) { return ctx_of(&m->ctx); }
static void *a_tensor(misuse *m) { return tensor_of(m, MISUSE_NOTHING); }
static void *a_module(misuse *m) { return module_of(m); }

static void *a_dataset(misuse *m)
{
    dt_dataset *d = NULL;
    dt_digits_create(ctx_of(&m->ctx), 8, 1, DT_TARGET_CLASS, &d);
    return d;
}

static void *a_loader(misuse *m)
{
    dt_loader_options o = dt_loader_defaults();
    dt_loader *l = NULL;
    o.batch_size = 2;
    dt_loader_create(a_dataset(m), &o, &l);
    return l;
}

static void *a_writer(misuse *m)
{
    dt_writer *w = NULL;
    dt_writer_create(ctx_of(&m->ctx), &w);
    return w;
}

static void *a_file(misuse *m)
{
    dt_file *file = NULL;
    dt_writer *w = a_writer(m);
    dt_writer_add(w, "x", tensor_of(m, MISUSE_NOTHING));
    dt_writer_write(w, "written.safetensors");
    dt_file_open(ctx_of(&m->ctx), "written.safetensors", &file);
    return file;
}

static void *file_weights(misuse *m)
{
    dt_file_weights *w = NULL;
    dt_file_weights_read(a_file(m), &w);
    return w;
}

static void *an_optimizer(misuse *m)
{
    dt_optimizer *o = NULL;
    dt_optimizer_create(module_of(m), NULL, &o);
    return o;
}

static void *a_freezer(misuse *m)
{
    dt_freezer *f = NULL;
    dt_freezer_create(module_of(m), &f);
    return f;
}

static void *a_tokenizer(misuse *m)
{
    dt_tokenizer *k = NULL;
    dt_tokenizer_bytes(ctx_of(&m->ctx), &k);
    return k;
}

static void *a_decoder(misuse *m)
{
    const dt_gpt_options o = { 8, 8, 1, 1, 4, .bias = true, .eps = 1e-5 };
    dt_module *gpt = NULL;
    dt_decoder *d = NULL;
    dt_gpt_create(ctx_of(&m->ctx), &o, &gpt);
    if (gpt != NULL) dt_train(gpt, false);
    dt_decoder_create(gpt, NULL, &d);
    return d;
}

static const char recipe[] = "run: {dir: run}\n"
                             "model: {family: mlp, sizes: [784, 4, 10]}\n"
                             "data: {format: digits, train_count: 8, test_count: 4}\n"
                             "train: {epochs: 1, batch_size: 4}\n";

static void *a_recipe(misuse *m)
{
    const dt_recipe_source source = { .path = "r.yaml", .text = recipe, .bytes = strlen(recipe) };
    dt_recipe *r = NULL;
    dt_recipe_read(ctx_of(&m->ctx), &source, &r);
    return r;
}

static void *a_sweep(misuse *m)
{
    static const char text[] = "method: random\nruns: 1\nkeys:\n"
                               "  train.optimizer.lr: {from: 1e-4, to: 1e-2, scale: log}\n";
    const dt_sweep_source source = {
        .recipe = { .path = "r.yaml", .text = recipe, .bytes = strlen(recipe) },
        .path = "s.yaml",
        .text = text,
        .bytes = strlen(text)
    };
    dt_sweep *s = NULL;
    dt_sweep_read(ctx_of(&m->ctx), &source, &s);
    return s;
}

static void *features(misuse *m)
{
    const dt_features_options o = dt_features_defaults();
    dt_features *f = NULL;
    dt_features_create(ctx_of(&m->ctx), &o, &f);
    return f;
}

static void *an_op(misuse *m)
{
    (void)m;
    return (void *)(uintptr_t)&dt__op_tanh;
}

static void *module_type(misuse *m) { return (void *)(uintptr_t)dt_module_type_of(module_of(m)); }

static void *a_trace(misuse *m)
{
    dt_trace_input in = { .dtype = DT_F32, .rank = 2, .dims = { 1, 3 } };
    const dt_trace_options options = { .input = &in, .n_inputs = 1 };
    dt_trace *t = NULL;
    dt_train(module_of(m), false);
    dt_trace_create(module_of(m), &options, &t);
    return t;
}

static void *trace_call(misuse *m) { return (void *)(uintptr_t)dt_trace_call_at(a_trace(m), 0); }
static void *trace_value(misuse *m) { return (void *)(uintptr_t)dt_trace_value_at(a_trace(m), 0); }

static void *tokens(misuse *m)
{
    dt_tokens *t = NULL;
    FILE *f = fopen("tokens.u16", "wb");
    if (f != NULL) {
        fwrite("\1\0\2\0\3\0\4\0", 1, 8, f);
        fclose(f);
    }
    dt_tokens_open(ctx_of(&m->ctx), "tokens.u16", 2, &t);
    return t;
}

static void *statistics(misuse *m)
{
    static const int64_t dims[] = { 3, 3 };
    dt_statistics *s = NULL;
    const dt_weight_op linear = { 0 };
    dt_statistics_create(ctx_of(&m->ctx), &linear, 2, dims, false, &s);
    return s;
}

static void *family(misuse *m)
{
    (void)m;
    return (void *)(uintptr_t)dt_family_at(0);
}

static const struct {
    const char *type;
    void *(*make)(misuse *m);
} objects[] = {
    { "dt_ctx", a_ctx },
    { "dt_tensor", a_tensor },
    { "dt_tape", a_tape },
    { "dt_module", a_module },
    { "dt_dataset", a_dataset },
    { "dt_loader", a_loader },
    { "dt_writer", a_writer },
    { "dt_file", a_file },
    { "dt_file_weights", file_weights },
    { "dt_optimizer", an_optimizer },
    { "dt_freezer", a_freezer },
    { "dt_tokenizer", a_tokenizer },
    { "dt_decoder", a_decoder },
    { "dt_recipe", a_recipe },
    { "dt_sweep", a_sweep },
    { "dt_features", features },
    { "dt_op", an_op },
    { "dt_module_type", module_type },
    { "dt_trace", a_trace },
    { "dt_trace_call", trace_call },
    { "dt_trace_value", trace_value },
    { "dt_family", family },
    { "dt_tokens", tokens },
    { "dt_statistics", statistics },
};

/* Objects that only the library makes, for ops that it calls. */
static const char *const unmade[] = { "dt_call" };

/* Skips the call: its other arguments cannot be made. */
static void lack(misuse *m, const char *type)
{
    m->lacks = type;
    longjmp(m->back, 1);
}

void *misuse_pointer(misuse *m, int argument, const char *type, int stars)
{
    if (misuse_is_null(m, argument)) return NULL;
    if (strcmp(type, "dt_tensor") == 0 && stars == 1 && m->bad == argument) {
        return tensor_of(m, m->wrong);
    }
    for (int i = 0; stars == 1 && i < (int)(sizeof unmade / sizeof *unmade); i++) {
        if (strcmp(unmade[i], type) == 0) lack(m, type);
    }
    for (int i = 0; stars == 1 && i < (int)(sizeof objects / sizeof *objects); i++) {
        if (strcmp(objects[i].type, type) != 0) continue;
        void *object = objects[i].make(m);
        if (object == NULL) lack(m, type);
        return object;
    }
    char *block = calloc(1, BLOCK);
    if (strcmp(type, "char") == 0 && stars == 1) strcpy(block, "x");
    for (int i = 0; stars == 1 && misuse_defaults[i].type != NULL; i++) {
        if (strcmp(misuse_defaults[i].type, type) == 0) misuse_defaults[i].fill(block);
    }
    return block;
}
