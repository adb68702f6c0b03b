/* What the program does with its arguments before a command runs. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include "cli/cli.h"

#include <stdio.h>

/* Reads a command's arguments and runs it. Returns the exit status. */
int cli_run(const cli_command *c, int argc, char **argv);

/* ---- help.c ---- */

void cli_print_beginning(FILE *to);        /* a short introduction */
void cli_print_help(const cli_command *c); /* the help of a command, to stdout */
/* The option `--plugin`, for commands that read a recipe or a model; NULL for others. */
const cli_option *cli_plugin_option(const cli_command *c);
int cli_refuse_command(const char *name); /* there is no such command; returns the exit status */
bool cli_is_help(const char *word);       /* --help, -h */
/* `detent help [COMMAND]`. argv begins behind "help". Returns the exit status. */
int cli_help(int argc, char **argv);

/* ---- version.c ---- */

/* `detent --version [--verbose]`. argv begins behind "--version". */
int cli_print_version(int argc, char **argv);

#endif
