/* Tables in .csv files of one or more parts of the data, read once for all inputs and outputs. */
#ifndef DT__DATA_TABLES_H
#define DT__DATA_TABLES_H

#include "data/tables/csv.h"
#include "data/splits/held_back.h"
#include "data/data_options.h"
#include "data/tables/tensor_names.h"

#define DT__MOST_READINGS (DT_MAX_SHAPES + DT_MAX_JOINED)

typedef struct dt__tables {
    dt_ctx *ctx;
    dt__csv reading[DT__MOST_READINGS]; /* each with the columns of an input and of an output */
    int n;
    struct {
        dt__csv_table *v; /* [n][files]; NULL: not read yet */
        char **name;      /* [files] */
        int64_t files;
    } part[3];          /* train, validation, test */
    dt__held_back held; /* drawn for the first reading; used for all */
} dt__tables;

/* *out: the tables of the files for reading k, lent. Reads the files for all readings, if that is
 * not done yet; closes classes after the training data. Errors of dt__csv_read. */
dt_status dt__tables_read(dt__tables *t, int part, const dt__tensor_names *files, int k,
                          dt__csv_table **out);
void dt__tables_free(dt__tables *t);

/* The kind of targets of arrays for a task. */
dt_target dt__target_of_task(int task);
/* dt__open_tensors with tables that several datasets of the same files share; `reading` is the
 * index of this dataset's columns. */
dt_status dt__open_with_tables(const dt_data_options *o, dt__tables *tables, int reading,
                               dt_dataset **const out[3]);

#endif
