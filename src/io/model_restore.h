/* Inside dt__restore. It makes a module what a file says, in four steps with a file each:
 *
 *     make     adapters, quantizers and biases that the file has join the tree; norms that the file
 *              has removed leave it
 *     plan     for each tensor of the tree: how the file quantizes it; for each module: its hook
 *     read     for each tensor its value or its codes, read from the file and checked
 *     commit   wrappers and hooks are made; then values and codes go in, which cannot fail
 *
 * Each step undoes what it changed where it or a later one fails, so the module is the new one or
 * untouched. */
#ifndef DT__IO_MODEL_RESTORE_H
#define DT__IO_MODEL_RESTORE_H

#include "io/model.h"
#include "nn/module.h"
#include "qat/derived_quant.h"

/* What is loaded, and into what. */
typedef struct dt__load {
    dt_ctx *ctx;
    const dt__restoring *r;
    const dt_file *file; /* as the model has it: grouped parameters in the model's form */
    dt__model_meta meta;
} dt__load;

/* FORMAT: what is wrong with how the file quantizes the module. */
dt_status dt__load_refuse(const dt__load *l, const char *path, const char *what);

/* ---- make (model_restore_make.c) ------------------------------------------------------------ */

/* A norm that left the tree because the file folded it for good. */
typedef struct dt__load_norm {
    dt_module *m; /* the layer in front of it */
    dt__removed_norm norm;
    bool added_bias; /* the layer had none */
} dt__load_norm;

/* What this load changed in the tree. */
typedef struct dt__load_made {
    dt_module **adapted; /* layers that got an adapter */
    dt_module **range;   /* quantizers */
    dt__load_norm *norm;
    int64_t n_adapted, n_ranges, n_norms;
} dt__load_made;

/* dt__load_made_end in any case. */
dt_status dt__load_make(const dt__load *l, dt__load_made *made);
/* Keeps what was made, or undoes it. */
void dt__load_made_end(const dt__load *l, dt__load_made *made, bool keep);

/* ---- plan (model_restore_plan.c) ------------------------------------------------------------ */

/* A parameter or buffer, once, under its first path. */
typedef struct dt__load_item {
    dt_tensor *x;
    const char *path;              /* lent by the module */
    const dt__module_quant *quant; /* of a weight; NULL: plain */
    const dt__quantizer *range;    /* of a weight with a static or learned range */
    dt_tensor *value;              /* what goes in: a dense tensor, */
    dt__packed *packed;            /* or codes */
    bool trained;                  /* it required a gradient before */
} dt__load_item;

typedef struct dt__load_hook {
    dt_module *m;
    dt__input_hook *hook;
    bool added; /* the module owns it */
} dt__load_hook;

/* A layer whose derived weight is quantized: a norm is folded into it, or it has an adapter. */
typedef struct dt__load_derived {
    dt_module *m;
    const dt__module_quant *quant;
    bool added; /* the module has its hook */
} dt__load_derived;

typedef struct dt__load_plan {
    const dt__load *load;
    dt__load_item *item;
    dt__load_derived *derived;
    dt__load_hook *hook;
    int64_t n_items, room_items, n_derived, n_hooks;
} dt__load_plan;

/* dt__load_plan_free in any case. */
dt_status dt__load_plan_make(const dt__load *l, dt__load_plan *p);
void dt__load_plan_free(dt__load_plan *p);
dt__load_item *dt__load_item_of(const dt__load_plan *p, const dt_tensor *x);

/* ---- read (model_restore_read.c) ------------------------------------------------------------ */

/* Fills `value` or `packed` of each item. FORMAT, with all names that are missing, unexpected or of
 * another shape; with the reason where a range of `made` cannot be one. */
dt_status dt__load_read(dt__load_plan *p, const dt__load_made *made);

/* ---- commit (model_restore_commit.c) -------------------------------------------------------- */

dt_status dt__load_commit(dt__load_plan *p);

#endif
