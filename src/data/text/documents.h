/* Documents before tokenization: text files, or lines of JSON. */
#ifndef DT__DATA_DOCUMENTS_H
#define DT__DATA_DOCUMENTS_H

#include "data/text/prompt_format.h"

typedef struct dt__document {
    size_t begin, end;     /* offsets in `text` */
    int64_t turn, n_turns; /* a chat: its messages, in `turn` */
} dt__document;

/* A message of a chat. */
typedef struct dt__turn {
    int role;     /* dt_chat_role */
    bool learned; /* of an assistant: not told to have weight 0 */
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
    /* Lines of JSON: how fields become prompts and completions; NULL: the fields "prompt" and
     * "completion" are these, and running text is "text" */
    const char *prompt, *completion;
    dt__fields fields; /* of both */
} dt__documents;

/* Sets the formats; either may be NULL, both: none. Errors: CONFIG, which begins with the key. */
dt_status dt__documents_format(dt__documents *c, const char *prompt, const char *completion);

void dt__documents_free(dt__documents *c);

/* Appends a file, plain or gzip, as one document. Errors, naming it: IO, FORMAT (damaged gzip),
 * NOMEM. */
dt_status dt__documents_add_text(dt__documents *c, const char *path);

/* Appends the lines of such a file: JSON objects, all with "text", or all with "prompt" and
 * "completion", or all with the fields of the formats, or all chats (chat_lines.c); other fields
 * and empty lines are ignored. Errors: those above; FORMAT, with the line number, for any other
 * line, and for one whose completion has empty fields alone. */
dt_status dt__documents_add_lines(dt__documents *c, const char *path);

/* The fields of a line by which its kind is known; where[i] is the position of the value, NULL: the
 * line has none. */
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
