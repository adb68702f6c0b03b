/* The calibration cache: activations of one batch, kept while a model is quantized layer by layer.
 *
 * Layers become final in the order in which they run. A calibration pass runs the model on the
 * batch up to the first module that the caller asks for, stops there before that module computes,
 * and hands out its input. The results of modules that returned on the way are kept. All of them
 * are final by then, so the next pass over the same batch takes them in place of computing.
 *
 * Kept are the results of the outermost modules that have returned, in the order of their calls,
 * which is the same in every pass. A result is freed as soon as nothing that runs later can read
 * it.
 *
 * Conditions: modules hand on what they compute by returning it, and compute the same from the same
 * inputs, so they run in evaluation mode and nothing is recorded. Ops are not fused in such a pass,
 * since the modules within a fused op have no results of their own; the bits are the same. */
#ifndef DT__NN_CALIB_CACHE_H
#define DT__NN_CALIB_CACHE_H

#include "nn/module.h"

/* Bytes that several caches may hold together. */
typedef struct dt__calib_budget {
    size_t limit, used;
} dt__calib_budget;

typedef struct dt__calib_call dt__calib_call;

/* Of one batch. Set m and budget, and the rest to zero. */
typedef struct dt__calib_cache {
    dt_module *m;             /* what passes run */
    dt__calib_budget *budget; /* limit 0: nothing is kept */
    dt__calib_call *call;
    int64_t n, room_calls;
    size_t bytes;                /* its share of the budget */
    bool disabled;               /* a result was missing once: every pass computes everything */
    struct dt__calib_pass *pass; /* the one that is running; NULL: none */
} dt__calib_cache;

/* Where a pass stops: at the first module for which this is true. */
typedef struct dt__calib_target {
    bool (*is)(void *user, const dt_module *m);
    void *user;
} dt__calib_target;

/* The module at which a pass stopped (NULL: the model ran to its end), and its first inputs as it
 * would compute with them: after its hooks, dequantized, contiguous; NULL where it has fewer. */
typedef struct dt__calib_stop {
    dt_module *at;
    dt_tensor *input[2];
} dt__calib_stop;

/* Runs a pass over batch x, the one of this cache, on t, which is reset before and after. Where
 * results would exceed the budget, none are kept and the next pass computes everything. Errors:
 * those of the model; NOMEM. */
dt_status dt__calib_run(dt__calib_cache *cache, dt_tape *t, dt_tensor *x,
                        const dt__calib_target *target, dt__calib_stop *stop);
/* Frees the inputs. */
void dt__calib_stop_free(dt__calib_stop *stop);
/* Frees all results; the next pass computes everything. */
void dt__calib_clear(dt__calib_cache *cache);

/* ---- for src/nn/forward.c; without a calibration pass on t they do nothing ------------------ */

/* Whether an earlier pass kept what m is about to return: then `out` has it, or t has an error. */
bool dt__calib_returns(dt_tape *t, const dt_module *m, dt_tensor **out, int n_out);
/* The number of calls so far: where those within a module that starts now will be. */
int64_t dt__calib_position(const dt_tape *t);
/* Whether the pass stops here, where m has inputs x. */
bool dt__calib_stops(dt_tape *t, dt_module *m, dt_tensor *const *x, int n);
/* m, which started at `position`, has returned `out`: keeps it. */
void dt__calib_keep(dt_tape *t, const dt_module *m, int64_t position, dt_tensor *const *out,
                    int n_out);

#endif
