/* device.h: the name that experimental/device.h had before. */
#include <detent/experimental/device.h>
