/* The rows of a batch that are routed to each expert of a grouped weight. */
#ifndef DT__PTQ_ROUTES_H
#define DT__PTQ_ROUTES_H

#include <detent/experimental/ops.h>

/* Expert e is routed the rows row[first[e]] ... row[first[e + 1] - 1] of the inputs, in this
 * order. */
typedef struct dt__expert_rows {
    int64_t *first; /* [experts + 1] */
    int64_t *row;   /* [first[experts]] */
} dt__expert_rows;

/* Finds the rows of each expert in inputs of `rows` rows. The caller calls dt__expert_rows_free,
 * also after an error. Errors: ARG (none or both ways of routing, an unknown expert), SHAPE, DTYPE,
 * STATE (a wrapper, gaps), NOMEM. */
dt_status dt__expert_rows_of(dt_ctx *ctx, const dt_routes *routes, int64_t experts, int64_t rows,
                             dt__expert_rows *out);
void dt__expert_rows_free(dt_ctx *ctx, dt__expert_rows *r);

/* The inputs of a grouped layer. */
typedef struct dt__routed_input {
    const dt_tensor *x, *index;
} dt__routed_input;

/* The float model's inputs for the rows of the quantized one. The two may route a token to
 * different experts. Behind the first layer of the experts (x and index have the same leading
 * dimensions), each row is paired with the float model's row of the same token at the same expert;
 * a row that the float model sent to another expert is paired with itself. *out is a new tensor.
 * Errors: SHAPE (the models' inputs differ in shape), NOMEM. */
dt_status dt__pair_rows(dt_ctx *ctx, const dt__routed_input *quantized,
                        const dt__routed_input *plain, dt_tensor **out);

#endif
