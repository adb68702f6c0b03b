/* Memory for the results of a trace: one block, in which values that are in use at the same time do
 * not overlap.
 *
 * Blocks are placed by size, the largest first, each into the smallest gap between the blocks that
 * are in use during its lifetime and are placed already [greedy by size: Pisarchyk and Lee 2020,
 * "Efficient memory management for deep neural net inference"]. */
#include "export/trace/trace.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const dt_plan_block *x = *(dt_plan_block *const *)a, *y = *(dt_plan_block *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

static int by_offset(const void *a, const void *b)
{
    const dt_plan_block *x = *(dt_plan_block *const *)a, *y = *(dt_plan_block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool overlap(const dt_plan_block *a, const dt_plan_block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Places b among the n blocks of `near`, whose lifetimes overlap with b's. */
static void place(dt_plan_block *b, dt_plan_block **near, int64_t n)
{
    size_t end = 0, best = SIZE_MAX;
    bool found = false;
    qsort(near, (size_t)n, sizeof *near, by_offset);
    for (int64_t i = 0; i < n; i++) {
        const size_t gap = near[i]->offset > end ? near[i]->offset - end : 0;
        if (gap >= b->bytes && gap < best) {
            best = gap;
            b->offset = end;
            found = true;
        }
        if (near[i]->offset + near[i]->bytes > end) end = near[i]->offset + near[i]->bytes;
    }
    if (!found) b->offset = end;
}

static dt_status too_large(dt_ctx *ctx)
{
    return dt_fail(ctx, DT_ERR_ARG, "plan: the values have more bytes than memory can");
}

/* Rounds all sizes up. If their sum fits size_t, so does every offset. */
static dt_status round_sizes(dt_ctx *ctx, dt_plan_block *block, int64_t n, size_t align)
{
    size_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes;
        if (!dt__add_size(block[i].bytes, align - 1, &bytes)) return too_large(ctx);
        block[i].bytes = bytes & ~(align - 1);
        if (!dt__add_size(sum, block[i].bytes, &sum)) return too_large(ctx);
    }
    return DT_OK;
}

dt_status dt_plan_blocks(dt_ctx *ctx, dt_plan_block *block, int64_t n, size_t align, size_t *bytes)
{
    DT__NEED(NULL, ctx);
    if (n > 0) DT__NEED(ctx, block);
    DT__NEED(ctx, bytes);
    *bytes = 0;
    if (align == 0 || (align & (align - 1)) != 0) {
        return dt_fail(ctx, DT_ERR_ARG, "plan: an alignment of %zu is not a power of two", align);
    }
    if (n < 0) return dt_fail(ctx, DT_ERR_ARG, "plan: %lld blocks", (long long)n);
    DT__TRY(round_sizes(ctx, block, n, align));
    dt_plan_block **order = dt__alloc_array(ctx, 2 * n, sizeof(dt_plan_block *));
    if (order == NULL) return DT_ERR_NOMEM;
    dt_plan_block **near = order + n;
    for (int64_t i = 0; i < n; i++) order[i] = &block[i];
    qsort(order, (size_t)n, sizeof(dt_plan_block *), by_size);
    for (int64_t i = 0; i < n; i++) {
        int64_t m = 0;
        for (int64_t k = 0; k < i; k++) {
            if (overlap(order[i], order[k])) near[m++] = order[k];
        }
        place(order[i], near, m);
        const size_t end = order[i]->offset + order[i]->bytes;
        if (end > *bytes) *bytes = end;
    }
    dt__release(ctx, order);
    return DT_OK;
}

/* Values that share memory: `root` is the first of them, -1: not in the block; `last` of a root:
 * the last time one of them is read. */
typedef struct layout {
    const dt_trace *t;
    int64_t batch, length;
    int64_t *root, *last;
} layout;

static bool is_output(const dt_trace *t, int64_t value)
{
    for (int i = 0; i < t->n_out; i++) {
        if (t->out[i] == value) return true;
    }
    return false;
}

/* The operand that a call's result overwrites; -1: none. Views always share memory with theirs. */
static int64_t shared_operand(const layout *l, int64_t call)
{
    const dt_trace_call *c = &l->t->call[call];
    if (dt_trace_is_view(c)) return c->in[0].value;
    for (int i = 0; i < c->n_in; i++) {
        if (!dt_trace_is_in_place(l->t, c, i)) continue;
        const int64_t value = c->in[i].value, root = l->root[value];
        if (root >= 0 && l->last[root] == call) return value;
    }
    return -1;
}

static void set_root(layout *l, int64_t value)
{
    const dt_trace_value *v = &l->t->value[value];
    l->root[value] = -1;
    if (v->kind != DT_VALUE_RESULT || is_output(l->t, value)) return;
    const int64_t over = v->result == 0 ? shared_operand(l, v->call) : -1;
    if (over >= 0 && (l->root[over] >= 0 || dt_trace_is_view(&l->t->call[v->call]))) {
        const int64_t root = l->root[value] = l->root[over];
        if (root >= 0 && v->last > l->last[root]) l->last[root] = v->last;
        return;
    }
    l->root[value] = value;
    l->last[value] = v->last;
}

/* The bytes of a value; false: overflow of size_t. */
static bool bytes_of(const layout *l, const dt_trace_value *v, size_t *bytes)
{
    bool fits = true;
    *bytes = dt_dtype_size(v->dtype);
    for (int i = 0; i < v->rank && fits; i++) {
        const dt_extent e = v->extent[i];
        fits = dt__mul_size(*bytes, (uint64_t)e.size, bytes) &&
               dt__mul_size(*bytes, e.batch != 0 ? (uint64_t)l->batch : 1, bytes) &&
               dt__mul_size(*bytes, e.length != 0 ? (uint64_t)l->length : 1, bytes);
    }
    return fits;
}

static dt_status place_all(const layout *l, size_t align, dt_trace_plan *out)
{
    const int64_t n = l->t->n_values;
    dt_plan_block *block = dt__alloc_array(l->t->ctx, n, sizeof *block);
    if (block == NULL) return DT_ERR_NOMEM;
    int64_t used = 0;
    dt_status s = DT_OK;
    for (int64_t i = 0; i < n && s == DT_OK; i++) {
        const dt_trace_value *v = &l->t->value[i];
        if (l->root[i] != i) continue;
        block[used] = (dt_plan_block){ .first = v->first, .last = l->last[i] };
        if (!bytes_of(l, v, &block[used++].bytes)) s = too_large(l->t->ctx);
    }
    if (s == DT_OK) s = dt_plan_blocks(l->t->ctx, block, used, align, &out->bytes);
    used = 0;
    for (int64_t i = 0; i < n && s == DT_OK; i++) {
        const int64_t root = l->root[i];
        out->offset[i] = root < 0 ? SIZE_MAX : root == i ? block[used++].offset : out->offset[root];
    }
    dt__release(l->t->ctx, block);
    return s;
}

dt_status dt_trace_plan_create(const dt_trace *t, int64_t batch, int64_t length, size_t align,
                               dt_trace_plan *out)
{
    DT__NEED2(NULL, t, out);
    *out = (dt_trace_plan){ .bytes = 0 };
    if (batch < 1 || length < 1) {
        return dt_fail(t->ctx, DT_ERR_ARG,
                       "plan: a batch of %lld, a length of %lld; both are at "
                       "least 1",
                       (long long)batch, (long long)length);
    }
    const size_t n = (size_t)t->n_values;
    int64_t *roots = dt__alloc_array(t->ctx, (int64_t)(2 * n), sizeof *roots);
    out->memory = dt__alloc_array(t->ctx, (int64_t)n, sizeof *out->offset);
    out->offset = out->memory;
    dt_status s = roots == NULL || out->memory == NULL ? DT_ERR_NOMEM : DT_OK;
    if (s == DT_OK) {
        layout l = { t, batch, length, roots, roots + n };
        for (int64_t i = 0; i < t->n_values; i++) set_root(&l, i);
        s = place_all(&l, align, out);
    }
    dt__release(t->ctx, roots);
    if (s != DT_OK) dt_trace_plan_free(t->ctx, out);
    return s;
}

void dt_trace_plan_free(dt_ctx *ctx, dt_trace_plan *p)
{
    if (p == NULL) return;
    dt__release(ctx, p->memory);
    *p = (dt_trace_plan){ .bytes = 0 };
}
