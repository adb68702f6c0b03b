/* sweep.h: the name that experimental/sweep.h had before. */
#include <detent/experimental/sweep.h>
