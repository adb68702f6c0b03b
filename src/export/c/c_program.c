/* Format c: functions for emitters. Statements are stored as lines in which arena addresses are
 * marked; the arena is planned when all statements are known. */
#include "export/c/c_program.h"

#include "core/tensor.h"
#include "export/exporters.h"

#include <detent/experimental/qat.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void dt__c_fail(dt__c_program *p, dt_status s)
{
    if (p->status == DT_OK) p->status = s;
}

void dt__c_printf(dt__chars *to, const char *format, ...)
{
    va_list args;
    char text[1024];
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0) dt__put(to, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void dt__c_line(dt__c_program *p, const char *format, ...)
{
    va_list args;
    char text[1024];
    if (p->status != DT_OK) return;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) {
        dt__c_fail(p, dt_fail(p->ctx, DT_ERR_UNSUPPORTED, "export: a statement is too long"));
        return;
    }
    dt__c_fail(p, DT__RESERVE(p->ctx, p->line, p->n_lines, p->room_lines));
    if (p->status != DT_OK) return;
    p->flash += dt__c_descriptor_bytes(text);
    char *line = dt__copy_string(p->ctx, text);
    if (line == NULL) dt__c_fail(p, DT_ERR_NOMEM);
    else p->line[p->n_lines++] = line;
}

void dt__c_want(dt__c_program *p, const char *text)
{
    dt__c_text_want(p->wanted, dt__c_text_named(text));
}

/* ---- extents --------------------------------------------------------------------------------- */

int dt__c_rank(const dt__c_program *p, int64_t value)
{
    return dt_trace_value_at(p->trace, value)->rank;
}

int64_t dt__c_dim(const dt__c_program *p, int64_t value, int d)
{
    const dt_trace_value *v = dt_trace_value_at(p->trace, value);
    return dt_extent_at(v->extent[d < 0 ? v->rank + d : d], 1, p->length);
}

const dt_trace_value *dt__c_value_at(const dt__c_program *p, int64_t v)
{
    return dt_trace_value_at(p->trace, v);
}

int64_t dt__c_count(const dt__c_program *p, int64_t value)
{
    return dt_trace_count(dt_trace_value_at(p->trace, value), 1, p->length);
}

/* ---- places ---------------------------------------------------------------------------------- */

int64_t dt__c_block_add(dt__c_program *p, const dt__c_block *b)
{
    dt__c_fail(p, DT__RESERVE(p->ctx, p->block, p->n_blocks, p->room_blocks));
    if (p->status != DT_OK) return -1;
    p->block[p->n_blocks] = *b;
    return p->n_blocks++;
}

static dt__c_name block_name(int64_t block, int64_t offset)
{
    dt__c_name name;
    snprintf(name.text, sizeof name.text, "%c%lld:%lld%c", DT__C_MARK, (long long)block,
             (long long)offset, DT__C_END);
    return name;
}

static dt__c_name plus(const char *base, int64_t offset)
{
    dt__c_name name;
    if (offset == 0) snprintf(name.text, sizeof name.text, "%s", base);
    else snprintf(name.text, sizeof name.text, "%.20s + %lld", base, (long long)offset);
    return name;
}

/* Writes all elements of a constant that is stored once though its elements are equal along some
 * dimensions. */
static void put_repeated(dt__c_program *p, int64_t value, const dt_tensor *x, const char *name)
{
    const int64_t n = dt__c_count(p, value);
    const float *from = dt__values(x);
    float *all = dt__alloc_array(p->ctx, n, sizeof *all);
    if (all == NULL) {
        dt__c_fail(p, DT_ERR_NOMEM);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            const int64_t extent = dt__c_dim(p, value, d);
            at += rest % extent % x->dims[d] * step;
            rest /= extent;
            step *= x->dims[d];
        }
        all[i] = from[at];
    }
    dt__c_floats(p, name, "", all, n);
    dt__release(p->ctx, all);
}

/* The table of a parameter or constant; of a quantized one, with its dequantized values. */
static dt__c_name table_of(dt__c_program *p, int64_t value)
{
    const dt_trace_value *v = dt_trace_value_at(p->trace, value);
    char base[24], comment[DT__C_COMMENT];
    snprintf(base, sizeof base, "c%lld", (long long)value);
    if (p->tabled[value] || p->status != DT_OK) return plus(base, 0);
    p->tabled[value] = true;
    dt_tensor *made = NULL, *x = v->tensor;
    if (dt_is_packed(x)) dt__c_fail(p, dt_dequantize(x, &made));
    if (made != NULL) x = made;
    if (p->status == DT_OK && (x->dtype != DT_F32 || !dt_is_contiguous(x))) {
        dt__c_fail(p, dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                              "export: %s is not a contiguous tensor of f32", v->name));
    }
    if (p->status == DT_OK && x->count != dt__c_count(p, value)) put_repeated(p, value, x, base);
    else if (p->status == DT_OK) {
        dt__c_floats(p, base, dt__c_comment(v->name, comment), dt__values(x), x->count);
    }
    dt_tensor_free(made);
    return plus(base, 0);
}

static dt__c_name place_name(dt__c_program *p, int64_t value)
{
    const dt__c_place *at = &p->place[value];
    switch (at->home) {
    case DT__C_INPUT: return block_name(-1 - at->index, at->offset);
    case DT__C_BLOCK: return block_name(at->index, at->offset);
    case DT__C_TABLE: return plus(table_of(p, at->index).text, at->offset);
    default: return plus("0", 0);
    }
}

dt__c_name dt__c_value(dt__c_program *p, int64_t value)
{
    return value < 0 ? plus("0", 0) : place_name(p, value);
}

dt__c_name dt__c_out(dt__c_program *p, const dt_trace_call *c, int i)
{
    return dt__c_value(p, c->out[i]);
}

dt__c_name dt__c_scratch(dt__c_program *p, const dt_trace_call *c, const char *type, int64_t n,
                         size_t size)
{
    int same = 0;
    (void)c;
    for (int64_t i = p->n_blocks - 1; i >= 0 && p->block[i].value < 0; i--) {
        same += p->block[i].first == DT__C_READS(p->at);
    }
    dt__c_block b = { .type = type,
                      .n = n,
                      .size = size,
                      .first = DT__C_READS(p->at),
                      .last = DT__C_WRITES(p->at),
                      .value = -1,
                      .output = -1 };
    snprintf(b.name, sizeof b.name, "r%lld%c", (long long)p->at, same == 0 ? '\0' : 'a' + same);
    return block_name(dt__c_block_add(p, &b), 0);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* "[16, 28, 28]": without the batch. */
static const char *extents_of(const dt__c_program *p, int64_t value, char *to, size_t size)
{
    size_t used = (size_t)snprintf(to, size, "[");
    for (int d = 1; value >= 0 && d < dt__c_rank(p, value) && used < size; d++) {
        used += (size_t)snprintf(to + used, size - used, "%s%lld", d > 1 ? ", " : "",
                                 (long long)dt__c_dim(p, value, d));
    }
    if (used < size) snprintf(to + used, size - used, "]");
    return to;
}

dt_status dt__c_emit_calls(dt__c_program *p)
{
    for (p->at = 0; p->at < dt_trace_calls(p->trace) && p->status == DT_OK; p->at++) {
        const dt_trace_call *c = dt_trace_call_at(p->trace, p->at);
        const dt__c_emitter *e = dt__c_emitter_of(c->op->name);
        char module[DT__C_COMMENT];
        const int64_t before = p->n_lines;
        const size_t flash = p->flash;
        if (e->emit != NULL) {
            e->emit(p, c);
        } else {
            dt__c_want(p, e->text);
            dt__c_line(p, "%s(%s, %lld, %s);", e->text, dt__c_in(p, c, 0).text,
                       (long long)dt__c_count(p, c->out[0]), dt__c_out(p, c, 0).text);
        }
        dt__did_convert(p->ctx, dt__elements_of_call(p->trace, c));
        p->took[p->at] = (struct dt__c_took){ p->flash - flash, p->n_lines - before };
        if (p->status != DT_OK || p->n_lines == before) continue;
        /* inserts the comment before the lines that the call has just written */
        char extents[64];
        dt__c_line(p, "/* %.48s: %s, %s */", dt__c_comment(c->module, module), c->op->name,
                   extents_of(p, c->out[0], extents, sizeof extents));
        if (p->status != DT_OK) break;
        char *comment = p->line[p->n_lines - 1];
        memmove(p->line + before + 1, p->line + before,
                (size_t)(p->n_lines - 1 - before) * sizeof *p->line);
        p->line[before] = comment;
    }
    return p->status;
}

void dt__c_copy_outputs(dt__c_program *p)
{
    const int64_t *out;
    const int n = dt_trace_outputs(p->trace, &out);
    for (int i = 0; i < n; i++) {
        const dt__c_place *at = &p->place[out[i]];
        if (at->home == DT__C_BLOCK && p->block[at->index].output == i) continue;
        char y[16] = "y";
        if (n > 1) snprintf(y, sizeof y, "y%d", i);
        dt__c_line(p, "memcpy(%s, %s, %lld%s);", y, dt__c_value(p, out[i]).text,
                   (long long)dt__c_count(p, out[i]), p->device ? "" : " * sizeof(float)");
    }
}

dt_status dt__c_plan(dt__c_program *p)
{
    DT__TRY(p->status);
    dt_plan_block *plan = dt__alloc_array(p->ctx, p->n_blocks, sizeof *plan);
    if (plan == NULL) return DT_ERR_NOMEM;
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_blocks; i++) {
        const dt__c_block *b = &p->block[i];
        if (b->gone || b->output >= 0) continue;
        plan[n++] =
            (dt_plan_block){ .bytes = (size_t)b->n * b->size, .first = b->first, .last = b->last };
    }
    p->status = dt_plan_blocks(p->ctx, plan, n, sizeof(double), &p->arena);
    n = 0;
    for (int64_t i = 0; i < p->n_blocks && p->status == DT_OK; i++) {
        dt__c_block *b = &p->block[i];
        if (!b->gone && b->output < 0) b->at = plan[n++].offset;
    }
    dt__release(p->ctx, plan);
    return p->status;
}

void dt__c_program_free(dt__c_program *p)
{
    for (int64_t i = 0; i < p->n_lines; i++) dt__release(p->ctx, p->line[i]);
    DT__RELEASE(p->ctx, p->line, p->wanted, p->tabled, p->took, p->place, p->block);
    for (int64_t i = 0; i < p->n_tables; i++) dt__release(p->ctx, p->table[i].values);
    DT__RELEASE(p->ctx, p->table, p->matrix, p->fixed, p->constants.bytes, p->functions.bytes);
}
