/* Training checkpoints: a model file that also holds what a run needs to resume bit for bit.
 *
 *     detent.optim.<slot>.<parameter>   state of the optimizer
 *     detent.freeze.<slot>.<weight>     state of the freezer
 *     detent.rng     U64 [1 + streams, 2]   seed and 0; then key and counter of each random stream
 *     detent.data    I64 [loaders, 2]       epoch and batch of each loader
 *     detent.counts  I64 [n], detent.values F64 [n]: the run's counters, named in detent.run
 *
 * Metadata: detent.run (names, updates of the optimizer), detent.machine, detent.recipe. */
#include "autograd/spread.h"
#include "io/model/model_base.h"
#include "kernels/machine.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "qat/training/freeze.h"

#include <detent/experimental/io.h>

#include <stdio.h>
#include <string.h>

#define OPTIM "detent.optim."
#define FREEZE "detent.freeze."
#define RNG "detent.rng"
#define DATA "detent.data"
#define COUNTS "detent.counts"
#define VALUES "detent.values"
#define KEY_RUN "detent.run"
#define KEY_MACHINE "detent.machine"
#define KEY_RECIPE "detent.recipe"

typedef struct run_names {
    dt_strings counts, values;
    int64_t updates;
} run_names;

static const dt_key run_keys[] = {
    { "counts", DT_KEY_STRINGS, .offset = offsetof(run_names, counts) },
    { "values", DT_KEY_STRINGS, .offset = offsetof(run_names, values) },
    { "updates", DT_KEY_INT, .offset = offsetof(run_names, updates), .most = 0x1p62 },
    { 0 },
};

typedef struct machine {
    const char *processor, *kernels;
} machine;

static const dt_key machine_keys[] = {
    { "processor", DT_KEY_STRING, .offset = offsetof(machine, processor) },
    { "kernels", DT_KEY_STRING, .offset = offsetof(machine, kernels), .was = "blas" },
    { 0 },
};

/* ---- saving --------------------------------------------------------------------------------- */

typedef struct saving {
    dt__saving model;
    const dt_training_state *s;
} saving;

/* A state tensor of which other ranks hold parts. */
typedef struct remote_state {
    dt__byte_source source;
    dt_optimizer *o;
    int64_t number;
} remote_state;

static dt_status fetch_state(void *user, size_t at, void *to, size_t bytes)
{
    const remote_state *r = user;
    const int64_t first = (int64_t)(at / sizeof(float));
    const int64_t part[2] = { first, first + (int64_t)(bytes / sizeof(float)) };
    return dt__optimizer_fetch(r->o, r->number, part, to);
}

static dt_status add_remote(saving *c, const char *name, const dt__optimizer_state *s)
{
    int64_t dims[DT_MAX_RANK];
    remote_state *r = dt__saving_keep(&c->model, sizeof *r);
    if (r == NULL) return DT_ERR_NOMEM;
    memcpy(dims, s->p->dims, sizeof dims);
    if (s->p->rank > 0) dims[0] = dt__whole_extent(s->p);
    *r = (remote_state){ { fetch_state, r }, c->s->optimizer, s->number };
    dt__writer_from(c->model.writer, &r->source);
    const dt_status status =
        dt__saving_add_bytes(&c->model, &(dt_file_entry){ .name = name,
                                                          .dtype = dt__file_dtype_name(s->x->dtype),
                                                          .rank = s->p->rank,
                                                          .dims = dims,
                                                          .data = &r->source });
    dt__writer_from(c->model.writer, NULL);
    return status;
}

static dt_status add_slot(void *user, const dt__optimizer_state *s)
{
    saving *c = user;
    char *name = dt__format_string(c->model.ctx, OPTIM "%s.%s", s->slot, s->path);
    if (name == NULL) return DT_ERR_NOMEM;
    const dt_status status =
        s->shared ? add_remote(c, name, s) : dt__saving_add(&c->model, name, s->x);
    dt__release(c->model.ctx, name);
    return status;
}

static dt_status add_frozen(void *user, const char *slot, const char *path, dt_tensor *x)
{
    saving *c = user;
    char *name = dt__format_string(c->model.ctx, FREEZE "%s.%s", slot, path);
    if (name == NULL) return DT_ERR_NOMEM;
    const dt_status status = dt__saving_add(&c->model, name, x);
    dt__release(c->model.ctx, name);
    return status;
}

/* An uninitialized array of n rows of `columns` 8-byte numbers (columns 1: rank 1). */
static void *add_words(saving *c, const char *name, const char *dtype, int64_t n, int64_t columns)
{
    const int64_t dims[2] = { n, columns };
    void *words = dt__saving_keep(&c->model, (size_t)(n * columns) * 8);
    const dt_file_entry e = {
        .name = name, .dtype = dtype, .rank = columns == 1 ? 1 : 2, .dims = dims, .data = words
    };
    return words != NULL && dt_writer_add_bytes(c->model.writer, &e) == DT_OK ? words : NULL;
}

static dt_status add_rng(saving *c)
{
    const dt_ctx *ctx = c->model.ctx;
    uint64_t *words = add_words(c, RNG, "U64", 1 + DT__PURPOSES, 2);
    if (words == NULL) return ctx->status;
    words[0] = ctx->seed;
    words[1] = 0;
    for (int i = 0; i < DT__PURPOSES; i++) {
        words[2 + 2 * i] = ctx->stream[i].key;
        words[3 + 2 * i] = ctx->stream[i].next;
    }
    return DT_OK;
}

static dt_status add_data(saving *c)
{
    int64_t *words = add_words(c, DATA, "I64", c->s->n_loaders, 2);
    if (words == NULL) return c->model.ctx->status;
    for (int i = 0; i < c->s->n_loaders; i++) {
        const dt_position p = dt_loader_position(c->s->loaders[i]);
        words[2 * i] = p.epoch;
        words[2 * i + 1] = p.batch;
    }
    return DT_OK;
}

static dt_status add_name(dt_ctx *ctx, dt_strings *names, const char *name)
{
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->v[i], name) != 0) continue;
        return dt_fail(ctx, DT_ERR_ARG, "checkpoint: two counters are named '%s'", name);
    }
    names->v[names->n++] = name;
    return DT_OK;
}

static dt_status name_counters(saving *c, run_names *names)
{
    const dt_training_state *s = c->s;
    dt_ctx *ctx = c->model.ctx;
    if (s->n_counts > DT_MAX_LIST || s->n_values > DT_MAX_LIST) {
        return dt_fail(ctx, DT_ERR_ARG, "checkpoint: more than %d counters", DT_MAX_LIST);
    }
    for (int i = 0; i < s->n_counts; i++) {
        DT__TRY(add_name(ctx, &names->counts, s->counts[i].name));
    }
    for (int i = 0; i < s->n_values; i++) {
        DT__TRY(add_name(ctx, &names->values, s->values[i].name));
    }
    return DT_OK;
}

static dt_status add_options(saving *c, const char *key, const dt_key *keys, const void *options)
{
    dt__chars t = { .ctx = c->model.ctx };
    dt__put_options(&t, keys, options);
    const char *text = dt__chars_text(&t);
    const dt_status s = text == NULL ? DT_ERR_NOMEM : dt_writer_meta(c->model.writer, key, text);
    dt__release(c->model.ctx, t.bytes);
    return s;
}

static dt_status add_counters(saving *c)
{
    const dt_training_state *s = c->s;
    run_names names = { .updates = s->optimizer == NULL ? 0 : dt_optimizer_updates(s->optimizer) };
    DT__TRY(name_counters(c, &names));
    int64_t *counts = add_words(c, COUNTS, "I64", s->n_counts, 1);
    double *values = counts == NULL ? NULL : add_words(c, VALUES, "F64", s->n_values, 1);
    if (values == NULL) return c->model.ctx->status;
    for (int i = 0; i < s->n_counts; i++) counts[i] = s->counts[i].value;
    for (int i = 0; i < s->n_values; i++) values[i] = s->values[i].value;
    return add_options(c, KEY_RUN, run_keys, &names);
}

static dt_status add_machine(saving *c)
{
    char processor[DT__PROCESSOR];
    const machine here = { dt__processor(processor), dt_kernels_name(c->model.ctx) };
    return add_options(c, KEY_MACHINE, machine_keys, &here);
}

static dt_status add_all(saving *c)
{
    const dt_training_state *s = c->s;
    DT__TRY(dt__saving_begin(&c->model, s->module, &s->info));
    if (s->optimizer != NULL) DT__TRY(dt__optimizer_visit(s->optimizer, add_slot, c));
    if (s->freezer != NULL) DT__TRY(dt_freezer_visit(s->freezer, add_frozen, c));
    DT__TRY(add_rng(c));
    DT__TRY(add_data(c));
    DT__TRY(add_counters(c));
    DT__TRY(add_machine(c));
    return s->recipe == NULL ? DT_OK : dt_writer_meta(c->model.writer, KEY_RECIPE, s->recipe);
}

dt_status dt_checkpoint_save(const dt_training_state *s, const char *path)
{
    DT__NEED2(NULL, s, s->module);
    DT__NEED(s->module->ctx, path);
    saving c = { .s = s };
    dt_status status = add_all(&c);
    if (status == DT_OK) status = dt_writer_write(c.model.writer, path);
    dt__saving_end(&c.model);
    return status;
}

const char *dt_checkpoint_recipe(const dt_file *file)
{
    if (file == NULL) return NULL;
    return dt_file_meta(file, KEY_RECIPE);
}

/* ---- what a file holds ----------------------------------------------------------------------- */

/* The run's part of a checkpoint, checked for consistency. */
typedef struct parts {
    const dt_file *file;
    run_names names;
    machine machine;
    const dt_file_entry *rng, *data, *counts, *values;
    char *run_strings, *machine_strings;
} parts;

static dt_status read_options(const dt_file *file, const char *key, const dt_key *keys,
                              void *options, char **strings)
{
    dt__json j;
    bool has;
    DT__TRY(dt__meta_scan(file, key, &j, strings, &has));
    if (!has) {
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: not a training checkpoint: %s is missing",
                       file->path, key);
    }
    DT__TRY(dt__json_options(&j, keys, options));
    return dt__json_end(&j);
}

/* rows -1: any number, at least 1. columns 1: the tensor has rank 1. */
static dt_status find_words(const dt_file *file, const char *name, const char *dtype,
                            const int64_t shape[2], const dt_file_entry **out)
{
    const dt_file_entry *e = dt_file_find(file, name);
    const int rank = shape[1] == 1 ? 1 : 2;
    *out = e;
    if (e != NULL && strcmp(e->dtype, dtype) == 0 && e->rank == rank &&
        (shape[0] < 0 ? e->dims[0] > 0 : e->dims[0] == shape[0]) &&
        (rank == 1 || e->dims[1] == shape[1])) {
        return DT_OK;
    }
    char want[64];
    snprintf(want, sizeof want, "%s, rank %d, %lld rows", dtype, rank, (long long)shape[0]);
    return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: not a training checkpoint: '%s' is %s (%s)",
                   file->path, name, e == NULL ? "missing" : "of another form",
                   shape[0] < 0 ? dtype : want);
}

static dt_status read_parts(const dt_file *file, parts *p)
{
    p->file = file;
    DT__TRY(read_options(file, KEY_RUN, run_keys, &p->names, &p->run_strings));
    DT__TRY(read_options(file, KEY_MACHINE, machine_keys, &p->machine, &p->machine_strings));
    const int64_t any[2] = { -1, 2 };
    const int64_t counts[2] = { p->names.counts.n, 1 }, values[2] = { p->names.values.n, 1 };
    DT__TRY(find_words(file, RNG, "U64", any, &p->rng));
    if (p->rng->dims[0] > 1 + DT__PURPOSES) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: '" RNG "' has %lld random streams, %d are known", file->path,
                       (long long)p->rng->dims[0] - 1, DT__PURPOSES);
    }
    DT__TRY(find_words(file, COUNTS, "I64", counts, &p->counts));
    DT__TRY(find_words(file, VALUES, "F64", values, &p->values));
    p->data = dt_file_find(file, DATA);
    const int64_t data[2] = { p->data == NULL || p->data->rank == 0 ? 0 : p->data->dims[0], 2 };
    return find_words(file, DATA, "I64", data, &p->data);
}

static void free_parts(parts *p, dt_ctx *ctx)
{
    DT__RELEASE(ctx, p->run_strings, p->machine_strings);
}

bool dt__is_checkpoint(const dt_file *file)
{
    return dt_file_meta(file, KEY_RUN) != NULL || dt_file_find(file, RNG) != NULL;
}

/* State of the optimizer and of the freezer must belong to parameters that the file holds. */
static dt_status check_slots(const dt_file *file)
{
    for (int64_t i = 0; i < file->count; i++) {
        const char *name = file->entry[i].name;
        const bool optim = strncmp(name, OPTIM, strlen(OPTIM)) == 0;
        if (!optim && strncmp(name, FREEZE, strlen(FREEZE)) != 0) continue;
        const char *dot = strchr(name + strlen(optim ? OPTIM : FREEZE), '.');
        if (dot != NULL && dt_file_find(file, dot + 1) != NULL) continue;
        char shown[DT__SHOWN];
        return dt_fail(file->ctx, DT_ERR_FORMAT, "%s: '%s' is the state of no parameter",
                       file->path, dt__shown(name, shown));
    }
    return DT_OK;
}

dt_status dt__checkpoint_check(const dt_file *file)
{
    parts p = { .file = file };
    dt_status s = read_parts(file, &p);
    free_parts(&p, file->ctx);
    return s == DT_OK ? check_slots(file) : s;
}

/* ---- loading -------------------------------------------------------------------------------- */

typedef struct slot {
    dt_tensor *x;
    const dt_file_entry *from;
    int64_t first; /* element of the state that belongs to x's first element */
} slot;

typedef struct loading {
    dt_ctx *ctx;
    dt_training_state *s;
    const dt_file *file; /* in the model's names and forms, while restoring */
    parts parts;
    slot *slot;
    int64_t n_slots, room_slots;
} loading;

/* The step count in an optimizer's state is at most the total number of updates. */
static dt_status check_updates(const loading *l, const char *path, const dt_file_entry *e)
{
    for (int64_t i = 0; i < e->count && strcmp(e->dtype, "I64") == 0; i++) {
        int64_t n;
        memcpy(&n, (const char *)e->data + (size_t)i * sizeof n, sizeof n);
        if (n >= 0 && n <= l->parts.names.updates) continue;
        return dt_fail(l->ctx, DT_ERR_FORMAT, "%s: %lld updates of %s, of %lld updates in all",
                       l->parts.file->path, (long long)n, path, (long long)l->parts.names.updates);
    }
    return DT_OK;
}

/* Finds the tensor of the file whose name is prefix, slot and path; *same: its dtype is `dtype` and
 * its shape that of `form`. */
static dt_status find_entry(const loading *l, const char *const name[3], dt_dtype dtype,
                            const dt_tensor *form, const dt_file_entry **out, bool *same)
{
    char *whole = dt__format_string(l->ctx, "%s%s.%s", name[0], name[1], name[2]);
    if (whole == NULL) return DT_ERR_NOMEM;
    const dt_file_entry *e = *out = dt_file_find(l->file, whole);
    dt__release(l->ctx, whole);
    *same = e != NULL && e->rank == form->rank && strcmp(e->dtype, dt__file_dtype_name(dtype)) == 0;
    for (int i = 0; *same && i < form->rank; i++) *same = e->dims[i] == form->dims[i];
    return DT_OK;
}

static dt_status find_frozen(void *user, const char *name, const char *path, dt_tensor *x)
{
    bool same;
    loading *l = user;
    const dt_file_entry *e;
    DT__TRY(find_entry(l, (const char *const[]){ FREEZE, name, path }, x->dtype, x, &e, &same));
    if (!same || !dt__frozen_is_sound(name, e->count, e->data)) {
        return dt_fail(l->ctx, DT_ERR_FORMAT,
                       "%s: the freezer's %s of %s is %s: a run with another 'qat.freeze', or "
                       "without one, wrote it",
                       l->file->path, name, path,
                       e == NULL ? "missing"
                       : same    ? "not such as it writes"
                                 : "of another form");
    }
    DT__TRY(DT__RESERVE(l->ctx, l->slot, l->n_slots, l->room_slots));
    l->slot[l->n_slots++] = (slot){ x, e, 0 };
    return DT_OK;
}

static dt_status find_slot(void *user, const dt__optimizer_state *s)
{
    loading *l = user;
    const char *name = s->slot, *path = s->path;
    dt_tensor *x = s->x;
    const dt_tensor *form = s->shared ? s->p : x;
    const dt_file *file = l->file;
    const dt_file_entry *e;
    bool same;
    DT__TRY(find_entry(l, (const char *const[]){ OPTIM, name, path }, x->dtype, form, &e, &same));
    if (!same || !dt_is_contiguous(x)) {
        return dt_fail(l->ctx, DT_ERR_FORMAT,
                       "%s: the optimizer's %s of %s is %s: another optimizer wrote it", file->path,
                       name, path, e == NULL ? "missing" : "of another form");
    }
    DT__TRY(check_updates(l, path, e));
    DT__TRY(DT__RESERVE(l->ctx, l->slot, l->n_slots, l->room_slots));
    l->slot[l->n_slots++] = (slot){ x, e, s->shared ? s->range[0] : 0 };
    return DT_OK;
}

/* Requires state of trained parameters. A parameter that was trained earlier has state even if it
 * is frozen now. */
static dt_status want_slots(const loading *l)
{
    static const char step[] = OPTIM "step.";
    const dt_file *file = l->file;
    for (int64_t i = 0; i < file->count && l->s->optimizer != NULL; i++) {
        const char *name = file->entry[i].name;
        if (strncmp(name, step, sizeof step - 1) != 0) continue;
        DT__TRY(dt__optimizer_want(l->s->optimizer, name + sizeof step - 1));
    }
    return DT_OK;
}

static int64_t count_of(const dt_file *file, const char *prefix)
{
    int64_t n = 0;
    for (int64_t i = 0; i < file->count; i++) {
        n += strncmp(file->entry[i].name, prefix, strlen(prefix)) == 0;
    }
    return n;
}

static dt_status find_slots(loading *l)
{
    const dt_file *file = l->file;
    DT__TRY(want_slots(l));
    if (l->s->optimizer != NULL) DT__TRY(dt__optimizer_visit(l->s->optimizer, find_slot, l));
    const int64_t there = count_of(file, OPTIM);
    if (there == l->n_slots) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_FORMAT,
                   "%s: %lld tensors of an optimizer's state, but the run's "
                   "has %lld: another optimizer wrote it",
                   file->path, (long long)there, (long long)l->n_slots);
}

static dt_status find_frozen_all(loading *l)
{
    const int64_t before = l->n_slots, there = count_of(l->file, FREEZE);
    if (l->s->freezer != NULL) DT__TRY(dt_freezer_visit(l->s->freezer, find_frozen, l));
    if (there == l->n_slots - before) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_FORMAT,
                   "%s: %lld tensors of a freezer's state, but the run's has %lld", l->file->path,
                   (long long)there, (long long)(l->n_slots - before));
}

static int index_of(const dt_strings *names, const char *name)
{
    int i = 0;
    while (i < names->n && strcmp(names->v[i], name) != 0) i++;
    return i < names->n ? i : -1;
}

static dt_status check_counters(const loading *l)
{
    const dt_training_state *s = l->s;
    const run_names *has = &l->parts.names;
    const char *lost = NULL;
    int counts = has->counts.n; /* required counters; the others are optional */
    for (int i = 0; i < s->n_counts; i++) {
        if (index_of(&has->counts, s->counts[i].name) >= 0) continue;
        if (s->counts[i].is_newer) counts++;
        else lost = s->counts[i].name;
    }
    for (int i = 0; i < s->n_values; i++) {
        if (index_of(&has->values, s->values[i].name) < 0) lost = s->values[i].name;
    }
    if (lost == NULL && counts == s->n_counts && has->values.n == s->n_values) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_FORMAT,
                   "%s: a checkpoint of another kind of run: it has %d and "
                   "%d counters, and must have %d and %d%s%s",
                   l->parts.file->path, has->counts.n, has->values.n, s->n_counts, s->n_values,
                   lost == NULL ? "" : "; no ", lost == NULL ? "" : lost);
}

dt_status dt_checkpoint_count(const dt_file *file, const char *name, int64_t *value)
{
    DT__NEED3(file->ctx, file, name, value);
    parts p = { .file = NULL };
    const dt_status s = read_parts(file, &p);
    const int at = s == DT_OK ? index_of(&p.names.counts, name) : -1;
    if (at >= 0) memcpy(value, (const char *)p.counts->data + (size_t)at * 8, 8);
    free_parts(&p, file->ctx);
    return s;
}

static dt_position position_at(const loading *l, int i)
{
    int64_t words[2];
    memcpy(words, (const char *)l->parts.data->data + (size_t)i * sizeof words, sizeof words);
    return (dt_position){ words[0], words[1] };
}

static dt_status check_positions(const loading *l)
{
    const dt_training_state *s = l->s;
    const char *path = l->parts.file->path;
    if (l->parts.data->dims[0] != s->n_loaders) {
        return dt_fail(l->ctx, DT_ERR_FORMAT, "%s: positions of %lld loaders; the run has %d", path,
                       (long long)l->parts.data->dims[0], s->n_loaders);
    }
    for (int i = 0; i < s->n_loaders; i++) {
        const dt_position p = position_at(l, i);
        const int64_t batches = dt_loader_batches(s->loaders[i]);
        if (p.epoch >= 0 && p.epoch < INT64_MAX && p.batch >= 0 && p.batch < batches) continue;
        return dt_fail(l->ctx, DT_ERR_FORMAT,
                       "%s: batch %lld of epoch %lld, but an epoch has %lld "
                       "batches: other data, or another batch size",
                       path, (long long)p.batch, (long long)p.epoch, (long long)batches);
    }
    return DT_OK;
}

/* Called before the model changes. This is the last step that may fail. */
static dt_status check_rest(void *user, const dt_file *fitted)
{
    loading *l = user;
    l->file = fitted;
    DT__TRY(find_slots(l));
    DT__TRY(find_frozen_all(l));
    DT__TRY(check_counters(l));
    return check_positions(l);
}

static void restore_streams(const loading *l)
{
    const dt_file_entry *e = l->parts.rng;
    uint64_t words[2 * (1 + DT__PURPOSES)];
    memcpy(words, e->data, e->bytes);
    dt_seed(l->ctx, words[0]); /* streams that the file lacks get their initial state */
    for (int64_t i = 1; i < e->dims[0]; i++) {
        l->ctx->stream[i - 1] = (dt__stream){ words[2 * i], words[2 * i + 1] };
    }
}

static void restore_counters(const loading *l)
{
    const dt_training_state *s = l->s;
    for (int i = 0; i < s->n_counts; i++) {
        const int at = index_of(&l->parts.names.counts, s->counts[i].name);
        if (at < 0) continue;
        memcpy(&s->counts[i].value, (const char *)l->parts.counts->data + (size_t)at * 8, 8);
    }
    for (int i = 0; i < s->n_values; i++) {
        const int at = index_of(&l->parts.names.values, s->values[i].name);
        memcpy(&s->values[i].value, (const char *)l->parts.values->data + (size_t)at * 8, 8);
    }
}

static void warn_of_machine(const loading *l)
{
    char processor[DT__PROCESSOR];
    const machine *was = &l->parts.machine;
    if (strcmp(was->processor, dt__processor(processor)) == 0 &&
        strcmp(was->kernels, dt_kernels_name(l->ctx)) == 0) {
        return;
    }
    char a[DT__SHOWN], b[DT__SHOWN];
    dt__say(l->ctx,
            "warning: %s was written on %s (kernels %s), this is %s (kernels %s): the run "
            "goes on, but bits may differ from an uninterrupted one",
            l->parts.file->path, dt__shown(was->processor, a), dt__shown(was->kernels, b),
            processor, dt_kernels_name(l->ctx));
}

static void restore_slots(void *user)
{
    const loading *l = user;
    for (int64_t i = 0; i < l->n_slots; i++) {
        dt_tensor *x = l->slot[i].x;
        x->storage->version++;
        const size_t size = dt_dtype_size(x->dtype);
        const char *from = l->slot[i].from->data;
        if (x->count == 0) continue;
        memcpy(dt__values_mut(x), from + (size_t)l->slot[i].first * size, (size_t)x->count * size);
    }
}

static dt_status load(loading *l, const dt_file *file)
{
    DT__TRY(dt_file_check(file));
    DT__TRY(
        dt__base_compare(l->ctx, file->path, dt_file_meta(file, DT__KEY_BASE), l->s->info.base));
    DT__TRY(read_parts(file, &l->parts));
    DT__TRY(dt__restore(&(dt__restoring){ .file = file,
                                          .m = l->s->module,
                                          .quantized = true,
                                          .then = check_rest,
                                          .after = restore_slots,
                                          .user = l }));
    if (l->s->optimizer != NULL) dt_optimizer_set_updates(l->s->optimizer, l->parts.names.updates);
    for (int i = 0; i < l->s->n_loaders; i++) {
        /* checked before, cannot fail */
        DT__TRY(dt_loader_seek(l->s->loaders[i], position_at(l, i)));
    }
    restore_streams(l);
    restore_counters(l);
    warn_of_machine(l);
    return DT_OK;
}

dt_status dt_checkpoint_load(dt_training_state *s, const char *path)
{
    DT__NEED2(NULL, s, s->module);
    DT__NEED(s->module->ctx, path);
    dt_file *file;
    loading l = { .ctx = s->module->ctx, .s = s };
    DT__TRY(dt_file_open(l.ctx, path, &file));
    const dt_status status = load(&l, file);
    free_parts(&l.parts, l.ctx);
    dt__release(l.ctx, l.slot);
    dt_file_close(file);
    return status;
}
