/* Reads the files of a part of the data once for all readings. */
#include "data/tables/tables.h"

#include <string.h>

static dt_status read_files(dt__tables *t, int part, const dt__tensor_names *files)
{
    dt__csv *reading[DT__MOST_READINGS];
    dt__csv_table table[DT__MOST_READINGS];
    for (int k = 0; k < t->n; k++) reading[k] = &t->reading[k];
    for (int64_t i = 0; i < files->n; i++) {
        const dt_status status = dt__csv_read_all(reading, t->n, files->v[i].path, table);
        for (int k = 0; k < t->n; k++) t->part[part].v[k * files->n + i] = table[k];
        DT__TRY(status);
    }
    for (int k = 0; k < t->n; k++) DT__TRY(dt__csv_check(&t->reading[k]));
    return DT_OK;
}

static dt_status take_names(dt__tables *t, int part, const dt__tensor_names *files)
{
    char **name = t->part[part].name = dt__alloc_zero(t->ctx, (size_t)files->n * sizeof *name);
    if (name == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < files->n; i++) {
        name[i] = dt__copy_string(t->ctx, files->v[i].path);
        if (name[i] == NULL) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

/* Readings that share targets also share classes. */
static dt_status close_classes(dt__tables *t, int part)
{
    for (int k = 0; k < t->n; k++) {
        const int64_t files = t->part[part].files;
        if (t->reading[k].y_of != NULL) continue;
        DT__TRY(dt__csv_close(&t->reading[k], t->part[part].v + k * files, files));
    }
    return DT_OK;
}

dt_status dt__tables_read(dt__tables *t, int part, const dt__tensor_names *files, int k,
                          dt__csv_table **out)
{
    const int64_t n = t->n * files->n;
    if (t->part[part].v == NULL) {
        t->part[part].v = dt__alloc_array(t->ctx, n, sizeof(dt__csv_table));
        if (t->part[part].v == NULL) return DT_ERR_NOMEM;
        memset(t->part[part].v, 0, (size_t)n * sizeof(dt__csv_table));
        t->part[part].files = files->n;
        DT__TRY(take_names(t, part, files));
        DT__TRY(read_files(t, part, files));
        if (part == 0) DT__TRY(close_classes(t, part));
    }
    if (files->n != t->part[part].files) {
        return dt_fail(t->ctx, DT_ERR_IO, "'%s' and others: there are other files than before",
                       files->v[0].path);
    }
    *out = t->part[part].v + k * files->n;
    return DT_OK;
}

void dt__tables_free(dt__tables *t)
{
    for (int part = 0; part < 3; part++) {
        const int64_t n = t->n * t->part[part].files;
        for (int64_t i = 0; i < n; i++) dt__csv_table_free(&t->part[part].v[i]);
        dt__release(t->ctx, t->part[part].v);
        char **name = t->part[part].name;
        for (int64_t i = 0; name != NULL && i < t->part[part].files; i++) {
            dt__release(t->ctx, name[i]);
        }
        dt__release(t->ctx, name);
    }
    dt__held_back_free(t->ctx, &t->held);
    for (int k = 0; k < t->n; k++) dt__csv_free(&t->reading[k]);
}
