/* Printed text (text.h): wrapped words, lists, tables, names in the library's tables. */
#include "cli/print/text.h"

#include "cli/print/screen.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COLUMNS 16
#define LEAST_TEXT 34 /* least columns for the text of an entry beside its head */
#define BELOW 6       /* indentation of the text below the head */
#define CELL 512

int cli_columns(const char *text) { return screen_columns(text, strlen(text)); }

void cli_wrap(FILE *to, int column, int indent, const char *text)
{
    const int most = screen_width(to);
    bool first = true;
    while (*(text += strspn(text, " ")) != 0) {
        const size_t bytes = strcspn(text, " ");
        const int width = screen_columns(text, bytes);
        if (!first && column + 1 + width > most) {
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

/* Indents the further lines of a message, so that a name with a line break cannot look like a
 * message of the program. */
#define FURTHER "\n  "

void cli_tell_by(FILE *to, const char *before, const char *format, va_list arguments)
{
    char text[4096];
    const int n = snprintf(text, sizeof text, "%s", before);
    vsnprintf(text + n, sizeof text - (size_t)n, format, arguments);
    for (char *line = text + n, *next; line != NULL; line = next) {
        const bool first = line == text + n;
        next = strstr(line, FURTHER);
        if (next != NULL) {
            *next = 0;
            next += strlen(FURTHER);
        }
        dt_text_clean(line);
        if (!first) fputs("  ", to);
        if (screen_wraps(to)) {
            cli_wrap(to, first ? 0 : 2, !first ? 4 : to == stdout ? 0 : 2, first ? text : line);
        } else {
            fprintf(to, "%s\n", first ? text : line);
        }
    }
}

void cli_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cli_tell_by(stdout, "", format, arguments);
    va_end(arguments);
}

void cli_tell(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cli_tell_by(to, "", format, arguments);
    va_end(arguments);
}

void cli_text_add(cli_text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(t->text + t->used, sizeof t->text - t->used, format, arguments);
    va_end(arguments);
    if (n > 0) t->used += (size_t)n;
    if (t->used >= sizeof t->text) t->used = sizeof t->text - 1;
}

cli_dims cli_dims_of(int rank, const int64_t *dims)
{
    cli_dims of = { "[" };
    size_t used = 1;
    for (int i = 0; i < rank; i++) {
        used += (size_t)snprintf(of.text + used, sizeof of.text - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)dims[i]);
    }
    snprintf(of.text + used, sizeof of.text - used, "]");
    return of;
}

void cli_text_add_name(cli_text *t, const char *name)
{
    const size_t first = t->used;
    cli_text_add(t, "%s", name);
    dt_text_clean(t->text + first);
    t->used = first + strlen(t->text + first);
}

void cli_entry(FILE *to, const char *head, int column, const char *text)
{
    const int width = cli_columns(head);
    const bool beside = column + LEAST_TEXT <= screen_width(to);
    const int at = beside ? column : BELOW;
    if (beside && width < column) fprintf(to, "%s%*s", head, column - width, "");
    else fprintf(to, "%s\n%*s", head, at, "");
    cli_wrap(to, at, at, text);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Makes room for another cell. */
static bool grow(cli_table *t)
{
    if (t->n < t->room) return true;
    const int room = 2 * t->room + 64;
    char **cells = realloc(t->cell, (size_t)room * sizeof *cells);
    if (cells == NULL) return false;
    t->cell = cells;
    t->room = room;
    return true;
}

void cli_table_put(cli_table *t, const char *text)
{
    char *copy = grow(t) ? strdup(text) : NULL;
    if (copy == NULL) {
        t->failed = true;
        return;
    }
    dt_text_clean(copy);
    t->cell[t->n++] = copy;
}

void cli_table_format(cli_table *t, const char *format, ...)
{
    char text[CELL];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_table_put(t, text);
}

/* The layout of a table. */
typedef struct layout {
    int columns, gap;
    int width[MOST_COLUMNS];
    bool shown[MOST_COLUMNS];
    bool stacked; /* rows take several lines */
} layout;

static int width_of(const layout *l)
{
    int sum = 0, n = 0;
    for (int i = 0; i < l->columns; i++) {
        if (l->shown[i]) sum += l->width[i];
        n += l->shown[i];
    }
    return sum + (n - 1) * l->gap;
}

/* Hides the last optional column that is shown; false if there is none. */
static bool hide_one(const cli_table *t, layout *l)
{
    for (int i = l->columns - 1; i >= 0; i--) {
        if (t->form[i] != 'o' || !l->shown[i]) continue;
        l->shown[i] = false;
        return true;
    }
    return false;
}

static layout lay_out(const cli_table *t, int screen)
{
    layout l = { .columns = (int)strlen(t->form), .gap = 2 };
    for (int i = 0; i < t->n; i++) {
        const int column = i % l.columns, width = cli_columns(t->cell[i]);
        if (width > l.width[column]) l.width[column] = width;
    }
    for (int i = 0; i < l.columns; i++) l.shown[i] = true;
    while (width_of(&l) > screen && hide_one(t, &l)) continue;
    if (width_of(&l) > screen) l.gap = 1;
    if (width_of(&l) <= screen) return l;
    l.stacked = true;
    for (int i = 0; i < l.columns; i++) l.shown[i] = true;
    return l;
}

/* Prints text that may be wider than a line. Returns the column behind it. */
static int print_broken(const char *text, int column, int indent, int screen)
{
    for (;;) {
        const size_t bytes = screen_fitting(text, screen - column);
        fwrite(text, 1, bytes, stdout);
        column += screen_columns(text, bytes);
        text += bytes;
        if (*text == 0 || (bytes == 0 && column <= indent)) return column;
        printf("\n%*s", indent, "");
        column = indent;
    }
}

/* Prints a row over several lines. Spaces are printed only when a cell follows. */
static void print_stacked(const cli_table *t, const layout *l, int first, int screen)
{
    enum { INDENT = 2 };
    int column = print_broken(t->cell[first], 0, 0, screen), spaces = 0;
    bool ended = false; /* the next cell begins a new line */
    for (int i = 1; i < l->columns; i++) {
        const char *text = t->cell[first + i];
        const int width = l->width[i], pad = width - cli_columns(text);
        const bool left = t->form[i] == 'l', fits = column + spaces + l->gap + width <= screen;
        if (*text == 0 && width == 0) continue;
        if (i == 1 || !fits) {
            ended = true;
            column = INDENT;
            spaces = 0;
        } else {
            spaces += l->gap;
        }
        spaces += left ? 0 : pad;
        if (*text != 0) {
            if (ended) printf("\n%*s", INDENT, "");
            ended = false;
            printf("%*s", spaces, "");
            column = print_broken(text, column + spaces, INDENT, screen);
            spaces = 0;
        }
        spaces += left ? pad : 0;
    }
    putchar('\n');
}

static void print_row(const cli_table *t, const layout *l, int first)
{
    int spaces = 0;
    for (int i = 0; i < l->columns; i++) {
        if (!l->shown[i]) continue;
        const char *text = t->cell[first + i];
        const int pad = l->width[i] - cli_columns(text);
        const bool left = t->form[i] == 'l';
        if (*text != 0) printf("%*s%s", spaces + (left ? 0 : pad), "", text);
        spaces = (*text != 0 ? 0 : spaces + (left ? 0 : pad)) + (left ? pad : 0) + l->gap;
    }
    putchar('\n');
}

void cli_table_free(cli_table *t)
{
    for (int i = 0; i < t->n; i++) free(t->cell[i]);
    free(t->cell);
    *t = (cli_table){ .form = t->form };
}

static bool incomplete;

bool cli_is_incomplete(void) { return incomplete; }
void cli_begin_output(void) { incomplete = false; }

void cli_leave_out(const char *what)
{
    fprintf(stderr, "detent: out of memory for %s\n", what);
    incomplete = true;
}

void cli_table_print(cli_table *t)
{
    const int screen = screen_width(stdout);
    const layout l = lay_out(t, screen);
    for (int first = 0; first + l.columns <= t->n && !t->failed; first += l.columns) {
        if (first == 0) fputs(screen_style_of(stdout, SCREEN_BOLD), stdout);
        if (l.stacked) print_stacked(t, &l, first, screen);
        else print_row(t, &l, first);
        if (first == 0) fputs(screen_style_of(stdout, SCREEN_PLAIN), stdout);
    }
    if (t->failed) cli_leave_out("a table");
    cli_table_free(t);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool find_key(const dt_key *keys, const char *name, const char *above, char path[CLI_KEY])
{
    char here[CLI_KEY];
    for (const dt_key *k = keys; k->name != NULL; k++) {
        snprintf(here, sizeof here, "%s%s%s", above, *above == 0 ? "" : ".", k->name);
        if (k->type != DT_KEY_MAP && (strcmp(k->name, name) == 0 || strcmp(here, name) == 0)) {
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

#define MOST_KEYS 511
#define SHORT 4 /* so few letters are similar to too many names */

/* Collects the last parts of all keys' paths. */
static void add_keys(const dt_key *keys, const char **names, int *n)
{
    for (const dt_key *k = keys; k->name != NULL && *n < MOST_KEYS; k++) {
        if (k->type == DT_KEY_MAP) add_keys(k->keys, names, n);
        else names[(*n)++] = k->name;
    }
}

bool cli_near_key(const char *name, char path[CLI_KEY])
{
    const char *names[MOST_KEYS + 1] = { NULL };
    int n = 0;
    add_keys(dt_recipe_keys, names, &n);
    const char *nearest = strlen(name) > SHORT ? dt_nearest(names, name) : NULL;
    return nearest != NULL && cli_find_key(nearest, path);
}
