/* Quantizes one weight of a file: accumulates statistics of its inputs batch by batch, then
 * computes codes. Only the tensors of the output file stay in memory. */
#include "core/clock.h"
#include "core/tensor.h"
#include "ptq/routes.h"
#include "train/quantize/quantize_report.h"
#include "train/quantize/tensors.h"

#include <stdio.h>
#include <string.h>

#define BATCH_BYTES ((int64_t)64 << 20)

/* Examples `first` ... first+count-1 of inputs, as floats. */
static dt_status load_part(const dt__tensors_run *r, const dt_file_entry *e, int64_t first,
                           int64_t count, dt_tensor **out)
{
    int64_t dims[DT_MAX_RANK];
    const size_t each = e->bytes / (size_t)e->dims[0];
    memcpy(dims, e->dims, (size_t)e->rank * sizeof dims[0]);
    dims[0] = count;
    const dt_file_entry part = {
        .name = e->name,
        .dtype = e->dtype,
        .rank = e->rank,
        .dims = dims,
        .count = e->count / e->dims[0] * count,
        .bytes = each * (size_t)count,
        .data = (const char *)e->data + each * (size_t)first,
    };
    return dt__entry_load(r->inputs, &part, DT_F32, out);
}

/* The expert of each row, I64, for a grouped weight; else NULL. */
static dt_status load_index(const dt__tensors_run *r, const dt__tensor_plan *p, dt_tensor **out)
{
    dt_tensor *offsets;
    dt__expert_rows by;
    *out = NULL;
    if (p->index != NULL) return dt__entry_load(r->inputs, p->index, DT_I64, out);
    if (p->offsets == NULL) return DT_OK;
    const int64_t experts = p->entry->dims[0], rows = p->input->count / p->entry->dims[2];
    DT__TRY(dt__entry_load(r->inputs, p->offsets, DT_I64, &offsets));
    const dt_routes routes = { .offsets = offsets };
    dt_status s = dt__expert_rows_of(r->ctx, &routes, experts, rows, &by);
    if (s == DT_OK) s = dt_tensor_create(r->ctx, DT_I64, 1, &rows, out);
    int64_t *to = s == DT_OK ? dt_data_mut(*out) : NULL;
    for (int64_t i = 0; s == DT_OK && i < rows; i++) to[i] = -1;
    for (int64_t e = 0; s == DT_OK && e < experts; e++) {
        for (int64_t i = by.first[e]; i < by.first[e + 1]; i++) to[i] = e;
    }
    dt__expert_rows_free(r->ctx, &by);
    dt_tensor_free(offsets);
    return s;
}

/* A batch of examples, as floats, and the experts of its rows. */
typedef struct batch {
    int64_t first, count;
    dt_tensor *xq, *x, *index;
} batch;

static dt_status load_batch(const dt__tensors_run *r, const dt__tensor_plan *p,
                            const dt_tensor *index, batch *b)
{
    DT__TRY(load_part(r, p->input, b->first, b->count, &b->xq));
    if (p->float_input != NULL) {
        DT__TRY(load_part(r, p->float_input, b->first, b->count, &b->x));
    }
    if (index == NULL) return DT_OK;
    const int64_t rows = p->input->count / p->entry->dims[2], slots = index->count / rows;
    const int64_t each = rows / p->input->dims[0];
    return dt_tensor_from(r->ctx, DT_I64, 2, (const int64_t[]){ b->count * each, slots },
                          (const int64_t *)dt_data(index) + b->first * each * slots, &b->index);
}

static dt_status add_batch(const dt__tensors_run *r, const dt__tensor_plan *p,
                           const dt_tensor *index, dt_statistics *s, batch *b)
{
    dt_status status = load_batch(r, p, index, b);
    if (status == DT_OK && index == NULL) status = dt_statistics_add(s, b->xq, b->x);
    else if (status == DT_OK) {
        const dt_routes routes = { .index = b->index };
        status = dt_statistics_add_routed(s, b->xq, b->x, &routes);
    }
    DT__TENSORS_FREE(b->xq, b->x, b->index);
    return status;
}

static dt_status interrupted(const dt__tensors_run *r)
{
    if (r->job->stop == NULL || !r->job->stop(r->job->user)) return DT_OK;
    return dt_fail(r->ctx, DT_ERR_INTERRUPTED,
                   "%s: interrupted after %lld of %lld weights; the same call goes on from %s",
                   r->weights->path, (long long)r->summary->n, (long long)r->summary->wanted,
                   r->partial_path);
}

/* The number of examples to use: calibration.samples, or all. */
static int64_t examples_of(const dt__tensors_run *r, const dt__tensor_plan *p)
{
    const int64_t have = p->input->dims[0], most = r->o->calibration.samples;
    return most > 0 ? dt__min_i64(most, have) : have;
}

/* Adds the name of the inputs to the context's latest error. */
static dt_status blame(const dt__tensors_run *r, const dt__tensor_plan *p, int64_t at, dt_status s)
{
    if (s == DT_OK) return s;
    char why[DT__MESSAGE_SIZE / 2], shown[DT__SHOWN];
    snprintf(why, sizeof why, "%s", dt_error(r->ctx));
    return dt_fail(r->ctx, s, "%s: inputs '%s', from example %lld on: %s", r->inputs->path,
                   dt__shown(p->entry->name, shown), (long long)at, why);
}

static dt_status add_all(const dt__tensors_run *r, const dt__tensor_plan *p, const dt_tensor *index,
                         dt_statistics *s)
{
    const int64_t n = examples_of(r, p), given = r->o->calibration.batch_size;
    const int64_t bytes = dt__max_i64(1, p->input->count / p->input->dims[0] * 4);
    const int64_t most = given > 0 ? given : dt__max_i64(1, BATCH_BYTES / bytes);
    for (int64_t at = 0; at < n; at += most) {
        DT__TRY(interrupted(r));
        batch b = { .first = at, .count = dt__min_i64(most, n - at) };
        DT__TRY(blame(r, p, at, add_batch(r, p, index, s, &b)));
    }
    return DT_OK;
}

static dt_status collect(const dt__tensors_run *r, const dt__tensor_plan *p, dt_statistics **out)
{
    dt_tensor *index = NULL;
    *out = NULL;
    if (p->input == NULL) return DT_OK;
    DT__TRY(dt_statistics_create(r->ctx, &p->op, p->entry->rank, p->entry->dims,
                                 p->float_input != NULL, out));
    dt_status status = blame(r, p, 0, load_index(r, p, &index));
    if (status == DT_OK) status = add_all(r, p, index, *out);
    dt_tensor_free(index);
    if (status == DT_OK) return DT_OK;
    dt_statistics_free(*out);
    *out = NULL;
    return status;
}

/* Makes the tensors of the file from the rounded rows; frees unpacked codes. */
static dt_status pack(const dt__tensors_run *r, dt__tensor_plan *p)
{
    dt_rounded *c = p->rounded;
    dt__rows_form form;
    const dt_code_rows rows = {
        .codes = c->codes, .scale = c->scale, .zero_point = c->zero_point, .group_of = c->group_of
    };
    p->meta.ordered = c->group_of != NULL;
    if (!dt__tensor_form(&p->meta, &form) || form.rows != c->rows || form.columns != c->columns ||
        form.groups != c->groups) {
        return dt_fail(r->ctx, DT_ERR_STATE, "%s: rows of codes of another form", p->entry->name);
    }
    if (!form.bytes) {
        p->packed = dt__alloc_array(r->ctx, form.rows, (size_t)dt__row_bytes(&form));
        if (p->packed == NULL) return DT_ERR_NOMEM;
    }
    dt__row_parts_of(&form, &rows, p->packed, &p->parts);
    if (form.bytes) return DT_OK;
    dt__release(r->ctx, c->codes);
    c->codes = NULL;
    return DT_OK;
}

static dt_status report(const dt__tensors_run *r, const dt__tensor_plan *p,
                        const dt_round_report *round)
{
    char scheme[96];
    const dt_quantized_weight w = { .name = p->entry->name,
                                    .scheme =
                                        dt__quant_text(&p->meta.scheme, scheme, sizeof scheme),
                                    .shape = p->meta.shape,
                                    .report = *round };
    return dt__report_append(r->summary, &w);
}

static dt_status round_with(dt__tensors_run *r, dt__tensor_plan *p, const dt_tensor *weight,
                            dt_statistics *s)
{
    dt_round_report round;
    const dt_round_work work = { .name = p->entry->name,
                                 .weight = weight,
                                 .op = &p->op,
                                 .quant = &p->meta.scheme,
                                 .options = &p->options,
                                 .statistics = s };
    p->meta.samples = s == NULL ? 0 : dt_statistics_samples(s);
    DT__TRY(dt_round(r->ctx, &work, &p->rounded, &round));
    DT__TRY(pack(r, p));
    return report(r, p, &round);
}

dt_status dt__tensors_round(dt__tensors_run *r, dt__tensor_plan *p)
{
    dt_tensor *weight = NULL;
    dt_statistics *s = NULL;
    const double start = dt__seconds();
    DT__TRY(interrupted(r));
    DT__TRY(collect(r, p, &s));
    dt_status status = dt__entry_load(r->weights, p->entry, DT_F32, &weight);
    if (status == DT_OK) status = round_with(r, p, weight, s);
    dt_statistics_free(s);
    dt_tensor_free(weight);
    if (status != DT_OK) return status;
    p->done = true;
    r->summary->weight[r->summary->n - 1].report.seconds = dt__seconds() - start;
    return DT_OK;
}

void dt__tensors_drop(dt__tensors_run *r, dt__tensor_plan *p)
{
    dt_rounded_free(r->ctx, p->rounded);
    dt__release(r->ctx, p->packed);
    p->rounded = NULL;
    p->packed = NULL;
}
