/* Writing a tensor in place. Ops write on a tape (dispatch.c); loading, merging and other code
 * outside of a tape uses dt__write_value. */
#ifndef DT__AUTOGRAD_WRITE_H
#define DT__AUTOGRAD_WRITE_H

#include "autograd/kind.h"

/* Why a tensor cannot be written. Each is STATE for the caller's user. */
typedef enum dt__write_bar {
    DT__WRITABLE,        /* it can be written */
    DT__BAR_READ_ONLY,   /* the kind has no inner tensor: a converted weight */
    DT__BAR_DEQUANTIZED, /* a view of dequantized values, from which codes cannot be derived */
    DT__BAR_FROZEN,      /* dt_freeze */
    DT__BAR_NEEDED       /* a recorded op reads the values in backward */
} dt__write_bar;

#define DT__WHY_SIZE 160

/* Whether x can be written now. If not, `why` is a predicate for a message that begins with the
 * tensor's name: "belongs to a frozen model". `t` is the tape of the writing op, or NULL. */
dt__write_bar dt__may_write(dt_tensor *x, const dt_tape *t, char why[DT__WHY_SIZE]);

/* Begin a write outside of a tape: *to is the tensor to write in place of x, with its version
 * raised; and end it. The caller has called dt__may_write. */
dt_tensor *dt__write_open(dt_tensor *x);
void dt__write_close(dt_tensor *x);
/* Called between begin and end when all of the tensor has its final values: renews codes in place,
 * as ops do that write block by block. */
void dt__write_renew(dt_tensor *x);
/* x = from, of the same dtype and shape, outside of a tape. The caller has called dt__may_write.
 * Raises the version; codes of x are renewed when they are next read. */
void dt__write_value(dt_tensor *x, const dt_tensor *from);

#endif
