/* Quantized weights in ONNX: terms of integer products, and dequantized matrices w = (code - zero
 * point) * scale, which runtimes compute when they load the file. */
#include "export/onnx/onnx_put_quant.h"

static int64_t parts_of(int64_t n) { return dt__max_i64(1, dt__ceil_div(n, DT__PUT_LONGEST)); }

int64_t dt__put_terms(const dt__put_weight *w)
{
    if (w->groups == 0) return 0;
    const int64_t last = w->columns - (w->groups - 1) * w->group;
    return (w->groups - 1) * parts_of(w->group) + parts_of(last);
}

dt__put_term dt__put_term_at(const dt__put_weight *w, int64_t i)
{
    const int64_t each = parts_of(w->group), g = i / each, start = g * w->group;
    const int64_t end = dt__min_i64(start + w->group, w->columns);
    const int64_t from = start + i % each * DT__PUT_LONGEST;
    return (dt__put_term){ g, from, dt__min_i64(from + DT__PUT_LONGEST, end) };
}

bool dt__put_is_small(const dt__put_weight *w, const dt__put_term *t)
{
    for (int64_t n = 0; n < w->rows; n++) {
        const int8_t *q = w->codes + n * w->columns;
        int64_t sum = 0;
        for (int64_t at = t->from; at < t->to; at++) {
            const int code = q[dt__put_column(w, n, at)];
            sum += code < 0 ? -code : code;
        }
        if (sum * 255 > (int64_t)1 << 24) return false;
    }
    return true;
}

/* The index of row n at a position: rows first, or positions first. */
static int64_t place(const dt__put_weight *w, bool columns_first, int64_t n, int64_t at)
{
    const int64_t padded = w->groups * w->group;
    return columns_first ? at * w->rows + n : n * padded + at;
}

/* The floats that codes represent, from a table of 256 entries, indexed by the code (negative ones
 * from its end). */
static dt__value from_table(dt__put *p, const dt__small_float *real, dt__value codes)
{
    float table[256];
    const int64_t dims[] = { 256 };
    for (int i = 0; i < 256; i++) table[i] = dt__small_value(real, (uint8_t)i);
    const dt__put_array a = {
        .type = DT__PUT_FLOAT, .rank = 1, .dims = dims, .data = table, .bytes = sizeof table
    };
    return DT__PUT(p, "Gather", dt__put_tensor(p, &a), codes);
}

/* Codes in groups of equal length, [groups, group, rows] or [rows, groups, group]; padded with
 * 0. */
static dt__value grouped_codes(dt__put *p, const dt__put_weight *w, bool columns_first)
{
    const int64_t count = w->rows * w->groups * w->group;
    int8_t *codes = dt__put_scratch(p, count, 1);
    if (codes == NULL) return NULL;
    for (int64_t n = 0; n < w->rows; n++) {
        for (int64_t at = 0; at < w->columns; at++) {
            codes[place(w, columns_first, n, at)] =
                w->codes[n * w->columns + dt__put_column(w, n, at)];
        }
    }
    const int64_t by_row[] = { w->rows, w->groups, w->group };
    const int64_t by_column[] = { w->groups, w->group, w->rows };
    const dt__put_codes c = { w->name, w->bits, 3, columns_first ? by_column : by_row, codes };
    dt__value y = dt__put_codes_as(p, &c, w->real != NULL ? DT__PUT_INT32 : DT__PUT_FLOAT);
    dt__release(p->ctx, codes);
    return w->real != NULL ? from_table(p, w->real, y) : y;
}

/* One number per group, shaped to broadcast with the codes. */
static dt__value per_group(dt__put *p, const dt__put_weight *w, bool columns_first,
                           const float *scale, const int8_t *zero)
{
    float *value = dt__put_memory(p, w->rows * w->groups, sizeof *value);
    if (value == NULL) return NULL;
    for (int64_t n = 0; n < w->rows; n++) {
        for (int64_t g = 0; g < w->groups; g++) {
            const int64_t from = n * w->groups + g;
            const int64_t to = columns_first ? g * w->rows + n : from;
            value[to] = scale != NULL ? scale[from] : (float)zero[from];
        }
    }
    const int64_t by_row[] = { w->rows, w->groups, 1 }, by_column[] = { w->groups, 1, w->rows };
    return dt__put_tensor(p,
                          &(dt__put_array){ .name = w->name,
                                            .type = DT__PUT_FLOAT,
                                            .rank = 3,
                                            .dims = columns_first ? by_column : by_row,
                                            .data = value,
                                            .bytes = (size_t)(w->rows * w->groups) * sizeof *value,
                                            .lent = true });
}

/* Moves columns from their positions to their original order: at once if all rows share one order,
 * else row by row. */
static dt__value reordered(dt__put *p, const dt__put_weight *w, dt__value matrix, int axis)
{
    const int64_t each = w->op_groups == 1 ? 1 : w->rows;
    int64_t *index = dt__put_memory(p, each * w->columns, sizeof *index);
    if (index == NULL) return NULL;
    for (int64_t n = 0; n < each; n++) {
        for (int64_t at = 0; at < w->columns; at++) {
            const int64_t column = dt__put_column(w, n, at);
            const bool across = axis == 0 && each > 1;
            index[across ? column * w->rows + n : n * w->columns + column] = at;
        }
    }
    const int64_t one[] = { w->columns }, by_row[] = { w->rows, w->columns };
    const int64_t by_column[] = { w->columns, w->rows };
    const dt__put_array a = { .name = w->name,
                              .type = DT__PUT_INT64,
                              .rank = each == 1 ? 1 : 2,
                              .dims = each == 1   ? one
                                      : axis == 0 ? by_column
                                                  : by_row,
                              .data = index,
                              .bytes = (size_t)(each * w->columns) * sizeof *index,
                              .lent = true };
    dt__value y =
        DT__PUT(p, each == 1 ? "Gather" : "GatherElements", matrix, dt__put_tensor(p, &a));
    if (y != NULL) dt__put_attr_int(p, "axis", axis);
    return y;
}

dt__value dt__put_matrix(dt__put *p, const dt__put_weight *w, bool columns_first)
{
    const int64_t padded = w->groups * w->group;
    const int axis = columns_first ? 0 : 1;
    dt__value m = grouped_codes(p, w, columns_first);
    if (w->zero_point != NULL) {
        m = DT__PUT(p, "Sub", m, per_group(p, w, columns_first, NULL, w->zero_point));
    }
    m = DT__PUT(p, "Mul", m, per_group(p, w, columns_first, w->scale, NULL));
    m = DT__PUT(p, "Reshape", m,
                columns_first ? DT__PUT_I64(p, padded, w->rows) : DT__PUT_I64(p, w->rows, padded));
    if (padded != w->columns) {
        m = DT__PUT(p, "Slice", m, DT__PUT_I64(p, 0), DT__PUT_I64(p, w->columns),
                    DT__PUT_I64(p, axis));
    }
    return w->order == NULL ? m : reordered(p, w, m, axis);
}
