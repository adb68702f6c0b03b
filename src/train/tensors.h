/* Rounding the tensors of a file that has no model: what becomes of each, and what is done so
 * far. */
#ifndef DT__TRAIN_TENSORS_H
#define DT__TRAIN_TENSORS_H

#include "io/tensors_meta.h"
#include "train/recipe.h"

/* One tensor of the file. */
typedef struct dt__tensor_plan {
    const dt_file_entry *entry;
    bool rounds;  /* else it is copied */
    bool skipped; /* because a rule says so */
    dt_weight_op op;
    dt_rounding_options options;
    dt__tensor_weight meta;                   /* scheme and the rest, as the file will say it */
    const dt_file_entry *input, *float_input; /* NULL: none */
    const dt_file_entry *index, *offsets;     /* of a grouped weight's inputs: one of them */
    int64_t from_op; /* the last rule that says something of the op; -1: none */
    /* Once it is done: */
    bool done;
    char key[DT__HASH_DIGITS + 1]; /* of all that its codes depend on */
    dt__row_parts parts; /* as the file will hold it: in `rounded` and `packed`, or lent */
    dt_rounded *rounded;
    uint8_t *packed;
} dt__tensor_plan;

typedef struct dt__tensors_run {
    dt_ctx *ctx;
    dt_recipe *recipe;
    const dt_quantize_options *o;
    const dt_tensors_job *job;
    dt_quantize_summary *summary;
    dt_file *weights, *inputs, *partial; /* the last two: NULL where there are none */
    dt__tensor_plan *plan;               /* one for each tensor of `weights`, in its order */
    int64_t n;
    char *partial_path;
    double saved, saving; /* the clock when the partial result was last written, seconds it took */
} dt__tensors_run;

#define DT__NAMES 400
/* Adds a name to a list of them for a message: "'a', 'b', ..."; *n counts them all. */
void dt__add_name(char text[DT__NAMES], int64_t *n, const char *name);

bool dt__is_float_entry(const dt_file_entry *e);

/* Opens the files and decides on every tensor. All that can be wrong with names, shapes and
 * settings is found here. (tensors_plan.c, tensors_inputs.c) */
dt_status dt__tensors_plan(dt__tensors_run *r);
dt_status dt__tensors_match_inputs(dt__tensors_run *r);
/* Rounds one tensor. (tensors_round.c) */
dt_status dt__tensors_round(dt__tensors_run *r, dt__tensor_plan *p);
/* Gives up what a plan holds. */
void dt__tensors_drop(dt__tensors_run *r, dt__tensor_plan *p);

/* Takes over what OUTPUT.partial has of these plans; the log says where it does not fit. NOMEM.
 * (tensors_partial.c) */
dt_status dt__tensors_resume(dt__tensors_run *r);
/* Keeps what is done; where it is not worth it yet, does nothing unless `now`. */
dt_status dt__tensors_keep(dt__tensors_run *r, bool now);
/* Adds what is done to a writer, with its metadata. */
dt_status dt__tensors_add(const dt__tensors_run *r, dt_writer *w);

#endif
