/* Saves a model: collects its tensors and the metadata of its modules, and writes one file.
 *
 * The metadata are parsed before the file is written, so that every written file can be loaded. */
#include "autograd/spread.h"
#include "core/block_list.h"
#include "core/text/ending.h"
#include "io/plugin.h"
#include "io/hf/hf.h"
#include "io/model/model_base.h"
#include "nn/module.h"
#include "qat/folded_range.h"
#include "qat/derived_quant.h"
#include "qat/adapters.h"

#include <stdio.h>
#include <string.h>

void *dt__saving_keep(dt__saving *s, size_t bytes)
{
    return dt__block_list_add(s->ctx, &s->arena, bytes);
}

void dt__saving_end(dt__saving *s)
{
    dt_writer_free(s->writer);
    dt__block_list_free(s->ctx, &s->arena);
    dt__groups_free(&s->groups);
    *s = (dt__saving){ .ctx = s->ctx };
}

/* ---- tensors -------------------------------------------------------------------------------- */

dt_status dt__saving_add_bytes(dt__saving *s, const dt_file_entry *e)
{
    return dt__experts_add(s->writer, &s->groups, e);
}

/* A grouped tensor some of whose experts are on other ranks. */
typedef struct remote_tensor {
    dt__byte_source source;
    const dt_tensor *x;
} remote_tensor;

static dt_status fetch(void *user, size_t at, void *to, size_t bytes)
{
    const remote_tensor *r = user;
    const dt__spread *spread = r->x->ctx->spread;
    const size_t size = dt_dtype_size(r->x->dtype);
    const int64_t part[2] = { (int64_t)(at / size), (int64_t)((at + bytes) / size) };
    return spread->fetch(spread->user, r->x, part, to);
}

static dt_status add_remote(dt__saving *s, const char *name, const dt_tensor *x)
{
    int64_t dims[DT_MAX_RANK];
    remote_tensor *r = dt__saving_keep(s, sizeof *r);
    if (r == NULL) return DT_ERR_NOMEM;
    *r = (remote_tensor){ { fetch, r }, x };
    memcpy(dims, x->dims, sizeof dims);
    dims[0] = dt__whole_extent(x);
    dt__writer_from(s->writer, &r->source);
    const dt_status status =
        dt__saving_add_bytes(s, &(dt_file_entry){ .name = name,
                                                  .dtype = dt__file_dtype_name(x->dtype),
                                                  .rank = x->rank,
                                                  .dims = dims,
                                                  .data = &r->source });
    dt__writer_from(s->writer, NULL);
    return status;
}

dt_status dt__saving_add(dt__saving *s, const char *name, const dt_tensor *x)
{
    if (dt__is_spread(x)) return add_remote(s, name, x);
    if (s->groups.n == 0) return dt_writer_add(s->writer, name, x);
    return dt__saving_add_bytes(s, &(dt_file_entry){ .name = name,
                                                     .dtype = dt__file_dtype_name(x->dtype),
                                                     .rank = x->rank,
                                                     .dims = x->dims,
                                                     .data = dt_data(x) });
}

static dt_status add_tensor(void *user, const char *path, dt_tensor *x, dt_entry_kind kind)
{
    dt__saving *s = user;
    if (strncmp(path, DT__OWN_PREFIX, strlen(DT__OWN_PREFIX)) == 0) {
        return dt_fail(s->ctx, DT_ERR_ARG,
                       "save: the name '%s' begins with '" DT__OWN_PREFIX
                       "', which is kept for what is not a model's",
                       path);
    }
    if (dt_param_path(s->m, x) != path) return DT_OK; /* tied: saved under its first path */
    if (s->has_base && dt__is_of_base(s->m, path, x, kind)) return DT_OK;
    if (x->kind == NULL) return dt__saving_add(s, path, x);
    if (strcmp(path, "weight") != 0 && !dt__has_end(path, ".weight")) {
        return dt_fail(s->ctx, DT_ERR_STATE, "save: '%s' is a %s tensor; only weights can be", path,
                       x->kind->name);
    }
    if (dt_is_packed(x)) return dt__packed_add(s, path, x);
    return dt__saving_add(s, path, dt_inner(x));
}

/* ---- detent.quant --------------------------------------------------------------------------- */

typedef struct describing {
    dt__saving *s;
    dt__chars text;
    bool first;
} describing;

static void describe_shape(const dt_tensor *w, const dt__row_map *map, dt__module_quant *q)
{
    q->weight.transposed_groups = map->groups;
    q->weight.is_transposed = map->groups > 0;
    q->weight.experts = dt__is_spread(w) ? w->spread : map->experts;
    q->weight.is_grouped = map->experts > 0;
    q->weight.shape.n = w->rank;
    for (int i = 0; i < w->rank; i++) q->weight.shape.v[i] = w->dims[i];
    if (w->rank > 0) q->weight.shape.v[0] = dt__whole_extent(w);
}

static void describe_weight(const dt_tensor *w, dt__module_quant *q)
{
    const dt_quant_spec *quant = dt__quant_of(w);
    if (quant == NULL) return;
    const bool packed = dt_is_packed(w);
    q->has_weight = true;
    q->simulated = dt__is_simulated(w);
    q->weight.scheme = *quant;
    q->weight.state = packed                              ? DT__PACKED
                      : ((const dt__fq *)w->ext)->enabled ? DT__ENABLED
                                                          : DT__DISABLED;
    q->weight.range_state = packed ? DT__FIXED : DT__OBSERVING;
    describe_shape(w, dt__row_map_of_weight(w), q);
    if (!packed) return;
    q->weight.g_idx = dt__codes_op_groups(((const dt__packed *)w->ext)->codes);
    q->weight.has_g_idx = q->weight.g_idx > 0;
}

/* Describes a dense weight that is quantized after a norm is folded into it, or after its adapter
 * is added. */
static void describe_derived(const dt_module *m, const dt_tensor *w, dt__module_quant *q)
{
    const dt__fq *fq = dt__derived_quant(m);
    if (fq == NULL) {
        q->weight.has_norm =
            q->has_weight && dt_is_packed(w) && m->norm != NULL && dt__is_removed_norm(m->norm);
        q->weight.norm = DT__NORM_REMOVED;
        return;
    }
    q->has_weight = true;
    q->weight.has_norm = m->folding != DT__APART;
    q->simulated = fq->simulated;
    q->weight.scheme = fq->quant;
    q->weight.state = fq->enabled ? DT__ENABLED : DT__DISABLED;
    q->weight.range_state = DT__OBSERVING;
    q->weight.norm = m->folding == DT__FOLDED_FROZEN ? DT__NORM_FROZEN : DT__NORM_FOLDED;
    q->weight.has_range_of = dt__range_is_own(m, fq);
    q->weight.range_of = DT__OF_OWN;
    describe_shape(w, &fq->map, q);
}

static void describe_input(const dt__input_hook *hook, dt__module_quant *q)
{
    const bool fixed = hook->range != NULL && hook->range->count == NULL;
    q->has_input = true;
    q->simulated = hook->simulated;
    q->input.scheme = hook->quant;
    q->input.enabled = hook->enabled;
    q->input.range_state = fixed ? DT__FIXED : hook->frozen ? DT__FROZEN : DT__OBSERVING;
}

/* Writes the next key of a JSON object. */
static void put_path(describing *d, const char *path)
{
    dt__put_comma(&d->text, &d->first);
    DT__PUT_ALL(&d->text, DT__QUOTED(path), ":");
}

static void describe_module(describing *d, const char *path, dt_module *m)
{
    dt__module_quant q = { .path = path };
    const dt__entry *weight = dt__entry_find(m, "weight");
    const dt__input_hook *hook = dt__input_hook_of(m);
    if (weight != NULL) describe_weight(weight->x, &q);
    if (weight != NULL) describe_derived(m, weight->x, &q);
    if (hook != NULL) describe_input(hook, &q);
    if (!q.has_weight && !q.has_input) return;
    put_path(d, path);
    dt__put_module_quant(&d->text, &q);
}

/* Adds the JSON object as metadata, unless it is empty. */
static dt_status add_object(describing *d, const char *key)
{
    dt__put_text(&d->text, "}");
    const char *text = dt__chars_text(&d->text);
    if (text == NULL) return DT_ERR_NOMEM;
    return d->first ? DT_OK : dt_writer_meta(d->s->writer, key, text);
}

static dt_status add_quant(dt__saving *s)
{
    describing d = { .s = s, .text.ctx = s->ctx, .first = true };
    dt__put_text(&d.text, "{");
    DT__EACH_MODULE(m, s->m) describe_module(&d, dt__path_within(s->m, m->path), m);
    const dt_status status = add_object(&d, DT__KEY_QUANT);
    dt__release(s->ctx, d.text.bytes);
    return status;
}

static void describe_range(describing *d, const dt__device *device, const dt_module *range)
{
    const dt__quantizer *of = dt__quantizer_of((dt_module *)(uintptr_t)range);
    dt__module_quant q = { .path = range->path, .has_input = true };
    q.input.scheme = of->quant;
    q.input.enabled = device->enabled;
    q.input.range_state = of->count == NULL ? DT__FIXED
                          : device->frozen  ? DT__FROZEN
                                            : DT__OBSERVING;
    put_path(d, range->path);
    dt__put_module_quant(&d->text, &q);
}

/* Only the inputs of an integer network's plan are written: loading records the plan again. */
static dt_status add_device(dt__saving *s)
{
    const dt__device *device = dt__device_of(s->m);
    describing d = { .s = s, .text.ctx = s->ctx, .first = true };
    if (device == NULL) return DT_OK;
    dt__device_meta meta = { .enabled = device->enabled,
                             .range_state = dt_is_converted(s->m) ? DT__FIXED
                                            : device->frozen      ? DT__FROZEN
                                                                  : DT__OBSERVING };
    for (int i = 0; i < device->n_in; i++) {
        const dt__plan_node *input = &device->node[i];
        if (meta.inputs.n + input->rank > DT_MAX_LIST) {
            return dt_fail(s->ctx, DT_ERR_UNSUPPORTED, "save: the model has too many inputs");
        }
        meta.inputs.v[meta.inputs.n++] = input->rank - 1;
        for (int k = 1; k < input->rank; k++) meta.inputs.v[meta.inputs.n++] = input->dims[k];
    }
    dt__put_text(&d.text, "{\"plan\":");
    dt__put_options(&d.text, dt__device_meta_keys, &meta);
    dt__put_text(&d.text, ",\"ranges\":{");
    for (int64_t i = 0; i < device->n; i++) {
        if (device->node[i].range != NULL) describe_range(&d, device, device->node[i].range);
    }
    dt__put_text(&d.text, "}");
    d.first = false;
    const dt_status status = add_object(&d, DT__KEY_DEVICE);
    dt__release(s->ctx, d.text.bytes);
    return status;
}

static dt_status add_ties(dt__saving *s)
{
    describing d = { .s = s, .text.ctx = s->ctx, .first = true };
    dt__put_text(&d.text, "{");
    DT__EACH_ENTRY(m, e, s->m) {
        if (dt__entry_is_first(s->m, e)) continue;
        put_path(&d, dt__path_within(s->m, e->path));
        dt__put_quoted(&d.text, dt_param_path(s->m, e->x));
    }
    const dt_status status = add_object(&d, DT__KEY_TIED);
    dt__release(s->ctx, d.text.bytes);
    return status;
}

/* ---- detent.lora ----------------------------------------------------------------------------- */

static dt_status add_loras(dt__saving *s)
{
    describing d = { .s = s, .text.ctx = s->ctx, .first = true };
    dt__put_text(&d.text, "{\"train_rest\":");
    dt__put_text(&d.text, dt__lora_trains_rest(s->m) ? "true" : "false");
    dt__put_text(&d.text, ",\"layers\":{");
    DT__EACH_MODULE(m, s->m) {
        if (!dt__has_lora(m)) continue;
        put_path(&d, dt__path_within(s->m, m->path));
        dt__put_options(&d.text, dt__module_lora_keys, &m->lora);
    }
    dt__put_text(&d.text, "}");
    const dt_status status = add_object(&d, DT__KEY_LORA);
    dt__release(s->ctx, d.text.bytes);
    return status;
}

/* ---- detent.model --------------------------------------------------------------------------- */

static dt_status check_options(dt__saving *s, const dt_model_info *info, const char *text, size_t n)
{
    void *blocks = NULL;
    char *memory = dt__block_list_add(s->ctx, &blocks, info->family->options_size + n + 1);
    if (memory == NULL) return DT_ERR_NOMEM;
    const unsigned char *begin = (const unsigned char *)text;
    dt__json j = { .ctx = s->ctx,
                   .path = "save",
                   .what = DT__KEY_MODEL,
                   .begin = begin,
                   .at = begin,
                   .end = begin + n,
                   .strings = memory + info->family->options_size,
                   .blocks = &blocks };
    const dt_status status = dt__json_options(&j, info->family->keys, memory);
    dt__block_list_free(s->ctx, &blocks);
    if (status != DT_ERR_FORMAT) return status;
    char rule[DT__MESSAGE_SIZE];
    snprintf(rule, sizeof rule, "%s", dt_error(s->ctx));
    return dt_fail(s->ctx, DT_ERR_ARG, "%s", rule);
}

static dt_status add_model(dt__saving *s, const dt_model_info *info)
{
    dt__chars t = { .ctx = s->ctx };
    dt__put_text(&t, "{");
    DT__PUT_ALL(&t, DT__QUOTED(info->family->name), ":");
    const size_t at = t.used;
    dt__put_options(&t, info->family->keys, info->options);
    const size_t n = t.used - at;
    dt__put_text(&t, "}");
    const char *text = dt__chars_text(&t);
    dt_status status = text == NULL ? DT_ERR_NOMEM : check_options(s, info, text + at, n);
    if (status == DT_OK) status = dt_writer_meta(s->writer, DT__KEY_MODEL, text);
    dt__release(s->ctx, t.bytes);
    return status;
}

static dt_status add_text(dt__saving *s, const char *key, const char *text)
{
    return text == NULL ? DT_OK : dt_writer_meta(s->writer, key, text);
}

/* ---- the whole ------------------------------------------------------------------------------ */

dt_status dt__saving_begin(dt__saving *s, dt_module *m, const dt_model_info *info)
{
    *s = (dt__saving){
        .ctx = m->ctx, .m = m, .groups.ctx = m->ctx, .has_base = info != NULL && info->base != NULL
    };
    DT__TRY(dt_writer_create(s->ctx, &s->writer));
    if (info != NULL && info->grouped == DT_GROUPED_EXPERTS) DT__TRY(dt__groups_of(m, &s->groups));
    DT__TRY(dt_module_visit(m, add_tensor, s));
    if (!s->has_base) {
        DT__TRY(add_quant(s));
        DT__TRY(add_device(s));
        DT__TRY(add_ties(s));
    }
    DT__TRY(add_loras(s));
    if (info == NULL || info->family == NULL) return DT_OK;
    DT__TRY(add_text(s, DT__KEY_TOKENIZER, info->tokenizer));
    DT__TRY(add_text(s, DT__KEY_TOKENS, info->tokens));
    DT__TRY(add_text(s, DT__KEY_DATA, info->data));
    DT__TRY(add_text(s, DT__KEY_HF, info->hf));
    DT__TRY(add_text(s, DT__KEY_BASE, info->base));
    DT__TRY(dt__plugins_put(s->writer, m->ctx));
    return add_model(s, info);
}

dt_status dt__model_save_with(dt_module *m, const dt_model_info *info, const dt__meta *meta,
                              const char *path)
{
    dt__saving s;
    dt_status status = dt__saving_begin(&s, m, info);
    for (; meta->key != NULL && status == DT_OK; meta++) {
        status = dt_writer_meta(s.writer, meta->key, meta->value);
    }
    if (status == DT_OK) status = dt_writer_write(s.writer, path);
    dt__saving_end(&s);
    return status;
}

dt_status dt_model_save(dt_module *m, const dt_model_info *info, const char *path)
{
    DT__NEED(dt_module_ctx(m), m);
    return dt__model_save_with(m, info, &(const dt__meta){ .key = NULL }, path);
}
