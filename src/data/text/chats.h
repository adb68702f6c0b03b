/* Chats: messages of roles, and the forms in which they become tokens. */
#ifndef DT__DATA_CHATS_H
#define DT__DATA_CHATS_H

#include "data/text/documents.h"

#include <detent/text.h>

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

/* The same of chat_template.jinja or tokenizer_config.json in the folder of a tokenizer's file; if
 * both say nothing, the form whose tokens the tokenizer has. CONFIG if that is none. */
dt_status dt__chat_find(const dt_tokenizer *k, const char *path, dt__chat_found *out);

#endif
