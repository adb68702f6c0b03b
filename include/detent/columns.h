/* columns.h: the former name of experimental/columns.h. */
#include <detent/experimental/columns.h>
