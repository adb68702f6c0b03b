/* Shortens a line `key: value      # path/recipe.yaml:7` that is too wide: moves the comment to the
 * left, then cuts its beginning, `key: value  # ...recipe.yaml:7`. Values are never cut, so that
 * the output remains a valid recipe. */
#include "cli/narrow.h"

#include "cli/cli.h"
#include "cli/print/screen.h"

#include <string.h>

#define LEAST_SHOWN 8 /* shortest comment that is printed, in columns */

/* The position of the " # " that begins the comment, outside of quotes; the length of the line if
 * there is none. */
static size_t comment_of(const char *line, size_t n)
{
    char quote = 0;
    for (size_t i = 0; i + 2 < n; i++) {
        const char c = line[i];
        if (quote != 0) {
            if (c == '\\' && quote == '"') i++;
            else if (c == quote) quote = 0;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (memcmp(line + i, " # ", 3) == 0) {
            return i;
        }
    }
    return n;
}

static dt_status print(const char *text, size_t n) { return cli_stdout(NULL, text, n); }

/* Prints the last `columns` columns of a comment's text, with dots in front. */
static dt_status print_end(const char *text, size_t n, int columns)
{
    size_t from = 0;
    while (from < n && screen_columns(text + from, n - from) + 3 > columns) {
        do from++;
        while (from < n && ((unsigned char)text[from] & 0xC0) == 0x80);
    }
    const dt_status s = print("...", 3);
    return s == DT_OK ? print(text + from, n - from) : s;
}

/* Prints a line without its end. */
static dt_status print_line(const narrow *p, const char *line, size_t n)
{
    size_t value = comment_of(line, n);
    if (screen_columns(line, n) <= p->width || value == n) return print(line, n);
    const char *text = line + value + 3;
    const size_t left = n - value - 3;
    while (value > 0 && line[value - 1] == ' ') value--;
    const int room = p->width - screen_columns(line, value) - 4; /* behind "  # " */
    dt_status s = print(line, value);
    if (s != DT_OK || room < LEAST_SHOWN) return s;
    s = print("  # ", 4);
    if (s != DT_OK) return s;
    return screen_columns(text, left) <= room ? print(text, left) : print_end(text, left, room);
}

dt_status narrow_add(void *user, const char *text, size_t bytes)
{
    narrow *p = user;
    dt_status s = DT_OK;
    for (size_t i = 0; i < bytes && s == DT_OK; i++) {
        if (text[i] == '\n') {
            s = print_line(p, p->line.text, p->line.used);
            if (s == DT_OK) s = print("\n", 1);
            p->line.used = 0;
        } else if (p->line.used + 1 < sizeof p->line.text) {
            p->line.text[p->line.used++] = text[i];
        } else { /* a line longer than the buffer is printed in parts */
            s = print(p->line.text, p->line.used);
            p->line.used = 0;
            p->line.text[p->line.used++] = text[i];
        }
    }
    return s;
}
