/* report.h: the former name of experimental/report.h. */
#include <detent/experimental/report.h>
