/* Converts labels in array files to classes. Integers 0, 1, ... n-1 are used unchanged; others, and
 * words, are looked up one by one. */
#include "data/label_file.h"

#include "core/text/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* largest label for which a table of all labels is made, to find out whether all occur */
#define MOST_DENSE ((int64_t)1 << 26)

static dt_status refuse(const dt__array_file *a, int64_t row, const char *text, const char *why)
{
    char shown[DT__SHOWN];
    return dt__array_fail(a, DT_ERR_FORMAT, "row %lld (counted from 0) is the label '%s', which %s",
                          (long long)row, dt__shown(text, shown), why);
}

/* The largest label, if all are integers from 0 on; else -1. */
static int64_t largest(const dt__array_file *a)
{
    const dt__array_dtype *dtype = dt__array_dtype_of(a->dtype);
    double most = -1;
    if (a->text > 0) return -1;
    for (int64_t i = 0; i < a->dims[0]; i++) {
        const double v = dtype->at(a->data + i * dtype->bytes);
        if (!(v >= 0 && v < INT32_MAX) || v != floor(v)) return -1;
        if (v > most) most = v;
    }
    return (int64_t)most;
}

/* Whether all of 0, 1, ... most occur. */
static dt_status find_all(const dt__array_file *a, int64_t most, bool *all)
{
    const dt__array_dtype *dtype = dt__array_dtype_of(a->dtype);
    *all = false;
    if (most >= a->dims[0] || most >= MOST_DENSE) return DT_OK;
    uint8_t *seen = dt__alloc_zero(a->ctx, (size_t)most + 1);
    if (seen == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < a->dims[0]; i++) {
        seen[(int64_t)dtype->at(a->data + i * dtype->bytes)] = 1;
    }
    *all = memchr(seen, 0, (size_t)most + 1) == NULL;
    dt__release(a->ctx, seen);
    return DT_OK;
}

static dt_status close_numbers(dt__labels *l, const dt__array_file *a)
{
    bool all = false;
    const int64_t most = l->is_closed ? -1 : largest(a);
    if (most < 0) return DT_OK;
    DT__TRY(find_all(a, most, &all));
    if (!dt__labels_are_numbers(l, most, all)) return DT_OK;
    l->is_closed = l->is_numbers = true;
    l->classes = most + 1;
    return DT_OK;
}

/* Label i as text; false if it cannot be a label. */
static bool text_of(const dt__array_file *a, int64_t i, char text[DT__TEXT_MOST])
{
    const dt__array_dtype *dtype = dt__array_dtype_of(a->dtype);
    int64_t whole;
    if (a->text > 0) return dt__array_text(a, i, text) > 0;
    const double v = dtype->at(a->data + i * dtype->bytes);
    const bool good = dtype->is_integer || (v == floor(v) && fabs(v) <= 9007199254740992.0);
    if (a->dtype == DT_ARRAY_I64) memcpy(&whole, a->data + i * dtype->bytes, sizeof whole);
    else whole = good ? (int64_t)v : 0;
    if (good) snprintf(text, 24, "%lld", (long long)whole);
    else snprintf(text, 32, "%g", v);
    return good;
}

static dt_status read_label(const dt__array_file *a, dt__labels *l, int64_t i, int32_t *out)
{
    char text[DT__TEXT_MOST] = "";
    if (!text_of(a, i, text)) {
        return refuse(a, i, text,
                      a->text > 0 ? "is empty, not UTF-8, or longer than 4,000 bytes"
                                  : "is not an integer; data.task: regression predicts numbers");
    }
    switch (dt__labels_add(a->ctx, l, text, strlen(text), out)) {
    case DT__LABEL_GOOD: return DT_OK;
    case DT__LABEL_EXCESS:
        return refuse(a, i, text,
                      "is beyond the 65536 classes that there can be; for numeric targets set "
                      "data.task: regression");
    case DT__LABEL_UNKNOWN: return refuse(a, i, text, dt__labels_unknown(l));
    case DT__LABEL_NOMEM: break;
    }
    return DT_ERR_NOMEM;
}

static dt_status name_classes(const dt__array_file *a, dt__labels *l, int32_t *label)
{
    const int64_t n = a->dims[0];
    for (int64_t i = 0; i < n; i++) DT__TRY(read_label(a, l, i, &label[i]));
    if (l->is_closed) return DT_OK;
    int64_t *to = dt__alloc_array(a->ctx, l->words.n, sizeof *to);
    if (to == NULL) return DT_ERR_NOMEM;
    const dt_status status = dt__labels_close(a->ctx, l, to);
    for (int64_t i = 0; i < n && status == DT_OK; i++) label[i] = (int32_t)to[label[i]];
    dt__release(a->ctx, to);
    return status;
}

dt_status dt__label_file_targets(dt__array_store *s, dt__labels *l, const dt__array_file *a)
{
    DT__TRY(close_numbers(l, a));
    if (l->is_numbers && a->text == 0) {
        const dt__array_view y = { a->name, a->dtype, a->data, a->dims[0], l->classes };
        return dt__array_store_targets(s, DT_TARGET_CLASS, &y);
    }
    int32_t *label = dt__alloc_array(s->ctx, a->dims[0], sizeof *label);
    if (label == NULL) return DT_ERR_NOMEM;
    dt_status status = name_classes(a, l, label);
    const dt__array_view y = { a->name, DT_ARRAY_I32, label, a->dims[0], l->classes };
    if (status == DT_OK) status = dt__array_store_targets(s, DT_TARGET_CLASS, &y);
    if (status == DT_OK) status = dt__array_store_names(s, dt__labels_names(l));
    dt__release(s->ctx, label);
    return status;
}
