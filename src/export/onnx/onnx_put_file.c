/* Writes the file of an ONNX model: protobuf-c packs the messages into a buffer, whose contents go
 * to a temporary file that is renamed. Constants are not copied. */
#include "export/onnx/onnx_put.h"

#include "core/system/atomic_file.h"

#include <string.h>

#define BUFFER ((size_t)1 << 16)
#define MOST_BYTES ((size_t)INT32_MAX)

typedef struct out {
    ProtobufCBuffer base; /* must be the first member: protobuf-c passes a pointer to it */
    dt__new_file file;
    dt_status status;
    size_t used;
    uint8_t *bytes; /* of BUFFER */
} out;

static void write(out *o, const void *data, size_t bytes)
{
    if (o->status == DT_OK && bytes > 0) o->status = dt__file_write(&o->file, data, bytes);
}

static void append(ProtobufCBuffer *base, size_t bytes, const uint8_t *data)
{
    out *o = (out *)(void *)base;
    if (o->used + bytes > BUFFER) {
        write(o, o->bytes, o->used);
        o->used = 0;
    }
    if (bytes > BUFFER) {
        write(o, data, bytes);
        return;
    }
    memcpy(o->bytes + o->used, data, bytes);
    o->used += bytes;
}

/* The outermost messages; everything is lent. */
typedef struct whole {
    DtOnnx__Model model;
    DtOnnx__Graph graph;
    DtOnnx__OperatorSet set[2], *sets[2];
} whole;

static void assemble(dt__put *p, whole *w)
{
    char *const name = dt__put_text_of("detent");
    dt_onnx__model__init(&w->model);
    dt_onnx__graph__init(&w->graph);
    for (int i = 0; i < 2; i++) {
        dt_onnx__operator_set__init(&w->set[i]);
        w->sets[i] = &w->set[i];
    }
    w->set[0].version = p->opset;
    w->set[1].version = 1;
    w->set[1].domain = dt__put_text_of("com.microsoft");
    w->graph.name = name;
    w->graph.node = p->node;
    w->graph.n_node = (size_t)p->nodes;
    w->graph.initializer = p->tensor;
    w->graph.n_initializer = (size_t)p->tensors;
    w->graph.input = p->input;
    w->graph.n_input = (size_t)p->inputs;
    w->graph.output = p->output;
    w->graph.n_output = (size_t)p->outputs;
    /* the version that introduced the opset */
    w->model.ir_version = p->opset < DT__PUT_INT2_OPSET ? 10 : 13;
    w->model.producer_name = name;
    w->model.producer_version = dt__put_text_of(DETENT_VERSION);
    w->model.graph = &w->graph;
    w->model.opset_import = w->sets;
    w->model.n_opset_import = p->microsoft ? 2 : 1;
    w->model.metadata_props = p->property;
    w->model.n_metadata_props = (size_t)p->properties;
}

static dt_status write_file(dt__put *p, const whole *w, const char *path)
{
    out o = { .base = { append } };
    o.bytes = dt__alloc(p->ctx, BUFFER);
    if (o.bytes == NULL) return DT_ERR_NOMEM;
    o.status = dt__file_begin(p->ctx, path, &o.file);
    o.file.counted = true;
    if (o.status == DT_OK) {
        dt_onnx__model__pack_to_buffer(&w->model, &o.base);
        write(&o, o.bytes, o.used);
        if (o.status == DT_OK) o.status = dt__file_commit(&o.file);
        else dt__file_abandon(&o.file);
    }
    dt__release(p->ctx, o.bytes);
    return o.status;
}

dt_status dt__put_write(dt__put *p, const char *path, size_t *bytes)
{
    whole w;
    DT__TRY(dt__put_status(p));
    assemble(p, &w);
    *bytes = dt_onnx__model__get_packed_size(&w.model);
    if (*bytes > MOST_BYTES) {
        return dt_fail(p->ctx, DT_ERR_UNSUPPORTED,
                       "%s: the model has %zu bytes; an ONNX file holds at most %zu",
                       dt__path_tail(path), *bytes, MOST_BYTES);
    }
    dt__cut_work(p->ctx, DT__WRITE);
    dt__plan_work(p->ctx, DT__WRITE, (double)*bytes);
    return write_file(p, &w, path);
}
