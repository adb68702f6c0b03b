/* What these functions count on: floats of IEEE 754 that are rounded as they are written. */
#include <stdint.h>
#if defined(__STDC_HOSTED__) && __STDC_HOSTED__ == 0
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
#ifdef __cplusplus
}
#endif
#else
#include <string.h>
#endif

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) ||     \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "this file gives the trained model's results only without -ffast-math and its parts"
#endif
#if defined(__clang__) &&                                                                          \
    (defined(__i386__) || defined(__x86_64__) || defined(__s390x__) || defined(__powerpc__))
#pragma float_control(precise, on) /* without parts of -ffast-math that no macro tells */
#elif defined(__clang__)
#pragma clang fp reassociate(off)
#elif defined(_MSC_VER)
#pragma float_control(precise, on)
#endif
typedef char constants_are_doubles[sizeof(1.0) == sizeof(double) ? 1 : -1];
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "arithmetic of floats must be done in float; on x86: -msse2 -mfpmath=sse"
#endif
