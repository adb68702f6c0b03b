/* plugin.h: the name that experimental/plugin.h had before. */
#include <detent/experimental/plugin.h>
