/* What writes the pages of docs/ that come from tables of the program; suite `pages` compares. */
#ifndef PAGES_H
#define PAGES_H

#include "testing.h"

#include <stdio.h>

void pages_put_ops(FILE *f);     /* docs/ops.md */
void pages_put_exports(FILE *f); /* a list in docs/export.md */
void pages_put_recipe(FILE *f);  /* docs/recipe.md */

#endif
