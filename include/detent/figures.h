/* figures.h: the former name of experimental/figures.h. */
#include <detent/experimental/figures.h>
