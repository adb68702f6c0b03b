/* Kinds of tensors: dense, FakeQuantTensor, packed. A kind implements value, codes, inner and
 * pullback; an op declares the role of each operand; dispatch alone combines the two. */
#ifndef DT__AUTOGRAD_KIND_H
#define DT__AUTOGRAD_KIND_H

#include "core/tensor.h"
#include "kernels/products/panels.h"

/* Integer codes of a tensor: src/autograd/codes.h. */
typedef struct dt__codes dt__codes;

dt_status dt__codes_create(dt_ctx *ctx, dt__codes **out); /* empty, one reference */
void dt__codes_retain(dt__codes *codes);
void dt__codes_release(dt__codes *codes); /* NULL is allowed */

/* The dequantized values of all of x as a new tensor, which refuses writes. */
dt_status dt__dequantized(dt_ctx *ctx, const dt_tensor *x, const dt__codes *codes, dt_tensor **out);

typedef struct dt__kind {
    const char *name;
    /* The dense value of x for one call: *dense, which the caller frees. *codes: codes made
     * meanwhile, or NULL; the caller passes them to pullback and releases them. */
    dt_status (*value)(dt_tape *t, dt_tensor *x, dt_tensor **dense, dt__codes **codes);
    /* The current codes of x, which the caller releases; *codes NULL if it has none at the moment.
     * The function is NULL for kinds without codes. */
    dt_status (*codes)(dt_tape *t, dt_tensor *x, dt__codes **codes);
    /* The tensor that in-place ops write and RAW operands read. NULL: the kind is read-only. */
    dt_tensor *(*inner)(dt_tensor *x);
    /* Adds the gradient of the value to the gradients of the tensors that it depends on (master,
     * scales). Owns `dvalue` and may change it. `codes`: those of forward, or NULL. */
    dt_status (*pullback)(dt_tape *t, dt_tensor *x, dt_tensor *dvalue, dt__codes *codes);
    /* Whether pullback needs the codes of forward. NULL: never. */
    bool (*keeps_codes)(const dt_tensor *x, const dt__codes *codes);
    /* Codes renewal: updates what depends on the inner tensor when the inner tensor is written. An
     * op that writes block by block may call write_begin after the version has risen, then
     * `written` for each block, so that the block is re-encoded while it is in cache. write_begin
     * returns the layout of panels whose rows are the blocks, or NULL if there is nothing to renew.
     * `written`: the rows of panels first ... end-1 have their final values; called once for each
     * panel, from any thread. write_end is called after every write, also without write_begin. All
     * three NULL: nothing depends on the inner tensor. */
    const dt__panel_layout *(*write_begin)(dt_tensor *x);
    void (*written)(dt_tensor *x, int64_t first, int64_t end);
    void (*write_end)(dt_tensor *x);
    /* The tape dropped x: it will not be read again, but a gradient may still pass through it.
     * NULL: nothing to free. */
    void (*dropped)(dt_tensor *x);
    /* Gives `copy`, a dense handle with the same shape and storage, the kind of x. */
    dt_status (*clone)(dt_tensor *x, dt_tensor *copy);
    /* Gives `expert`, a dense handle on the elements of expert i of a grouped x, the kind of x. */
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

/* A dense handle on part i of the first dimension of a contiguous x, cut into n equal parts. If x
 * is a leaf, the part requires a gradient when x does, and its gradients are added to the slot of
 * x. */
dt_status dt__portion(dt_tensor *x, int64_t i, int64_t n, dt_tensor **out);
/* dt_grad, dt_grad_clear and dt__accumulate for such a handle. */
dt_status dt__accumulate_portion(dt_tape *t, dt_tensor *portion, dt_tensor *d);
dt_tensor *dt__grad_of_portion(const dt_tensor *portion);
void dt__clear_portion(dt_tensor *portion);

/* to = from, element by element: two dense tensors of one dtype and shape, any strides. Does not
 * raise the version. */
void dt__copy_tensor(const dt_tensor *from, dt_tensor *to);

#endif
