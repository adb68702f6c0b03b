/* detent check: validates a file's structure, hash, settings, codes and model. */
#include "cli/cli.h"
#include "cli/print/text.h"

static void report(const dt_file *file, const char *path)
{
    const bool hashed = dt_file_meta(file, "detent.xxh3") != NULL;
    cli_say("%s: good: %lld tensor%s, %s", path, (long long)dt_file_count(file),
            CLI_S(dt_file_count(file)),
            hashed ? "hash and values verified" : "structure verified; it has no hash of detent");
}

int cli_check(const cli_args *args, dt_ctx *ctx)
{
    dt_file *file = NULL;
    dt_status s = dt_file_open(ctx, args->words[0], &file);
    if (s == DT_OK) s = dt_model_check(file);
    if (s == DT_OK) report(file, args->words[0]);
    const int status = s == DT_OK ? CLI_DONE : cli_fail_file(args, ctx);
    dt_file_close(file);
    return status;
}
