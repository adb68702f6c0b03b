/* The files that `detent predict` reads: those that are named, and in folders all that the model
 * can read. */
#ifndef CLI_INPUT_FILES_H
#define CLI_INPUT_FILES_H

#include "cli/cli.h"

#include <detent/experimental/io.h>

typedef struct input_files {
    char **path;
    int n, room;
} input_files;

/* Lists the words behind the first in `out`; a folder is replaced by its files, and those of its
 * folders, sorted by name. The caller frees `out` also after an error. Returns the exit status:
 * USAGE for a folder without such a file. */
int input_files_find(const cli_args *args, const dt_model_data *data, input_files *out);
void input_files_free(input_files *f);

#endif
