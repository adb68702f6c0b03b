/* Internals of datasets of arrays: where numbers are stored, and how examples are cut from them. */
#ifndef DT__DATA_ARRAYS_H
#define DT__DATA_ARRAYS_H

#include "data/array_dtypes.h"
#include "data/columns/columns.h"
#include "data/dataset.h"
#include "data/labels.h"

/* An array of numbers, as an argument. */
typedef struct dt__array_view {
    const char *name; /* for messages */
    int dtype;        /* dt_array_dtype */
    const void *data;
    int64_t n; /* examples or recordings */
    /* for labels: number of classes, 0: the largest + 1; else numbers per target */
    int64_t outputs;
} dt__array_view;

/* The owner of an array's bytes: a storage, a mapped file, or nobody here (the caller). */
typedef struct dt__array_source {
    char *name; /* file name, for messages; NULL: memory of the caller */
    dt__storage *storage;
    void *map;
    size_t map_bytes;
    dt__storage *begins; /* u8 [rows]: 1 where a run of a series begins; NULL: not series */
} dt__array_source;

/* Contiguous rows from which examples are cut: an array whose rows are examples, or a signal whose
 * rows are time steps. Example w is the rows w stride ... w stride + length - 1; rows beyond the
 * end are zeros. */
typedef struct dt__recording {
    const uint8_t *data;
    int64_t rows;
    int64_t end;   /* the index after its last example, counted over all recordings */
    int64_t first; /* its first row in the array of the source, for messages */
    int source;
    int dtype; /* dt_array_dtype: that of the store, or of a sound file with another dtype */
} dt__recording;

/* The arrays of a dataset and of all datasets split from it, reference-counted. */
typedef struct dt__array_store {
    dt_ctx *ctx;
    int refs;
    int dtype; /* dt_array_dtype of x, from the first recording */
    int rank;  /* shape of an example */
    int64_t dims[DT_MAX_RANK - 1];
    bool channels_last;     /* in memory the first of `dims` is the last dimension */
    int axis;               /* the dimension of an example that is the channels */
    int64_t length, stride; /* rows per example; rows from one example to the next */
    int64_t row;            /* numbers per row */
    dt__recording *recording;
    int64_t n_recordings, room;
    dt__array_source *source;
    int64_t n_sources, sources_room;
    int64_t outputs;            /* number of classes, or numbers per target */
    dt__storage *targets;       /* i32 [n] or f32 [n, outputs] */
    bool target_each_recording; /* one target per recording, not per example */
    /* i64 [n]: the recordings of windows that were replaced by features; NULL: none */
    dt__storage *cut_from;
    char **class_name;  /* [outputs]; NULL: none */
    char **column_name; /* [n_columns], of a table's inputs; NULL: none */
    int64_t n_columns;
    /* columns of a table that became the numbers of x; none: numbers are used unchanged */
    dt_columns fields;
    /* names of columns whose texts are kept; [kept.n] the texts of each */
    dt__words kept, *kept_words;
    dt__storage *kept_codes;      /* i32 [rows, kept.n]: indices of texts */
    bool is_table;                /* from a .csv file */
    dt_series_options series;     /* for windows of rows, with the measured gap */
    dt_csv_form form;             /* of tables */
    void *texts;                  /* memory of `series` and `form` */
    int64_t rate;                 /* dt_dataset_rate */
    bool from_sounds;             /* numbers have the scale of dt__sound_form */
    dt_features_options features; /* x is features of signals; kind none: it is not */
    int64_t samples;              /* samples of such a signal */
} dt__array_store;

extern const dt__data_kind dt__data_arrays;

/* An empty store with one reference: rows are examples. NULL: NOMEM. */
dt__array_store *dt__array_store_create(dt_ctx *ctx);
void dt__array_store_release(dt__array_store *s); /* NULL is allowed */

/* Declares that `dims`, as set, end with the channels: they become the first dimension of an
 * example. */
void dt__array_channels_last(dt__array_store *s);

/* Adds contiguous rows of a dtype; they belong to the source that was added last. NOMEM. */
dt_status dt__array_store_add(dt__array_store *s, int dtype, const uint8_t *data, int64_t rows);
/* Adds a source and takes ownership of its storage and map, also after an error. NOMEM. */
dt_status dt__array_store_keep(dt__array_store *s, const char *name, dt__array_source source);

/* Sets the targets to a checked copy of y: labels in [0, outputs), finite numbers, or bits. Errors:
 * FORMAT, naming array and row, NOMEM. */
dt_status dt__array_store_targets(dt__array_store *s, dt_target target, const dt__array_view *y);

/* Copies the names of the outputs, [outputs]; NULL: none. NOMEM. */
dt_status dt__array_store_names(dt__array_store *s, const char *const *names);

/* Copies the names of a table's columns. NOMEM. */
dt_status dt__array_store_columns(dt__array_store *s, const char *const *names, int64_t n);

/* Copies the columns from which dt_columns_encode computed x. ARG, NOMEM. */
dt_status dt__array_store_fields(dt__array_store *s, const dt_columns *c);

/* Takes ownership of the texts of the rows: of columns `names`, words[names->n], indexed by codes
 * [rows, names->n]. */
void dt__array_store_texts(dt__array_store *s, dt__words *names, dt__words **words,
                           dt__storage **codes);

/* Copies the settings of series, and the CSV form of tables. NOMEM. */
dt_status dt__array_store_series(dt__array_store *s, const dt_series_options *o);
dt_status dt__array_store_form(dt__array_store *s, const dt_csv_form *form);

/* The columns of a dataset's table; NULL: none. */
const dt_columns *dt__array_fields(const dt_dataset *d);

/* Checks that the numbers of x are finite. The first `known` examples, which must be rows unless
 * known is 0, need no check. FORMAT, naming array, row and column. */
dt_status dt__array_store_check(const dt__array_store *s, int64_t known);

/* Whether examples are the consecutive rows of each recording. */
static inline bool dt__array_is_rows(const dt__array_store *s)
{
    return s->length == 1 && s->stride == 1;
}

/* Creates the dataset of all examples. Takes ownership of the caller's reference to the store, also
 * after an error. */
dt_status dt__arrays_wrap(dt_ctx *ctx, dt__array_store *s, dt_target target, dt_dataset **out);

/* Numbers per example. */
static inline int64_t dt__array_size(const dt__array_store *s) { return s->row * s->length; }

/* The target of an example: an i32, or f32 [outputs]. */
const void *dt__array_target(const dt_dataset *d, int64_t example);

/* Number of 4-byte numbers per target. */
static inline int64_t dt__array_cells(const dt_dataset *d)
{
    return dt__has_label(d) ? 1 : d->arrays->outputs;
}

/* Where an example begins in its source, and its number of bytes there. */
typedef struct dt__array_place {
    const dt__array_dtype *dtype;
    const uint8_t *begin;
    int64_t bytes;
    const dt__array_source *source;
} dt__array_place;

dt__array_place dt__array_place_of(const dt__array_store *s, int64_t example);

/* Writes example `example` of the store as f32, without standardizing. */
void dt__array_example(const dt__array_store *s, int64_t example, float *x);
/* Writes n consecutive examples. */
void dt__array_examples(const dt__array_store *s, int64_t first, int64_t n, float *x);
/* n consecutive examples, if the store has them as contiguous f32; else NULL. */
const float *dt__array_floats(const dt__array_store *s, int64_t first, int64_t n);

/* The dimensions of an example around the axis of channels: [outer, channels, inner]. */
typedef struct dt__array_channels {
    int64_t outer, channels, inner;
} dt__array_channels;

dt__array_channels dt__array_channels_of(const dt__array_store *s);

/* Warns of channels whose numbers seem to have other units than those of the model's training data:
 * compares means and deviations, n or one for all channels; with `pixels`, values must be from 0 to
 * 1. NOMEM. */
typedef struct dt__trained_units {
    int64_t n;
    const double *mean, *deviation; /* 0 and 1 if they were not measured */
    bool pixels;
} dt__trained_units;
dt_status dt__say_far(const dt_dataset *d, const dt__trained_units *trained);

/* Checks options of augmentation: ARG. dt__arrays_augment changes example i of a batch in place
 * (arrays_augment.c). */
dt_status dt__arrays_check(const dt_dataset *d, const dt_loader_options *o);
void dt__arrays_augment(const dt__batch *b, int64_t i, float *x);

/* Functions of dt__data_kind (arrays_batch.c). */
dt_status dt__arrays_begin(const dt_dataset *d, void **state);
void dt__arrays_end(dt_ctx *ctx, void *state);
/* For datasets with several inputs: the index of the input of a loader's state, so that inputs get
 * different noise. */
void dt__arrays_set_input(void *state, int input);
int dt__arrays_input(const void *state);
void dt__arrays_fill(const dt__batch *b);
/* Writes x of example i of the batch. */
void dt__arrays_put(const dt__batch *b, int64_t i, float *x);
void dt__arrays_expect(const dt__batch *b);
/* Advises the system that examples are read in random order, so that it does not read ahead. */
void dt__arrays_at_random(const dt__array_store *s);

#endif
