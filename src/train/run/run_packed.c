/* model.pack: packed weights below adapters. They are read from model.init, and packed while
 * reading. The run saves them as run.dir/base.safetensors, unless model.init already is a converted
 * model of detent. Its other files hold adapters, and the name and hash of that file. */
#define _DEFAULT_SOURCE /* realpath */
#include "io/model/model_base.h"
#include "core/system/open_file.h"
#include "train/run/run.h"

#include <stdlib.h>

#define BASE "base.safetensors"

/* Whether the run has a folder yet: trial models and dry runs have none. */
static bool has_folder(const dt__run *r) { return r->files.checkpoints[DT__MAIN] != NULL; }

static dt_status load(dt__run *r, const char *own, dt_module **out)
{
    const dt_model_options *m = &r->o->model;
    const dt_model_info as = { .family = m->family, .options = m->options };
    const bool kept = has_folder(r) && dt__exists(own);
    const char *key = m->packing.given ? "model.pack" : "model.init";
    return dt__recipe_blame(r->recipe, key, DT_ERR_CONFIG,
                            dt__model_load_packed(r->ctx, kept ? own : m->init,
                                                  !kept && m->packing.given ? &m->packing : NULL,
                                                  &as, out));
}

static dt_status save(dt__run *r, dt_module *m, const char *own)
{
    const dt_model_info info = { .family = r->o->model.family,
                                 .options = r->o->model.options,
                                 .tokenizer = r->files.tokenizer,
                                 .tokens = r->files.tokens,
                                 .hf = r->files.hf,
                                 .grouped = r->o->train.checkpoint.grouped };
    return dt__exists(own) ? DT_OK : dt_model_save(m, &info, own);
}

/* Stores the metadata text that names the base file. */
static dt_status name_base(dt__run *r, const char *path, const char *hash)
{
    dt__chars t = { .ctx = r->ctx };
    dt__put_text(&t, "{\"path\": ");
    DT__PUT_ALL(&t, DT__QUOTED(path), ", \"xxh3\": ", DT__QUOTED(hash));
    dt__put_text(&t, "}");
    r->files.base = (char *)(uintptr_t)dt__chars_text(&t);
    if (r->files.base != NULL) return DT_OK;
    dt__release(r->ctx, t.bytes);
    return DT_ERR_NOMEM;
}

static dt_status name_file(dt__run *r, const char *path, const char *as)
{
    dt_file *file;
    DT__TRY(dt_file_open(r->ctx, path, &file));
    const char *hash = dt_file_meta(file, DT__KEY_HASH);
    dt_status s = hash != NULL
                      ? name_base(r, as, hash)
                      : dt_fail(r->ctx, DT_ERR_FORMAT, "%s: it has no " DT__KEY_HASH, path);
    dt_file_close(file);
    return s;
}

/* Whether the file holds packed weights and can be named by its hash. */
static dt_status is_converted(dt__run *r, const char *path, bool *yes)
{
    dt_file *file;
    DT__TRY(dt_file_open(r->ctx, path, &file));
    *yes = file->part == NULL && dt_file_meta(file, DT__KEY_HASH) != NULL &&
           !r->o->model.packing.given && dt_file_meta(file, DT__KEY_QUANT) != NULL;
    dt_file_close(file);
    return DT_OK;
}

static dt_status keep_base(dt__run *r, dt_module *m, const char *own)
{
    bool converted = false;
    if (!has_folder(r) || r->files.base != NULL) return DT_OK;
    DT__TRY(is_converted(r, r->o->model.init, &converted));
    if (!converted) {
        DT__TRY(save(r, m, own));
        return name_file(r, own, BASE);
    }
    char *whole = realpath(r->o->model.init, NULL);
    if (whole == NULL) return dt_fail(r->ctx, DT_ERR_IO, "%s: no path", r->o->model.init);
    const dt_status s = name_file(r, r->o->model.init, whole);
    free(whole);
    return s;
}

dt_status dt__run_packed_model(dt__run *r, dt_module **out)
{
    char own[DT__RUN_PATH];
    DT__TRY(dt__run_path(r, BASE, own));
    if (r->ranks.cluster != NULL) {
        return dt_recipe_refuse(r->recipe, "model.pack", "'model.pack' runs on one rank");
    }
    DT__TRY(load(r, own, out));
    const dt_status s = keep_base(r, *out, own);
    if (s == DT_OK) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return s;
}
