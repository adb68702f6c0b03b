/* `qat.recipe: best`: keys of `qat` by the bits of weights, as docs/qat-guide.md ("What is best at
 * each width") measured them. Keys that are given stay as they are, and so do the schemes of
 * presets and targets whose arithmetic has one. */
#include "train/recipe/recipe.h"

#include <string.h>

typedef struct choice {
    const char *path, *value;
    bool is_scheme; /* of the preset's arithmetic, where that has its own */
} choice;

enum { CHOICES = 4 };

/* By bits. */
static const choice choices[][CHOICES] = {
    [2] = { { "qat.weight.scheme", "asymmetric", true }, { "qat.damping", "1e-3", false } },
    [3] = { { "qat.weight.scheme", "asymmetric", true } },
};

const char *const dt__best_names[] = { "given", "best", NULL };

static const char *text_at(dt_recipe *r, const char *path, const char *otherwise)
{
    const dt__node *node = dt__node_at(r, path, NULL);
    return node != NULL && node->kind == DT__SCALAR ? node->text : otherwise;
}

/* Whether another arithmetic than detent's, or of a range that is learned, fixes the scheme. */
static bool has_scheme(dt_recipe *r)
{
    static const char *const free[] = { "int8-dynamic-int4-weight", "int4-weight",
                                        "int8-dynamic-int8-weight", "int8-static-int8-weight" };
    const char *preset = text_at(r, "qat.preset", free[0]);
    if (strcmp(text_at(r, "qat.target", "detent"), "detent") != 0) return true;
    if (strcmp(text_at(r, "qat.weight.range", "dynamic"), "learned") == 0) return true;
    for (int i = 0; i < DT__COUNT_OF(free); i++) {
        if (strcmp(preset, free[i]) == 0) return false;
    }
    return true;
}

/* The bits of all weights that no rule changes, of which 2 to 3 have choices. */
static int bits_of(dt_recipe *r)
{
    const char *bits = text_at(r, "qat.weight.bits", "");
    return bits[0] >= '2' && bits[0] <= '3' && bits[1] == 0 ? bits[0] - '0' : 0;
}

void dt__recipe_take_best(dt_recipe *r)
{
    const dt__node *node = dt__node_at(r, "qat.recipe", NULL);
    if (strcmp(text_at(r, "qat.recipe", dt__best_names[0]), "best") != 0) return;
    const choice *of = choices[bits_of(r)];
    const bool fixed = has_scheme(r);
    for (int i = 0; i < CHOICES && of[i].path != NULL; i++) {
        if (dt__node_at(r, of[i].path, NULL) != NULL || (fixed && of[i].is_scheme)) continue;
        dt__node *value = dt__yaml_parse(r, of[i].value, strlen(of[i].value), DT__FROM_BEST);
        const dt__graft graft = { of[i].path, node, value };
        if (value != NULL) dt__recipe_graft(r, &graft);
    }
}

const char *dt__recipe_best(dt_recipe *r)
{
    const char *text = "";
    for (int bits = 0; bits < DT__COUNT_OF(choices); bits++) {
        for (int i = 0; i < CHOICES && choices[bits][i].path != NULL; i++) {
            const char *path = choices[bits][i].path;
            const dt__node *node = dt__node_at(r, path, NULL);
            if (node == NULL || node->origin != DT__FROM_BEST || strstr(text, path) != NULL) {
                continue;
            }
            text =
                dt__recipe_format(r, "%s%s%s: %s", text, *text != 0 ? ", " : "", path, node->text);
        }
    }
    return text;
}
