/* Reads text files and JSON lines [jsonlines.org]: one JSON value per line, UTF-8. */
#include "data/documents.h"

#include "core/utf8.h"
#include "data/input.h"

#include <stdio.h>
#include <string.h>

#define CHUNK ((size_t)1 << 16)

void dt__documents_free(dt__documents *c)
{
    dt__release(c->ctx, c->text.bytes);
    dt__release(c->ctx, c->at);
    *c = (dt__documents){ .ctx = c->ctx };
}

static dt_status add(dt__documents *c, size_t begin)
{
    if (c->text.failed) return DT_ERR_NOMEM;
    DT__TRY(DT__RESERVE(c->ctx, c->at, c->n, c->room));
    c->at[c->n++] = (dt__document){ begin, c->text.used };
    return DT_OK;
}

/* ---- files -------------------------------------------------------------------------------- */

static dt_status copy(dt__input *in, uint8_t *chunk, dt__chars *to)
{
    size_t got = CHUNK;
    while (got == CHUNK) {
        DT__TRY(dt__input_read(in, chunk, CHUNK, &got));
        dt__put(to, (const char *)chunk, got);
        if (to->failed) return DT_ERR_NOMEM;
    }
    return DT_OK;
}

/* Appends a whole file to a text. */
static dt_status read_all(dt_ctx *ctx, const char *path, dt__chars *to)
{
    dt__input in;
    dt_status status = dt__input_open(ctx, path, &in);
    uint8_t *chunk = status == DT_OK ? dt__alloc(ctx, CHUNK) : NULL;
    if (status == DT_OK) status = chunk == NULL ? DT_ERR_NOMEM : copy(&in, chunk, to);
    dt__release(ctx, chunk);
    dt__input_close(&in);
    return status;
}

dt_status dt__documents_add_text(dt__documents *c, const char *path)
{
    const size_t begin = c->text.used;
    c->text.ctx = c->ctx;
    DT__TRY(read_all(c->ctx, path, &c->text));
    return add(c, begin);
}

/* ---- lines of JSON ------------------------------------------------------------------------ */

enum { TEXT, PROMPT, COMPLETION, FIELDS };

static const char *const names[] = { "text", "prompt", "completion" };

typedef struct line {
    const char *bytes[FIELDS]; /* NULL: it has no such field */
    size_t n[FIELDS];
} line;

static dt_status read_member(dt__json *j, line *l)
{
    const char *name;
    int i = 0;
    DT__TRY(dt__json_key(j, &name));
    while (i < FIELDS && strcmp(name, names[i]) != 0) i++;
    if (i == FIELDS) return dt__json_skip(j);
    if (l->bytes[i] != NULL) return dt__json_fail(j, "\"%s\" occurs twice", name);
    return dt__json_bytes(j, &l->bytes[i], &l->n[i]);
}

static dt_status read_line(dt__json *j, line *l)
{
    bool more = true;
    DT__TRY(dt__json_expect(j, '{'));
    if (dt__json_next(j, '}')) more = false;
    while (more) {
        DT__TRY(read_member(j, l));
        DT__TRY(dt__json_more(j, '}', &more));
    }
    DT__TRY(dt__json_end(j));
    const bool pair = l->bytes[PROMPT] != NULL && l->bytes[COMPLETION] != NULL;
    const bool any = l->bytes[PROMPT] != NULL || l->bytes[COMPLETION] != NULL;
    if (pair ? l->bytes[TEXT] == NULL : l->bytes[TEXT] != NULL && !any) return DT_OK;
    return dt__json_fail(j, "\"text\", or \"prompt\" and \"completion\", must be there");
}

static dt_status add_line(dt__documents *c, dt__json *j)
{
    line l = { { NULL }, { 0 } };
    DT__TRY(read_line(j, &l));
    const bool pairs = l.bytes[PROMPT] != NULL;
    if (c->n > 0 && pairs != c->pairs) {
        return dt__json_fail(j, "a line with \"%s\" behind such with \"%s\"; one kind is wanted",
                             names[pairs ? PROMPT : TEXT], names[pairs ? TEXT : PROMPT]);
    }
    c->pairs = pairs;
    for (int i = 0; i < FIELDS; i++) {
        if (l.bytes[i] == NULL) continue;
        const size_t begin = c->text.used;
        dt__put(&c->text, l.bytes[i], l.n[i]);
        DT__TRY(add(c, begin));
    }
    return DT_OK;
}

static bool is_blank(const unsigned char *p, const unsigned char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
    return p == end;
}

static dt_status add_lines(dt__documents *c, const char *path, const dt__chars *file, char *strings)
{
    if (file->used == 0) return DT_OK; /* then its bytes are NULL */
    const unsigned char *at = (const unsigned char *)file->bytes, *const end = at + file->used;
    char what[32];
    for (int64_t number = 1; at < end; number++) {
        const unsigned char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        snprintf(what, sizeof what, "line %lld", (long long)number);
        dt__json j = { .ctx = c->ctx,
                       .path = path,
                       .what = what,
                       .begin = at,
                       .at = at,
                       .end = stop,
                       .strings = strings };
        if (!is_blank(at, stop)) DT__TRY(add_line(c, &j));
        at = stop < end ? stop + 1 : end;
    }
    return DT_OK;
}

dt_status dt__documents_add_lines(dt__documents *c, const char *path)
{
    dt__chars file = { .ctx = c->ctx };
    c->text.ctx = c->ctx;
    dt_status status = read_all(c->ctx, path, &file);
    char *strings = status == DT_OK ? dt__alloc(c->ctx, file.used + 1) : NULL;
    if (status == DT_OK) {
        status = strings == NULL ? DT_ERR_NOMEM : add_lines(c, path, &file, strings);
    }
    dt__release(c->ctx, strings);
    dt__release(c->ctx, file.bytes);
    return status;
}

/* ---- characters --------------------------------------------------------------------------- */

int64_t dt__documents_find_bad(const dt__documents *c, int64_t document, int64_t *number)
{
    const dt__document *d = &c->at[document];
    const unsigned char *begin = (const unsigned char *)c->text.bytes + d->begin, *p = begin;
    const unsigned char *const end = begin + (d->end - d->begin);
    *number = 1;
    while (p < end) {
        const int n = dt__utf8_length(p, end);
        if (n == 0) return p - begin;
        *number += *p == '\n';
        p += n;
    }
    return -1;
}

dt_status dt__documents_cut(dt__documents *c, int64_t document, size_t at)
{
    const dt__document whole = c->at[document];
    while (at < whole.end && ((unsigned char)c->text.bytes[at] & 0xC0) == 0x80) at++;
    DT__TRY(DT__RESERVE(c->ctx, c->at, c->n, c->room));
    memmove(c->at + document + 1, c->at + document, (size_t)(c->n - document) * sizeof *c->at);
    c->n++;
    c->at[document].end = c->at[document + 1].begin = at;
    return DT_OK;
}
