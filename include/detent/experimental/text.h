/* text.h: tokenizers, which convert text to ids and ids to text, and files of ids. */
#ifndef DETENT_EXPERIMENTAL_TEXT_H
#define DETENT_EXPERIMENTAL_TEXT_H

#include <detent/experimental/detent.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a whole file, plain or gzip, of at most 2^40 bytes, without a UTF-8 byte order mark at its
 * beginning, and appends a NUL; free it by dt_text_free. Gzip files of more than 16 MiB may be
 * compressed by a factor of 100 at most. Errors: IO, FORMAT (damaged gzip, too much content, a
 * UTF-16 byte order mark), NOMEM. */
DT_API dt_status dt_text_read(dt_ctx *ctx, const char *path, char **text, size_t *bytes);
DT_API void dt_text_free(dt_ctx *ctx, char *text); /* NULL is allowed */

/* ---- tokenizers ----------------------------------------------------------------------------- */

/* Divides text into tokens, each a byte string with an id. Immutable: any thread may use it. Its
 * memory belongs to its context. */
typedef struct dt_tokenizer dt_tokenizer;

/* Ids, in the memory of `ctx`; {0} is an empty list, to which encoding assigns the tokenizer's
 * context. */
typedef struct dt_ids {
    dt_ctx *ctx;
    int32_t *id;
    int64_t n, room;
} dt_ids;

/* Appends an id to a list that has a context. Errors: NOMEM. */
DT_API dt_status dt_ids_put(dt_ids *ids, int32_t id);

/* Frees the memory; the list is then empty. */
DT_API void dt_ids_free(dt_ids *ids);

/* A tokenizer whose tokens are the 256 bytes, each its own id. Errors: NOMEM. */
DT_API dt_status dt_tokenizer_bytes(dt_ctx *ctx, dt_tokenizer **out);

/* A tokenizer whose tokens are the characters of a text, in the order of their code points. Errors,
 * naming the place: ARG (no text), FORMAT (not UTF-8), NOMEM. */
DT_API dt_status dt_tokenizer_chars(dt_ctx *ctx, const char *text, size_t bytes,
                                    dt_tokenizer **out);

/* Reads what dt_tokenizer_text wrote, or a BPE in the form of Hugging Face's tokenizer.json:
 * byte-level, split as in GPT-2, Llama 3, Qwen2 or SmolLM2, or of sentencepiece with byte_fallback,
 * as in Gemma, Phi-3 and TinyLlama; with normalizers, added tokens and a template (docs/data.md has
 * the table). A setting that would change ids and is not supported (other expressions and
 * normalizers, prefix space, dropout) is an error that names it. Messages contain `name`. Errors:
 * FORMAT, UNSUPPORTED, NOMEM. */
DT_API dt_status dt_tokenizer_parse(dt_ctx *ctx, const char *text, size_t bytes, const char *name,
                                    dt_tokenizer **out);

/* The same for a file, plain or gzip. Errors: also IO. */
DT_API dt_status dt_tokenizer_read(dt_ctx *ctx, const char *path, dt_tokenizer **out);

/* Writes a tokenizer to a file, whole or not at all. Errors: IO, NOMEM. */
DT_API dt_status dt_tokenizer_write(const dt_tokenizer *k, const char *path);

/* Releases a tokenizer. NULL is allowed. */
DT_API void dt_tokenizer_free(dt_tokenizer *k);

/* The tokenizer as JSON, which dt_tokenizer_parse reads; a BPE's is a tokenizer.json. Equal
 * tokenizers give equal texts. Errors: those of the sink, NOMEM. */
DT_API dt_status dt_tokenizer_text(const dt_tokenizer *k, dt_sink sink, void *user);

/* "bytes", "chars" or "bpe". */
DT_API const char *dt_tokenizer_kind(const dt_tokenizer *k);

/* 1 + the largest id: the least `vocab` of a model. */
DT_API int64_t dt_tokenizer_vocab(const dt_tokenizer *k);

typedef struct dt_encoding {
    bool
        /* added tokens ("<|endoftext|>") in the text become their ids; default false: they are
         * ordinary text, which untrusted text must be */
        special;
    bool wrap; /* add the template's tokens before and after the text, such as begin_of_text */
} dt_encoding;

/* Appends the ids of a text; `o` NULL means the defaults. Any bytes are allowed, and decode to
 * themselves, except those that a normalizer changes (sentencepiece turns U+2581 into a space); a
 * tokenizer of characters only accepts its own characters. After an error the list is unchanged.
 * Errors: FORMAT (a character that is not a token, with its place), NOMEM. */
DT_API dt_status dt_tokenizer_encode(const dt_tokenizer *k, const char *text, size_t bytes,
                                     const dt_encoding *o, dt_ids *ids);

/* The bytes of the tokens, one after the other; they need not be UTF-8. An id without a token gives
 * no bytes (models may have spare rows), nor does a special token with skip_special. Errors: ARG (a
 * negative id), those of the sink. */
DT_API dt_status dt_tokenizer_decode(const dt_tokenizer *k, const int32_t *ids, int64_t n,
                                     bool skip_special, dt_sink sink, void *user);

/* The same for tokens that continue a text: the space that some tokenizers (Llama 2's) insert
 * before a text and remove from its beginning is not removed. */
DT_API dt_status dt_tokenizer_decode_on(const dt_tokenizer *k, const int32_t *ids, int64_t n,
                                        bool skip_special, dt_sink sink, void *user);

/* The id of a token with this text, added tokens first; -1: none. */
DT_API int32_t dt_tokenizer_id(const dt_tokenizer *k, const char *token);

/* The token that ends a text: the first end of dt_tokenizer_tokens; if there is none, whichever of
 * <|endoftext|>, <|end_of_text|>, </s> or <eos> was added; -1: none. */
DT_API int32_t dt_tokenizer_end(const dt_tokenizer *k);

/* ---- tokens of a model ---------------------------------------------------------------------- */

/* The largest number of tokens that end a text. */
#define DT_MOST_ENDS 64

/* The tokens by which a model begins, ends and pads its texts. */
typedef struct dt_text_tokens {
    int32_t begin, pad;        /* -1: none */
    int n_end;                 /* 0: the model defines none */
    int32_t end[DT_MOST_ENDS]; /* each ends a text; training data use the first */
} dt_text_tokens;
/* For a model that defines none. */
#define DT_NO_TEXT_TOKENS ((dt_text_tokens){ -1, -1, 0, { 0 } })

/* Parses the text that a model file keeps of these tokens (dt_model_info.tokens); NULL gives none.
 * Messages contain `name`. Errors: FORMAT, NOMEM. */
DT_API dt_status dt_text_tokens_parse(dt_ctx *ctx, const char *text, const char *name,
                                      dt_text_tokens *out);
/* Whether the id is one of the ends. */
DT_API bool dt_text_tokens_end(const dt_text_tokens *t, int32_t id);

/* A model's own tokenizer, and the text of its tokens: the fields of its dt_model_info. */
typedef struct dt_tokenizer_texts {
    const char *tokenizer; /* input of dt_tokenizer_parse */
    const char *tokens;    /* input of dt_text_tokens_parse; NULL: none */
} dt_tokenizer_texts;

/* dt_tokenizer_parse for a model's own tokenizer, which gets the model's tokens. Errors: FORMAT,
 * UNSUPPORTED, NOMEM. */
DT_API dt_status dt_tokenizer_of_model(dt_ctx *ctx, const dt_tokenizer_texts *from,
                                       const char *name, dt_tokenizer **out);
/* The tokens that dt_tokenizer_of_model assigned; else none. */
DT_API dt_text_tokens dt_tokenizer_tokens(const dt_tokenizer *k);

/* ---- prompt formats ------------------------------------------------------------------------- */

/* Inserts a prompt into a format: a text with fields in braces, "Question: {question}\n", where {{
 * and }} stand for braces. `text` is the value of the only field; if the format has several, it is
 * a JSON object with a string for each of them. Writes the result to the sink. Errors: CONFIG (the
 * format's braces, no field, more than 16), FORMAT (not such an object, a missing field), those of
 * the sink, NOMEM. */
DT_API dt_status dt_prompt_fill(dt_ctx *ctx, const char *format, const char *text, size_t bytes,
                                dt_sink sink, void *user);

/* ---- chats ---------------------------------------------------------------------------------- */

/* How messages become one text. PLAIN works with any tokenizer; the others need tokenizers with
 * their tokens (docs/data.md has the texts). */
typedef enum dt_chat_template {
    DT_CHAT_AUTO,   /* for data: as the model or its tokenizer says */
    DT_CHAT_CHATML, /* <|im_start|>user\n...<|im_end|>\n, as Qwen and SmolLM2 */
    DT_CHAT_LLAMA3, /* <|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|> */
    DT_CHAT_PLAIN   /* User:\n...\n, and the end-of-text token after an answer */
} dt_chat_template;

typedef enum dt_chat_role { DT_ROLE_SYSTEM, DT_ROLE_USER, DT_ROLE_ASSISTANT } dt_chat_role;

typedef struct dt_message {
    int role; /* dt_chat_role */
    const char *text;
    size_t bytes;
} dt_message;

typedef struct dt_chat {
    int form;           /* dt_chat_template, not AUTO */
    const char *system; /* system message if the first message is not one; NULL: none */
} dt_chat;

/* Appends the ids of n messages, and of what begins an answer: the prompt of a chat. Messages are
 * ordinary text, whatever they contain. After an error the list is unchanged. Errors: ARG (an
 * unknown form or role), CONFIG (a token of the form that the tokenizer lacks), those of
 * dt_tokenizer_encode. */
DT_API dt_status dt_chat_prompt(const dt_tokenizer *k, const dt_chat *chat, const dt_message *m,
                                int64_t n, dt_ids *ids);

/* ---- files of ids --------------------------------------------------------------------------- */

/* A file of ids in little-endian u16 or u32, without a header. */
typedef struct dt_tokens dt_tokens;

/* Writes such a file, whole or not at all. `bytes_each` is 2, 4, or 0, which means 4 if the name
 * ends in .u32.bin, else 2. Errors: ARG (another size, an id that does not fit, with its place),
 * IO, NOMEM. */
DT_API dt_status dt_tokens_write(dt_ctx *ctx, const char *path, const int32_t *ids, int64_t n,
                                 int bytes_each);

/* Maps such a file, `bytes_each` as above. The file must not change until dt_tokens_free. Errors:
 * ARG, IO, FORMAT (a size that is not a multiple), NOMEM. */
DT_API dt_status dt_tokens_open(dt_ctx *ctx, const char *path, int bytes_each, dt_tokens **out);

DT_API int64_t dt_tokens_count(const dt_tokens *t); /* ids in the file */

/* Id i. Negative with an error on the context: ARG (i out of range), FORMAT (2^31 or more). */
DT_API int32_t dt_tokens_at(const dt_tokens *t, int64_t i);

/* Writes ids first, first + 1, ... to `ids`. Errors: ARG, FORMAT, as above. */
DT_API dt_status dt_tokens_read(const dt_tokens *t, int64_t first, int64_t n, int32_t *ids);

/* Unmaps the file. NULL is allowed. */
DT_API void dt_tokens_free(dt_tokens *t);

#ifdef __cplusplus
}
#endif
#endif
