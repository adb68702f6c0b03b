/* Files of adapters hold the trained tensors beside a converted model, their base, and the name of
 * its file.
 *
 *     detent.base = { "path": "base.safetensors", "xxh3": "0123456789abcdef" }
 *
 * A relative path is looked for in the folder of the file of adapters, then in its parent folders,
 * up to the third: checkpoints of a run find the base in the run's folder. */
#ifndef DT__IO_MODEL_BASE_H
#define DT__IO_MODEL_BASE_H

#include "io/model/model.h"

/* Whether a file holds adapters, but not their base. */
bool dt__has_base(const dt_file *file);

/* Opens and checks the base of such a file. Errors: FORMAT (malformed metadata, another hash, or
 * the base has a base itself), IO (no such file; the message lists the tried paths), NOMEM. */
dt_status dt__base_open(const dt_file *file, dt_file **out);

/* FORMAT unless both metadata texts name a file with the same hash; NULL: a model without a base.
 * `path`, for the message, is the file with the first text. */
dt_status dt__base_compare(dt_ctx *ctx, const char *path, const char *of_file,
                           const char *of_model);

/* Whether a parameter is not trained, so that it is in the base and not in files of adapters. */
bool dt__is_of_base(const dt_module *m, const char *path, const dt_tensor *x, dt_entry_kind kind);

#endif
