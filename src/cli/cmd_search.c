/* detent search. */
#include "cli.h"
int cli_search(const cli_args *args)
{
    return cli_fail(args, CLI_USAGE, "not yet");
}
