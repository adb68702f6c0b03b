/* columns.h: the name that experimental/columns.h had before. */
#include <detent/experimental/columns.h>
