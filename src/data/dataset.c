/* Functions that all kinds of datasets share. */
#include "data/joined.h"

#include <string.h>

dt_status dt__dataset_make(dt_ctx *ctx, const dt_dataset *fields, dt_dataset **out)
{
    dt_dataset *d = dt__alloc(ctx, sizeof *d);
    if (d == NULL) {
        dt_dataset lost = *fields;
        lost.kind->drop(&lost);
        return DT_ERR_NOMEM;
    }
    *d = *fields;
    d->ctx = ctx;
    dt__ctx_retain(ctx);
    *out = d;
    return DT_OK;
}

void dt_dataset_free(dt_dataset *d)
{
    if (d == NULL) return;
    dt_ctx *ctx = d->ctx;
    d->kind->drop(d);
    dt__release(ctx, d);
    dt__ctx_release(ctx);
}

int64_t dt_dataset_count(const dt_dataset *d) { return d == NULL ? 0 : d->count; }
int64_t dt_dataset_classes(const dt_dataset *d) { return d == NULL ? 0 : d->classes; }
dt_target dt_dataset_target(const dt_dataset *d)
{
    if (d == NULL) return (dt_target){ 0 };
    return d->target;
}

int dt_dataset_input_shape(const dt_dataset *d, int64_t dims[DT_MAX_RANK - 1])
{
    if (d == NULL) return 0;
    if (dims == NULL) return 0;
    dt__side x, target;
    d->kind->sides(d, &x, &target);
    for (int i = 0; i < x.rank; i++) dims[i] = x.dims[i];
    return x.rank;
}

int64_t dt_dataset_outputs(const dt_dataset *d)
{
    if (d == NULL) return 0;
    if (d->target == DT_TARGET_ANOMALY || d->target == DT_TARGET_SEVERAL) return 0;
    const dt_dataset *from = d->joined == NULL ? d : &d->joined->output[0].data;
    return from->arrays != NULL ? from->arrays->outputs : d->classes;
}

/* Text i of consecutive texts, each ended by NUL. */
static const char *text_at(const dt__storage *texts, int64_t i)
{
    const char *at = texts->data;
    for (; i > 0; i--) at += strlen(at) + 1;
    return at;
}

const char *dt_dataset_class_name(const dt_dataset *d, int64_t i)
{
    if (d == NULL) return NULL;
    if (d->target == DT_TARGET_SEVERAL) return NULL;
    if (d->class_names != NULL) return i < 0 || i >= d->classes ? NULL : text_at(d->class_names, i);
    const dt__array_store *s = (d->joined == NULL ? d : &d->joined->output[0].data)->arrays;
    return s == NULL || s->class_name == NULL || i < 0 || i >= s->outputs ? NULL : s->class_name[i];
}

int dt_dataset_label(const dt_dataset *d, int64_t i)
{
    if (d == NULL) return 0;
    if (!dt__has_label(d) || d->kind->label == NULL) {
        dt_fail(d->ctx, DT_ERR_ARG, "dataset: its %s have no labels", d->kind->examples);
    } else if (i < 0 || i >= d->count) {
        dt_fail(d->ctx, DT_ERR_ARG, "dataset: the label of example %lld of %lld (counted from 0)",
                (long long)i, (long long)d->count);
    } else {
        return d->kind->label(d, i);
    }
    return -1;
}

const char *dt__dataset_examples(const dt_dataset *d)
{
    const dt__array_store *s = d->arrays;
    if (s == NULL) return d->kind->examples;
    if (s->rank == 1 && dt__array_is_rows(s)) return "rows";
    const bool whole =
        s->n_recordings > 0 && s->recording[s->n_recordings - 1].end == s->n_recordings;
    return dt__array_is_rows(s) ? "examples" : whole ? "recordings" : "windows";
}

int64_t dt__dataset_epoch(const dt_dataset *d, bool shuffled)
{
    return shuffled && d->kind->shuffled != NULL ? d->kind->shuffled(d) : d->count;
}

dt_status dt_dataset_split(dt_dataset *d, int64_t count, dt_dataset **out)
{
    DT__NEED2(NULL, d, out);
    *out = NULL;
    if (count < 0 || count > d->count) {
        return dt_fail(d->ctx, DT_ERR_ARG, "dataset: %lld %s to split off: expected 0 to %lld",
                       (long long)count, dt__dataset_examples(d), (long long)d->count);
    }
    dt_dataset rest = *d, last = *d;
    d->kind->split(&rest, &last, count);
    DT__TRY(dt__dataset_make(d->ctx, &last, out));
    *d = rest;
    return DT_OK;
}
