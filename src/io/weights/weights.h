/* Internals of dt_weights_import. */
#ifndef DT__IO_WEIGHTS_H
#define DT__IO_WEIGHTS_H

#include "io/model/renamed_file.h"

/* The rule as a dt_name_rule, in memory of *arena (weight_rule.c). CONFIG, NOMEM. */
dt_status dt__weight_rule_names(dt_ctx *ctx, void **arena, const dt_weight_rule *rule,
                                dt_name_rule *out);

/* Another order of an entry's dimensions (weight_order.c). */
typedef struct dt__weight_order {
    int order[DT_MAX_RANK]; /* dimension i of the result is dimension order[i] */
    dt_ints shape;          /* of the result after permutation; empty: not reshaped */
    bool turns;             /* whether the order changes anything */
} dt__weight_order;

/* A parameter of the model, and its entry in the file. */
typedef struct dt__weight_target {
    const char *path;
    dt_tensor *x;
    bool is_embedding; /* weight of an embedding, which is not a matrix product's */
    int64_t from;      /* entry of the view; -1: none */
} dt__weight_target;

/* The order of an entry's dimensions by a rule (NULL: none) and a layout. Returns NULL, or the
 * reason for refusing. */
const char *dt__weight_order_of(const dt_weight_rule *rule, int layout, const dt_file_entry *e,
                                const dt__weight_target *target, dt__weight_order *out);
/* Permutes the entry's dimensions, with a transposed copy of its data in *arena. Its rank is at
 * most DT_MAX_RANK, its elements have whole bytes. NOMEM. */
dt_status dt__weight_turn(dt_ctx *ctx, void **arena, const dt__weight_order *order,
                          dt_file_entry *e);

/* ---- what belongs where (weight_match.c) ----------------------------------------------------- */

typedef struct dt__weight_match {
    const dt_file *file;
    const dt_weight_map *map;
    dt__renamed *names; /* the view, whose entries are permuted */
    dt__weight_target *target;
    int64_t n_targets, room_targets;
    dt_sink say;
    void *user;
    dt_status said; /* status that the sink returned */
    int64_t n_wrong;
} dt__weight_match;

/* Passes a line to the sink. */
void dt__weight_say(dt__weight_match *w, const char *format, ...) DT_PRINTF(2, 3);
/* Finds the parameter for each tensor and permutes the tensor; FORMAT after a line for each
 * mistake. */
dt_status dt__weight_match_all(dt__weight_match *w, dt_module *m);
/* Whether an entry is a tensor of the model: not of training state, not a counter. */
bool dt__weight_counts(const dt_file_entry *e);

#endif
