/* detent cp: copies a shipped recipe; never overwrites a file. */
#include "cli/cli.h"
#include "cli/shipped.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)1 << 20) /* bytes of a recipe */

static int copy_file(const cli_args *args, const char *from_path, const char *to_path)
{
    FILE *from = fopen(from_path, "r");
    if (from == NULL) {
        return cli_fail(args, cli_exit_errno(errno), "%s: %s", from_path, strerror(errno));
    }
    char *text = malloc(MOST);
    const size_t n = text == NULL ? 0 : fread(text, 1, MOST, from);
    const bool whole = text != NULL && !ferror(from);
    fclose(from);
    const int status = whole ? cli_write_new(args, to_path, text, n)
                             : cli_fail(args, CLI_FAILED, "%s: cannot be read", from_path);
    free(text);
    if (status == CLI_DONE) printf("%s\n", to_path);
    return status;
}

int cli_cp(const cli_args *args)
{
    shipped s;
    char name[64], from[SHIPPED_PATH], to[80];
    const char *wanted = args->words[0];
    if (!shipped_find(&s)) {
        return cli_fail(args, CLI_FAILED, "no recipes found; DETENT_CONFIGS can name their folder");
    }
    snprintf(name, sizeof name, "%s", wanted);
    const size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".yaml") == 0) name[n - 5] = 0;
    const char *names[SHIPPED_MOST + 1] = { NULL };
    int i = 0;
    for (int j = 0; j < s.n; j++) names[j] = s.names[j];
    while (i < s.n && strcmp(s.names[i], name) != 0) i++;
    if (i == s.n) {
        const char *meant = dt_nearest(names, name);
        return cli_fail(args, CLI_BAD_FILE, "no recipe '%s'%s%s%s", wanted,
                        meant == NULL ? "; `detent ls` lists them" : " (did you mean '",
                        meant == NULL ? "" : meant, meant == NULL ? "" : "'?)");
    }
    if (!shipped_path(&s, name, from))
        return cli_fail(args, CLI_FAILED, "the path of %s is too long", name);
    snprintf(to, sizeof to, "%s.yaml", name);
    return copy_file(args, from, args->n_words > 1 ? args->words[1] : to);
}
