/* Printed text: lines wrapped at the width of the screen, tables, and names in the library's
 * tables. */
#ifndef TEXT_H
#define TEXT_H

#include <detent/experimental/train.h>

#include <stdarg.h>
#include <stdio.h>

#define CLI_KEY 128

/* Number of columns of UTF-8 text. */
int cli_columns(const char *text);

/* Prints the words of `text` and a newline. The cursor is at `column`; further lines are indented
 * by `indent`. No line is wider than the screen, unless a single word is. */
void cli_wrap(FILE *to, int column, int indent, const char *text);

/* Prints a sentence and a newline. On a terminal it is wrapped and, where `to` is not stdout, its
 * further lines are indented; elsewhere it is one line (screen_wraps). */
void cli_say(const char *format, ...) DT_PRINTF(1, 2); /* on stdout */
void cli_tell(FILE *to, const char *format, ...) DT_PRINTF(2, 3);
/* Prints a sentence behind a given beginning. */
void cli_tell_by(FILE *to, const char *before, const char *format, va_list arguments);

/* A text buffer; what does not fit is left out. Initialize as { .used = 0 }. */
typedef struct cli_text {
    size_t used;
    char text[4096];
} cli_text;

void cli_text_add(cli_text *t, const char *format, ...) DT_PRINTF(2, 3);
/* Adds extents: "[3, 28, 28]". */
typedef struct cli_dims {
    char text[192];
} cli_dims;
cli_dims cli_dims_of(int rank, const int64_t *dims);
/* Adds a name from a file, cleaned (dt_text_clean). */
void cli_text_add_name(cli_text *t, const char *name);

/* Records that a part of the output is missing for lack of memory: the program will end with an
 * error. */
void cli_leave_out(const char *what);
/* Whether a part is missing since cli_begin_output. */
bool cli_is_incomplete(void);
void cli_begin_output(void);

/* Prints an entry of a list: `head`, then `text` from `column` on, wrapped. Text begins on a new
 * line where there is little room, or the head is too long. */
void cli_entry(FILE *to, const char *head, int column, const char *text);

/* A table. Set `form`, put the cells row by row beginning with the head, print.
 *
 * Columns are as wide as their widest cell. A table that is wider than the screen loses optional
 * columns, the last first; if that does not suffice, it keeps all columns, and every row takes
 * several lines, with the first cell on a line of its own. */
typedef struct cli_table {
    /* one letter per column: l left-aligned, r right-aligned, o right-aligned and optional */
    const char *form;
    int n, room;
    char **cell;
    bool failed; /* out of memory */
} cli_table;

/* Adds a cell, copied; control characters become '?'. */
void cli_table_put(cli_table *t, const char *text);
void cli_table_format(cli_table *t, const char *format, ...) DT_PRINTF(2, 3);
/* Prints the table to stdout, and frees its cells. */
void cli_table_print(cli_table *t);
void cli_table_free(cli_table *t);

/* Finds the full path of the first recipe key that ends in `name`, where '-' stands for '_'. False:
 * none. */
bool cli_find_key(const char *name, char path[CLI_KEY]);
/* Finds it for a misspelled name. */
bool cli_near_key(const char *name, char path[CLI_KEY]);

#endif
