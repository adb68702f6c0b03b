/* The parts of a search for bits, for src/sweep alone:
 *     search_layers.c  layers, choices, their bytes
 *     search_costs.c   what each choice costs the loss
 *     search_choose.c  the choice under the budget
 *     search_recipe.c  the recipes of its runs
 *     search.c         runs, and what is written */
#ifndef DT__SWEEP_SEARCH_H
#define DT__SWEEP_SEARCH_H

#include "sweep/jobs.h"

#define DT__CHOICES 15 /* 3 numbers of bits times 5 forms of scales */

/* Settings of a layer's weight. */
typedef struct dt__choice {
    int bits;
    int64_t group_size; /* 0: by channel; -1: that of the recipe */
    int64_t bytes;      /* of the layer's tensors */
    double cost;
} dt__choice;

typedef struct dt__search_layer {
    char *path;
    int64_t elements;
    dt_quant_spec quant; /* that of the recipe */
    dt__choice choice[DT__CHOICES];
    int n, chosen;
    int uniform[9]; /* by number of bits: the choice with the recipe's scales; -1: none */
} dt__search_layer;

typedef struct dt__search {
    dt_ctx *ctx;
    const dt_recipe_options *o; /* of the recipe */
    dt__search_layer *layer;
    int64_t n, room;
    int64_t fixed; /* bytes of the rest of the model */
} dt__search;

/* Finds layers and choices, with a model without weights. Errors: CONFIG (no layer can be
 * quantized, or too many). */
dt_status dt__search_layers(dt__search *s);
void dt__search_free(dt__search *s);
/* Bytes of the model with uniform bits; 0: not possible. */
int64_t dt__search_uniform(const dt__search *s, int bits);
/* The fewest and the most bytes of the model. */
void dt__search_bounds(const dt__search *s, int64_t *least, int64_t *most);
/* Prepares a model as the recipe says, except for layer l, which gets choice c. With `plain`
 * weights have dynamic ranges, which need no training. */
dt_status dt__search_prepare(const dt__search *s, dt_module *m, const dt__search_layer *l,
                             const dt__choice *c, bool plain);

/* Sets the costs of all choices, measured on the float model at `path`. */
dt_status dt__search_costs(dt__search *s, dt_recipe *recipe, const char *path);

/* Sets `chosen` of every layer; false: nothing fits. */
dt_status dt__search_choose(dt__search *s, int64_t budget, bool *fits);

/* The bits in the rules of a run. */
typedef enum dt__search_form { DT__UNIFORM, DT__AUTOMATIC } dt__search_form;

#define DT__SEARCH_OVERRIDE 512

/* The state of a search. */
typedef struct dt__searching {
    dt__search s;
    const dt_recipe_source *source;
    const dt_search_options *o;
    const dt_sweep_control *control;
    dt_search_summary *summary;
    dt_recipe *recipe;
    char (*text)[DT__SEARCH_OVERRIDE]; /* overrides of a run */
    const char **override;
    int64_t seeds;
    char metric[DT_MAX_METRIC_NAME], result_on[16];
} dt__searching;

/* Allocates the overrides of a run: the given ones, a rule for each layer, folder and seed. */
dt_status dt__search_make_room(dt__searching *a);
/* The choice for a layer in runs of one form. */
const dt__choice *dt__search_choice_of(const dt__searching *a, const dt__search_layer *l,
                                       dt__search_form which);
/* Makes the recipe of a run in DIR/name; the caller frees it. */
dt_status dt__search_recipe(dt__searching *a, dt__search_form which, int64_t seed, const char *name,
                            dt_recipe **out);
/* Writes the name of a run's folder. */
void dt__search_name(const dt__searching *a, dt__search_form which, int64_t seed, char name[64]);

#endif
