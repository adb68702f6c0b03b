/* Activation checkpointing: a segment of a forward pass of which only the inputs are kept. Backward
 * runs it again with recording, and then runs backward through these records; the gradients have
 * the bits of a pass that saved everything.
 *
 * The first run is not recorded and saves nothing; otherwise it is like a recorded pass. The second
 * run draws the same random numbers. It does not write tensors that outlive the tape (running
 * statistics, observers): in-place ops write a temporary copy of them. Values of such tensors that
 * the second run needs as the first run read them are passed through dt__tape_save_read. */
#ifndef DT__AUTOGRAD_SEGMENT_H
#define DT__AUTOGRAD_SEGMENT_H

#include "autograd/tape.h"

typedef struct dt__segment {
    /* Computes `out` from `in`, as the forward of a module. Both runs must compute the same. */
    void (*run)(void *user, dt_tape *t, dt_tensor *const *in, int n_in, dt_tensor **out, int n_out);
    /* A number that changes whenever anything changes on which the second run depends. */
    uint64_t (*fingerprint)(void *user);
    void *user; /* valid until backward has run, or the tape is reset */
    int n_in, n_out;
} dt__segment;

/* Whether this tape can run a segment: it records, and the inputs are dense and not experts. */
bool dt__may_recompute(const dt_tape *t, dt_tensor *const *in, int n_in);
/* Runs the segment without recording, and records it as a whole. Gradients flow through its live
 * outputs: `out` and what dt_keep kept. Errors, left on the tape: those of the run; STATE if a live
 * output is a wrapper; NOMEM. */
void dt__run_segment(dt_tape *t, const dt__segment *s, dt_tensor *const *in, dt_tensor **out);

/* Whether the tape is in the second run of a segment. */
static inline bool dt__runs_again(const dt_tape *t) { return t->again.record != NULL; }
/* For a tensor x that later batches may change. In a first run saves a copy of x and returns x; in
 * a second run returns the saved copy; otherwise returns x. NULL gives NULL. Errors, left on the
 * tape: NOMEM; STATE if the runs differ. */
dt_tensor *dt__tape_save_read(dt_tape *t, dt_tensor *x);

/* ---- for backward --------------------------------------------------------------------------- */

bool dt__is_segment(const dt__record *r);
/* Runs the segment again and then backward through it, if a live output has a gradient. */
dt_status dt__differentiate_segment(dt_tape *t, const dt__record *r);

#endif
