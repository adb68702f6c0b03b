/* ptq.h: the name that experimental/ptq.h had before. */
#include <detent/experimental/ptq.h>
