/* Format c: assigns values to blocks of memory. A result has a block of its own, unless
 *     it is a view of its operand's memory (reshape, flatten, a slice or a permutation that keeps
 *         elements contiguous and in order);
 *     the call may overwrite an operand that no later call reads;
 *     it is a part of a concatenation whose parts are contiguous: it is then written to its place
 *         there. So the steps of a recurrent layer write rows of one block.
 * A block that one output of the model fills is in the caller's memory. */
#include "export/c/c_device.h"
#include "export/c/c_views.h"

#include <stdio.h>
#include <string.h>

/* Whether the result is the contiguous elements of operand 0 from `offset` on. */
static bool is_view(const dt__c_program *p, const dt_trace_call *c, int64_t *offset)
{
    dt__c_view v;
    *offset = 0;
    if (dt__c_is_device_view(p, c)) return true;
    if (c->n_in == 0 || c->in[0].value < 0 || c->in[0].quant != NULL) return false;
    if (!dt__c_view_of(p, c, &v) || !dt__c_is_run(&v)) return false;
    *offset = v.offset;
    return true;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool overlaps(const dt__c_program *p, int64_t v, int64_t offset, int64_t n)
{
    const dt__c_place *at = &p->place[v];
    return at->offset < offset + n && offset < at->offset + dt__c_count(p, v);
}

/* Whether `call` is the last reader of v's memory. */
static bool ends_here(const dt__c_program *p, int64_t v, int64_t call)
{
    const dt__c_place *at = &p->place[v];
    for (int64_t i = 0; i < dt_trace_values(p->trace); i++) {
        const dt__c_place *other = &p->place[i];
        if (other->home != DT__C_BLOCK || other->index != at->index) continue;
        if (overlaps(p, i, at->offset, dt__c_count(p, v)) && dt__c_value_at(p, i)->last > call) {
            return false;
        }
    }
    return true;
}

static bool reads_once(const dt_trace_call *c, int64_t v)
{
    int n = 0;
    for (int i = 0; i < c->n_in; i++) n += c->in[i].value == v;
    return n == 1;
}

/* Whether another operand overlaps operand i: it would be read after being overwritten. */
static bool reads_beside(const dt__c_program *p, const dt_trace_call *c, int i)
{
    const int64_t v = c->in[i].value;
    const dt__c_place *at = &p->place[v];
    for (int k = 0; k < c->n_in; k++) {
        const int64_t other = c->in[k].value;
        if (k == i || other < 0 || p->place[other].home != DT__C_BLOCK) continue;
        if (p->place[other].index != at->index) continue;
        if (overlaps(p, other, at->offset, dt__c_count(p, v))) return true;
    }
    return false;
}

/* The operand that the result overwrites; -1: none. */
static int64_t written_over(const dt__c_program *p, const dt_trace_call *c, int64_t call)
{
    for (int i = 0; i < c->n_in; i++) {
        const int64_t v = c->in[i].value;
        if (!dt_trace_is_in_place(p->trace, c, i) || p->place[v].home != DT__C_BLOCK) continue;
        if (!reads_beside(p, c, i) && ends_here(p, v, call)) return v;
    }
    return -1;
}

/* Whether a call has read all of operand 0 before it writes its result: a product of integers
 * quantizes it first. A linear layer with several rows does so row by row. */
static bool reads_first(const dt__c_program *p, const dt_trace_call *c)
{
    if (!dt__c_is_integer(p->trace, c) || !reads_once(c, c->in[0].value)) return false;
    if (strncmp(c->op->name, "conv", 4) == 0) return true;
    return strcmp(c->op->name, "linear") == 0 &&
           dt__c_count(p, c->in[0].value) == dt__c_dim(p, c->in[0].value, -1);
}

static int64_t first_of(const dt__c_program *p, int64_t v)
{
    const dt_trace_value *of = dt__c_value_at(p, v);
    const dt_trace_call *c = dt_trace_call_at(p->trace, of->first);
    return c != NULL && reads_first(p, c) ? DT__C_WRITES(of->first) : DT__C_READS(of->first);
}

static int64_t last_of(const dt__c_program *p, int64_t v)
{
    const dt_trace_value *of = dt__c_value_at(p, v);
    const dt_trace_call *c = dt_trace_call_at(p->trace, of->last);
    const bool early = c != NULL && c->in[0].value == v && reads_first(p, c);
    return early ? DT__C_READS(of->last) : DT__C_WRITES(of->last);
}

static void lengthen(dt__c_program *p, int64_t v)
{
    dt__c_block *b = &p->block[p->place[v].index];
    const int64_t first = first_of(p, v), last = last_of(p, v);
    if (last > b->last) b->last = last;
    if (first < b->first) b->first = first;
}

static void give_block(dt__c_program *p, int64_t v)
{
    const dt_trace_value *of = dt__c_value_at(p, v);
    dt__c_block b = { .n = dt__c_count(p, v),
                      .size = of->coded ? 1 : dt_dtype_size(of->dtype),
                      .value = v,
                      .first = first_of(p, v),
                      .last = last_of(p, v),
                      .output = -1,
                      .type = of->coded             ? "int8_t"
                              : of->dtype == DT_I32 ? "int32_t"
                                                    : "float" };
    snprintf(b.name, sizeof b.name, "v%lld", (long long)v);
    p->place[v] = (dt__c_place){ DT__C_BLOCK, dt__c_block_add(p, &b), 0 };
}

static void place_result(dt__c_program *p, const dt_trace_call *c, int64_t call, int k)
{
    const int64_t v = c->out[k];
    int64_t offset;
    if (v < 0) return;
    if (k == 0 && is_view(p, c, &offset)) {
        p->place[v] = p->place[c->in[0].value];
        p->place[v].offset += offset;
        if (p->place[v].home == DT__C_BLOCK) lengthen(p, v);
        return;
    }
    const int64_t over = k == 0 ? written_over(p, c, call) : -1;
    if (over >= 0) {
        p->place[v] = p->place[over];
        lengthen(p, v);
        return;
    }
    give_block(p, v);
}

/* ---- concatenations -------------------------------------------------------------------------- */

/* Whether value v fills its block, and the block contains nothing else but aliases of v. */
static bool fills(const dt__c_program *p, int64_t v)
{
    const dt__c_place *at = &p->place[v];
    return at->home == DT__C_BLOCK && at->offset == 0 && !p->block[at->index].gone &&
           p->block[at->index].n == dt__c_count(p, v);
}

/* Whether a value of a block is computed or read after a call. */
static bool is_made_after(const dt__c_program *p, int64_t block, int64_t call)
{
    for (int64_t i = 0; i < dt_trace_values(p->trace); i++) {
        const dt__c_place *at = &p->place[i];
        if (at->home == DT__C_BLOCK && at->index == block && dt__c_value_at(p, i)->first > call) {
            return true;
        }
    }
    return false;
}

static bool is_read_after(const dt__c_program *p, int64_t block, int64_t call)
{
    for (int64_t i = 0; i < dt_trace_values(p->trace); i++) {
        const dt__c_place *at = &p->place[i];
        if (at->home == DT__C_BLOCK && at->index == block && dt__c_value_at(p, i)->last > call) {
            return true;
        }
    }
    return false;
}

/* Whether an operand's block may become a part of the result's block: later overwriting of the
 * operand must not change the result, nor the other way around. */
static bool may_move(const dt__c_program *p, int64_t from, int64_t to, int64_t call)
{
    if (is_made_after(p, from, call)) return false;
    return !is_read_after(p, from, call) || !is_made_after(p, to, call);
}

static void move_block(dt__c_program *p, int64_t from, int64_t to, int64_t offset)
{
    for (int64_t i = 0; i < dt_trace_values(p->trace); i++) {
        dt__c_place *at = &p->place[i];
        if (at->home != DT__C_BLOCK || at->index != from) continue;
        at->index = to;
        at->offset += offset;
        lengthen(p, i);
    }
    p->block[from].gone = true;
}

static void join(dt__c_program *p, const dt_trace_call *c)
{
    const int64_t y = c->out[0];
    if (!dt__c_is_concat_run(p, c) || !fills(p, y)) return;
    const int64_t to = p->place[y].index;
    int64_t offset = 0;
    for (int i = 0; i < c->n_in; i++) {
        const int64_t v = c->in[i].value, n = dt__c_count(p, v);
        if (c->in[i].quant == NULL && n > 0 && fills(p, v) && reads_once(c, v) &&
            p->place[v].index != to &&
            may_move(p, p->place[v].index, to, dt__c_value_at(p, y)->first)) {
            move_block(p, p->place[v].index, to, offset);
        }
        offset += n;
    }
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static void place_given(dt__c_program *p)
{
    const int64_t *in;
    const int n = dt_trace_inputs(p->trace, &in);
    for (int64_t i = 0; i < dt_trace_values(p->trace); i++) {
        const dt_trace_value *v = dt__c_value_at(p, i);
        if (v->tensor != NULL) p->place[i] = (dt__c_place){ DT__C_TABLE, i, 0 };
    }
    for (int i = 0; i < n; i++) p->place[in[i]] = (dt__c_place){ DT__C_INPUT, i, 0 };
}

/* Outputs that fill a block are that block; the others are copied at the end. */
static void place_outputs(dt__c_program *p)
{
    const int64_t *out;
    const int n = dt_trace_outputs(p->trace, &out);
    for (int i = 0; i < n; i++) {
        if (!fills(p, out[i])) continue;
        dt__c_block *b = &p->block[p->place[out[i]].index];
        if (b->output >= 0) continue;
        b->output = i;
        if (n == 1) snprintf(b->name, sizeof b->name, "y");
        else snprintf(b->name, sizeof b->name, "y%d", i);
    }
}

dt_status dt__c_place_values(dt__c_program *p)
{
    const int64_t values = dt_trace_values(p->trace);
    p->place = dt__alloc_zero(p->ctx, (size_t)values * sizeof *p->place);
    if (p->place == NULL) return p->status = DT_ERR_NOMEM;
    place_given(p);
    for (int64_t i = 0; i < dt_trace_calls(p->trace); i++) {
        const dt_trace_call *c = dt_trace_call_at(p->trace, i);
        for (int k = 0; k < c->n_out && p->status == DT_OK; k++) place_result(p, c, i, k);
    }
    for (int64_t i = 0; i < dt_trace_calls(p->trace) && p->status == DT_OK; i++) {
        join(p, dt_trace_call_at(p->trace, i));
    }
    if (p->status == DT_OK) place_outputs(p);
    return p->status;
}
