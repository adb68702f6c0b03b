/* detent cp: copies a shipped recipe; nothing that exists is overwritten. */
#include "cli.h"
#include "shipped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool copy(FILE *from, FILE *to)
{
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, from)) > 0) {
        if (fwrite(block, 1, n, to) != n) return false;
    }
    return !ferror(from);
}

/* Creates a new file; NULL with EEXIST if it exists. */
static FILE *create(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    return file < 0 ? NULL : fdopen(file, "w");
}

static int copy_file(const cli_args *args, const char *from_path, const char *to_path)
{
    FILE *from = fopen(from_path, "r");
    if (from == NULL) return cli_fail(args, CLI_BAD_FILE, "%s: %s", from_path, strerror(errno));
    FILE *to = create(to_path);
    if (to == NULL) {
        const int status = cli_fail(args, CLI_BAD_FILE, "%s: %s", to_path, strerror(errno));
        fclose(from);
        return status;
    }
    const bool copied = copy(from, to);
    fclose(from);
    if (fclose(to) == 0 && copied) {
        printf("%s\n", to_path);
        return CLI_DONE;
    }
    unlink(to_path);
    return cli_fail(args, CLI_FAILED, "%s: cannot be written", to_path);
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
    if (!shipped_path(&s, name, from)) return cli_fail(args, CLI_FAILED, "path too long");
    snprintf(to, sizeof to, "%s.yaml", name);
    return copy_file(args, from, args->n_words > 1 ? args->words[1] : to);
}
