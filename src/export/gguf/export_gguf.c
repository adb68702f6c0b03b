/* Exporter gguf: a file for llama.cpp [ggml, docs/gguf.md].
 *
 *     "GGUF", version 3, the numbers of tensors and of metadata pairs, the pairs,
 *     for each tensor its name, extents (fastest first), type and offset,
 *     the data, at a multiple of 32, as is each tensor. */
#include "core/block_list.h"
#include "core/system/atomic_file.h"
#include "export/exporters.h"
#include "export/gguf/gguf_put.h"
#include "export/trace/random_inputs.h"

#include <string.h>

static const char zeros[DT__GGUF_ALIGNMENT];

static size_t padding(size_t bytes)
{
    return (DT__GGUF_ALIGNMENT - bytes % DT__GGUF_ALIGNMENT) % DT__GGUF_ALIGNMENT;
}

static void put_infos(const dt__gguf_put *p, dt__chars *t)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < p->n_tensors; i++) {
        const dt__gguf_tensor *x = &p->tensor[i];
        dt__gguf_put_string(t, x->name, strlen(x->name));
        dt__gguf_put_u32(t, (uint32_t)x->rank);
        for (int d = x->rank - 1; d >= 0; d--) dt__gguf_put_u64(t, (uint64_t)x->dims[d]);
        dt__gguf_put_u32(t, x->type->id);
        dt__gguf_put_u64(t, at);
        at += x->bytes + padding(x->bytes);
    }
}

static dt_status write_spans(const dt__gguf_put *p, dt__chars *head)
{
    dt__put_text(head, DT__GGUF_MAGIC);
    dt__gguf_put_u32(head, 3);
    dt__gguf_put_u64(head, (uint64_t)p->n_tensors);
    dt__gguf_put_u64(head, (uint64_t)p->n_keys);
    dt__put(head, p->keys.bytes, p->keys.used);
    put_infos(p, head);
    dt__put(head, zeros, padding(head->used));
    if (head->failed) return DT_ERR_NOMEM;
    const int64_t n = 1 + 2 * p->n_tensors;
    dt__span *span = dt__alloc_array(p->ctx, n, sizeof *span);
    if (span == NULL) return DT_ERR_NOMEM;
    span[0] = (dt__span){ head->bytes, head->used };
    p->call->summary->bytes = head->used;
    for (int64_t i = 0; i < p->n_tensors; i++) {
        const dt__gguf_tensor *x = &p->tensor[i];
        span[1 + 2 * i] = (dt__span){ x->data, x->bytes };
        span[2 + 2 * i] = (dt__span){ zeros, padding(x->bytes) };
        p->call->summary->bytes += x->bytes + padding(x->bytes);
    }
    const dt_status s = dt__file_replace(p->ctx, p->call->path, span, n);
    dt__release(p->ctx, span);
    return s;
}

static void note_arithmetic(const dt__gguf_put *p)
{
    if (p->g.gelu_erf) {
        dt__gguf_note(p,
                      "the model's gelu is x Phi(x); llama.cpp computes that of GPT-NeoX by tanh");
    }
    if (p->g.o.longrope.given && p->g.o.longrope.original_context < p->g.o.context) {
        dt__gguf_note(p,
                      "llama.cpp chooses longrope's factors by the size of its context (-c), not "
                      "by the length of the text: above the original context all texts have the "
                      "long ones");
    }
}

static dt_status put(dt__gguf_put *p)
{
    dt__chars head = { .ctx = p->ctx };
    DT__TRY(dt__gguf_describe(p));
    note_arithmetic(p);
    dt__gguf_put_keys(p);
    DT__TRY(dt__gguf_put_tokens(p));
    if (p->keys.failed) return DT_ERR_NOMEM;
    DT__TRY(dt__gguf_make_tensors(p));
    const dt_status s = write_spans(p, &head);
    dt__release(p->ctx, head.bytes);
    return s;
}

static void summarize(const dt__gguf_put *p)
{
    dt_export_summary *s = p->call->summary;
    for (int64_t i = 0; i < p->n_tensors; i++) {
        const dt__gguf_tensor *x = &p->tensor[i];
        const bool looked_up = strcmp(x->name, "position_embd.weight") == 0 ||
                               (!p->g.o.tied && strcmp(x->name, "token_embd.weight") == 0);
        if (x->rank < 2 || looked_up) continue;
        if (x->type->elements > 1) s->integer_products++;
        else s->float_products++;
    }
    const int type = p->call->options->gguf_type;
    const bool blocks = type != DT_GGUF_TRAINED && type != DT_GGUF_F32 && type != DT_GGUF_F16;
    if (blocks && s->integer_products == 0) {
        dt__gguf_note(p, "no weight of the model is quantized: all are F32, whatever --type says");
    }
    s->promise = "near: llama.cpp multiplies blocks with activations that it rounds to int8 in "
                 "blocks of 32, and F32 as detent's floats, but for the order of sums";
}

static dt_status write(const dt_export_call *call)
{
    dt__gguf_put p = { .call = call, .ctx = call->ctx, .keys.ctx = call->ctx };
    if (dt_is_prepared(call->m)) {
        return dt_fail(call->ctx, DT_ERR_STATE,
                       "export: format gguf holds integers; convert the model first");
    }
    dt_status s = put(&p);
    if (s == DT_OK) summarize(&p);
    if (s == DT_OK && call->options->gguf_type != DT_GGUF_TRAINED) {
        s = dt__note_floats(call, "the model's codes of activations are left out");
    }
    DT__RELEASE(p.ctx, p.keys.bytes, p.tensor);
    dt__block_list_free(p.ctx, &p.arena);
    return s;
}

static dt_status check(const dt_export_call *call)
{
    dt__gguf_put p = { .call = call, .ctx = call->ctx };
    DT__TRY(dt__gguf_describe(&p));
    DT__TRY(dt__gguf_check_tensors(&p));
    return dt__refusals_end(p.ctx, &p.refused, DT_ERR_UNSUPPORTED, DT__CANNOT_EXPRESS, "gguf");
}

const dt_exporter dt__exporter_gguf = {
    .name = "gguf",
    .text =
        "a file for llama.cpp: Llama, Qwen2, Qwen3, Mixtral, OLMo 2, SmolLM3, Gemma 3, GPT-2 and "
        "Pythia, in Q2_K to Q8_0, TQ1_0, TQ2_0, F16 and F32",
    .integers = true,
    .check = check,
    .write = write,
};
