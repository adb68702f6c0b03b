/* Packs rows of codes, the layout of files and rounders, into panels, and unpacks them. Where scale
 * groups are not consecutive columns, panels have a column order, which is computed from the groups
 * alone (panels.h). */
#include "qat/quantized.h"

#include <string.h>

static dt_status refuse(dt_ctx *ctx, const dt__panel_layout *l, int64_t i, int32_t group)
{
    const long long op_group = i / l->columns, column = i % l->columns;
    if (group < 0 || group >= l->groups) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "column %lld of op group %lld: group %d of %lld does not exist", column,
                       op_group, (int)group, (long long)l->groups);
    }
    return dt_fail(ctx, DT_ERR_ARG,
                   "column %lld of op group %lld: group %d has its columns already", column,
                   op_group, (int)group);
}

/* Sorts the columns of one op group by scale group. next[g] is the next free place of group g. If
 * no group has too many columns, every group is full at the end. */
static dt_status sort_columns(dt_ctx *ctx, const dt__panel_layout *l, const dt_code_rows *rows,
                              int64_t op_group, int64_t *next, int32_t *order)
{
    const int64_t first = op_group * l->columns;
    for (int64_t g = 0; g < l->groups; g++) next[g] = g * l->group;
    for (int64_t c = 0; c < l->columns; c++) {
        const int32_t g = rows->group_of[first + c];
        const bool fits =
            g >= 0 && g < l->groups && next[g] < dt__min_i64((g + 1) * l->group, l->columns);
        if (!fits) return refuse(ctx, l, first + c, g);
        order[first + next[g]++] = (int32_t)c;
    }
    return DT_OK;
}

static bool is_consecutive(const dt__panel_layout *l, const dt_code_rows *rows)
{
    for (int64_t i = 0; i < rows->op_groups * l->columns; i++) {
        if (rows->group_of[i] != i % l->columns / l->group) return false;
    }
    return true;
}

/* The column order of panels; NULL where groups are consecutive columns. */
static dt_status make_order(dt_ctx *ctx, const dt__panel_layout *l, const dt_code_rows *rows,
                            int32_t **out)
{
    *out = NULL;
    if (rows->group_of == NULL || l->rows == 0 || is_consecutive(l, rows)) return DT_OK;
    if (rows->op_groups < 1 || l->rows % rows->op_groups != 0 || l->columns > INT32_MAX) {
        return dt_fail(ctx, DT_ERR_ARG, "%lld op groups of %lld rows, %lld columns",
                       (long long)rows->op_groups, (long long)l->rows, (long long)l->columns);
    }
    int64_t *next = dt__alloc_array(ctx, l->groups, sizeof *next);
    *out = dt__alloc_array(ctx, rows->op_groups * l->columns, sizeof **out);
    dt_status s = next == NULL || *out == NULL ? DT_ERR_NOMEM : DT_OK;
    for (int64_t g = 0; g < rows->op_groups && s == DT_OK; g++) {
        s = sort_columns(ctx, l, rows, g, next, *out);
    }
    dt__release(ctx, next);
    if (s == DT_OK) return DT_OK;
    dt__release(ctx, *out);
    *out = NULL;
    return s;
}

static dt_status fill(dt__codes *codes, const dt_code_rows *rows)
{
    dt_ctx *ctx = codes->ctx;
    const dt__panel_layout *l = &codes->layout;
    const int64_t blocks = l->rows * l->groups;
    DT__TRY(make_order(ctx, l, rows, &codes->order));
    codes->layout.order = codes->order;
    codes->layout.order_rows = codes->order == NULL ? 0 : l->rows / rows->op_groups;
    codes->panels = dt__alloc(ctx, l->bytes);
    if (codes->panels == NULL) return DT_ERR_NOMEM;
    if (rows->zero_point != NULL) {
        codes->zero = dt__alloc_array(ctx, blocks, 1);
        if (codes->zero == NULL) return DT_ERR_NOMEM;
        memcpy(codes->zero, rows->zero_point, (size_t)blocks);
    }
    const dt__code_matrix from = { rows->codes, l->columns, rows->scale, l->groups };
    dt__panel_pack(l, &from, codes->panels);
    return DT_OK;
}

dt_status dt__codes_from_rows(dt_ctx *ctx, const dt__panel_layout *layout, bool simulated,
                              const dt_code_rows *rows, dt__codes **out)
{
    dt__codes *codes;
    DT__TRY(dt__codes_create(ctx, &codes));
    codes->layout = *layout;
    codes->rows = layout->rows;
    codes->columns = layout->columns;
    codes->group = layout->group;
    codes->groups = layout->groups;
    codes->bits = layout->bits;
    codes->integer = !simulated && rows->zero_point == NULL && layout->real == NULL;
    codes->zero_step = layout->groups;
    const dt_status s = fill(codes, rows);
    if (s == DT_OK) *out = codes;
    else dt__codes_release(codes);
    return s;
}

int64_t dt__codes_op_groups(const dt__codes *codes)
{
    return codes->order == NULL ? 0 : codes->rows / codes->layout.order_rows;
}

void dt__codes_to_rows(const dt__codes *codes, const dt_code_rows *rows)
{
    const int64_t blocks = codes->rows * codes->groups, n = codes->columns;
    const dt__code_matrix to = { rows->codes, n, rows->scale, codes->groups };
    dt__panel_unpack(&codes->layout, codes->panels, &to);
    for (int64_t i = 0; rows->zero_point != NULL && i < blocks; i++) {
        rows->zero_point[i] = codes->zero == NULL     ? 0
                              : codes->zero_step == 0 ? codes->zero[0]
                                                      : codes->zero[i];
    }
    for (int64_t i = 0; rows->group_of != NULL && i < dt__codes_op_groups(codes) * n; i++) {
        rows->group_of[i / n * n + codes->order[i]] = (int32_t)(i % n / codes->group);
    }
}
