/* detent complete -- WORD ...: prints what the last word of a command line may become, one per
 * line: the candidate, a tab, a description. No line means a file's name. The scripts in
 * completions/ call it; commands and options come from the table in main.c, keys of recipes from
 * the library. */
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/shipped.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Prints `before` and n bytes of `text` if the text begins with `word`, which is what follows
 * `before`. */
static void offer(const char *word, const char *before, const char *text, size_t n,
                  const char *about)
{
    if (strlen(word) > n || strncmp(text, word, strlen(word)) != 0) return;
    printf("%s%.*s\t%s\n", before, (int)n, text, about);
}

static void offer_commands(const char *word)
{
    const cli_command *c;
    for (int i = 0; (c = cli_command_at(i)) != NULL; i++) {
        if (!c->hidden) offer(word, "", c->name, strlen(c->name), c->text);
    }
    if (*word != '-') return;
    offer(word, "", "--help", 6, "lists all commands");
    offer(word, "", "--version", 9, "prints the version");
}

/* Offers the lower-case words of `list`, which any character of `between` separates, up to the
 * first other word: of "packed|FILE" the first. */
static void offer_literals(const char *word, const char *before, const char *list,
                           const char *between)
{
    for (const char *at = list; *at != 0 && *at != '-'; at += strspn(at, between)) {
        const size_t n = strcspn(at, between);
        bool literal = n > 0 && !(n == 2 && begins(at, "or"));
        for (size_t i = 0; i < n && literal; i++) {
            literal = islower((unsigned char)at[i]) || isdigit((unsigned char)at[i]) ||
                      strchr("_-", at[i]) != NULL;
        }
        if (literal) offer(word, before, at, n, "");
        at += n;
    }
}

static void offer_options(const cli_command *c, const char *word)
{
    for (const cli_option *o = c->options; o->name != NULL; o++) {
        offer(word, "", o->name, strlen(o->name), o->text);
    }
    const cli_option *plugin = cli_plugin_option(c);
    if (plugin != NULL) offer(word, "", plugin->name, strlen(plugin->name), plugin->text);
    offer(word, "", "--help", 6, "usage and options");
}

static const cli_option *find_option(const cli_command *c, const char *name, size_t n)
{
    for (const cli_option *o = c->options; o->name != NULL; o++) {
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0) return o;
    }
    const cli_option *plugin = cli_plugin_option(c);
    if (plugin != NULL && strlen(plugin->name) == n && memcmp(plugin->name, name, n) == 0) {
        return plugin;
    }
    return NULL;
}

/* Whether the word behind an option is its value; "[WORD]" is optional. */
static bool takes_word(const cli_option *o)
{
    return o != NULL && o->value != NULL && o->value[0] != '[';
}

/* Offers the values of an option that is a choice of words. */
static void offer_values(const cli_option *o, const char *word, const char *before)
{
    if (o->value != NULL && strchr(o->value, '|') != NULL) {
        offer_literals(word, before, o->value, "|");
    }
}

/* Offers the values of a key that is a choice of words, or true and false. */
static void offer_key_values(const dt_key *k, const char *word, const char *before)
{
    for (int i = 0; k->type == DT_KEY_CHOICE && k->choices[i] != NULL; i++) {
        offer(word, before, k->choices[i], strlen(k->choices[i]), k->text);
    }
    for (int i = 0; k->type == DT_KEY_BOOL && i < 2; i++) {
        offer(word, before, i == 0 ? "false" : "true", i == 0 ? 5 : 4, k->text);
    }
}

/* Offers keys of `keys` that continue `word` (with `before` in front of it), one level deep. */
static void offer_keys(const dt_key *keys, const char *word, const char *before)
{
    const size_t n = strcspn(word, ".=");
    const bool removes = *before == '~';
    for (const dt_key *k = keys; k->name != NULL; k++) {
        char text[CLI_PATH];
        const bool whole = strlen(k->name) == n && memcmp(k->name, word, n) == 0;
        if (word[n] == 0) {
            const char *tail = k->type == DT_KEY_MAP ? "." : removes ? "" : "=";
            snprintf(text, sizeof text, "%s%s", k->name, tail);
            if (!k->other_form) offer(word, before, text, strlen(text), k->text);
        } else if (whole) {
            snprintf(text, sizeof text, "%s%.*s", before, (int)n + 1, word);
            if (word[n] == '=') offer_key_values(k, word + n + 1, text);
            else if (k->type == DT_KEY_MAP) offer_keys(k->keys, word + n + 1, text);
        }
    }
}

/* Number of arguments before the last word that are not options. */
static int count_words(const cli_command *c, const char *const *word, int last)
{
    int n = 0;
    for (int i = 1; i < last; i++) {
        const cli_option *before = i > 1 ? find_option(c, word[i - 1], strlen(word[i - 1])) : NULL;
        n += word[i][0] != '-' && !takes_word(before);
    }
    return n;
}

static void offer_words(const cli_command *c, const char *word, int place)
{
    if (place == 0) offer_literals(word, "", c->usage, " |,");
    if (place == 0 && begins(c->usage, "NAME")) { /* the name of a shipped recipe */
        shipped s;
        const int n = shipped_find(&s) ? s.n : 0;
        for (int i = 0; i < n; i++) offer(word, "", s.names[i], strlen(s.names[i]), "");
    }
    if (place == 0 || strstr(c->usage, "key=value") == NULL) return;
    const bool removes = *word == '~';
    if (*word != 0) offer_keys(dt_recipe_keys, word + removes, removes ? "~" : "");
}

int cli_complete(const cli_args *args)
{
    const int last = args->n_words - 1;
    const char *word = last < 0 ? "" : args->words[last];
    if (last <= 0) {
        offer_commands(word);
        return CLI_DONE;
    }
    const cli_command *c = cli_command_named(args->words[0]);
    if (c == NULL || c->hidden) return CLI_DONE;
    const char *before = args->words[last - 1];
    const cli_option *o = last > 1 ? find_option(c, before, strlen(before)) : NULL;
    const size_t n = strcspn(word, "=");
    if (takes_word(o)) {
        offer_values(o, word, "");
    } else if (word[0] == '-' && word[n] == '=') {
        char name[CLI_PATH];
        snprintf(name, sizeof name, "%.*s", (int)n + 1, word);
        o = find_option(c, word, n);
        if (o != NULL) offer_values(o, word + n + 1, name);
    } else if (word[0] == '-') {
        offer_options(c, word);
    } else {
        offer_words(c, word, count_words(c, args->words, last));
    }
    return CLI_DONE;
}
