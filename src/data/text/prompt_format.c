/* Prompt formats. A format is scanned piece by piece: text, a doubled brace, or a field. */
#include "data/text/prompt_format.h"

#include <detent/experimental/text.h>
#include <string.h>

/* Scans the piece at `at`, and returns its end; NULL: wrong braces. */
static const char *scan(const char *at, dt__run_of_text *piece, bool *is_field)
{
    *is_field = false;
    *piece = (dt__run_of_text){ at, 1 };
    if ((at[0] == '{' || at[0] == '}') && at[1] == at[0]) return at + 2;
    if (at[0] == '}') return NULL;
    if (at[0] != '{') {
        piece->n = strcspn(at, "{}");
        return at + piece->n;
    }
    *is_field = true;
    *piece = (dt__run_of_text){ at + 1, strcspn(at + 1, "{}") };
    const char *end = at + 1 + piece->n;
    return piece->n > 0 && *end == '}' ? end + 1 : NULL;
}

/* The index of a field; -1: none. */
static int field_find(const dt__fields *fields, const char *name, size_t n)
{
    for (int i = 0; i < fields->n; i++) {
        if (fields->name[i].n == n && memcmp(fields->name[i].bytes, name, n) == 0) return i;
    }
    return -1;
}

static dt_status add_field(dt_ctx *ctx, const dt__run_of_text *name, dt__fields *fields)
{
    if (field_find(fields, name->bytes, name->n) >= 0) return DT_OK;
    if (fields->n == DT__MOST_FIELDS) {
        return dt_fail(ctx, DT_ERR_CONFIG, "more than %d fields", DT__MOST_FIELDS);
    }
    fields->name[fields->n++] = *name;
    return DT_OK;
}

dt_status dt__format_fields(dt_ctx *ctx, const char *format, dt__fields *fields)
{
    bool is_field, any = false;
    dt__run_of_text piece;
    for (const char *at = format, *next; *at != 0; at = next) {
        next = scan(at, &piece, &is_field);
        if (next == NULL) {
            return dt_fail(ctx, DT_ERR_CONFIG,
                           "the brace at byte %lld begins or ends no field, such as {prompt}; a "
                           "brace of the text is written twice",
                           (long long)(at - format));
        }
        if (is_field) DT__TRY(add_field(ctx, &piece, fields));
        any |= is_field;
    }
    if (any) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG, "it has no field in braces, such as {prompt}");
}

void dt__format_put(const char *format, const dt__fields *fields, const dt__run_of_text *value,
                    dt__chars *to)
{
    bool is_field;
    dt__run_of_text piece;
    for (const char *at = format; *at != 0;) {
        at = scan(at, &piece, &is_field);
        if (is_field) piece = value[field_find(fields, piece.bytes, piece.n)];
        dt__put(to, piece.bytes, piece.n);
    }
}

bool dt__format_is_empty(const char *format, const dt__fields *fields, const dt__run_of_text *value)
{
    bool is_field, empty = true;
    dt__run_of_text piece;
    for (const char *at = format; *at != 0 && empty;) {
        at = scan(at, &piece, &is_field);
        empty = !is_field || value[field_find(fields, piece.bytes, piece.n)].n == 0;
    }
    return empty;
}

static dt_status read_member(dt__json *j, const dt__fields *fields, dt__run_of_text *value,
                             int *given)
{
    const char *name;
    DT__TRY(dt__json_key(j, &name));
    const int i = field_find(fields, name, strlen(name));
    if (i < 0) return dt__json_skip(j);
    if (value[i].bytes != NULL) return dt__json_fail(j, "\"%s\" occurs twice", name);
    ++*given;
    return dt__json_bytes(j, &value[i].bytes, &value[i].n);
}

dt_status dt__fields_read(dt__json *j, const dt__fields *fields, dt__run_of_text *value, int *given)
{
    for (int i = 0; i < fields->n; i++) value[i] = (dt__run_of_text){ NULL, 0 };
    *given = 0;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        DT__TRY(read_member(j, fields, value, given));
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

/* Reads the values of several fields from the JSON object `text`. */
static dt_status read_values(dt_ctx *ctx, const dt__fields *fields, const dt__run_of_text *text,
                             char *strings, dt__run_of_text *value)
{
    int given;
    const unsigned char *begin = (const unsigned char *)text->bytes;
    dt__json j = { .ctx = ctx,
                   .path = "prompt",
                   .what = "an object with the fields of the prompt's format",
                   .begin = begin,
                   .at = begin,
                   .end = begin + text->n,
                   .strings = strings };
    DT__TRY(dt__fields_read(&j, fields, value, &given));
    for (int i = 0; i < fields->n; i++) {
        if (value[i].bytes != NULL) continue;
        return dt__json_fail(&j, "there is no \"%.*s\"", (int)fields->name[i].n,
                             fields->name[i].bytes);
    }
    return DT_OK;
}

dt_status dt_prompt_fill(dt_ctx *ctx, const char *format, const char *text, size_t bytes,
                         dt_sink sink, void *user)
{
    DT__NEED4(ctx, ctx, format, text, sink);
    dt__fields fields = { 0 };
    dt__run_of_text value[DT__MOST_FIELDS] = { { text, bytes } };
    dt__chars out = { .ctx = ctx };
    DT__TRY(dt__format_fields(ctx, format, &fields));
    char *strings = fields.n > 1 ? dt__alloc(ctx, bytes + 1) : NULL;
    dt_status s = fields.n > 1 && strings == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK && fields.n > 1) s = read_values(ctx, &fields, &value[0], strings, value);
    if (s == DT_OK) dt__format_put(format, &fields, value, &out);
    if (s == DT_OK) s = out.failed ? DT_ERR_NOMEM : sink(user, out.bytes, out.used);
    DT__RELEASE(ctx, out.bytes, strings);
    return s;
}
