/* keys.h: lists in option structs. */
#ifndef DETENT_KEYS_H
#define DETENT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest list of integers or strings. */
#define DT_MAX_LIST 32
/* The longest list of real numbers. */
#define DT_MAX_REALS 128

/* Lists hold their elements, so option structs can be copied by assignment. */
typedef struct dt_ints {
    int n;
    int64_t v[DT_MAX_LIST];
} dt_ints;

typedef struct dt_reals {
    int n;
    double v[DT_MAX_REALS];
} dt_reals;

typedef struct dt_strings {
    int n;
    const char *v[DT_MAX_LIST]; /* lent by the code that filled the options */
} dt_strings;

#ifdef __cplusplus
}
#endif

/* Includes the experimental part, unless the program defines DETENT_STABLE_ONLY. */
#ifndef DETENT_STABLE_ONLY
#include <detent/experimental/keys.h>
#endif
#endif
