/* The settings for rounding a model, from a recipe's `quantize` or `convert`. */
#ifndef DT__TRAIN_ROUNDING_H
#define DT__TRAIN_ROUNDING_H

#include "train/quantize/calibration.h"

#include <detent/experimental/io.h>

typedef struct dt__rounding {
    const char *key; /* the recipe's block: "convert" or "quantize" */
    dt_rounding_options options;
    bool correct_bias;
    dt__calibration_choice choice;
    size_t cache;
} dt__rounding;

/* `samples`: examples available. A recipe without `quantize` rounds to nearest. */
dt__rounding dt__rounding_of(const dt_recipe_options *o, bool converts, int64_t samples);
/* Checks that the settings apply to every weight and input of a prepared model; else CONFIG at the
 * key. */
dt_status dt__rounding_suits(const dt__rounding *p, dt_recipe *r, dt_module *m);
/* The settings that results depend on, as JSON, which the caller releases. NULL: NOMEM. */
char *dt__rounding_text(dt_ctx *ctx, const dt__rounding *p);
/* dt_ptq with these settings; `done` and `user` are those of dt_ptq_options. */
typedef struct dt__rounding_job {
    dt_module *m, *reference;
    dt__calibration *calibration;
    struct dt__cluster *cluster; /* NULL: this process alone */
    dt_status (*done)(void *user, const char *path, const dt_round_report *report);
    void *user;
} dt__rounding_job;
dt_status dt__rounding_run(const dt__rounding *p, const dt__rounding_job *job,
                           dt_ptq_report *report);
/* dt_model_save, with the settings in the metadata. */
dt_status dt__rounding_save(const dt__rounding *p, dt_module *m, const dt_model_info *info,
                            const char *path);

#endif
