/* Loads a model and quantizes each weight as soon as it is read, so that only one weight at a time
 * is in memory as floats. The codes are those of dt_prepare and dt_convert with rounding to
 * nearest. */
#include "io/model/model_base.h"
#include "nn/families/family.h"
#include "nn/module.h"
#include "qat/convert.h"

/* Packs a weight that was just stored, and frees its floats. */
static dt_status pack_one(void *user, const char *path, dt_tensor *x)
{
    dt_module *m = user;
    const char *name;
    if (!dt_is_fake_quant(x)) return DT_OK;
    const dt_status s = dt__convert_layer(m, dt__holder(m, path, &name), NULL);
    dt__pool_trim(m->ctx);
    return s;
}

/* Whether the spec, with both patches applied, has a static or learned range, which would need
 * data. */
static bool has_range(dt_quant_spec spec, const dt_quant_patch *a, const dt_quant_patch *b)
{
    dt_quant_apply(&spec, a);
    if (b != NULL) dt_quant_apply(&spec, b);
    return spec.range != DT_RANGE_DYNAMIC;
}

static dt_status check_settings(dt_ctx *ctx, const dt_qat_options *qat)
{
    dt_quant_spec weight, activation;
    dt_qat_preset(qat->preset, &weight, &activation); /* dt_prepare refuses unknown presets */
    bool any =
        has_range(weight, &qat->weight, NULL) || has_range(activation, &qat->activation, NULL);
    for (int64_t i = 0; i < qat->n_rules && i < DT_MAX_RULES; i++) {
        const dt_qat_rule *r = &qat->rules[i];
        any |= has_range(weight, &qat->weight, &r->weight);
        any |= has_range(activation, &qat->activation, &r->activation);
    }
    if (!any) return DT_OK;
    return dt_fail(ctx, DT_ERR_CONFIG,
                   "pack: static and learned ranges follow from data; weights that are packed when "
                   "they are read, and their inputs, have dynamic ones");
}

static dt_status find_integers(const dt_file *file, bool *packed, bool *prepared)
{
    dt__model_meta meta;
    *packed = *prepared = false;
    DT__TRY(dt__model_meta_read(file, &meta));
    for (int64_t i = 0; i < meta.n_quants; i++) {
        if (!meta.quant[i].has_weight) continue;
        if (meta.quant[i].weight.state == DT__PACKED) *packed = true;
        else *prepared = true;
    }
    dt__model_meta_free(&meta);
    return DT_OK;
}

static dt_status pack(const dt_file *file, const dt_qat_options *qat, dt_module *m)
{
    DT__TRY(dt_prepare(m, qat));
    DT__TRY(dt__restore(&(dt__restoring){ .file = file, .m = m, .stored = pack_one, .user = m }));
    /* converts weights with folded norms */
    return dt_is_prepared(m) ? dt_convert(m, NULL, NULL) : DT_OK;
}

static dt_status fill(const dt_file *file, const dt_qat_options *qat, dt_module *m)
{
    bool packed, prepared;
    const dt_qat_options defaults = dt_qat_defaults();
    DT__TRY(find_integers(file, &packed, &prepared));
    if (prepared && !packed) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: a prepared model: convert it first (detent convert)", file->path);
    }
    if (packed && qat != NULL) {
        return dt_fail(file->ctx, DT_ERR_CONFIG,
                       "pack: the weights of %s are integers already, and keep their settings",
                       file->path);
    }
    if (packed) return dt__restore(&(dt__restoring){ .file = file, .m = m, .quantized = true });
    if (qat == NULL) qat = &defaults;
    DT__TRY(check_settings(file->ctx, qat));
    return pack(file, qat, m);
}

static dt_status load(const dt_file *file, const dt_qat_options *qat, const dt_model_info *as,
                      dt_module **out)
{
    DT__TRY(dt_file_check(file));
    if (dt__has_base(file)) {
        return dt_fail(file->ctx, DT_ERR_FORMAT,
                       "%s: it holds adapters, not the weights under them", file->path);
    }
    DT__TRY(dt__model_twin(file, as, out));
    const dt_status s = fill(file, qat, *out);
    if (s == DT_OK) return DT_OK;
    dt_module_free(*out);
    *out = NULL;
    return s;
}

dt_status dt__model_load_packed(dt_ctx *ctx, const char *path, const dt_qat_options *qat,
                                const dt_model_info *as, dt_module **out)
{
    dt_file *file;
    *out = NULL;
    DT__TRY(dt_file_open(ctx, path, &file));
    const dt_status s = load(file, qat, as, out);
    dt_file_close(file);
    return s;
}

static dt_status load_own(const dt_file *file, const dt_qat_options *qat, dt_module **out,
                          dt_model_info *info)
{
    dt_model_info own;
    DT__TRY(dt__model_info_read(file, &own));
    const dt_status s = load(file, qat, &own, out);
    if (s == DT_OK && info != NULL) *info = own;
    else dt_model_info_free(file->ctx, &own);
    return s;
}

dt_status dt_model_load_packed(dt_ctx *ctx, const char *path, const dt_qat_options *qat,
                               dt_module **out, dt_model_info *info)
{
    DT__NEED3(ctx, ctx, path, out);
    dt_file *file;
    *out = NULL;
    if (info != NULL) *info = (dt_model_info){ .family = NULL };
    DT__TRY(dt_file_open(ctx, path, &file));
    const dt_status s = load_own(file, qat, out, info);
    dt_file_close(file);
    return s;
}
