/* What a kind of tensor is. A kind answers four questions (value, codes, inner, pullback); an op
 * says what it wants of each operand; dispatch brings the two together, and nothing else
 * decides. */
#ifndef DT__AUTOGRAD_KIND_H
#define DT__AUTOGRAD_KIND_H

#include "core/tensor.h"
#include "kernels/panels.h"

/* Integer codes of a tensor: src/autograd/codes.h. */
typedef struct dt__codes dt__codes;

dt_status dt__codes_create(dt_ctx *ctx, dt__codes **out); /* empty, one reference */
void dt__codes_retain(dt__codes *codes);
void dt__codes_release(dt__codes *codes); /* NULL is allowed */

/* The image of all of x as a new tensor, which refuses writes. */
dt_status dt__dequantized(dt_ctx *ctx, const dt_tensor *x, const dt__codes *codes, dt_tensor **out);

typedef struct dt__kind {
    const char *name;
    /* The dense value of x for one call: *dense is the caller's to free. *codes, if codes were made
     * on the way, is what pullback will get; the caller's to release. */
    dt_status (*value)(dt_tape *t, dt_tensor *x, dt_tensor **dense, dt__codes **codes);
    /* The codes of x now, the caller's to release; NULL in *codes where it offers none. The
     * function itself is NULL for kinds that never do. */
    dt_status (*codes)(dt_tape *t, dt_tensor *x, dt__codes **codes);
    /* The tensor that in-place ops write and RAW operands read. NULL: the kind is read-only. */
    dt_tensor *(*inner)(dt_tensor *x);
    /* Takes the gradient of the value to whom it belongs. Owns `dvalue` and may change it. `codes`
     * are those that forward used, or NULL. */
    dt_status (*pullback)(dt_tape *t, dt_tensor *x, dt_tensor *dvalue, dt__codes *codes);
    /* Whether pullback needs the codes that forward used. NULL: never. */
    bool (*keeps_codes)(const dt_tensor *x, const dt__codes *codes);
    /* What is made from the inner tensor follows when that is written. An op that writes it block
     * by block may begin, tell of each block and so have the rest done while the block is in cache;
     * the version is that of the write already. Begin: the panels whose rows are blocks, NULL where
     * there is nothing to tell. Written: rows of panels first ... end-1 now hold what they will;
     * each panel once, from any thread. End closes every write, also those that were not begun. All
     * three NULL: nothing follows. */
    const dt__panel_layout *(*write_begin)(dt_tensor *x);
    void (*written)(dt_tensor *x, int64_t first, int64_t end);
    void (*write_end)(dt_tensor *x);
    /* The tape dropped x: nobody will read it again, but a gradient may still pass through it.
     * NULL: nothing to let go. */
    void (*dropped)(dt_tensor *x);
    /* Makes `copy`, a dense handle with the same shape and storage, the same kind as x. */
    dt_status (*clone)(dt_tensor *x, dt_tensor *copy);
    /* Makes `expert`, a dense handle on the elements of expert i of a grouped x, the same kind as
     * x. */
    dt_status (*expert)(dt_tensor *x, int64_t i, dt_tensor *expert);
    size_t (*print)(const dt_tensor *x, char *text, size_t size);
} dt__kind;

extern const dt__kind dt__dense;
static inline const dt__kind *dt__kind_of(const dt_tensor *x)
{
    return x->kind != NULL ? x->kind : &dt__dense;
}

/* Adds d to the gradient slot of x and takes ownership of d. */
dt_status dt__accumulate(dt_tape *t, dt_tensor *x, dt_tensor *d);

/* A dense handle on part i of the first dimension of a contiguous x, cut into n equal parts. Where
 * x is a leaf, what flows into it lands in the slot of x, and it requires a gradient where x
 * does. */
dt_status dt__portion(dt_tensor *x, int64_t i, int64_t n, dt_tensor **out);
/* What a gradient slot is to such a handle. */
dt_status dt__accumulate_portion(dt_tape *t, dt_tensor *portion, dt_tensor *d);
dt_tensor *dt__grad_of_portion(const dt_tensor *portion);
void dt__clear_portion(dt_tensor *portion);

/* to = from, element by element: two dense tensors of one dtype and shape, any strides. Raw: no
 * version is raised. */
void dt__copy_tensor(const dt_tensor *from, dt_tensor *to);

#endif
