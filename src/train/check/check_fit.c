/* Checks that a model can read the examples of a dataset, and that its outputs fit the targets. */
#include "core/tensor.h"
#include "data/dataset.h"
#include "train/run/run.h"

#include <stdio.h>

typedef struct fit {
    dt_recipe *r;
    const dt_dataset *d;
    dt_example have, wanted;
} fit;

static bool is_tokens(const dt_dataset *d) { return dt_dataset_target(d) == DT_TARGET_TOKENS; }

/* The word for the examples of a dataset. */
static const char *kind_of(const dt_dataset *d)
{
    return is_tokens(d) ? "tokens" : dt_dataset_channels(d) > 0 ? "images" : "arrays";
}

static int64_t values_of(const dt_example *e)
{
    int64_t n = 1;
    for (int i = 0; i < e->rank; i++) n *= e->dims[i];
    return n;
}

static const char *shape_of(dt_recipe *r, const dt_example *e)
{
    char text[160];
    if (e->rank == 1) return dt__recipe_format(r, "%lld", (long long)e->dims[0]);
    return dt__recipe_format(r, "%s", dt__dims_text(e->rank, e->dims, text, sizeof text));
}

/* The path of the option to which the error belongs. */
static const char *path_of(const fit *f)
{
    const dt_example *e = &f->have;
    return e->item < 0 ? dt__recipe_format(f->r, "model.%s", e->key)
                       : dt__recipe_format(f->r, "model.%s.%d", e->key, e->item);
}

static bool same_shape(const dt_example *a, const dt_example *b, int from)
{
    bool same = a->rank == b->rank;
    for (int i = from; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

/* Whether the model reads such examples. A model of rank 1 reads the numbers of an example of any
 * shape. */
static bool takes(const dt_example *have, const dt_example *wanted)
{
    return same_shape(have, wanted, 0) ||
           (!have->exact && have->rank == 1 && have->dims[0] == values_of(wanted));
}

/* Advice for data [height, width, channels] with a model of [channels, height, width]. */
static const char *layout_for(const dt_example *have, const dt_example *data)
{
    bool turned = have->rank == data->rank && have->rank == 3;
    for (int i = 0; i < 3 && turned; i++) turned = have->dims[(i + 1) % 3] == data->dims[i];
    return turned ? "; 'data.layout' nhwc reads [height, width, channels]" : "";
}

static dt_status check_input(fit *f)
{
    if (takes(&f->have, &f->wanted)) return DT_OK;
    const dt_example flat = { .rank = 1, .dims = { values_of(&f->wanted) } };
    const char *path = path_of(f), *examples = shape_of(f->r, &f->wanted);
    return dt_recipe_refuse(f->r, path, "'%s' is %s, but the %s are %s; %s would fit%s", path,
                            shape_of(f->r, &f->have), kind_of(f->d), examples,
                            f->have.rank == 1 && !f->have.exact ? shape_of(f->r, &flat) : examples,
                            layout_for(&f->have, &f->wanted));
}

static const char *const target_names[] = {
    [DT_TARGET_CLASS] = "labels", [DT_TARGET_IMAGE] = "images",
    [DT_TARGET_MASK] = "masks",   [DT_TARGET_VALUES] = "numbers",
    [DT_TARGET_BITS] = "bits",    [DT_TARGET_ANOMALY] = "the examples themselves",
};

/* Whether outputs fit the targets, apart from the number of classes. */
static bool gives(const dt_dataset *d, const dt_example *have, const dt_example *wanted)
{
    if (dt_dataset_target(d) == DT_TARGET_ANOMALY) return values_of(have) == values_of(wanted);
    return same_shape(have, wanted, dt__task_of(d)->has_labels ? 1 : 0);
}

/* For labels the first extent is the number of classes, which may exceed the labels'. */
static dt_status check_output(fit *f)
{
    const bool has_labels = dt__task_of(f->d)->has_labels;
    const char *path = path_of(f), *what = target_names[dt_dataset_target(f->d)];
    const dt_example *have = &f->have, *wanted = &f->wanted;
    if (!gives(f->d, have, wanted)) {
        return dt_recipe_refuse(f->r, path,
                                "the model gives %s for an %s, but the targets are %s: it must "
                                "give %s",
                                shape_of(f->r, have),
                                dt_dataset_channels(f->d) > 0 ? "image" : "array", what,
                                shape_of(f->r, wanted));
    }
    if (!has_labels || have->dims[0] >= wanted->dims[0]) return DT_OK;
    const long long classes = wanted->dims[0];
    return dt_recipe_refuse(f->r, path,
                            "'%s' is %lld, but the %s have %lld classes, 0 to %lld; it must be at "
                            "least %lld, or use other %s",
                            path, (long long)have->dims[0], what, classes, classes - 1, classes,
                            what);
}

/* The shape of outputs that fit the targets. */
static dt_example target_of(const dt_dataset *d, const dt_example *example)
{
    dt_example e = *example;
    const dt_target target = dt_dataset_target(d);
    if (target == DT_TARGET_IMAGE || target == DT_TARGET_ANOMALY) return e;
    e.dims[0] = dt_dataset_outputs(d) * dt__max_i64(1, d->quantiles.n);
    if (target != DT_TARGET_MASK) e.rank = 1;
    return e;
}

static dt_example example_of(const dt_dataset *d)
{
    int64_t dims[DT_MAX_RANK - 1];
    dt_example e = { .rank = dt_dataset_input_shape(d, dims) };
    for (int i = 0; i < e.rank; i++) e.dims[i] = dims[i];
    return e;
}

static dt_status check_tokens(dt_recipe *r, const dt_dataset *d, const dt_example *model)
{
    const int64_t vocab = dt_dataset_classes(d), context = dt_dataset_context(d);
    if (vocab > model->dims[0]) {
        return dt_recipe_refuse(r, "model.vocab",
                                "'model.vocab' is %lld, but the data have %lld token%s; it must be "
                                "at least %lld, or use another 'data.tokenizer'",
                                (long long)model->dims[0], (long long)vocab, DT__S(vocab),
                                (long long)vocab);
    }
    if (context <= model->dims[1]) return DT_OK;
    return dt_recipe_refuse(r,
                            dt__given(r, "data.context") == NULL ? "model.context" : "data.context",
                            "examples have %lld tokens ('data.context'), but the model takes %lld "
                            "('model.context') at most",
                            (long long)context, (long long)model->dims[1]);
}

static bool takes_tokens(const dt_example *model, const dt_dataset *d)
{
    return model->rank == 0 && dt_dataset_classes(d) <= model->dims[0] &&
           dt_dataset_context(d) <= model->dims[1];
}

static dt_status refuse_tokens(dt_ctx *ctx, const char *path, const dt_example *model,
                               const dt_dataset *d)
{
    if (takes_tokens(model, d)) return DT_OK;
    return dt_fail(
        ctx, DT_ERR_FORMAT,
        "%s: the model takes %lld tokens of a vocabulary of %lld, but the data have %lld "
        "of %lld",
        path, (long long)model->dims[1], (long long)model->dims[0],
        (long long)dt_dataset_context(d), (long long)dt_dataset_classes(d));
}

dt_status dt__check_examples(dt_ctx *ctx, const char *path, const dt_model_info *info,
                             const dt_dataset *d)
{
    char have[DT__MESSAGE_SIZE], wanted[160];
    dt_example in, out;
    const dt_status joined = dt__check_joined(info->family, info->options, d);
    if (joined == DT_ERR_FORMAT) {
        snprintf(have, sizeof have, "%s", dt_error(ctx));
        return dt_fail(ctx, joined, "%s: %s", path, have);
    }
    DT__TRY(joined);
    if (info->family->shapes == NULL || d->joined != NULL) return DT_OK;
    DT__TRY(info->family->shapes(ctx, info->options, &in, &out));
    if ((in.rank == 0) != is_tokens(d)) {
        return dt_fail(ctx, DT_ERR_FORMAT, "%s: the model takes %s, but the data are %s", path,
                       in.rank == 0 ? "tokens" : "images or arrays", kind_of(d));
    }
    if (in.rank == 0) return refuse_tokens(ctx, path, &in, d);
    const dt_example example = example_of(d);
    if (takes(&in, &example)) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT, "%s: the model takes %s, but the %s of the data are %s%s",
                   path, dt__dims_text(in.rank, in.dims, have, sizeof have), kind_of(d),
                   dt__dims_text(example.rank, example.dims, wanted, sizeof wanted),
                   layout_for(&in, &example));
}

static dt_status refuse_output(dt_ctx *ctx, const char *path, const dt_example *out,
                               const dt_dataset *d)
{
    char have[160], text[160];
    const dt_example example = example_of(d), wanted = target_of(d, &example);
    const bool classes = dt__task_of(d)->has_labels;
    if (gives(d, out, &wanted) && (!classes || out->dims[0] >= wanted.dims[0])) return DT_OK;
    return dt_fail(ctx, DT_ERR_FORMAT, "%s: the model gives %s, but the targets are %s: %s%s", path,
                   dt__dims_text(out->rank, out->dims, have, sizeof have),
                   target_names[dt_dataset_target(d)],
                   dt__dims_text(wanted.rank, wanted.dims, text, sizeof text),
                   classes ? ", the number of classes first" : "");
}

dt_status dt_model_check_data(dt_ctx *ctx, const char *path, const dt_model_info *info,
                              const dt_dataset *d)
{
    dt_example in, out;
    DT__NEED4(ctx, ctx, path, info, d);
    if (info->family == NULL) { /* an exported file */
        return info->data == NULL ? DT_OK : dt__say_scaling(ctx, path, info->data, d, false);
    }
    DT__TRY(dt__check_examples(ctx, path, info, d));
    DT__TRY(dt__say_scaling(ctx, path, info->data, d, false));
    if (info->family->shapes == NULL || d->joined != NULL || is_tokens(d)) return DT_OK;
    DT__TRY(info->family->shapes(ctx, info->options, &in, &out));
    return refuse_output(ctx, path, &out, d);
}

dt_status dt__check_fit(dt_recipe *r, const dt_dataset *d)
{
    const dt_model_options *m = &r->options.model;
    const dt_example example = example_of(d);
    fit in = { .r = r, .d = d, .wanted = example }, out = in;
    if (m->family->shapes == NULL || d->joined != NULL) return DT_OK;
    DT__TRY(m->family->shapes(r->ctx, m->options, &in.have, &out.have));
    if ((in.have.rank == 0) != is_tokens(d)) {
        return dt_recipe_refuse(r, "data.format", "the data are %s, but model.family %s takes %s",
                                kind_of(d), m->family_name,
                                in.have.rank == 0 ? "tokens" : "images or arrays");
    }
    if (in.have.rank == 0) return check_tokens(r, d, &in.have);
    out.wanted = target_of(d, &example);
    DT__TRY(check_input(&in));
    return check_output(&out);
}
