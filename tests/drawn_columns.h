/* Columns of tables, drawn: every type, scale, rule of missing and part; and fields of them. */
#ifndef DRAWN_COLUMNS_H
#define DRAWN_COLUMNS_H

#include "testing.h"

#include <detent/experimental/columns.h>

#define DRAWN_COLUMNS 12 /* at most */
#define DRAWN_QUANTILES 9
#define DRAWN_CATEGORIES 7

typedef struct drawn_columns {
    uint64_t state; /* of the generator */
    dt_columns all;
    dt_column column[DRAWN_COLUMNS];
    char name[DRAWN_COLUMNS][24];
    double quantile[DRAWN_COLUMNS][DRAWN_QUANTILES];
    char word[DRAWN_COLUMNS][DRAWN_CATEGORIES][24];
    const char *words[DRAWN_COLUMNS][DRAWN_CATEGORIES];
} drawn_columns;

uint64_t drawn_bits(drawn_columns *d);
/* 0 ... n - 1. */
int drawn_below(drawn_columns *d, int n);
/* Not a number that f32 holds, and of many sizes. */
double drawn_number(drawn_columns *d);

/* Draws columns; what they point to is in *d. */
void draw_columns(drawn_columns *d, uint64_t seed);
/* Draws a field of a column that it takes; missing only where that is allowed. */
double draw_field(drawn_columns *d, const dt_column *c);

#endif
