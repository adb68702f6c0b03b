/* Recognizes which form a model's chats have. Templates are programs in Jinja, which are not run:
 * the tokens that they write tell the form, of which their normal form must be (chat_normal.c). */
#include "data/text/chats.h"

#include "core/system/system_calls.h"
#include "data/data_options.h"
#include "data/input.h"
#include "data/text/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define MOST_TEMPLATE ((size_t)16 << 20) /* of a file, in bytes */

static const char im_start[] = "<|im_start|>", im_end[] = "<|im_end|>";

static dt_status refuse(dt_ctx *ctx, const char *name, const char *why)
{
    return dt_fail(ctx, DT_ERR_CONFIG,
                   "data.chat: the chat template of %s %s; data.chat must be one of 'chatml', "
                   "'llama3' and 'plain'",
                   name, why);
}

static dt_status read_jinja(dt_ctx *ctx, const char *jinja, const char *name, dt__chat_found *out)
{
    char why[160];
    bool is;
    const bool plain =
        strstr(jinja, "'User:\\n'") != NULL && strstr(jinja, "'Assistant:\\n'") != NULL;
    const bool chatml = strstr(jinja, im_start) != NULL && strstr(jinja, im_end) != NULL;
    const bool llama3 = strstr(jinja, "<|start_header_id|>") != NULL &&
                        strstr(jinja, "<|end_header_id|>") != NULL &&
                        strstr(jinja, "<|eot_id|>") != NULL;
    if (!plain && chatml == llama3) return refuse(ctx, name, "is none that is known here");
    const int form = plain ? DT_CHAT_PLAIN : chatml ? DT_CHAT_CHATML : DT_CHAT_LLAMA3;
    const char *what = dt__chat_unlike(jinja, form);
    if (what == NULL) {
        const dt_status s = dt__chat_is_form(ctx, jinja, form, &is, &out->system);
        out->form = form;
        if (s == DT_OK && is) return DT_OK;
        dt__release(ctx, out->system);
        *out = (dt__chat_found){ .form = DT_CHAT_AUTO };
        DT__TRY(s);
        what = "is written in a way that is not read";
    }
    snprintf(why, sizeof why, "is like '%s', but %s", dt__chat_names[form], what);
    return refuse(ctx, name, why);
}

/* ---- tokenizer_config.json ------------------------------------------------------------------ */

/* Of several templates, [{"name": ..., "template": ...}], reads the default one. */
static dt_status read_named(dt__json *j, const char **jinja)
{
    static const char *const names[] = { "name", "template", NULL };
    const unsigned char *at[2];
    for (bool again = dt__json_open(j, '['); again; again = dt__json_more(j, ']')) {
        const char *name, *text;
        DT__TRY(dt__json_fields(j, "a chat template", names, at));
        const unsigned char *const after = j->at;
        if (at[0] == NULL || at[1] == NULL) {
            return dt__json_fail(j, "chat_template: expected objects with name and template");
        }
        j->at = at[0];
        DT__TRY(dt__json_string(j, &name));
        j->at = at[1];
        DT__TRY(dt__json_string(j, &text));
        if (strcmp(name, "default") == 0) *jinja = text;
        j->at = after;
    }
    return j->status;
}

static dt_status read_config(dt__json *j, const char **jinja)
{
    for (bool again = dt__json_open(j, '{'); again; again = dt__json_more(j, '}')) {
        const char *key;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &key));
        const bool wanted = strcmp(key, "chat_template") == 0 && !dt__json_null(j);
        if (!wanted) j->strings = strings; /* keep the text that was read */
        if (!wanted) DT__TRY(strcmp(key, "chat_template") == 0 ? DT_OK : dt__json_skip(j));
        else if (dt__json_peek(j) == '[') DT__TRY(read_named(j, jinja));
        else DT__TRY(dt__json_string(j, jinja));
    }
    return j->status;
}

static bool is_json(const char *text)
{
    text += strspn(text, " \t\r\n");
    if (*text++ != '{') return false;
    text += strspn(text, " \t\r\n");
    return *text == '"' || *text == '}';
}

dt_status dt__chat_jinja_in(dt_ctx *ctx, const char *text, const char *name, char **out)
{
    const size_t n = strlen(text);
    const char *jinja = NULL;
    *out = NULL;
    if (!is_json(text)) {
        *out = dt__copy_string(ctx, text);
        return *out == NULL ? DT_ERR_NOMEM : DT_OK;
    }
    char *strings = dt__alloc(ctx, n + 1);
    if (strings == NULL) return DT_ERR_NOMEM;
    const unsigned char *begin = (const unsigned char *)text;
    dt__json j = { .ctx = ctx,
                   .path = name,
                   .what = "tokenizer_config.json",
                   .begin = begin,
                   .at = begin,
                   .end = begin + n,
                   .strings = strings };
    dt_status s = read_config(&j, &jinja);
    if (s == DT_OK && jinja != NULL) {
        *out = dt__copy_string(ctx, jinja);
        if (*out == NULL) s = DT_ERR_NOMEM;
    }
    dt__release(ctx, strings);
    return s;
}

dt_status dt__chat_recognize(dt_ctx *ctx, const char *text, const char *name, dt__chat_found *out)
{
    char *jinja;
    *out = (dt__chat_found){ .form = DT_CHAT_AUTO };
    DT__TRY(dt__chat_jinja_in(ctx, text, name, &jinja));
    const dt_status s = jinja == NULL ? DT_OK : read_jinja(ctx, jinja, name, out);
    dt__release(ctx, jinja);
    return s;
}

/* ---- files beside a tokenizer --------------------------------------------------------------- */

/* Reads a file in the folder of `path`; the caller frees the text. NULL: no such file. */
static dt_status beside(dt_ctx *ctx, const char *path, const char *name, char **full, char **text)
{
    const char *slash = strrchr(path, '/');
    const size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    uint8_t *bytes = NULL;
    size_t n = 0;
    *text = NULL;
    *full = dt__alloc(ctx, folder + strlen(name) + 1);
    if (*full == NULL) return DT_ERR_NOMEM;
    memcpy(*full, path, folder);
    strcpy(*full + folder, name);
    const int there = dt__sys_open(*full, O_RDONLY | O_CLOEXEC);
    if (there < 0 && errno == ENOENT) return DT_OK;
    if (there >= 0) dt__sys_close(there);
    DT__TRY(dt__input_all(ctx, *full, MOST_TEMPLATE, &bytes, &n));
    *text = dt__alloc(ctx, n + 1);
    if (*text != NULL) {
        memcpy(*text, bytes, n);
        (*text)[n] = 0;
    }
    dt__release(ctx, bytes);
    return *text == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status find_file(dt_ctx *ctx, const char *path, dt__chat_found *out)
{
    static const char *const names[] = { "chat_template.jinja", "tokenizer_config.json" };
    for (int i = 0; i < DT__COUNT_OF(names) && out->form == DT_CHAT_AUTO; i++) {
        char *full, *text;
        dt_status s = beside(ctx, path, names[i], &full, &text);
        if (s == DT_OK && text != NULL) s = dt__chat_recognize(ctx, text, full, out);
        DT__RELEASE(ctx, full, text);
        DT__TRY(s);
    }
    return DT_OK;
}

static bool has(const dt_tokenizer *k, const char *name)
{
    const int32_t id = dt_tokenizer_id(k, name);
    return id >= 0 && k->token[id].added;
}

dt_status dt__chat_find(const dt_tokenizer *k, const char *path, dt__chat_found *out)
{
    *out = (dt__chat_found){ .form = DT_CHAT_AUTO };
    if (path != NULL) DT__TRY(find_file(k->ctx, path, out));
    if (out->form != DT_CHAT_AUTO) return DT_OK;
    const bool chatml = has(k, im_start) && has(k, im_end);
    const bool llama3 = has(k, "<|start_header_id|>") && has(k, "<|eot_id|>");
    if (chatml != llama3) {
        out->form = chatml ? DT_CHAT_CHATML : DT_CHAT_LLAMA3;
        return DT_OK;
    }
    return dt_fail(k->ctx, DT_ERR_CONFIG,
                   "data.chat is auto, but neither a chat template nor tokens of one are beside "
                   "the tokenizer or in it; data.chat must be 'plain', which takes any tokenizer, "
                   "or 'chatml' or 'llama3'");
}
