/* Metadata of a model file about quantization, tied parameters and adapters:
 *
 *     detent.quant = { module: { "simulated": false,
 *                                "weight": { "scheme": {...}, "state": "packed", "shape": [3, 5] },
 *                                "input": { "scheme": {...}, "enabled": true,
 *                                           "range": { "settings": {...}, "state": "fixed" } } },
 *                                           ... }
 *     detent.device = { "plan": { "inputs": [3, 1, 28, 28], "enabled": true, "state": "fixed" },
 *                       "ranges": { "conv.output": { "simulated": false, "input": {...} }, ... } }
 *     detent.tied  = { path: first path, ... }
 *     detent.lora = { "train_rest": false, "layers": { module: { "rank": 8, "alpha": 16 }, ... }
 *     } */
#include "core/block_list.h"
#include "io/model/model.h"
#include "qat/schemes/scheme.h"

#include <stdio.h>
#include <string.h>

#define MOST_ENTRIES 16384 /* each entry is compared with all before it */

/* ---- tables --------------------------------------------------------------------------------- */

static const char *const state_names[] = { "disabled", "enabled", "packed", NULL };

#define AT(field) .offset = offsetof(dt__module_quant, field)
#define IN(side, field)                                                                            \
    .offset = offsetof(dt__module_quant, side.field) - offsetof(dt__module_quant, side)

static const char *const norm_names[] = { "folded", "frozen", "removed", NULL };
static const char *const range_of_names[] = { "folded", "own", NULL };
static const char *const range_state_names[] = { "observing", "frozen", "fixed", NULL };

/* From `scheme` on, weight and input have the same fields. */
#define OF_RANGE(side)                                                                             \
    (offsetof(dt__module_quant, side.range_state) - offsetof(dt__module_quant, side.scheme))
_Static_assert(OF_RANGE(weight) == OF_RANGE(input), "a range is described alike on both sides");

static const dt_key range_keys[] = {
    { "settings", DT_KEY_MAP, .keys = dt__range_keys },
    { "state", DT_KEY_CHOICE, .offset = OF_RANGE(input), .choices = range_state_names },
    { 0 },
};

#define RANGE(side)                                                                                \
    {                                                                                              \
        "range", DT_KEY_MAP, IN(side, scheme),                                                     \
            .keys = range_keys,                                                                    \
            .given = offsetof(dt__module_quant, side.has_range) - offsetof(dt__module_quant, side) \
    }

static const dt_key weight_keys[] = {
    { "scheme", DT_KEY_MAP, IN(weight, scheme), .keys = dt__quant_keys },
    { "state", DT_KEY_CHOICE, IN(weight, state), .choices = state_names },
    { "shape", DT_KEY_INTS, IN(weight, shape), .most = DT_NO_LIMIT, .fewest = 2 },
    { "transposed_groups", DT_KEY_INT, IN(weight, transposed_groups), .least = 1,
      .most = DT_NO_LIMIT,
      .given =
          offsetof(dt__module_quant, weight.is_transposed) - offsetof(dt__module_quant, weight) },
    { "experts", DT_KEY_INT, IN(weight, experts), .least = 1, .most = DT_NO_LIMIT, .was = "members",
      .given = offsetof(dt__module_quant, weight.is_grouped) - offsetof(dt__module_quant, weight) },
    { "g_idx", DT_KEY_INT, IN(weight, g_idx), .least = 1, .most = DT_NO_LIMIT,
      .given = offsetof(dt__module_quant, weight.has_g_idx) - offsetof(dt__module_quant, weight) },
    { "norm", DT_KEY_CHOICE, IN(weight, norm), .choices = norm_names,
      .given = offsetof(dt__module_quant, weight.has_norm) - offsetof(dt__module_quant, weight) },
    { "range_of", DT_KEY_CHOICE, IN(weight, range_of), .choices = range_of_names,
      .given =
          offsetof(dt__module_quant, weight.has_range_of) - offsetof(dt__module_quant, weight) },
    RANGE(weight),
    { 0 },
};

static const dt_key input_keys[] = {
    { "scheme", DT_KEY_MAP, IN(input, scheme), .keys = dt__quant_keys },
    { "enabled", DT_KEY_BOOL, IN(input, enabled) },
    RANGE(input),
    { 0 },
};

static const dt_key module_keys[] = {
    { "simulated", DT_KEY_BOOL, AT(simulated) },
    { "weight", DT_KEY_MAP, AT(weight), .keys = weight_keys,
      .given = offsetof(dt__module_quant, has_weight) },
    { "input", DT_KEY_MAP, AT(input), .keys = input_keys,
      .given = offsetof(dt__module_quant, has_input) },
    { 0 },
};

const dt_key dt__device_meta_keys[] = {
    { "inputs", DT_KEY_INTS, .offset = offsetof(dt__device_meta, inputs), .most = DT_NO_LIMIT,
      .fewest = 1 },
    { "enabled", DT_KEY_BOOL, .offset = offsetof(dt__device_meta, enabled) },
    { "state", DT_KEY_CHOICE, .offset = offsetof(dt__device_meta, range_state),
      .choices = range_state_names },
    { 0 },
};

const dt_key dt__module_lora_keys[] = {
    { "rank", DT_KEY_INT, .offset = offsetof(dt__lora, rank), .least = 1, .most = DT_NO_LIMIT },
    { "alpha", DT_KEY_REAL, .offset = offsetof(dt__lora, alpha), .most = DT_NO_LIMIT },
    { 0 },
};

void dt__put_module_quant(dt__chars *t, const dt__module_quant *quant)
{
    dt__module_quant q = *quant;
    if (q.weight.scheme.granularity != DT_PER_GROUP) q.weight.scheme.group_size = 0;
    if (q.input.scheme.granularity != DT_PER_GROUP) q.input.scheme.group_size = 0;
    q.weight.has_range = q.weight.scheme.range != DT_RANGE_DYNAMIC;
    q.input.has_range = q.input.scheme.range != DT_RANGE_DYNAMIC;
    dt__put_options(t, module_keys, &q);
}

/* ---- small questions ------------------------------------------------------------------------- */

dt_status dt__meta_scan(const dt_file *file, const char *key, dt__json *j, char **strings,
                        bool *has)
{
    const char *text = dt_file_meta(file, key);
    *has = text != NULL;
    *strings = NULL;
    if (text == NULL) return DT_OK;
    const size_t n = strlen(text);
    *strings = dt__alloc(file->ctx, n + 1);
    if (*strings == NULL) return DT_ERR_NOMEM;
    const unsigned char *begin = (const unsigned char *)text;
    *j = (dt__json){ .ctx = file->ctx,
                     .path = file->path,
                     .what = key,
                     .begin = begin,
                     .at = begin,
                     .end = begin + n,
                     .strings = *strings };
    return DT_OK;
}

dt_status dt__file_part(const dt_file *file, const char *prefix, const char *suffix,
                        const dt_file_entry **out)
{
    *out = NULL;
    char *name = dt__format_string(file->ctx, "%s%s", prefix, suffix);
    if (name == NULL) return DT_ERR_NOMEM;
    *out = dt_file_find(file, name);
    dt__release(file->ctx, name);
    return DT_OK;
}

char *dt__weight_name(dt_ctx *ctx, const char *module)
{
    return dt__format_string(ctx, "%s%sweight", module, *module == 0 ? "" : ".");
}

const char *dt__first_name(const dt__model_meta *meta, const char *name)
{
    for (int64_t i = 0; i < meta->n_ties; i++) {
        if (strcmp(meta->tie[i].path, name) == 0) return meta->tie[i].first;
    }
    return name;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reports a scheme's error as an error in the file. */
static dt_status blame(const dt__json *j, const char *path, dt_status s)
{
    if (s != DT_ERR_CONFIG) return s;
    char text[DT__MESSAGE_SIZE / 2], shown[DT__SHOWN];
    snprintf(text, sizeof text, "%s", dt_error(j->ctx));
    return dt__json_fail(j, "module '%s': %s", dt__shown(path, shown), text);
}

static dt_status check_side(const dt__json *j, const char *path, const dt_quant_spec *scheme)
{
    return blame(j, path, dt__quant_check(j->ctx, scheme, DT__QUANT_MODEL | DT__QUANT_FILE));
}

static dt_status check_range(const dt__json *j, const dt__module_quant *q)
{
    char shown[DT__SHOWN];
    const bool weight = q->weight.scheme.range != DT_RANGE_DYNAMIC;
    const bool input = q->input.scheme.range != DT_RANGE_DYNAMIC;
    if (weight == q->weight.has_range && input == q->input.has_range) return DT_OK;
    return dt__json_fail(j, "module '%s': a range that is dynamic has no settings",
                         dt__shown(q->path, shown));
}

static dt_status check_experts(const dt__json *j, const dt__module_quant *q)
{
    char shown[DT__SHOWN];
    const dt_ints *shape = &q->weight.shape;
    const int64_t experts = q->weight.experts;
    const bool fits = shape->n >= 3 && shape->v[0] == experts && !q->weight.is_transposed;
    if (!q->weight.is_grouped || fits) return DT_OK;
    return dt__json_fail(
        j, "module '%s': experts %lld; it must be the first extent of a weight of rank 3 or more",
        dt__shown(q->path, shown), (long long)experts);
}

/* For a weight whose row map was checked. */
static dt_status check_order(const dt__json *j, const dt__module_quant *q, const dt__row_map *map)
{
    char shown[DT__SHOWN];
    if (!q->weight.has_g_idx) return DT_OK;
    const int64_t *shape = q->weight.shape.v, groups = q->weight.g_idx;
    const int64_t rows = dt__is_mapped(map) ? dt__mapped_rows(map) : shape[0];
    if (q->weight.state != DT__PACKED || q->weight.scheme.granularity != DT_PER_GROUP) {
        return dt__json_fail(j, "module '%s': g_idx is of packed weights of granularity group",
                             dt__shown(q->path, shown));
    }
    const bool fits = q->weight.is_transposed ? q->weight.transposed_groups == groups
                                              : !q->weight.is_grouped || shape[0] == groups;
    if (rows % groups == 0 && fits) return DT_OK;
    return dt__json_fail(j, "module '%s': g_idx %lld; it must be the number of groups of its op",
                         dt__shown(q->path, shown), (long long)groups);
}

static dt_status check_quant(const dt__json *j, const dt__module_quant *q)
{
    char shown[DT__SHOWN];
    DT__TRY(check_range(j, q));
    if (!q->has_weight && !q->has_input) {
        return dt__json_fail(j, "module '%s' has neither weight nor input",
                             dt__shown(q->path, shown));
    }
    if (q->has_input) DT__TRY(check_side(j, q->path, &q->input.scheme));
    if (!q->has_weight) return DT_OK;
    DT__TRY(check_side(j, q->path, &q->weight.scheme));
    const bool removed = q->weight.norm == DT__NORM_REMOVED;
    if (q->weight.has_norm && removed != (q->weight.state == DT__PACKED)) {
        return dt__json_fail(j, "module '%s': its norm is %s, its weight %s",
                             dt__shown(q->path, shown), norm_names[q->weight.norm],
                             state_names[q->weight.state]);
    }
    if (q->weight.has_range_of && (!q->weight.has_norm || removed || !q->weight.has_range)) {
        return dt__json_fail(j, "module '%s': range_of is of a range behind a norm that is folded",
                             dt__shown(q->path, shown));
    }
    int64_t count;
    const dt_ints *shape = &q->weight.shape;
    if (shape->n > DT_MAX_RANK || !dt__product(shape->n, shape->v, &count)) {
        return dt__json_fail(j, "module '%s': a shape of %d extents, or too large",
                             dt__shown(q->path, shown), shape->n);
    }
    dt__row_map map;
    if (!dt__row_map_of(q->weight.transposed_groups, shape->n, shape->v, &map)) {
        return dt__json_fail(j, "module '%s': transposed_groups %lld do not divide its weight",
                             dt__shown(q->path, shown), (long long)q->weight.transposed_groups);
    }
    DT__TRY(check_experts(j, q));
    return check_order(j, q, &map);
}

dt__row_map dt__described_map(const dt__module_quant *q)
{
    dt__row_map map;
    if (q->weight.is_grouped) return dt__row_map_of_experts(q->weight.experts);
    dt__row_map_of(q->weight.transposed_groups, q->weight.shape.n, q->weight.shape.v, &map);
    return map;
}

/* Reads the next path and the colon. `first`: the path of the first of n entries, which are `size`
 * bytes apart; a repeated path is an error. */
static dt_status read_path(dt__json *j, const char *what, const void *first, int64_t n, size_t size,
                           const char **path)
{
    char shown[DT__SHOWN];
    DT__TRY(dt__json_string(j, path));
    for (int64_t i = 0; i < n; i++) {
        const char *const *other = (const void *)((const char *)first + (size_t)i * size);
        if (strcmp(*other, *path) != 0) continue;
        return dt__json_fail(j, "%s'%s' occurs twice", what, dt__shown(*path, shown));
    }
    return dt__json_expect(j, ':');
}

static dt_status read_quant(dt__json *j, dt__model_meta *meta)
{
    DT__TRY(DT__RESERVE(meta->ctx, meta->quant, meta->n_quants, meta->room_quants));
    dt__module_quant *q = &meta->quant[meta->n_quants];
    *q = (dt__module_quant){ .input.scheme.activation = true };
    DT__TRY(read_path(j, "module ", meta->quant, meta->n_quants, sizeof *q, &q->path));
    DT__TRY(dt__json_options(j, module_keys, q));
    meta->n_quants++;
    dt__find_scheme(meta->ctx, &q->weight.scheme);
    dt__find_scheme(meta->ctx, &q->input.scheme);
    return check_quant(j, q);
}

static dt_status read_tie(dt__json *j, dt__model_meta *meta)
{
    DT__TRY(DT__RESERVE(meta->ctx, meta->tie, meta->n_ties, meta->room_ties));
    dt__tie *t = &meta->tie[meta->n_ties];
    DT__TRY(read_path(j, "", meta->tie, meta->n_ties, sizeof *t, &t->path));
    DT__TRY(dt__json_string(j, &t->first));
    meta->n_ties++;
    return DT_OK;
}

static dt_status read_lora(dt__json *j, dt__model_meta *meta)
{
    DT__TRY(DT__RESERVE(meta->ctx, meta->lora, meta->n_loras, meta->room_loras));
    dt__module_lora *l = &meta->lora[meta->n_loras];
    DT__TRY(read_path(j, "module ", meta->lora, meta->n_loras, sizeof *l, &l->path));
    DT__TRY(dt__json_options(j, dt__module_lora_keys, &l->lora));
    meta->n_loras++;
    return DT_OK;
}

static dt_status read_object(dt__json *j, dt__model_meta *meta,
                             dt_status (*read)(dt__json *j, dt__model_meta *meta))
{
    int n = 0;
    for (bool more = dt__json_open(j, '{'); more; more = dt__json_more(j, '}'), n++) {
        if (n == MOST_ENTRIES) return dt__json_fail(j, "more than %d entries", MOST_ENTRIES);
        DT__TRY(read(j, meta));
    }
    return j->status;
}

/* The name of a value, and the colon after it. */
static dt_status expect_name(dt__json *j, const char *name)
{
    const char *text;
    DT__TRY(dt__json_string(j, &text));
    if (strcmp(text, name) != 0) return dt__json_fail(j, "it must be '%s'", name);
    return dt__json_expect(j, ':');
}

static dt_status read_loras(dt__json *j, dt__model_meta *meta)
{
    DT__TRY(dt__json_expect(j, '{'));
    DT__TRY(expect_name(j, "train_rest"));
    DT__TRY(dt__json_bool(j, &meta->trains_rest));
    DT__TRY(dt__json_expect(j, ','));
    DT__TRY(expect_name(j, "layers"));
    DT__TRY(read_object(j, meta, read_lora));
    return dt__json_expect(j, '}');
}

static dt_status read_device_range(dt__json *j, dt__model_meta *meta)
{
    DT__TRY(DT__RESERVE(meta->ctx, meta->range, meta->n_ranges, meta->room_ranges));
    dt__module_quant *q = &meta->range[meta->n_ranges];
    *q = (dt__module_quant){ .input.scheme.activation = true };
    char shown[DT__SHOWN];
    DT__TRY(read_path(j, "range ", meta->range, meta->n_ranges, sizeof *q, &q->path));
    DT__TRY(dt__json_options(j, module_keys, q));
    meta->n_ranges++;
    dt__find_scheme(meta->ctx, &q->input.scheme);
    if (!q->has_input || !q->input.has_range || q->has_weight) {
        return dt__json_fail(j, "range '%s' must have settings of a range, and nothing else",
                             dt__shown(q->path, shown));
    }
    return check_quant(j, q);
}

static dt_status read_device(dt__json *j, dt__model_meta *meta)
{
    DT__TRY(dt__json_expect(j, '{'));
    DT__TRY(expect_name(j, "plan"));
    DT__TRY(dt__json_options(j, dt__device_meta_keys, &meta->device));
    DT__TRY(dt__json_expect(j, ','));
    DT__TRY(expect_name(j, "ranges"));
    DT__TRY(read_object(j, meta, read_device_range));
    meta->device.given = true;
    return dt__json_expect(j, '}');
}

static dt_status read_all(const dt_file *file, dt__model_meta *meta)
{
    dt__json j;
    bool has;
    DT__TRY(dt__meta_scan(file, DT__KEY_QUANT, &j, &meta->quant_strings, &has));
    if (has) DT__TRY(read_object(&j, meta, read_quant));
    if (has) DT__TRY(dt__json_end(&j));
    DT__TRY(dt__meta_scan(file, DT__KEY_DEVICE, &j, &meta->device_strings, &has));
    if (has) DT__TRY(read_device(&j, meta));
    if (has) DT__TRY(dt__json_end(&j));
    DT__TRY(dt__meta_scan(file, DT__KEY_TIED, &j, &meta->tie_strings, &has));
    if (has) DT__TRY(read_object(&j, meta, read_tie));
    if (has) DT__TRY(dt__json_end(&j));
    DT__TRY(dt__meta_scan(file, DT__KEY_LORA, &j, &meta->lora_strings, &has));
    if (has) DT__TRY(read_loras(&j, meta));
    return has ? dt__json_end(&j) : DT_OK;
}

dt_status dt__model_meta_read(const dt_file *file, dt__model_meta *out)
{
    *out = (dt__model_meta){ .ctx = file->ctx };
    const dt_status s = read_all(file, out);
    if (s != DT_OK) dt__model_meta_free(out);
    return s;
}

void dt__model_meta_free(dt__model_meta *meta)
{
    DT__RELEASE(meta->ctx, meta->quant, meta->tie, meta->lora, meta->range, meta->device_strings,
                meta->quant_strings, meta->tie_strings, meta->lora_strings);
    *meta = (dt__model_meta){ .ctx = meta->ctx };
}

static dt_status add_group(const dt__module_quant *q, dt__groups *to)
{
    const char *path =
        dt__block_list_text(to->ctx, &to->arena, "%s%sweight", q->path, *q->path == 0 ? "" : ".");
    if (path == NULL) return DT_ERR_NOMEM;
    return dt__groups_add(
        to, &(dt__group){ .path = path, .path_n = (int)strlen(path), .n = q->weight.experts });
}

dt_status dt__groups_of_meta(const dt__model_meta *meta, dt__groups *out)
{
    *out = (dt__groups){ .ctx = meta->ctx };
    dt_status s = DT_OK;
    for (int64_t i = 0; i < meta->n_quants && s == DT_OK; i++) {
        const dt__module_quant *q = &meta->quant[i];
        if (q->has_weight && q->weight.is_grouped) s = add_group(q, out);
    }
    if (s != DT_OK) dt__groups_free(out);
    else dt__groups_sort(out);
    return s;
}
