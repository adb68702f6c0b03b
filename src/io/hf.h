/* Inside Hugging Face folders: config.json, shards, and the same as one open file. */
#ifndef DT__IO_HF_H
#define DT__IO_HF_H

#include "io/grouped_files.h"

#include <detent/nn.h>

#define DT__HF_CONFIG "config.json"
#define DT__HF_SINGLE "model.safetensors"
#define DT__HF_INDEX "model.safetensors.index.json"
#define DT__HF_TOKENIZER "tokenizer.json"
#define DT__HF_OWN_TOKENIZER "detent_tokenizer.json" /* one of bytes or characters */

/* A file of a folder, in memory. */
typedef struct dt__hf_text {
    const char *path; /* for messages */
    const char *text; /* NUL behind it */
    size_t bytes;
} dt__hf_text;

/* The path of FOLDER/NAME, to be released, once it is known to lead to a file of the folder, or of
 * the hub's cache that the folder belongs to. *out NULL: there is no such file. Errors: FORMAT (it
 * leads elsewhere), NOMEM. */
dt_status dt__hf_path(dt_ctx *ctx, const char *folder, const char *name, char **out);
/* Reads it whole; text and path of *out are to be released by dt__hf_text_free. text NULL: no such
 * file. Errors: IO, FORMAT (more than `most` bytes), NOMEM. */
dt_status dt__hf_text_read(dt_ctx *ctx, const char *folder, const char *name, size_t most,
                           dt__hf_text *out);
void dt__hf_text_free(dt_ctx *ctx, dt__hf_text *text);
/* A scanner over it; *strings is to be released. */
dt_status dt__hf_scan(dt_ctx *ctx, const dt__hf_text *text, dt__json *j, char **strings);

/* ---- config.json (hf_config.c, hf_config_put.c) --------------------------------------------- */

/* What it means. Errors: FORMAT (no JSON, a wrong type, a key that is missing), UNSUPPORTED (a
 * setting that family llama does not have), naming the key. */
dt_status dt__hf_config_read(dt_ctx *ctx, const dt__hf_text *text, dt_llama_options *out);
/* The text again, with another dtype of the weights ("F16"); where it says the same as
 * `options`. */
dt_status dt__hf_config_again(dt__chars *t, const dt__hf_text *text, const char *dtype);
/* A new one. UNSUPPORTED where no class of models has such options. */
dt_status dt__hf_config_put(dt__chars *t, const dt_llama_options *o, const char *dtype);

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
    bool tied_head;     /* the head stood in the folder, equal to the embedding it is tied to */
    const char *dtype;  /* of the tensors that `dtypes` does not name */
    dt__hf_pairs dtypes, files;
    char *strings;
} dt__hf_origin;

/* The text of an open folder. */
dt_status dt__hf_origin_put(dt_file *file, const char *folder, const dt__hf_text *config, bool tied,
                            dt__chars *t);
/* Reads it back. FORMAT; then there is nothing to free. */
dt_status dt__hf_origin_read(dt_ctx *ctx, const char *text, dt__hf_origin *out);
void dt__hf_origin_free(dt__hf_origin *o);
const char *dt__hf_dtype_of(const dt__hf_origin *o, const char *name);
/* The constant text of a dtype that such folders may have; NULL for all others. */
const char *dt__hf_dtype(const char *name);
/* Whether it is there and UTF-8 without NUL. */
bool dt__hf_is_text(const dt__hf_text *t);

/* ---- mixtures of experts (hf_mixtral.c) ----------------------------------------------------- */

extern const dt__naming dt__hf_mixtral;
/* Tensors that a part has once those of all experts are cut; experts 0: there are none. */
int64_t dt__hf_tensors(const dt_file *part, int64_t experts);
/* Adds a tensor of a part to the folder's, as so many as it stands for. FORMAT, NOMEM. */
dt_status dt__hf_take(dt_file *folder, const dt_file *part, const dt_file_entry *e,
                      int64_t experts);

/* ---- tensors (hf_index.c, hf_folder.c) ------------------------------------------------------ */

/* Opens what holds the tensors: `file` gets its parts. Errors: IO, FORMAT. */
dt_status dt__hf_open_parts(dt_file *file, const char *folder);
/* dt_file_open of a folder. */
dt_status dt__hf_open(dt_ctx *ctx, const char *folder, dt_file **out);
/* Whether a tensor is a buffer of old exports, which is not read: rotary_emb.inv_freq. */
bool dt__hf_is_skipped(const char *name);

#endif
