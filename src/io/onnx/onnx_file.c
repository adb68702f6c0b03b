/* Opens a file of ONNX: maps it, and unpacks it with protobuf-c into memory of the context. No
 * message of onnx.proto contains itself, so the depth is bounded; the memory is bounded by a
 * multiple of the file's size, since an empty message takes two bytes there and a hundred here. */
#include "core/block_list.h"
#include "core/system/open_file.h"
#include "core/system/system_calls.h"
#include "io/file_kind.h"
#include "io/onnx/onnx.h"
#include "core/system/atomic_file.h"

#include <fcntl.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST_OPSET 9
#define MOST_OPSET 28
#define MOST_NODES 65536 /* also the largest number of tensors */
#define MOST_INPUTS 8192
#define GROWTH 80
#define SLACK ((size_t)1 << 20)

/* Reports the previous field as read. */
static void tell_field(dt__onnx_file *f, size_t next)
{
    if (f->field > 0) dt__did_work(f->ctx, DT__READ, (double)f->field);
    f->field = next;
}

/* Blocks are freed together at the end, as protobuf-c leaks some if a field occurs twice. */
static void *allocate(void *user, size_t bytes)
{
    dt__onnx_file *f = user;
    tell_field(f, bytes);
    return dt__block_list_add(f->ctx, &f->blocks, bytes);
}

static void release(void *user, void *pointer)
{
    (void)user;
    (void)pointer;
}

static ProtobufCMessage *unpack_message(dt__onnx_file *f, const ProtobufCMessageDescriptor *type,
                                        const uint8_t *bytes, size_t n)
{
    dt_ctx *ctx = f->ctx;
    dt__pool_limit(ctx, n, GROWTH, SLACK);
    ctx->status = DT_OK;
    ProtobufCAllocator allocator = { allocate, release, f };
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, n, bytes);
    tell_field(f, 0);
    ctx->pool.limit = 0;
    return message;
}

dt_status dt__onnx_unpack_graph(dt__onnx_file *f, const ProtobufCBinaryData *g, DtOnnx__Graph **out)
{
    *out = NULL;
    if (g != NULL && g->len > 0) {
        *out = (DtOnnx__Graph *)unpack_message(f, &dt_onnx__graph__descriptor, g->data, g->len);
    }
    if (*out == NULL && f->ctx->status == DT_ERR_NOMEM && !f->ctx->pool.limited) {
        return DT_ERR_NOMEM;
    }
    if (*out != NULL && dt__onnx_has_nul(&dt_onnx__graph__descriptor, g->data, g->len)) {
        *out = NULL;
        return dt_fail(f->ctx, DT_ERR_FORMAT, "%s: a text in it has a NUL inside", f->path);
    }
    if (*out != NULL && (*out)->n_node > 0 && (*out)->n_node <= MOST_NODES) return DT_OK;
    *out = NULL;
    return dt_fail(f->ctx, DT_ERR_FORMAT,
                   "%s: the body of a node is not a graph, or has no nodes or more than %d",
                   f->path, MOST_NODES);
}

/* How to make a readable file of what the file seems to be. */
static const char *advice(const char *looks)
{
    if (strstr(looks, "PyTorch") != NULL) {
        return ". In Python: torch.onnx.export(model.eval(), x, 'model.onnx', dynamo=False, "
               "opset_version=17), with an input x";
    }
    if (strstr(looks, "safetensors") == NULL) return "";
    return ". detent import reads weights for the network of a recipe: --network RECIPE";
}

static dt_status unpack(dt__onnx_file *f, const uint8_t *bytes, size_t n)
{
    dt_ctx *ctx = f->ctx;
    f->model = (DtOnnx__Model *)unpack_message(f, &dt_onnx__model__descriptor, bytes, n);
    if (f->model != NULL && dt__onnx_has_nul(&dt_onnx__model__descriptor, bytes, n)) {
        return dt_fail(ctx, DT_ERR_FORMAT, "%s: a text in it has a NUL inside", f->path);
    }
    if (f->model != NULL) return DT_OK;
    if (ctx->status == DT_ERR_NOMEM && !ctx->pool.limited) return DT_ERR_NOMEM;
    const char *looks = dt__file_kind_of(bytes, n);
    if (looks == NULL) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "%s: not an ONNX file, or a damaged one: it is not a message of protobuf",
                       f->path);
    }
    return dt_fail(ctx, DT_ERR_FORMAT, "%s: not an ONNX file; it looks like %s%s", f->path, looks,
                   advice(looks));
}

static dt_status map_and_unpack(dt__onnx_file *f, int descriptor)
{
    struct stat about;
    if (fstat(descriptor, &about) != 0) return dt__file_fail(f->ctx, "read", f->path, errno);
    if (!S_ISREG(about.st_mode)) {
        return dt_fail(f->ctx, DT_ERR_IO, "%s: cannot read: not a regular file", f->path);
    }
    if (about.st_size == 0) {
        return dt_fail(f->ctx, DT_ERR_FORMAT, "%s: not an ONNX file: it is empty", f->path);
    }
    DT__TRY(dt__whole_size(f->ctx, f->path, about.st_size, &f->size));
    const size_t n = f->size;
    void *bytes = mmap(NULL, n, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED) return dt__file_fail(f->ctx, "map", f->path, errno);
    dt__plan_work(f->ctx, DT__READ, (double)n);
    f->map = bytes;
    DT__TRY(unpack(f, bytes, n));
    return dt__onnx_find_large(f);
}

static bool is_standard(const char *domain)
{
    return *domain == 0 || strcmp(domain, "ai.onnx") == 0;
}

static dt_status check(dt__onnx_file *f)
{
    const DtOnnx__Model *m = f->model;
    int imports = 0;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        if (!is_standard(m->opset_import[i]->domain)) continue;
        f->opset = m->opset_import[i]->version;
        imports++;
    }
    if (imports != 1) {
        return dt_fail(f->ctx, DT_ERR_FORMAT,
                       "%s: it must import one version of the operators of ONNX (opset_import), "
                       "not %d",
                       f->path, imports);
    }
    if (m->graph == NULL || m->graph->n_node == 0) {
        return dt_fail(f->ctx, DT_ERR_FORMAT, "%s: not an ONNX model: it has no graph, or no nodes",
                       f->path);
    }
    if (m->graph->n_node > MOST_NODES || m->graph->n_initializer > MOST_NODES ||
        m->graph->n_input > MOST_INPUTS) {
        return dt_fail(f->ctx, DT_ERR_UNSUPPORTED,
                       "%s: %zu nodes, %zu tensors and %zu inputs; %d, %d and %d are the most",
                       f->path, m->graph->n_node, m->graph->n_initializer, m->graph->n_input,
                       MOST_NODES, MOST_NODES, MOST_INPUTS);
    }
    if (m->graph->n_sparse_initializer > 0) {
        return dt_fail(f->ctx, DT_ERR_UNSUPPORTED, "%s: sparse initializers are not read", f->path);
    }
    if (f->opset >= LEAST_OPSET && f->opset <= MOST_OPSET) return DT_OK;
    return dt_fail(f->ctx, DT_ERR_UNSUPPORTED,
                   "%s: operators of version %lld (opset_import); %d...%d are read. Export it with "
                   "opset_version=17",
                   f->path, (long long)f->opset, LEAST_OPSET, MOST_OPSET);
}

dt_status dt__onnx_open(dt_ctx *ctx, const char *path, dt__onnx_file *out)
{
    *out = (dt__onnx_file){ .ctx = ctx };
    if (path == NULL) return dt_fail(ctx, DT_ERR_ARG, "ONNX: path is NULL");
    out->whole = path;
    out->maps = dt__block_list_add(ctx, &out->blocks, sizeof(dt__onnx_map *));
    if (out->maps == NULL) return DT_ERR_NOMEM;
    out->path = dt__path_tail(path);
    const int descriptor = dt__sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return dt__file_fail(ctx, "open", out->path, errno);
    const dt_status s = map_and_unpack(out, descriptor);
    dt__sys_close(descriptor);
    return s == DT_OK ? check(out) : s;
}

void dt__onnx_close(dt__onnx_file *file)
{
    dt__onnx_unmap(file);
    dt__block_list_free(file->ctx, &file->blocks);
    if (file->map != NULL) munmap(file->map, file->size);
    file->map = NULL;
    file->maps = NULL;
    file->model = NULL;
}

bool dt__onnx_is_initializer(const DtOnnx__Graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strcmp(graph->initializer[i]->name, name) == 0) return true;
    }
    return false;
}
