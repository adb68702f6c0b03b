/* Data of one's own, as `detent new` finds them: what a path holds, and the blocks `data` and
 * `model` of a recipe for them. */
#ifndef NEW_DATA_H
#define NEW_DATA_H

#include "cli/cli.h"
#include "cli/print/text.h"

#include <detent/experimental/tables.h>
#include <detent/io.h>

#define NEW_GROUPS 5    /* from which on some are held back to test */
#define NEW_SHORTEST 16 /* rows of a window */

typedef struct new_data {
    const char *path;   /* a folder, a file, or the name of drawn data */
    const char *task;   /* as `data.task`, or "language" */
    const char *target; /* of .csv columns "a,b", of arrays the file of targets; NULL: none */
    const char *kind;   /* a short text about what was found; static */
    double validation;  /* share of the examples that is held back */
    int64_t context;    /* of texts: tokens */
    const char *order;  /* data.validation_order of tables and arrays; NULL: not written */
    bool latin1;        /* of a table: it is not UTF-8 */
    bool no_header;     /* of a table: its first row is data */
    const char *inputs, *test; /* columns "a,b" that are inputs; a file of test data; or NULL */
    const char
        *group; /* of a table the column, of recordings the part, that tells groups; or NULL */
    const char *types;    /* lines of data.columns.types; NULL: none */
    char files[CLI_PATH]; /* of a folder of tables the pattern of their names, `path` then */
    bool joined;          /* a table of several files, FILE+FILE */
    bool rows;            /* a row is an example, whatever the table looks like */
    cli_text series;      /* a line of `data` for windows of rows; empty: rows are examples */
    cli_text split;       /* the line data.split; empty: none */
    char moments[256];    /* columns "a,b" that tell series apart, then the one of times */
    const char *exclude;  /* columns of a table that are no inputs, as a list of YAML; NULL: none */
    bool channels_last;   /* arrays [count, height, width, channels] */
    bool columns;         /* a table or arrays, which need `target` */
    bool language;        /* texts */
    /* --init: the model's path as given, and what of it decides how texts are read; NULL: none */
    const char *init;
    const dt_model_info *own;
    int64_t most_context; /* tokens that it takes; 0: no language model */
    bool chats;           /* lines of messages; before they are read: lines that may be such */
    const char *form;     /* data.chat of these */
    bool images;          /* examples are images of bytes */
    bool tested;          /* the format has test data of its own */
    bool sounds;          /* recordings */
    /* Of recordings, as new_sounds_measure finds them: */
    char names[128];        /* data.file_names; "": folders are classes */
    int64_t window, stride; /* data.window; 0: all have one length */
    int64_t groups;         /* that names tell; 0: they do not */
    bool features;          /* mfcc */
    cli_text about[2];      /* sentences about names and lengths */
} new_data;

/* Measures recordings: their lengths decide window and features, the names of those that lie in one
 * folder their classes and groups. */
int new_sounds_measure(const cli_args *args, dt_ctx *ctx, new_data *d);
/* The folder's i-th pattern of recordings that match, such as "*.wav"; NULL past the last. */
const char *new_data_sounds(const new_data *d, int i);

/* Finds out what d->path is; sets kind, columns, language, images, sounds and tested. False:
 * nothing that is known. */
bool new_data_find(new_data *d);
/* Adds what a path holds, of which nothing is known, for a message. */
void new_data_holds(const char *path, cli_text *out);

/* Whether d->path is a table. */
bool new_data_is_table(const new_data *d);

/* What is decided of the columns of a table (new_columns.c). */
typedef struct new_columns {
    const char *ignore;  /* columns "a,b" to leave out, or NULL */
    const char *unknown; /* where `ignore` names a column that is not there; else NULL */
    cli_text types;      /* lines of data.columns.types */
    cli_table table;     /* the same for people; the caller frees it */
    int64_t groups;      /* different values of the column d->group; 0: it is not there */
    bool in_time;        /* a column has times that never fall */
    int64_t rows, kept;  /* of the table; columns that are inputs */
} new_columns;

/* Whether a table has a row for each moment of series: then sets series, split, moments and a
 * sentence about them (new_series.c). */
void new_series_find(const dt_table_look *look, new_data *d);

/* Decides from the texts of all rows. Errors of dt_table_look_at. */
dt_status new_columns_decide(dt_ctx *ctx, new_data *d, new_columns *c);
/* Says in the table that a column is not an input. */
void new_columns_drop(new_columns *c, const char *name);

/* Divides a table by the values of a column; from NEW_GROUPS on, some are held back to test. Sets
 * split and the sentence about it. */
void new_data_split(new_data *d, const char *column, int64_t values);

/* Whether `name` is in a list "a,b". */
bool new_columns_has(const char *list, const char *name);

/* The block `data` for it. */
void new_data_block(const new_data *d, cli_text *out);

/* What is there and not read: endings of recordings (".mp3, .m4a"), folders beside train/ ("val");
 * else nothing. */
void new_data_unread(const new_data *d, cli_text *out);

/* The block `model`: a small network for the examples of `train`. */
void new_model_block(const new_data *d, const dt_dataset *train, cli_text *out);

/* The optimizer's weight_decay: tables take more of it than signals and images, small ones most. */
const char *new_weight_decay(const dt_dataset *train);

/* Which task fits numbers to predict, as `data.task`, and why: a sentence about `name`. */
const char *new_data_task(const dt_target_look *look, int64_t rows, const char *name,
                          cli_text *why);

/* The share of n examples that is held back, so that `classes` may have one each; 0: none. */
double new_data_share(int64_t n, int64_t classes);

/* Adds n bytes of text as a YAML string in quotes. */
void new_data_quote(cli_text *out, const char *text, size_t n);
/* A pattern for glob(3) in a folder, whose own name stands for itself; false: it is too long. */
bool new_data_pattern(const char *folder, const char *pattern, char path[CLI_PATH]);

#endif
