/* Lists the contents of a TFLite file, and all that import refuses in it, for dt_graph_inspect. */
#include "core/system/atomic_file.h"
#include "core/text/byte_order.h"
#include "data/file_map.h"
#include "io/graph_info.h"
#include "io/tflite/lite_import.h"
#include "io/tflite/lite_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct lite_file {
    dt_ctx *ctx;
    const char *path;
    dt__vflat f;
    dt__vtable model, graph;
    dt__vvector codes, buffers, tensors;
} lite_file;

/* A string of the file, truncated if it is long; "" if it is damaged, as import reads no
 * strings. */
static void text_of(lite_file *t, const dt__vtable *of, int field, char text[100])
{
    const bool good = t->f.fault == NULL;
    const dt__vvector v = dt__vflat_vector(&t->f, of, field, 1);
    const size_t n = t->f.fault != NULL ? 0 : v.count < 99 ? (size_t)v.count : 99;
    if (good) t->f.fault = NULL;
    if (n > 0) memcpy(text, t->f.bytes + v.at, n);
    text[n] = 0;
}

static dt_status take_value(dt__look *l, lite_file *t, bool output, int64_t i)
{
    char name[100], shape[300] = "[";
    size_t used = 1;
    const dt__vtable x = dt__vflat_element(&t->f, &t->tensors, i);
    const dt__vvector dims = dt__vflat_vector(&t->f, &x, 0, 4);
    const dt__vvector open = dt__vflat_vector(&t->f, &x, 7, 4);
    text_of(t, &x, 3, name);
    for (int64_t k = 0; t->f.fault == NULL && k < dims.count && used < 260; k++) {
        const bool any = k < open.count && dt__vflat_number(&t->f, &open, k, 4) == -1;
        used += (size_t)snprintf(shape + used, 30, any ? "%s?" : "%s%" PRId64, k == 0 ? "" : ",",
                                 dt__vflat_number(&t->f, &dims, k, 4));
    }
    snprintf(shape + used, sizeof shape - used, "]");
    return dt__look_value(l, output, name, dt__vlite_type_text(dt__vflat_int(&t->f, &x, 1, 1, 0)),
                          shape);
}

static dt_status take_ends(dt__look *l, lite_file *t, bool output)
{
    const dt__vvector ends = dt__vflat_vector(&t->f, &t->graph, output ? 2 : 1, 4);
    for (int64_t i = 0; t->f.fault == NULL && i < ends.count; i++) {
        const int64_t tensor = dt__vflat_number(&t->f, &ends, i, 4);
        if (tensor >= 0 && tensor < t->tensors.count) DT__TRY(take_value(l, t, output, tensor));
    }
    return DT_OK;
}

static dt_status take_operator(dt__look *l, lite_file *t, const dt__vtable *of)
{
    char name[160], custom[100] = "";
    const dt__vtable kind = dt__vflat_element(&t->f, &t->codes, dt__vflat_int(&t->f, of, 0, 4, 0));
    int64_t code = dt__vflat_int(&t->f, &kind, 3, 4, 0); /* old files have only the byte field */
    if (code == 0) code = dt__vflat_int(&t->f, &kind, 0, 1, 0);
    if (t->f.fault != NULL) return DT_OK;
    const dt__vlite_operator *known = dt__vlite_operator_of(code);
    if (code == DT__VLITE_CUSTOM) text_of(t, &kind, 1, custom);
    if (code == DT__VLITE_CUSTOM) snprintf(name, sizeof name, "CUSTOM %s", custom);
    else if (known != NULL) snprintf(name, sizeof name, "%s", known->name);
    else snprintf(name, sizeof name, "operator %" PRId64 " of the schema", code);
    return dt__look_operator(l, name, dt__lite_form_of((int)code) != NULL);
}

/* Counts elements of constants of real numbers and codes, not of indices and shapes. */
static void count_parameters(dt__look *l, lite_file *t)
{
    for (int64_t i = 0; t->f.fault == NULL && i < t->tensors.count; i++) {
        const dt__vtable x = dt__vflat_element(&t->f, &t->tensors, i);
        const int64_t type = dt__vflat_int(&t->f, &x, 1, 1, 0);
        const dt__vtable b =
            dt__vflat_element(&t->f, &t->buffers, dt__vflat_int(&t->f, &x, 2, 4, 0));
        const dt__vvector dims = dt__vflat_vector(&t->f, &x, 0, 4);
        int64_t extent[DT_MAX_RANK], count;
        if (t->f.fault != NULL || b.at == 0 || !dt__vflat_has(&t->f, &b, 0)) continue;
        if ((type != DT__VLITE_F32 && type != DT__VLITE_F16 && type != DT__VLITE_I8 &&
             type != DT__VLITE_I4) ||
            dims.count > DT_MAX_RANK) {
            continue;
        }
        for (int64_t k = 0; k < dims.count; k++) extent[k] = dt__vflat_number(&t->f, &dims, k, 4);
        if (dt__product((int)dims.count, extent, &count) &&
            count <= INT64_MAX - l->info->parameters) {
            l->info->parameters += count;
        }
    }
}

static dt_status take_file(dt__look *l, lite_file *t)
{
    char text[100];
    t->model = dt__vflat_root(&t->f, "TFL3");
    const dt__vvector graphs = dt__vflat_vector(&t->f, &t->model, 2, 4);
    t->codes = dt__vflat_vector(&t->f, &t->model, 1, 4);
    t->buffers = dt__vflat_vector(&t->f, &t->model, 4, 4);
    t->graph = dt__vflat_element(&t->f, &graphs, 0);
    t->tensors = dt__vflat_vector(&t->f, &t->graph, 0, 4);
    text_of(t, &t->model, 3, text);
    l->info->format = "TFLite";
    l->info->version = dt__vflat_int(&t->f, &t->model, 0, 4, 0);
    l->info->producer = dt__look_copy(l, text);
    if (l->info->producer == NULL) return DT_ERR_NOMEM;
    DT__TRY(take_ends(l, t, false));
    DT__TRY(take_ends(l, t, true));
    const dt__vvector ops = dt__vflat_vector(&t->f, &t->graph, 3, 4);
    for (int64_t i = 0; t->f.fault == NULL && i < ops.count; i++) {
        const dt__vtable o = dt__vflat_element(&t->f, &ops, i);
        DT__TRY(take_operator(l, t, &o));
    }
    count_parameters(l, t);
    if (t->f.fault == NULL) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_FORMAT, "%s: damaged, or not a TFLite model: %s, at byte %zu",
                   t->path, t->f.fault, t->f.at);
}

/* Collects the lines of an error that lists operators, without indentation. */
static dt_status take_lines(dt__look *l, char *text)
{
    for (char *at = text, *end; *at != 0; at = end) {
        at += strspn(at, "\n ");
        end = at + strcspn(at, "\n");
        if (*end != 0) *end++ = 0;
        if (*at != 0) DT__TRY(dt__look_refusal(l, at));
    }
    return DT_OK;
}

static dt_status look_into(void *user, dt__vlite *v, dt__onnx_file *f)
{
    dt__look *l = user;
    dt__refusals refusals;
    const dt_status s = dt__lite_translate(v, f, &refusals);
    if (s == DT_ERR_NOMEM) return s;
    if (s != DT_OK) return refusals.n > 0 ? take_lines(l, refusals.text) : DT_OK;
    return dt__onnx_look_faults(l, f) == DT_ERR_NOMEM ? DT_ERR_NOMEM : DT_OK;
}

/* Finds all operators that import refuses; if that is unknown, the import's error. */
static dt_status find_refusals(dt__look *l, const char *path)
{
    dt_module *m = NULL;
    char text[DT__MESSAGE_SIZE];
    dt_status s = dt_tflite_import(l->ctx, path, &m, NULL);
    dt_module_free(m);
    if (s == DT_OK || s == DT_ERR_NOMEM || s == DT_ERR_IO) return s;
    snprintf(text, sizeof text, "%s", dt_error(l->ctx));
    s = dt__lite_open_with(l->ctx, path, look_into, l);
    if (s == DT_ERR_NOMEM || s == DT_ERR_IO) return s;
    return l->info->n_refusals > 0 ? DT_OK : dt__look_refusal(l, text);
}

dt_status dt__lite_look(dt__look *l, const char *path)
{
    void *map = NULL;
    size_t n = 0;
    DT__TRY(dt__map_file(l->ctx, path, &map, &n));
    lite_file t = { .ctx = l->ctx, .path = dt__path_tail(path), .f = { .bytes = map, .n = n } };
    dt_status s = DT_OK;
    if (map == NULL) s = dt_fail(l->ctx, DT_ERR_FORMAT, "%s: the file is empty", t.path);
    if (s == DT_OK) s = take_file(l, &t);
    if (map != NULL) munmap(map, n);
    return s == DT_OK ? find_refusals(l, path) : s;
}
