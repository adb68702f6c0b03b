/* The cost of an inference of an exported C program, per call: bytes of constants that the call is
 * the first to read, and bytes of the arena that are live while it runs. */
#include "core/tensor.h"
#include "export/c/c_program.h"
#include "export/c/c_write.h"

/* Live bytes of the arena, with alignment, at a time (DT__C_READS, DT__C_WRITES). */
static size_t live_at(const dt__c_program *p, int64_t time)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < p->n_blocks; i++) {
        const dt__c_block *b = &p->block[i];
        if (b->gone || b->output >= 0 || b->first > time || b->last < time) continue;
        bytes += ((size_t)b->n * b->size + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    }
    return bytes;
}

static size_t live_in(const dt__c_program *p, int64_t call)
{
    const size_t reads = live_at(p, DT__C_READS(call)), writes = live_at(p, DT__C_WRITES(call));
    return reads > writes ? reads : writes;
}

/* The first call with the most live memory. */
static int64_t find_peak(const dt__c_program *p)
{
    int64_t peak = 0;
    for (int64_t i = 1; i < dt_trace_calls(p->trace); i++) {
        if (live_in(p, i) > live_in(p, peak)) peak = i;
    }
    return peak;
}

/* Bytes of the inputs or outputs, which are in the caller's memory. */
static size_t bytes_of(const dt__c_program *p, int n, const int64_t *values)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += (size_t)dt__c_count(p, values[i]) * (p->device ? 1 : sizeof(float));
    }
    return bytes;
}

/* For a Cortex-M4 without wait states: loads, stores and taken branches take more than one cycle.
 * Not measured on a board. */
#define CYCLES_OF_AN_INSTRUCTION 1.3

static double tell(const dt__c_program *p, int64_t call, dt_cost_fn each, void *user)
{
    const dt_trace_call *c = dt_trace_call_at(p->trace, call);
    dt_cost_row row = { .module = c->module,
                        .op = c->op->name,
                        .flash = p->took[call].flash,
                        .ram = live_in(p, call),
                        .multiply_adds = dt_trace_multiply_adds(p->trace, c, 1, 1),
                        .instructions = dt__c_instructions(p, c),
                        .peak = call == find_peak(p) };
    const int64_t y = c->out[0];
    row.output.rank = y < 0 ? 0 : dt__c_rank(p, y) - 1;
    for (int d = 0; d < row.output.rank; d++) row.output.dims[d] = dt__c_dim(p, y, d + 1);
    each(user, &row);
    return row.instructions;
}

dt_status dt__c_costs(const dt_export_call *call, dt_cost_fn each, void *user, dt_costs *out)
{
    const int64_t *v;
    dt__c_program p;
    const dt_status s = dt__c_program_make(call, &p);
    if (s == DT_OK) {
        *out = (dt_costs){ .flash = p.flash, .arena = dt__c_arena_bytes(&p), .integers = p.device };
        if (p.device) out->cmsis_arena = out->arena + p.cmsis;
        const int n_in = dt_trace_inputs(call->trace, &v);
        out->input = bytes_of(&p, n_in, v);
        const int n_out = dt_trace_outputs(call->trace, &v);
        out->output = bytes_of(&p, n_out, v);
        for (int64_t i = 0; i < dt_trace_calls(call->trace); i++) {
            if (p.took[i].lines > 0) out->instructions += tell(&p, i, each, user);
        }
        out->cycles = CYCLES_OF_AN_INSTRUCTION * out->instructions;
    }
    dt__c_program_free(&p);
    return s;
}
