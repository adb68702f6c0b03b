/* tables.h: the name that experimental/tables.h had before. */
#include <detent/experimental/tables.h>
