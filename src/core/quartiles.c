/* Median and quartiles of n sorted values v: the median is the middle one, or the mean of the two
 * in the middle; the quartiles are v[floor(n / 4)] and its counterpart from the end. */
#include "core/quartiles.h"
#include "core/comparisons.h"

#include <stdlib.h>

dt__quartiles dt__quartiles_of(int n, double *values)
{
    qsort(values, (size_t)n, sizeof values[0], dt__by_double);
    const int quarter = n / 4, half = n / 2;
    const double median = n % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
    return (dt__quartiles){ median, values[quarter], values[n - 1 - quarter], n };
}
