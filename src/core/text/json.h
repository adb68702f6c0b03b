/* JSON: a scanner, a writer, and reading and writing of option structs by their tables of keys. */
#ifndef DT__CORE_JSON_H
#define DT__CORE_JSON_H

#include "core/core.h"

/* ---- reading ------------------------------------------------------------------------------ */

/* A scanner over JSON text. Decoded strings are written to `strings`, which must have as many bytes
 * as the text: a decoded string with its NUL is shorter than its quoted form. */
typedef struct dt__json {
    dt_ctx *ctx;
    const char *path;   /* of the file, for messages */
    const char *what;   /* which part of the file, for messages: "the header", "detent.model" */
    const char *within; /* the tensor that is being read, for messages; NULL: none */
    const unsigned char *begin, *at, *end;
    char *strings;
    void **blocks; /* memory for items of options (core/block_list.h); NULL: options without any */
    int depth;     /* nesting depth of items */
    dt_status status; /* of the last dt__json_open or dt__json_more */
} dt__json;

/* FORMAT, with the file and the position in the text. */
dt_status dt__json_fail(const dt__json *j, const char *format, ...) DT_PRINTF(2, 3);
dt_status dt__json_expect(dt__json *j, char c);
/* Begins or continues a list or an object: skips `open` or, after an element, `,`. Returns whether
 * an element follows; else `close` is skipped, or j->status is an error:
 *     for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) ...
 *     DT__TRY(j->status); */
bool dt__json_open(dt__json *j, char open);
bool dt__json_more(dt__json *j, char close);
/* Succeeds if only white space is left. */
dt_status dt__json_end(dt__json *j);
/* A UTF-8 string without NUL. */
dt_status dt__json_string(dt__json *j, const char **out);
/* A string that may contain NUL: its bytes, UTF-8, followed by one NUL. */
dt_status dt__json_bytes(dt__json *j, const char **out, size_t *bytes);
/* The name of an object's field, and the colon. */
dt_status dt__json_key(dt__json *j, const char **out);
/* A nonnegative integer up to 2^63-1, digits only. */
dt_status dt__json_integer(dt__json *j, int64_t *out);
/* The text of a number, by JSON's grammar. */
#define DT__NUMBER_TEXT 48
dt_status dt__json_number(dt__json *j, char text[DT__NUMBER_TEXT]);
/* An integer of either sign. */
dt_status dt__json_signed(dt__json *j, int64_t *out);
dt_status dt__json_bool(dt__json *j, bool *out);
/* The next value, a list of finite numbers or of strings: out[*n] of double or const char *, which
 * live as long as *blocks (core/block_list.h). */
#define DT__JSON_LIST 65536
dt_status dt__json_values(dt__json *j, void **blocks, bool strings, int64_t *n, const void **out);
/* Skips null if it comes next; returns whether it did. */
bool dt__json_null(dt__json *j);
/* The first character of the next value, which determines its type; 0 at the end. */
char dt__json_peek(dt__json *j);
/* Skips a value of any type; j->strings stays unchanged. */
#define DT__JSON_DEPTH 64
dt_status dt__json_skip(dt__json *j);

/* ---- writing ------------------------------------------------------------------------------ */

/* A growing text. After a failed allocation it no longer changes, and `failed` is set. */
typedef struct dt__chars {
    dt_ctx *ctx;
    char *bytes; /* to be freed with dt__release */
    size_t used, capacity;
    bool failed;
    /* how dt__put_value writes strings, with blanks after `,` and `:`; NULL: JSON without blanks */
    void (*word)(struct dt__chars *t, const char *text);
} dt__chars;

void dt__put(dt__chars *t, const char *bytes, size_t n);
void dt__put_text(dt__chars *t, const char *text);
void dt__put_quoted(dt__chars *t, const char *text);
void dt__put_quoted_bytes(dt__chars *t, const char *text, size_t bytes); /* UTF-8; NUL is allowed */
void dt__put_integer(dt__chars *t, int64_t value);
void dt__put_real(dt__chars *t, double value); /* finite */
/* In an object that already has a field: writes `, "name": value`, or null if the value is not
 * finite. */
void dt__put_field(dt__chars *t, const char *name, double value);
/* The dt_write function of a dt__chars. NOMEM. */
dt_status dt__collect(void *chars, const char *text, size_t bytes);
/* Writes `,` unless *first is set; *first is true before the first element of a list or object. */
void dt__put_comma(dt__chars *t, bool *first);
/* Whether there is an element i of n; writes the `,` before it. For loops over elements. */
bool dt__put_each(dt__chars *t, int64_t i, int64_t n);
/* A piece of text: a string as it is, a string to be quoted, or a number. */
typedef struct dt__fragment {
    const char *text, *quoted; /* NULL: not of this type */
    bool is_real;
    int64_t integer;
    double real;
} dt__fragment;

#define DT__QUOTED(t) ((dt__fragment){ .quoted = (t) })
/* Writes up to eight fragments one after the other: texts, numbers and DT__QUOTED(text). */
#define DT__PUT_ALL(t, ...)                                                                        \
    dt__put_fragments(t, DT__COUNT_OF(((dt__fragment[]){ DT__FRAGMENTS(__VA_ARGS__) })),           \
                      (dt__fragment[]){ DT__FRAGMENTS(__VA_ARGS__) })
void dt__put_fragments(dt__chars *t, int n, const dt__fragment *all);

static inline dt__fragment dt__fragment_text(const char *text)
{
    return (dt__fragment){ .text = text };
}
static inline dt__fragment dt__fragment_integer(int64_t n)
{
    return (dt__fragment){ .integer = n };
}
static inline dt__fragment dt__fragment_real(double x)
{
    return (dt__fragment){ .is_real = true, .real = x };
}
static inline dt__fragment dt__fragment_own(dt__fragment p) { return p; }
/* clang-format off */
#define DT__FRAGMENT(x)                                                                            \
    _Generic((x), char *: dt__fragment_text, const char *: dt__fragment_text,                      \
             double: dt__fragment_real, dt__fragment: dt__fragment_own,                            \
             default: dt__fragment_integer)(x)
#define DT__FRAGMENTS(...)                                                                         \
    DT__FRAGMENTS_BY(__VA_ARGS__, DT__P8, DT__P7, DT__P6, DT__P5, DT__P4, DT__P3, DT__P2, DT__P1,  \
                     0)(__VA_ARGS__)
#define DT__FRAGMENTS_BY(a, b, c, d, e, f, g, h, by, ...) by
#define DT__P1(a) DT__FRAGMENT(a)
#define DT__P2(a, ...) DT__FRAGMENT(a), DT__P1(__VA_ARGS__)
#define DT__P3(a, ...) DT__FRAGMENT(a), DT__P2(__VA_ARGS__)
#define DT__P4(a, ...) DT__FRAGMENT(a), DT__P3(__VA_ARGS__)
#define DT__P5(a, ...) DT__FRAGMENT(a), DT__P4(__VA_ARGS__)
#define DT__P6(a, ...) DT__FRAGMENT(a), DT__P5(__VA_ARGS__)
#define DT__P7(a, ...) DT__FRAGMENT(a), DT__P6(__VA_ARGS__)
#define DT__P8(a, ...) DT__FRAGMENT(a), DT__P7(__VA_ARGS__)
/* clang-format on */

/* Appends a NUL. Returns the text, or NULL with NOMEM. */
const char *dt__chars_text(dt__chars *t);

/* ---- options ------------------------------------------------------------------------------ */

/* Writes the options as one object: all keys of the table, except those whose `given` flag is
 * false. */
void dt__put_options(dt__chars *t, const dt_key *keys, const void *options);
/* Writes the value of one key of options. */
void dt__put_value(dt__chars *t, const dt_key *key, const void *options);
/* Reads such an object. FORMAT if a key is unknown, missing or repeated, or a value has the wrong
 * type or range. Strings live as long as j->strings, items as long as *j->blocks. In items, keys
 * with a default may be missing. */
dt_status dt__json_options(dt__json *j, const dt_key *keys, void *options);
/* The same, but keys may be missing, whose fields keep their values: for files that were written
 * before the keys existed. */
dt_status dt__json_given_options(dt__json *j, const dt_key *keys, void *options);
/* Sets every field with a default to it, and clears all other fields. */
dt_status dt__default_options(dt_ctx *ctx, const dt_key *keys, void *options, size_t size);
/* The current name of a choice; `text` may be a former name. */
const char *dt__choice_now(const dt_key *key, const char *text);
/* Reads the value of one key into its field. FORMAT if it has the wrong type or range. */
dt_status dt__json_value(dt__json *j, const dt_key *key, void *options);

/* ---- messages ------------------------------------------------------------------------------- */

#define DT__SHOWN 96
/* Copies a name from a file for use in a message: cleaned (dt_text_clean), and cut if it is long.
 * Returns text. */
const char *dt__shown(const char *name, char text[DT__SHOWN]);

#endif
