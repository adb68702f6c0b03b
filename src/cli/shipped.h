/* The recipes shipped with the program. */
#ifndef CLI_SHIPPED_H
#define CLI_SHIPPED_H

#include <stdbool.h>
#include <stddef.h>

#define SHIPPED_MOST 128
#define SHIPPED_PATH 4096

typedef struct shipped {
    char folder[SHIPPED_PATH];
    char names[SHIPPED_MOST][64]; /* without ".yaml", sorted */
    int n;
} shipped;

/* Lists them, from $DETENT_CONFIGS, else the folder installed with the program, else the source
 * tree that it was built in. False if there are none. */
bool shipped_find(shipped *s);

/* Writes the path of a recipe; false if it is too long. */
bool shipped_path(const shipped *s, const char *name, char path[SHIPPED_PATH]);

#endif
