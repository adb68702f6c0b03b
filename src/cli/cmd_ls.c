/* detent ls: the shipped recipes, each with the first line of its comment. */
#include "cli.h"
#include "shipped.h"

#include <stdio.h>
#include <string.h>

/* "# words" in the first line of a file. */
static void first_comment(const char *path, char text[200])
{
    text[0] = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) return;
    if (fgets(text, 200, file) == NULL || text[0] != '#') text[0] = 0;
    fclose(file);
    text[strcspn(text, "\r\n")] = 0;
    const size_t skip = strspn(text, "# ");
    memmove(text, text + skip, strlen(text + skip) + 1);
}

int cli_ls(const cli_args *args)
{
    static const char none[] = "no recipes found; DETENT_CONFIGS can name their folder";
    shipped s;
    if (!shipped_find(&s)) return cli_fail(args, CLI_FAILED, none);
    const bool json = args->option[0] != NULL;
    if (json) fputs("[", stdout);
    for (int i = 0; i < s.n; i++) {
        char path[SHIPPED_PATH], text[200] = "";
        if (shipped_path(&s, s.names[i], path)) first_comment(path, text);
        if (!json) {
            printf("%-24s %s\n", s.names[i], text);
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
