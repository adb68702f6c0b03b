/* detent ls: lists the shipped recipes, with the first sentence of their head comments. */
#include "cli/cli.h"
#include "cli/shipped.h"
#include "cli/print/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT 400
#define NAME_COLUMN 25

/* The first sentence of a file's head comment, also if it spans lines. False where the file cannot
 * be read, with the reason in errno. */
static bool first_sentence(const char *path, char text[TEXT])
{
    char line[200];
    size_t used = 0;
    text[0] = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    while (used + sizeof line < TEXT && fgets(line, sizeof line, file) != NULL && line[0] == '#') {
        line[strcspn(line, "\r\n")] = 0;
        const char *words = line + strspn(line, "# ");
        if (*words == 0) break;
        used += (size_t)snprintf(text + used, TEXT - used, "%s%s", used == 0 ? "" : " ", words);
        char *end = strstr(text, ". ");
        if (end != NULL) end[1] = 0;
        if (end != NULL || text[used - 1] == '.') break;
    }
    const bool good = ferror(file) == 0;
    return fclose(file) == 0 && good;
}

int cli_ls(const cli_args *args)
{
    static const char none[] = "no recipes found; DETENT_CONFIGS can name their folder";
    shipped s;
    if (!shipped_find(&s)) return cli_fail(args, CLI_FAILED, none);
    const bool json = args->option[0] != NULL;
    if (json) fputs("[", stdout);
    for (int i = 0; i < s.n; i++) {
        char path[SHIPPED_PATH], text[TEXT] = "";
        if (shipped_path(&s, s.names[i], path) && !first_sentence(path, text)) {
            return cli_fail(args, CLI_FAILED, "%s: cannot read: %s", path, strerror(errno));
        }
        if (!json) {
            cli_entry(stdout, s.names[i], NAME_COLUMN, text);
            continue;
        }
        fputs(i == 0 ? "\n  {\"name\": " : ",\n  {\"name\": ", stdout);
        cli_json_string(s.names[i]);
        fputs(", \"path\": ", stdout);
        cli_json_string(path);
        fputs(", \"text\": ", stdout);
        cli_json_string(text);
        fputs("}", stdout);
    }
    if (json) fputs("\n]\n", stdout);
    return CLI_DONE;
}
