/* How the structs of a recipe are filled from its tree: maps (fill.c), values of one key
 * (fill_values.c), and lists of maps (fill_items.c). */
#ifndef TRAIN_FILL_H
#define TRAIN_FILL_H

#include "train/recipe/recipe.h"

/* A map may fill two structs: `model` has its own keys and those of the family. */
typedef struct dt__fill_part {
    const dt_key *keys;
    char *base;
} dt__fill_part;

typedef struct dt__fill_place {
    const char *path;
    dt__node *node;  /* NULL: not given */
    dt__node *above; /* nearest node above that is given */
} dt__fill_place;

void dt__fill_map(dt_recipe *r, dt__fill_place at, const dt__fill_part *parts, int n_parts);

/* ---- fill_values.c ---- */

/* The value of a key that is neither a map nor a list of maps. */
void dt__fill_one(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field);
/* Whether the node is a list of so many entries; an error of the recipe if not. */
bool dt__is_list(dt_recipe *r, const dt_key *key, dt__fill_place at, int most);
/* Entry i of a list. */
dt__fill_place dt__item_of(dt_recipe *r, dt__fill_place at, dt__node *item, int i);
/* "a, b, c" */
const char *dt__choice_list(dt_recipe *r, const char *const *choices);
void dt__refuse_choice(dt_recipe *r, dt__fill_place at, const char *const *choices);

/* ---- fill_items.c ---- */

#define DT__MOST_KINDS 255

/* Maps whose first key names their kind, as layers. */
void dt__fill_items(dt_recipe *r, const dt_key *key, dt__fill_place at, void *field);
/* Maps of one kind. */
void dt__fill_list(dt_recipe *r, const dt_key *key, dt__fill_place at, char *base);

#endif
