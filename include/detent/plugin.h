/* plugin.h: the former name of experimental/plugin.h. */
#include <detent/experimental/plugin.h>
