/* Internals of Hugging Face folders: config.json, shards, and the folder as one open file. */
#ifndef DT__IO_HF_H
#define DT__IO_HF_H

#include "io/model/grouped_files.h"
#include "io/hf/hf_names.h"
#include "io/model/model.h"

#include <detent/experimental/nn.h>
#include <detent/experimental/text.h>

#define DT__HF_CONFIG "config.json"
#define DT__HF_SINGLE "model.safetensors"
#define DT__HF_INDEX "model.safetensors.index.json"
#define DT__HF_TOKENIZER "tokenizer.json"
#define DT__HF_EXTRA_MOST ((size_t)16 << 20) /* bytes of a file beside these; Gemma 3 has 1.2 MB */
#define DT__HF_OWN_TOKENIZER "detent_tokenizer.json" /* a tokenizer of bytes or characters */

/* A file of a folder, in memory. */
typedef struct dt__hf_text {
    const char *path; /* for messages */
    const char *text; /* followed by NUL */
    size_t bytes;
} dt__hf_text;

/* The path of FOLDER/NAME, which the caller frees, if it is a file of the folder or of the hub's
 * cache to which the folder belongs. *out NULL: there is no such file. Errors: FORMAT (it links
 * elsewhere), NOMEM. */
dt_status dt__hf_path(dt_ctx *ctx, const char *folder, const char *name, char **out);
/* Reads a whole file; the caller frees text and path of *out with dt__hf_text_free. text NULL: no
 * such file. Errors: IO, FORMAT (more than `most` bytes), NOMEM. */
dt_status dt__hf_text_read(dt_ctx *ctx, const char *folder, const char *name, size_t most,
                           dt__hf_text *out);
void dt__hf_text_free(dt_ctx *ctx, dt__hf_text *text);
/* A scanner of the text; the caller frees *strings. */
dt_status dt__hf_scan(dt_ctx *ctx, const dt__hf_text *text, dt__json *j, char **strings);

bool dt__hf_is_in(const char *const *list, const char *name); /* the list ends with NULL */

/* ---- config.json (hf_config.c, hf_config_put.c) --------------------------------------------- */

/* OK if dt_hf_save (with `integers`: dt__hf_save_as with a form) supports this family with these
 * options, whatever the weights are; else its UNSUPPORTED. `info` may be NULL. */
dt_status dt__hf_check(dt_ctx *ctx, const dt_model_info *info, bool integers);

/* Ids that a class uses where config.json gives none; -1: none. */
typedef struct dt__hf_token_defaults {
    int32_t begin, end, pad;
} dt__hf_token_defaults;

/* The contents of config.json. */
typedef struct dt__hf_model {
    const char *type; /* model_type */
    dt__hf_token_defaults tokens;
    bool is_gpt; /* family gpt; else family llama */
    dt_llama_options llama;
    dt_gpt_options gpt;
    const dt__hf_names *names; /* names of the class's tensors; NULL: the same as the family's */
} dt__hf_model;
/* The options; *keys receives the table of their keys. Then the paths of the token embedding and of
 * the head. */
const void *dt__hf_options_of(const dt__hf_model *m, const dt_key **keys);
const char *dt__hf_tokens(bool is_gpt);
const char *dt__hf_head(bool is_gpt);

/* Parses config.json. Errors: FORMAT (not JSON, a wrong type, a missing key), UNSUPPORTED (a
 * setting that the family does not have), naming the key. */
dt_status dt__hf_config_read(dt_ctx *ctx, const dt__hf_text *text, dt__hf_model *out);
/* A folder that is being opened, or written again after it was opened. */
typedef struct dt__hf_place {
    dt_ctx *ctx;
    const char *folder;
    const dt__hf_text *config;
    /* holds the folder's other files; NULL: they are read from the folder */
    const struct dt__hf_origin *origin;
} dt__hf_place;

/* A file beside config.json and the tokenizer. text NULL: there is none, or it is not UTF-8, which
 * a warning says. Errors: IO, FORMAT, NOMEM. */
typedef struct dt__hf_extra {
    dt__hf_text it;
    bool lent;
} dt__hf_extra;
dt_status dt__hf_extra_read(const dt__hf_place *p, const char *name, dt__hf_extra *out);
void dt__hf_extra_free(const dt__hf_place *p, dt__hf_extra *text);

/* Warns of keys of the folder's files that are not used (hf_keys.c). Errors: UNSUPPORTED (a key
 * that the class does not have, with a value that changes the results), FORMAT, NOMEM. */
dt_status dt__hf_check_keys(const dt__hf_place *p, const char *class);
/* Finds the tokens that begin, end and pad texts (hf_tokens.c); `k` NULL: the folder has no
 * tokenizer. Errors: FORMAT, UNSUPPORTED, NOMEM. */
dt_status dt__hf_find_tokens(const dt__hf_place *p, const dt__hf_model *model,
                             const dt_tokenizer *k, dt_text_tokens *out);

/* Compares tokenizer_config.json with the folder's tokenizer (hf_tokenizer.c). If they differ, the
 * tokenizer is used, and a warning says so. Errors: UNSUPPORTED (ids would differ), FORMAT,
 * NOMEM. */
dt_status dt__hf_check_tokenizer(const dt__hf_place *p, const dt_tokenizer *k);

/* Appends the text with `dtype` ("F16") as the dtype of the weights. */
dt_status dt__hf_config_again(dt__chars *t, const dt__hf_text *text, const char *dtype);
/* Appends the JSON object without these keys (ended by NULL), and with the text `added` at its end,
 * in the form of dt__hf_put_key; NULL: nothing is added. */
dt_status dt__hf_put_without(dt__chars *t, const dt__hf_text *text, const char *const *keys,
                             const char *added);

/* How a new config.json is written. */
typedef struct dt__hf_new {
    const char *dtype;
    bool integers;    /* choose a class whose tensor names are the family's */
    const char *type; /* choose this model_type, if it fits; NULL: any */
} dt__hf_new;
/* Writes a new config.json; GPT-2 or GPT-NeoX if the options are of family gpt. UNSUPPORTED if no
 * model class has such options. */
dt_status dt__hf_config_put(dt__chars *t, bool is_gpt, const void *options, const dt__hf_new *how);
/* The tensor names of the class that this config.json would describe; NULL: the family's names. */
const dt__hf_names *dt__hf_names_for(bool is_gpt, const void *options, const dt__hf_new *how);

/* ---- tokens that are written (hf_put_tokens.c) ----------------------------------------------- */

typedef struct dt__hf_said {
    const dt_text_tokens *tokens;
    const dt_tokenizer *tokenizer; /* of the folder; NULL: none that transformers can read */
} dt__hf_said;

/* Appends keys of config.json, as dt__hf_put_key does. */
void dt__hf_put_ids(dt__chars *t, const dt_text_tokens *k);
/* Whether a file of this name contains ids or texts of such tokens. */
bool dt__hf_has_tokens(const char *name);
/* Appends the file text->path with these tokens in place of its own; text->text NULL: a new one.
 * Errors: FORMAT, NOMEM. */
dt_status dt__hf_put_said(dt__chars *t, const dt__hf_text *text, const dt__hf_said *s);

/* ---- saving (hf_save.c, hf_join.c) ---------------------------------------------------------- */

/* How a folder holds a converted model's integers in place of their values. All tensors that are
 * floats are F32 then, and embeddings are stored as values; a tied head that is quantized becomes a
 * separate weight. */
typedef struct dt__hf_form {
    /* Adds the tensors of a converted weight to keep->writer; `name` is the weight's name in the
     * file. */
    dt_status (*add)(void *user, dt__saving *keep, const char *name, const dt_tensor *x);
    /* Called for each tensor that was added unquantized; NULL: none. */
    dt_status (*added)(void *user, const char *name);
    /* Appends the value of "quantization_config" in config.json. */
    void (*put_config)(void *user, dt__chars *t);
    /* Adds metadata of the file, after all tensors; NULL: none. */
    dt_status (*put_meta)(void *user, dt_writer *w);
    void *user;
} dt__hf_form;

/* A tensor of the folder that consists of several of the model's (dt__hf_row). */
typedef struct dt__hf_joined {
    const dt__hf_row *row;
    const char *path; /* path of its first part in the model */
    int64_t heads;    /* number of heads, if rows are ordered by head */
    bool dequantize;  /* for prepared weights: take the dequantized values */
} dt__hf_joined;

/* Joins the model's parameters to that tensor; the caller frees it. */
dt_status dt__hf_join(dt_module *m, const dt__hf_joined *j, dt_tensor **out);

/* dt_hf_save with a form; NULL: floats. */
dt_status dt__hf_save_as(dt_module *m, const dt_model_info *info, const dt_hf_options *options,
                         const dt__hf_form *form, const char *folder);

/* ---- detent.hf (hf_origin.c) ----------------------------------------------------------------- */

typedef struct dt__hf_pair {
    const char *key, *value;
} dt__hf_pair;

typedef struct dt__hf_pairs {
    dt__hf_pair *at;
    int64_t n, room;
} dt__hf_pairs;

typedef struct dt__hf_origin {
    dt_ctx *ctx;
    const char *config; /* text of config.json */
    bool tied_head;     /* the folder had lm_head, equal to the embedding to which it is tied */
    const char *dtype;  /* dtype of all tensors that `dtypes` does not list */
    dt__hf_pairs dtypes, files;
    char *strings;
} dt__hf_origin;

/* Writes the metadata text of an open folder. */
dt_status dt__hf_origin_put(dt_file *file, const char *folder, const dt__hf_text *config,
                            const dt__hf_model *model, dt__chars *t);
/* Parses it. After FORMAT there is nothing to free. */
dt_status dt__hf_origin_read(dt_ctx *ctx, const char *text, dt__hf_origin *out);
void dt__hf_origin_free(dt__hf_origin *o);
/* The file in the metadata that holds the chat template: chat_template.jinja, else
 * tokenizer_config.json. The caller frees *out; NULL: neither exists. FORMAT, NOMEM. */
dt_status dt__hf_chat_template(dt_ctx *ctx, const char *text, char **out);

/* The Jinja chat template to write with a model: that of its source (detent.hf), unless it was
 * trained on chats of another form or with another system message (detent.data); then the template
 * of that form. NULL: none. The caller frees it. Errors: FORMAT, NOMEM. */
dt_status dt__hf_chat_of_model(dt_ctx *ctx, const dt_model_info *info, char **out);
const char *dt__hf_dtype_of(const dt__hf_origin *o, const char *name);
/* The dtype's name as a string constant; NULL if such folders cannot have it. */
const char *dt__hf_dtype(const char *name);
/* Whether the text exists and is UTF-8 without NUL. */
bool dt__hf_is_text(const dt__hf_text *t);

/* ---- mixtures of experts (hf_mixtral.c) ----------------------------------------------------- */

extern const dt__naming dt__hf_mixtral;
/* The number of tensors of a part after stacked experts are split; experts 0: none. */
int64_t dt__hf_tensors(const dt_file *part, int64_t experts);
/* Adds a tensor of a part to the folder's tensors; stacked experts are split. FORMAT, NOMEM. */
dt_status dt__hf_take(dt_file *folder, const dt_file *part, const dt_file_entry *e,
                      int64_t experts);

/* ---- tensors (hf_index.c, hf_folder.c) ------------------------------------------------------ */

/* Opens the files that hold the tensors, as parts of `file`. Errors: IO, FORMAT. */
dt_status dt__hf_open_parts(dt_file *file, const char *folder);
/* dt_file_open for a folder. */
dt_status dt__hf_open(dt_ctx *ctx, const char *folder, dt_file **out);
/* Whether a tensor is a buffer of old exports that is ignored: rotary_emb.inv_freq. */
bool dt__hf_is_skipped(const char *name);

#endif
