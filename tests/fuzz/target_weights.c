/* Weights of other programs and a map, imported into a network, which changes only if there is no
 * error. */
#include "fuzz.h"

#include "saved.h"

#include <detent/experimental/io.h>
#include <detent/experimental/nn.h>
#include <detent/experimental/train.h>

#include <stdlib.h>

static const dt_mlp_options mlp = {
    .sizes = { 3, { 8, 6, 3 } }, .bias = true, .momentum = 0.1, .eps = 1e-5
};

static dt_status quiet(void *user, const char *text, size_t bytes)
{
    (void)user;
    fuzz_touch(text, bytes);
    return DT_OK;
}

/* The bits of all weights, mixed. */
static uint64_t mixed(dt_module *m)
{
    static const char *const names[] = { "layers.0.weight", "layers.0.bias", "head.weight",
                                         "head.bias" };
    uint64_t sum = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const dt_tensor *x = dt_param(m, names[k]);
        FUZZ_NEEDS(x != NULL, "no %s", names[k]);
        const uint8_t *bytes = dt_data(x);
        for (int64_t i = 0; i < 4 * dt_count(x); i++) sum = sum * 31 + bytes[i];
    }
    return sum;
}

static void import(dt_ctx *ctx, const char *path, const dt_weight_map *map)
{
    dt_module *m = NULL;
    FUZZ_NEEDS(dt_family_named(ctx, "mlp")->create(ctx, &mlp, &m) == DT_OK, "no network");
    const uint64_t before = mixed(m);
    const dt_status s = dt_weights_import(m, path, map, quiet, NULL);
    if (s != DT_OK) {
        fuzz_refused(ctx, false);
        FUZZ_HOLDS(mixed(m) == before, "the network changed: %s", dt_error(ctx));
    }
    dt_module_free(m);
}

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_weight_map map = { .n = 0 };
    dt_recipe *errors = NULL;
    fuzz_bytes rest = { data, n };
    const fuzz_bytes text = fuzz_part(&rest);
    const char *path = fuzz_safetensors("weights.safetensors", rest.v, rest.n);
    const char *yaml = fuzz_file("map.yaml", text.v, text.n);
    if (text.n == 0) import(ctx, path, NULL);
    else if (dt_weight_map_read(ctx, yaml, &map, &errors) == DT_OK) import(ctx, path, &map);
    else fuzz_refused(ctx, false);
    dt_recipe_free(errors);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_bytes part[] = { fuzz_text(""), saved_model(SAVED_FLOAT) };
    fuzz_seed_parts(s, "same", part, 2);
    part[0] = fuzz_text("tensors:\n  'layers.{i}.{p}': {to: 'layers.{i}.{p}', shape: [6, 8]}\n");
    fuzz_seed_parts(s, "shape", part, 2);
    part[0] = fuzz_text("layout: keras\ntensors:\n  '{a...}.weight': {to: '{a}.weight'}\n");
    fuzz_seed_parts(s, "keras", part, 2);
    free((void *)(uintptr_t)part[1].v);
}

const fuzz_target fuzz_target_weights = { "weights", "weights of other programs, imported", run,
                                          seeds };
