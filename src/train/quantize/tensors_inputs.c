/* The calibration file: NAME has the inputs of weight NAME, NAME.float those of the float model.
 * For a grouped weight NAME.index or NAME.offsets route rows to experts, as in dt_routes. */
#include "core/tensor.h"
#include "ptq/matrix.h"
#include "ptq/unfold.h"
#include "train/quantize/tensors.h"

#include <stdio.h>
#include <string.h>

#define FLOAT_SUFFIX ".float"
#define INDEX_SUFFIX ".index"
#define OFFSETS_SUFFIX ".offsets"

static dt__tensor_plan *plan_named(const dt__tensors_run *r, const char *name, size_t bytes)
{
    for (int64_t i = 0; i < r->n; i++) {
        const char *own = r->plan[i].entry->name;
        if (strlen(own) == bytes && memcmp(own, name, bytes) == 0) return &r->plan[i];
    }
    return NULL;
}

/* The plan's field for entries with this suffix; NULL if it takes none. */
static const dt_file_entry **place_of(dt__tensor_plan *p, int suffix)
{
    const dt_file_entry **const place[] = { &p->input, &p->float_input, &p->index, &p->offsets };
    const bool routes = place[suffix] == &p->index || place[suffix] == &p->offsets;
    return routes && p->op.kind != DT_WEIGHT_GROUPED_LINEAR ? NULL : place[suffix];
}

/* Assigns an entry to its weight's plan. True also if a rule skips the weight. */
static bool assign(const dt__tensors_run *r, const dt_file_entry *e)
{
    static const char *const suffix[] = { "", FLOAT_SUFFIX, INDEX_SUFFIX, OFFSETS_SUFFIX };
    const size_t n = strlen(e->name);
    for (int i = 0; i < DT__COUNT_OF(suffix); i++) {
        const size_t tail = strlen(suffix[i]);
        if (n < tail || strcmp(e->name + n - tail, suffix[i]) != 0) continue;
        dt__tensor_plan *p = plan_named(r, e->name, n - tail);
        if (p == NULL || !(p->rounds || p->skipped)) continue;
        const dt_file_entry **place = p->rounds ? place_of(p, i) : NULL;
        if (place != NULL) *place = e;
        return place != NULL || p->skipped;
    }
    return false;
}

static dt_status give_all(const dt__tensors_run *r)
{
    char names[DT__NAMES] = "";
    int64_t n = 0;
    for (int64_t i = 0; i < dt_file_count(r->inputs); i++) {
        const dt_file_entry *e = dt_file_at(r->inputs, i);
        if (!assign(r, e)) dt__add_name(names, &n, e->name);
    }
    if (n == 0) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_FORMAT,
                   "%s: %s: inputs of no weight that is rounded; they are named as it is, those of "
                   "the float model with " FLOAT_SUFFIX
                   ", the routes of a grouped_linear with " INDEX_SUFFIX " or " OFFSETS_SUFFIX
                   " behind",
                   r->inputs->path, names);
}

static dt_status refuse(const dt__tensors_run *r, const dt_file_entry *e, const char *words)
{
    char shown[DT__SHOWN], text[DT__MESSAGE_SIZE / 2];
    snprintf(text, sizeof text, "%s", words);
    return dt_fail(r->ctx, DT_ERR_FORMAT, "%s: inputs '%s': %s", r->inputs->path,
                   dt__shown(e->name, shown), text);
}

/* Checks shapes as dt_statistics_add does, without loading the tensor. */
static dt_status check_shape(const dt__tensors_run *r, const dt__tensor_plan *p,
                             const dt_file_entry *e)
{
    dt__unfolding layer;
    dt__inputs inputs;
    char values; /* which are not read: their shape is checked */
    dt__storage none = { .ctx = r->ctx, .data = &values };
    dt_tensor x = { .ctx = r->ctx, .dtype = DT_F32, .storage = &none };
    if (e->rank < 2 || e->rank > DT_MAX_RANK) {
        return refuse(r, e, "it must be [samples, in] or [n, channels, ...]");
    }
    if (e->count == 0) return refuse(r, e, "there are none");
    if (!dt__is_float_entry(e)) return refuse(r, e, "it must be F32, F16, BF16 or F64");
    x.rank = e->rank;
    x.count = e->count;
    memcpy(x.dims, e->dims, (size_t)e->rank * sizeof x.dims[0]);
    dt__contiguous_strides(x.rank, x.dims, x.strides);
    dt_status s = dt__unfolding_of(r->ctx, &p->op, p->entry->rank, p->entry->dims, &layer);
    if (s == DT_OK) s = dt__inputs_of(r->ctx, &layer, &x, &inputs);
    return s == DT_OK || s == DT_ERR_NOMEM ? s : refuse(r, e, dt_error(r->ctx));
}

/* For a grouped weight: exactly one kind of routes, with one number per row or per expert. */
static dt_status check_routes(const dt__tensors_run *r, const dt__tensor_plan *p)
{
    const dt_file_entry *e = p->index != NULL ? p->index : p->offsets;
    if (e == NULL || (p->index != NULL && p->offsets != NULL)) {
        return refuse(r, p->input,
                      e == NULL ? "which rows go to which expert is missing: NAME" INDEX_SUFFIX
                                  ", or NAME" OFFSETS_SUFFIX
                                : "NAME" INDEX_SUFFIX " or NAME" OFFSETS_SUFFIX ", not both");
    }
    if (strcmp(e->dtype, "I32") != 0 && strcmp(e->dtype, "I64") != 0) {
        return refuse(r, e, "it must be I32 or I64");
    }
    const int64_t rows = p->input->count / p->entry->dims[2];
    if (p->index == NULL) {
        return e->count == p->entry->dims[0] + 1 ? DT_OK
                                                 : refuse(r, e, "it must have experts + 1 numbers");
    }
    if (e->count == rows || (e->rank == 2 && e->dims[0] == rows)) return DT_OK;
    return refuse(r, e, "it must have a number for each row, or be [rows, k]");
}

static dt_status check_inputs(const dt__tensors_run *r, const dt__tensor_plan *p)
{
    const dt_file_entry *x = p->float_input;
    const dt_file_entry *routes = p->index != NULL ? p->index : p->offsets;
    if (p->input == NULL && routes != NULL) return refuse(r, routes, "the inputs are missing");
    if (p->input == NULL) {
        return x == NULL ? DT_OK
                         : refuse(r, x,
                                  "the float model's inputs alone; those of the quantized one "
                                  "are missing");
    }
    DT__TRY(check_shape(r, p, p->input));
    if (p->op.kind == DT_WEIGHT_GROUPED_LINEAR) DT__TRY(check_routes(r, p));
    if (x == NULL) return DT_OK;
    DT__TRY(check_shape(r, p, x));
    if (x->rank == p->input->rank &&
        memcmp(x->dims, p->input->dims, (size_t)x->rank * sizeof x->dims[0]) == 0) {
        return DT_OK;
    }
    return refuse(r, x, "of another shape than those of the quantized model");
}

static dt_status check_missing(const dt__tensors_run *r)
{
    char names[DT__NAMES] = "";
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const dt__tensor_plan *p = &r->plan[i];
        if (!p->rounds || p->input != NULL) continue;
        if (!dt__needs_data(dt__method_of(p->options.rounder))) continue;
        dt__add_name(names, &n, p->entry->name);
    }
    if (n == 0) return DT_OK;
    const bool none = r->inputs == NULL;
    return dt_recipe_refuse(r->recipe, "quantize.rounder",
                            "the rounder needs the inputs of %lld weight%s, and %s%s: %s; add "
                            "them, or assign these tensors "
                            "'rounder: nearest' or 'skip: true' by a rule",
                            (long long)n, n == 1 ? "" : "s",
                            none ? "there is no calibration file (--calibration)" : "not in ",
                            none ? "" : r->inputs->path, names);
}

dt_status dt__tensors_match_inputs(dt__tensors_run *r)
{
    if (r->job->calibration != NULL) {
        DT__TRY(dt_file_open(r->ctx, r->job->calibration, &r->inputs));
        DT__TRY(dt_file_check(r->inputs));
        DT__TRY(give_all(r));
        for (int64_t i = 0; i < r->n; i++) DT__TRY(check_inputs(r, &r->plan[i]));
    }
    return check_missing(r);
}
