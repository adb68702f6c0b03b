/* The text of a page. Text from outside of the program must be written by `%s`, which escapes
 * it. */
#ifndef DT__REPORT_PAGE_TEXT_H
#define DT__REPORT_PAGE_TEXT_H

#include "core/text/json.h"

/* Appends a format, in which
 *     %s  is a text, escaped for HTML, also within attributes
 *     %r  a text of the program, not escaped
 *     %i  an int64_t, with thousands apart: 12,345
 *     %d  an int64_t, plain
 *     %f  a double with one decimal, for coordinates
 *     %g  a double with four significant digits
 *     %b  an int64_t of bytes: 12.3 KiB
 *     %p  a double, a share, as percent: 1.2 %
 * and %% is a percent sign. Numbers are the same in every locale; those that are not finite become
 * a dash. */
void dt__page(dt__chars *t, const char *format, ...);

/* Appends a number with a fixed number of decimals (0 ... 6). */
void dt__page_fixed(dt__chars *t, double value, int decimals);

#endif
