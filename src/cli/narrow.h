/* Recipes on a terminal: comments with origins are shortened where lines are wider than it. */
#ifndef NARROW_H
#define NARROW_H

#include "cli/print/text.h"

/* What dt_recipe_show has written of a line so far. Begins as { .width = ... }. */
typedef struct narrow {
    int width; /* of the screen */
    cli_text line;
} narrow;

/* A dt_sink that prints whole lines on stdout. IO. */
dt_status narrow_add(void *user, const char *text, size_t bytes);

#endif
