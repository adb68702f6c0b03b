/* figures.h: the name that experimental/figures.h had before. */
#include <detent/experimental/figures.h>
