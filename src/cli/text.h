/* Text for people: lines that end at 80 columns, and words of the library's tables. */
#ifndef TEXT_H
#define TEXT_H

#include <detent/train.h>

#include <stdio.h>

#define CLI_KEY 128
#define CLI_CELLS 128

/* Number of characters of UTF-8 text. */
int cli_columns(const char *text);

/* Prints the words of `text` and a newline. The cursor is at `column`; further lines are indented
 * by `indent`. No line ends beyond column 80, unless a single word does. */
void cli_wrap(FILE *to, int column, int indent, const char *text);

/* A table whose columns are as wide as their longest cell: the first is left-aligned, the others
 * right-aligned. Set `columns`, put the cells row by row, print. */
typedef struct cli_table {
    int columns;
    int row, column; /* of the next cell */
    int width[16];
    char cell[CLI_CELLS][64];
} cli_table;

void cli_table_put(cli_table *t, const char *text);
void cli_table_print(const cli_table *t);

/* Finds the full path of the first recipe key that ends in `name`, with '-' read as '_'. False:
 * none. */
bool cli_find_key(const char *name, char path[CLI_KEY]);

#endif
