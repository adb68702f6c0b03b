/* JSON as files hold it: a scanner, a writer, and options by their tables of keys. */
#ifndef DT__CORE_JSON_H
#define DT__CORE_JSON_H

#include "core/core.h"

/* ---- reading ------------------------------------------------------------------------------ */

/* A scanner over JSON text. Decoded strings go to `strings`, which must have room for as many bytes
 * as the text: a string and its end are shorter than their quoted form. */
typedef struct dt__json {
    dt_ctx *ctx;
    const char *path;   /* for messages */
    const char *what;   /* of the file: "the header", "detent.model" */
    const char *within; /* the tensor that is being read, for messages; NULL outside */
    const unsigned char *begin, *at, *end;
    char *strings;
} dt__json;

/* FORMAT, with the file and the place in the text. */
dt_status dt__json_fail(const dt__json *j, const char *format, ...) DT_PRINTF(2, 3);
/* Steps over white space and, if it comes next, over `c`. */
bool dt__json_next(dt__json *j, char c);
dt_status dt__json_expect(dt__json *j, char c);
/* After one element of a list: steps over `,` and sets *more, or over `close`. */
dt_status dt__json_more(dt__json *j, char close, bool *more);
/* Only white space may be left. */
dt_status dt__json_end(dt__json *j);
/* A string without NUL, in UTF-8. */
dt_status dt__json_string(dt__json *j, const char **out);
/* A string that may hold NUL: its bytes, UTF-8, and one NUL behind them. */
dt_status dt__json_bytes(dt__json *j, const char **out, size_t *bytes);
/* The name of an object's member, and the colon. */
dt_status dt__json_key(dt__json *j, const char **out);
/* An integer of 0...2^63-1, written with digits alone. */
dt_status dt__json_integer(dt__json *j, int64_t *out);
/* A number's own text, by JSON's grammar. */
#define DT__NUMBER_TEXT 48
dt_status dt__json_number(dt__json *j, char text[DT__NUMBER_TEXT]);
/* An integer that may be negative; a number as a double. */
dt_status dt__json_signed(dt__json *j, int64_t *out);
dt_status dt__json_real(dt__json *j, double *out);
dt_status dt__json_bool(dt__json *j, bool *out);
/* Steps over null if it comes next. */
bool dt__json_null(dt__json *j);
/* The first character of what comes next, which says its kind; 0 at the end. */
char dt__json_peek(dt__json *j);
/* Steps over a value of any kind; j->strings stay as they are. */
#define DT__JSON_DEPTH 64
dt_status dt__json_skip(dt__json *j);

/* ---- writing ------------------------------------------------------------------------------ */

/* A text that grows; after a failure it stays as it is, and `failed` says that memory ran out. */
typedef struct dt__chars {
    dt_ctx *ctx;
    char *bytes; /* to be released */
    size_t used, capacity;
    bool failed;
} dt__chars;

void dt__put(dt__chars *t, const char *bytes, size_t n);
void dt__put_text(dt__chars *t, const char *text);
void dt__put_quoted(dt__chars *t, const char *text);
void dt__put_quoted_bytes(dt__chars *t, const char *text, size_t bytes); /* UTF-8; NUL is allowed */
void dt__put_integer(dt__chars *t, int64_t value);
void dt__put_real(dt__chars *t, double value); /* finite */
/* `,` unless it is the first of a list or object, of which *first is the flag. */
void dt__put_comma(dt__chars *t, bool *first);
/* Ends the text with a NUL. Returns it, or NULL with NOMEM. */
const char *dt__chars_text(dt__chars *t);

/* ---- options ------------------------------------------------------------------------------ */

/* One object, { key: value, ... }: every key of the table that has no `given` flag, the others
 * where it is set. */
void dt__put_options(dt__chars *t, const dt_key *keys, const void *options);
/* Reads it back. FORMAT where a key is unknown, missing or doubled, where a type is wrong or a
 * value out of its range. Strings live as long as j->strings. */
dt_status dt__json_options(dt__json *j, const dt_key *keys, void *options);
/* The name of a choice, or the new name where `text` is an old one. */
const char *dt__choice_now(const dt_key *key, const char *text);
/* The value of one key, into its field. FORMAT where it is of another type or out of its range. */
dt_status dt__json_value(dt__json *j, const dt_key *key, void *options);

/* ---- messages ------------------------------------------------------------------------------- */

#define DT__SHOWN 96
/* A name from a file, fit for a message: no control characters, cut where long. Returns text. */
const char *dt__shown(const char *name, char text[DT__SHOWN]);

#endif
