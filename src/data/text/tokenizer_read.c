/* Reads a tokenizer's JSON: detects its kind, and reads the simple kinds. */
#include "core/text/byte_mark.h"
#include "data/input.h"
#include "data/text/tokenizer.h"

#include <string.h>

#define MOST_BYTES ((size_t)1 << 28) /* of a file */

dt_status dt__json_fields(dt__json *j, const char *what, const char *const *names,
                          const unsigned char **at)
{
    uint64_t seen = 0;
    for (int i = 0; names[i] != NULL; i++) at[i] = NULL;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}')) {
        const char *name;
        char shown[DT__SHOWN];
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &name));
        int i = 0;
        while (names[i] != NULL && strcmp(names[i], name) != 0) i++;
        if (names[i] == NULL) {
            return dt__json_fail(j, "unknown key '%s' in %s", dt__shown(name, shown), what);
        }
        if ((seen & (uint64_t)1 << i) != 0) {
            return dt__json_fail(j, "'%s' occurs twice in %s", name, what);
        }
        seen |= (uint64_t)1 << i;
        j->strings = strings;
        dt__json_peek(j); /* skips white space */
        const unsigned char *const value = j->at;
        if (!dt__json_null(j)) {
            DT__TRY(dt__json_skip(j));
            at[i] = value;
        }
    }
    return j->status;
}

dt_status dt__json_type(const dt__json *j, const char *what, const char **type)
{
    dt__json at = *j; /* a copy, so that the next string does not overwrite the text */
    for (bool more = dt__json_open(&at, '{'); more; more = dt__json_more(&at, '}')) {
        const char *name;
        DT__TRY(dt__json_key(&at, &name));
        if (strcmp(name, "type") == 0) return dt__json_string(&at, type);
        DT__TRY(dt__json_skip(&at));
    }
    DT__TRY(at.status);
    return dt__json_fail(j, "%s has no type", what);
}

dt_status dt__must_be_false(dt__json *j, const unsigned char *at, const char *what)
{
    bool value = false;
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_bool(j, &value));
    return value ? dt__json_fail(j, "%s: true is not known here, only false", what) : DT_OK;
}

dt_status dt__must_be_type(dt__json *j, const unsigned char *at, const char *what, const char *want)
{
    const char *type;
    char shown[DT__SHOWN];
    if (at == NULL) return dt__json_fail(j, "%s is missing; its type %s is known", what, want);
    j->at = at;
    DT__TRY(dt__json_type(j, what, &type));
    if (strcmp(type, want) == 0) return DT_OK;
    return dt__json_fail(j, "%s: '%s' is not known here, only %s", what, dt__shown(type, shown),
                         want);
}

dt_status dt__read_truth(dt__json *j, const unsigned char *at, bool missing, bool *out)
{
    *out = missing;
    if (at == NULL) return DT_OK;
    j->at = at;
    return dt__json_bool(j, out);
}

dt_status dt__read_id(dt__json *j, const char *text, int32_t *out)
{
    int64_t id;
    char shown[DT__SHOWN];
    dt__shown(text, shown);
    const char c = dt__json_peek(j);
    if (c != '-' && (c < '0' || c > '9')) {
        return dt__json_fail(j, "the id of '%s' is not a number", shown);
    }
    DT__TRY(dt__json_signed(j, &id));
    if (id < 0) return dt__json_fail(j, "the id of '%s' is negative", shown);
    if (id >= DT__MOST_TOKENS) {
        return dt__json_fail(j, "the id of '%s' is %lld; %lld are possible", shown, (long long)id,
                             (long long)DT__MOST_TOKENS);
    }
    *out = (int32_t)id;
    return DT_OK;
}

static dt_status only_model(dt__json *j, const dt__tokenizer_parts *p, const char *const *names,
                            const unsigned char **at)
{
    for (int i = 0; i < DT__PART_COUNT; i++) {
        if (p->at[i] == NULL || i == DT__PART_VERSION || i == DT__PART_MODEL) continue;
        j->at = p->at[i];
        return dt__json_fail(j, "a tokenizer of this type has no '%s'", dt__tokenizer_part[i]);
    }
    j->at = p->at[DT__PART_MODEL];
    return dt__json_fields(j, "model", names, at);
}

static dt_status read_bytes(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out)
{
    static const char *const names[] = { "type", NULL };
    const unsigned char *at[1];
    DT__TRY(only_model(j, p, names, at));
    return dt_tokenizer_bytes(j->ctx, out);
}

static dt_status read_chars(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out)
{
    static const char *const names[] = { "type", "characters", NULL };
    const unsigned char *at[2];
    const char *text;
    size_t bytes;
    DT__TRY(only_model(j, p, names, at));
    if (at[1] == NULL) return dt__json_fail(j, "model.characters is missing");
    j->at = at[1];
    DT__TRY(dt__json_bytes(j, &text, &bytes));
    if (bytes == 0) return dt__json_fail(j, "model.characters is empty");
    return dt_tokenizer_chars(j->ctx, text, bytes, out);
}

const char *const dt__tokenizer_part[] = {
    "version",       "truncation",     "padding", "added_tokens", "normalizer",
    "pre_tokenizer", "post_processor", "decoder", "model",        NULL
};

typedef struct reader {
    const char *type;
    dt_status (*read)(dt__json *j, const dt__tokenizer_parts *p, dt_tokenizer **out);
} reader;

static const reader readers[] = {
    { "BPE", dt__bpe_read },
    { "bytes", read_bytes },
    { "chars", read_chars },
};

static dt_status check_version(dt__json *j, const unsigned char *at)
{
    const char *version;
    char shown[DT__SHOWN];
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_string(j, &version));
    if (strcmp(version, "1.0") == 0) return DT_OK;
    return dt__json_fail(j, "version '%s'; 1.0 is known", dt__shown(version, shown));
}

static dt_status read_any(dt__json *j, dt_tokenizer **out)
{
    dt__tokenizer_parts p;
    const char *type;
    char shown[DT__SHOWN];
    DT__TRY(dt__json_fields(j, "the tokenizer", dt__tokenizer_part, p.at));
    DT__TRY(dt__json_end(j));
    DT__TRY(check_version(j, p.at[DT__PART_VERSION]));
    if (p.at[DT__PART_MODEL] == NULL) return dt__json_fail(j, "there is no model");
    j->at = p.at[DT__PART_MODEL];
    DT__TRY(dt__json_type(j, "model", &type));
    for (int i = 0; i < DT__COUNT_OF(readers); i++) {
        if (strcmp(readers[i].type, type) == 0) return readers[i].read(j, &p, out);
    }
    return dt__json_fail(j, "model.type '%s'; BPE, bytes or chars is known",
                         dt__shown(type, shown));
}

dt_status dt_tokenizer_parse(dt_ctx *ctx, const char *text, size_t bytes, const char *name,
                             dt_tokenizer **out)
{
    DT__NEED(NULL, ctx);
    if (bytes > 0) DT__NEED(ctx, text);
    DT__NEED(ctx, out);
    *out = NULL;
    if (bytes > MOST_BYTES) {
        return dt_fail(ctx, DT_ERR_FORMAT, "%s: more than %zu bytes", name, MOST_BYTES);
    }
    size_t mark;
    DT__TRY(dt__skip_mark(ctx, name, text, bytes, &mark));
    const unsigned char *begin = (const unsigned char *)text;
    char *strings = dt__alloc(ctx, bytes);
    if (strings == NULL) return DT_ERR_NOMEM;
    dt__json j = { .ctx = ctx, .path = name, .what = "the tokenizer", .strings = strings };
    j.begin = j.at = begin + mark;
    j.end = begin + bytes;
    const dt_status status = read_any(&j, out);
    dt__release(ctx, strings);
    return status;
}

dt_status dt_tokenizer_read(dt_ctx *ctx, const char *path, dt_tokenizer **out)
{
    DT__NEED3(ctx, ctx, path, out);
    uint8_t *text;
    size_t bytes;
    *out = NULL;
    DT__TRY(dt__input_all(ctx, path, MOST_BYTES, &text, &bytes));
    const dt_status status = dt_tokenizer_parse(ctx, (const char *)text, bytes, path, out);
    dt__release(ctx, text);
    return status;
}
