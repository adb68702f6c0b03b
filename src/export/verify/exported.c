/* Exported files as modules, so that functions that evaluate a module can evaluate a file. */
#include "export/verify/exported.h"

#include "autograd/tape.h"
#include "core/block_list.h"
#include "core/system/atomic_file.h"
#include "core/system/open_file.h"
#include "core/tensor.h"
#include "nn/module.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

dt_status dt__exported_misfit(const dt__exported *e, const dt_tensor *x, int rank,
                              const int64_t *dims)
{
    char own[160], given[160];
    dt__dims_text(rank, dims, own, sizeof own);
    dt__dims_text(x->rank - 1, x->dims + 1, given, sizeof given);
    return dt_fail(e->ctx, DT_ERR_SHAPE, "%s: it reads examples %s, the data have %s", e->path, own,
                   given);
}

void dt__exported_turn(const float *from, int64_t n, int64_t channels, int64_t pixels, bool back,
                       float *to)
{
    const int64_t each = channels * pixels;
    for (int64_t i = 0; i < n * each; i++) {
        const int64_t c = i % each / pixels, p = i % pixels;
        const int64_t at = i / each * each + p * channels + c;
        if (back) to[i] = from[at];
        else to[at] = from[i];
    }
}

bool dt__exported_last(const dt_tensor *x, int rank, const int64_t *dims)
{
    if (rank < 2 || x->rank != rank + 1 || dims[rank - 1] != x->dims[1]) return false;
    for (int d = 0; d + 1 < rank; d++) {
        if (dims[d] != x->dims[d + 2]) return false;
    }
    return true;
}

bool dt__exported_flat(const dt_tensor *x, int rank, const int64_t *dims)
{
    return rank == 1 && x->dims[0] > 0 && x->count / x->dims[0] == dims[0];
}

dt_status dt__exported_result(const dt__exported *e, int64_t n, int rank, const int64_t *dims,
                              bool last, dt_tensor **y)
{
    int64_t to[DT_MAX_RANK] = { n };
    if (rank + 1 > DT_MAX_RANK) {
        return dt_fail(e->ctx, DT_ERR_UNSUPPORTED, "%s: its result has more than %d dimensions",
                       e->path, DT_MAX_RANK - 1);
    }
    for (int d = 0; d < rank; d++) to[d + 1] = dims[!last ? d : d == 0 ? rank - 1 : d - 1];
    return dt_tensor_create(e->ctx, DT_F32, rank + 1, to, y);
}

typedef struct state {
    const dt__exported_kind *kind;
    dt__exported file;
    char path[256]; /* memory of file.path, the end of the path */
} state;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    state *s = m->state;
    if (n_in != 1 || n_out != 1 || in[0]->dtype != DT_F32 || in[0]->rank < 2) {
        dt_tape_fail(t, DT_ERR_UNSUPPORTED,
                     "%s: an exported file is run on examples of numbers, [N, ...], alone",
                     s->path);
        return;
    }
    dt_tensor *x = dt_contiguous(t, in[0]), *y = NULL;
    if (x == NULL) return;
    dt_status status = s->kind->run(&s->file, x, &y);
    if (status == DT_OK) status = dt__tape_lend(t, y);
    else dt_tensor_free(y);
    if (dt__tape_adopt(t, status) == DT_OK) out[0] = y;
}

static void free_state(dt_module *m)
{
    state *s = m->state;
    if (s->kind != NULL) s->kind->close(&s->file);
}

static const dt_module_type type = {
    .name = "exported file", .forward = forward, .free_state = free_state, .samples = true
};

static const dt__exported_kind *kind_of(const char *path)
{
    static const struct {
        const char *end;
        const dt__exported_kind *kind;
    } kinds[] = { { ".onnx", &dt__exported_onnx }, { ".tflite", &dt__exported_tflite } };
    if (dt__is_folder(path)) return &dt__exported_folder;
    const size_t n = strlen(path);
    for (int i = 0; i < DT__COUNT_OF(kinds); i++) {
        const size_t k = strlen(kinds[i].end);
        if (n > k && strcasecmp(path + n - k, kinds[i].end) == 0) return kinds[i].kind;
    }
    return NULL;
}

bool dt_export_is_file(const char *path)
{
    const dt__exported_kind *kind = path == NULL ? NULL : kind_of(path);
    return kind != NULL && (kind != &dt__exported_folder || dt__is_exported_folder(path));
}

static dt_status keep_data(dt_ctx *ctx, const char *text, dt_model_info *info)
{
    if (text == NULL || info == NULL) return DT_OK;
    const size_t n = strlen(text) + 1;
    char *copy = dt__block_list_add(ctx, &info->memory, n);
    if (copy == NULL) return DT_ERR_NOMEM;
    info->data = memcpy(copy, text, n);
    return DT_OK;
}

dt_status dt_export_open(dt_ctx *ctx, const char *path, dt_module **out, dt_model_info *info)
{
    DT__NEED2(ctx, path, out);
    dt_module *m;
    *out = NULL;
    if (info != NULL) *info = (dt_model_info){ .family = NULL };
    const dt__exported_kind *kind = kind_of(path);
    if (kind == NULL) {
        return dt_fail(ctx, DT_ERR_FORMAT,
                       "%s: not an exported file that can be run: .onnx, .tflite, or a folder of "
                       "format c",
                       dt__path_tail(path));
    }
    DT__TRY(dt_module_create(ctx, &type, sizeof(state), &m));
    state *s = m->state;
    snprintf(s->path, sizeof s->path, "%s", dt__path_tail(path));
    s->kind = kind;
    s->file = (dt__exported){ .ctx = ctx, .path = s->path };
    dt_status status = kind->open(&s->file, path);
    if (status == DT_OK) status = keep_data(ctx, s->file.data, info);
    if (status == DT_OK) {
        *out = m;
        return DT_OK;
    }
    dt_module_free(m);
    dt_model_info_free(ctx, info);
    return status;
}
