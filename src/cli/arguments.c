/* The arguments of a command: options, where an unknown one is answered with the nearest name, and
 * words. */
#include "cli/arguments.h"
#include "cli/print/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The option of which `name` is a prefix; NULL: none, or several. */
static const char *begun_by(const cli_command *c, const char *name)
{
    const char *found = NULL;
    for (const cli_option *o = c->options; o->name != NULL; o++) {
        if (strncmp(o->name, name, strlen(name)) != 0) continue;
        if (found != NULL) return NULL;
        found = o->name;
    }
    return found;
}

/* Whether a command resumes interrupted work when it is called again. */
static bool goes_on(const cli_command *c)
{
    static const char *const names[] = { "sweep", "search", "quantize" };
    bool found = false;
    for (int i = 0; i < 3; i++) found = found || strcmp(names[i], c->name) == 0;
    return found;
}

/* Reports an unknown option. `next` is the argument after it, or NULL. */
static int refuse_option(const cli_args *args, const char *text, const char *next)
{
    const char *names[CLI_OPTIONS + 2] = { NULL };
    char name[CLI_KEY], key[CLI_KEY];
    int n = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    for (const cli_option *o = args->command->options; o->name != NULL; o++) names[n++] = o->name;
    if (strncmp(name, "--h", 3) == 0) names[n] = "--help";
    const char *meant = begun_by(args->command, name);
    const bool has_recipe = strstr(args->command->usage, "key=value") != NULL;
    if (meant == NULL && has_recipe && strncmp(name, "--", 2) == 0 && cli_find_key(name + 2, key)) {
        const char *value = strchr(text, '=');
        value = value != NULL ? value + 1 : next != NULL && *next != '-' ? next : "VALUE";
        return cli_fail(args, CLI_USAGE, "no option '%s'; write %s=%s", name, key, value);
    }
    if (strcmp(name, "--resume") == 0 && goes_on(args->command)) {
        return cli_fail(args, CLI_USAGE, "no option '%s': the same command resumes without it",
                        name);
    }
    if (meant == NULL) meant = dt_nearest(names, name);
    if (meant == NULL && has_recipe && strncmp(name, "--", 2) == 0 && cli_near_key(name + 2, key)) {
        return cli_fail(args, CLI_USAGE, "no option '%s' (did you mean %s=VALUE?)", name, key);
    }
    if (meant == NULL) return cli_fail(args, CLI_USAGE, "no option '%s'", text);
    return cli_fail(args, CLI_USAGE, "no option '%s' (did you mean '%s'?)", text, meant);
}

/* The index of the option in `text`, which is its name or "NAME=VALUE"; -1: none. */
static int find_option(const cli_command *c, const char *text)
{
    const size_t n = strcspn(text, "=");
    for (int i = 0; c->options[i].name != NULL; i++) {
        if (strlen(c->options[i].name) == n && memcmp(c->options[i].name, text, n) == 0) return i;
    }
    return -1;
}

/* Whether a word can be the value of an option whose value is "[WORD]". */
static bool is_optional_value(const cli_option *o, const char *word)
{
    const size_t n = strlen(o->value) - 2;
    return strlen(word) == n && memcmp(word, o->value + 1, n) == 0;
}

/* Stores an option's value. An option that is given twice with different values is an error. */
static int keep_value(cli_args *args, int option, const char *value)
{
    const char *before = args->option[option];
    if (before != NULL && strcmp(before, value) != 0) {
        return cli_fail(args, CLI_USAGE,
                        "%s is given twice, as '%s' and '%s'; expected one of them",
                        args->command->options[option].name, before, value);
    }
    args->option[option] = value;
    return CLI_DONE;
}

/* Parses the option argv[*i] and its value, if any. */
static int take_option(cli_args *args, char **argv, int argc, int *i)
{
    const char *text = argv[*i];
    const int found = find_option(args->command, text);
    if (found < 0) return refuse_option(args, text, *i + 1 < argc ? argv[*i + 1] : NULL);
    const cli_option *o = &args->command->options[found];
    const char *value = strchr(text, '=');
    if (o->value == NULL) {
        if (value != NULL) return cli_fail(args, CLI_USAGE, "%s takes no value", o->name);
        args->option[found] = "";
        return CLI_DONE;
    }
    if (value == NULL && o->value[0] == '[') { /* the value is optional */
        const bool given = *i + 1 < argc && is_optional_value(o, argv[*i + 1]);
        return keep_value(args, found, given ? argv[++*i] : "");
    }
    if (value == NULL && *i + 1 >= argc) {
        return cli_fail(args, CLI_USAGE, "%s needs a value: %s", o->name, o->value);
    }
    return keep_value(args, found, value != NULL ? value + 1 : argv[++*i]);
}

/* Stores `--plugin FILE`, an option of every command. */
static int take_plugin(cli_args *args, char **argv, int argc, int *i)
{
    const char *value = strchr(argv[*i], '=');
    if (value == NULL && *i + 1 >= argc) {
        return cli_fail(args, CLI_USAGE, "--plugin needs a value: FILE");
    }
    if (args->n_plugins == CLI_PLUGINS) {
        return cli_fail(args, CLI_USAGE, "more than %d plugins", CLI_PLUGINS);
    }
    args->plugin[args->n_plugins++] = value != NULL ? value + 1 : argv[++*i];
    return CLI_DONE;
}

static bool is_plugin(const char *text)
{
    static const char name[] = "--plugin";
    const size_t n = sizeof name - 1;
    return strncmp(text, name, n) == 0 && (text[n] == 0 || text[n] == '=');
}

/* `words` has room for all arguments, `model` for the path that becomes words[0]. */
static int run(const cli_command *c, int argc, char **argv, const char **words, char *model)
{
    cli_args args = { .command = c, .words = words };
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (!only_words && cli_is_help(text)) {
            cli_print_help(c);
            return CLI_DONE;
        }
        if (!only_words && strcmp(text, "--") == 0) {
            only_words = true;
        } else if (!only_words && text[0] == '-' && text[1] != 0) {
            const int status = is_plugin(text) ? take_plugin(&args, argv, argc, &i)
                                               : take_option(&args, argv, argc, &i);
            if (status != CLI_DONE) return status;
        } else {
            words[args.n_words++] = text;
        }
    }
    const int most = *c->usage == 0 ? 0 : c->most_words > 0 ? c->most_words : argc;
    if (args.n_words < c->least_words || args.n_words > most) {
        const bool more = args.n_words > most;
        return cli_fail(&args, CLI_USAGE, "%s%s%susage: detent %s%s%s", more ? "'" : "",
                        more ? words[most] : "", more ? "' is one argument too many; " : "",
                        c->name, *c->usage == 0 ? "" : " ", c->usage);
    }
    int status = CLI_DONE;
    if (c->model != CLI_NO_MODEL && args.n_words > 0) {
        const char *given = words[0];
        status = cli_find_model(&args, model);
        if (strcmp(model, given) != 0) args.run = given;
        words[0] = model;
    }
    if (status == CLI_DONE) status = cli_check_outputs(&args);
    if (status == CLI_DONE) cli_say_all_replaced(&args);
    if (status != CLI_DONE) return status;
    if (c->alone != NULL) return c->alone(&args);
    dt_ctx *ctx;
    status = cli_open(&args, c->threads, &ctx);
    if (status != CLI_DONE) return status;
    status = c->run(&args, ctx);
    dt_ctx_free(ctx);
    return status;
}

int cli_run(const cli_command *c, int argc, char **argv)
{
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL) {
        const cli_args none = { .command = c };
        return cli_fail(&none, CLI_FAILED, "out of memory");
    }
    char model[CLI_PATH];
    const int status = run(c, argc, argv, words, model);
    free(words);
    return status;
}
