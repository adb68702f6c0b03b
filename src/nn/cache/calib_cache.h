/* The calibration cache: activations of one batch, kept while a model is quantized layer by layer.
 *
 * Layers are quantized in the order in which they run. A calibration pass runs the model on the
 * batch up to the first module that the caller selects, stops before that module computes, and
 * returns its input. If a module around it runs it several times, the pass continues, with the
 * prepared weight, to the end of that outer module, to get the inputs of all calls. All modules
 * that returned before it are already quantized, so their results no longer change: the pass keeps
 * them, and the next pass over the same batch reads them instead of computing them again.
 *
 * The cache holds the results of the outermost modules that have returned, in the order of their
 * calls, which is the same in every pass. A result is freed as soon as no later call can read it.
 *
 * Conditions: a module passes results to others only by returning them, and computes the same from
 * the same inputs. Therefore a pass runs in evaluation mode and records nothing. Modules are not
 * fused in such a pass, since modules within a fused op have no results of their own; the bits are
 * the same. */
#ifndef DT__NN_CALIB_CACHE_H
#define DT__NN_CALIB_CACHE_H

#include "nn/module.h"

/* A limit on the bytes of several caches together. */
typedef struct dt__calib_budget {
    size_t limit, used;
} dt__calib_budget;

typedef struct dt__calib_call dt__calib_call;

/* The cache of one batch. Set m and budget, and the rest to zero. */
typedef struct dt__calib_cache {
    dt_module *m;             /* the model that passes run */
    dt__calib_budget *budget; /* limit 0: nothing is kept */
    dt__calib_call *call;
    int64_t n, room_calls;
    size_t bytes; /* its share of the budget */
    /* a result was missing once: from then on every pass computes everything */
    bool disabled;
    struct dt__calib_pass *pass; /* the running pass; NULL: none */
} dt__calib_cache;

/* Where a pass stops: at the first module for which this is true. */
typedef struct dt__calib_target {
    bool (*is)(void *user, const dt_module *m);
    void *user;
} dt__calib_target;

/* The first inputs of a call, after its hooks, dequantized and contiguous; NULL if there are
 * fewer. */
typedef struct dt__calib_inputs {
    dt_tensor *input[2];
} dt__calib_inputs;

/* The module at which a pass stopped (NULL: the model ran to its end), and its inputs: of its first
 * call or, where a module around it repeats (dt_module_type.repeats), of all calls in it. */
typedef struct dt__calib_stop {
    dt_module *at;
    dt__calib_inputs *call;
    int64_t n_calls, room_calls;
} dt__calib_stop;

/* Runs a pass over x, the batch of this cache, on t, which is reset before and after. If the
 * results exceed the budget, none are kept and the next pass computes everything. Errors: those of
 * the model; NOMEM. */
dt_status dt__calib_run(dt__calib_cache *cache, dt_tape *t, dt_tensor *x,
                        const dt__calib_target *target, dt__calib_stop *stop);
/* Frees the inputs. */
void dt__calib_stop_free(dt_ctx *ctx, dt__calib_stop *stop);
/* Frees all results; the next pass computes everything. */
void dt__calib_clear(dt__calib_cache *cache);

/* ---- for src/nn/forward.c; without a calibration pass on t they do nothing ------------------ */

/* Whether the cache has the results of this call of m. If so, sets `out`; an error is on t. */
bool dt__calib_returns(dt_tape *t, const dt_module *m, dt_tensor **out, int n_out);
/* The number of calls so far: the index of the next call. */
int64_t dt__calib_position(const dt_tape *t);
/* Whether the pass stops at m, whose inputs are x. If so, keeps the inputs and sets the tape's
 * status. */
bool dt__calib_stops(dt_tape *t, dt_module *m, dt_tensor *const *x, int n);
/* Keeps the results `out` of m. They replace the calls from `position` on, which m made itself. */
void dt__calib_keep(dt_tape *t, const dt_module *m, int64_t position, dt_tensor *const *out,
                    int n_out);

#endif
