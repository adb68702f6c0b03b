/* text.h: the former name of experimental/text.h. */
#include <detent/experimental/text.h>
