/* Large tensors of an ONNX file. protobuf-c copies their bytes, and layers are made from the
 * copies. The copies are freed before the model gets memory for its weights, which are then read
 * from the mapped file. */
#include "core/block_list.h"
#include "core/system/pages.h"
#include "io/onnx/onnx.h"
#include "io/onnx/onnx_wire.h"

#include <string.h>

#define LARGE ((size_t)1 << 16) /* bytes */
#define ENDS 64                 /* bytes that are compared at both ends */

/* Field numbers (onnx.proto) in a model, a graph and a tensor. */
enum { GRAPH = 7, INITIALIZER = 5, RAW_DATA = 9 };

/* The raw_data of a tensor; if the field is repeated, the last one. */
static dt__wire raw_of(dt__wire tensor)
{
    uint64_t number;
    dt__wire contents, raw = { NULL, NULL };
    while (dt__wire_take(&tensor, &number, &contents)) {
        if (number == RAW_DATA) raw = contents;
    }
    return raw;
}

static bool is_copy(const ProtobufCBinaryData *copy, dt__wire raw)
{
    const size_t n = raw.at == NULL ? 0 : (size_t)(raw.end - raw.at);
    return n >= LARGE && copy->len == n && memcmp(copy->data, raw.at, ENDS) == 0 &&
           memcmp(copy->data + n - ENDS, raw.end - ENDS, ENDS) == 0;
}

/* Records tensor k of the graph, if it is large. */
static void note(dt__onnx_file *f, size_t k, dt__wire tensor)
{
    const DtOnnx__Graph *g = f->model->graph;
    const dt__wire raw = raw_of(tensor);
    if (k >= g->n_initializer || !is_copy(&g->initializer[k]->raw_data, raw)) return;
    const ProtobufCBinaryData *copy = &g->initializer[k]->raw_data;
    f->large[f->n_large++] = (dt__onnx_large){ copy->data, raw.at, copy->len, false };
}

dt_status dt__onnx_find_large(dt__onnx_file *f)
{
    uint64_t number, inner;
    size_t k = 0;
    dt__wire model = { f->map, (const uint8_t *)f->map + f->size }, graph, tensor;
    if (f->model->graph == NULL || f->size < LARGE) return DT_OK;
    const size_t most = f->model->graph->n_initializer;
    f->large = dt__block_list_add(f->ctx, &f->blocks, (most + 1) * sizeof *f->large);
    if (f->large == NULL) return DT_ERR_NOMEM;
    while (dt__wire_take(&model, &number, &graph)) {
        while (number == GRAPH && dt__wire_take(&graph, &inner, &tensor)) {
            if (inner == INITIALIZER) note(f, k++, tensor);
        }
    }
    return DT_OK;
}

void dt__onnx_give_back(const dt__onnx_file *f)
{
    for (size_t i = 0; i < f->n_large; i++) {
        dt__pages_give_back(f->large[i].copy, f->large[i].bytes);
        f->large[i].away = true;
    }
}

const void *dt__onnx_bytes(const dt__onnx_file *f, const void *at)
{
    const uint8_t *byte = at;
    for (size_t i = 0; i < f->n_large; i++) {
        const dt__onnx_large *l = &f->large[i];
        if (!l->away || byte < l->copy || byte >= l->copy + l->bytes) continue;
        return l->at + (byte - l->copy);
    }
    return at;
}
