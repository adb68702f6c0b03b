/* The name of the processor: cpuid's brand string, leaves 0x80000002...4. */
#include "kernels/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

static void read_brand(char text[DT__PROCESSOR])
{
    unsigned word[4];
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        if (__get_cpuid(0x80000002U + leaf, &word[0], &word[1], &word[2], &word[3]) == 0) return;
        memcpy(text + leaf * sizeof word, word, sizeof word);
    }
}
#else
static void read_brand(char text[DT__PROCESSOR]) { (void)text; }
#endif

const char *dt__processor(char text[DT__PROCESSOR])
{
    memset(text, 0, DT__PROCESSOR);
    read_brand(text);
    /* The brand string may be padded with spaces and contain bytes that are not ASCII. */
    size_t n = 0;
    bool gap = false; /* a run of spaces precedes the next word */
    for (const char *c = text; *c != 0; c++) {
        const bool space = *c <= ' ' || *c > '~';
        if (!space && gap) text[n++] = ' ';
        gap = space && n > 0;
        if (!space) text[n++] = *c;
    }
    text[n] = 0;
    if (n == 0) snprintf(text, DT__PROCESSOR, "unknown");
    return text;
}
