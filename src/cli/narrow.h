/* Recipes on a terminal: shortens comments with origins where lines are too wide. */
#ifndef NARROW_H
#define NARROW_H

#include "cli/print/text.h"

/* The part of a line that dt_recipe_show has written so far. Initialize as { .width = ... }. */
typedef struct narrow {
    int width; /* of the screen */
    cli_text line;
} narrow;

/* A dt_sink that prints whole lines on stdout. IO. */
dt_status narrow_add(void *user, const char *text, size_t bytes);

#endif
