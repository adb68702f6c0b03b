/* Data of one's own, as `detent new` finds them: what a path holds, and the blocks `data` and
 * `model` of a recipe for them. */
#ifndef NEW_DATA_H
#define NEW_DATA_H

#include "cli.h"
#include "text.h"

typedef struct new_data {
    const char *path;   /* a folder, a file, or the name of drawn data */
    const char *task;   /* as `data.task`, or "language" */
    const char *target; /* of .csv columns "a,b", of arrays the file of targets; NULL: none */
    const char *kind;   /* a short text about what was found; static */
    bool columns;       /* a table, which needs `target` */
    bool language;      /* texts */
    bool images;        /* examples are images of bytes */
    bool tested;        /* the format has test data of its own */
} new_data;

/* Finds out what d->path is; sets kind, columns, language, images and tested. False: nothing that
 * is known. */
bool new_data_find(new_data *d);

/* The block `data` for it. */
void new_data_block(const new_data *d, cli_text *out);

/* The block `model`: a small network for the examples of `train`. */
void new_model_block(const new_data *d, const dt_dataset *train, cli_text *out);

/* Adds n bytes of text as a YAML string in quotes. */
void new_data_quote(cli_text *out, const char *text, size_t n);

#endif
