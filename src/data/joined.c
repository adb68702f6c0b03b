/* Joined arrays, a kind of dataset: the x of example i are those of every input, one after the
 * other, and its targets those of every output. */
#include "data/joined.h"

#include "core/threads.h"

#include <math.h>
#include <string.h>

/* ---- the parts ------------------------------------------------------------------------------ */

static void release(dt__joined *j)
{
    if (--j->refs > 0) return;
    for (int i = 0; i < j->n_inputs + j->n_outputs; i++) {
        dt__joined_part *part = i < j->n_inputs ? &j->input[i] : &j->output[i - j->n_inputs];
        DT__RELEASE(j->ctx, part->name, part->loss);
        if (part->data.kind != NULL) part->data.kind->drop(&part->data);
    }
    dt__release(j->ctx, j);
}

dt_dataset dt__joined_view(const dt_dataset *d, const dt__joined_part *part)
{
    dt_dataset view = part->data;
    view.first += d->first;
    view.count = d->count;
    return view;
}

static int find(const dt__joined_part *part, int n, const char *name)
{
    int i = 0;
    while (i < n && strcmp(part[i].name, name) != 0) i++;
    return i;
}

/* Finds the index of each name among n parts; false: a name is missing. */
static bool places_of(const dt__joined_part *part, int n, const char *const *names, int *place,
                      const char **missing)
{
    for (int i = 0; i < n && n > 1; i++) {
        place[i] = find(part, n, names[i]);
        *missing = names[i];
        if (place[i] == n) return false;
    }
    return true;
}

bool dt__joined_arrange(dt__joined *j, const dt__joined_order *order, const char **missing)
{
    int in[DT_MAX_SHAPES] = { 0 }, out[DT_MAX_JOINED] = { 0 };
    const dt__joined before = *j;
    *missing = NULL;
    if (order->n_in != j->n_inputs || order->n_out != j->n_outputs) return false;
    if (!places_of(j->input, j->n_inputs, order->in, in, missing) ||
        !places_of(j->output, j->n_outputs, order->out, out, missing)) {
        return false;
    }
    for (int i = 0; i < j->n_inputs; i++) j->input[i] = before.input[in[i]];
    for (int i = 0; i < j->n_outputs; i++) j->output[i] = before.output[out[i]];
    return true;
}

/* ---- as a kind ------------------------------------------------------------------------------ */

static bool is_signal(const dt__joined_part *p) { return p->data.arrays->rank == 2; }

static bool moves(const dt_augment_options *a)
{
    return a->shift != 0 || a->crop != 0 || a->time_mask != 0;
}

/* Augmentations along time apply only to inputs that are signals. */
static dt_loader_options options_of(const dt_loader_options *o, const dt__joined_part *p)
{
    dt_loader_options own = *o;
    if (!is_signal(p)) own.augment.shift = own.augment.crop = own.augment.time_mask = 0;
    return own;
}

static dt_status check(const dt_dataset *d, const dt_loader_options *o)
{
    const dt__joined *j = d->joined;
    bool any = !moves(&o->augment);
    for (int i = 0; i < j->n_inputs; i++) any |= is_signal(&j->input[i]);
    for (int i = 0; i < j->n_inputs; i++) {
        const dt_loader_options own = options_of(o, &j->input[i]);
        DT__TRY(dt__arrays_check(&j->input[i].data, any ? &own : o));
    }
    return DT_OK;
}

static void sides(const dt_dataset *d, dt__side *x, dt__side *target)
{
    const dt__joined *j = d->joined;
    dt__side other;
    j->input[0].data.kind->sides(&j->input[0].data, x, &other);
    j->output[0].data.kind->sides(&j->output[0].data, &other, target);
    if (j->n_inputs > 1) {
        *x = (dt__side){ .dtype = DT_F32, .rank = 1 };
        for (int i = 0; i < j->n_inputs; i++) x->dims[0] += dt__array_size(j->input[i].data.arrays);
    }
    if (j->n_outputs > 1) {
        *target = (dt__side){ .dtype = DT_I32, .rank = 1 };
        for (int i = 0; i < j->n_outputs; i++) {
            target->dims[0] += dt__array_cells(&j->output[i].data);
        }
    }
}

/* State of a loader: the state of each input, by its number. */
typedef struct states {
    void *input[DT_MAX_SHAPES];
} states;

static dt_status begin(const dt_dataset *d, void **state)
{
    const dt__joined *j = d->joined;
    states *all = *state = dt__alloc_zero(d->ctx, sizeof *all);
    if (all == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < j->n_inputs; i++) {
        const dt__joined_part *part = &j->input[i];
        DT__TRY(dt__arrays_begin(&part->data, &all->input[part->number]));
        dt__arrays_set_input(all->input[part->number], part->number);
    }
    return DT_OK;
}

static void end(dt_ctx *ctx, void *state)
{
    states *all = state;
    for (int i = 0; all != NULL && i < DT_MAX_SHAPES; i++) dt__arrays_end(ctx, all->input[i]);
    dt__release(ctx, all);
}

/* A batch, and the slices of it that belong to each input and output. */
typedef struct filling {
    const dt__batch *batch;
    int64_t numbers, cells; /* per example */
    dt_dataset view[DT_MAX_SHAPES], target[DT_MAX_JOINED];
    dt__batch input[DT_MAX_SHAPES];
    dt_loader_options options[DT_MAX_SHAPES];
} filling;

static void open_filling(const dt__batch *b, filling *f)
{
    const dt__joined *j = b->d->joined;
    const states *all = b->state;
    *f = (filling){ .batch = b };
    for (int i = 0; i < j->n_inputs; i++) {
        f->view[i] = dt__joined_view(b->d, &j->input[i]);
        f->input[i] = *b;
        f->options[i] = options_of(b->options, &j->input[i]);
        f->input[i].options = &f->options[i];
        f->input[i].d = &f->view[i];
        f->input[i].state = all->input[j->input[i].number];
        f->numbers += dt__array_size(f->view[i].arrays);
    }
    for (int i = 0; i < j->n_outputs; i++) {
        f->target[i] = dt__joined_view(b->d, &j->output[i]);
        f->cells += dt__array_cells(&f->target[i]);
    }
}

static void joined_fill_share(const void *args, const dt__share *share)
{
    const filling *f = args;
    const dt__joined *j = f->batch->d->joined;
    for (int64_t e = share->first; e < share->past; e++) {
        float *x = (float *)f->batch->x + e * f->numbers;
        for (int i = 0; i < j->n_inputs; i++) {
            dt__arrays_put(&f->input[i], e, x);
            x += dt__array_size(f->view[i].arrays);
        }
        int32_t *cell = (int32_t *)f->batch->target + e * f->cells;
        for (int i = 0; i < j->n_outputs; i++) {
            const dt_dataset *d = &f->target[i];
            const int64_t n = dt__array_cells(d);
            memcpy(cell, dt__array_target(d, dt__batch_example(f->batch, e)),
                   (size_t)n * sizeof *cell);
            cell += n;
        }
    }
}

static void fill(const dt__batch *b)
{
    filling f;
    open_filling(b, &f);
    dt__team *const before = dt__threads_enter(b->d->ctx);
    dt__parallel(b->n, dt__ceil_div(f.numbers, 8), joined_fill_share, &f);
    dt__threads_leave(before);
}

static void expect(const dt__batch *b)
{
    filling f;
    open_filling(b, &f);
    for (int i = 0; i < b->d->joined->n_inputs; i++) dt__arrays_expect(&f.input[i]);
}

/* With several outputs an example counts once, as each loss is a mean over examples. */
static int64_t labels(const dt__batch *b, int64_t example)
{
    if (b->d->target == DT_TARGET_SEVERAL) return 1;
    const dt_dataset view = dt__joined_view(b->d, &b->d->joined->output[0]);
    dt__batch of_view = *b;
    of_view.d = &view;
    return view.kind->labels(&of_view, example);
}

/* Called only if targets are labels of one output. */
static int label_of(const dt_dataset *d, int64_t example)
{
    const dt_dataset view = dt__joined_view(d, &d->joined->output[0]);
    return view.kind->label(&view, example);
}

static void split(dt_dataset *d, dt_dataset *last, int64_t count)
{
    d->count -= count;
    last->count = count;
    last->first += d->count;
    d->joined->refs++;
}

static void drop(dt_dataset *d) { release(d->joined); }

static const dt__data_kind joined_kind = {
    .examples = "examples",
    .check = check,
    .sides = sides,
    .begin = begin,
    .end = end,
    .fill = fill,
    .expect = expect,
    .labels = labels,
    .split = split,
    .drop = drop,
    .label = label_of,
};

/* ---- checks --------------------------------------------------------------------------------- */

/* The i-th part of a join, inputs first. */
typedef struct side {
    const char *kind, *name;
    const dt_dataset *data;
} side;

static side side_of(const dt_join *j, int i)
{
    if (i < j->n_inputs) return (side){ "input", j->input[i].name, j->input[i].data };
    const dt_joined_output *out = &j->output[i - j->n_inputs];
    return (side){ "output", out->name, out->data };
}

static dt_status check_name(dt_ctx *ctx, const dt_join *j, int i)
{
    const side s = side_of(j, i);
    if (s.name != NULL && strlen(s.name) > DT_MAX_NAME) {
        return dt_fail(ctx, DT_ERR_ARG, "join: the name of an %s has %zu bytes; the most are %d",
                       s.kind, strlen(s.name), DT_MAX_NAME);
    }
    if (s.name == NULL || s.name[0] == 0) {
        return dt_fail(ctx, DT_ERR_ARG, "join: %s %d has no name", s.kind,
                       i < j->n_inputs ? i : i - j->n_inputs);
    }
    for (int k = i < j->n_inputs ? 0 : j->n_inputs; k < i; k++) {
        if (strcmp(side_of(j, k).name, s.name) != 0) continue;
        return dt_fail(ctx, DT_ERR_ARG, "join: there are two %ss '%s'", s.kind, s.name);
    }
    return DT_OK;
}

/* Whether the examples of two arrays are windows of the same recordings. */
static bool cut_alike(const dt_dataset *a, const dt_dataset *b)
{
    const dt__array_store *s = a->arrays, *t = b->arrays;
    if (a->count != b->count) return false;
    if (!s->target_each_recording && !t->target_each_recording) return true;
    bool same = s->n_recordings == t->n_recordings && a->first == b->first;
    for (int64_t i = 0; same && i < s->n_recordings; i++) {
        same = s->recording[i].end == t->recording[i].end;
    }
    return same;
}

static dt_status check_data(dt_ctx *ctx, const dt_join *j, int i)
{
    const side s = side_of(j, i), first = side_of(j, 0);
    const dt_dataset *d = s.data;
    if (d == NULL || d->kind != &dt__data_arrays || d->target == DT_TARGET_ANOMALY) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "join: %s '%s' is %s; expected arrays with labels, values or bits", s.kind,
                       s.name,
                       d == NULL                     ? "NULL"
                       : d->kind == &dt__data_arrays ? "for anomalies"
                                                     : d->kind->examples);
    }
    if (cut_alike(first.data, d)) return DT_OK;
    return dt_fail(ctx, DT_ERR_ARG,
                   "join: %s '%s' has %lld examples in %lld pieces, %s '%s' has %lld in %lld; "
                   "expected as many",
                   s.kind, s.name, (long long)d->count, (long long)d->arrays->n_recordings,
                   first.kind, first.name, (long long)first.data->count,
                   (long long)first.data->arrays->n_recordings);
}

static dt_status check_output(dt_ctx *ctx, const dt_joined_output *o)
{
    const dt_target target = o->data->target;
    const bool classes = target == DT_TARGET_CLASS || target == DT_TARGET_BITS;
    const int n = o->class_weights.n;
    if (!(o->weight > 0) || !isfinite((float)o->weight)) {
        return dt_fail(ctx, DT_ERR_ARG, "join: output '%s' has weight %g; expected above 0",
                       o->name, o->weight);
    }
    if (!(o->huber_delta >= 0) || !isfinite((float)o->huber_delta)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "join: output '%s' has huber_delta %g; expected finite and not negative",
                       o->name, o->huber_delta);
    }
    if (n == 0 || n == DT_WEIGHTS_NONE || (classes && n == DT_WEIGHTS_BALANCED)) return DT_OK;
    if (classes && n == dt_dataset_outputs(o->data)) return DT_OK;
    if (!classes) {
        return dt_fail(ctx, DT_ERR_ARG, "join: output '%s' has class weights, but no classes",
                       o->name);
    }
    return dt_fail(ctx, DT_ERR_ARG, "join: output '%s' has %d class weights for %lld classes",
                   o->name, n, (long long)(classes ? dt_dataset_outputs(o->data) : 0));
}

static dt_status check_join(dt_ctx *ctx, const dt_join *j)
{
    if (j->n_inputs < 1 || j->n_inputs > DT_MAX_SHAPES || j->n_outputs < 1 ||
        j->n_outputs > DT_MAX_JOINED) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "join: %d inputs and %d outputs; expected 1 to %d and 1 to %d", j->n_inputs,
                       j->n_outputs, DT_MAX_SHAPES, DT_MAX_JOINED);
    }
    for (int i = 0; i < j->n_inputs + j->n_outputs; i++) {
        DT__TRY(check_name(ctx, j, i));
        DT__TRY(check_data(ctx, j, i));
    }
    for (int i = 0; i < j->n_outputs; i++) DT__TRY(check_output(ctx, &j->output[i]));
    return DT_OK;
}

/* ---- creation ------------------------------------------------------------------------------- */

static dt_status take(dt__joined *j, const side *s, dt__joined_part *part)
{
    part->data = *s->data;
    part->data.arrays->refs++;
    if (part->data.scaling != NULL) dt__storage_retain(part->data.scaling);
    part->name = dt__copy_string(j->ctx, s->name);
    return part->name == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status set(dt__joined *j, const dt_joined_output *from, dt__joined_part *to)
{
    to->weight = from->weight;
    to->huber_delta = from->huber_delta;
    to->class_weights = from->class_weights;
    if (from->class_weights.n == 0) to->class_weights.n = DT_WEIGHTS_NONE;
    if (from->loss == NULL) return DT_OK;
    to->loss = dt__copy_string(j->ctx, from->loss);
    return to->loss == NULL ? DT_ERR_NOMEM : DT_OK;
}

dt_status dt_dataset_join(dt_ctx *ctx, const dt_join *join, dt_dataset **out)
{
    DT__NEED3(ctx, ctx, join, out);
    *out = NULL;
    DT__TRY(check_join(ctx, join));
    dt__joined *j = dt__alloc_zero(ctx, sizeof *j);
    if (j == NULL) return DT_ERR_NOMEM;
    j->ctx = ctx;
    j->refs = 1;
    j->n_inputs = join->n_inputs;
    j->n_outputs = join->n_outputs;
    for (int i = 0; i < j->n_inputs; i++) j->input[i].number = i;
    for (int i = 0; i < j->n_outputs; i++) j->output[i].number = i;
    dt_status s = DT_OK;
    for (int i = 0; i < j->n_inputs + j->n_outputs && s == DT_OK; i++) {
        const side from = side_of(join, i);
        s = take(j, &from, i < j->n_inputs ? &j->input[i] : &j->output[i - j->n_inputs]);
    }
    for (int i = 0; i < j->n_outputs && s == DT_OK; i++)
        s = set(j, &join->output[i], &j->output[i]);
    const dt_dataset *target = join->output[0].data;
    const bool several = j->n_outputs > 1;
    const dt_dataset d = {
        .kind = &joined_kind,
        .count = target->count,
        .target = several ? DT_TARGET_SEVERAL : target->target,
        .classes = several ? 0 : target->classes,
        .joined = j,
    };
    if (s == DT_OK) return dt__dataset_make(ctx, &d, out);
    release(j);
    return s;
}
