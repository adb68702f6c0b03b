/* A stretch of a forward pass that keeps its inputs alone. Backward runs it again, this time
 * recorded, and then goes backward through it: the gradients have the bits of a pass that kept
 * everything.
 *
 * The first run is muted: its ops are not recorded and keep nothing, all else is as in a recorded
 * pass. The second run draws what the first drew, and writes nothing that outlives the tape:
 * in-place ops on what the tape did not make (running statistics, observers) write into a copy that
 * is thrown away. What a run reads of that kind, and may have changed since, passes through
 * dt__tape_save_read. */
#ifndef DT__AUTOGRAD_SEGMENT_H
#define DT__AUTOGRAD_SEGMENT_H

#include "autograd/tape.h"

typedef struct dt__segment {
    /* Computes `out` of `in`, as a module's forward. Both runs must do the same. */
    void (*run)(void *user, dt_tape *t, dt_tensor *const *in, int n_in, dt_tensor **out, int n_out);
    /* Differs whenever something has changed that would change the second run. */
    uint64_t (*fingerprint)(void *user);
    void *user; /* lives until backward has run, or the tape is reset */
    int n_in, n_out;
} dt__segment;

/* Whether a pass on this tape may run one: it records, and the inputs are plain: no wrappers, no
 * experts. */
bool dt__may_recompute(const dt_tape *t, dt_tensor *const *in, int n_in);
/* Runs it, muted, and records it as a whole: gradients pass through what of it lives on after it,
 * `out` and whatever was kept by dt_keep. Errors, left on the tape: those of the run; STATE where
 * that is a wrapper; NOMEM. */
void dt__run_segment(dt_tape *t, const dt__segment *s, dt_tensor *const *in, dt_tensor **out);

/* Whether a stretch runs for the second time. */
static inline bool dt__runs_again(const dt_tape *t) { return t->again.record != NULL; }
/* x, which later batches may change, as the first run met it; in a run that is not a second one, x
 * itself. NULL gives NULL. Errors, left on the tape: NOMEM; STATE where the runs differ. */
dt_tensor *dt__tape_save_read(dt_tape *t, dt_tensor *x);

/* ---- for backward --------------------------------------------------------------------------- */

bool dt__is_segment(const dt__record *r);
/* Runs it again and goes backward through it, if a gradient has come. */
dt_status dt__differentiate_segment(dt_tape *t, const dt__record *r);

#endif
