/* Post-training quantization of a model, and its report. */
#include "cli/round_model.h"

#include "cli/print/meter.h"

int round_model_run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, const round_model *r)
{
    const dt_quantize_job job = {
        .model = r->model,
        .output = r->view.output,
        .converts = r->converts,
        .cluster = true,
        .stop = cli_stopped,
        .weight = rounded_row,
    };
    dt_quantize_summary summary;
    cli_catch_signals();
    meter_begin("quantize", r->view.quiet);
    dt_set_progress(ctx, meter_told, NULL);
    const bool good = dt_quantize_model(ctx, recipe, &job, &summary) == DT_OK;
    dt_set_progress(ctx, NULL, NULL);
    meter_end();
    const bool tells = summary.rank == 0 || summary.by_itself; /* otherwise rank 0 prints */
    int status = good ? CLI_DONE : cli_exit_by(ctx);
    if (tells) status = good ? rounded_end(&r->view, &summary) : cli_fail_recipe(args, ctx, recipe);
    dt_quantize_summary_free(&summary);
    return status;
}
