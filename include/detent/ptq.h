/* ptq.h: the former name of experimental/ptq.h. */
#include <detent/experimental/ptq.h>
