/* Checks of `qat`, `convert` and `quantize`: keys of quantization specs, and of rounders, that
 * exclude each other. */
#include "io/safetensors/tensors_meta.h"
#include "ptq/matrix.h"
#include "qat/quantized.h"
#include "train/recipe/recipe.h"

#include <detent/experimental/export.h>

#include <string.h>

/* ---- quantization specs ------------------------------------------------------------------- */

/* A spec of weights or activations, composed of one map of the recipe and the maps it builds on. */
typedef struct operand {
    const char *path;    /* of its map: "qat.weight", "qat.rules.2.activation" */
    const char *head;    /* the map it starts from: "qat.weight" */
    const char *rules;   /* list of rules that may change it: "qat.rules", "quantize.tensors" */
    int64_t n_rules;     /* how many */
    unsigned use;        /* DT__QUANT_... */
    dt_quant_spec quant; /* from the preset and `head` */
} operand;

/* Whether another rule sets one of the keys: if both rules match, its value may be valid. */
static bool others_give(dt_recipe *r, const operand *o, const char *const keys[DT__FAULT_KEYS])
{
    const char *side = o->quant.activation ? "activation" : "weight";
    for (int64_t i = 0; i < o->n_rules && !r->out_of_memory; i++) {
        const char *path = dt__recipe_format(r, "%s.%lld.%s", o->rules, (long long)i, side);
        if (strcmp(path, o->path) == 0) continue;
        for (int k = 0; k < DT__FAULT_KEYS && keys[k] != NULL; k++) {
            if (dt__given(r, dt__recipe_join(r, path, keys[k])) != NULL) return true;
        }
    }
    return false;
}

/* Complains at the first faulty key in the operand's map. No error if some of the keys come from
 * elsewhere, so that other rules may change them. */
static void check_spec(dt_recipe *r, const operand *o)
{
    dt__quant_fault fault;
    dt__node *first = NULL;
    const char *name = NULL;
    bool all = true;
    dt_quant_spec quant = o->quant;
    dt__find_scheme(r->ctx, &quant);
    if (dt__quant_is_valid(&quant, o->use, &fault)) return;
    for (int i = 0; i < DT__FAULT_KEYS && fault.keys[i] != NULL; i++) {
        dt__node *node = dt__given(r, dt__recipe_join(r, o->path, fault.keys[i]));
        all = all && node != NULL;
        if (node == NULL || first != NULL) continue;
        first = node;
        name = fault.keys[i];
    }
    if (first == NULL || (!all && others_give(r, o, fault.keys))) return;
    dt__complain(r, first, "'%s.%s': %s", o->path, name, fault.text);
}

static void refuse_key(dt_recipe *r, const operand *o, const char *name, const char *words)
{
    dt__node *node = dt__given(r, dt__recipe_join(r, o->path, name));
    if (node != NULL) dt__complain(r, node, "'%s.%s': %s", o->path, name, words);
}

static void check_operand(dt_recipe *r, const operand *o)
{
    if (dt__has_bad(r, o->path) || dt__has_bad(r, o->head)) return;
    check_spec(r, o);
    if (o->quant.granularity != DT_PER_GROUP) {
        refuse_key(r, o, "group_size", "only granularity group has a group size");
    }
}

static void check_operands(dt_recipe *r, const char *path, const dt_quant_spec *weight,
                           const dt_quant_spec *activation)
{
    operand o = { .rules = "qat.rules", .n_rules = r->options.qat.n_rules, .use = DT__QUANT_MODEL };
    o.path = dt__recipe_join(r, path, "weight");
    o.head = "qat.weight";
    o.quant = *weight;
    check_operand(r, &o);
    o.path = dt__recipe_join(r, path, "activation");
    o.head = "qat.activation";
    o.quant = *activation;
    check_operand(r, &o);
}

static void check_rule(dt_recipe *r, const char *path, const char *words)
{
    dt__node *node = dt__given(r, path);
    if (node == NULL || node->kind != DT__MAP || node->count != 1) return;
    if (dt__given(r, dt__recipe_join(r, path, "match")) == NULL) return;
    dt__complain(r, node, "'%s' selects %s", path, words);
}

/* Finds an estimator's invalid strength now rather than when QAT begins. */
static void check_estimator(dt_recipe *r)
{
    static const char *const keys[] = { "qat.estimator_strength", "qat.estimator_end" };
    const dt_qat_schedule *q = &r->options.qat_schedule;
    const double strength[] = { q->strength, q->strength_end };
    const double most = dt__estimator_most(q->estimator);
    for (int i = 0; i < DT__COUNT_OF(keys); i++) {
        dt__node *node = dt__given(r, keys[i]);
        if (node == NULL || strength[i] <= most) continue;
        if (most > 0) {
            dt__complain(r, node, "'%s' is %g; of estimator %s it is at most %g", keys[i],
                         strength[i], dt__estimator_names[q->estimator], most);
        } else {
            dt__complain(r, node, "'%s' is of estimators ewgs and dsq; %s has no strength", keys[i],
                         dt__estimator_names[q->estimator]);
        }
    }
}

static void check_qat(dt_recipe *r)
{
    check_estimator(r);
    const dt_qat_options *q = &r->options.qat;
    if (dt__given(r, "qat") == NULL || dt__is_bad(r, "qat.preset")) return;
    dt_quant_spec weight, activation;
    dt_qat_preset(q->preset, &weight, &activation);
    dt_quant_apply(&weight, &q->weight);
    dt_quant_apply(&activation, &q->activation);
    check_operands(r, "qat", &weight, &activation);
    for (int64_t i = 0; i < q->n_rules && !r->out_of_memory; i++) {
        dt_quant_spec w = weight, a = activation;
        dt_quant_apply(&w, &q->rules[i].weight);
        dt_quant_apply(&a, &q->rules[i].activation);
        const char *path = dt__recipe_format(r, "qat.rules.%lld", (long long)i);
        check_operands(r, path, &w, &a);
        check_rule(r, path, "modules but says nothing of them: give it skip, weight or activation");
    }
}

/* ---- rounders ----------------------------------------------------------------------------- */

/* Keys that only some rounders read; a map precedes its keys. */
static const struct {
    const char *key;
    unsigned reads; /* DT__READS_... */
} limited[] = {
    { "rounding", DT__READS_DATA },
    { "rounding.damping", DT__READS_DAMPING },
    { "rounding.damping_mean", DT__READS_DAMPING },
    { "rounding.damping_absolute", DT__READS_DAMPING_ABSOLUTE },
    { "rounding.alpha", DT__READS_ALPHA },
    { "rounding.block", DT__READS_BLOCK },
    { "rounding.group_scales", DT__READS_GROUP_SCALES },
    { "accumulator", DT__READS_ACCUMULATOR },
};

/* A block that chooses rounders. */
typedef struct block {
    const char *path; /* "quantize", "convert" */
    const dt_rounding_options *o;
    unsigned reads; /* settings that at least one of its rounders reads */
} block;

static unsigned reads_of(int rounder) { return dt__method_reads(dt__method_of(rounder)); }

static block quantize_block(const dt_recipe *r)
{
    const dt_quantize_options *q = &r->options.quantize;
    block b = { "quantize", &q->rounding, reads_of(q->rounding.rounder) };
    for (int64_t i = 0; i < q->n_tensors; i++) {
        if (q->tensors[i].has_rounder) b.reads |= reads_of(q->tensors[i].rounder);
    }
    return b;
}

static block convert_block(const dt_recipe *r)
{
    const dt_rounding_options *o = &r->options.convert.rounding;
    return (block){ "convert", o, reads_of(o->rounder) };
}

bool dt__rounding_applies(const dt_recipe *r, const char *path)
{
    const block blocks[] = { quantize_block(r), convert_block(r) };
    for (int i = 0; i < DT__COUNT_OF(blocks); i++) {
        const size_t n = strlen(blocks[i].path);
        if (strncmp(path, blocks[i].path, n) != 0 || path[n] != '.') continue;
        for (int k = 0; k < DT__COUNT_OF(limited); k++) {
            if (strcmp(limited[k].key, path + n + 1) != 0) continue;
            return (limited[k].reads & blocks[i].reads) != 0;
        }
    }
    return true;
}

/* Logs a warning for settings that the chosen rounder does not read: a recipe may hold the settings
 * of several rounders, for `quantize.rounder=...` to choose from. */
static void remark_limited(dt_recipe *r, const block *b)
{
    const char *above = "";
    char text[DT__METHODS_TEXT];
    for (int i = 0; i < DT__COUNT_OF(limited); i++) {
        const char *path = dt__recipe_join(r, b->path, limited[i].key);
        const dt__node *node = dt__given(r, path);
        const size_t n = strlen(above);
        const bool said = n > 0 && strncmp(path, above, n) == 0 && path[n] == '.';
        if (node == NULL || said || (limited[i].reads & b->reads) != 0) continue;
        above = path;
        dt__remark(r, node,
                   "'%s' is not read: it belongs to %s, which '%s.rounder' does not choose", path,
                   dt__methods_that_read(limited[i].reads, text), b->path);
    }
}

/* Complains at `path`, or at the nearest key above it that is given. */
static void refuse(dt_recipe *r, const char *path, const char *words)
{
    if (!dt__is_bad(r, path)) dt_recipe_refuse(r, path, "'%s' %s", path, words);
}

static void check_accumulator(dt_recipe *r, const block *b)
{
    const dt_accumulator *a = &b->o->accumulator;
    const char *bits = dt__recipe_join(r, b->path, "accumulator.bits");
    const char *input = dt__recipe_join(r, b->path, "accumulator.input");
    if ((b->reads & DT__READS_ACCUMULATOR) == 0) return;
    if (a->bits < 2) refuse(r, bits, "must be from 2 to 32 for a rounder that bounds sums");
    if (a->input.n == 0 || (a->input.n == 2 && a->input.v[0] <= 0 && a->input.v[1] >= 0 &&
                            a->input.v[0] < a->input.v[1])) {
        return;
    }
    refuse(r, input, "must be the smallest input, at most 0, and the largest, at least 0");
}

/* A quantization spec for some of the weights, and their rounder. */
typedef struct part {
    const char *path; /* of its map: "quantize.weight", "qat.rules.2.weight" */
    dt_quant_spec quant;
    int rounder;
} part;

/* Complains at the part's granularity if it is given, else at a key of the block. */
static void refuse_granularity(dt_recipe *r, const part *p, const char *key, const char *words)
{
    const char *own = dt__recipe_join(r, p->path, "granularity");
    const bool is_own = dt__given(r, own) != NULL;
    if (is_own) refuse(r, own, dt__recipe_format(r, "must be group where '%s' is %s", key, words));
    else refuse(r, key, dt__recipe_format(r, "%s requires granularity group", words));
}

/* Finds errors that a rounder would report later, without a position in the recipe. */
static void check_part(dt_recipe *r, const block *b, const part *p)
{
    const dt_rounding *o = &b->o->rounding;
    const unsigned reads = reads_of(p->rounder);
    const bool grouped = p->quant.granularity == DT_PER_GROUP;
    const char *order = dt__recipe_join(r, b->path, "rounding.order");
    const char *scales = dt__recipe_join(r, b->path, "rounding.group_scales");
    const char *tile = dt__recipe_join(r, b->path, "accumulator.tile");
    if (dt__has_bad(r, p->path) || !(reads & DT__READS_DATA)) return;
    if (o->order == DT_ORDER_GROUP && !grouped) refuse_granularity(r, p, order, "group");
    if (o->group_scales == DT_SCALES_REFRESH && (reads & DT__READS_GROUP_SCALES) != 0) {
        if (!grouped) refuse_granularity(r, p, scales, "refresh");
        if (o->order == DT_ORDER_WEIGHT) {
            refuse(r, scales,
                   "refresh has no beginning of a group in order weight; orders none and "
                   "group have");
        }
    }
    if (!(reads & DT__READS_ACCUMULATOR) || !grouped ||
        b->o->accumulator.tile <= p->quant.group_size) {
        return;
    }
    refuse(r, tile,
           dt__recipe_format(r, "is %lld columns, but %lld share a scale ('%s')",
                             (long long)b->o->accumulator.tile, (long long)p->quant.group_size,
                             p->path));
}

static void check_block(dt_recipe *r, const block *b)
{
    if (dt__is_bad(r, dt__recipe_join(r, b->path, "rounder"))) return;
    remark_limited(r, b);
    check_accumulator(r, b);
}

/* Specs of a model are in `qat`. */
static void check_model_parts(dt_recipe *r, const block *b)
{
    const dt_qat_options *q = &r->options.qat;
    dt_quant_spec weight, activation;
    if (!q->given || dt__is_bad(r, "qat.preset")) return;
    dt_qat_preset(q->preset, &weight, &activation);
    dt_quant_apply(&weight, &q->weight);
    check_part(r, b, &(part){ "qat.weight", weight, b->o->rounder });
    for (int64_t i = 0; i < q->n_rules && !r->out_of_memory; i++) {
        const char *path = dt__recipe_format(r, "qat.rules.%lld.weight", (long long)i);
        part p = { path, weight, b->o->rounder };
        dt_quant_apply(&p.quant, &q->rules[i].weight);
        check_part(r, b, &p);
    }
}

/* ---- files of tensors --------------------------------------------------------------------- */

/* Checks the spec of a tensor, which cannot have a learned range. */
static void check_tensor_spec(dt_recipe *r, const char *path, const dt_quant_spec *quant)
{
    const operand o = { .path = path,
                        .head = "quantize.weight",
                        .rules = "quantize.tensors",
                        .n_rules = r->options.quantize.n_tensors,
                        .use = DT__QUANT_TENSOR,
                        .quant = *quant };
    check_operand(r, &o);
    if (quant->range == DT_RANGE_LEARNED) {
        refuse_key(r, &o, "range", "nothing is trained here: dynamic, or static");
    }
}

/* Checks a rule's keys of ops against the op that it names. */
static void check_op(dt_recipe *r, const char *path, const dt_tensor_rule *rule)
{
    const struct {
        const char *name;
        bool given;
        const int64_t *pair;
    } keys[] = {
        { "stride", rule->has_stride, rule->stride },
        { "padding", rule->has_padding, rule->padding },
        { "output_padding", rule->has_output_padding, rule->output_padding },
        { "dilation", rule->has_dilation, rule->dilation },
        { "groups", rule->has_groups, NULL },
    };
    const char *op = dt__weight_op_names[rule->op];
    for (int i = 0; rule->has_op && i < DT__COUNT_OF(keys); i++) {
        const char *key = dt__recipe_join(r, path, keys[i].name);
        dt__node *node = keys[i].given ? dt__given(r, key) : NULL;
        if (node == NULL) continue;
        if (!dt__is_convolution(&(dt_weight_op){ .kind = rule->op })) {
            dt__complain(r, node, "'%s' is of convolutions; op %s has none", key, op);
        } else if (i == 2 && !dt__is_transposed(&(dt_weight_op){ .kind = rule->op })) {
            dt__complain(r, node, "'%s' is of transposed convolutions; op %s has none", key, op);
        } else if (keys[i].pair != NULL && dt__weight_op_rank(rule->op) == 3 &&
                   keys[i].pair[0] != keys[i].pair[1]) {
            dt__complain(r, node, "'%s': op %s has one extent, so it requires one number", key, op);
        }
    }
}

static void check_tensors(dt_recipe *r, const block *b)
{
    const dt_quantize_options *q = &r->options.quantize;
    dt_quant_spec weight = dt_weight_quant_defaults();
    dt_quant_apply(&weight, &q->weight);
    check_tensor_spec(r, "quantize.weight", &weight);
    check_part(r, b, &(part){ "quantize.weight", weight, b->o->rounder });
    for (int64_t i = 0; i < q->n_tensors && !r->out_of_memory; i++) {
        const dt_tensor_rule *rule = &q->tensors[i];
        const char *path = dt__recipe_format(r, "quantize.tensors.%lld", (long long)i);
        part p = { dt__recipe_join(r, path, "weight"), weight,
                   rule->has_rounder ? rule->rounder : b->o->rounder };
        dt_quant_apply(&p.quant, &rule->weight);
        check_rule(r, path,
                   "tensors but says nothing of them: give it skip, op, rounder or weight");
        check_op(r, path, rule);
        check_tensor_spec(r, p.path, &p.quant);
        check_part(r, b, &p);
    }
}

static void check_quantize(dt_recipe *r)
{
    static const char *const of_files[] = { "quantize.weight", "quantize.tensors" };
    const bool is_model = r->options.qat.given || dt__node_at(r, "model", NULL) != NULL;
    const block b = quantize_block(r);
    if (dt__given(r, "quantize") == NULL) return;
    check_block(r, &b);
    if (!is_model) {
        check_tensors(r, &b);
        return;
    }
    for (int i = 0; i < DT__COUNT_OF(of_files); i++) {
        dt__node *node = dt__given(r, of_files[i]);
        if (node == NULL || node->count == 0) continue; /* printed recipes have empty maps */
        dt__complain(r, node,
                     "'%s' is of files without a model; a model's weights are quantized as "
                     "'qat' says",
                     of_files[i]);
    }
    check_model_parts(r, &b);
}

static void check_formats(dt_recipe *r)
{
    const dt_strings *formats = &r->options.convert.formats;
    for (int i = 0; i < formats->n; i++) {
        const dt_exporter *e;
        dt_export_options o;
        if (formats->v[i] == NULL || dt_export_format(formats->v[i], &e, &o)) continue;
        const char *path = dt__recipe_format(r, "convert.formats.%d", i);
        dt__node *node = dt__given(r, path);
        dt__complain(
            r, node != NULL ? node : dt__given(r, "convert.formats"),
            "'%s': there is no format %s; there are c, hf, onnx, onnx-nbits, onnx-qdq, tflite, "
            "gguf, gguf-f32, gguf-f16, gguf-q4_0, gguf-q8_0, compressed-tensors, torchao",
            path, dt__recipe_quote_text(r, formats->v[i], strlen(formats->v[i])));
    }
}

/* Programs that run such files keep keys and values as they please. */
static void check_cache(dt_recipe *r)
{
    const int cache = r->options.qat_schedule.cache;
    dt__node *node = dt__given(r, "convert.formats");
    if (!r->options.qat.given || cache == DT_CACHE_F32) return;
    if (node == NULL || r->options.convert.formats.n == 0) return;
    dt__complain(r, node,
                 "'convert.formats' and 'qat.cache: %s' exclude each other: other formats have no "
                 "such cache, so their figures would differ from the run's; `detent export` writes "
                 "them from the result%s",
                 dt_cache_names[cache],
                 node->origin == DT__FROM_TARGET
                     ? "; 'convert.formats: []' in place of those of 'qat.target'"
                     : "");
}

static void check_convert(dt_recipe *r)
{
    const block b = convert_block(r);
    dt__node *node = dt__given(r, "convert.rounder");
    if (dt__given(r, "convert") == NULL) return;
    check_formats(r);
    check_cache(r);
    check_block(r, &b);
    check_model_parts(r, &b);
    if (node == NULL || r->options.qat.given || b.o->rounder == DT_ROUND_NEAREST) return;
    dt__complain(r, node, "'convert.rounder' rounds what 'qat' quantizes, which is not there");
}

void dt__recipe_check_quant(dt_recipe *r)
{
    check_qat(r);
    check_convert(r);
    check_quantize(r);
}
