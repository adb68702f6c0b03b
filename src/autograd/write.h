/* Writing a tensor in place. Ops do it on a tape (dispatch.c); loading, merging and the like do it
 * outside of any. */
#ifndef DT__AUTOGRAD_WRITE_H
#define DT__AUTOGRAD_WRITE_H

#include "autograd/kind.h"

/* What forbids a write. Each is STATE for whoever asked for it. */
typedef enum dt__write_bar {
    DT__WRITABLE,        /* nothing does */
    DT__BAR_READ_ONLY,   /* the kind has no inner tensor: a converted weight */
    DT__BAR_DEQUANTIZED, /* a view of dequantized values, from which no code follows */
    DT__BAR_FROZEN,      /* dt_freeze */
    DT__BAR_NEEDED       /* a recorded op reads the values in backward */
} dt__write_bar;

#define DT__WHY_SIZE 160

/* Whether the values of x can be written now. If not, `why` is a predicate for a message that
 * begins with the tensor's name: "belongs to a frozen model". `t` is the tape that the writing op
 * runs on; NULL: none. */
dt__write_bar dt__may_write(dt_tensor *x, const dt_tape *t, char why[DT__WHY_SIZE]);

/* x = from, of the same dtype and shape, outside of any tape. The caller has asked dt__may_write.
 * The version rises, and what follows from x (its codes) is made anew when it is next read. */
void dt__write_value(dt_tensor *x, const dt_tensor *from);

#endif
