/* Recipes that are drawn from the program's own tables of keys. */
#ifndef GRID_DRAW_H
#define GRID_DRAW_H

#include <detent/experimental/train.h>

typedef struct grid_random {
    uint64_t state;
} grid_random;

/* A number from least to most, both included. */
int64_t grid_pick(grid_random *r, int64_t least, int64_t most);
bool grid_chance(grid_random *r, double p);
/* A number of a normal distribution. */
double grid_normal(grid_random *r);

#define GRID_TEXT 16384

/* A language model of a known architecture: language.c. */
typedef struct grid_base {
    const char *name, *family;
    const char *keys; /* of block `model`; `~` leaves one at its default */
} grid_base;

typedef struct grid_size {
    const char *name; /* a key; NULL: none */
    int64_t value;
} grid_size;

#define GRID_SIZES 7

const grid_base *grid_base_at(int i); /* NULL past the last */
bool grid_is_base(const char *family);
/* Whether a key of the family may be drawn. */
bool grid_base_leaves(const grid_base *b, const char *name);
void grid_base_sizes(const grid_base *b, grid_random *r, grid_size out[GRID_SIZES]);

/* What a network must contain. */
typedef struct grid_subject {
    const dt_item_kind *layer; /* a kind of layer that it has; NULL: the family is not `layers` */
    const dt_family *family;   /* layers, or that family */
    const grid_base *base;     /* of a language model; or NULL */
    const char *key, *value;   /* of block `qat`: "preset" or "target"; NULL: floats */
} grid_subject;

/* Draws the recipe of a network of 1 to 3 layers until the program accepts it, *recipe, which the
 * caller frees. `text` of GRID_TEXT bytes is its YAML. False after too many attempts, and `text` is
 * the last complaint: then there is no way to draw this kind. */
bool grid_draw(dt_ctx *ctx, grid_random *r, const grid_subject *of, char *text, dt_recipe **recipe);

#endif
