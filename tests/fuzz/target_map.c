/* A map of weights: patterns that are accepted are valid rules. */
#include "fuzz.h"

#include <detent/experimental/train.h>

#include <string.h>

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_weight_map map;
    dt_recipe *errors = NULL;
    const dt_status s = dt_weight_map_read(ctx, fuzz_file("map.yaml", data, n), &map, &errors);
    if (s == DT_OK) {
        for (int64_t i = 0; i < map.n; i++) {
            FUZZ_HOLDS(dt_weight_rule_check(ctx, &map.rule[i]) == DT_OK, "%s", map.rule[i].from);
            fuzz_touch(map.rule[i].from, strlen(map.rule[i].from));
        }
    } else {
        fuzz_refused(ctx, errors != NULL && s != DT_ERR_CONFIG);
        FUZZ_HOLDS(errors == NULL || dt_recipe_error_count(errors) > 0, "no error in the list");
    }
    dt_recipe_free(errors);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_seed_text(s, "names",
                   "tensors:\n  'features.{i}.conv.{p}': 'layers.{i}.{p}'\n"
                   "  'a.{rest...}': {skip: true}\n");
    fuzz_seed_text(s, "orders",
                   "layout: keras\ntensors:\n  'k': {to: w, permute: [3, 2, 0, 1]}\n"
                   "  'd': {to: v, transpose: true}\n  's': {to: u, shape: [2, 3]}\n");
    fuzz_seed_text(s, "wrong", "tensors: {'{a}{a}': b, '{': c, d: {too: e}, f: [g]}\n");
}

const fuzz_target fuzz_target_map = { "map", "a map of weights", run, seeds };
