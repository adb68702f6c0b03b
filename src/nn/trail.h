/* A trail: how far one batch has come through a model whose layers become final one after the other.
 *
 * A pass ends at the first module that the caller names, before it computes, and hands out its input.
 * What modules returned on the way is kept, so that the next pass with the same batch takes it in place
 * of computing: all of it must be final by then. Kept are the results of the outermost modules that
 * had come to their end, in the order of their calls, which is the same in each pass; of those, what
 * nobody can read any more is let go.
 *
 * Modules must hand on what they make by returning it, and compute the same from the same inputs: they
 * are in evaluation mode, and nothing is recorded. A pass does without fused ops, whose parts could not
 * be told from each other; the bits are the same. */
#ifndef DT__NN_TRAIL_H
#define DT__NN_TRAIL_H

#include "nn/module.h"

/* Bytes that several trails may keep together. */
typedef struct dt__trail_room {
    size_t most, used;
} dt__trail_room;

typedef struct dt__trail_step dt__trail_step;

/* Of one batch. Set m and room, and the rest to zero. */
typedef struct dt__trail {
    dt_module *m;         /* what passes run */
    dt__trail_room *room; /* most 0: nothing is kept */
    dt__trail_step *step;
    int64_t n, room_steps;
    size_t bytes;                /* its share of the room */
    bool from_begin;             /* what was kept did not do, so each pass computes everything */
    struct dt__trail_pass *pass; /* while there is one */
} dt__trail;

/* Where a pass ends: at the first module for which this is true. */
typedef struct dt__trail_goal {
    bool (*is)(void *user, const dt_module *m);
    void *user;
} dt__trail_goal;

/* The module at which a pass ended (NULL: none, the model has come to its end), and its first inputs, as
 * it computes with them: after its hooks, of a wrapper the image, contiguous; NULL where it has fewer. */
typedef struct dt__trail_stop {
    dt_module *at;
    dt_tensor *input[2];
} dt__trail_stop;

/* A pass with the batch x of this trail, on t, which it resets before and after. Where results would take
 * more than the room there is, none are kept and the next pass begins anew. Errors: those of the model;
 * NOMEM. */
dt_status dt__trail_walk(dt__trail *trail, dt_tape *t, dt_tensor *x, const dt__trail_goal *goal,
                         dt__trail_stop *stop);
/* Frees the inputs. */
void dt__trail_stop_free(dt__trail_stop *stop);
/* Gives everything back; the next pass begins anew. */
void dt__trail_clear(dt__trail *trail);

/* ---- for dt_forward_n ------------------------------------------------------------------------- */

/* Whether an earlier pass has what m is about to return: then that is in `out`, or an error on t. */
bool dt__trail_returns(dt_tape *t, const dt_module *m, dt_tensor **out, int n_out);
/* Where the steps of a module that begins now will stand. */
int64_t dt__trail_mark(const dt_tape *t);
/* Whether the pass ends here, where m has inputs x. */
bool dt__trail_ends(dt_tape *t, dt_module *m, dt_tensor *const *x, int n);
/* m, which began at `mark`, has returned. */
void dt__trail_returned(dt_tape *t, const dt_module *m, int64_t mark, dt_tensor *const *out,
                        int n_out);

#endif
