/* Describes a column in words, for printed tables. */
#include "core/text/number.h"
#include "data/columns/columns.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(char text[DT_COLUMN_TEXT], const char *format, ...)
{
    const size_t used = strlen(text);
    DT__FORMAT(text + used, DT_COLUMN_TEXT - used, format);
}

static void add_number(const dt_column *c, char text[DT_COLUMN_TEXT])
{
    char offset[32], factor[32];
    switch (c->scale) {
    case DT_SCALE_LOG: add(text, "sign(v) ln(1 + |v|)"); break;
    case DT_SCALE_ROBUST:
        dt__print_real(c->offset, offset);
        dt__print_real(c->factor, factor);
        add(text, "(v - %s) / %s", offset, factor);
        break;
    case DT_SCALE_QUANTILE:
        add(text, "-1 to 1 by %lld quantiles", (long long)c->n_quantiles);
        break;
    default: add(text, "v"); break;
    }
}

static void add_value(const dt_column *c, char text[DT_COLUMN_TEXT])
{
    switch (c->type) {
    case DT_COLUMN_NUMBER: add_number(c, text); break;
    case DT_COLUMN_BOOLEAN: add(text, "0 or 1"); break;
    case DT_COLUMN_CATEGORY:
        add(text, "%s of %lld categories", c->embedded ? "the code" : "one-hot",
            (long long)c->n_categories);
        break;
    case DT_COLUMN_TIME:
        for (int i = 0; i < DT__TIME_PARTS; i++) {
            if ((c->parts >> i & 1) == 0) continue;
            add(text, "%s%s", text[0] != 0 ? ", " : "", dt__time_parts[i]);
        }
        break;
    default: break;
    }
}

static void add_missing(const dt_column *c, char text[DT_COLUMN_TEXT])
{
    char fill[32];
    const bool known = c->missing >= 0 && c->missing <= DT_MISSING_CODE;
    const int64_t word = c->type == DT_COLUMN_CATEGORY ? (int64_t)c->fill - 1 : -1;
    add(text, "%s", known ? dt__column_fills[c->missing] : "");
    if (dt__column_fills_in(c)) {
        dt__print_real(c->fill, fill);
        const bool named = word >= 0 && word < c->n_categories;
        add(text, " %.64s", named ? c->category[word] : fill);
    }
    if (c->indicator) add(text, ", and an indicator");
}

const char *dt_column_describe(const dt_column *c, dt_column_about about, char text[DT_COLUMN_TEXT])
{
    if (text == NULL) return "";
    text[0] = 0;
    if (c == NULL || c->type < 0 || c->type > DT_COLUMN_IGNORE) return text;
    if (about == DT_COLUMN_ITS_TYPE) add(text, "%s", dt__column_types[c->type]);
    if (c->type == DT_COLUMN_IGNORE) return text;
    if (about == DT_COLUMN_BECOMES) add_value(c, text);
    if (about == DT_COLUMN_IF_MISSING) add_missing(c, text);
    return text;
}
