/* detent pages FOLDER: writes the manual pages detent.1 and detent-COMMAND.1, from the table of
 * commands in main.c. The build calls it. */
#include "cli/arguments.h"
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const statuses[][2] = {
    { "0", "done" },
    { "1", "failed at run time" },
    { "2", "usage or recipe error" },
    { "3", "stopped on a value that is not finite" },
    { "4", "a file that cannot be read or is malformed" },
    { "130", "interrupted, with a checkpoint saved" },
};

static const char *const variables[][2] = {
    { "DETENT_CPU",
      "the most that kernels may use: plain, avx2, avx-vnni, avx512-vnni, avx512-bf16, "
      "amx-int8, "
      "neon-dot" },
    { "DETENT_BLAS", "system: round by the system's libblas.so.3 in place of OpenBLAS" },
    { "DETENT_EXCHANGE", "messages: ranks of one machine exchange by MPI, too, not by memory" },
    { "OMP_NUM_THREADS", "number of threads; default: one for each processor" },
    { "DETENT_CONFIGS", "folder of the recipes that `ls` and `cp` show" },
    { "COLUMNS", "width of the screen; default: of the terminal, else 80" },
    { "NO_COLOR", "no colours" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Writes text for roff: no line becomes a request, and '-' stays ASCII. */
static void put(FILE *f, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", f);
    for (const char *c = text; *c != 0; c++) {
        if (*c == '-') fputs("\\-", f);
        else if (*c == '\\') fputs("\\e", f);
        else fputc(*c, f);
    }
}

/* Writes text as a sentence: with a capital letter and a full stop. */
static void put_sentence(FILE *f, const char *text)
{
    char first[2] = { (char)toupper((unsigned char)text[0]), 0 };
    put(f, first);
    if (*text != 0) put(f, text + 1);
    fputs(".\n", f);
}

static void put_entry(FILE *f, const char *name, const char *value, const char *text)
{
    fputs(".TP\n\\fB", f);
    put(f, name);
    fputs("\\fR", f);
    if (value != NULL) {
        fputs(" \\fI", f);
        put(f, value);
        fputs("\\fR", f);
    }
    fputc('\n', f);
    put(f, text);
    fputc('\n', f);
}

static void put_head(FILE *f, const char *title, const char *name, const char *text)
{
    fprintf(f, ".\\\" Made by `detent pages` from the table of commands.\n.TH ");
    for (const char *c = title; *c != 0; c++) fputc(toupper((unsigned char)*c), f);
    fprintf(f, " 1 \"\" \"detent %s\" \"detent\"\n.SH NAME\n", dt_version());
    put(f, name);
    fputs(" \\- ", f);
    fprintf(f, "%.*s\n", (int)strcspn(text, ":;"), text);
}

static void put_statuses(FILE *f)
{
    fputs(".SH EXIT STATUS\n", f);
    for (size_t i = 0; i < COUNT(statuses); i++) put_entry(f, statuses[i][0], NULL, statuses[i][1]);
}

static void put_command(FILE *f, const cli_command *c)
{
    char name[64];
    snprintf(name, sizeof name, "detent-%s", c->name);
    put_head(f, name, name, c->text);
    fprintf(f, ".SH SYNOPSIS\n\\fBdetent %s\\fR ", c->name);
    put(f, c->usage);
    fputs(" [OPTIONS]\n.SH DESCRIPTION\n", f);
    put_sentence(f, c->text);
    if (strstr(c->usage, "key=value") != NULL) {
        fputs(".PP\n\\fIkey=value\\fR sets a key of the recipe, \\fI~key\\fR removes one; "
              "`detent config keys` lists all of them.\n",
              f);
    }
    fputs(".SH OPTIONS\n", f);
    for (const cli_option *o = c->options; o->name != NULL; o++) {
        put_entry(f, o->name, o->value, o->text);
    }
    const cli_option *plugin = cli_plugin_option(c);
    if (plugin != NULL) put_entry(f, plugin->name, plugin->value, plugin->text);
    put_entry(f, "--help", NULL, "usage and options");
    put_entry(f, "--", NULL, "what follows is not an option");
    put_statuses(f);
    fputs(".SH SEE ALSO\n.BR detent (1)\n", f);
}

static void put_program(FILE *f)
{
    const cli_command *c;
    put_head(f, "detent", "detent", "train small models in float and for integers");
    fputs(".SH SYNOPSIS\n\\fBdetent\\fR \\fICOMMAND\\fR [ARGUMENTS]\n.SH DESCRIPTION\n"
          "detent trains small models in floating point, lets them learn with integer weights and "
          "activations (quantization\\-aware training), and converts them to integer models with "
          "the same bits.\n.SH COMMANDS\n",
          f);
    for (int i = 0; (c = cli_command_at(i)) != NULL; i++) {
        if (!c->hidden) put_entry(f, c->name, NULL, c->text);
    }
    fputs(".SH OPTIONS\n", f);
    put_entry(f, "--help", NULL, "lists the commands; behind a command, its options");
    put_entry(f, "--version", NULL,
              "prints the version; with --verbose also kernels, libraries, and how it was built");
    fputs(".SH ENVIRONMENT\n", f);
    for (size_t i = 0; i < COUNT(variables); i++) {
        put_entry(f, variables[i][0], NULL, variables[i][1]);
    }
    put_statuses(f);
    fputs(".SH SEE ALSO\n", f);
    for (int i = 0, n = 0; (c = cli_command_at(i)) != NULL; i++) {
        if (!c->hidden) fprintf(f, "%s.BR detent\\-%s (1)", n++ == 0 ? "" : ",\n", c->name);
    }
    fputc('\n', f);
}

/* Writes the page of a command; NULL: of the program. */
static int write_page(const cli_args *args, const cli_command *c)
{
    char path[CLI_PATH];
    snprintf(path, sizeof path, "%s/detent%s%s.1", args->words[0], c == NULL ? "" : "-",
             c == NULL ? "" : c->name);
    FILE *f = fopen(path, "w");
    if (f == NULL) return cli_fail(args, CLI_FAILED, "%s: %s", path, strerror(errno));
    if (c == NULL) put_program(f);
    else put_command(f, c);
    const bool failed = ferror(f) != 0;
    if (fclose(f) == 0 && !failed) return CLI_DONE;
    return cli_fail(args, CLI_FAILED, "%s: cannot be written", path);
}

int cli_pages(const cli_args *args)
{
    const cli_command *c;
    int status = write_page(args, NULL);
    for (int i = 0; status == CLI_DONE && (c = cli_command_at(i)) != NULL; i++) {
        if (!c->hidden) status = write_page(args, c);
    }
    return status;
}
