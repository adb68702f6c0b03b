/* Values that are held as bf16 until backward. With dt_set_products backward rounds the factors of
 * products to bf16. A result that backward reads in no other way is therefore replaced by its
 * rounded values as soon as no later layer reads it: backward computes the same bits. */
#ifndef DT__AUTOGRAD_HALVES_H
#define DT__AUTOGRAD_HALVES_H

#include "autograd/tape.h"

/* Called before the handle x of a result drops its storage. If then only records hold the storage,
 * and none of them reads its value as DT_EXACT, their references to it are exchanged for rounded
 * values. Without memory for these, nothing changes. */
void dt__halves_hold(dt_tape *t, const dt_tensor *x);

/* Gives operands whose values are held as bf16, and which backward reads as DT_ROUNDED, a storage
 * of their own again. NOMEM. */
dt_status dt__halves_widen(dt_ctx *ctx, dt__record *r);

#endif
