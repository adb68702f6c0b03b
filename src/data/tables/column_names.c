/* Names the numbers that encode a column, and finds those that data.standardize scales: numbers
 * without a scale of their own, and parts of times that are not sines and cosines. */
#include "data/tables/column_names.h"

#include "core/block_list.h"

#include <stdio.h>
#include <string.h>

/* Names number i of a time column; *angle: it is a sine or cosine. */
static void name_part(const dt_column *c, int64_t i, char text[48], bool *angle)
{
    static const char *const sides[] = { " sine", " cosine" };
    for (int k = 0; k < DT__TIME_PARTS; k++) {
        if ((c->parts >> k & 1) == 0) continue;
        const int n = 1U << k >= DT_TIME_OF_DAY ? 2 : 1;
        *angle = n == 2;
        if (i < n) {
            snprintf(text, 48, " %s%s", dt__time_parts[k], n == 2 ? sides[i] : "");
            return;
        }
        i -= n;
    }
}

const char *dt__column_number_name(dt_ctx *ctx, const dt_column *c, int64_t i, void **blocks)
{
    char part[48] = "";
    bool angle;
    const char *behind = part, *sign = "";
    const bool hot = c->type == DT_COLUMN_CATEGORY && !c->embedded && i < c->n_categories;
    if (hot) {
        sign = "=";
        behind = c->category[i];
    } else if (i == dt_column_width(c) - 1 && (c->indicator || i > 0) &&
               (c->indicator || c->type == DT_COLUMN_CATEGORY)) {
        behind = " missing";
    } else if (c->type == DT_COLUMN_CATEGORY && !c->embedded) {
        behind = " code missing";
    } else if (c->type == DT_COLUMN_TIME) {
        name_part(c, i, part, &angle);
    }
    const size_t n = strlen(c->name) + strlen(sign) + strlen(behind) + 1;
    char *name = dt__block_list_add(ctx, blocks, n);
    if (name != NULL) snprintf(name, n, "%s%s%s", c->name, sign, behind);
    return name;
}

void dt__columns_measured(const dt_columns *c, bool *measured)
{
    for (int64_t k = 0; k < c->n; k++) {
        const dt_column *column = &c->column[k];
        const int64_t n = dt_column_width(column);
        for (int64_t i = 0; i < n; i++) {
            bool angle = false;
            char part[48];
            if (column->type == DT_COLUMN_TIME) name_part(column, i, part, &angle);
            const bool number = column->type == DT_COLUMN_NUMBER && column->scale == DT_SCALE_NONE;
            const bool flag = column->indicator && i == n - 1;
            *measured++ = !flag && !angle && (number || column->type == DT_COLUMN_TIME);
        }
    }
}
