/* The user's data for `detent new`: recognizes what a path holds, and writes the blocks `data` and
 * `model` of a recipe. */
#ifndef NEW_DATA_H
#define NEW_DATA_H

#include "cli/cli.h"
#include "cli/print/text.h"

#include <detent/experimental/tables.h>
#include <detent/io.h>

#define NEW_GROUPS 5    /* with at least so many groups, some are held back as test data */
#define NEW_SHORTEST 16 /* least rows of a window */

typedef struct new_data {
    const char *path;   /* a folder, a file, or the name of generated data */
    const char *task;   /* as `data.task`, or "language" */
    const char *target; /* columns "a,b" of a table, file of targets of arrays; NULL: none */
    const char *kind;   /* a short description; static */
    double validation;  /* fraction of the examples that is held back */
    int64_t context;    /* of texts: tokens */
    const char *order;  /* data.validation_order of tables and arrays; NULL: not written */
    bool latin1;        /* the table is Latin-1, not UTF-8 */
    bool no_header;     /* the table's first row is data */
    /* columns "a,b" that are inputs; file of test data; NULL: not given */
    const char *inputs, *test;
    const char
        *group; /* of a table the column, of recordings the part, that tells groups; or NULL */
    const char *types; /* lines of data.columns.types; NULL: none */
    /* for a folder of tables `path` points here: the pattern of their names */
    char files[CLI_PATH];
    bool joined;         /* a table of several files, FILE+FILE */
    bool rows;           /* each row is an example, also if the table looks like series */
    cli_text series;     /* a line of `data` for windows of rows; empty: rows are examples */
    cli_text split;      /* the line data.split; empty: none */
    char moments[256];   /* columns "a,b" that identify series, then the one of times */
    const char *exclude; /* columns that are no inputs, as a list in YAML; NULL: none */
    bool channels_last;  /* arrays [count, height, width, channels] */
    bool columns;        /* a table or arrays, which require `target` */
    bool language;       /* texts */
    /* --init: the model's path as given, and its settings that decide how texts are read; NULL:
     * none */
    const char *init;
    const dt_model_info *own;
    int64_t most_context; /* the model's largest context; 0: no language model */
    bool chats;           /* examples are chats; before the data are read: they may be */
    const char *form;     /* data.chat */
    bool images;          /* examples are images of bytes */
    bool tested;          /* the format has its own test data */
    bool sounds;          /* recordings */
    /* For recordings, set by new_sounds_measure: */
    char names[128];        /* data.file_names; "": folders are classes */
    int64_t window, stride; /* data.window; 0: all recordings have the same length */
    int64_t groups;         /* groups in the names; 0: none */
    bool features;          /* mfcc */
    cli_text about[2];      /* sentences about names and lengths */
} new_data;

/* Measures recordings. Their lengths decide window and features; if they are in one folder, their
 * names give classes and groups. */
int new_sounds_measure(const cli_args *args, dt_ctx *ctx, new_data *d);
/* The i-th pattern, such as "*.wav", that matches recordings in the folder; NULL past the last. */
const char *new_data_sounds(const new_data *d, int i);

/* Recognizes the data at d->path; sets kind, columns, language, images, sounds and tested. False:
 * unknown. */
bool new_data_find(new_data *d);
/* Adds a description of what an unknown path holds, for a message. */
void new_data_holds(const char *path, cli_text *out);

/* Whether d->path is a table. */
bool new_data_is_table(const new_data *d);

/* The decisions about the columns of a table (new_columns.c). */
typedef struct new_columns {
    const char *ignore;  /* columns "a,b" to leave out, or NULL */
    const char *unknown; /* where `ignore` names a column that does not exist; else NULL */
    cli_text types;      /* lines of data.columns.types */
    cli_table table;     /* the decisions as a table to print; the caller frees it */
    int64_t groups;      /* number of different values of the column d->group; 0: no such column */
    bool in_time;        /* a column has times that never decrease */
    int64_t rows, kept;  /* rows of the table; columns that are inputs */
} new_columns;

/* Finds out whether a table consists of series, one row for each moment; if so, sets series, split,
 * moments and a sentence about them (new_series.c). */
void new_series_find(const dt_table_look *look, new_data *d);

/* Decides about all columns from all rows. Errors: those of dt_table_look_at. */
dt_status new_columns_decide(dt_ctx *ctx, new_data *d, new_columns *c);
/* Marks a column in the table as left out. */
void new_columns_drop(new_columns *c, const char *name);

/* Splits a table by the values of a column; with at least NEW_GROUPS, some are held back as test
 * data. Sets split and the sentence about it. */
void new_data_split(new_data *d, const char *column, int64_t values);

/* Whether `name` is in a list "a,b". */
bool new_columns_has(const char *list, const char *name);

/* Writes the block `data`. */
void new_data_block(const new_data *d, cli_text *out);

/* Lists what is found but not read: endings of recordings (".mp3, .m4a"), folders beside train/
 * ("val"). */
void new_data_unread(const new_data *d, cli_text *out);

/* Writes the block `model`: a small network for the examples of `train`. */
void new_model_block(const new_data *d, const dt_dataset *train, cli_text *out);

/* The optimizer's weight_decay: larger for tables than for signals and images, largest for small
 * ones. */
const char *new_weight_decay(const dt_dataset *train);

/* The task that fits numeric targets, as in `data.task`; adds a sentence about `name` that says
 * why. */
const char *new_data_task(const dt_target_look *look, int64_t rows, const char *name,
                          cli_text *why);

/* The validation fraction of n examples, at least one for each class; 0: none. */
double new_data_share(int64_t n, int64_t classes);

/* Adds n bytes of text as a YAML string in quotes. */
void new_data_quote(cli_text *out, const char *text, size_t n);
/* Writes a pattern for glob(3) in a folder, whose own name is escaped; false: it is too long. */
bool new_data_pattern(const char *folder, const char *pattern, char path[CLI_PATH]);

#endif
