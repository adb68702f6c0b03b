/* OUT.partial, the saved state of an interrupted quantization: a model file, some of whose weights
 * are packed already, with metadata that identify its source. */
#ifndef DT__TRAIN_PARTIAL_H
#define DT__TRAIN_PARTIAL_H

#include "io/safetensors/safetensors.h"

#include <detent/experimental/train.h>

/* What a partial result depends on. Two with the same origin lead to the same bytes. */
typedef struct dt__origin_of {
    char source[DT__HASH_DIGITS + 1];      /* XXH3-64 of the file that is quantized */
    char calibration[DT__HASH_DIGITS + 1]; /* XXH3-64 of the calibration batches */
    char *settings;                        /* JSON */
} dt__origin_of;

typedef struct dt__partial {
    dt_ctx *ctx;
    char *path;
    dt__origin_of origin;
} dt__partial;

/* XXH3-64 of a file's bytes. */
dt_status dt__partial_hash(dt_ctx *ctx, const char *path, char digits[DT__HASH_DIGITS + 1]);

/* dt_file_check of a partial result, which must have a hash; files of other programs need none. */
dt_status dt__partial_check(const dt_file *file);
/* Loads the partial result and its part of the report, if it exists and has the same origin; else
 * *m stays NULL, and the log says why an existing file was not used. Errors: NOMEM. */
dt_status dt__partial_load(const dt__partial *p, dt_module **m, dt_quantize_summary *s);
/* Errors: those of dt_model_save. */
dt_status dt__partial_save(const dt__partial *p, dt_module *m, const dt_model_info *info,
                           const dt_quantize_summary *s);
/* Removes the file when the quantization is done. If that fails, warns. */
void dt__partial_remove(dt_ctx *ctx, const char *path);

#endif
