/* Internals of Hugging Face folders: config.json, shards, and the folder as one open file. */
#ifndef DT__IO_HF_H
#define DT__IO_HF_H

#include "io/grouped_files.h"

#include <detent/nn.h>

#define DT__HF_CONFIG "config.json"
#define DT__HF_SINGLE "model.safetensors"
#define DT__HF_INDEX "model.safetensors.index.json"
#define DT__HF_TOKENIZER "tokenizer.json"
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

/* ---- config.json (hf_config.c, hf_config_put.c) --------------------------------------------- */

/* Whether dt_hf_save could write a model of this family with these options, whatever its weights
 * are: OK, or its UNSUPPORTED. `info` may be NULL. */
dt_status dt__hf_check(dt_ctx *ctx, const dt_model_info *info);

/* Parses config.json. Errors: FORMAT (not JSON, a wrong type, a missing key), UNSUPPORTED (a
 * setting that family llama does not have), naming the key. */
dt_status dt__hf_config_read(dt_ctx *ctx, const dt__hf_text *text, dt_llama_options *out);
/* Appends the text with `dtype` ("F16") as the dtype of the weights. */
dt_status dt__hf_config_again(dt__chars *t, const dt__hf_text *text, const char *dtype);
/* A new config.json. UNSUPPORTED if no model class has such options. */
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
    bool tied_head;     /* the folder had lm_head, equal to the embedding it is tied to */
    const char *dtype;  /* of all tensors that `dtypes` does not name */
    dt__hf_pairs dtypes, files;
    char *strings;
} dt__hf_origin;

/* The metadata text of an open folder. */
dt_status dt__hf_origin_put(dt_file *file, const char *folder, const dt__hf_text *config, bool tied,
                            dt__chars *t);
/* Parses it. After FORMAT there is nothing to free. */
dt_status dt__hf_origin_read(dt_ctx *ctx, const char *text, dt__hf_origin *out);
void dt__hf_origin_free(dt__hf_origin *o);
const char *dt__hf_dtype_of(const dt__hf_origin *o, const char *name);
/* The string constant of a dtype that such folders may have; NULL for others. */
const char *dt__hf_dtype(const char *name);
/* Whether the text exists and is UTF-8 without NUL. */
bool dt__hf_is_text(const dt__hf_text *t);

/* ---- mixtures of experts (hf_mixtral.c) ----------------------------------------------------- */

extern const dt__naming dt__hf_mixtral;
/* The number of tensors of a part after tensors of all experts are split; experts 0: none. */
int64_t dt__hf_tensors(const dt_file *part, int64_t experts);
/* Adds a tensor of a part to the folder's; a tensor of all experts is split. FORMAT, NOMEM. */
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
