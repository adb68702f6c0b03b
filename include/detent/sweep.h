/* sweep.h: the former name of experimental/sweep.h. */
#include <detent/experimental/sweep.h>
