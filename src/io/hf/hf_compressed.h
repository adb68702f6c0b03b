/* Reads folders of compressed-tensors: settings of quantization_config, and weights as detent's
 * codes. */
#ifndef DT__IO_HF_COMPRESSED_H
#define DT__IO_HF_COMPRESSED_H

#include "io/hf/hf.h"

/* How tensors are quantized: num_bits, strategy, ... */
typedef struct dt__hf_arguments {
    bool given;
    int64_t bits, group; /* group 0: none */
    /* local: scales of blocks are dynamic, that of the tensor is static */
    bool symmetric, dynamic, local;
    const char *type, *strategy, *scale_dtype; /* NULL: absent */
} dt__hf_arguments;

/* A group of layers with the same settings. Its targets are "Linear", paths, or "re:" and a regular
 * expression. */
typedef struct dt__hf_group {
    dt__hf_arguments weight, input;
    const char *format; /* NULL: the format of the whole folder */
    const char **target;
    int64_t n, room;
} dt__hf_group;

typedef struct dt__hf_groups {
    dt_ctx *ctx;
    const char *path; /* of config.json, for messages */
    const char *method, *format;
    dt__hf_group *at;
    int64_t n, room;
    char *strings;
} dt__hf_groups;

/* Reads "quantization_config" of config.json; out->n is 0 if there is none, or not one of
 * compressed-tensors. Errors: FORMAT, UNSUPPORTED (naming the setting), NOMEM. */
dt_status dt__hf_groups_read(dt_ctx *ctx, const dt__hf_text *config, dt__hf_groups *out);
void dt__hf_groups_free(dt__hf_groups *g);
/* The scheme of weights of type float: FP4 in blocks of 16 or 32, FP6 and FP8 in blocks of 32; -1:
 * they are integers. */
int dt__hf_float_scheme(const dt__hf_arguments *weight);
/* Likewise for inputs, whose scales compressed-tensors rounds to nearest. */
int dt__hf_input_scheme(const dt__hf_arguments *input);

/* Adds codes, scales and zero points of a layer to the folder when `e` is its first tensor. *taken:
 * `e` belongs to such a layer, and the caller must not add it. Appends to `quant`
 * (detent.quant). */
dt_status dt__hf_take_integers(dt_file *folder, const dt_file *part, const dt_file_entry *e,
                               const dt__hf_groups *g, dt__chars *quant, bool *taken);
/* Whether the parts hold the head as integers; it is then not tied. */
bool dt__hf_has_integer_head(const dt_file *folder);

#endif
