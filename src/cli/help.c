/* What `detent --help`, `detent COMMAND --help` and a wrong command print, from the table of
 * commands in main.c. */
#include "cli/arguments.h"
#include "cli/print/text.h"

#include <string.h>

static void print_usage(FILE *to)
{
    fprintf(to, "usage: detent COMMAND [ARGUMENTS]\n\n");
    const cli_command *c;
    for (int i = 0; (c = cli_command_at(i)) != NULL; i++) {
        char head[32];
        snprintf(head, sizeof head, "  %s", c->name);
        if (!c->hidden) cli_entry(to, head, 13, c->text);
    }
    fputc('\n', to);
    cli_wrap(to, 0, 0, "detent help COMMAND says more. detent --version prints the version.");
}

bool cli_is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int cli_help(int argc, char **argv)
{
    if (argc == 0 || cli_is_help(argv[0])) {
        print_usage(stdout);
        return CLI_DONE;
    }
    const cli_command *c = cli_command_named(argv[0]);
    if (c == NULL) return cli_refuse_command(argv[0]);
    cli_print_help(c);
    return CLI_DONE;
}

void cli_print_beginning(FILE *to)
{
    static const char *const lines[][2] = {
        { "  detent cp digits-2bit", "copies a recipe that needs no files" },
        { "  detent train digits-2bit.yaml", "trains by it in seconds, and compares" },
        { "  detent new", "writes a recipe for data of your own" },
        { "  detent --help", "lists all commands" },
    };
    cli_wrap(to, 0, 0, "detent trains small models, in float and for integers. To begin:");
    fputc('\n', to);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cli_entry(to, lines[i][0], 33, lines[i][1]);
    }
}

#define OPTION_COLUMN 27 /* where the texts of options begin */

enum { HEAD = 38 }; /* columns for an option and its value on the narrowest screen */

/* Prints an option whose list of values is too long for its head: the text begins with the
 * values. */
static void print_choices(const cli_option *o)
{
    cli_text text = { .used = 0 };
    char head[HEAD];
    for (const char *at = o->value; *at != 0; at += *at == '|') {
        const int n = (int)strcspn(at, "|");
        cli_text_add(&text, "%s%.*s", at == o->value ? "" : ", ", n, at);
        at += n;
    }
    cli_text_add(&text, ": %s", o->text);
    snprintf(head, sizeof head, "  %s NAME", o->name);
    cli_entry(stdout, head, OPTION_COLUMN, text.text);
}

static void print_option(const cli_option *o)
{
    char head[128];
    if (o->value != NULL && strchr(o->value, '|') != NULL && strlen(o->value) > HEAD) {
        print_choices(o);
        return;
    }
    snprintf(head, sizeof head, "  %s%s%s", o->name, o->value == NULL ? "" : " ",
             o->value == NULL ? "" : o->value);
    cli_entry(stdout, head, OPTION_COLUMN, o->text);
}

const cli_option *cli_plugin_option(const cli_command *c)
{
    static const cli_option plugin = {
        "--plugin", "FILE",
        "load a shared object that adds losses, layers, optimizers and others; may be repeated",
        .reads = true
    };
    const bool takes = c->model != CLI_NO_MODEL || strstr(c->usage, "RECIPE") != NULL;
    return takes ? &plugin : NULL;
}

void cli_print_help(const cli_command *c)
{
    char usage[256];
    snprintf(usage, sizeof usage, "%s%s%s%s", c->name, *c->usage == 0 ? "" : " ", c->usage,
             c->options[0].name == NULL ? "" : " [OPTIONS]");
    fputs("usage: detent ", stdout);
    cli_wrap(stdout, 14, 14, usage);
    putchar('\n');
    cli_wrap(stdout, 0, 0, c->text);
    if (c->options[0].name != NULL) putchar('\n');
    for (const cli_option *o = c->options; o->name != NULL; o++) print_option(o);
    if (cli_plugin_option(c) != NULL) print_option(cli_plugin_option(c));
}

int cli_refuse_command(const char *name)
{
    enum { MOST = 64 };
    const char *names[MOST + 1] = { "--help", "--version", "help" };
    const cli_command *c;
    for (int i = 0, n = 3; (c = cli_command_at(i)) != NULL && n < MOST; i++) {
        if (!c->hidden) names[n++] = c->name;
    }
    const char *meant = dt_nearest(names, name);
    if (meant != NULL) {
        fprintf(stderr, "detent: no command '%s' (did you mean '%s'?)\n", name, meant);
    } else {
        fprintf(stderr, "detent: no command '%s'\n\n", name);
        print_usage(stderr);
    }
    return CLI_USAGE;
}
