/* Writes the file of a TFLite model: the tables of schema.fbs, version 3, as a flatbuffer. Field
 * numbers are those of the schema. */
#include "export/tflite/tflite_put.h"

#include "core/system/atomic_file.h"
#include "core/text/byte_order.h"

#include <string.h>

#define VERSION 3
#define CUSTOM 127    /* the value of the old field for larger operator codes */
#define DATA_ALIGN 16 /* of Buffer.data */
#define BLOCKWISE 2   /* QuantizationDetails */
#define OPERATORS 64  /* distinct pairs of operator and version, at most */

static const struct {
    int code, options;
} kinds[] = {
#define DT__LITE_OPERATOR(name, code, options, activation, version) { code, options },
    DT__LITE_OPERATORS(DT__LITE_OPERATOR)
#undef DT__LITE_OPERATOR
};

/* A file that is being written. */
typedef struct file {
    dt__flat f;
    dt__lite *p;
    int64_t code[OPERATORS], version[OPERATORS]; /* of operator_codes */
    int codes;
} file;

#define CHILD(id)                                                                                  \
    {                                                                                              \
        id, DT__FLAT_CHILD, 0                                                                      \
    }
#define INT(id, value)                                                                             \
    {                                                                                              \
        id, DT__FLAT_INT, (uint32_t)(value)                                                        \
    }
#define BYTE(id, value)                                                                            \
    {                                                                                              \
        id, DT__FLAT_BYTE, (uint32_t)(value)                                                       \
    }
#define TABLE(f, ...)                                                                              \
    dt__flat_table(                                                                                \
        f, (const dt__flat_field[]){ __VA_ARGS__ },                                                \
        (int)(sizeof((const dt__flat_field[]){ __VA_ARGS__ }) / sizeof(dt__flat_field)))

static void point(dt__flat *f, size_t table, int id, size_t child)
{
    dt__flat_point(f, dt__flat_child(f, table, id), child);
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum { T_SHAPE, T_TYPE, T_BUFFER, T_NAME, T_QUANTIZATION, T_SIGNATURE = 7 };
enum { Q_SCALE = 2, Q_ZERO, Q_DETAILS_TYPE, Q_DETAILS, Q_AXIS };
enum { B_SCALES, B_ZEROS, B_SIZE };

static size_t write_dims(file *w, const dt__lite_shape *s, bool resized)
{
    int32_t dims[DT__LITE_RANK];
    for (int i = 0; i < s->rank; i++) dims[i] = (int32_t)s->dims[i];
    if (resized) dims[0] = -1;
    return dt__flat_vector(&w->f, s->rank, sizeof *dims, 4, dims);
}

static size_t write_scales(file *w, const dt__lite_scales *q)
{
    dt__flat *f = &w->f;
    if (q->block > 0) {
        const size_t t = TABLE(f, BYTE(Q_DETAILS_TYPE, BLOCKWISE), CHILD(Q_DETAILS));
        point(f, t, Q_DETAILS,
              TABLE(f, INT(B_SCALES, q->block_scales), INT(B_ZEROS, -1), INT(B_SIZE, q->block)));
        return t;
    }
    const size_t t = TABLE(f, CHILD(Q_SCALE), CHILD(Q_ZERO), INT(Q_AXIS, q->axis));
    point(f, t, Q_SCALE, dt__flat_vector(f, q->n, sizeof(float), 4, q->scale));
    const size_t zeros = dt__flat_vector(f, q->n, sizeof(int64_t), 8, NULL);
    for (int64_t i = 0; i < q->n && q->zero != NULL && dt__flat_status(f) == DT_OK; i++) {
        const int64_t z = q->zero[i];
        dt__copy_little(f->bytes + zeros + 4 + 8 * i, &z, sizeof z);
    }
    point(f, t, Q_ZERO, zeros);
    return t;
}

static bool is_end(const dt__lite *p, int tensor)
{
    bool end = false;
    for (int i = 0; i < p->ins; i++) end = end || p->in[i] == tensor;
    for (int i = 0; i < p->outs; i++) end = end || p->out[i] == tensor;
    return end;
}

static size_t write_tensor(file *w, int i)
{
    dt__flat *f = &w->f;
    const dt__lite_tensor *t = &w->p->tensor[i];
    dt__flat_field field[6] = { CHILD(T_SHAPE), BYTE(T_TYPE, t->type), INT(T_BUFFER, t->buffer),
                                CHILD(T_NAME) };
    int n = 4;
    const bool quantized = t->scales.n > 0 || t->scales.block > 0;
    const bool resized = w->p->batched && t->shape.rank > 0 && is_end(w->p, i);
    if (quantized) field[n++] = (dt__flat_field)CHILD(T_QUANTIZATION);
    if (resized) field[n++] = (dt__flat_field)CHILD(T_SIGNATURE);
    const size_t table = dt__flat_table(f, field, n);
    point(f, table, T_SHAPE, write_dims(w, &t->shape, false));
    point(f, table, T_NAME, dt__flat_text(f, t->name));
    if (quantized) point(f, table, T_QUANTIZATION, write_scales(w, &t->scales));
    if (resized) point(f, table, T_SIGNATURE, write_dims(w, &t->shape, true));
    return table;
}

/* ---- operators ------------------------------------------------------------------------------- */

enum { C_OLD_CODE, C_VERSION = 2, C_CODE };
enum { O_CODE, O_IN, O_OUT, O_OPTIONS_TYPE, O_OPTIONS };

/* The index of an operator in operator_codes. */
static int code_of(file *w, const dt__lite_op *o)
{
    for (int i = 0; i < w->codes; i++) {
        if (w->code[i] == kinds[o->op].code && w->version[i] == o->version) return i;
    }
    if (w->codes == OPERATORS) return -1;
    w->code[w->codes] = kinds[o->op].code;
    w->version[w->codes] = o->version;
    return w->codes++;
}

static size_t write_codes(file *w)
{
    dt__flat *f = &w->f;
    const size_t all = dt__flat_children(f, w->codes);
    for (int i = 0; i < w->codes; i++) {
        const int64_t old = dt__min_i64(w->code[i], CUSTOM);
        const size_t t =
            TABLE(f, BYTE(C_OLD_CODE, old), INT(C_VERSION, w->version[i]), INT(C_CODE, w->code[i]));
        dt__flat_point(f, dt__flat_element(all, i), t);
    }
    return all;
}

static size_t write_op(file *w, const dt__lite_op *o)
{
    dt__flat *f = &w->f;
    const int options = kinds[o->op].options;
    dt__flat_field field[5] = { INT(O_CODE, code_of(w, o)), CHILD(O_IN), CHILD(O_OUT),
                                BYTE(O_OPTIONS_TYPE, options), CHILD(O_OPTIONS) };
    const size_t t = dt__flat_table(f, field, options == 0 ? 3 : 5);
    point(f, t, O_IN, dt__flat_vector(f, o->n_in, sizeof *o->in, 4, o->in));
    point(f, t, O_OUT, dt__flat_vector(f, o->n_out, sizeof *o->out, 4, o->out));
    if (options != 0) point(f, t, O_OPTIONS, dt__flat_table(f, o->option, o->options));
    return t;
}

/* ---- the model ------------------------------------------------------------------------------- */

enum { G_TENSORS, G_IN, G_OUT, G_OPS, G_NAME };
enum { M_VERSION, M_CODES, M_GRAPHS, M_DESCRIPTION, M_BUFFERS, M_METADATA = 6, M_SIGNATURES };
enum { S_IN, S_OUT, S_KEY, S_GRAPH = 4 };

static size_t write_graph(file *w)
{
    dt__flat *f = &w->f;
    dt__lite *p = w->p;
    const size_t t =
        TABLE(f, CHILD(G_TENSORS), CHILD(G_IN), CHILD(G_OUT), CHILD(G_OPS), CHILD(G_NAME));
    const size_t tensors = dt__flat_children(f, p->tensors);
    point(f, t, G_TENSORS, tensors);
    for (int64_t i = 0; i < p->tensors; i++) {
        dt__flat_point(f, dt__flat_element(tensors, i), write_tensor(w, (int)i));
    }
    point(f, t, G_IN, dt__flat_vector(f, p->ins, sizeof *p->in, 4, p->in));
    point(f, t, G_OUT, dt__flat_vector(f, p->outs, sizeof *p->out, 4, p->out));
    const size_t ops = dt__flat_children(f, p->ops);
    point(f, t, G_OPS, ops);
    for (int64_t i = 0; i < p->ops; i++) {
        dt__flat_point(f, dt__flat_element(ops, i), write_op(w, &p->op[i]));
    }
    point(f, t, G_NAME, dt__flat_text(f, "main"));
    return t;
}

static size_t write_ends(file *w, int n, const char *const *name, const int *tensor)
{
    dt__flat *f = &w->f;
    const size_t all = dt__flat_children(f, n);
    for (int i = 0; i < n; i++) {
        const size_t t = TABLE(f, CHILD(0), INT(1, tensor[i]));
        point(f, t, 0, dt__flat_text(f, name[i]));
        dt__flat_point(f, dt__flat_element(all, i), t);
    }
    return all;
}

/* Writes the names of inputs and outputs, by which programs of LiteRT access them. */
static size_t write_signature(file *w)
{
    dt__flat *f = &w->f;
    const dt__lite *p = w->p;
    const size_t all = dt__flat_children(f, 1);
    const size_t t = TABLE(f, CHILD(S_IN), CHILD(S_OUT), CHILD(S_KEY), INT(S_GRAPH, 0));
    dt__flat_point(f, dt__flat_element(all, 0), t);
    point(f, t, S_IN, write_ends(w, p->ins, p->in_name, p->in));
    point(f, t, S_OUT, write_ends(w, p->outs, p->out_name, p->out));
    point(f, t, S_KEY, dt__flat_text(f, "serving_default"));
    return all;
}

/* Texts are buffers after those of tensors. */
static size_t write_texts(file *w)
{
    dt__flat *f = &w->f;
    const dt__lite *p = w->p;
    const size_t all = dt__flat_children(f, p->texts);
    for (int i = 0; i < p->texts; i++) {
        const size_t t = TABLE(f, CHILD(0), INT(1, p->buffers + i));
        point(f, t, 0, dt__flat_text(f, p->text[i].name));
        dt__flat_point(f, dt__flat_element(all, i), t);
    }
    return all;
}

static size_t write_buffer(file *w, const void *data, size_t bytes)
{
    dt__flat *f = &w->f;
    if (data == NULL) return dt__flat_table(f, NULL, 0);
    const size_t t = TABLE(f, CHILD(0));
    point(f, t, 0, dt__flat_vector(f, (int64_t)bytes, 1, DATA_ALIGN, data));
    return t;
}

static size_t write_buffers(file *w)
{
    dt__flat *f = &w->f;
    const dt__lite *p = w->p;
    const size_t all = dt__flat_children(f, p->buffers + p->texts);
    for (int64_t i = 0; i < p->buffers; i++) {
        const size_t t = write_buffer(w, p->buffer[i].data, p->buffer[i].bytes);
        dt__flat_point(f, dt__flat_element(all, i), t);
    }
    for (int i = 0; i < p->texts; i++) {
        const size_t t = write_buffer(w, p->text[i].text, strlen(p->text[i].text));
        dt__flat_point(f, dt__flat_element(all, p->buffers + i), t);
    }
    return all;
}

static void write_model(file *w)
{
    dt__flat *f = &w->f;
    dt__flat_begin(w->p->ctx, "TFL3", f);
    const size_t t =
        TABLE(f, INT(M_VERSION, VERSION), CHILD(M_CODES), CHILD(M_GRAPHS), CHILD(M_DESCRIPTION),
              CHILD(M_BUFFERS), CHILD(M_METADATA), CHILD(M_SIGNATURES));
    const size_t graphs = dt__flat_children(f, 1);
    point(f, t, M_GRAPHS, graphs);
    dt__flat_point(f, dt__flat_element(graphs, 0), write_graph(w));
    point(f, t, M_CODES, write_codes(w));
    point(f, t, M_DESCRIPTION, dt__flat_text(f, "detent " DETENT_VERSION));
    point(f, t, M_METADATA, write_texts(w));
    point(f, t, M_SIGNATURES, write_signature(w));
    point(f, t, M_BUFFERS, write_buffers(w));
}

dt_status dt__lite_write(dt__lite *p, const char *path, size_t *bytes)
{
    file w = { .p = p };
    DT__TRY(dt__lite_status(p));
    write_model(&w);
    dt_status s = dt__flat_status(&w.f);
    *bytes = w.f.used;
    const dt__span span = { w.f.bytes, w.f.used };
    if (s == DT_OK) s = dt__file_replace(p->ctx, path, &span, 1);
    dt__flat_free(&w.f);
    return s;
}
