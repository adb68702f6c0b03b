/* Numbers as text, without a C library. */
#ifndef REPORT_H
#define REPORT_H
#include "host.h"

static inline void print_number(uint64_t n)
{
    char text[24];
    char *p = text + sizeof text - 1;
    *p = 0;
    do {
        *--p = (char)('0' + (int)(n % 10u));
        n /= 10u;
    } while (n != 0);
    host_print(p);
}

static inline void print_line(const char *name, uint64_t n)
{
    host_print(name);
    host_print(" ");
    print_number(n);
    host_print("\n");
}
#endif
