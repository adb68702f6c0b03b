/* Codes of a quantized weight as rows. */
#include "export/trace/weight_rows.h"

#include "autograd/codes.h"
#include "qat/quantized.h"

static dt_status codes_of(dt_tensor *x, const dt_trace_operand *o, dt__codes **out)
{
    if (dt_is_packed(x)) {
        *out = ((const dt__packed *)x->ext)->codes;
        dt__codes_retain(*out);
        return DT_OK;
    }
    if (dt_is_fake_quant(x)) return dt__fq_codes(x, out);
    const dt__fq like = {
        .quant = *o->quant, .enabled = true, .scale = o->scale, .zero_point = o->zero_point
    };
    return dt__codes_make(x, &like, "a weight", out);
}

static dt_status take_codes(dt_ctx *ctx, const dt__codes *codes, dt_code_rows *rows)
{
    const int64_t blocks = codes->rows * codes->groups;
    const int64_t op_groups = dt__codes_op_groups(codes);
    rows->op_groups = op_groups;
    rows->codes = dt__alloc_array(ctx, codes->rows, (size_t)codes->columns);
    rows->scale = dt__alloc_array(ctx, blocks, sizeof(float));
    if (rows->codes == NULL || rows->scale == NULL) return DT_ERR_NOMEM;
    if (codes->zero != NULL) {
        rows->zero_point = dt__alloc_zero(ctx, (size_t)blocks);
        if (rows->zero_point == NULL) return DT_ERR_NOMEM;
    }
    if (op_groups > 0) {
        rows->group_of = dt__alloc_array(ctx, op_groups * codes->columns, sizeof(int32_t));
        if (rows->group_of == NULL) return DT_ERR_NOMEM;
    }
    dt__codes_to_rows(codes, rows);
    return DT_OK;
}

dt_status dt__weight_rows_of(dt_ctx *ctx, dt_tensor *x, const dt_trace_operand *o,
                             dt__weight_rows *out)
{
    dt__codes *codes = NULL;
    *out = (dt__weight_rows){ .bits = 0 };
    DT__TRY(codes_of(x, o, &codes));
    *out = (dt__weight_rows){ .bits = codes->bits,
                              .n = codes->rows,
                              .columns = codes->columns,
                              .group = codes->group,
                              .groups = codes->groups,
                              .experts = codes->map.experts,
                              .integer = codes->integer,
                              .real = codes->layout.real };
    const dt_status s = take_codes(ctx, codes, &out->rows);
    dt__codes_release(codes);
    return s;
}

void dt__weight_rows_free(dt_ctx *ctx, dt__weight_rows *r)
{
    DT__RELEASE(ctx, r->rows.codes, r->rows.scale, r->rows.zero_point, r->rows.group_of);
    *r = (dt__weight_rows){ .bits = 0 };
}
