/* Reads text files and JSON lines [jsonlines.org]: one JSON value per line, UTF-8. */
#include "data/text/documents.h"

#include "core/text/byte_mark.h"
#include "core/text/utf8.h"
#include "data/input.h"

#include <stdio.h>
#include <string.h>

#define CHUNK ((size_t)1 << 16)

void dt__documents_free(dt__documents *c)
{
    DT__RELEASE(c->ctx, c->text.bytes, c->at, c->turn);
    *c = (dt__documents){ .ctx = c->ctx };
}

static dt_status add(dt__documents *c, size_t begin)
{
    if (c->text.failed) return DT_ERR_NOMEM;
    DT__TRY(DT__RESERVE(c->ctx, c->at, c->n, c->room));
    c->at[c->n++] = (dt__document){ .begin = begin, .end = c->text.used };
    return DT_OK;
}

/* Skips a byte order mark, which is not part of the text. */
static dt_status copy(dt__input *in, uint8_t *chunk, dt__chars *to)
{
    size_t got, mark;
    DT__TRY(dt__input_read(in, chunk, CHUNK, &got));
    DT__TRY(dt__skip_mark(in->ctx, in->path, chunk, got, &mark));
    dt__put(to, (const char *)chunk + mark, got - mark);
    while (got == CHUNK && !to->failed) {
        DT__TRY(dt__input_read(in, chunk, CHUNK, &got));
        dt__put(to, (const char *)chunk, got);
    }
    return to->failed ? DT_ERR_NOMEM : DT_OK;
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

static const char *const line_fields[DT__LINE_FIELDS] = {
    [DT__LINE_TEXT] = "text",
    [DT__LINE_PROMPT] = "prompt",
    [DT__LINE_COMPLETION] = "completion",
    [DT__LINE_MESSAGES] = "messages",
    [DT__LINE_CONVERSATIONS] = "conversations",
    [DT__LINE_INSTRUCTION] = "instruction",
    [DT__LINE_INPUT] = "input",
    [DT__LINE_OUTPUT] = "output",
    [DT__LINE_SYSTEM] = "system",
    [DT__LINE_TOOLS] = "tools",
    [DT__LINE_FUNCTIONS] = "functions",
    [DT__LINE_HISTORY] = "history",
};

static dt_status format_fields(dt__documents *c, const char *key, const char *format)
{
    char words[DT__MESSAGE_SIZE / 2];
    const dt_status s = dt__format_fields(c->ctx, format, &c->fields);
    if (s != DT_ERR_CONFIG) return s;
    snprintf(words, sizeof words, "%s", dt_error(c->ctx));
    return dt_fail(c->ctx, s, "%s: %s", key, words);
}

dt_status dt__documents_format(dt__documents *c, const char *prompt, const char *completion)
{
    if (prompt == NULL && completion == NULL) return DT_OK;
    c->prompt = prompt != NULL ? prompt : "{prompt}";
    c->completion = completion != NULL ? completion : "{completion}";
    DT__TRY(format_fields(c, "data.prompt", c->prompt));
    return format_fields(c, "data.completion", c->completion);
}

/* Makes the string at `at` a document. */
static dt_status add_piece(dt__documents *c, dt__json *j, const unsigned char *at)
{
    const size_t begin = c->text.used;
    dt__run_of_text piece;
    j->at = at;
    DT__TRY(dt__json_bytes(j, &piece.bytes, &piece.n));
    dt__put(&c->text, piece.bytes, piece.n);
    return add(c, begin);
}

/* Finds a line's fields by name. */
static dt_status find_fields(dt__json *j, const unsigned char **where)
{
    for (int i = 0; i < DT__LINE_FIELDS; i++) where[i] = NULL;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &name));
        j->strings = strings;
        int i = 0;
        while (i < DT__LINE_FIELDS && strcmp(name, line_fields[i]) != 0) i++;
        if (i < DT__LINE_FIELDS && where[i] != NULL) {
            return dt__json_fail(j, "\"%s\" occurs twice", line_fields[i]);
        }
        if (i < DT__LINE_FIELDS) where[i] = j->at;
        DT__TRY(dt__json_skip(j));
    }
    DT__TRY(j->status);
    return dt__json_end(j);
}

static const char *kind_of(bool pairs, bool chats)
{
    return chats ? "messages" : pairs ? "prompt" : "text";
}

/* All lines of a file must be of the same kind. */
static dt_status set_kind(dt__documents *c, const dt__json *j, bool pairs, bool chats)
{
    if (c->n > 0 && (pairs != c->pairs || chats != c->chats)) {
        return dt__json_fail(j, "a line with \"%s\" behind such with \"%s\"; expected one kind",
                             kind_of(pairs, chats), kind_of(c->pairs, c->chats));
    }
    c->pairs = pairs;
    c->chats = chats;
    return DT_OK;
}

static dt_status add_plain(dt__documents *c, dt__json *j)
{
    const unsigned char *at[DT__LINE_FIELDS];
    DT__TRY(find_fields(j, at));
    const bool prompt = at[DT__LINE_PROMPT] != NULL, text = at[DT__LINE_TEXT] != NULL;
    const bool completion = at[DT__LINE_COMPLETION] != NULL, pair = prompt && completion;
    const bool listed = at[DT__LINE_MESSAGES] != NULL || at[DT__LINE_CONVERSATIONS] != NULL;
    const bool told = at[DT__LINE_INSTRUCTION] != NULL && at[DT__LINE_OUTPUT] != NULL;
    if (listed || (told && !text && !pair)) {
        const size_t begin = c->text.used;
        const int64_t turn = c->n_turns;
        DT__TRY(set_kind(c, j, false, true));
        DT__TRY(dt__documents_add_chat(c, j, at));
        DT__TRY(add(c, begin));
        c->at[c->n - 1].turn = turn;
        c->at[c->n - 1].n_turns = c->n_turns - turn;
        return DT_OK;
    }
    if (prompt != completion || prompt == text) {
        return dt__json_fail(j, "\"text\", or \"prompt\" and \"completion\", or \"messages\", or "
                                "\"conversations\", or \"instruction\" and \"output\", must be "
                                "there (fields of other names: data.prompt, data.completion)");
    }
    DT__TRY(set_kind(c, j, prompt, false));
    if (text) return add_piece(c, j, at[DT__LINE_TEXT]);
    DT__TRY(add_piece(c, j, at[DT__LINE_PROMPT]));
    return add_piece(c, j, at[DT__LINE_COMPLETION]);
}

/* Adds one of the two documents of a line. */
static dt_status add_formatted(dt__documents *c, const char *format, const dt__run_of_text *value)
{
    const size_t begin = c->text.used;
    dt__format_put(format, &c->fields, value, &c->text);
    return add(c, begin);
}

static dt_status add_pair(dt__documents *c, const dt__json *j, const dt__run_of_text *value)
{
    for (int i = 0; i < c->fields.n; i++) {
        if (value[i].bytes != NULL) continue;
        return dt__json_fail(j, "there is no \"%.*s\", a field of data.prompt or data.completion",
                             (int)c->fields.name[i].n, c->fields.name[i].bytes);
    }
    if (dt__format_is_empty(c->completion, &c->fields, value)) {
        return dt__json_fail(j, "the completion is empty");
    }
    c->pairs = true;
    DT__TRY(add_formatted(c, c->prompt, value));
    return add_formatted(c, c->completion, value);
}

static dt_status add_line(dt__documents *c, dt__json *j)
{
    int given;
    dt__run_of_text value[DT__MOST_FIELDS];
    if (c->prompt == NULL) return add_plain(c, j);
    DT__TRY(dt__fields_read(j, &c->fields, value, &given));
    return add_pair(c, j, value);
}

static bool is_blank(const unsigned char *p, const unsigned char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
    return p == end;
}

static dt_status add_lines(dt__documents *c, const char *path, const dt__chars *file, char *strings)
{
    if (file->used == 0) return DT_OK; /* its bytes are NULL */
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
    DT__RELEASE(c->ctx, strings, file.bytes);
    return status;
}

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
