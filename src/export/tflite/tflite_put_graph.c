/* The graph of a TFLite model: tensors, buffers, operators with their options. */
#include "export/tflite/tflite_put.h"

#include "core/block_list.h"
#include "core/text/byte_order.h"

#include <stdio.h>
#include <string.h>

#define HINT 200 /* bytes of a name, at most, before its number */

static const char *const names[] = {
#define DT__LITE_OPERATOR(name, code, options, activation, version) #name,
    DT__LITE_OPERATORS(DT__LITE_OPERATOR)
#undef DT__LITE_OPERATOR
};

static const int activations[] = {
#define DT__LITE_OPERATOR(name, code, options, activation, version) activation,
    DT__LITE_OPERATORS(DT__LITE_OPERATOR)
#undef DT__LITE_OPERATOR
};

static const int versions[] = {
#define DT__LITE_OPERATOR(name, code, options, activation, version) version,
    DT__LITE_OPERATORS(DT__LITE_OPERATOR)
#undef DT__LITE_OPERATOR
};

/* Buffer 0 is empty, for tensors without data. */
void dt__lite_begin(dt_ctx *ctx, dt__lite *p)
{
    *p = (dt__lite){ .ctx = ctx };
    p->failed = DT__RESERVE(ctx, p->buffer, p->buffers, p->room_buffers) != DT_OK;
    if (!p->failed) p->buffer[p->buffers++] = (dt__lite_buffer){ .data = NULL };
}

void dt__lite_free(dt__lite *p)
{
    dt_ctx *ctx = p->ctx;
    DT__RELEASE(ctx, p->tensor, p->buffer, p->op);
    dt__block_list_free(ctx, &p->blocks);
    *p = (dt__lite){ .ctx = ctx };
}

dt_status dt__lite_status(const dt__lite *p) { return p->failed ? DT_ERR_NOMEM : DT_OK; }

void *dt__lite_memory(dt__lite *p, int64_t count, size_t size)
{
    if (p->failed) return NULL;
    void *memory = dt__block_list_array(p->ctx, &p->blocks, count, size);
    p->failed = memory == NULL;
    return memory;
}

static const char *copy_text(dt__lite *p, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *to = dt__lite_memory(p, (int64_t)bytes, 1);
    if (to != NULL) memcpy(to, text, bytes);
    return to;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int add_tensor(dt__lite *p, const dt__lite_tensor *t)
{
    if (p->failed) return -1;
    p->failed = DT__RESERVE(p->ctx, p->tensor, p->tensors, p->room_tensors) != DT_OK;
    if (p->failed) return -1;
    p->tensor[p->tensors] = *t;
    return (int)p->tensors++;
}

int dt__lite_result(dt__lite *p, const char *name, const dt__lite_shape *shape)
{
    const dt__lite_tensor t = {
        .name = copy_text(p, name), .type = DT__LITE_FLOAT32, .shape = *shape, .op = -1
    };
    return add_tensor(p, &t);
}

dt__lite_shape dt__lite_shape_of(const dt__lite *p, int tensor)
{
    return p->failed || tensor < 0 ? (dt__lite_shape){ 0 } : p->tensor[tensor].shape;
}

static uint32_t hash_of(const void *data, size_t bytes)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const uint8_t *)data)[i]) * 16777619u;
    return (h ^ h >> 8 ^ h >> 16) % DT__LITE_BUCKETS;
}

static size_t width_of(int type)
{
    return type == DT__LITE_FLOAT32 || type == DT__LITE_INT32 ? 4
           : type == DT__LITE_FLOAT16                         ? 2
                                                              : 1;
}

/* On a big-endian machine: the array in the file's byte order. */
static dt__lite_array turned(dt__lite *p, const dt__lite_array *a)
{
    dt__lite_array in_file = *a;
    void *own = dt__lite_memory(p, (int64_t)a->bytes, 1);
    if (own != NULL) dt__reverse_elements(own, a->data, a->bytes, width_of(a->type));
    in_file.data = own;
    in_file.lent = true;
    return in_file;
}

/* The buffer with these bytes, an existing or a new one. */
static int64_t buffer_of(dt__lite *p, const dt__lite_array *a)
{
    int64_t *bucket = &p->bucket[hash_of(a->data, a->bytes)];
    for (int64_t i = *bucket; i != 0; i = p->buffer[i].next) {
        const dt__lite_buffer *b = &p->buffer[i];
        if (b->bytes == a->bytes && memcmp(b->data, a->data, a->bytes) == 0) return i;
    }
    const void *data = a->data;
    if (!a->lent) {
        void *own = dt__lite_memory(p, (int64_t)a->bytes, 1);
        if (own != NULL && a->bytes > 0) memcpy(own, a->data, a->bytes);
        data = own;
    }
    if (!p->failed)
        p->failed = DT__RESERVE(p->ctx, p->buffer, p->buffers, p->room_buffers) != DT_OK;
    if (p->failed) return 0;
    p->buffer[p->buffers] = (dt__lite_buffer){ data, a->bytes, *bucket };
    *bucket = p->buffers;
    return p->buffers++;
}

static bool is_alike(const dt__lite_tensor *t, const dt__lite_array *a, int64_t buffer)
{
    return t->buffer == buffer && t->type == a->type && t->scales.n == 0 && t->scales.block == 0 &&
           t->shape.rank == a->shape.rank &&
           memcmp(t->shape.dims, a->shape.dims, (size_t)a->shape.rank * sizeof(int64_t)) == 0;
}

/* Repeated constants are usually made again soon, so only the latest tensors are searched. */
#define SEARCHED 512

int dt__lite_constant(dt__lite *p, const dt__lite_array *a)
{
    if (p->failed) return -1;
    const dt__lite_array in_file = DT__BIG_ENDIAN ? turned(p, a) : *a;
    if (p->failed) return -1;
    const int64_t buffer = buffer_of(p, &in_file);
    const bool plain = a->scales.n == 0 && a->scales.block == 0;
    const int64_t stop = dt__max_i64(0, p->tensors - SEARCHED);
    for (int64_t i = p->tensors - 1; i >= stop && plain && !p->failed; i--) {
        if (is_alike(&p->tensor[i], a, buffer)) return (int)i;
    }
    const dt__lite_tensor t = { .name = copy_text(p, a->name == NULL ? "constant" : a->name),
                                .type = a->type,
                                .shape = a->shape,
                                .buffer = buffer,
                                .scales = a->scales,
                                .op = -1 };
    return add_tensor(p, &t);
}

int dt__lite_float(dt__lite *p, float value)
{
    return dt__lite_constant(
        p, &(dt__lite_array){ .type = DT__LITE_FLOAT32, .data = &value, .bytes = sizeof value });
}

int dt__lite_ints(dt__lite *p, int rows, int n, const int64_t *value)
{
    int32_t narrow[2 * DT__LITE_RANK];
    const int count = rows == 0 ? n : rows * n;
    dt__lite_array a = { .type = DT__LITE_INT32,
                         .shape = { 1, { n } },
                         .data = narrow,
                         .bytes = (size_t)count * sizeof *narrow };
    if (rows > 0) a.shape = (dt__lite_shape){ 2, { rows, n } };
    for (int i = 0; i < count; i++) narrow[i] = (int32_t)value[i];
    return dt__lite_constant(p, &a);
}

void dt__lite_quantize(dt__lite *p, int tensor, float scale, int zero)
{
    float *s = dt__lite_memory(p, 1, sizeof *s);
    int32_t *z = dt__lite_memory(p, 1, sizeof *z);
    if (p->failed || tensor < 0) return;
    *s = scale;
    *z = zero;
    p->tensor[tensor].type = DT__LITE_INT8;
    p->tensor[tensor].scales = (dt__lite_scales){ .n = 1, .scale = s, .zero = z };
}

/* ---- operators ------------------------------------------------------------------------------- */

/* "layers.0/ADD:17"; the rest of a name has no colon. */
static int new_result(dt__lite *p, dt__lite_operator op, const dt__lite_shape *shape)
{
    char text[HINT + 64];
    const char *hint = p->hint == NULL ? "" : p->hint;
    snprintf(text, sizeof text, "%.*s%s%s:%lld", HINT, hint, *hint == 0 ? "" : "/", names[op],
             (long long)p->tensors);
    const int tensor = dt__lite_result(p, text, shape);
    if (tensor >= 0) p->tensor[tensor].op = p->ops;
    return tensor;
}

/* Whether results have type, scale and zero point of the first input. */
static bool keeps_type(dt__lite_operator op)
{
    static const dt__lite_operator all[] = {
        DT__LITE_RESHAPE,       DT__LITE_TRANSPOSE,
        DT__LITE_PAD,           DT__LITE_PADV2,
        DT__LITE_STRIDED_SLICE, DT__LITE_CONCATENATION,
        DT__LITE_MAX_POOL_2D,   DT__LITE_AVERAGE_POOL_2D,
        DT__LITE_MAXIMUM,       DT__LITE_RESIZE_NEAREST_NEIGHBOR,
        DT__LITE_GATHER,
    };
    for (int i = 0; i < DT__COUNT_OF(all); i++) {
        if (all[i] == op) return true;
    }
    return false;
}

int dt__lite_node(dt__lite *p, dt__lite_operator op, const int *in, int n,
                  const dt__lite_shape *shape)
{
    dt__lite_op o = { .op = op, .version = versions[op], .n_in = n, .n_out = 1 };
    o.in = dt__lite_memory(p, n, sizeof *o.in);
    o.out = dt__lite_memory(p, 1, sizeof *o.out);
    const int y = new_result(p, op, shape);
    if (!p->failed) p->failed = DT__RESERVE(p->ctx, p->op, p->ops, p->room_ops) != DT_OK;
    if (p->failed) return -1;
    memcpy(o.in, in, (size_t)n * sizeof *in);
    o.out[0] = y;
    p->op[p->ops++] = o;
    if (keeps_type(op) && n > 0 && in[0] >= 0 && p->tensor[in[0]].buffer == 0) {
        p->tensor[y].type = p->tensor[in[0]].type;
        p->tensor[y].scales = p->tensor[in[0]].scales;
        if (p->tensor[y].type == DT__LITE_INT8 && op != DT__LITE_RESHAPE)
            p->op[p->ops - 1].version = 2; /* RESHAPE has one version for all types */
    }
    return y;
}

void dt__lite_results(dt__lite *p, int n, int *out)
{
    for (int i = 0; i < n; i++) out[i] = -1;
    int *all = dt__lite_memory(p, n, sizeof *all);
    if (p->failed) return;
    dt__lite_op *o = &p->op[p->ops - 1];
    const dt__lite_shape shape = dt__lite_shape_of(p, o->out[0]);
    all[0] = o->out[0];
    for (int i = 1; i < n; i++) {
        all[i] = new_result(p, o->op, &shape);
        if (all[i] >= 0) p->tensor[all[i]].op = p->ops - 1;
    }
    if (p->failed) return;
    o->out = all;
    o->n_out = n;
    memcpy(out, all, (size_t)n * sizeof *out);
}

void dt__lite_option(dt__lite *p, int id, dt__flat_kind kind, int64_t value)
{
    if (p->failed) return;
    dt__lite_op *o = &p->op[p->ops - 1];
    int at = o->options++;
    for (; at > 0 && o->option[at - 1].id > id; at--) o->option[at] = o->option[at - 1];
    o->option[at] = (dt__flat_field){ id, kind, (uint32_t)value };
}

void dt__lite_option_float(dt__lite *p, int id, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    dt__lite_option(p, id, DT__FLAT_INT, bits);
}

void dt__lite_version(dt__lite *p, int version)
{
    if (!p->failed) p->op[p->ops - 1].version = version;
}

bool dt__lite_fuse(dt__lite *p, int tensor, int activation)
{
    if (p->failed || tensor < 0 || p->tensor[tensor].op < 0) return false;
    dt__lite_op *o = &p->op[p->tensor[tensor].op];
    const int id = activations[o->op];
    if (id < 0) return false;
    for (int i = 0; i < o->options; i++) {
        if (o->option[i].id != id) continue;
        if (o->option[i].value != DT__LITE_NONE) return false;
        o->option[i].value = (uint32_t)activation;
        return true;
    }
    return false;
}

/* ---- ends of the graph ----------------------------------------------------------------------- */

void dt__lite_input(dt__lite *p, const char *name, int tensor)
{
    name = copy_text(p, name);
    if (p->failed) return;
    p->in[p->ins] = tensor;
    p->in_name[p->ins++] = name;
}

void dt__lite_output(dt__lite *p, const char *name, int tensor)
{
    name = copy_text(p, name);
    if (p->failed) return;
    bool named = p->tensor[tensor].op < 0; /* an input, or a constant */
    for (int i = 0; i < p->outs; i++) named = named || p->out[i] == tensor;
    if (!named) p->tensor[tensor].name = name;
    p->out[p->outs] = tensor;
    p->out_name[p->outs++] = name;
}

void dt__lite_property(dt__lite *p, const char *name, const char *text)
{
    if (p->texts < DT__LITE_TEXTS) p->text[p->texts++] = (dt__lite_text){ name, text };
}
