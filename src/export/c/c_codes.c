/* Format c: quantization of activations. The grid (scale and zero point) of a static range is a
 * constant; that of a dynamic range is computed by a function, one per scheme and type of scale. */
#include "export/c/c_program.h"

#include "core/tensor.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>
#include <string.h>

static const char *const schemes[] = { "symmetric", "symmetric_no_clip", "asymmetric" };
static const char *const dtypes[] = { "f32", "f16", "bf16" };

static int32_t zero_of(const dt_trace_operand *o)
{
    if (o->zero_point != NULL) return *(const int8_t *)dt__values(o->zero_point);
    return o->quant->is_unsigned ? dt__qmin(o->quant) : 0;
}

/* The constant grid of a static range; all steps of a recurrent layer share it. */
static dt__c_name static_grid(dt__c_program *p, const dt_trace_operand *o)
{
    dt__c_name name;
    for (int64_t i = 0; i < p->n_fixed; i++) {
        const dt__c_static *f = &p->fixed[i];
        if (f->blocks != NULL) continue;
        if (f->scale == o->scale && f->zero_point == o->zero_point) return f->name;
    }
    const float scale = *(const float *)dt__values(o->scale);
    const int32_t zero = zero_of(o), qmin = dt__qmin(o->quant), qmax = dt__qmax(o->quant);
    snprintf(name.text, sizeof name.text, "&g%lld", (long long)p->n_fixed);
    dt__c_constant(p, "static const code_grid %s = { %s, %s, %d.0f, %d.0f, %d };\n", name.text + 1,
                   dt__c_float(scale).text, dt__c_float(1.0f / scale).text, qmin - zero,
                   qmax - zero, zero + 128);
    dt__c_fail(p, DT__RESERVE(p->ctx, p->fixed, p->n_fixed, p->room_fixed));
    if (p->status != DT_OK) return name;
    p->fixed[p->n_fixed++] = (dt__c_static){ o->scale, o->zero_point, NULL, 0, name };
    return name;
}

/* The constant that describes blocks of small floats. */
static dt__c_name small_format(dt__c_program *p, const dt_trace_operand *o)
{
    dt__c_name name;
    const dt__scheme *s = dt__scheme_of(o->quant->scheme);
    const int dtype = o->quant->scale_dtype;
    for (int64_t i = 0; i < p->n_fixed; i++) {
        const dt__c_static *f = &p->fixed[i];
        if (f->blocks == s && f->scale == o->scale && f->scale_dtype == dtype) return f->name;
    }
    const bool real = s->levels->real != NULL, half = dtype == DT_SCALE_F16;
    const dt__small_float *of = real ? s->levels->real : s->levels->grid;
    const float global = s->global == NULL  ? 0
                         : o->scale == NULL ? 1
                                            : *(const float *)dt__values(o->scale);
    snprintf(name.text, sizeof name.text, "&g%lld", (long long)p->n_fixed);
    dt__c_constant(p,
                   "static const small_format %s = { %d, %d, %s, %s, %s,\n    0x%x, %d, %s, %s, "
                   "%s };\n",
                   name.text + 1, of->mantissa, of->bias, dt__c_float(of->most).text,
                   dt__c_float(real ? 1 : s->levels->unit).text, dt__c_float(s->rule.most).text,
                   (unsigned)s->rule.carry, s->rule.bits,
                   dt__c_float(half ? 0x1p-14f : 0x1p-126f).text,
                   dt__c_float(half ? 0x1p15f : 0x1p127f).text, dt__c_float(global).text);
    dt__c_fail(p, DT__RESERVE(p->ctx, p->fixed, p->n_fixed, p->room_fixed));
    if (p->status != DT_OK) return name;
    p->fixed[p->n_fixed++] = (dt__c_static){ o->scale, NULL, s, dtype, name };
    return name;
}

/* Quantization in blocks of a row; allocates memory for their scales. */
static dt__c_coding coding_of_blocks(dt__c_program *p, const dt_trace_call *c,
                                     const dt_trace_operand *o)
{
    const int64_t n = dt__c_dim(p, o->value, -1);
    dt__c_coding k = { .dynamic = true, .by_row = true, .blocks = true };
    if (dt__levels_of(o->quant) != NULL) {
        dt__c_want(p, "codes_small_format");
        k.format = small_format(p, o);
    }
    /* dequantized values are computed instead of codes */
    if (dt__real_of(o->quant) != NULL) return k;
    k.scales = dt__c_scratch(p, c, "float", dt__ceil_div(n, o->quant->group_size), sizeof(float));
    return k;
}

bool dt__c_reads_values(const dt_trace_operand *o)
{
    return o->quant == NULL || dt__real_of(o->quant) != NULL;
}

dt__c_coding dt__c_coding_of(dt__c_program *p, const dt_trace_call *c, const dt_trace_operand *o)
{
    if (o->quant->granularity == DT_PER_GROUP) return coding_of_blocks(p, c, o);
    dt__c_coding k = { .dynamic = o->scale == NULL };
    dt__c_want(p, "codes_grid");
    dt__c_want(p, "codes_quantize");
    if (!k.dynamic) {
        k.grid = static_grid(p, o);
        return k;
    }
    k.by_row = !o->sample && o->quant->granularity == DT_PER_TOKEN;
    snprintf(k.grid.text, sizeof k.grid.text, "&g");
    return k;
}

void dt__c_declare_grid(dt__c_program *p, const dt__c_coding *k)
{
    if (k->dynamic && !k->blocks) dt__c_line(p, "code_grid g;");
}

dt__c_name dt__c_codes_room(dt__c_program *p, const dt_trace_call *c, const dt__c_coding *k,
                            int64_t n)
{
    return dt__c_scratch(p, c, k->blocks ? "int8_t" : "uint8_t", n, 1);
}

void dt__c_quantize(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                    const char *x, int64_t n, const char *u)
{
    if (!k->blocks) {
        dt__c_line(p, "quantize(%s, %lld, %s, %s);", x, (long long)n, k->grid.text, u);
        return;
    }
    if (dt__levels_of(o->quant) != NULL) {
        dt__c_want(p, "codes_small_blocks");
        dt__c_line(p, "bad |= quantize_small(%s, %lld, %lld, %s, %s, %s);", x, (long long)n,
                   (long long)o->quant->group_size, k->format.text, u, k->scales.text);
        return;
    }
    char stored[64];
    snprintf(stored, sizeof stored, "codes_stored_%s", dtypes[o->quant->scale_dtype]);
    dt__c_want(p, stored);
    dt__c_want(p, "codes_blocks");
    dt__c_line(p, "bad |= quantize_blocks(%s, %lld, %lld, %d, %s, %s, %s);", x, (long long)n,
               (long long)o->quant->group_size, dt__qmax(o->quant), stored + strlen("codes_"), u,
               k->scales.text);
}

/* Writes the statement that dequantizes codes. */
static void put_values(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                       const char *u, int64_t n, const char *y)
{
    dt__c_want(p, k->blocks ? "codes_dequantize_blocks" : "codes_dequantize");
    if (k->blocks) {
        dt__c_line(p, "dequantize_blocks(%s, %lld, %lld, %s, %s);", u, (long long)n,
                   (long long)o->quant->group_size, k->scales.text, y);
    } else {
        dt__c_line(p, "dequantize(%s, %lld, %s, %s);", u, (long long)n, k->grid.text, y);
    }
}

/* Writes the function that computes a dynamic grid. */
static void put_finder(dt__c_program *p, const dt_quant_spec *q)
{
    char text[64];
    const bool has_zero = dt__scheme_of(q->scheme)->has_zero;
    const unsigned bit = 1u << (q->scheme * 3 + q->scale_dtype);
    if ((p->grids & bit) != 0) return;
    p->grids |= bit;
    snprintf(text, sizeof text, "codes_%s", schemes[q->scheme]);
    dt__c_want(p, text);
    snprintf(text, sizeof text, "codes_scale_%s", dtypes[q->scale_dtype]);
    dt__c_want(p, text);
    dt__c_want(p, "codes_range");
    dt__c_want(p, "codes_set_scale");
    if (has_zero) dt__c_want(p, "codes_zero");
    dt__c_want(p, "codes_finite_grid");
    snprintf(text, sizeof text, "static int grid_%s_%s(", schemes[q->scheme],
             dtypes[q->scale_dtype]);
    const int indent = (int)strlen(text);
    dt__c_printf(&p->functions,
                 "/* The grid of n values by their range. Returns 1 where a value, the scale, or "
                 "what a code\n * stands for is not finite, else 0. */\n"
                 "static int grid_%s_%s(const float *x, int32_t n, int32_t qmin, int32_t qmax,\n"
                 "%*scode_grid *g)\n"
                 "{\n"
                 "    float lo, hi;\n"
                 "    const int bad = code_range(x, n, &lo, &hi);\n"
                 "    const float whole = %s(lo, hi, qmin, qmax), scale = scale_%s(whole);\n",
                 schemes[q->scheme], dtypes[q->scale_dtype], indent, "", schemes[q->scheme],
                 dtypes[q->scale_dtype]);
    dt__c_printf(&p->functions,
                 "    set_grid(g, scale, %s, qmin, qmax);\n"
                 "    return bad || !is_finite_grid(whole, g, qmin);\n"
                 "}\n\n",
                 has_zero ? "zero_of(lo, scale, qmin, qmax)" : "0");
}

void dt__c_find_grid(dt__c_program *p, const dt__c_coding *k, const dt_trace_operand *o,
                     const char *x, int64_t n)
{
    const dt_quant_spec *q = o->quant;
    if (k->blocks) return;
    if (!k->dynamic) {
        dt__c_want(p, "codes_finite");
        dt__c_line(p, "bad |= not_finite(%s, %lld);", x, (long long)n);
        return;
    }
    put_finder(p, q);
    dt__c_line(p, "bad |= grid_%s_%s(%s, %lld, %d, %d, &g);", schemes[q->scheme],
               dtypes[q->scale_dtype], x, (long long)n, dt__qmin(q), dt__qmax(q));
}

/* For an op that reads dequantized values: quantizes and dequantizes its operand. */
static dt__c_name dequantized(dt__c_program *p, const dt_trace_call *c, int i)
{
    const dt_trace_operand *o = &c->in[i];
    const dt__c_coding k = dt__c_coding_of(p, c, o);
    const int64_t n = dt__c_count(p, o->value);
    const int64_t row = k.by_row ? dt__c_dim(p, o->value, -1) : n;
    const dt__c_name x = dt__c_value(p, o->value);
    const bool real = dt__real_of(o->quant) != NULL;
    const dt__c_name u = real ? (dt__c_name){ "" } : dt__c_codes_room(p, c, &k, row);
    const dt__c_name y = dt__c_scratch(p, c, "float", n, sizeof(float));
    char from[96], to[96];
    const char *at = row < n ? " + i" : "";
    snprintf(from, sizeof from, "%s%s", x.text, at);
    snprintf(to, sizeof to, "%s%s", y.text, at);
    if (row < n) {
        dt__c_line(p, "for (int32_t i = 0; i < %lld; i += %lld) {", (long long)n, (long long)row);
    } else dt__c_line(p, "{");
    if (real) {
        dt__c_want(p, "codes_small_values");
        dt__c_line(p, "bad |= round_small(%s, %lld, %lld, %s, %s);", from, (long long)row,
                   (long long)o->quant->group_size, k.format.text, to);
    } else {
        dt__c_declare_grid(p, &k);
        dt__c_find_grid(p, &k, o, from, row);
        dt__c_quantize(p, &k, o, from, row, u.text);
        put_values(p, &k, o, u.text, row, to);
    }
    dt__c_line(p, "}");
    return y;
}

dt__c_name dt__c_in(dt__c_program *p, const dt_trace_call *c, int i)
{
    if (i < c->n_in && c->in[i].value >= 0 && c->in[i].quant != NULL && !c->in[i].weight) {
        return dequantized(p, c, i);
    }
    return dt__c_value(p, i < c->n_in ? c->in[i].value : -1);
}
