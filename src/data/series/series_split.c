/* Chooses the rows of series that are held back. Windows overlap, so rows are never drawn one by
 * one: whole groups, files or series are assigned, or the newest rows are held back. Windows are
 * cut afterwards, from rows of one part only. */
#include "data/series/series.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    const dt__series_row *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Holds back the newest rows: by time if known, else by the order of the files. */
static dt_status hold_newest(const dt_data_options *o, const dt__series_rows *r, dt_ctx *ctx,
                             dt__held_back *held)
{
    const int64_t tests = (int64_t)(o->split.test * (double)r->n), others = r->n - tests;
    const int64_t first = others - (int64_t)(o->validation * (double)others);
    dt__series_row *row = dt__alloc_array(ctx, r->n, sizeof *row);
    held->n = r->n;
    held->part = dt__alloc_zero(ctx, (size_t)r->n);
    if (row != NULL && held->part != NULL) {
        for (int64_t i = 0; i < r->n; i++) row[i] = r->row[i];
        qsort(row, (size_t)r->n, sizeof *row, by_time);
        for (int64_t i = first; i < r->n; i++) held->part[row[i].at] = i < others ? 1 : 2;
    }
    dt__release(ctx, row);
    return row == NULL || held->part == NULL ? DT_ERR_NOMEM : DT_OK;
}

/* Assigns files, or series, as groups. */
static dt_status deal(const dt_data_options *o, const dt__series_rows *r, const dt_dataset *d,
                      bool files, dt__held_back *held)
{
    const dt__words numbers = { .n = files ? r->files : r->names.n };
    dt_data_options grouped = *o;
    dt__split_keys keys = { .n = r->n, .words = &numbers };
    int64_t *code = keys.code = dt__alloc_array(d->ctx, r->n, sizeof *code), at = 0;
    if (code == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < r->files && files; k++) {
        for (int64_t i = 0; i < r->table[k].rows; i++) code[at++] = k;
    }
    for (int64_t i = 0; i < r->n && !files; i++) code[r->row[i].at] = r->row[i].series;
    grouped.split.by = DT_SPLIT_GROUP;
    const dt_status s = dt__hold_back_rows(&grouped, &keys, d, held);
    dt__release(d->ctx, code);
    return s;
}

/* Whether every part would get at least one of n series. */
static bool are_enough(const dt_data_options *o, int64_t n)
{
    const double test = o->split.folds > 0 ? 1.0 / (double)o->split.folds : o->split.test;
    const double least =
        o->validation > 0 && (test == 0 || o->validation < test) ? o->validation : test;
    return least * (double)n >= 1;
}

dt_status dt__series_hold_back(const dt_data_options *o, const dt__series_rows *r,
                               const dt__split_keys *keys, const dt_dataset *d, dt__held_back *held)
{
    const int by = o->split.by, order = o->validation_order;
    if (by == DT_SPLIT_ROWS || by == DT_SPLIT_STRATIFIED) {
        return dt_fail(d->ctx, DT_ERR_CONFIG,
                       "data.split: rows of a series are not drawn one by one, since windows of "
                       "both parts would be beside each other; expected group, file, time or auto");
    }
    if (by == DT_SPLIT_GROUP || (by == DT_SPLIT_TIME && keys->code != NULL)) {
        return dt__hold_back_rows(o, keys, d, held);
    }
    if (by == DT_SPLIT_FILE) return deal(o, r, d, true, held);
    const bool whole =
        by == DT_SPLIT_AUTO && order != DT_DATA_ORDER_TIME &&
        (order == DT_DATA_ORDER_DRAWN || o->split.folds > 0 || are_enough(o, r->names.n));
    if (by == DT_SPLIT_AUTO) {
        dt__say(d->ctx, "data.split: %s are held back",
                whole ? "whole series" : "the newest rows, since there are few series,");
    }
    return whole ? deal(o, r, d, false, held) : hold_newest(o, r, d->ctx, held);
}
