/* Text for people: lines that end at 80 columns, and words of the library's tables. */
#ifndef TEXT_H
#define TEXT_H

#include <detent/train.h>

#include <stdio.h>

#define CLI_KEY 128
#define CLI_CELLS 128

/* Characters of UTF-8 text. */
int cli_columns(const char *text);

/* The words of `text` and a newline. The first line begins at `column`, those below at `indent`;
 * none ends beyond column 80, unless a word alone does. */
void cli_wrap(FILE *to, int column, int indent, const char *text);

/* A table whose columns are as wide as what they hold: the first one begins at the left, the others
 * end at the right. Set `columns`, put the cells row by row, print. */
typedef struct cli_table {
    int columns;
    int row, column; /* of the next cell */
    int width[16];
    char cell[CLI_CELLS][64];
} cli_table;

void cli_table_put(cli_table *t, const char *text);
void cli_table_print(const cli_table *t);

/* The whole path of a recipe's key that ends in `name`, '-' read as '_'; the first one of the page
 * of keys. False: no key does. */
bool cli_find_key(const char *name, char path[CLI_KEY]);

#endif
