/* Typed columns of a table (data.columns.types), in steps: fields are parsed to raw values, f64
 * with NaN for missing ones; columns are fitted to the training rows; dt_columns_encode converts
 * raw values to f32. A raw value is a number, seconds since 1970, 0 or 1, or an index in `words`.
 * */
#ifndef DT__DATA_CSV_TYPES_H
#define DT__DATA_CSV_TYPES_H

#include "data/tables/csv_reader.h"

struct dt__csv_types {
    dt_ctx *ctx;
    dt_columns columns;          /* of the inputs, in the same order; fitted, if is_fitted */
    dt_column *column;           /* columns.column */
    const dt_column_rule **rule; /* [columns.n]; NULL: none */
    dt__words *words;            /* [columns.n], of categories */
    void *blocks;                /* memory of `columns` */
    dt__cache_folder cache;
    bool is_fitted;
};

/* The first rule for a column of a file; NULL: none. */
const dt_column_rule *dt__csv_rule_of(const dt__csv *c, const char *name);

/* After the inputs are chosen: applies rules, or a model's columns. Does nothing if there are none.
 * CONFIG, NOMEM. */
dt_status dt__csv_types_begin(dt__csv *c);
void dt__csv_types_free(dt__csv_types *t); /* NULL is allowed */

/* Removes blanks at both ends. */
void dt__csv_trim(dt__csv_field *f);
/* Whether the field is a number, even beyond f64. */
bool dt__csv_is_number(const dt__csv_reader *r, const dt__csv_field *f, double *out);

/* The first file of the first table that a name means, which the caller frees; *files: number of
 * tables. Errors of dt__tensor_names_add. */
dt_status dt__table_first(dt_ctx *ctx, const char *name, char **out, int64_t *files);

/* Parses the field at r->at if it is a number of a typed column in the usual form; else false. */
bool dt__csv_take_typed(dt__csv_reader *r, const dt__csv_place *p);
/* Parses and stores the raw value of a field. FORMAT, NOMEM. */
dt_status dt__csv_put_typed(const dt__csv_reader *r, const dt__csv_place *p,
                            const dt__csv_field *f);

/* The types of a reading's inputs; NULL: they are plain numbers. */
static inline dt__csv_types *dt__csv_types_of(const dt__csv *c)
{
    return c->x_of == NULL ? c->types : c->x_of->types;
}

/* Fits the columns to the n examples of a dataset of raw values, unless they are fitted. CONFIG,
 * NOMEM. */
dt_status dt__csv_types_fit(dt__csv_types *t, const dt_dataset *train);

/* Encodes the raw values of a file as f32 [rows, dt_columns_width]. FORMAT, naming file, row and
 * column; NOMEM. */
dt_status dt__csv_types_encode(dt__csv_types *t, const dt__array_source *from, int64_t rows,
                               dt__storage **out);
/* Encodes all files of a store. */
dt_status dt__csv_types_apply(dt__csv_types *t, dt__array_store *s);

#endif
