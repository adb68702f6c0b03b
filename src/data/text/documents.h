/* Documents before tokenization: text files, or lines of JSON. */
#ifndef DT__DATA_DOCUMENTS_H
#define DT__DATA_DOCUMENTS_H

#include "data/text/prompt_format.h"

typedef struct dt__document {
    size_t begin, end;     /* offsets in `text` */
    int64_t turn, n_turns; /* of a chat: first message in `turn`, and number of messages */
} dt__document;

/* A message of a chat. */
typedef struct dt__turn {
    int role;     /* dt_chat_role */
    bool learned; /* of an assistant: its weight is not 0 */
    size_t begin, end;
} dt__turn;

/* Documents stored one after the other. A pair is two documents: prompt and completion; a chat is
 * one, the texts of its messages. */
typedef struct dt__documents {
    dt_ctx *ctx;
    dt__chars text;
    dt__document *at;
    int64_t n, room;
    bool pairs, chats;
    dt__turn *turn;
    int64_t n_turns, room_of_turns;
    /* For JSON lines: formats of prompts and completions; NULL: fields "prompt" and "completion"
     * are used, and "text" for running text */
    const char *prompt, *completion;
    dt__fields fields; /* fields of both formats */
} dt__documents;

/* Sets the formats; either or both may be NULL. Errors: CONFIG; the message begins with the key. */
dt_status dt__documents_format(dt__documents *c, const char *prompt, const char *completion);

void dt__documents_free(dt__documents *c);

/* Appends a file, plain or gzip, as one document. Errors, naming it: IO, FORMAT (damaged gzip),
 * NOMEM. */
dt_status dt__documents_add_text(dt__documents *c, const char *path);

/* Appends the lines of such a file: JSON objects, all with "text", or all with "prompt" and
 * "completion", or all with the fields of the formats, or all chats (chat_lines.c). Other fields
 * and empty lines are ignored. Errors: those above; FORMAT, with the line number, for any other
 * line, and for one whose completion has only empty fields. */
dt_status dt__documents_add_lines(dt__documents *c, const char *path);

/* Fields that determine the kind of a line; where[i] is the position of the value, NULL: absent. */
enum {
    DT__LINE_TEXT,
    DT__LINE_PROMPT,
    DT__LINE_COMPLETION,
    DT__LINE_MESSAGES,
    DT__LINE_CONVERSATIONS,
    DT__LINE_INSTRUCTION,
    DT__LINE_INPUT,
    DT__LINE_OUTPUT,
    DT__LINE_SYSTEM,
    DT__LINE_TOOLS,
    DT__LINE_FUNCTIONS,
    DT__LINE_HISTORY,
    DT__LINE_FIELDS
};

/* Appends the chat of a line that has messages, conversations, or instruction and output
 * (chat_lines.c). FORMAT: what it holds is not a chat. */
dt_status dt__documents_add_chat(dt__documents *c, dt__json *j, const unsigned char *const *where);

/* The offset of the first byte that is not valid UTF-8 in a document, or -1; *number is its line,
 * from 1. */
int64_t dt__documents_find_bad(const dt__documents *c, int64_t document, int64_t *number);

/* Splits a document at byte `at` of the text, or at the next boundary between characters. Errors:
 * NOMEM. */
dt_status dt__documents_cut(dt__documents *c, int64_t document, size_t at);

#endif
