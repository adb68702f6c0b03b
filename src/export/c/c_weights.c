/* Format c: weights of products as tables, and the statements of a row's product.
 *
 * Codes are stored in 2, 4 or 8 bits, in the weight's order of columns; codes of 2 and 4 bits with
 * an offset of 2 and 8, so that the inner loop needs no sign extension. Odd codes -3 ... 3 (scheme
 * half_levels) are stored in 2 bits as (code + 3) / 2. The sums scale * (sum of codes) of
 * numerics.md section 2 are constants, too. */
#include "export/c/c_codes.h"
#include "export/c/c_program.h"

#include "core/tensor.h"
#include "export/trace/trace.h"
#include "io/model/code_rows.h"
#include "qat/quantized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_COLUMNS 65536 /* of a weight with an order of columns, whose entries have 16 bits */

static const dt__codes *codes_of(const dt_tensor *x)
{
    return x != NULL && dt_is_packed(x) ? ((const dt__packed *)x->ext)->codes : NULL;
}

/* A long group is summed in pieces with the same scale (numerics.md section 2), which become groups
 * of the export. All pieces but a row's last must have the same size. */
static bool has_equal_pieces(const dt__codes *codes)
{
    return codes->group <= DT__PIECE || codes->groups == 1 || codes->group % DT__PIECE == 0;
}

bool dt__c_is_integer(const dt_trace *t, const dt_trace_call *c)
{
    if (c->n_in < 2 || !c->in[0].coded || !c->in[1].coded || c->in[1].value < 0) return false;
    const dt__codes *codes = codes_of(dt_trace_value_at(t, c->in[1].value)->tensor);
    return codes != NULL && codes->integer;
}

bool dt__c_takes_weight(const dt_trace *t, const dt_trace_call *c, int weight, char *why,
                        size_t size)
{
    if (!dt__trace_takes_weight(t, c, weight, why, size)) return false;
    const dt__codes *codes = codes_of(dt_trace_value_at(t, c->in[weight].value)->tensor);
    if (codes == NULL) return true;
    if (codes->order != NULL && codes->columns > MOST_COLUMNS) {
        snprintf(why, size, "an order of %lld columns; at most %d", (long long)codes->columns,
                 MOST_COLUMNS);
        return false;
    }
    if (!has_equal_pieces(codes)) {
        snprintf(why, size,
                 "groups of %lld columns, in rows of %lld; above %lld a group must be a multiple "
                 "of it, or the row",
                 (long long)codes->group, (long long)codes->columns, (long long)DT__PIECE);
        return false;
    }
    return true;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* The codes of a weight as rows, in newly allocated buffers. */
typedef struct rows {
    int8_t *codes; /* in the stored order of columns */
    float *scale, *sum;
    int8_t *zero;    /* or NULL */
    uint16_t *order; /* or NULL */
    int64_t op_groups;
} rows;

static void free_rows(dt_ctx *ctx, rows *r)
{
    DT__RELEASE(ctx, r->codes, r->scale, r->sum, r->zero, r->order);
}

static dt_status make_rows(dt_ctx *ctx, const dt__codes *codes, rows *r)
{
    const int64_t blocks = codes->rows * codes->groups, groups = dt__codes_op_groups(codes);
    *r = (rows){ .op_groups = groups };
    r->codes = dt__alloc_array(ctx, codes->rows * codes->columns, 1);
    r->scale = dt__alloc_array(ctx, blocks, sizeof(float));
    r->sum = dt__alloc_array(ctx, codes->rows, sizeof(float));
    if (codes->zero != NULL) r->zero = dt__alloc_array(ctx, blocks, 1);
    if (groups > 0) r->order = dt__alloc_array(ctx, groups * codes->columns, sizeof(uint16_t));
    const bool all = r->codes != NULL && r->scale != NULL && r->sum != NULL &&
                     (codes->zero == NULL || r->zero != NULL) && (groups == 0 || r->order != NULL);
    if (!all) return DT_ERR_NOMEM;
    dt__panel_layout layout = codes->layout;
    layout.order = NULL; /* columns keep the order of panels */
    const dt__code_matrix to = { r->codes, codes->columns, r->scale, codes->groups };
    dt__panel_unpack(&layout, codes->panels, &to);
    for (int64_t i = 0; r->zero != NULL && i < blocks; i++) {
        r->zero[i] = codes->zero_step == 0 ? codes->zero[0] : codes->zero[i];
    }
    for (int64_t i = 0; i < groups * codes->columns; i++) r->order[i] = (uint16_t)codes->order[i];
    return DT_OK;
}

/* Gives each piece of a long group the scale and zero point of the group. */
static dt_status cut_groups(dt_ctx *ctx, const dt__codes *codes, const dt__c_weight *w, rows *r)
{
    if (w->groups == codes->groups) return DT_OK;
    const int64_t n = w->rows * w->groups;
    const rows of = *r;
    r->scale = dt__alloc_array(ctx, n, sizeof *r->scale);
    if (of.zero != NULL) r->zero = dt__alloc_array(ctx, n, 1);
    const bool all = r->scale != NULL && (of.zero == NULL || r->zero != NULL);
    for (int64_t i = 0; i < n && all; i++) {
        const int64_t column = i % w->groups * w->group;
        const int64_t from = i / w->groups * codes->groups + column / codes->group;
        r->scale[i] = of.scale[from];
        if (of.zero != NULL) r->zero[i] = of.zero[from];
    }
    DT__RELEASE(ctx, of.scale, of.zero);
    return all ? DT_OK : DT_ERR_NOMEM;
}

/* sum[r] = scale * (sum of codes), by a chain of fma over groups. */
static void make_sums(const dt__c_weight *w, const rows *r)
{
    for (int64_t row = 0; row < w->rows; row++) {
        float chain = 0;
        for (int64_t g = 0; g < w->groups; g++) {
            const int64_t end = dt__min_i64((g + 1) * w->group, w->columns);
            int32_t sum = 0;
            for (int64_t k = g * w->group; k < end; k++) {
                sum += r->codes[row * w->columns + k];
            }
            chain = fmaf(r->scale[row * w->groups + g], (float)sum, chain);
        }
        r->sum[row] = chain;
    }
}

/* Whether all codes are odd and in -3 ... 3. */
static bool are_odd(const dt__codes *codes, const int8_t *code)
{
    const int64_t n = codes->rows * codes->columns;
    for (int64_t i = 0; i < n; i++) {
        if ((code[i] & 1) == 0 || code[i] < -3 || code[i] > 3) return false;
    }
    return codes->bits == 3 && n > 0;
}

/* Packs codes into `bits` bits each, the first code of a byte in its lowest bits; each row begins
 * with a byte. */
static int64_t pack(const dt__codes *codes, const int8_t *from, int bits, uint8_t *to)
{
    const int each = 8 / bits, offset = bits == 8 ? 0 : 1 << (bits - 1);
    const int64_t stride = dt__ceil_div(codes->columns, each);
    for (int64_t r = 0; r < codes->rows; r++) {
        dt__pack_codes(bits, codes->columns, from + r * codes->columns, offset, to + r * stride);
    }
    return codes->rows * stride;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static dt__c_name named(const char *base, const char *part)
{
    dt__c_name name;
    snprintf(name.text, sizeof name.text, "%.20s%.20s", base, part);
    return name;
}

/* Writes the column order of each op group, or the inverse orders. */
static void put_order(dt__c_program *p, const dt__codes *codes, rows *r, bool inverse,
                      const dt__c_name *name)
{
    const int64_t n = codes->columns;
    if (!inverse) {
        dt__c_shorts(p, name->text, "the column at each place of a row", r->order,
                     r->op_groups * n);
        return;
    }
    uint16_t *places = dt__alloc_array(p->ctx, r->op_groups * n, sizeof *places);
    if (places == NULL) {
        dt__c_fail(p, DT_ERR_NOMEM);
        return;
    }
    for (int64_t i = 0; i < r->op_groups * n; i++) {
        places[i / n * n + r->order[i]] = (uint16_t)(i % n);
    }
    dt__c_shorts(p, name->text, "the place of each column in a row", places, r->op_groups * n);
    dt__release(p->ctx, places);
}

static void put_codes(dt__c_program *p, const dt__codes *codes, rows *r, const char *what,
                      dt__c_weight *w)
{
    const char *base = w->name.text;
    uint8_t *packed = dt__alloc_array(p->ctx, codes->rows * codes->columns + 1, 1);
    if (packed == NULL) {
        dt__c_fail(p, DT_ERR_NOMEM);
        return;
    }
    char comment[2 * DT__C_COMMENT];
    if (w->integer && !w->blocks) make_sums(w, r);
    for (int64_t i = 0; i < codes->rows * codes->columns && w->odd; i++) {
        r->codes[i] = (int8_t)((r->codes[i] - 1) / 2); /* -2 ... 1, exact */
    }
    const int64_t bytes = pack(codes, r->codes, w->bits, packed);
    snprintf(comment, sizeof comment, "%s: [%lld, %lld], %d bits, groups of %lld", what,
             (long long)w->rows, (long long)w->columns, w->odd ? 2 : codes->bits,
             (long long)w->group);
    dt__c_bytes(p, named(base, "_codes").text, comment, packed, bytes);
    dt__release(p->ctx, packed);
    dt__c_floats(p, named(base, "_scales").text, "", r->scale, w->rows * w->groups);
    if (w->integer && !w->blocks) {
        dt__c_floats(p, named(base, "_sums").text, "", r->sum, codes->rows);
    }
    if (r->zero != NULL) {
        w->zeros = named(base, "_zeros");
        dt__c_signed_bytes(p, w->zeros.text, "", r->zero, w->rows * w->groups);
    }
    if (r->order == NULL) return;
    w->order = named(base, "_order");
    w->places = named(base, "_places");
    put_order(p, codes, r, !w->integer, w->integer ? &w->order : &w->places);
}

/* Whether blocks of `group` activations coincide with the weight's groups. */
static bool has_groups(const dt__codes *codes, int64_t group)
{
    const int64_t x = dt__min_i64(group, codes->columns);
    return codes->order == NULL && dt__min_i64(codes->group, codes->columns) == x && x <= DT__PIECE;
}

static void put_coded(dt__c_program *p, const dt_trace_value *v, int64_t group_of_x,
                      dt__c_weight *w)
{
    const dt__codes *codes = codes_of(v->tensor);
    char what[DT__C_COMMENT];
    rows r;
    w->rows = codes->rows;
    w->columns = codes->columns;
    w->group = dt__min_i64(codes->group, DT__PIECE);
    w->groups = w->group < codes->group ? dt__ceil_div(codes->columns, w->group) : codes->groups;
    w->integer = w->integer && codes->integer && (!w->blocks || has_groups(codes, group_of_x));
    dt_status s = make_rows(p->ctx, codes, &r);
    w->odd = s == DT_OK && are_odd(codes, r.codes);
    w->bits = codes->bits > 4 ? 8 : codes->bits > 2 && !w->odd ? 4 : 2;
    if (s == DT_OK) s = cut_groups(p->ctx, codes, w, &r);
    if (s == DT_OK) put_codes(p, codes, &r, dt__c_comment(v->name, what), w);
    else dt__c_fail(p, s);
    free_rows(p->ctx, &r);
    const char *base = w->name.text;
    const bool sums = w->integer && !w->blocks;
    dt__c_constant(p,
                   "static const weight_matrix %s = { %s_codes, %s_scales, %s%s, %s, %lld, %lld, "
                   "%lld, %d, %d };\n",
                   base, base, base, sums ? base : "0", sums ? "_sums" : "", w->bias.text,
                   (long long)w->rows, (long long)w->columns, (long long)w->group, w->odd ? 2 : 1,
                   w->odd ? -3 : -2);
}

/* Writes a float weight as rows of outputs. */
static void put_floats(dt__c_program *p, const dt_trace_value *v, int64_t groups, dt__c_weight *w)
{
    dt_tensor *x = v->tensor, *dense = NULL, *made = NULL;
    char what[DT__C_COMMENT];
    dt__row_map map = { 0 };
    if (dt_is_packed(x)) dt__c_fail(p, dt_dequantize(x, &dense));
    if (dense != NULL) x = dense;
    if (p->status == DT_OK && !dt__row_map_of(groups, x->rank, x->dims, &map)) {
        dt__c_fail(p, dt_fail(p->ctx, DT_ERR_SHAPE, "export: %s has no rows", v->name));
    }
    if (p->status == DT_OK) dt__c_fail(p, dt__matrix_of(x, &map, &made));
    if (p->status == DT_OK) {
        const dt_tensor *by_output = made != NULL ? made : x;
        w->rows = groups > 0 ? dt__mapped_rows(&map) : x->dims[0];
        w->columns = x->count / dt__max_i64(1, w->rows);
        dt__c_floats(p, w->name.text, dt__c_comment(v->name, what), dt__values(by_output),
                     by_output->count);
    }
    DT__TENSORS_FREE(made, dense);
}

bool dt__c_weight_of(dt__c_program *p, const dt_trace_call *c, const dt__c_weight_operand *of,
                     dt__c_weight *w)
{
    const int64_t value = c->in[of->weight].value;
    const dt_trace_value *v = dt_trace_value_at(p->trace, value);
    const dt__c_name none = { "0" };
    const dt_quant_spec *x = c->in[0].quant;
    const bool blocks = x != NULL && x->granularity == DT_PER_GROUP && of->weight != 0;
    const int64_t bias = of->bias < c->n_in ? c->in[of->bias].value : -1;
    *w = (dt__c_weight){ .bias = none, .zeros = none, .order = none, .places = none };
    for (int64_t i = 0; i < p->n_matrices; i++) {
        const dt__c_matrix *m = &p->matrix[i];
        if (m->value != value || m->bias != bias || m->by_codes != c->in[0].coded ||
            m->by_blocks != blocks) {
            continue;
        }
        *w = m->weight;
        return p->status == DT_OK;
    }
    snprintf(w->name.text, sizeof w->name.text, "w%lld", (long long)p->at);
    if (bias >= 0) w->bias = dt__c_in(p, c, of->bias);
    w->coded = c->in[of->weight].coded && dt_is_packed(v->tensor);
    w->integer = w->coded && of->weight != 0 && c->in[0].coded;
    w->blocks = w->integer && blocks;
    if (p->status == DT_OK && w->coded) put_coded(p, v, blocks ? x->group_size : 0, w);
    else if (p->status == DT_OK) put_floats(p, v, of->transposed_groups, w);
    dt__c_fail(p, DT__RESERVE(p->ctx, p->matrix, p->n_matrices, p->room_matrices));
    if (p->status != DT_OK) return false;
    p->matrix[p->n_matrices++] = (dt__c_matrix){ value, bias, c->in[0].coded, blocks, *w };
    return true;
}

/* ---- products -------------------------------------------------------------------------------- */

static bool is_ordered(const dt__c_weight *w)
{
    return strcmp(w->integer ? w->order.text : w->places.text, "0") != 0;
}

dt__c_room dt__c_product_room(dt__c_program *p, const dt_trace_call *c, const dt__c_weight *w)
{
    dt__c_room room = { { "" }, { "" } };
    if (w->integer && w->bits < 8 && !w->blocks) {
        room.sums = dt__c_scratch(p, c, "int32_t", w->groups, sizeof(int32_t));
    }
    if (w->integer && is_ordered(w)) {
        room.ordered = dt__c_scratch(p, c, "uint8_t", w->columns, 1);
    }
    return room;
}

static void put_integer(dt__c_program *p, const dt__c_weight *w, const dt__c_coding *k,
                        const dt__c_room *room, const dt__c_row *r)
{
    const char *u = r->x;
    if (w->blocks) {
        dt__c_want(p, "product_blocks");
        dt__c_line(p, "product_blocks(&%s, %d, %s, %s, %s, %lld, %s, %lld);", w->name.text, w->bits,
                   u, k->scales.text, r->first, (long long)r->n, r->y, (long long)r->step);
        return;
    }
    if (is_ordered(w)) {
        dt__c_want(p, "codes_reorder");
        dt__c_line(p, "reorder(%s, %s%s, %lld, %s);", u, w->order.text, r->order,
                   (long long)w->columns, room->ordered.text);
        u = room->ordered.text;
    }
    if (w->bits < 8) {
        dt__c_want(p, "codes_sums");
        dt__c_line(p, "group_sums(%s, %lld, %lld, %s);", u, (long long)w->columns,
                   (long long)w->group, room->sums.text);
    }
    char text[16];
    snprintf(text, sizeof text, "product_i%d", w->bits);
    dt__c_want(p, text);
    dt__c_line(p, "%s(&%s, %s%s%s, %s, %s, %lld, %s, %lld);", text, w->name.text, u,
               w->bits < 8 ? ", " : "", room->sums.text, k->grid.text, r->first, (long long)r->n,
               r->y, (long long)r->step);
}

void dt__c_put_product(dt__c_program *p, const dt__c_weight *w, const dt__c_coding *k,
                       const dt__c_room *room, const dt__c_row *r)
{
    if (w->integer) {
        put_integer(p, w, k, room, r);
    } else if (w->coded) {
        dt__c_want(p, "product_dequantized");
        dt__c_line(p, "product_dequantized(&%s, %d, %s, %s%s, %s, %s, %lld, %s, %lld);",
                   w->name.text, w->bits, w->zeros.text, w->places.text,
                   is_ordered(w) ? r->order : "", r->x, r->first, (long long)r->n, r->y,
                   (long long)r->step);
    } else {
        const bool all = strcmp(r->first, "0") == 0;
        char from[128] = "", bias[96];
        if (!all) {
            snprintf(from, sizeof from, " + %s * %lld", r->first, (long long)w->columns);
        }
        snprintf(bias, sizeof bias, "%s%s%s", w->bias.text,
                 all || strcmp(w->bias.text, "0") == 0 ? "" : " + ",
                 all || strcmp(w->bias.text, "0") == 0 ? "" : r->first);
        dt__c_want(p, "product_floats");
        dt__c_line(p, "product_floats(%s%s, %s, %lld, %s, %lld, %s, %lld);", w->name.text, from,
                   bias, (long long)w->columns, r->x, (long long)r->n, r->y, (long long)r->step);
    }
}
