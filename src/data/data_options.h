/* Helpers for the keys of `data:` and for their checks. */
#ifndef DT__DATA_DATA_OPTIONS_H
#define DT__DATA_DATA_OPTIONS_H

#include "data/dataset.h"

#define DT__MOST_VALIDATION 0.9
#define DT__MOST_FOLDS 100
#define DT__MOST_NOISE 10.0
#define DT__MOST_IMAGES 4294967295.0 /* the limit of an IDX header */
#define DT__MOST_CONTEXT 1048576.0

/* Finishes the opened arrays (train, validation and test; the last two may be NULL): features,
 * standardization, the task. CONFIG, naming the key. */
dt_status dt__arrays_finish(const dt_data_options *o, dt_dataset **const out[3]);

extern const dt_key dt__csv_form_keys[]; /* of dt_csv_form */
extern const char *const dt__csv_decimals[], *const dt__csv_thousands[], *const dt__csv_encodings[];
extern const dt_key dt__columns_keys[];       /* of dt_csv_options */
extern const dt_key dt__rule_keys[];          /* of dt_column_rule */
extern const dt_key dt__series_keys[];        /* of dt_series_options */
extern const char *const dt__weights_names[]; /* choices of class_weights */
extern const char *const dt__chat_names[];    /* of dt_chat_template, ended by NULL */

/* dt__open_tensors for several inputs or outputs (open_joined.c). */
dt_status dt__open_joined(dt_ctx *ctx, const dt_data_options *o, dt_dataset **const part[3]);

/* Whether a task is possible with data of a format. */
bool dt__task_fits(int format, int task);

/* The path of a data file, which the caller frees; NULL: NOMEM. */
char *dt__data_path(dt_ctx *ctx, const char *dir, const char *name);

/* Opens text, JSON lines or ids (open_text.c): train, validation and test. Also after an error the
 * caller frees the datasets that were opened. */
dt_status dt__open_text(dt_ctx *ctx, const dt_data_options *o, dt_dataset **const part[3]);

/* Opens arrays in files (open_tensors.c), likewise. */
dt_status dt__open_tensors(dt_ctx *ctx, const dt_data_options *o, dt_dataset **const part[3]);

#endif
