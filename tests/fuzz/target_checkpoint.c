/* A checkpoint, loaded into the run that it may belong to. What is loaded can be saved. */
#include "target_checkpoint.h"

#include "saved.h"

#include <detent/ops.h>

static const dt_mlp_options sizes = {
    .sizes = { 3, { 4, 3, 2 } }, .bias = true, .momentum = 0.1, .eps = 1e-5
};

void fuzz_run_open(dt_ctx *ctx, fuzz_run_state *r)
{
    static const uint8_t pixels[16] = { 0 }, targets[4] = { 0, 1, 0, 1 };
    const dt_images images = { 4, 1, 2, 2, DT_TARGET_CLASS, 2, pixels, targets };
    *r = (fuzz_run_state){ .count = { "step", 3 }, .value = { "best", 0.5 } };
    FUZZ_HOLDS(dt_mlp_create(ctx, &sizes, &r->m) == DT_OK, "a model");
    FUZZ_HOLDS(dt_optimizer_create(r->m, NULL, &r->optimizer) == DT_OK, "an optimizer");
    FUZZ_HOLDS(dt_dataset_create(ctx, &images, &r->d) == DT_OK, "a dataset");
    dt_loader_options o = dt_loader_defaults();
    o.batch_size = 2;
    FUZZ_HOLDS(dt_loader_create(r->d, &o, &r->loader) == DT_OK, "a loader");
    r->state =
        (dt_training_state){ .module = r->m,
                             .info = { .family = dt_family_named(ctx, "mlp"), .options = &sizes },
                             .optimizer = r->optimizer,
                             .loaders = &r->loader,
                             .n_loaders = 1,
                             .counts = &r->count,
                             .n_counts = 1,
                             .values = &r->value,
                             .n_values = 1,
                             .recipe = "run: {dir: r}\n" };
}

void fuzz_run_close(fuzz_run_state *r)
{
    dt_loader_free(r->loader);
    dt_dataset_free(r->d);
    dt_optimizer_free(r->optimizer);
    dt_module_free(r->m);
}

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    fuzz_run_state r;
    fuzz_run_open(ctx, &r);
    if (dt_checkpoint_load(&r.state, fuzz_safetensors("checkpoint", data, n)) == DT_OK) {
        const dt_status s = dt_checkpoint_save(&r.state, fuzz_path("again"));
        FUZZ_HOLDS(s == DT_OK, "loaded, but not saved: %s", dt_error(ctx));
    } else {
        fuzz_refused(ctx, false);
    }
    fuzz_run_close(&r);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    const fuzz_bytes b = saved_checkpoint();
    fuzz_seed(s, "mlp", b.v, b.n);
    free((void *)(uintptr_t)b.v);
}

const fuzz_target fuzz_target_checkpoint = { "checkpoint", "a training checkpoint", run, seeds };
