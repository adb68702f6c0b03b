/* layers.h: the name that experimental/layers.h had before. */
#include <detent/experimental/layers.h>
