/* Internals of datasets of arrays: where the numbers are, and how examples are cut from them. */
#ifndef DT__DATA_ARRAYS_H
#define DT__DATA_ARRAYS_H

#include "data/array_dtypes.h"
#include "data/columns/columns.h"
#include "data/dataset.h"
#include "data/labels.h"

/* n numbers somewhere, as an argument. */
typedef struct dt__array_view {
    const char *name; /* for messages */
    int dtype;        /* dt_array_dtype */
    const void *data;
    int64_t n;       /* examples or recordings */
    int64_t outputs; /* of labels: classes, 0: the largest + 1; else numbers of each */
} dt__array_view;

/* What keeps the bytes of an array: a storage, a mapped file, or nothing (the caller). */
typedef struct dt__array_source {
    char *name; /* of the file, for messages; NULL: memory of the caller */
    dt__storage *storage;
    void *map;
    size_t map_bytes;
    dt__storage
        *begins; /* u8 [rows]: whether a run of a series begins; NULL: these are no series */
} dt__array_source;

/* Rows in one piece, from which examples are cut: an array whose rows are examples, or a signal
 * whose rows are time steps. Its example w is the rows w stride ... w stride + length - 1; rows
 * beyond its end are zeros. */
typedef struct dt__recording {
    const uint8_t *data;
    int64_t rows;
    int64_t end;   /* the index after its last example, counted over all recordings */
    int64_t first; /* its first row in the array of the source, for messages */
    int source;
    int dtype; /* dt_array_dtype: of the store, or of a sound whose file has another */
} dt__recording;

/* The arrays of a dataset and of all datasets split from it, reference-counted. */
typedef struct dt__array_store {
    dt_ctx *ctx;
    int refs;
    int dtype; /* dt_array_dtype of x, of the first recording */
    int rank;  /* shape of an example */
    int64_t dims[DT_MAX_RANK - 1];
    bool channels_last;     /* in memory the first of `dims` is the last */
    int axis;               /* the dimension of an example that counts its channels */
    int64_t length, stride; /* rows of an example, and between the first rows of two examples */
    int64_t row;            /* numbers of a row */
    dt__recording *recording;
    int64_t n_recordings, room;
    dt__array_source *source;
    int64_t n_sources, sources_room;
    int64_t outputs;            /* classes, or numbers of a target */
    dt__storage *targets;       /* i32 [n] or f32 [n, outputs] */
    bool target_each_recording; /* n counts recordings, not examples */
    dt__storage *cut_from; /* i64 [n]: the recordings whose windows became features; NULL: none */
    char **class_name;     /* [outputs]; NULL: none */
    char **column_name;    /* [n_columns], of a table's inputs; NULL: none */
    int64_t n_columns;
    dt_columns fields;           /* that became the numbers of a table; none: numbers as they are */
    dt__words kept, *kept_words; /* columns whose texts are kept; [kept.n] the texts of each */
    dt__storage *kept_codes;     /* i32 [rows, kept.n]: numbers of texts */
    bool is_table;               /* of a file .csv */
    dt_series_options series;    /* of windows of rows, with the gap that was found */
    dt_csv_form form;            /* of tables */
    void *texts;                 /* memory of both */
    int64_t rate;                /* dt_dataset_rate */
    bool from_sounds;            /* on the scale of dt__sound_form */
    dt_features_options features; /* of the signals that these are; kind none: no features */
    int64_t samples;              /* of such a signal */
} dt__array_store;

extern const dt__data_kind dt__data_arrays;

/* An empty store with one reference: rows are examples. NULL: NOMEM. */
dt__array_store *dt__array_store_create(dt_ctx *ctx);
void dt__array_store_release(dt__array_store *s); /* NULL is allowed */

/* Says that `dims`, as set, end in the channels: they become the first of an example. */
void dt__array_channels_last(dt__array_store *s);

/* Adds rows of a dtype in one piece; their source is the last one added. NOMEM. */
dt_status dt__array_store_add(dt__array_store *s, int dtype, const uint8_t *data, int64_t rows);
/* Adds a source, whose storage and map it takes over, also after an error. NOMEM. */
dt_status dt__array_store_keep(dt__array_store *s, const char *name, dt__array_source source);

/* Sets the targets to a checked copy of y: labels in [0, outputs), finite numbers, or bits. Errors:
 * FORMAT, naming array and row, NOMEM. */
dt_status dt__array_store_targets(dt__array_store *s, dt_target target, const dt__array_view *y);

/* Copies the names of the outputs, [outputs]; NULL: none. NOMEM. */
dt_status dt__array_store_names(dt__array_store *s, const char *const *names);

/* Copies the names of a table's columns. NOMEM. */
dt_status dt__array_store_columns(dt__array_store *s, const char *const *names, int64_t n);

/* Copies the columns that x was computed of by dt_columns_encode. ARG, NOMEM. */
dt_status dt__array_store_fields(dt__array_store *s, const dt_columns *c);

/* Takes over texts of the rows of a store: of columns `names`, words[names->n] by codes
 * [rows, names->n]. */
void dt__array_store_texts(dt__array_store *s, dt__words *names, dt__words **words,
                           dt__storage **codes);

/* Copies the settings of series, and the form of tables. NOMEM. */
dt_status dt__array_store_series(dt__array_store *s, const dt_series_options *o);
dt_status dt__array_store_form(dt__array_store *s, const dt_csv_form *form);

/* The columns of a dataset's table; NULL: none. */
const dt_columns *dt__array_fields(const dt_dataset *d);

/* Checks that the numbers of x are finite; those of the first `known` examples are, which must be
 * rows unless it is 0. FORMAT, naming array, row and column. */
dt_status dt__array_store_check(const dt__array_store *s, int64_t known);

/* Whether examples are rows, one behind the other in each recording. */
static inline bool dt__array_is_rows(const dt__array_store *s)
{
    return s->length == 1 && s->stride == 1;
}

/* Creates the dataset of all examples. Takes over the caller's reference of the store, also after
 * an error. */
dt_status dt__arrays_wrap(dt_ctx *ctx, dt__array_store *s, dt_target target, dt_dataset **out);

/* The numbers of an example. */
static inline int64_t dt__array_size(const dt__array_store *s) { return s->row * s->length; }

/* The target of an example: an i32, or f32 [outputs]. */
const void *dt__array_target(const dt_dataset *d, int64_t example);

/* Numbers of four bytes in a target. */
static inline int64_t dt__array_cells(const dt_dataset *d)
{
    return dt__has_label(d) ? 1 : d->arrays->outputs;
}

/* Where an example begins in its source, and how many bytes it has there. */
typedef struct dt__array_place {
    const dt__array_dtype *dtype;
    const uint8_t *begin;
    int64_t bytes;
    const dt__array_source *source;
} dt__array_place;

dt__array_place dt__array_place_of(const dt__array_store *s, int64_t example);

/* Writes example `example` of the store as f32, without standardizing. */
void dt__array_example(const dt__array_store *s, int64_t example, float *x);
/* The same of n examples in a row, one behind the other. */
void dt__array_examples(const dt__array_store *s, int64_t first, int64_t n, float *x);
/* Where the store has the numbers of n examples in a row as f32, one behind the other; NULL: it
 * does not. */
const float *dt__array_floats(const dt__array_store *s, int64_t first, int64_t n);

/* What comes before and after the axis in an example: [outer, channels, inner]. */
typedef struct dt__array_channels {
    int64_t outer, channels, inner;
} dt__array_channels;

dt__array_channels dt__array_channels_of(const dt__array_store *s);

/* Says which channels of the arrays of d are in other units than those that a model was trained on,
 * by its means and deviations, n or one for all, and by `pixels`, which are from 0 to 1. NOMEM. */
typedef struct dt__trained_units {
    int64_t n;
    const double *mean, *deviation; /* 0 and 1: they were not measured */
    bool pixels;
} dt__trained_units;
dt_status dt__say_far(const dt_dataset *d, const dt__trained_units *trained);

/* ARG if the options of augmentation do not fit; the changes of example i of a batch, in place
 * (arrays_augment.c). */
dt_status dt__arrays_check(const dt_dataset *d, const dt_loader_options *o);
void dt__arrays_augment(const dt__batch *b, int64_t i, float *x);

/* Their functions for a loader (arrays_batch.c). */
dt_status dt__arrays_begin(const dt_dataset *d, void **state);
void dt__arrays_end(dt_ctx *ctx, void *state);
/* Of several inputs, the number of the one that a state is for: their noise differs. */
void dt__arrays_set_input(void *state, int input);
int dt__arrays_input(const void *state);
void dt__arrays_fill(const dt__batch *b);
/* Writes x of example i of the batch. */
void dt__arrays_put(const dt__batch *b, int64_t i, float *x);
void dt__arrays_expect(const dt__batch *b);
/* Tells the system that examples are not read one behind the other, so that the megabytes behind
 * each are not read with it. */
void dt__arrays_at_random(const dt__array_store *s);

#endif
