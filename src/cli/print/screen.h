/* Text on a terminal: width, columns of characters, colours, bars. */
#ifndef SCREEN_H
#define SCREEN_H

#include <detent/experimental/detent.h>

#include <stdio.h>

enum { SCREEN_LEAST = 40, SCREEN_USUAL = 80, SCREEN_MOST = 1000 };

/* The width of lines for `to`: the environment variable COLUMNS, else the width of the terminal
 * behind `to`, else 80; at least 40. */
int screen_width(FILE *to);

/* Whether sentences for `to` are wrapped: it is a terminal, or COLUMNS is set. For programs and
 * logs a sentence is one line. */
bool screen_wraps(FILE *to);

/* Number of columns that `bytes` bytes of UTF-8 text take: two for wide characters, none for
 * combining ones, one for a byte that is no UTF-8. */
int screen_columns(const char *text, size_t bytes);

/* Length in bytes of the longest prefix that takes at most `columns` columns. */
size_t screen_fitting(const char *text, int columns);

typedef enum screen_style {
    SCREEN_PLAIN, /* ends the other styles */
    SCREEN_BOLD,
    SCREEN_DIM,
    SCREEN_RED,
    SCREEN_GREEN
} screen_style;

/* The sequence that begins a style; "" unless `to` is a terminal with colours, and NO_COLOR is not
 * set. */
const char *screen_style_of(FILE *to, screen_style style);

#define SCREEN_BAR 384 /* bytes of a bar of 100 columns */

/* Writes a bar of `width` columns (1 to 100), filled up to `share` (0 to 1), with block characters
 * where the locale is UTF-8, else with # and -. */
void screen_bar(char text[SCREEN_BAR], int width, double share);

/* Writes seconds as "0:07" or "1:02:03". */
void screen_time(char text[32], double seconds);

#endif
