/* Text for people: lines that end at 80 columns, and words of the library's tables. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 80

/* Number of characters of UTF-8 text: counts bytes that are not continuation bytes. */
static int characters(const char *text, size_t bytes)
{
    int n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

int cli_columns(const char *text) { return characters(text, strlen(text)); }

void cli_wrap(FILE *to, int column, int indent, const char *text)
{
    bool first = true;
    while (*(text += strspn(text, " ")) != 0) {
        const size_t bytes = strcspn(text, " ");
        const int width = characters(text, bytes);
        if (!first && column + 1 + width > MOST_COLUMNS) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', to);
            column++;
        }
        fwrite(text, 1, bytes, to);
        column += width;
        text += bytes;
        first = false;
    }
    fputc('\n', to);
}

/* ---- tables --------------------------------------------------------------------------------- */

void cli_table_put(cli_table *t, const char *text)
{
    const int i = t->row * t->columns + t->column;
    if (i < CLI_CELLS) {
        snprintf(t->cell[i], sizeof t->cell[i], "%s", text);
        const int width = cli_columns(t->cell[i]);
        if (width > t->width[t->column]) t->width[t->column] = width;
    }
    if (++t->column < t->columns) return;
    t->column = 0;
    t->row++;
}

void cli_table_print(const cli_table *t)
{
    for (int i = 0; i < t->row * t->columns && i < CLI_CELLS; i++) {
        const int column = i % t->columns;
        const int gap = t->width[column] - cli_columns(t->cell[i]);
        if (column == 0) printf("%s%*s", t->cell[i], gap, "");
        else printf("  %*s%s", gap, "", t->cell[i]);
        if (column == t->columns - 1) putchar('\n');
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool find_key(const dt_key *keys, const char *name, const char *above, char path[CLI_KEY])
{
    char here[CLI_KEY];
    for (const dt_key *k = keys; k->name != NULL; k++) {
        snprintf(here, sizeof here, "%s%s%s", above, *above == 0 ? "" : ".", k->name);
        if (k->type != DT_KEY_MAP && strcmp(k->name, name) == 0) {
            snprintf(path, CLI_KEY, "%s", here);
            return true;
        }
        if (k->type == DT_KEY_MAP && find_key(k->keys, name, here, path)) return true;
    }
    return false;
}

bool cli_find_key(const char *name, char path[CLI_KEY])
{
    char key[CLI_KEY];
    snprintf(key, sizeof key, "%s", name);
    for (char *c = key; *c != 0; c++) *c = *c == '-' ? '_' : *c;
    return find_key(dt_recipe_keys, key, "", path);
}
