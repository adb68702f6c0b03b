/* Internals of dt__restore, which restores a module from a file in four steps, one file each:
 *
 *     make     adds the file's adapters, quantizers and biases to the module tree; removes norms
 *              that the file lacks
 *     plan     for each tensor of the tree: how the file quantizes it; for each module: its hook
 *     read     for each tensor its value or its codes, read from the file and checked
 *     commit   creates wrappers and hooks; then stores values and codes, which cannot fail
 *
 * If a step fails, it and those before it undo their changes, so the module is either restored or
 * unchanged. */
#ifndef DT__IO_MODEL_RESTORE_H
#define DT__IO_MODEL_RESTORE_H

#include "io/model/model.h"
#include "nn/module.h"
#include "qat/derived_quant.h"

/* The file and the module of a restore. */
typedef struct dt__load {
    dt_ctx *ctx;
    const dt__restoring *r;
    const dt_file *file; /* with names and forms of the model */
    bool beside;         /* the file has adapters only; the model has the base's values */
    dt__model_meta meta;
} dt__load;

/* FORMAT with the reason why the file's quantization does not fit the module. */
dt_status dt__load_refuse(const dt__load *l, const char *path, const char *what);

/* ---- make (model_restore_make.c) ------------------------------------------------------------ */

/* A norm that was removed from the tree, as in the file. */
typedef struct dt__load_norm {
    dt_module *m; /* the layer in front of it */
    dt__removed_norm norm;
    bool added_bias; /* the layer had no bias */
} dt__load_norm;

/* Changes of the module tree by this restore. */
typedef struct dt__load_made {
    dt_module **adapted; /* layers to which an adapter was added */
    dt_module **range;   /* quantizers */
    dt__load_norm *norm;
    dt__device *device; /* the plan of an integer network, until it is installed */
    int64_t n_adapted, n_ranges, n_norms;
} dt__load_made;

/* dt__load_made_end must be called in any case. */
dt_status dt__load_make(const dt__load *l, dt__load_made *made);
/* Keeps the changes, or undoes them. */
void dt__load_made_end(const dt__load *l, dt__load_made *made, bool keep);

/* ---- plan (model_restore_plan.c) ------------------------------------------------------------ */

/* A parameter or buffer; a tied one has one item, under its first path. */
typedef struct dt__load_item {
    dt_tensor *x;
    const char *path;              /* lent by the module */
    const dt__module_quant *quant; /* quantization of a weight; NULL: none */
    const dt__quantizer *range;    /* of a weight with a static or learned range */
    dt_tensor *value;              /* what is stored: one of a dense tensor, */
    dt__packed *packed;            /* codes, */
    const dt_file_entry *entry;    /* or a tensor of the file that commit copies; lent */
    bool trained;                  /* it required a gradient before the restore */
} dt__load_item;

typedef struct dt__load_hook {
    dt_module *m;
    dt__input_hook *hook;
    bool added; /* it was added to the module */
} dt__load_hook;

/* A layer whose derived weight is quantized: a norm is folded into it, or it has an adapter. */
typedef struct dt__load_derived {
    dt_module *m;
    const dt__module_quant *quant;
    bool added; /* the hook was added to the module */
} dt__load_derived;

typedef struct dt__load_plan {
    const dt__load *load;
    dt__load_item *item;
    dt__load_derived *derived;
    dt__load_hook *hook;
    int64_t n_items, room_items, n_derived, n_hooks;
} dt__load_plan;

/* dt__load_plan_free must be called in any case. */
dt_status dt__load_plan_make(const dt__load *l, dt__load_plan *p);
void dt__load_plan_free(dt__load_plan *p);
dt__load_item *dt__load_item_of(const dt__load_plan *p, const dt_tensor *x);

/* ---- read (model_restore_read.c) ------------------------------------------------------------ */

/* Reads `value` or `packed` of each item. FORMAT, with all names that are missing, unexpected or of
 * another shape, or with the reason why a range of `made` is invalid. */
dt_status dt__load_read(dt__load_plan *p, const dt__load_made *made);

/* ---- commit (model_restore_commit.c) -------------------------------------------------------- */

dt_status dt__load_commit(dt__load_plan *p);

#endif
