/* --format: reads the format of prompts that a model was trained on from its file (detent.data). */
#include "cli/cli.h"

#include <detent/experimental/io.h>

#include <string.h>

int cli_prompt_format(const cli_args *args, dt_ctx *ctx, const dt_model_info *info, char **out)
{
    dt_model_data data = { .target = NULL };
    const char *file = args->words[0];
    *out = NULL;
    if (info->data != NULL && dt_model_data_parse(ctx, info->data, file, &data) != DT_OK) {
        return cli_fail_file(args, ctx);
    }
    int status = CLI_DONE;
    if (data.prompt == NULL) {
        status = cli_fail(args, CLI_USAGE,
                          "--format: %s says no format of prompts; a run with data.prompt writes "
                          "it into its files",
                          file);
    } else if ((*out = strdup(data.prompt)) == NULL) {
        status = cli_fail(args, CLI_FAILED, "out of memory");
    }
    dt_model_data_free(ctx, &data);
    return status;
}
