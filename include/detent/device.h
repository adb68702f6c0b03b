/* device.h: the former name of experimental/device.h. */
#include <detent/experimental/device.h>
