/* A trained model to integers without training. */
#include "round_model.h"
#include "rounded.h"

int round_model_run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, const round_model *r)
{
    const dt_quantize_job job = {
        .model = r->model,
        .output = r->output,
        .converts = r->converts,
        .stop = cli_stopped,
        .weight = r->json || r->quiet ? NULL : rounded_row,
    };
    dt_quantize_summary summary;
    int status = CLI_DONE;
    cli_catch_signals();
    if (dt_quantize_model(ctx, recipe, &job, &summary) != DT_OK) {
        status = cli_fail_recipe(args, ctx, recipe);
    } else if (r->json) {
        status = cli_written(dt_quantize_summary_json(&summary, cli_stdout, NULL));
    } else if (!r->quiet) {
        rounded_total(r->output, &summary);
    }
    dt_quantize_summary_free(&summary);
    return status;
}
