/* Batches of a dataset of any kind. Each epoch e has its own order of examples: a Fisher-Yates
 * shuffle with block e of the seed's stream for shuffling. With class balancing, the same stream
 * first draws the examples of each class. The kind of dataset fills a batch from (seed, e,
 * positions) alone, so nothing depends on earlier batches, and any batch can be made first. One
 * pair of tensors, and a pair of views for a shorter last batch, are reused: batches allocate
 * nothing. */
#include "data/arrays.h"
#include "data/dataset.h"

#include "core/shuffle.h"

#include <math.h>
#include <string.h>

#define RUN ((int64_t)64 << 10)
#define WINDOW ((int64_t)256 << 20)

struct dt_loader {
    dt_ctx *ctx;
    const dt_dataset *data;
    const dt__data_kind *kind;
    dt_loader_options options;
    int64_t count, batches, last; /* per epoch; examples in the last batch */
    dt_position next;
    int64_t apart;              /* this process reads every `apart`-th batch */
    int64_t ordered;            /* the epoch of `order`; -1: none */
    int64_t *order;             /* NULL: the dataset's order */
    int64_t run, window, *runs; /* of dt__shuffle_runs */
    /* with class balancing: the examples, sorted by class; else NULL */
    int64_t *by_class;
    int64_t *starts;             /* [classes + 1]: where each class begins in by_class */
    void *state;                 /* made by the kind */
    dt_tensor *x[2], *target[2]; /* [0] for whole batches, [1] for a shorter last batch */
    /* the second targets of mixed batches; NULL: batches are not mixed */
    dt_tensor *other[2];
    double share;       /* weight of the latest batch's targets */
    dt_tensor *others;  /* of the latest batch; NULL: it is not mixed */
    dt_tensor *view[3]; /* of the latest shard: x, target, others; NULL: none */
};

dt__epoch_keys dt__keys_of_epoch(uint64_t seed, dt__purpose purpose, int64_t epoch)
{
    uint32_t word[4];
    dt__philox(dt__stream_of(seed, purpose).key, (uint64_t)epoch, word);
    return (dt__epoch_keys){ (uint64_t)word[0] << 32 | word[1], (uint64_t)word[2] << 32 | word[3] };
}

/* Draws `quota` of n examples: each as often as quota / n, and a random choice for the
 * remainder. */
static int64_t *draw_class(const int64_t *from, int64_t n, int64_t quota, dt__stream *s,
                           int64_t *to)
{
    for (; quota >= n; quota -= n, to += n) memcpy(to, from, (size_t)n * sizeof *to);
    for (int64_t i = 0; i < n && quota > 0; i++) {
        if ((int64_t)dt__random_below(s, (uint64_t)(n - i)) >= quota) continue;
        *to++ = from[i];
        quota--;
    }
    return to;
}

/* Draws the examples of a balanced epoch, class by class. The classes that get one example more
 * alternate. */
static void draw_balanced(dt_loader *l, dt__stream *s)
{
    int64_t occur = 0, k = 0, *to = l->order;
    for (int64_t c = 0; c < l->data->classes; c++) occur += l->starts[c + 1] > l->starts[c];
    for (int64_t c = 0; c < l->data->classes; c++) {
        const int64_t n = l->starts[c + 1] - l->starts[c];
        if (n == 0) continue;
        const int64_t turn = (k++ + l->next.epoch % occur) % occur;
        const int64_t quota = l->count / occur + (turn < l->count % occur);
        to = draw_class(l->by_class + l->starts[c], n, quota, s, to);
    }
}

static void order_epoch(dt_loader *l)
{
    if (l->order == NULL || l->ordered == l->next.epoch) return;
    const uint64_t key = dt__keys_of_epoch(l->options.seed, DT__FOR_SHUFFLE, l->next.epoch).first;
    dt__stream s = { .key = key };
    if (l->by_class == NULL) {
        dt__shuffle_runs(&s, l->count, l->run, l->window, l->runs, l->order);
    } else {
        draw_balanced(l, &s);
        dt__shuffle(&s, l->count, l->order);
    }
    l->ordered = l->next.epoch;
}

/* Large tables may not fit into memory: shuffles runs of RUN bytes in windows of WINDOW bytes. */
static dt_status choose_runs(dt_loader *l)
{
    const dt__array_store *s = l->data->arrays;
    l->run = 1;
    l->window = l->count;
    if (s == NULL || !s->is_table) return DT_OK;
    const int64_t bytes = dt__max_i64(1, s->stride * s->row * dt__array_dtype_of(s->dtype)->bytes);
    l->run = dt__max_i64(1, RUN / bytes);
    l->window = l->run * dt__max_i64(1, WINDOW / (l->run * bytes));
    if (l->window >= l->count) return DT_OK;
    dt__arrays_at_random(s);
    l->runs = dt__alloc_array(l->ctx, dt__ceil_div(l->count, l->run), sizeof *l->runs);
    return l->runs == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* ---- creation ----------------------------------------------------------------------------- */

dt_loader_options dt_loader_defaults(void)
{
    return (dt_loader_options){ .batch_size = 64, .shuffle = true };
}

static dt_status check_options(const dt_dataset *d, const dt_loader_options *o)
{
    const int64_t count = dt__dataset_epoch(d, o->shuffle);
    if (o->batch_size < 1) {
        return dt_fail(d->ctx, DT_ERR_ARG, "loader: batch size %lld: expected at least 1",
                       (long long)o->batch_size);
    }
    if (count < (o->drop_last ? o->batch_size : 1)) {
        return dt_fail(d->ctx, DT_ERR_ARG, "loader: %lld %s do not fill one batch of %lld%s",
                       (long long)count, dt__dataset_examples(d), (long long)o->batch_size,
                       o->drop_last ? ", and a shorter one is left out" : "");
    }
    if (o->balanced && (!o->shuffle || d->target != DT_TARGET_CLASS || d->kind->label == NULL)) {
        return dt_fail(d->ctx, DT_ERR_ARG,
                       "loader: balanced: %s with one class each, shuffled, are required",
                       dt__dataset_examples(d));
    }
    return d->kind->check(d, o);
}

static dt_status create_side(dt_loader *l, const dt__side *side, dt_tensor *out[2])
{
    int64_t dims[DT_MAX_RANK] = { dt__min_i64(l->options.batch_size, l->count) };
    memcpy(dims + 1, side->dims, (size_t)side->rank * sizeof *dims);
    DT__TRY(dt_tensor_create(l->ctx, side->dtype, side->rank + 1, dims, &out[0]));
    return l->last == dims[0] ? DT_OK : dt_tensor_narrow(out[0], 0, 0, l->last, &out[1]);
}

/* Sorts the examples by class. */
static dt_status sort_by_class(dt_loader *l)
{
    const int64_t classes = l->data->classes;
    l->by_class = dt__alloc_array(l->ctx, l->count, sizeof *l->by_class);
    l->starts = dt__alloc_array(l->ctx, classes + 2, sizeof *l->starts);
    if (l->by_class == NULL || l->starts == NULL) return DT_ERR_NOMEM;
    memset(l->starts, 0, (size_t)(classes + 2) * sizeof *l->starts);
    for (int64_t i = 0; i < l->count; i++) l->starts[l->kind->label(l->data, i) + 2]++;
    for (int64_t c = 0; c < classes; c++) l->starts[c + 2] += l->starts[c + 1];
    for (int64_t i = 0; i < l->count; i++) {
        l->by_class[l->starts[l->kind->label(l->data, i) + 1]++] = i;
    }
    return DT_OK;
}

static dt_status fill_loader(dt_loader *l)
{
    const dt_loader_options *o = &l->options;
    l->count = dt__dataset_epoch(l->data, o->shuffle);
    const int64_t size = dt__min_i64(o->batch_size, l->count), rest = l->count % size;
    l->batches = l->count / size + (rest > 0 && !o->drop_last);
    l->last = rest > 0 && !o->drop_last ? rest : size;
    l->ordered = -1;
    l->apart = 1;
    if (o->shuffle) {
        l->order = dt__alloc_array(l->ctx, l->count, sizeof *l->order);
        if (l->order == NULL) return DT_ERR_NOMEM;
        DT__TRY(choose_runs(l));
    }
    if (o->balanced) DT__TRY(sort_by_class(l));
    if (l->kind->begin != NULL) DT__TRY(l->kind->begin(l->data, &l->state));
    dt__side x, target;
    l->kind->sides(l->data, &x, &target);
    DT__TRY(create_side(l, &x, l->x));
    DT__TRY(create_side(l, &target, l->target));
    l->share = 1;
    return dt__images_are_mixed(&o->augment) ? create_side(l, &target, l->other) : DT_OK;
}

dt_status dt_loader_create(const dt_dataset *d, const dt_loader_options *options, dt_loader **out)
{
    DT__NEED2(NULL, d, out);
    *out = NULL;
    const dt_loader_options o = options == NULL ? dt_loader_defaults() : *options;
    DT__TRY(check_options(d, &o));
    dt_loader *l = dt__alloc_zero(d->ctx, sizeof *l);
    if (l == NULL) return DT_ERR_NOMEM;
    l->ctx = d->ctx;
    l->data = d;
    l->kind = d->kind;
    l->options = o;
    dt__ctx_retain(l->ctx);
    const dt_status status = fill_loader(l);
    if (status == DT_OK) *out = l;
    else dt_loader_free(l);
    return status;
}

static void free_views(dt_loader *l)
{
    for (int i = 0; i < 3; i++) {
        dt_tensor_free(l->view[i]);
        l->view[i] = NULL;
    }
}

void dt_loader_free(dt_loader *l)
{
    if (l == NULL) return;
    free_views(l);
    for (int i = 0; i < 2; i++) {
        DT__TENSORS_FREE(l->x[i], l->target[i], l->other[i]);
    }
    dt_ctx *ctx = l->ctx;
    if (l->kind->end != NULL) l->kind->end(ctx, l->state);
    DT__RELEASE(ctx, l->order, l->runs, l->by_class, l->starts, l);
    dt__ctx_release(ctx);
}

/* ---- batches ------------------------------------------------------------------------------ */

int64_t dt_loader_examples(const dt_loader *l) { return l == NULL ? 0 : l->count; }
int64_t dt_loader_batches(const dt_loader *l) { return l == NULL ? 0 : l->batches; }
dt_position dt_loader_position(const dt_loader *l)
{
    if (l == NULL) return (dt_position){ 0 };
    return l->next;
}

dt_status dt_loader_seek(dt_loader *l, dt_position position)
{
    DT__NEED(NULL, l);
    if (position.epoch < 0 || position.epoch == INT64_MAX || position.batch < 0 ||
        position.batch >= l->batches) {
        return dt_fail(
            l->ctx, DT_ERR_ARG,
            "loader: no batch %lld of epoch %lld; epochs count from 0, batches 0 to %lld",
            (long long)position.batch, (long long)position.epoch, (long long)l->batches - 1);
    }
    l->next = position;
    return DT_OK;
}

static dt__batch batch_of(dt_loader *l, int64_t n)
{
    order_epoch(l);
    return (dt__batch){ .d = l->data,
                        .options = &l->options,
                        .state = l->state,
                        .epoch = l->next.epoch,
                        .first = l->next.batch * dt_dim(l->x[0], 0),
                        .n = n,
                        .order = l->order };
}

/* The examples of the next batches, without tensors. */
static dt__batch examples_of(dt_loader *l, int64_t batches)
{
    const int64_t size = dt_dim(l->x[0], 0), left = l->batches - l->next.batch;
    const int64_t end = l->next.batch + dt__max_i64(0, dt__min_i64(batches, left));
    const int64_t examples = end == l->batches ? (end - 1) * size + l->last : end * size;
    return batch_of(l, examples - l->next.batch * size);
}

double dt__loader_weigh(dt_loader *l, int64_t batches, const float *weight)
{
    const dt__batch b = examples_of(l, batches);
    double sum = 0;
    for (int64_t i = 0; i < b.n; i++) {
        sum += (double)weight[l->kind->label(l->data, dt__batch_example(&b, i))];
    }
    return sum;
}

int64_t dt_loader_labels(dt_loader *l, int64_t batches)
{
    if (l == NULL) return 0;
    const dt__batch b = examples_of(l, batches);
    int64_t n = 0;
    for (int64_t i = 0; i < b.n; i++) n += l->kind->labels(&b, dt__batch_example(&b, i));
    return n;
}

/* The first example of a shard in a batch of n examples. */
static int64_t first_of_shard(int64_t n, int64_t shard, int64_t shards)
{
    return dt__ceil_div(shard * n, shards);
}

/* Prefetches the same shard of the next batch, so that it is read while this one is used. Not
 * across epochs, as the next order would have to be made. */
static void expect_next(dt_loader *l, int64_t shard, int64_t shards)
{
    const int64_t next = l->next.batch + l->apart - 1;
    if (l->kind->expect == NULL || l->next.batch == 0 || next >= l->batches) return;
    const int64_t size = dt_dim(l->x[0], 0), all = next == l->batches - 1 ? l->last : size;
    const int64_t first = first_of_shard(all, shard, shards);
    dt__batch b = batch_of(l, first_of_shard(all, shard + 1, shards) - first);
    b.first = next * size + first;
    l->kind->expect(&b);
}

void dt__loader_apart(dt_loader *l, int64_t batches) { l->apart = batches; }

/* The middle example of an odd batch is mixed with itself: both targets are its own. */
static dt_status mix(dt_loader *l, const dt__batch *b, dt_tensor *other)
{
    int32_t *labels = dt_data_mut(other);
    if (labels == NULL) return dt_error_status(l->ctx);
    const dt_augment_options *a = &l->options.augment;
    const uint64_t key = dt__keys_of_epoch(l->options.seed, DT__FOR_AUGMENT, b->epoch).first;
    const dt__mixture m = dt__mixture_of(l->data, a, key, l->next.batch);
    dt__images_mix(b, &m, labels);
    l->share = (double)m.share;
    l->others = other;
    return DT_OK;
}

double dt_loader_mixed(const dt_loader *l, dt_tensor **other)
{
    if (l == NULL) return (double)NAN;
    if (other == NULL) return (double)NAN;
    *other = l->others;
    return l->share;
}

/* Goes to the next batch after the last shard of a batch. */
static void advance(dt_loader *l, int64_t shard, int64_t shards)
{
    l->next.batch++;
    if (l->next.batch == l->batches) l->next = (dt_position){ l->next.epoch + 1, 0 };
    expect_next(l, shard, shards);
}

/* Views of examples first ... first + n - 1 of the tensors of a whole batch. */
static dt_status view_shard(dt_loader *l, int k, int64_t first, int64_t n)
{
    dt_tensor *const whole[3] = { l->x[k], l->target[k], l->others };
    for (int i = 0; i < 3; i++) {
        if (whole[i] != NULL) DT__TRY(dt_tensor_narrow(whole[i], 0, first, n, &l->view[i]));
    }
    if (l->others != NULL) l->others = l->view[2];
    return DT_OK;
}

dt_status dt__loader_next_shard(dt_loader *l, int64_t shard, int64_t shards, dt_tensor **x,
                                dt_tensor **target)
{
    const int k = l->next.batch == l->batches - 1 && l->x[1] != NULL;
    const int64_t all = dt_dim(l->x[k], 0);
    const int64_t first = first_of_shard(all, shard, shards);
    const int64_t n = first_of_shard(all, shard + 1, shards) - first;
    const bool mixed = l->other[0] != NULL; /* then examples are mixed across shards */
    void *value = dt_data_mut(l->x[k]), *wanted = dt_data_mut(l->target[k]);
    *x = *target = NULL;
    if (value == NULL || wanted == NULL) return dt_error_status(l->ctx);
    free_views(l);
    if (n > 0) {
        dt__batch b = batch_of(l, mixed ? all : n);
        b.first += mixed ? 0 : first;
        b.x = value;
        b.target = wanted;
        l->kind->fill(&b);
        if (mixed) DT__TRY(mix(l, &b, l->other[k]));
        DT__TRY(view_shard(l, k, mixed ? first : 0, n));
        *x = l->view[0];
        *target = l->view[1];
    }
    advance(l, shard, shards);
    return DT_OK;
}

dt_status dt_loader_next(dt_loader *l, dt_tensor **x, dt_tensor **target)
{
    DT__NEED3(NULL, l, x, target);
    const int k = l->next.batch == l->batches - 1 && l->x[1] != NULL;
    void *value = dt_data_mut(l->x[k]), *wanted = dt_data_mut(l->target[k]);
    if (value == NULL || wanted == NULL) return dt_error_status(l->ctx);
    dt__batch b = batch_of(l, dt_dim(l->x[k], 0));
    b.x = value;
    b.target = wanted;
    l->kind->fill(&b);
    if (l->other[0] != NULL) {
        DT__TRY(mix(l, &b, l->other[k]));
    }
    advance(l, 0, 1);
    *x = l->x[k];
    *target = l->target[k];
    return DT_OK;
}
