/* Merges buffers that forward passes change. Each shard began with the same state S:
 *     running statistics of norms   the mean over shards, in their order
 *     minmax, moving_average        the lowest lo, the highest hi: those of the whole batch, since
 *                                   lo + a (batch's - lo) rises with the batch's
 *     mse                           the mean over shards: each has a range of least error
 *     percentile                    of the values that shards keep, taken in their order
 *     counts                        S + what each shard has seen
 * Scale and zero point follow from lo and hi. Learned ranges are parameters: the first shard
 * initializes them. */
#include "core/tensor.h"
#include "data/dataset.h"
#include "nn/module.h"
#include "qat/observe.h"
#include "qat/quantizer.h"
#include "qat/schemes/scheme.h"
#include "train/shards/shards.h"
#include "autograd/spread.h"

#include <string.h>

/* ---- which buffers --------------------------------------------------------------------------- */

typedef struct finding {
    dt__run *r;
    dt__shards *s;
    int64_t room;
    size_t count_at; /* of the range that is being added */
} finding;

static dt_status add(finding *f, dt_tensor *x, dt__merging how)
{
    dt__shards *s = f->s;
    DT__TRY(DT__RESERVE(s->ctx, s->merged, s->n_merged, f->room));
    const size_t bytes = dt__bytes_of(x);
    s->merged[s->n_merged++] = (dt__merged){ x, how, s->state_bytes, f->count_at, bytes };
    s->state_bytes += (size_t)dt__round_up((int64_t)bytes, 8);
    return DT_OK;
}

static dt_status add_range(finding *f, const dt__quantizer *q)
{
    const bool mean = q->quant.observer == DT_OBSERVER_MSE;
    f->count_at = f->s->state_bytes;
    DT__TRY(add(f, q->count, DT__MERGE_COUNT));
    if (q->values != NULL) DT__TRY(add(f, q->values, DT__MERGE_VALUES));
    DT__TRY(add(f, q->lo, mean ? DT__MERGE_MEAN : DT__MERGE_LEAST));
    return add(f, q->hi, mean ? DT__MERGE_MEAN : DT__MERGE_MOST);
}

static dt_status find(finding *f, dt_module *m)
{
    static const char *const statistics[] = { "running_mean", "running_var" };
    const dt__quantizer *q = dt__quantizer_of(m);
    if (q != NULL) return q->lo == NULL ? DT_OK : add_range(f, q);
    for (int i = 0; i < DT__COUNT_OF(statistics); i++) {
        const dt__entry *e = dt__entry_find(m, statistics[i]);
        if (e != NULL) DT__TRY(add(f, e->x, DT__MERGE_MEAN));
    }
    return DT_OK;
}

dt_status dt__shards_find_merged(dt__run *r, dt__shards *s)
{
    finding f = { .r = r, .s = s };
    s->state_bytes = 0;
    DT__EACH_MODULE(m, r->stage.model) DT__TRY(find(&f, m));
    return DT_OK;
}

/* ---- their state ----------------------------------------------------------------------------- */

void dt__shards_save(const dt__shards *s, char *to)
{
    for (int64_t i = 0; i < s->n_merged; i++) {
        memcpy(to + s->merged[i].at, dt_data(s->merged[i].x), s->merged[i].bytes);
    }
}

void dt__shards_restore(const dt__shards *s, const char *from)
{
    for (int64_t i = 0; i < s->n_merged; i++) {
        void *x = dt_data_mut(s->merged[i].x);
        if (s->merged[i].bytes > 0) memcpy(x, from + s->merged[i].at, s->merged[i].bytes);
    }
}

/* ---- merging --------------------------------------------------------------------------------- */

static double merge_floats(const float *x, int64_t n, int64_t step, dt__merging how)
{
    double v = (double)x[0];
    for (int64_t i = 1; i < n; i++) {
        const double other = (double)x[i * step];
        if (how == DT__MERGE_MEAN) v += other;
        else if (how == DT__MERGE_LEAST) v = other < v ? other : v;
        else v = other > v ? other : v;
    }
    return how == DT__MERGE_MEAN ? v / (double)n : v;
}

static void merge_counts(const char *before, const char *of, const dt__merged *m, int64_t n,
                         size_t step)
{
    int64_t first, sum, seen;
    memcpy(&first, before + m->at, sizeof first);
    sum = first;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&seen, of + (size_t)i * step + m->at, sizeof seen);
        sum += seen - first;
    }
    *(int64_t *)dt_data_mut(m->x) = sum;
}

static int64_t count_in(const char *state, size_t at)
{
    int64_t n;
    memcpy(&n, state + at, sizeof n);
    return n;
}

/* Adds value number i of all: stores it at i or, if there is no more room, in place of a random
 * value, with probability room / (i + 1). */
static void keep_value(float *values, int64_t room, uint64_t key, int64_t i, float x)
{
    uint32_t word[4];
    if (i < room) {
        values[i] = x;
        return;
    }
    dt__philox(key, (uint64_t)i, word);
    const double place = dt__unit_f64(word[0], word[1]) * (double)(i + 1);
    if (place < (double)room) values[(int64_t)place] = x;
}

/* A shard has appended its values while there was room, and then replaced values. */
static void merge_values(const dt__shards *s, const dt__merged *m, int64_t used)
{
    float *values = dt_data_mut(m->x);
    const float *before = (const float *)(const void *)(s->before + m->at);
    const int64_t room = m->x->count, first = count_in(s->before, m->count_at);
    const int64_t old = dt__min_i64(first, room);
    const uint64_t key = ~s->ctx->stream[DT__FOR_OBSERVERS].key;
    int64_t all = first;
    memcpy(values, before, m->bytes);
    for (int64_t i = 0; i < used; i++) {
        const char *state = s->packed + (size_t)i * s->state_bytes;
        const float *its = (const float *)(const void *)(state + m->at);
        const int64_t seen = count_in(state, m->count_at) - first;
        for (int64_t k = 0; k < old; k++) {
            if (memcmp(&its[k], &before[k], sizeof *its) != 0) values[k] = its[k];
        }
        for (int64_t k = 0; k < dt__min_i64(seen, room - old); k++) {
            keep_value(values, room, key, all + k, its[old + k]);
        }
        all += seen;
    }
}

/* Moves the states of the shards with examples together, in order. */
static int64_t pack(const dt__shards *s)
{
    int64_t used = 0;
    for (int64_t v = 0; v < s->shards; v++) {
        char *of = s->all + (size_t)(v / s->own) * s->report_bytes;
        if (!dt__shards_report(s, of, v % s->own)->used) continue;
        memcpy(s->packed + (size_t)used * s->state_bytes, dt__shards_state(s, of, v % s->own),
               s->state_bytes);
        used++;
    }
    return used;
}

static void merge(const dt__shards *s, const dt__merged *m, int64_t used)
{
    const size_t step = s->state_bytes;
    if (m->how == DT__MERGE_COUNT) {
        merge_counts(s->before, s->packed, m, used, step);
        return;
    }
    if (m->how == DT__MERGE_VALUES) {
        merge_values(s, m, used);
        return;
    }
    float *x = dt_data_mut(m->x);
    const float *of = (const float *)(const void *)(s->packed + m->at);
    const int64_t floats = (int64_t)(step / sizeof *x);
    for (int64_t i = 0; i < m->x->count; i++) {
        x[i] = (float)merge_floats(of + i, used, floats, m->how);
    }
}

/* Whether this update's shards have observed something. */
static bool has_changed(const dt__shards *s, const dt__quantizer *q)
{
    int64_t i = 0;
    while (s->merged[i].x != q->count) i++;
    return *(const int64_t *)dt_data(q->count) != count_in(s->before, s->merged[i].at);
}

/* Recomputes scale and zero point of each changed range. */
static dt_status scale(const dt__shards *s, dt_module *m)
{
    const dt__quantizer *q = dt__quantizer_of(m);
    if (q == NULL || q->lo == NULL || !has_changed(s, q)) return DT_OK;
    if (q->values != NULL) {
        const int64_t n = *(const int64_t *)dt_data(q->count);
        dt__percentile_range(&q->quant, dt_data(q->values), dt__min_i64(n, q->values->count),
                             dt_data_mut(q->lo), dt_data_mut(q->hi));
    }
    const float lo = *(const float *)dt_data(q->lo), hi = *(const float *)dt_data(q->hi);
    int8_t *zero = q->zero_point == NULL ? NULL : dt_data_mut(q->zero_point);
    if (dt__range_scale(&q->quant, lo, hi, dt_data_mut(q->scale), zero)) return DT_OK;
    return dt_fail(m->ctx, DT_ERR_NUMERIC, "%s: a range is too large for a finite scale", m->path);
}

dt_status dt__shards_merge(dt__run *r, dt__shards *s)
{
    if (s->n_merged == 0) return DT_OK;
    const int64_t used = pack(s);
    for (int64_t i = 0; i < s->n_merged && used > 0; i++) merge(s, &s->merged[i], used);
    DT__EACH_MODULE(m, r->stage.model) DT__TRY(scale(s, m));
    return DT_OK;
}

/* ---- learned ranges -------------------------------------------------------------------------- */

dt_status dt__shards_begin_ranges(dt__run *r, const dt__batch_range *p)
{
    dt__shards *s = r->ranks.shards;
    bool wanted = false;
    dt_tensor *x, *target;
    dt__pass pass;
    if (*dt__run_count(r, DT__COUNT_PREPARED) == 0) return DT_OK;
    DT__EACH_MODULE(m, r->stage.model) {
        const dt__quantizer *q = dt__quantizer_of(m);
        if (q == NULL || q->lo != NULL || !q->quant.activation) continue;
        wanted = wanted || !dt__quantizer_has_seen(q);
    }
    if (!wanted) return DT_OK;
    dt_tape_reset(r->stage.tape);
    dt__shards_save(s, s->before);
    dt__shards_key(r, p, 0);
    DT__TRY(dt_loader_seek(r->stage.loader, p->position));
    DT__TRY(dt__loader_next_shard(r->stage.loader, 0, s->shards, &x, &target));
    DT__TRY(dt__run_pass(r, x, target, &pass));
    DT__TRY(dt__spread_begin(r->ctx, r->stage.model));
    dt_no_grad(r->stage.tape, true);
    dt__loss(r->data.task, &pass);
    dt_no_grad(r->stage.tape, false);
    const dt_status status = dt__spread_end(r->ctx, dt_tape_status(r->stage.tape));
    dt_tape_reset(r->stage.tape);
    dt__shards_restore(s, s->before);
    return status == DT_ERR_NUMERIC ? DT_OK : status; /* the update reports it again */
}
