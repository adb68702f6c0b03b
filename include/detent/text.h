/* text.h: the name that experimental/text.h had before. */
#include <detent/experimental/text.h>
