/* Converted weights of models: conversion between rows of codes in a file (code_rows.c) and panels
 * in memory. */
#include "io/model/code_rows.h"
#include "io/model/model.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>

/* op_groups 0: groups are consecutive columns. */
static dt__rows_form form_of(const dt__panel_layout *l, const dt_quant_spec *quant,
                             int64_t op_groups)
{
    const int64_t experts = l->expert_rows == 0 ? 0 : l->rows / l->expert_rows;
    return (dt__rows_form){ .quant = quant,
                            .rows = l->rows,
                            .columns = l->columns,
                            .group = l->group,
                            .groups = l->groups,
                            .op_groups = op_groups,
                            .experts = experts,
                            .ordered = op_groups > 0 };
}

/* Keeps scales and zero points, and the codes if they need a byte each; else the codes are packed
 * and the bytes freed. */
static dt_status keep_rows(dt__saving *s, const dt__rows_form *f, dt_code_rows *rows)
{
    const size_t blocks = (size_t)(f->rows * f->groups);
    const bool has_zero = dt__scheme_of(f->quant->scheme)->has_zero;
    *rows = (dt_code_rows){ .op_groups = f->op_groups };
    rows->scale = dt__saving_keep(s, blocks * sizeof(float));
    if (has_zero) rows->zero_point = dt__saving_keep(s, blocks);
    if (f->ordered) {
        rows->group_of = dt__saving_keep(s, (size_t)(f->op_groups * f->columns) * sizeof(int32_t));
    }
    const bool there = rows->scale != NULL && (!has_zero || rows->zero_point != NULL) &&
                       (!f->ordered || rows->group_of != NULL);
    return there ? DT_OK : DT_ERR_NOMEM;
}

dt_status dt__packed_add(dt__saving *s, const char *name, const dt_tensor *x)
{
    const dt__packed *packed = x->ext;
    const dt__codes *codes = packed->codes;
    const dt__rows_form form = form_of(&codes->layout, &packed->quant, dt__codes_op_groups(codes));
    dt__row_parts parts;
    dt_code_rows rows;
    DT__TRY(keep_rows(s, &form, &rows));
    uint8_t *out = dt__saving_keep(s, (size_t)(form.rows * dt__row_bytes(&form)));
    rows.codes = dt__alloc_array(s->ctx, form.rows, (size_t)form.columns);
    if (out != NULL && rows.codes != NULL) {
        dt__codes_to_rows(codes, &rows);
        dt__row_parts_of(&form, &rows, out, &parts);
    }
    dt__release(s->ctx, rows.codes);
    if (out == NULL || rows.codes == NULL) return DT_ERR_NOMEM;
    return dt__row_parts_add(s->ctx, s->writer, &s->groups, name, &parts);
}

/* The shape is from the metadata; the file's codes are checked against it before memory is
 * allocated. */
static dt_status measure(const dt__packed_place *place, dt__panel_layout *layout)
{
    dt_ctx *ctx = place->file->ctx;
    const dt_quant_spec *quant = &place->quant->weight.scheme;
    const dt_ints *shape = &place->quant->weight.shape;
    const dt__row_map map = dt__described_map(place->quant);
    const dt__weight_shape weight = { &map, shape->n, shape->v };
    const dt_status s = dt__weight_layout(ctx, quant, &weight, layout);
    if (s == DT_ERR_UNSUPPORTED || s == DT_ERR_SHAPE) {
        char text[256];
        snprintf(text, sizeof text, "%s", dt_error(ctx));
        return dt__rows_refuse(place->file, place->name, "%s", text);
    }
    DT__TRY(s);
    const dt__rows_form form = form_of(layout, quant, place->quant->weight.g_idx);
    return dt__rows_find(place->file, place->name, &form);
}

dt_status dt__packed_read(const dt__packed_place *place, dt__packed **out)
{
    dt_ctx *ctx = place->file->ctx;
    dt__panel_layout layout;
    dt_code_rows rows;
    *out = NULL;
    DT__TRY(measure(place, &layout));
    dt__packed *packed = dt__alloc(ctx, sizeof *packed);
    if (packed == NULL) return DT_ERR_NOMEM;
    *packed =
        (dt__packed){ .quant = place->quant->weight.scheme, .simulated = place->quant->simulated };
    const dt__rows_form form = form_of(&layout, &packed->quant, place->quant->weight.g_idx);
    dt_status s = dt__rows_read(place->file, place->name, &form, &rows);
    if (s == DT_OK) s = dt__codes_from_rows(ctx, &layout, packed->simulated, &rows, &packed->codes);
    dt__rows_free(ctx, &rows);
    if (s != DT_OK) {
        dt__release(ctx, packed);
        return s;
    }
    packed->codes->map = dt__described_map(place->quant);
    *out = packed;
    return DT_OK;
}
