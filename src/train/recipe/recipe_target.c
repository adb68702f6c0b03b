/* `qat.target`: the runtime for which a model is trained determines the preset, other keys that its
 * arithmetic needs, and the export format. Keys in the recipe are kept, except a preset of another
 * arithmetic. */
#include "train/recipe/recipe.h"

#include <string.h>

typedef struct choice {
    const char *path, *value;
} choice;

/* Indexed by DT_RUNTIME_... */
static const choice choices[][4] = {
    [DT_RUNTIME_DETENT] = { { NULL, NULL } },
    [DT_RUNTIME_LLAMA_CPP] = { { "qat.preset", "int8-block-q4_0-weight" },
                               { "convert.formats", "[gguf]" } },
    [DT_RUNTIME_ONNXRUNTIME] = { { "qat.preset", "int8-block-int4-weight" },
                                 { "convert.formats", "[onnx-nbits]" } },
    [DT_RUNTIME_LITERT] = { { "qat.preset", "int8-dynamic-int4-weight" },
                            { "qat.weight.scale_dtype", "bf16" },
                            { "convert.formats", "[tflite]" } },
    [DT_RUNTIME_TRANSFORMERS] = { { "qat.preset", "int8-dynamic-int4-weight" },
                                  { "convert.formats", "[compressed-tensors]" } },
    [DT_RUNTIME_DEVICE] = { { "qat.preset", "device-int8" }, { "convert.formats", "[c, tflite]" } },
};

const char *const dt__target_names[] = { "detent",       "llama.cpp", "onnxruntime", "litert",
                                         "transformers", "device",    NULL };

/* The index of the target that a node names; an unknown one is that of detent, and fill.c reports
 * it. */
static int target_of(const dt__node *node)
{
    for (int i = 0; node != NULL && node->kind == DT__SCALAR && dt__target_names[i] != NULL; i++) {
        if (strcmp(node->text, dt__target_names[i]) == 0) return i;
    }
    return DT_RUNTIME_DETENT;
}

/* The alternative preset of a target that has two, for other bits or groups of weights. */
static const char *const second[] = { [DT_RUNTIME_LLAMA_CPP] = "int8-block-int4-weight",
                                      [DT_RUNTIME_LITERT] = "int8-dynamic-int8-weight",
                                      [DT_RUNTIME_DEVICE] = "device-int4" };

/* Checks that a given preset is one of the target's. */
static void check_preset(dt_recipe *r, int target, const dt__node *given, const char *preset)
{
    if (given->kind != DT__SCALAR || strcmp(given->text, preset) == 0) return;
    if (second[target] != NULL && strcmp(given->text, second[target]) == 0) return;
    dt__complain(
        r, (dt__node *)(uintptr_t)given,
        "'qat.preset': 'qat.target: %s' trains with %s%s%s; take that, or leave one of the "
        "two keys out",
        dt__target_names[target], preset, second[target] != NULL ? " or " : "",
        second[target] != NULL ? second[target] : "");
}

void dt__recipe_take_target(dt_recipe *r)
{
    const dt__node *node = dt__node_at(r, "qat.target", NULL);
    const int target = target_of(node);
    for (const choice *c = choices[target]; c->path != NULL; c++) {
        const dt__node *given = dt__node_at(r, c->path, NULL);
        if (given != NULL) {
            if (c == choices[target]) check_preset(r, target, given, c->value);
            continue;
        }
        dt__node *value = dt__yaml_parse(r, c->value, strlen(c->value), DT__FROM_TARGET);
        const dt__graft graft = { c->path, node, value };
        if (value != NULL) dt__recipe_graft(r, &graft);
    }
}
