/* tables.h: the former name of experimental/tables.h. */
#include <detent/experimental/tables.h>
