/* Texts that are still text: files, or lines of JSON. */
#ifndef DT__DATA_DOCUMENTS_H
#define DT__DATA_DOCUMENTS_H

#include "core/json.h"

typedef struct dt__document {
    size_t begin, end; /* in `text` of all */
} dt__document;

/* Documents one behind the other. Of pairs, prompt and completion are two of them. */
typedef struct dt__documents {
    dt_ctx *ctx;
    dt__chars text;
    dt__document *at;
    int64_t n, room;
    bool pairs;
} dt__documents;

void dt__documents_free(dt__documents *c);

/* Appends a file, plain or gzip, as one document. Errors, naming it: IO, FORMAT (damaged gzip),
 * NOMEM. */
dt_status dt__documents_add_text(dt__documents *c, const char *path);

/* Appends the lines of such a file: JSON objects with "text", or with "prompt" and "completion",
 * all alike; other members and empty lines are passed over. Errors: those above; FORMAT, with the
 * line: no such object. */
dt_status dt__documents_add_lines(dt__documents *c, const char *path);

/* Where the text of a document is no UTF-8: its byte, counted from 0; -1: it is. *number is that of
 * its line, from 1. */
int64_t dt__documents_find_bad(const dt__documents *c, int64_t document, int64_t *number);

/* Cuts a document in two at byte `at` of all text, or between two characters after it. Errors:
 * NOMEM. */
dt_status dt__documents_cut(dt__documents *c, int64_t document, size_t at);

#endif
