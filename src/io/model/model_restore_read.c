/* Reads and checks a value for each tensor of a plan; reports tensors that the file lacks and
 * tensors that the model does not have. */
#include "io/model/code_rows.h"
#include "core/text/ending.h"
#include "io/differences.h"
#include "io/model/model_restore.h"

#include <stdio.h>
#include <string.h>

typedef struct reading {
    const dt__load *load;
    dt__load_plan *plan;
    bool *used; /* which entries of the file belong to the model */
    dt__differences wrong;
} reading;

static void use(reading *r, const dt_file_entry *e)
{
    if (e != NULL) r->used[e - r->load->file->entry] = true;
}

static dt_status use_part(reading *r, const char *name, const char *suffix)
{
    const dt_file_entry *e;
    DT__TRY(dt__file_part(r->load->file, name, suffix, &e));
    use(r, e);
    if (e != NULL) dt__entry_forget(r->load->file, e);
    return DT_OK;
}

static dt_status read_packed(reading *r, dt__load_item *i)
{
    const dt__packed_place place = { r->load->file, i->path, i->quant };
    DT__TRY(dt__packed_read(&place, &i->packed));
    for (int k = 0; k < DT__ROW_PARTS; k++) DT__TRY(use_part(r, i->path, dt__row_suffix[k]));
    return DT_OK;
}

/* Dequantizes a weight's codes, for a float model. */
static dt_status read_dequantized(reading *r, dt__load_item *i)
{
    dt_tensor *codes;
    DT__TRY(read_packed(r, i));
    const dt__module_quant *q = i->quant;
    if (q->weight.shape.n != i->x->rank ||
        memcmp(q->weight.shape.v, i->x->dims, (size_t)i->x->rank * sizeof i->x->dims[0]) != 0) {
        return dt__load_refuse(r->load, q->path, "its weight has another shape than the model's");
    }
    DT__TRY(dt_tensor_create(r->load->ctx, DT_F32, i->x->rank, i->x->dims, &codes));
    dt__packed_take(codes, i->packed);
    i->packed = NULL; /* the tensor owns it now */
    i->quant = NULL;
    const dt_status s = dt_dequantize(codes, &i->value);
    dt_tensor_free(codes);
    return s;
}

static bool same_shape(const dt_file_entry *e, const dt_tensor *x)
{
    bool same = e->rank == x->rank;
    for (int i = 0; same && i < x->rank; i++) same = e->dims[i] == x->dims[i];
    return same;
}

static void complain_of_shape(reading *r, const dt__load_item *i, const dt_file_entry *e)
{
    char has[160] = "[...]", wants[160], text[352], name[DT__SHOWN];
    if (e->rank <= DT_MAX_RANK) dt__dims_text(e->rank, e->dims, has, sizeof has);
    dt__dims_text(i->x->rank, i->x->dims, wants, sizeof wants);
    snprintf(text, sizeof text, " is %s%s, not %s", e->dtype, has, wants);
    dt__wrong_add(&r->wrong.of[DT__MISSHAPEN], dt__name_in(r->load->file, i->path, name), text);
}

/* Other tensors than weights are small, and some are checked before they are stored. */
static bool is_weight(const char *path) { return dt__has_end(path, ".weight"); }

static dt_status read_value(reading *r, dt__load_item *i, const dt_file_entry *e)
{
    if (e == NULL) return DT_OK; /* searched under other names later */
    use(r, e);
    if (!same_shape(e, i->x)) {
        complain_of_shape(r, i, e);
        return DT_OK;
    }
    const dt_tensor *inner = dt__kind_of(i->x)->inner(i->x);
    if (is_weight(i->path) && dt__entry_fits(e, inner)) {
        i->entry = e;
        return DT_OK;
    }
    const dt_status s = dt_file_load(r->load->file, e->name, i->x->dtype, &i->value);
    if (s != DT_ERR_DTYPE && s != DT_ERR_NUMERIC) return s;
    char text[64], name[DT__SHOWN];
    snprintf(text, sizeof text, s == DT_ERR_DTYPE ? " is %s, not %s" : " is %s beyond %s", e->dtype,
             dt_dtype_name(i->x->dtype));
    dt__wrong_add(&r->wrong.of[DT__MISSHAPEN], dt__name_in(r->load->file, i->path, name), text);
    return DT_OK;
}

/* Other programs may store a tied parameter under another of its paths, or under several. */
static dt_status use_tied(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    reading *r = user;
    (void)kind;
    const dt_file_entry *e = dt_file_find(r->load->file, path);
    dt__load_item *i = dt__load_item_of(r->plan, x);
    if (e == NULL || i->path == path || i->quant != NULL) return DT_OK;
    const dt_file_entry *first = dt_file_find(r->load->file, i->path);
    if (first == NULL && i->value == NULL && i->entry == NULL) return read_value(r, i, e);
    use(r, e);
    if (first == NULL || (strcmp(first->dtype, e->dtype) == 0 && first->bytes == e->bytes &&
                          memcmp(first->data, e->data, e->bytes) == 0)) {
        return DT_OK;
    }
    char text[DT__SHOWN + 64], shown[DT__SHOWN];
    snprintf(text, sizeof text, " differs from %s, which it is tied to", dt__shown(i->path, shown));
    dt__wrong_add(&r->wrong.of[DT__MISSHAPEN], path, text);
    return DT_OK;
}

static bool is_models(const char *name)
{
    return strncmp(name, DT__OWN_PREFIX, strlen(DT__OWN_PREFIX)) != 0;
}

/* Whether a name belongs to a range; such tensors are ignored if only weights are loaded. */
static bool is_of_range(const reading *r, const char *name)
{
    for (int64_t i = 0; i < r->load->meta.n_quants && !r->load->r->quantized; i++) {
        const dt__module_quant *q = &r->load->meta.quant[i];
        const size_t n = strlen(q->path);
        if (strncmp(name, q->path, n) != 0) continue;
        if (q->has_input && q->input.has_range && strncmp(name + n, ".input.", 7) == 0) return true;
        if (q->has_weight && q->weight.has_range && strncmp(name + n, ".weight.", 8) == 0) {
            return true;
        }
    }
    for (int64_t i = 0; i < r->load->meta.n_ranges && !r->load->r->quantized; i++) {
        const char *path = r->load->meta.range[i].path;
        const size_t n = strlen(path);
        if (strncmp(name, path, n) == 0 && name[n] == '.') return true;
    }
    return false;
}

static dt_status check_names(reading *r)
{
    char shown[DT__SHOWN];
    const dt_file *file = r->load->file;
    for (int64_t i = 0; i < r->plan->n_items; i++) {
        const dt__load_item *it = &r->plan->item[i];
        const bool there = it->value != NULL || it->packed != NULL || it->entry != NULL;
        if (there || dt_file_find(file, it->path) != NULL) continue;
        dt__wrong_add(&r->wrong.of[DT__MISSING], dt__name_in(file, it->path, shown), "");
    }
    for (int64_t i = 0; i < file->count; i++) {
        const char *name = file->entry[i].name;
        if (r->used[i] || !is_models(name) || is_of_range(r, name)) continue;
        if (!r->load->r->quantized && dt__is_batch_count(&file->entry[i])) continue;
        dt__wrong_add(&r->wrong.of[DT__UNEXPECTED], dt__name_in(file, name, shown), "");
    }
    return dt__differences_report(file, &r->wrong);
}

static dt_status read_values(reading *r)
{
    r->used = dt__alloc_zero(r->load->ctx, (size_t)r->load->file->count);
    if (r->used == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < r->plan->n_items; k++) {
        dt__load_item *i = &r->plan->item[k];
        const bool packed = i->quant != NULL && i->quant->weight.state == DT__PACKED;
        if (packed && !r->load->r->quantized) DT__TRY(read_dequantized(r, i));
        else
            DT__TRY(packed ? read_packed(r, i)
                           : read_value(r, i, dt_file_find(r->load->file, i->path)));
    }
    if (r->load->beside) return check_names(r);
    DT__TRY(dt_module_visit(r->load->r->m, use_tied, r));
    return check_names(r);
}

/* Checks the quantizer whose values were just read. */
static dt_status check_sound(const dt__load_plan *p, dt_module *range)
{
    dt__quantizer q = *dt__quantizer_of(range);
    dt_tensor **const part[] = { &q.scale, &q.zero_point, &q.shift, &q.lo,
                                 &q.hi,    &q.values,     &q.count, &q.ends };
    for (int k = 0; k < DT__COUNT_OF(part); k++) {
        if (*part[k] != NULL) *part[k] = dt__load_item_of(p, *part[k])->value;
    }
    const char *why;
    if (dt__quantizer_is_sound(&q, &why)) return DT_OK;
    return dt__load_refuse(p->load, range->path, why);
}

dt_status dt__load_read(dt__load_plan *p, const dt__load_made *made)
{
    reading r = { .load = p->load, .plan = p };
    dt_status s = read_values(&r);
    for (int64_t i = 0; i < made->n_ranges && s == DT_OK; i++) s = check_sound(p, made->range[i]);
    dt__release(p->load->ctx, r.used);
    return s;
}
