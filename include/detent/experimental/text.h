/* text.h: tokenizers, which make ids of text and text of ids, and files of ids.
 */
#ifndef DETENT_EXPERIMENTAL_TEXT_H
#define DETENT_EXPERIMENTAL_TEXT_H

#include <detent/experimental/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A whole file, plain or gzip, of at most 2^40 bytes, without a byte order mark of UTF-8 at its
 * beginning, and a NUL behind them; dt_text_free gives it back. A gzip file of more than 16 MiB may
 * be a hundredth of its content, no less. Errors: IO, FORMAT (damaged gzip, too much of it, a mark
 * of UTF-16), NOMEM. */
DT_API dt_status dt_text_read(dt_ctx *ctx, const char *path, char **text, size_t *bytes);
DT_API void dt_text_free(dt_ctx *ctx, char *text); /* NULL is allowed */

/* ---- tokenizers ----------------------------------------------------------------------------- */

/* Cuts text into tokens, each a byte string with an id. Immutable: any thread may use it, the
 * memory is its context's. */
typedef struct dt_tokenizer dt_tokenizer;

/* Ids, in the memory of `ctx`; {0} is an empty list, to which encoding gives the tokenizer's
 * context. */
typedef struct dt_ids {
    dt_ctx *ctx;
    int32_t *id;
    int64_t n, room;
} dt_ids;

/* Appends an id to a list that has a context. Errors: NOMEM. */
DT_API dt_status dt_ids_put(dt_ids *ids, int32_t id);

/* Gives the memory back; the list is empty then. */
DT_API void dt_ids_free(dt_ids *ids);

/* Every byte is a token, its own id: 256 of them. Errors: NOMEM. */
DT_API dt_status dt_tokenizer_bytes(dt_ctx *ctx, dt_tokenizer **out);

/* The characters of a text, in the order of their code points. Errors, naming the place: ARG (no
 * text), FORMAT (no UTF-8), NOMEM. */
DT_API dt_status dt_tokenizer_chars(dt_ctx *ctx, const char *text, size_t bytes,
                                    dt_tokenizer **out);

/* Reads what dt_tokenizer_text wrote, or a BPE in the form of Hugging Face's tokenizer.json: of
 * bytes, split as GPT-2, Llama 3, Qwen2 or SmolLM2 do, or of sentencepiece with byte_fallback, as
 * Gemma, Phi-3 and TinyLlama have it; with normalizers, added tokens and a template
 * (docs/data.md has the table). What would change ids and is not known here (other expressions and
 * normalizers, prefix space, dropout) is an error that names it. Messages contain `name`. Errors:
 * FORMAT, UNSUPPORTED, NOMEM. */
DT_API dt_status dt_tokenizer_parse(dt_ctx *ctx, const char *text, size_t bytes, const char *name,
                                    dt_tokenizer **out);

/* The same of a file, plain or gzip. Errors: IO as well. */
DT_API dt_status dt_tokenizer_read(dt_ctx *ctx, const char *path, dt_tokenizer **out);

/* Writes it to a file: whole, or not at all. Errors: IO, NOMEM. */
DT_API dt_status dt_tokenizer_write(const dt_tokenizer *k, const char *path);

/* Gives a tokenizer up. NULL is allowed. */
DT_API void dt_tokenizer_free(dt_tokenizer *k);

/* The tokenizer as JSON, which dt_tokenizer_parse reads; a BPE's is a tokenizer.json. Equal
 * tokenizers give equal texts. Errors: those of the sink, NOMEM. */
DT_API dt_status dt_tokenizer_text(const dt_tokenizer *k, dt_sink sink, void *user);

/* "bytes", "chars" or "bpe". */
DT_API const char *dt_tokenizer_kind(const dt_tokenizer *k);

/* 1 + the largest id: what a model's `vocab` must at least be. */
DT_API int64_t dt_tokenizer_vocab(const dt_tokenizer *k);

typedef struct dt_encoding {
    bool
        special; /* added tokens ("<|endoftext|>") in the text become their ids; default false: they
                     are text like any other, as text from strangers must be taken */
    bool wrap;   /* the template's tokens before and after the text, such as begin_of_text */
} dt_encoding;

/* Appends the ids of a text; `o` NULL means the defaults. Any bytes are allowed, and decode to
 * themselves, but for what a normalizer changes (of sentencepiece U+2581, which becomes a space);
 * characters of a corpus take no others. Where it fails, the list is as before.
 * Errors: FORMAT (chars: a character that is not a token, with its place), NOMEM. */
DT_API dt_status dt_tokenizer_encode(const dt_tokenizer *k, const char *text, size_t bytes,
                                     const dt_encoding *o, dt_ids *ids);

/* The bytes of the tokens, one after the other; they need not be UTF-8. An id that no token has
 * gives none (models may have rows to spare); neither do special tokens where they are skipped.
 * Errors: ARG (a negative id), those of the sink. */
DT_API dt_status dt_tokenizer_decode(const dt_tokenizer *k, const int32_t *ids, int64_t n,
                                     bool skip_special, dt_sink sink, void *user);

/* The same of tokens that go on a text: the space that some tokenizers (Llama 2's) put before a
 * text and strip from its beginning is not stripped. */
DT_API dt_status dt_tokenizer_decode_on(const dt_tokenizer *k, const int32_t *ids, int64_t n,
                                        bool skip_special, dt_sink sink, void *user);

/* The id of a token by its text, added ones first; -1: none. */
DT_API int32_t dt_tokenizer_id(const dt_tokenizer *k, const char *token);

/* The token that ends a text: the first of dt_tokenizer_tokens; without any <|endoftext|>,
 * <|end_of_text|>, </s> or <eos>, whichever was added; -1: none. */
DT_API int32_t dt_tokenizer_end(const dt_tokenizer *k);

/* ---- tokens of a model ---------------------------------------------------------------------- */

/* The most tokens that end a text. */
#define DT_MOST_ENDS 64

/* The tokens that a model says begin, end and pad its texts. */
typedef struct dt_text_tokens {
    int32_t begin, pad;        /* -1: none */
    int n_end;                 /* 0: the model says none */
    int32_t end[DT_MOST_ENDS]; /* each ends a text; data learn the first */
} dt_text_tokens;
/* Of a model that names none. */
#define DT_NO_TEXT_TOKENS ((dt_text_tokens){ -1, -1, 0, { 0 } })

/* Reads the text of them that a model file keeps (dt_model_info.tokens); NULL is none. Messages
 * contain `name`. Errors: FORMAT, NOMEM. */
DT_API dt_status dt_text_tokens_parse(dt_ctx *ctx, const char *text, const char *name,
                                      dt_text_tokens *out);
/* Whether the id is one of the ends. */
DT_API bool dt_text_tokens_end(const dt_text_tokens *t, int32_t id);

/* A model's own tokenizer, and the text of its tokens: those fields of its dt_model_info. */
typedef struct dt_tokenizer_texts {
    const char *tokenizer; /* input of dt_tokenizer_parse */
    const char *tokens;    /* input of dt_text_tokens_parse; NULL: none */
} dt_tokenizer_texts;

/* dt_tokenizer_parse of a model's own tokenizer, which has the model's tokens. Errors: FORMAT,
 * UNSUPPORTED, NOMEM. */
DT_API dt_status dt_tokenizer_of_model(dt_ctx *ctx, const dt_tokenizer_texts *from,
                                       const char *name, dt_tokenizer **out);
/* What dt_tokenizer_of_model gave it; else none. */
DT_API dt_text_tokens dt_tokenizer_tokens(const dt_tokenizer *k);

/* ---- prompt formats ------------------------------------------------------------------------- */

/* Puts a prompt into a format: a text with fields in braces, "Question: {question}\n", whose braces
 * of the text are {{ and }}. `text` is the value of the only field; where the format has several,
 * it is a JSON object with a string for each of them. Writes the whole to the sink. Errors: CONFIG
 * (the format's braces, no field, more than 16), FORMAT (no such object, a field that it lacks),
 * those of the sink, NOMEM. */
DT_API dt_status dt_prompt_fill(dt_ctx *ctx, const char *format, const char *text, size_t bytes,
                                dt_sink sink, void *user);

/* ---- chats ---------------------------------------------------------------------------------- */

/* How messages become one text. PLAIN takes any tokenizer; of the others it must have the tokens
 * (docs/data.md has the texts). */
typedef enum dt_chat_template {
    DT_CHAT_AUTO,   /* of data: as the model or its tokenizer says */
    DT_CHAT_CHATML, /* <|im_start|>user\n...<|im_end|>\n, as Qwen and SmolLM2 */
    DT_CHAT_LLAMA3, /* <|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|> */
    DT_CHAT_PLAIN   /* User:\n...\n, and the end of a text behind an answer */
} dt_chat_template;

typedef enum dt_chat_role { DT_ROLE_SYSTEM, DT_ROLE_USER, DT_ROLE_ASSISTANT } dt_chat_role;

typedef struct dt_message {
    int role; /* dt_chat_role */
    const char *text;
    size_t bytes;
} dt_message;

typedef struct dt_chat {
    int form;           /* dt_chat_template, not AUTO */
    const char *system; /* the system message where the first message is none; NULL: none */
} dt_chat;

/* Appends the ids of n messages, and of what begins an answer: the prompt of a chat. Messages are
 * text, whatever they contain. Where it fails, the list is as before. Errors: ARG (a form or role
 * that is none), CONFIG (a token of the form that the tokenizer lacks), those of
 * dt_tokenizer_encode. */
DT_API dt_status dt_chat_prompt(const dt_tokenizer *k, const dt_chat *chat, const dt_message *m,
                                int64_t n, dt_ids *ids);

/* ---- files of ids --------------------------------------------------------------------------- */

/* A file of ids in little-endian u16 or u32, without a header. */
typedef struct dt_tokens dt_tokens;

/* Writes one: whole, or not at all. `bytes_each` is 2, 4, or 0, which means 4
 * where the name ends in .u32.bin, else 2. Errors: ARG (another size, an id that does not fit, with
 * its place), IO, NOMEM. */
DT_API dt_status dt_tokens_write(dt_ctx *ctx, const char *path, const int32_t *ids, int64_t n,
                                 int bytes_each);

/* Maps a file, `bytes_each` as above. The file must stay as it is until dt_tokens_free. Errors:
 * ARG, IO, FORMAT (a size that is not a multiple), NOMEM. */
DT_API dt_status dt_tokens_open(dt_ctx *ctx, const char *path, int bytes_each, dt_tokens **out);

DT_API int64_t dt_tokens_count(const dt_tokens *t); /* ids in the file */

/* Id i. Negative with an error on the context: ARG (no such place), FORMAT (2^31 or more). */
DT_API int32_t dt_tokens_at(const dt_tokens *t, int64_t i);

/* Ids first, first + 1, ... to `ids`. Errors: ARG, FORMAT, as above. */
DT_API dt_status dt_tokens_read(const dt_tokens *t, int64_t first, int64_t n, int32_t *ids);

/* Unmaps it. NULL is allowed. */
DT_API void dt_tokens_free(dt_tokens *t);

#ifdef __cplusplus
}
#endif
#endif
