/* `detent quantize` of a file without a model: recipe, weights, inputs of its layers. The output is
 * a valid file. */
#include "fuzz.h"

#include <detent/experimental/train.h>

static void quantize(dt_ctx *ctx, dt_recipe *r, const dt_tensors_job *job)
{
    dt_quantize_summary sum = { 0 };
    const dt_status s = dt_quantize_tensors(ctx, r, job, &sum);
    dt_quantize_summary_free(&sum);
    if (s != DT_OK) {
        fuzz_refused(ctx, false);
        return;
    }
    dt_file *file = NULL;
    FUZZ_HOLDS(dt_file_open(ctx, job->output, &file) == DT_OK && dt_model_check(file) == DT_OK,
               "written, but not good: %s", dt_error(ctx));
    dt_file_close(file);
}

static void run(const uint8_t *data, size_t n)
{
    fuzz_bytes rest = { data, n };
    const fuzz_bytes recipe = fuzz_part(&rest), weights = fuzz_part(&rest);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    const dt_recipe_source source = { .path = "q.yaml",
                                      .text = (const char *)recipe.v,
                                      .bytes = recipe.n,
                                      .leave_files = true,
                                      .use = DT_RECIPE_TO_QUANTIZE };
    dt_recipe *r = NULL;
    fuzz_remove("codes");
    fuzz_remove("codes.partial");
    if (dt_recipe_read(ctx, &source, &r) == DT_OK) {
        dt_tensors_job job = { .weights = fuzz_safetensors("weights", weights.v, weights.n),
                               .output = fuzz_path("codes"),
                               .codes = (int)(n % 2) };
        if (rest.n > 0) job.calibration = fuzz_safetensors("inputs", rest.v, rest.n);
        quantize(ctx, r, &job);
    }
    dt_recipe_free(r);
    fuzz_end(ctx);
}

#define TENSOR(name, shape, from, to)                                                              \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void seeds(const fuzz_seeds *s)
{
    static const char *const recipes[] = {
        "",
        "quantize: {weight: {bits: 3, granularity: group, group_size: 4}}\n",
        "quantize: {rounder: gptq}\n",
        "quantize: {rounder: gpfq, order: energy}\n",
        "quantize: {rounder: qronos, weight: {scheme: asymmetric, granularity: channel}}\n",
        "quantize:\n  tensors: [{match: b, skip: true}, {match: a, rounder: nearest}]\n"
    };
    static const char *const names[] = { "0", "3bits", "gptq", "gpfq", "qronos", "rules" };
    static const char weights[] =
        "{" TENSOR("a.weight", "[2,4]", 0, 32) "," TENSOR("b", "[1,1,2,2]", 32, 48) "}";
    static const char inputs[] = "{" TENSOR("a.weight", "[3,4]", 0, 48) "}";
    uint8_t w[sizeof weights + 48], x[sizeof inputs + 48];
    for (size_t i = 0; i < sizeof w; i++) {
        const float v = (float)((int)(i * 7 % 13) - 6) * 0.25F;
        const uint8_t *bytes = (const uint8_t *)&v;
        w[i] = i < sizeof weights ? (uint8_t)weights[i] : bytes[(i - sizeof weights) % 4];
    }
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = i < sizeof inputs ? (uint8_t)inputs[i] : (uint8_t)(i % 4 == 3 ? 63 : i);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const fuzz_bytes part[] = { fuzz_text(recipes[i]), { w, sizeof w }, { x, sizeof x } };
        fuzz_seed_parts(s, names[i], part, 3);
    }
}

const fuzz_target fuzz_target_rounding = { "rounding", "quantize: recipe, weights, inputs", run,
                                           seeds };
