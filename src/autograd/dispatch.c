/* Dispatch, the same for every op: operands are resolved by role and kind, the shape function
 * checks them and makes the results, the kernel runs, and the tape saves what the op's backward
 * reads. */
#include "autograd/op.h"
#include "autograd/segment.h"
#include "autograd/write.h"

#include <stdio.h>
#include <string.h>

static const char *in_name(const dt_call *c, int i)
{
    return c->op->in_name[i] != NULL ? c->op->in_name[i] : "operand";
}

dt_status dt_refuse(const dt_call *c, dt_status status, const char *format, ...)
{
    if (c == NULL || format == NULL) return DT_ERR_ARG;
    char text[DT__MESSAGE_SIZE];
    size_t used = (size_t)snprintf(text, sizeof text, "%s: ", c->op->name);
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    int shown = 0;
    for (int i = 0; i < c->n_in && used < sizeof text; i++) {
        char dims[160];
        const dt_tensor *x = c->in[i];
        if (x == NULL) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s%s",
                                 shown++ == 0 ? " (" : ", ", in_name(c, i), dt_dtype_name(x->dtype),
                                 dt__dims_text(x->rank, x->dims, dims, sizeof dims));
    }
    const char *where = c->tape != NULL ? c->tape->where : NULL;
    return dt_fail(c->ctx, status, "%s%s%s%s", text, shown > 0 ? ")" : "",
                   where != NULL ? " in " : "", where != NULL ? where : "");
}

dt_status dt_result(dt_call *c, int i, dt_dtype dtype, int rank, const int64_t *dims)
{
    DT__NEED(NULL, c);
    dt_tensor *y;
    const bool without_data = c->tape != NULL && c->tape->shapes_only;
    const dt_status s = (without_data ? dt__tensor_create_shape
                                      : dt__tensor_create_raw)(c->ctx, dtype, rank, dims, &y);
    if (s != DT_OK) return dt_refuse(c, s, "result %d: %s", i, dt_error(c->ctx));
    c->out[i] = y;
    if (i >= c->n_out) c->n_out = i + 1;
    return DT_OK;
}

/* ---- operands ------------------------------------------------------------------------------ */

/* Whether calls of other contexts may read the tensor: no context can write it. */
static bool is_shared(dt_tensor *x)
{
    char why[DT__WHY_SIZE];
    const dt__write_bar bar = dt__may_write(x, NULL, why);
    return bar == DT__BAR_READ_ONLY || bar == DT__BAR_FROZEN;
}

static dt_status check_operand(const dt_call *c, int i)
{
    dt_tensor *const x = c->in[i];
    if (x == NULL) return DT_OK;
    if (x->dropped) {
        return dt_refuse(c, DT_ERR_STATE, "%s was dropped; dt_keep keeps what a module made",
                         in_name(c, i));
    }
    if (x->tape != NULL && x->tape != c->tape) {
        return dt_refuse(c, DT_ERR_STATE, "%s was lent by another tape", in_name(c, i));
    }
    if (x->ctx != c->ctx && !is_shared(x)) {
        return dt_refuse(c, DT_ERR_ARG, "%s is of another context; only frozen models are shared",
                         in_name(c, i));
    }
    if (x->dtype == DT_I4) {
        return dt_refuse(c, DT_ERR_DTYPE, "%s is opaque i4; no op takes it", in_name(c, i));
    }
    if (x->grouped && c->op->ungrouped) {
        char text[160];
        return dt_refuse(
            c, DT_ERR_STATE,
            "%s is a grouped parameter of %lld %s; dt_grouped_expert gives one of them",
            in_name(c, i), (long long)x->dims[0],
            dt__dims_text(x->rank - 1, x->dims + 1, text, sizeof text));
    }
    return DT_OK;
}

static bool would_write(const dt_call *c, int i)
{
    return c->in[i] != NULL && c->op->role[i] == DT_WRITE &&
           (c->op->writes == NULL || c->op->writes(c->options));
}

/* In the second run of a checkpointed segment, tensors that do not belong to the tape are not
 * written again, since the first run wrote them. */
static bool keeps_target(const dt_call *c, int i)
{
    return dt__runs_again(c->tape) && would_write(c, i) && c->in[i]->tape == NULL;
}

static bool writes(const dt_call *c, int i) { return would_write(c, i) && !keeps_target(c, i); }

static dt_status contiguous_copy(const dt_call *c, const dt_tensor *x, dt_tensor **out)
{
    if (c->tape->shapes_only) {
        return dt__tensor_create_shape(c->ctx, x->dtype, x->rank, x->dims, out);
    }
    DT__TRY(dt__tensor_create_raw(c->ctx, x->dtype, x->rank, x->dims, out));
    dt__copy_tensor(x, *out);
    return DT_OK;
}

/* Sets arg[i] by role: the master for WRITE and RAW, else the value; made contiguous unless the op
 * accepts strides. */
static dt_status resolve(dt_call *c, int i, dt__codes **pull)
{
    const dt__kind *kind = dt__kind_of(c->in[i]);
    if (c->op->role[i] == DT_WRITE || c->op->role[i] == DT_RAW) {
        dt_tensor *inner = kind->inner == NULL ? NULL : kind->inner(c->in[i]);
        if (inner == NULL) {
            char why[DT__WHY_SIZE];
            dt__may_write(c->in[i], c->tape, why);
            return dt_refuse(c, DT_ERR_STATE, "%s %s", in_name(c, i), why);
        }
        dt__retain(inner);
        c->arg[i] = inner;
    } else if (c->tape->shapes_only && kind != &dt__dense) {
        const dt_tensor *x = c->in[i];
        return dt__handle_create(c->ctx, x->dtype, x->rank, x->dims, &c->arg[i]);
    } else {
        DT__TRY(kind->value(c->tape, c->in[i], &c->arg[i], pull));
    }
    if (!keeps_target(c, i) && (c->op->strided || dt_is_contiguous(c->arg[i]))) return DT_OK;
    dt_tensor *copy;
    DT__TRY(contiguous_copy(c, c->arg[i], &copy));
    dt_tensor_free(c->arg[i]);
    c->arg[i] = copy;
    return DT_OK;
}

/* Gets the codes of a CODES operand, if its kind has any and the op can use them. */
static dt_status ask_for_codes(dt_call *c, int i)
{
    const dt__kind *kind = dt__kind_of(c->in[i]);
    if (c->op->role[i] != DT_CODES || kind->codes == NULL || c->tape->shapes_only) return DT_OK;
    DT__TRY(kind->codes(c->tape, c->in[i], &c->codes[i]));
    if (c->codes[i] != NULL && c->op->takes_codes != NULL && !c->op->takes_codes(c, i)) {
        dt__codes_release(c->codes[i]);
        c->codes[i] = NULL;
    }
    return DT_OK;
}

/* Requests codes for CODES operands, and values of all operands without codes. */
static dt_status resolve_all(dt_call *c, dt__codes **pull)
{
    for (int i = 0; i < c->n_in && c->op->forward_codes != NULL; i++) {
        if (c->in[i] != NULL) DT__TRY(ask_for_codes(c, i));
    }
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] == NULL) continue;
        if (c->codes[i] == NULL) {
            DT__TRY(resolve(c, i, &pull[i]));
        } else { /* an operand with codes only passes its shape */
            c->coded = true;
            dt__codes_retain(c->codes[i]);
            pull[i] = c->codes[i];
            const dt_tensor *x = c->in[i];
            DT__TRY(dt__handle_create(c->ctx, x->dtype, x->rank, x->dims, &c->arg[i]));
        }
    }
    return DT_OK;
}

static dt_status pick_kernels(dt_call *c)
{
    dt_dtype real = DT_F32;
    bool found = false;
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] == NULL) continue;
        const dt_dtype d = c->in[i]->dtype;
        if (!dt__is_float(d)) continue;
        if (found && d != real) {
            return dt_refuse(c, DT_ERR_DTYPE, "operands mix f32 and f64; expected one of them");
        }
        real = d;
        found = true;
    }
    c->kernels = c->ctx->kernels[real];
    const bool chosen = real == DT_F32 && c->tape != NULL && !c->tape->no_grad;
    c->products = chosen ? c->ctx->products : DT_PRODUCTS_F32;
    return DT_OK;
}

dt_status dt__call_open(dt_call *c, dt__codes **pull)
{
    DT__TRY(pick_kernels(c));
    return resolve_all(c, pull);
}

/* ---- writing ------------------------------------------------------------------------------- */

static dt_status check_write(const dt_call *c, int i)
{
    char why[DT__WHY_SIZE];
    if (dt__may_write(c->in[i], c->tape, why) == DT__WRITABLE) return DT_OK;
    const char *name = dt__kind_of(c->in[i])->inner(c->in[i])->name;
    return dt_refuse(c, DT_ERR_STATE, "%s %s", name != NULL ? name : in_name(c, i), why);
}

static dt_status begin_writes(dt_call *c)
{
    for (int i = 0; i < c->n_in; i++) {
        if (writes(c, i)) DT__TRY(check_write(c, i));
    }
    for (int i = 0; i < c->n_in; i++) {
        if (writes(c, i)) dt__kind_of(c->in[i])->inner(c->in[i])->storage->version++;
    }
    return DT_OK;
}

/* If a strided target is replaced by a contiguous copy, it is not re-encoded block by block. */
const dt__panel_layout *dt__write_begin(const dt_call *c, int i)
{
    const dt__kind *kind = dt__kind_of(c->in[i]);
    const bool direct = kind->inner(c->in[i]) == c->arg[i];
    return kind->write_begin != NULL && direct ? kind->write_begin(c->in[i]) : NULL;
}

void dt__written(const dt_call *c, int i, int64_t first, int64_t end)
{
    dt__kind_of(c->in[i])->written(c->in[i], first, end);
}

static void end_writes(dt_call *c)
{
    for (int i = 0; i < c->n_in; i++) {
        if (!writes(c, i)) continue;
        const dt__kind *kind = dt__kind_of(c->in[i]);
        dt_tensor *target = kind->inner(c->in[i]);
        if (target != c->arg[i]) { /* copies back to a strided target */
            dt__copy_tensor(c->arg[i], target);
        }
        if (kind->write_end != NULL) kind->write_end(c->in[i]);
    }
}

/* ---- recording ----------------------------------------------------------------------------- */

void dt__call_close(dt_call *c, dt__codes **pull)
{
    for (int i = 0; i < c->n_in; i++) {
        dt_tensor_free(c->arg[i]);
        dt__codes_release(c->codes[i]);
        dt__codes_release(pull[i]);
    }
}

/* Saves x for backward: with its value, or the shape only if `value` is NULL. */
static void keep(dt__saved *k, dt_tensor *x, const dt_tensor *value)
{
    dt__retain(x);
    k->x = x;
    if (value == NULL || value->storage == NULL) return;
    dt__storage_retain(value->storage);
    atomic_fetch_add(&value->storage->needed, 1);
    k->storage = value->storage;
    k->version = value->storage->version;
    k->offset = value->offset;
    const size_t bytes = (size_t)x->rank * sizeof x->strides[0];
    k->contiguous = memcmp(value->strides, x->strides, bytes) != 0;
}

static dt__codes *take(dt__codes **from)
{
    dt__codes *codes = *from;
    *from = NULL;
    return codes;
}

static dt_precision precision_of(const dt_call *c, int i)
{
    const bool rounds = c->products != DT_PRODUCTS_F32 && c->arg[i]->dtype == DT_F32;
    return rounds && c->op->precision != NULL ? c->op->precision(c, i) : DT_EXACT;
}

static void keep_operand(dt_call *c, int i, dt__codes **pull, dt__saved *k)
{
    const dt_save save = c->coded ? c->op->saves_coded.arg[i] : c->op->saves.arg[i];
    const bool value = save == DT_VALUE || (save == DT_SAVE_CODES && c->codes[i] == NULL);
    keep(k, c->in[i], value ? c->arg[i] : NULL);
    if (value) k->precision = (uint8_t)precision_of(c, i);
    k->wants = c->wants[i];
    if (save == DT_SAVE_CODES) k->codes = take(&c->codes[i]);
    const dt__kind *kind = dt__kind_of(c->in[i]);
    if (k->wants && *pull != NULL && kind->keeps_codes != NULL &&
        kind->keeps_codes(c->in[i], *pull)) {
        k->pull = take(pull);
    }
}

static const void *copy_options(const dt_call *c)
{
    const size_t bytes = c->op->options_size;
    if (bytes == 0 || c->options == c->op->defaults) return c->options;
    void *copy = dt__alloc(c->ctx, bytes);
    if (copy != NULL) memcpy(copy, c->options, bytes);
    return copy;
}

static dt__record *new_record(const dt_call *c)
{
    const size_t slots = (size_t)(c->n_in + c->n_out) * sizeof(dt__saved);
    dt__record *r = dt__alloc_zero(c->ctx, sizeof *r + slots);
    if (r == NULL) return NULL;
    r->options = copy_options(c);
    if (r->options == NULL && c->op->options_size > 0) {
        dt__release(c->ctx, r);
        return NULL;
    }
    r->op = c->op;
    r->kernels = c->kernels;
    r->where = dt__text_retain(c->tape->where);
    r->coded = c->coded;
    r->products = c->products;
    memcpy(r->state, c->state, sizeof r->state);
    return r;
}

/* Records the call on the tape. */
static dt_status record(dt_call *c, dt__codes **pull)
{
    if (c->tape->backward_done) {
        return dt_refuse(c, DT_ERR_STATE, "backward has run on this tape; dt_tape_reset it first");
    }
    const dt_saves *saves = c->coded ? &c->op->saves_coded : &c->op->saves;
    dt__record *r = new_record(c);
    if (r == NULL) return DT_ERR_NOMEM;
    r->n_in = c->n_in;
    r->n_out = c->n_out;
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] != NULL) keep_operand(c, i, &pull[i], &r->kept[i]);
    }
    for (int i = 0; i < c->n_out; i++) {
        keep(&r->kept[c->n_in + i], c->out[i], saves->out[i] == DT_VALUE ? c->out[i] : NULL);
    }
    const dt_status s = dt__tape_record(c->tape, r);
    if (s != DT_OK) dt__record_free(c->ctx, r);
    return s;
}

/* ---- the steps ------------------------------------------------------------------------------- */

static dt_status watch(const dt_call *c)
{
    for (int i = 0; i < c->n_out; i++) {
        const dt_tensor *y = c->out[i];
        if (!dt__is_float(y->dtype) || y->storage == NULL || !dt_is_contiguous(y)) continue;
        int64_t bad;
        dt__kernels_of(c->ctx, y->dtype)->first_nonfinite(y->count, dt__data(y), &bad);
        if (bad >= 0) {
            return dt_refuse(c, DT_ERR_NUMERIC, "the result is not finite at element %lld",
                             (long long)bad);
        }
    }
    return DT_OK;
}

/* Forward gets scratch if it needs bytes, or if an operand is empty: many ops need no bytes then,
 * yet divide the scratch into parts, and in C17 NULL + 0 is undefined. */
static bool needs_scratch(const dt_call *c)
{
    bool empty = false;
    for (int i = 0; i < c->n_in; i++) empty = empty || (c->in[i] != NULL && c->in[i]->count == 0);
    return empty || c->scratch_bytes > 0;
}

static dt_status compute(dt_call *c)
{
    DT__TRY(c->op->shape(c));
    if (c->tape->shapes_only) return DT_OK;
    if (needs_scratch(c)) {
        c->scratch = dt__alloc(c->ctx, c->scratch_bytes);
        if (c->scratch == NULL) return DT_ERR_NOMEM;
    }
    const dt_status s = begin_writes(c);
    if (s != DT_OK) {
        dt__release(c->ctx, c->scratch);
        return s;
    }
    dt__team *const threads = dt__threads_enter(c->ctx);
    dt__tape_computes(c->tape, c->op, true);
    if (c->coded) c->op->forward_codes(c);
    else c->op->forward(c);
    dt__tape_computes(c->tape, c->op, false);
    dt__threads_leave(threads);
    dt__release(c->ctx, c->scratch);
    c->scratch = NULL;
    end_writes(c);
    return c->tape->watching ? watch(c) : DT_OK;
}

static dt_status lend_results(dt_call *c, bool wanted)
{
    dt_status s = DT_OK;
    for (int i = 0; i < c->n_out; i++) {
        if (c->out[i] == NULL) continue;
        c->out[i]->requires_grad = wanted && i == 0 && dt__is_float(c->out[i]->dtype);
        const dt_status lent = dt__tape_lend(c->tape, c->out[i]);
        if (s == DT_OK) s = lent;
    }
    return s;
}

static void free_results(dt_call *c)
{
    for (int i = 0; i < c->n_out; i++) dt_tensor_free(c->out[i]);
}

/* Whether a gradient will reach the result; if so, the call is recorded, now or in the second
 * run. */
static bool decide_recording(dt_call *c)
{
    bool wanted = false;
    for (int i = 0; i < c->n_in && !c->tape->no_grad && c->op->backward != NULL; i++) {
        c->wants[i] = c->in[i] != NULL && dt_requires_grad(c->in[i]) && !c->op->undifferentiable[i];
        wanted = wanted || c->wants[i];
    }
    c->recording = wanted && !c->tape->in_first_run;
    return wanted;
}

static dt_status run(dt_call *c)
{
    dt__codes *pull[DT_MAX_IN] = { NULL };
    for (int i = 0; i < c->n_in; i++) {
        DT__TRY(check_operand(c, i));
        if (c->tape->on_read != NULL && c->in[i] != NULL) c->tape->on_read(c->tape, c->in[i]);
    }
    DT__TRY(pick_kernels(c));
    const bool wanted = decide_recording(c);
    dt_status s = resolve_all(c, pull);
    if (s == DT_OK) s = compute(c);
    if (s == DT_OK && c->tape->on_call != NULL) c->tape->on_call(c->tape->on_call_user, c);
    if (s == DT_OK && c->recording) s = record(c, pull);
    dt__call_close(c, pull);
    if (s == DT_OK) return lend_results(c, wanted);
    free_results(c);
    return s;
}

static dt_status check_inputs(dt_tape *t, const dt_op *op, dt_tensor *const *in, int n_in)
{
    if (n_in < 1 || n_in > DT_MAX_IN) {
        return dt_fail(t->ctx, DT_ERR_ARG, "%s: %d operands given, expected 1...%d", op->name, n_in,
                       DT_MAX_IN);
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i] == NULL && !op->optional[i]) {
            return dt_fail(t->ctx, DT_ERR_ARG, "%s: %s (operand %d) is NULL", op->name,
                           op->in_name[i] != NULL ? op->in_name[i] : "x", i);
        }
    }
    return DT_OK;
}

dt_tensor *dt_number(dt_tape *t, const dt_tensor *like, double value)
{
    dt_tensor *x = NULL;
    if (t == NULL || t->status != DT_OK) return NULL;
    DT__NEED_OP(t, like);
    dt_status s = dt__tensor_create_raw(t->ctx, like->dtype, 0, NULL, &x);
    if (s == DT_OK) {
        if (like->dtype == DT_F64) *(double *)dt__data_mut(x) = value;
        else *(float *)dt__data_mut(x) = (float)value;
        s = dt__tape_lend(t, x);
    }
    if (s != DT_OK) dt__tape_adopt(t, s);
    return s == DT_OK ? x : NULL;
}

static bool is_lowered(const dt_tape *t, const dt_op *op)
{
    return op->lower != NULL && t->lowers != NULL && t->lowers(t->lowers_user, op);
}

/* The deepest nesting of calls of `lower`; an op whose `lower` uses itself would not end. */
#define MOST_LOWERED 32

/* False: the op does not lower on this tape and runs normally. */
static bool lower(const dt_call *c, dt_tensor **out, int n_out)
{
    dt_tensor *y[DT_MAX_OUT] = { NULL };
    if (!is_lowered(c->tape, c->op)) return false;
    if (c->tape->lowered == MOST_LOWERED) {
        dt_tape_fail(c->tape, DT_ERR_STATE,
                     "%s: its lower calls ops whose lowers call others, more than %d deep; one "
                     "must not come back to itself",
                     c->op->name, MOST_LOWERED);
        return true;
    }
    c->tape->lowered++;
    c->op->lower(c->tape, c->in, c->options, y);
    c->tape->lowered--;
    for (int i = 0; i < n_out; i++) out[i] = y[i];
    return y[0] != NULL || c->tape->status != DT_OK;
}

/* An in-place op has no results and returns its first operand. */
dt_status dt_apply_n(dt_tape *t, const dt_op *op, dt_tensor *const *in, int n_in,
                     const void *options, dt_tensor **out, int n_out)
{
    if (t == NULL) return DT_ERR_ARG;
    if (op == NULL || (in == NULL && n_in > 0) || (out == NULL && n_out > 0)) {
        return dt_tape_fail(t, DT_ERR_ARG, "dt_apply_n: op, in or out is NULL");
    }
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    if (t->status != DT_OK) return t->status;
    dt_call c = { .ctx = t->ctx, .tape = t, .op = op, .n_in = n_in };
    c.options = options != NULL ? options : op->defaults;
    dt_status s = check_inputs(t, op, in, n_in);
    if (s == DT_OK) {
        memcpy(c.in, in, (size_t)n_in * sizeof in[0]);
        if (lower(&c, out, n_out)) return t->status;
        s = run(&c);
    }
    if (s != DT_OK) return dt__tape_adopt(t, s);
    for (int i = 0; i < n_out && i < c.n_out; i++) out[i] = c.out[i];
    if (c.n_out == 0 && n_out > 0) out[0] = c.in[0];
    return DT_OK;
}

dt_tensor *dt_apply(dt_tape *t, const dt_op *op, dt_tensor *const *in, int n_in,
                    const void *options)
{
    DT__NEED_OP(t, op);
    if (n_in > 0) DT__NEED_OP(t, in);
    dt_tensor *y;
    dt_apply_n(t, op, in, n_in, options, &y, 1);
    return y;
}
