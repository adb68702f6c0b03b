/* The rows of a batch that meet each member of a grouped weight. */
#ifndef DT__PTQ_ROUTES_H
#define DT__PTQ_ROUTES_H

#include <detent/ops.h>

/* Member e meets rows row[first[e]] ... row[first[e + 1] - 1] of the inputs, in the order in which they
 * are routed to it. */
typedef struct dt__routed {
    int64_t *first; /* [members + 1] */
    int64_t *row;   /* [first[members]] */
} dt__routed;

/* Of inputs of so many rows. The caller's, for dt__routed_free, also after an error. Errors: ARG (none or
 * both ways of routing, a member that is none), SHAPE, DTYPE, STATE (a wrapper, gaps), NOMEM. */
dt_status dt__routed_of(dt_ctx *ctx, const dt_routes *routes, int64_t members, int64_t rows,
                        dt__routed *out);
void dt__routed_free(dt_ctx *ctx, dt__routed *r);

/* What a grouped layer takes. */
typedef struct dt__routed_input {
    const dt_tensor *x, *index;
} dt__routed_input;

/* The float model's inputs for the rows of the quantized one. The two may route a token to different
 * experts; so where each of x's rows has one member, a row stands for the same token and the same member,
 * and for itself as the quantized model has it where the float model sent the token elsewhere. *out is
 * a new tensor. Errors: SHAPE (the models' inputs differ in shape), NOMEM. */
dt_status dt__routed_pair(dt_ctx *ctx, const dt__routed_input *quantized,
                          const dt__routed_input *plain, dt_tensor **out);

#endif
