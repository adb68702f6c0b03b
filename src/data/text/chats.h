/* Chats: messages of roles, and the forms in which they become tokens. */
#ifndef DT__DATA_CHATS_H
#define DT__DATA_CHATS_H

#include "data/text/documents.h"

#include <detent/text.h>

/* How a form writes a message (chats.c), by dt_chat_template. */
typedef struct dt__chat_form {
    const char *begin; /* a token before all messages; NULL: those of the tokenizer's template, */
    bool wrap;         /* if this is set */
    const char *open, *middle, *stop; /* tokens; NULL: none. PLAIN stops by the end of a text */
    const char *separator, *after;
    bool trim; /* white space around a text is left out */
    const char *role[3];
} dt__chat_form;
extern const dt__chat_form dt__chat_forms[];

/* Appends a message; `learned`, unless NULL, gets a byte for each id: 1 for those of an assistant's
 * text and of its end, if `learn`. `first`: nothing is before it. Errors: those of
 * dt_chat_prompt. */
typedef struct dt__chat_writer {
    const dt_tokenizer *k;
    const dt_chat *chat;
    dt_ids *ids;
    dt__chars *learned;
} dt__chat_writer;
dt_status dt__chat_put(const dt__chat_writer *w, const dt_message *m, bool first, bool learn);

/* Appends a text as a form has it: `trim`, or as it is. */
void dt__chat_trim(const dt__chat_form *f, const char *text, size_t bytes, dt__chars *out);

/* The token that ends an answer, -1: none. CONFIG if the tokenizer lacks a token of the form. */
dt_status dt__chat_check(const dt_tokenizer *k, int form, int32_t *stop);

/* All characters that a form adds to messages, for a tokenizer of characters. */
const char *dt__chat_characters(void);

/* What a model or the files beside its tokenizer say of its chats. */
typedef struct dt__chat_found {
    int form;
    char *system; /* the caller frees it; NULL: none */
} dt__chat_found;

/* Reads a template: Jinja, or a tokenizer_config.json that has one. form AUTO: the file has none.
 * CONFIG, with the reason, for a template that writes something that no form does. */
dt_status dt__chat_recognize(dt_ctx *ctx, const char *text, const char *name, dt__chat_found *out);

/* What a template of this form, or like it, does that the form does not; NULL: nothing is known
 * (chat_unlike.c). */
const char *dt__chat_unlike(const char *jinja, int form);

/* Whether a template writes what the form writes, part by part (chat_normal.c); *system, which the
 * caller frees, is the message of the system that it writes where there is none, or NULL. NOMEM. */
dt_status dt__chat_is_form(dt_ctx *ctx, const char *jinja, int form, bool *is, char **system);

/* The Jinja in such a text, or NULL; the caller frees it. */
dt_status dt__chat_jinja_in(dt_ctx *ctx, const char *text, const char *name, char **out);

/* The template of a form, for programs that run Jinja: it writes what dt_chat_prompt does. Of form
 * PLAIN, texts of the tokenizer's tokens: those before a text, and the one that ends texts; NULL:
 * none. */
typedef struct dt__chat_ends {
    const char *begin, *end;
} dt__chat_ends;
void dt__chat_put_jinja(dt__chars *t, const dt_chat *chat, const dt__chat_ends *ends);

/* The same of chat_template.jinja or tokenizer_config.json in the folder of a tokenizer's file; if
 * both say nothing, the form whose tokens the tokenizer has. CONFIG if that is none. */
dt_status dt__chat_find(const dt_tokenizer *k, const char *path, dt__chat_found *out);

#endif
