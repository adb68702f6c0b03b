/* Quantizing the tensors of a file without a model: the plan of each tensor, and progress. */
#ifndef DT__TRAIN_TENSORS_H
#define DT__TRAIN_TENSORS_H

#include "io/safetensors/tensors_meta.h"
#include "train/recipe/recipe.h"

/* One tensor of the file. */
typedef struct dt__tensor_plan {
    const dt_file_entry *entry;
    bool rounds;  /* quantize it; else copy it */
    bool skipped; /* copied because of a rule's `skip` */
    dt_weight_op op;
    dt_rounding_options options;
    dt__tensor_weight meta;                   /* scheme and op, as written to the file */
    const dt_file_entry *input, *float_input; /* NULL: none */
    const dt_file_entry *index, *offsets;     /* routes of a grouped weight's inputs: one of them */
    int64_t from_op;                          /* last rule that sets keys of the op; -1: none */
    /* Once it is quantized: */
    bool done;
    char key[DT__HASH_DIGITS + 1]; /* hash of all that its codes depend on */
    dt__row_parts parts;           /* tensors of the output file: own, or lent by `partial` */
    dt_rounded *rounded;
    uint8_t *packed;
} dt__tensor_plan;

typedef struct dt__tensors_run {
    dt_ctx *ctx;
    dt_recipe *recipe;
    const dt_quantize_options *o;
    const dt_tensors_job *job;
    dt_quantize_summary *summary;
    dt_file *weights, *inputs, *partial; /* inputs, partial: NULL if absent */
    dt__tensor_plan *plan;               /* one for each tensor of `weights`, in its order */
    int64_t n;
    char *partial_path;
    double saved, saving; /* time of the latest partial result; seconds to write it */
} dt__tensors_run;

#define DT__NAMES 400
/* Appends a name to a list for a message, "'a', 'b', ..."; *n counts all names. */
void dt__add_name(char text[DT__NAMES], int64_t *n, const char *name);

bool dt__is_float_entry(const dt_file_entry *e);

/* Opens the files and plans every tensor. Finds all errors of names, shapes and settings.
 * (tensors_plan.c, tensors_inputs.c) */
dt_status dt__tensors_plan(dt__tensors_run *r);
dt_status dt__tensors_match_inputs(dt__tensors_run *r);
/* Rounds one tensor. (tensors_round.c) */
dt_status dt__tensors_round(dt__tensors_run *r, dt__tensor_plan *p);
/* Frees what a plan holds. */
void dt__tensors_drop(dt__tensors_run *r, dt__tensor_plan *p);

/* Uses the finished tensors of OUTPUT.partial that fit the plans; logs if it does not fit. NOMEM.
 * (tensors_partial.c) */
dt_status dt__tensors_resume(dt__tensors_run *r);
/* Writes OUTPUT.partial, unless `now` is false and it was written recently. */
dt_status dt__tensors_keep(dt__tensors_run *r, bool now);
/* Adds all finished tensors to a writer, with their metadata. */
dt_status dt__tensors_add(const dt__tensors_run *r, dt_writer *w);

#endif
