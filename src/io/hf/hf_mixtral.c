/* Names of Mixtral's experts. Folders of transformers 4 and 5 have, for layer L and expert E (w1 is
 * the gate, w3 up, w2 down),
 *
 *     model.layers.L.block_sparse_moe.gate.weight            [experts, width]
 *     model.layers.L.block_sparse_moe.experts.E.w1.weight    [hidden, width], ...
 *
 * or, as transformers 5 has them in memory,
 *
 *     model.layers.L.mlp.gate.weight                         [experts, width]
 *     model.layers.L.mlp.experts.gate_up_proj                [experts, 2 hidden, width]
 *     model.layers.L.mlp.experts.down_proj                   [experts, width, hidden]
 *
 * The second form is split into the first when the folder is opened; the gates are the first
 * halves. Family llama has model.layers.L.moe.router.weight and grouped .moe.w_gate.weight,
 * .w_up.weight, .w_down.weight. */
#include "core/text/row_named.h"
#include "core/block_list.h"
#include "io/hf/hf.h"

#include <stdio.h>
#include <string.h>

#define LAYERS "model.layers."

static const struct {
    const char *theirs, *ours;
} experts_names[] = {
    { "w1.weight", "w_gate.weight" },
    { "w3.weight", "w_up.weight" },
    { "w2.weight", "w_down.weight" },
};

/* Skips `text` (NULL: digits) at *at; false if something else is there. */
static bool skip(const char **at, const char *text)
{
    const size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0) return false;
    *at += n;
    return true;
}

static int skip_digits(const char **at)
{
    const int n = (int)strspn(*at, "0123456789");
    *at += n;
    return n;
}

/* For a name model.layers.L BLOCK...: the rest of it, and the digits of L; NULL for other names. */
static const char *in_block(const char *name, const char *block, int *digits)
{
    if (!skip(&name, LAYERS)) return NULL;
    *digits = skip_digits(&name);
    return *digits > 0 && *digits < 10 && skip(&name, block) ? name : NULL;
}

static bool read_name(const char *name, dt__place *out)
{
    int layer, digits;
    const char *rest = in_block(name, ".block_sparse_moe.", &layer), *ours = NULL;
    if (rest == NULL) return false;
    if (strcmp(rest, "gate.weight") == 0) ours = "router.weight";
    if (skip(&rest, "experts.") && (digits = skip_digits(&rest)) > 0 && *rest == '.') {
        out->expert = dt__expert_number(rest - digits, digits);
        for (int i = 0; i < DT__COUNT_OF(experts_names); i++) {
            if (strcmp(rest + 1, experts_names[i].theirs) == 0) ours = experts_names[i].ours;
        }
    }
    if (ours == NULL) {
        out->expert = DT__WHOLE;
        return false;
    }
    snprintf(out->own, sizeof out->own, LAYERS "%.*s.moe.%s", layer, name + strlen(LAYERS), ours);
    return true;
}

static bool write_name(const char *path, int64_t expert, char text[DT__SHOWN])
{
    int layer;
    char number[24] = "*";
    const char *rest = in_block(path, ".moe.", &layer), *digits = path + strlen(LAYERS);
    if (rest == NULL) return false;
    if (strcmp(rest, "router.weight") == 0) {
        snprintf(text, DT__SHOWN, LAYERS "%.*s.block_sparse_moe.gate.weight", layer, digits);
        return true;
    }
    if (expert >= 0) snprintf(number, sizeof number, "%lld", (long long)expert);
    for (int i = 0; i < DT__COUNT_OF(experts_names); i++) {
        if (strcmp(rest, experts_names[i].ours) != 0) continue;
        snprintf(text, DT__SHOWN, LAYERS "%.*s.block_sparse_moe.experts.%s.%s", layer, digits,
                 number, experts_names[i].theirs);
        return true;
    }
    return false;
}

const dt__naming dt__hf_mixtral = { read_name, write_name };

/* The tensors of each expert that a stacked tensor contains, in order. */
typedef struct stack {
    const char *name;
    int n;
    const char *holds[2];
} stack;

static const stack stacks[] = {
    { "experts.gate_up_proj", 2, { "w1", "w3" } },
    { "experts.down_proj", 1, { "w2" } },
};

static const stack *stack_of(const char *name, int *layer)
{
    const char *rest = in_block(name, ".mlp.", layer);
    return rest != NULL ? DT__ROW_NAMED(stacks, rest) : NULL;
}

/* Whether the stacked tensor has elements (else the number of experts could be anything) and its
 * shape fits. */
static bool has_form(const dt_file_entry *e, const stack *s)
{
    return e->rank == 3 && e->bytes > 0 && e->dims[1] % s->n == 0;
}

int64_t dt__hf_tensors(const dt_file *part, int64_t experts)
{
    int layer;
    int64_t n = part->count;
    for (int64_t i = 0; i < part->count && experts > 0; i++) {
        const dt_file_entry *e = &part->entry[i];
        const stack *s = stack_of(e->name, &layer);
        if (s != NULL && has_form(e, s) && e->dims[0] == experts) n += s->n * experts;
    }
    return n;
}

static dt_status add(dt_file *folder, const dt_file_entry *e, const char *name)
{
    char *copy = dt__block_list_text(folder->ctx, &folder->arena, "%s", name);
    if (copy == NULL) return DT_ERR_NOMEM;
    dt_file_entry *to = &folder->entry[folder->count++];
    *to = *e;
    to->name = copy;
    return DT_OK;
}

static dt_status check_stack(const dt_file *part, const dt_file_entry *e, const stack *s,
                             int64_t experts)
{
    char shown[DT__SHOWN];
    dt__shown(e->name, shown);
    if (!has_form(e, s)) {
        return dt_fail(part->ctx, DT_ERR_FORMAT,
                       "%s: tensor '%s' is of another form: it must be [experts, %s, ...]",
                       part->path, shown, s->n == 2 ? "2 intermediate_size" : "hidden_size");
    }
    if (e->dims[0] == experts) return DT_OK;
    return dt_fail(part->ctx, DT_ERR_FORMAT,
                   "%s: tensor '%s' is of %lld experts; num_local_experts is %lld", part->path,
                   shown, (long long)e->dims[0], (long long)experts);
}

static dt_status cut(dt_file *folder, const dt_file_entry *e, const stack *s, int layer)
{
    const int64_t n = s->n * e->dims[0];
    int64_t *dims = dt__block_list_add(folder->ctx, &folder->arena, 2 * sizeof *dims);
    if (dims == NULL) return DT_ERR_NOMEM;
    dims[0] = e->dims[1] / s->n;
    dims[1] = e->dims[2];
    dt_file_entry one = *e;
    one.rank = 2;
    one.dims = dims;
    one.count = e->count / n;
    one.bytes = e->bytes / (size_t)n;
    for (int64_t i = 0; i < n; i++) {
        char name[DT__SHOWN];
        snprintf(name, sizeof name, LAYERS "%.*s.block_sparse_moe.experts.%lld.%s.weight", layer,
                 e->name + strlen(LAYERS), (long long)(i / s->n), s->holds[i % s->n]);
        if (one.bytes > 0) one.data = (const char *)e->data + (size_t)i * one.bytes;
        DT__TRY(add(folder, &one, name));
    }
    return DT_OK;
}

dt_status dt__hf_take(dt_file *folder, const dt_file *part, const dt_file_entry *e, int64_t experts)
{
    int layer;
    char name[DT__SHOWN];
    const stack *s = experts > 0 ? stack_of(e->name, &layer) : NULL;
    const char *rest = experts > 0 ? in_block(e->name, ".mlp.", &layer) : NULL;
    if (s != NULL) {
        DT__TRY(check_stack(part, e, s, experts));
        return cut(folder, e, s, layer);
    }
    if (rest != NULL && strcmp(rest, "gate.weight") == 0) {
        snprintf(name, sizeof name, LAYERS "%.*s.block_sparse_moe.gate.weight", layer,
                 e->name + strlen(LAYERS));
        return add(folder, e, name);
    }
    folder->entry[folder->count++] = *e;
    return DT_OK;
}
