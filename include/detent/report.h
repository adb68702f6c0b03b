/* report.h: the name that experimental/report.h had before. */
#include <detent/experimental/report.h>
