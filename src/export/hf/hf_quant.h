/* Lists quantized weights for folders of transformers, and refuses what the formats cannot
 * store. */
#ifndef DT__EXPORT_HF_QUANT_H
#define DT__EXPORT_HF_QUANT_H

#include "core/refusals.h"
#include "io/hf/hf.h"

#include <detent/experimental/export.h>

/* A linear layer with a quantized weight, or the experts', [experts, out, in]. */
typedef struct dt__hf_quant {
    const char *path;   /* path of the layer, lent */
    const dt_tensor *x; /* its weight */
    dt_quant_spec weight;
    bool has_input;      /* its input is quantized: */
    dt_quant_spec input; /* int8 per token, or blocks of small floats */
    float input_global;  /* nvfp4: scale of the tensor; else 0 */
    int64_t group;       /* columns per scale; 0: a row */
    bool whole;          /* one scale for the whole weight */
    int kind;            /* index of its settings; layers with equal settings have the same */
} dt__hf_quant;

typedef struct dt__hf_quants {
    dt_ctx *ctx;
    bool experts; /* the format supports experts, all with the same settings */
    bool floats;  /* the format supports E4M3 codes, and inputs in blocks of small floats */
    dt__hf_quant *at;
    int64_t n, room;
    int kinds;
    const char **plain; /* paths of float linear layers */
    int64_t n_plain, room_plain;
} dt__hf_quants;

/* Lists the linear layers of a prepared or converted model. out->experts and out->floats are
 * inputs, the other fields outputs. UNSUPPORTED, listing all that such folders cannot store, with
 * the format's name; NOMEM. After an error there is nothing to free. */
dt_status dt__hf_quants_of(const dt_export_call *call, const char *format, dt__hf_quants *out);
void dt__hf_quants_free(dt__hf_quants *q);
/* The layer whose weight has this name in the file; NULL: none. */
const dt__hf_quant *dt__hf_quant_of(const dt__hf_quants *q, const char *name);
/* The first layer with these settings. */
const dt__hf_quant *dt__hf_kind(const dt__hf_quants *q, int kind);
/* The bytes of a folder's tensors; 0 if unknown. */
size_t dt__hf_bytes(const char *folder);
/* Codes and scales of a converted weight, in memory of `keep`. NOMEM. */
dt_status dt__hf_rows(dt__saving *keep, const dt_tensor *x, dt_code_rows *rows);

#endif
