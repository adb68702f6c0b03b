/* Median and quartiles of measurements. */
#ifndef DT__CORE_QUARTILES_H
#define DT__CORE_QUARTILES_H

typedef struct dt__quartiles {
    double median, low, high;
    int n;
} dt__quartiles;

/* Median and quartiles of n values, at least one. Sorts them. */
dt__quartiles dt__quartiles_of(int n, double *values);

#endif
