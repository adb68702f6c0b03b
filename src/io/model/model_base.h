/* Files of adapters: they hold what is trained beside a converted model, their base, and say which
 * file that is.
 *
 *     detent.base = { "path": "base.safetensors", "xxh3": "0123456789abcdef" }
 *
 * A relative path is looked for in the folder of the file of adapters, then in those above it, up
 * to the third: checkpoints of a run find the base in the run's folder. */
#ifndef DT__IO_MODEL_BASE_H
#define DT__IO_MODEL_BASE_H

#include "io/model/model.h"

/* Whether a file holds adapters without their base. */
bool dt__has_base(const dt_file *file);

/* Opens and checks the base of such a file. Errors: FORMAT (a malformed text, a file with another
 * hash, or one that has a base itself), IO (no such file; the message says where it was looked
 * for), NOMEM. */
dt_status dt__base_open(const dt_file *file, dt_file **out);

/* FORMAT unless both texts name a file with the same hash; NULL: a model without a base. `path` is
 * the file of the first, for the message. */
dt_status dt__base_compare(dt_ctx *ctx, const char *path, const char *of_file,
                           const char *of_model);

/* Whether a parameter is the base's, and not written into files of adapters: it is not trained. */
bool dt__is_of_base(const dt_module *m, const char *path, const dt_tensor *x, dt_entry_kind kind);

#endif
