/* Chats: messages of roles, and the formats in which they are tokenized. */
#ifndef DT__DATA_CHATS_H
#define DT__DATA_CHATS_H

#include "data/text/documents.h"

#include <detent/text.h>

/* How a format writes a message (chats.c), indexed by dt_chat_template. */
typedef struct dt__chat_form {
    /* a token before all messages; NULL: the tokens of the tokenizer's template, */
    const char *begin;
    bool wrap;                        /* if this is set */
    const char *open, *middle, *stop; /* tokens; NULL: none. In PLAIN the end-of-text token stops */
    const char *separator, *after;
    bool trim; /* strip white space around a text */
    const char *role[3];
} dt__chat_form;
extern const dt__chat_form dt__chat_forms[];

/* Appends a message. `learned`, unless NULL, gets a byte for each id: 1 for those of an assistant's
 * text and of its end, if `learn`. `first`: it is the first message. Errors: those of
 * dt_chat_prompt. */
typedef struct dt__chat_writer {
    const dt_tokenizer *k;
    const dt_chat *chat;
    dt_ids *ids;
    dt__chars *learned;
} dt__chat_writer;
dt_status dt__chat_put(const dt__chat_writer *w, const dt_message *m, bool first, bool learn);

/* Appends a text as the format writes it: stripped, or unchanged. */
void dt__chat_trim(const dt__chat_form *f, const char *text, size_t bytes, dt__chars *out);

/* The token that ends an answer, -1: none. CONFIG if the tokenizer lacks a token of the form. */
dt_status dt__chat_check(const dt_tokenizer *k, int form, int32_t *stop);

/* All characters that a format adds to messages, for a tokenizer of characters. */
const char *dt__chat_characters(void);

/* The chat format of a model, from its metadata or from files beside its tokenizer. */
typedef struct dt__chat_found {
    int form;
    char *system; /* the caller frees it; NULL: none */
} dt__chat_found;

/* Recognizes a template: Jinja, or a tokenizer_config.json that contains one. form AUTO: the file
 * has none. CONFIG, with the reason, if no format writes the same. */
dt_status dt__chat_recognize(dt_ctx *ctx, const char *text, const char *name, dt__chat_found *out);

/* What a template of this format, or a similar one, does differently; NULL: nothing known
 * (chat_unlike.c). */
const char *dt__chat_unlike(const char *jinja, int form);

/* Whether a template writes what the form writes, part by part (chat_normal.c); *system, which the
 * caller frees, is the message of the system that it writes where there is none, or NULL. NOMEM. */
dt_status dt__chat_is_form(dt_ctx *ctx, const char *jinja, int form, bool *is, char **system);

/* The Jinja in such a text, or NULL; the caller frees it. */
dt_status dt__chat_jinja_in(dt_ctx *ctx, const char *text, const char *name, char **out);

/* Writes the template of a format, for programs that run Jinja: its result is that of
 * dt_chat_prompt. For PLAIN: the texts of the tokens before a text, and of the one that ends texts;
 * NULL: none. */
typedef struct dt__chat_ends {
    const char *begin, *end;
} dt__chat_ends;
void dt__chat_put_jinja(dt__chars *t, const dt_chat *chat, const dt__chat_ends *ends);

/* Finds the format by chat_template.jinja or tokenizer_config.json in the folder of a tokenizer's
 * file; if neither has a template, the format whose tokens the tokenizer has. CONFIG if there is
 * none. */
dt_status dt__chat_find(const dt_tokenizer *k, const char *path, dt__chat_found *out);

#endif
