/* Metadata about integer weights in a file of tensors without a model:
 *
 *     detent.tensors = { name: { "scheme": {...}, "op": "conv2d", "conv": {...}, "shape": [8, 4, 3,
 *     3],
 *                                "codes": "packed", "rounder": "gptq", "samples": 512 }, ... } */
#include "io/safetensors/tensors_meta.h"
#include "core/comparisons.h"
#include "io/model/model.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const dt__weight_op_names[] = {
    "linear", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "grouped_linear", NULL
};

static const struct {
    int rank;
    bool is_conv, is_transposed, is_grouped;
} ops[] = {
    { .rank = 2 },
    { .rank = 3, .is_conv = true },
    { .rank = 4, .is_conv = true },
    { .rank = 3, .is_conv = true, .is_transposed = true },
    { .rank = 4, .is_conv = true, .is_transposed = true },
    { .rank = 3, .is_grouped = true },
};

int dt__weight_op_rank(int op) { return ops[op].rank; }

static const char *const code_names[] = { "packed", "i8", NULL };

#define MOST_EXTENT 2147483647.0
#define OF_CONV(field) .offset = offsetof(dt_conv_options, field)

static const dt_key conv_keys[] = {
    { "stride", DT_KEY_PAIR, OF_CONV(stride), .least = 1, .most = MOST_EXTENT },
    { "padding", DT_KEY_PAIR, OF_CONV(padding), .most = MOST_EXTENT },
    { "output_padding", DT_KEY_PAIR, OF_CONV(output_padding), .most = MOST_EXTENT },
    { "dilation", DT_KEY_PAIR, OF_CONV(dilation), .least = 1, .most = MOST_EXTENT },
    { "groups", DT_KEY_INT, OF_CONV(groups), .least = 1, .most = MOST_EXTENT },
    { 0 },
};

#define AT(field) .offset = offsetof(dt__tensor_weight, field)
#define GIVEN(flag) .given = offsetof(dt__tensor_weight, flag)

static const dt_key weight_keys[] = {
    { "scheme", DT_KEY_MAP, AT(scheme), .keys = dt__quant_keys },
    { "range", DT_KEY_MAP, AT(scheme), .keys = dt__range_keys, GIVEN(has_range) },
    { "op", DT_KEY_CHOICE, AT(op), .choices = dt__weight_op_names },
    { "conv", DT_KEY_MAP, AT(conv), .keys = conv_keys, GIVEN(has_conv) },
    { "shape", DT_KEY_INTS, AT(shape), .most = DT_NO_LIMIT, .fewest = 2 },
    { "codes", DT_KEY_CHOICE, AT(codes), .choices = code_names },
    { "g_idx", DT_KEY_BOOL, AT(ordered) },
    { "rounder", DT_KEY_STRING, AT(rounder) },
    { "samples", DT_KEY_INT, AT(samples), .most = DT_NO_LIMIT },
    { 0 },
};

void dt__put_tensor_weight(dt__chars *t, const dt__tensor_weight *weight)
{
    dt__tensor_weight w = *weight;
    if (w.scheme.granularity != DT_PER_GROUP) w.scheme.group_size = 0;
    w.has_range = w.scheme.range != DT_RANGE_DYNAMIC;
    w.has_conv = ops[w.op].is_conv;
    dt__put_options(t, weight_keys, &w);
}

bool dt__tensor_form(const dt__tensor_weight *w, dt__rows_form *out)
{
    const bool experts = ops[w->op].is_grouped;
    dt__row_map map;
    int64_t columns, all;
    if (w->shape.n != ops[w->op].rank || !dt__product(w->shape.n, w->shape.v, &all)) return false;
    const int64_t groups = experts ? w->shape.v[0] : ops[w->op].is_conv ? w->conv.groups : 1;
    if (!dt__product(w->shape.n - 1, w->shape.v + 1, &columns) ||
        !dt__row_map_of(ops[w->op].is_transposed ? groups : 0, w->shape.n, w->shape.v, &map)) {
        return false;
    }
    int64_t rows = dt__is_mapped(&map) ? dt__mapped_rows(&map) : w->shape.v[0];
    if (dt__is_mapped(&map)) columns = dt__mapped_columns(&map);
    if (experts) {
        columns = w->shape.v[2];
        rows = columns < 1 ? 0 : all / columns;
    }
    if (groups < 1 || rows < 1 || columns < 1 || rows % groups != 0) return false;
    const bool grouped = w->scheme.granularity == DT_PER_GROUP;
    const int64_t group = grouped ? dt__min_i64(w->scheme.group_size, columns) : columns;
    *out = (dt__rows_form){ .quant = &w->scheme,
                            .rows = rows,
                            .columns = columns,
                            .group = group,
                            .groups = dt__ceil_div(columns, group),
                            .op_groups = groups,
                            .experts = experts ? groups : 0,
                            .ordered = w->ordered,
                            .bytes = w->codes == DT__CODES_I8 };
    return true;
}

static dt_status check_weight(const dt__json *j, const dt__tensor_weight *w)
{
    char shown[DT__SHOWN], text[DT__MESSAGE_SIZE / 2];
    dt__rows_form form;
    int64_t count;
    dt__shown(w->name, shown);
    const dt_status s = dt__quant_check(j->ctx, &w->scheme, DT__QUANT_FILE);
    if (s != DT_OK) {
        snprintf(text, sizeof text, "%s", dt_error(j->ctx));
        return dt__json_fail(j, "weight '%s': %s", shown, text);
    }
    if (w->has_range != (w->scheme.range != DT_RANGE_DYNAMIC)) {
        return dt__json_fail(j, "weight '%s': a range that is dynamic has no settings", shown);
    }
    if (w->has_conv != ops[w->op].is_conv) {
        return dt__json_fail(j, "weight '%s': op %s %s", shown, dt__weight_op_names[w->op],
                             w->has_conv ? "is not a convolution" : "requires its conv");
    }
    if (!dt__product(w->shape.n, w->shape.v, &count) || !dt__tensor_form(w, &form)) {
        return dt__json_fail(j, "weight '%s': its shape is none of op %s", shown,
                             dt__weight_op_names[w->op]);
    }
    if (!w->ordered || w->scheme.granularity == DT_PER_GROUP) return DT_OK;
    return dt__json_fail(j, "weight '%s': g_idx is of granularity group alone", shown);
}

static dt_status read_weight(dt__json *j, dt__tensors *all)
{
    DT__TRY(DT__RESERVE(all->ctx, all->at, all->n, all->room));
    dt__tensor_weight *w = &all->at[all->n];
    *w = (dt__tensor_weight){ .conv.groups = 1 };
    DT__TRY(dt__json_string(j, &w->name));
    DT__TRY(dt__json_expect(j, ':'));
    DT__TRY(dt__json_options(j, weight_keys, w));
    dt__find_scheme(j->ctx, &w->scheme);
    all->n++;
    return check_weight(j, w);
}

static dt_status check_twice(const dt__json *j, const dt__tensors *all)
{
    char shown[DT__SHOWN];
    const char *twice = NULL;
    const char **names = dt__alloc_array(all->ctx, all->n, sizeof *names);
    if (names == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < all->n; i++) names[i] = all->at[i].name;
    qsort(names, (size_t)all->n, sizeof *names, dt__by_text);
    for (int64_t i = 1; i < all->n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) twice = names[i];
    }
    dt__release(all->ctx, names);
    if (twice == NULL) return DT_OK;
    return dt__json_fail(j, "weight '%s' occurs twice", dt__shown(twice, shown));
}

static dt_status read_all(const dt_file *file, dt__tensors *all)
{
    dt__json j;
    bool has;
    DT__TRY(dt__meta_scan(file, DT__KEY_TENSORS, &j, &all->strings, &has));
    if (!has) return DT_OK;
    for (bool more = dt__json_open(&j, '{'); more; more = dt__json_more(&j, '}')) {
        DT__TRY(read_weight(&j, all));
    }
    DT__TRY(j.status);
    DT__TRY(dt__json_end(&j));
    return check_twice(&j, all);
}

dt_status dt__tensors_read(const dt_file *file, dt__tensors *out)
{
    *out = (dt__tensors){ .ctx = file->ctx };
    const dt_status s = read_all(file, out);
    if (s != DT_OK) dt__tensors_free(out);
    return s;
}

void dt__tensors_free(dt__tensors *t)
{
    DT__RELEASE(t->ctx, t->at, t->strings);
    *t = (dt__tensors){ .ctx = t->ctx };
}

static dt_status check_rows(const dt_file *file, const dt__tensor_weight *w)
{
    dt__rows_form form;
    dt_code_rows rows;
    if (dt_file_find(file, w->name) != NULL) {
        return dt__rows_refuse(file, w->name, "the file holds it unquantized, too");
    }
    dt__tensor_form(w, &form);
    const dt_status s = dt__rows_read(file, w->name, &form, &rows);
    dt__rows_free(file->ctx, &rows);
    return s;
}

dt_status dt__tensors_check(const dt_file *file)
{
    dt__tensors all;
    DT__TRY(dt__tensors_read(file, &all));
    dt_status s = DT_OK;
    for (int64_t i = 0; i < all.n && s == DT_OK; i++) s = check_rows(file, &all.at[i]);
    dt__tensors_free(&all);
    return s;
}
