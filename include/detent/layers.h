/* layers.h: the former name of experimental/layers.h. */
#include <detent/experimental/layers.h>
