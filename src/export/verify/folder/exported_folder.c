/* A folder of format c as a module: calls NAME_run for each example; for an integer-only model with
 * NAME_quantize before and NAME_dequantize after it. Metadata about the training data are in
 * NAME.json. */
#include "export/verify/folder/exported_folder.h"

#include "core/system/atomic_file.h"
#include "core/tensor.h"
#include "data/file_map.h"
#include "export/verify/exported.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

typedef int run_floats(const float *x, float *y, void *arena);
typedef int run_codes(const int8_t *x, int8_t *y, void *arena);
typedef void quantize(const float *x, int8_t *codes);
typedef void dequantize(const int8_t *codes, float *y);

typedef struct loaded {
    dt__folder_about about;
    void *library;
    run_floats *run;
    run_codes *run_codes;
    quantize *quantize;
    dequantize *dequantize;
    void *arena;
    float *x, *y; /* one example, in the order of the codes */
    int8_t *codes, *answer;
    char *data;
} loaded;

/* Sets *to, a function pointer, to the function NAME_word. */
static dt_status find(const dt__exported *e, const char *word, void *to)
{
    const loaded *f = e->file;
    char name[DT__FOLDER_NAME + 16];
    snprintf(name, sizeof name, "%s_%s", f->about.name, word);
    void *at = dlsym(f->library, name);
    memcpy(to, &at, sizeof at);
    if (at != NULL) return DT_OK;
    return dt_fail(e->ctx, DT_ERR_FORMAT, "%s: %s.c has no function %s", e->path, f->about.name,
                   name);
}

static dt_status find_functions(const dt__exported *e)
{
    loaded *f = e->file;
    if (!f->about.codes) return find(e, "run", &f->run);
    DT__TRY(find(e, "run", &f->run_codes));
    DT__TRY(find(e, "quantize", &f->quantize));
    return find(e, "dequantize", &f->dequantize);
}

/* Exports without metadata have no such file. */
static dt_status read_data(dt__exported *e, const char *folder)
{
    loaded *f = e->file;
    char path[PATH_MAX];
    struct stat about;
    void *map;
    size_t bytes;
    if (snprintf(path, sizeof path, "%s/%s.json", folder, f->about.name) >= PATH_MAX ||
        (stat(path, &about) != 0 && errno == ENOENT)) {
        return DT_OK;
    }
    DT__TRY(dt__map_file(e->ctx, path, &map, &bytes));
    f->data = dt__alloc_zero(e->ctx, (uint64_t)bytes + 1);
    if (f->data != NULL && map != NULL) memcpy(f->data, map, bytes);
    if (map != NULL) munmap(map, bytes);
    e->data = f->data;
    return f->data == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status make_room(const dt__exported *e)
{
    loaded *f = e->file;
    f->arena = dt__alloc_array(e->ctx, f->about.arena / 8 + 1, 8);
    f->x = dt__alloc_array(e->ctx, f->about.in.count, sizeof *f->x);
    f->y = dt__alloc_array(e->ctx, f->about.out.count, sizeof *f->y);
    f->codes = dt__alloc_array(e->ctx, f->about.in.count, 1);
    f->answer = dt__alloc_array(e->ctx, f->about.out.count, 1);
    const bool all =
        f->arena != NULL && f->x != NULL && f->y != NULL && f->codes != NULL && f->answer != NULL;
    return all ? DT_OK : DT_ERR_NOMEM;
}

static dt_status open_folder(dt__exported *e, const char *path)
{
    loaded *f = dt__alloc_zero(e->ctx, sizeof *f);
    if (f == NULL) return DT_ERR_NOMEM;
    e->file = f;
    DT__TRY(dt__folder_read(e->ctx, path, e->path, &f->about));
    DT__TRY(read_data(e, path));
    DT__TRY(make_room(e));
    DT__TRY(dt__folder_compile(e->ctx, path, &f->about, &f->library));
    return find_functions(e);
}

/* Number of channels if they are last; else 1. */
static int64_t channels_of(const dt__folder_end *end)
{
    return end->last ? end->dims[end->rank - 1] : 1;
}

static dt_status check_extents(const dt__exported *e, const dt_tensor *x)
{
    const loaded *f = e->file;
    const dt__folder_end *in = &f->about.in;
    if (in->last) {
        return dt__exported_last(x, in->rank, in->dims)
                   ? DT_OK
                   : dt__exported_misfit(e, x, in->rank, in->dims);
    }
    bool same = x->rank == in->rank + 1;
    for (int d = 0; d < in->rank && same; d++) same = x->dims[d + 1] == in->dims[d];
    same = same || dt__exported_flat(x, in->rank, in->dims);
    return same ? DT_OK : dt__exported_misfit(e, x, in->rank, in->dims);
}

static int run_example(loaded *f, const float *x, float *y)
{
    if (!f->about.codes) return f->run(x, y, f->arena);
    const dt__folder_end *in = &f->about.in, *out = &f->about.out;
    const int64_t c = channels_of(in), k = channels_of(out);
    dt__exported_turn(x, 1, c, in->count / c, false, f->x);
    f->quantize(f->x, f->codes);
    const int status = f->run_codes(f->codes, f->answer, f->arena);
    f->dequantize(f->answer, f->y);
    dt__exported_turn(f->y, 1, k, out->count / k, true, y);
    return status;
}

static dt_status run(dt__exported *e, const dt_tensor *x, dt_tensor **y)
{
    loaded *f = e->file;
    const dt__folder_end *out = &f->about.out;
    DT__TRY(check_extents(e, x));
    DT__TRY(dt__exported_result(e, x->dims[0], out->rank, out->dims, out->last, y));
    const float *from = dt_data(x);
    float *to = dt_data_mut(*y);
    for (int64_t i = 0; i < x->dims[0]; i++) {
        const int status = run_example(f, from + i * f->about.in.count, to + i * out->count);
        if (status == 0) continue;
        return dt_fail(e->ctx, DT_ERR_NUMERIC, "%s: %s_run returned %d (see %s.h)", e->path,
                       f->about.name, status, f->about.name);
    }
    return DT_OK;
}

static void close_folder(dt__exported *e)
{
    loaded *f = e->file;
    if (f == NULL) return;
    if (f->library != NULL) dlclose(f->library);
    DT__RELEASE(e->ctx, f->arena, f->x, f->y, f->codes, f->answer, f->data, f);
}

const dt__exported_kind dt__exported_folder = { open_folder, run, close_folder };
