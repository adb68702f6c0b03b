/* A report of a run with arbitrary files: recipe.yaml, metrics.jsonl, and one other, which the
 * first byte chooses. None of their bytes become markup. */
#include "fuzz.h"

#include <detent/experimental/report.h>

static void run(const uint8_t *data, size_t n)
{
    static const char *const names[] = { "run/summary.json",    "run/machine.json",
                                         "run/confusion.json",  "run/layers-begin.json",
                                         "run/layers-end.json", "run/sensitivity.json",
                                         "run/examples.json" };
    fuzz_bytes rest = { data, n };
    const char *name = names[fuzz_choice(&rest, 7)];
    const fuzz_bytes recipe = fuzz_part(&rest), metrics = fuzz_part(&rest);
    fuzz_remove("run");
    (void)fuzz_file("run/recipe.yaml", recipe.v, recipe.n);
    (void)fuzz_file("run/metrics.jsonl", metrics.v, metrics.n);
    (void)fuzz_file(name, rest.v, rest.n);
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    const char *dir = fuzz_path("run");
    if (dt_report_write(ctx, &dir, 1, NULL) != DT_OK) fuzz_refused(ctx, false);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    static const char recipe[] = "run: {dir: r}\nmodel: {family: mlp, sizes: [784, 8, 10]}\n"
                                 "data: {format: digits}\n";
    static const char metrics[] =
        "{\"phase\":\"float\",\"step\":1,\"loss\":2.5,\"lr\":0.001}\n"
        "{\"phase\":\"qat\",\"step\":2,\"loss\":2.25,\"validation_loss\":2,\"accuracy\":0.5}\n"
        "{\"phase\":\"qat\",\"step\":2,\"layers\":[{\"name\":\"a\",\"error\":0.5}]}\n";
    static const char *const others[] = {
        "{\"results\":{\"float\":{\"accuracy\":0.9,\"bytes\":100},\"converted\":{\"bytes\":10}}}",
        "{\"processor\":\"x <b>\",\"threads\":2}",
        "{\"classes\":[\"a\",\"<b>\"],\"matrix\":[[3,1],[0,4]]}",
        "[{\"name\":\"a\",\"histogram\":[1,2,3]}]",
        "{\"layers\":[{\"name\":\"a\",\"weights\":{\"bits\":4}}]}",
        "{\"layers\":[{\"name\":\"a\",\"loss\":0.5}]}",
        "{\"worst\":[{\"label\":1,\"picture\":\"AAAA\"}]}",
    };
    for (uint8_t i = 0; i < 7; i++) {
        const fuzz_bytes part[] = { fuzz_text(recipe), fuzz_text(metrics), fuzz_text(others[i]) };
        const char name[2] = { (char)('0' + i), 0 };
        fuzz_seed_parts(s, name, part, 3);
    }
}

const fuzz_target fuzz_target_report = { "report", "the files of a run, in a report", run, seeds };
