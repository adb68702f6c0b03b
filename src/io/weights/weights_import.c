/* dt_weights_import: opens and renames, matches, copies, reports what was done. */
#include "core/block_list.h"
#include "io/weights/weights.h"
#include "nn/families/family.h"
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

#define NAMED 20 /* tensors named in one line */

/* Reports the tensors of the file that rules leave out. */
static void say_skipped(dt__weight_match *w)
{
    char text[DT__MESSAGE_SIZE / 2] = "", shown[DT__SHOWN];
    int64_t n = 0;
    for (int64_t i = 0; i < w->file->count; i++) {
        const int64_t by = w->names->by[i];
        if (by < 0 || !w->map->rule[by].skip) continue;
        const size_t used = strlen(text);
        if (n++ < NAMED) {
            snprintf(text + used, sizeof text - used, "%s%s", used == 0 ? "" : ", ",
                     dt__shown(w->file->entry[i].name, shown));
        }
    }
    if (n == 0) return;
    dt__weight_say(w, "%lld left out by a rule: %s%s", (long long)n, text,
                   n > NAMED ? ", ..." : "");
}

static void say_dtypes(dt__weight_match *w)
{
    static const struct {
        const char *name, *how;
    } dtypes[] = { { "F16", "exactly" }, { "BF16", "exactly" }, { "F64", "rounded to f32" } };
    int64_t n[3] = { 0 }, counters = 0;
    for (int64_t i = 0; i < w->names->view.count; i++) {
        const dt_file_entry *e = &w->names->view.entry[i];
        counters += dt__is_batch_count(e);
        for (int k = 0; k < 3 && dt__weight_counts(e); k++) {
            n[k] += strcmp(e->dtype, dtypes[k].name) == 0;
        }
    }
    for (int k = 0; k < 3; k++) {
        if (n[k] == 0) continue;
        dt__weight_say(w, "%lld %s are read %s", (long long)n[k], dtypes[k].name, dtypes[k].how);
    }
    if (counters == 0) return;
    dt__weight_say(w, "num_batches_tracked is left out, %lld time%s; no result depends on it",
                   (long long)counters, counters == 1 ? "" : "s");
}

static dt_status match_and_copy(dt__weight_match *w, dt_module *m)
{
    DT__TRY(dt__weight_match_all(w, m));
    const dt__restoring restoring = { .file = &w->names->view, .m = m };
    DT__TRY(dt__restore(&restoring));
    say_skipped(w);
    say_dtypes(w);
    return w->said;
}

/* Imports with the rules converted to name rules, in memory of the context. */
static dt_status import(dt__weight_match *w, dt_module *m, void **arena)
{
    dt_ctx *ctx = w->file->ctx;
    dt__renamed names;
    dt_name_rule *rule = dt__block_list_add(ctx, arena, (size_t)w->map->n * sizeof *rule + 1);
    if (rule == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < w->map->n; i++) {
        DT__TRY(dt__weight_rule_names(ctx, arena, &w->map->rule[i], &rule[i]));
    }
    dt_status s = dt__renamed_open(w->file, rule, w->map->n, &names);
    w->names = &names;
    if (s == DT_OK) s = match_and_copy(w, m);
    dt__renamed_close(&names);
    dt__release(ctx, w->target);
    return s;
}

/* Refuses files whose integers or names need more than a map of names. */
static dt_status check_file(const dt_file *file)
{
    DT__TRY(dt_file_check(file));
    if (dt_file_meta(file, DT__KEY_QUANT) != NULL) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: its weights are quantized (" DT__KEY_QUANT "); expected floats",
                       file->path);
    }
    if (file->n_parts == 0 && file->naming == NULL && dt_file_meta(file, DT__KEY_HF) == NULL) {
        return DT_OK;
    }
    return dt_fail(file->ctx, DT_ERR_UNSUPPORTED,
                   "%s: a language model's folder or GGUF file needs no map: 'model.init' of a "
                   "recipe and the other commands read it as it is",
                   file->path);
}

dt_status dt_model_blank(dt_ctx *ctx, const dt_model_info *info, dt_module **out)
{
    DT__NEED3(ctx, ctx, info, out);
    if (info->family != NULL) return dt__family_twin(ctx, info->family, info->options, out);
    return dt_fail(ctx, DT_ERR_ARG, "dt_model_blank: the family of the model must be given");
}

dt_status dt_weights_import(dt_module *m, const char *path, const dt_weight_map *map, dt_sink say,
                            void *user)
{
    static const dt_weight_map none = { .layout = DT_LAYOUT_PYTORCH };
    DT__NEED3(m->ctx, m, path, say);
    if (map == NULL) map = &none;
    if (map->n < 0 || map->n > DT_MAX_WEIGHT_RULES || (map->n > 0 && map->rule == NULL) ||
        map->layout < DT_LAYOUT_PYTORCH || map->layout > DT_LAYOUT_KERAS) {
        return dt_fail(m->ctx, DT_ERR_ARG,
                       "dt_weights_import: %lld rules, layout %d; expected 0 "
                       "to %d rules, layout 0 or 1",
                       (long long)map->n, map->layout, DT_MAX_WEIGHT_RULES);
    }
    dt_file *file;
    void *arena = NULL;
    DT__TRY(dt_file_open(m->ctx, path, &file));
    dt__weight_match w = { .file = file, .map = map, .say = say, .user = user };
    dt_status s = check_file(file);
    dt__plan_work(m->ctx, DT__READ, (double)file->size);
    dt__pass_work(m->ctx);
    if (s == DT_OK) s = import(&w, m, &arena);
    dt__did_work(m->ctx, DT__READ, (double)file->size);
    dt__block_list_free(m->ctx, &arena);
    dt_file_close(file);
    return s;
}
