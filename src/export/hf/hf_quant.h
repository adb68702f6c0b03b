/* Quantized weights in folders of transformers: which there are, and what the formats cannot
 * hold. */
#ifndef DT__EXPORT_HF_QUANT_H
#define DT__EXPORT_HF_QUANT_H

#include "core/refusals.h"
#include "io/hf/hf.h"

#include <detent/experimental/export.h>

/* A linear layer with a quantized weight, or that of experts, [experts, out, in]. */
typedef struct dt__hf_quant {
    const char *path;   /* of the layer, lent by it */
    const dt_tensor *x; /* its weight */
    dt_quant_spec weight;
    bool has_input;      /* its input is quantized: */
    dt_quant_spec input; /* to int8 a token, or in blocks of small floats */
    float input_global;  /* of nvfp4: the scale of the tensor; else 0 */
    int64_t group;       /* columns that share a scale; 0: a row */
    bool whole;          /* the weight has one scale */
    int kind;            /* layers with equal settings have one kind */
} dt__hf_quant;

typedef struct dt__hf_quants {
    dt_ctx *ctx;
    bool experts; /* they are held, too: all with one setting */
    bool floats;  /* codes that are E4M3 are held, too, and inputs in blocks of small floats */
    dt__hf_quant *at;
    int64_t n, room;
    int kinds;
    const char **plain; /* paths of linear layers whose weight is float */
    int64_t n_plain, room_plain;
} dt__hf_quants;

/* Lists the linear layers of a prepared or converted model; out->experts is read, all else is
 * written. UNSUPPORTED with all that such folders cannot hold, by the name of the format; NOMEM.
 * After an error there is nothing to free. */
dt_status dt__hf_quants_of(const dt_export_call *call, const char *format, dt__hf_quants *out);
void dt__hf_quants_free(dt__hf_quants *q);
/* The layer of a weight with this name in the file; NULL: none. */
const dt__hf_quant *dt__hf_quant_of(const dt__hf_quants *q, const char *name);
/* The first layer of a kind. */
const dt__hf_quant *dt__hf_kind(const dt__hf_quants *q, int kind);
/* The bytes of a folder's tensors; 0 where it cannot be asked. */
size_t dt__hf_bytes(const char *folder);
/* Codes and scales of a converted weight, in memory of `keep`. NOMEM. */
dt_status dt__hf_rows(dt__saving *keep, const dt_tensor *x, dt_code_rows *rows);

#endif
