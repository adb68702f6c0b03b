/* What the program does with its arguments before a command runs. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "cli/cli.h"

#include <stdio.h>

/* Reads a command's arguments and runs it. Returns the exit status. */
int cli_run(const cli_command *c, int argc, char **argv);

/* ---- help.c ---- */

void cli_print_beginning(FILE *to);        /* what to begin with */
void cli_print_help(const cli_command *c); /* one command, on stdout */
/* `--plugin`, of commands that read a recipe or a model; NULL: it has none. */
const cli_option *cli_plugin_option(const cli_command *c);
int cli_refuse_command(const char *name); /* no such command; returns the exit status */
bool cli_is_help(const char *word);       /* --help, -h */
/* `detent help [COMMAND]`; the arguments are those behind the first. Returns the exit status. */
int cli_help(int argc, char **argv);

/* ---- version.c ---- */

/* `detent --version [--verbose]`; the arguments are those behind the first. */
int cli_print_version(int argc, char **argv);

#endif
