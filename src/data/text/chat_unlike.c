/* What a chat template does that the form it is like does not, by its source, in words for messages
 * (chat_normal.c decides). A form writes (chats.c)
 *     chatml    <|im_start|> ROLE \n TEXT <|im_end|> \n
 *     llama3    BEGIN <|start_header_id|> ROLE <|end_header_id|> \n\n TEXT <|eot_id|>
 * with the texts of chatml as they are and those of llama3 without white space around them. */
#include "data/text/chats.h"

#include <string.h>

static const char trims[] = "leaves out white space around texts",
                  dates[] = "writes dates into the system's message";

/* form AUTO: applies to each form */
static const struct {
    int form;
    const char *word, *what;
} words[] = {
    { DT_CHAT_AUTO, "think>", "writes thoughts before answers" },
    { DT_CHAT_LLAMA3, "Cutting Knowledge Date", dates },
    { DT_CHAT_AUTO, "strftime_now", dates },
    { DT_CHAT_LLAMA3, "<|python_tag|>", "writes calls of tools" },
    { DT_CHAT_CHATML, "| trim", trims },
    { DT_CHAT_CHATML, "|trim", trims },
    { DT_CHAT_CHATML, "strip(", trims },
    { DT_CHAT_CHATML, "bos_token", "writes the token that begins texts" },
    { DT_CHAT_AUTO, "eos_token", "writes the token that ends texts" },
};

static bool is_one_of(const dt__chat_form *f, const char *at)
{
    const char *const own[] = { f->begin, f->open, f->middle, f->stop };
    for (int i = 0; i < DT__COUNT_OF(own); i++) {
        if (own[i] != NULL && strncmp(at, own[i], strlen(own[i])) == 0) return true;
    }
    return false;
}

static bool has_other_tokens(const dt__chat_form *f, const char *jinja)
{
    for (const char *at = strstr(jinja, "<|"); at != NULL; at = strstr(at + 2, "<|")) {
        if (!is_one_of(f, at)) return true;
    }
    return false;
}

/* Whether the template stores the system message in a variable: {% set system_message = ... %}. */
static bool keeps_system(const char *jinja)
{
    for (const char *at = strstr(jinja, "set "); at != NULL; at = strstr(at + 4, "set ")) {
        const char *name = at + 4, *sys = strstr(name, "sys");
        if (sys != NULL && sys < name + strcspn(name, "=%( ")) return true;
    }
    return false;
}

/* Whether there are `n` escaped line breaks at `at`. */
static bool has_lines(const char *at, int n)
{
    for (; n > 0 && (*at == '\n' || strncmp(at, "\\n", 2) == 0); n--) at += *at == '\n' ? 1 : 2;
    return n == 0;
}

/* The string after the role in an expression: "' + message['role'] + '" and the rest. A literal
 * role and its end may be in one string. */
static const char *after_role(const char *at)
{
    at += strspn(at, "abcdefghijklmnopqrstuvwxyz");
    if (*at == '{') {
        const char *end = strstr(at, "}}");
        return end == NULL ? "" : end + 2;
    }
    if (*at != '\'' && *at != '"') return at;
    for (at++; *at != 0 && *at != '\'' && *at != '"'; at++) {
        if (*at == '[') at += strcspn(at, "]");
        if (*at == 0) break;
    }
    return *at == 0 ? at : at + 1;
}

/* Whether line breaks follow each `token`: after the role, or after quotes, sums and braces of an
 * expression. */
static bool ends_lines(const char *jinja, const char *token, bool role, int lines)
{
    for (const char *at = strstr(jinja, token); at != NULL; at = strstr(at, token)) {
        at += strlen(token);
        const char *behind = role ? after_role(at) : at + strspn(at, "'\" +~-{}");
        if (!has_lines(behind, lines)) return false;
    }
    return true;
}

static const char *unlike_chatml(const char *jinja)
{
    const dt__chat_form *f = &dt__chat_forms[DT_CHAT_CHATML];
    if (!ends_lines(jinja, f->open, true, 1)) return "does not end the lines of roles";
    return ends_lines(jinja, f->stop, false, 1) ? NULL : "does not end lines behind messages";
}

static const char *unlike_llama3(const char *jinja)
{
    const dt__chat_form *f = &dt__chat_forms[DT_CHAT_LLAMA3];
    const bool begins = strstr(jinja, "bos_token") != NULL || strstr(jinja, f->begin) != NULL;
    if (strstr(jinja, "| trim") == NULL && strstr(jinja, "|trim") == NULL &&
        strstr(jinja, ".strip()") == NULL) {
        return "keeps white space around texts";
    }
    if (!begins) return "does not begin with the token that begins texts";
    return ends_lines(jinja, f->middle, false, 2) ? NULL : "has no empty line behind roles";
}

const char *dt__chat_unlike(const char *jinja, int form)
{
    if (form == DT_CHAT_PLAIN) return NULL;
    for (int i = 0; i < DT__COUNT_OF(words); i++) {
        const bool counts = words[i].form == DT_CHAT_AUTO || words[i].form == form;
        if (counts && strstr(jinja, words[i].word) != NULL) return words[i].what;
    }
    if (has_other_tokens(&dt__chat_forms[form], jinja)) return "writes other tokens, too";
    if (keeps_system(jinja)) return "has a variable of the system's message, which is not read";
    return form == DT_CHAT_CHATML ? unlike_chatml(jinja) : unlike_llama3(jinja);
}
