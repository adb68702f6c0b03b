/* Examples of a language model: its continuation of the beginnings of some examples. Prompts with
 * completions are continued greedily; running text is sampled at temperature 0.8. */
#include "core/tensor.h"
#include "core/text/utf8.h"
#include "data/dataset.h"
#include "train/task/examples.h"

#define PROMPTED 8
#define RUNNING 3
#define PROMPT 24
#define MOST 160 /* tokens that are generated */

/* Decoded bytes as a JSON string; without a tokenizer the ids. */
static void replace_bad_bytes(dt__chars *t)
{
    unsigned char *at = (unsigned char *)t->bytes, *end = at == NULL ? NULL : at + t->used;
    while (at < end) {
        const int n = dt__utf8_length(at, end);
        if (n == 0 || *at == 0) *at = '?';
        at += n == 0 ? 1 : n;
    }
}

static dt_status decode(const dt__examples *e, const int32_t *ids, int64_t n, dt__chars *out)
{
    const dt_tokenizer *k = dt_dataset_tokenizer(e->d);
    if (k != NULL) return dt_tokenizer_decode(k, ids, n, false, dt__collect, out);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) dt__put_text(out, " ");
        dt__put_integer(out, ids[i]);
    }
    return DT_OK;
}

static dt_status put_text(const dt__examples *e, const char *name, const int32_t *ids, int64_t n)
{
    dt__chars text = { .ctx = e->ctx };
    dt_status s = decode(e, ids, n, &text);
    if (s == DT_OK && text.failed) s = DT_ERR_NOMEM;
    replace_bad_bytes(&text);
    DT__PUT_ALL(e->t, ", \"", name, "\": ");
    dt__put_visible(e->t, text.used > 0 ? text.bytes : "", text.used);
    dt__release(e->ctx, text.bytes);
    return s;
}

/* A text that is being generated. */
typedef struct making {
    const dt__examples *e;
    dt_decoder *decoder;
    dt_sampling how;
    int64_t most;  /* tokens */
    int32_t *made; /* [most] */
    int64_t n;
} making;

static dt_status make(making *m, const int32_t *prompt, int64_t n)
{
    dt_tensor *logits;
    m->n = 0;
    DT__TRY(dt_decoder_rewind(m->decoder, 0));
    DT__TRY(dt_decoder_feed(m->decoder, prompt, n, &logits));
    const int64_t room = dt_decoder_capacity(m->decoder) - n;
    while (m->n < m->most) {
        int32_t id;
        DT__TRY(dt_sample(m->e->ctx, &m->how, m->n, logits, &id));
        m->made[m->n++] = id;
        if (m->n >= m->most || m->n >= room) break;
        DT__TRY(dt_decoder_feed(m->decoder, &id, 1, &logits));
    }
    return DT_OK;
}

/* Number of tokens before the first label, and of labels. */
static void cut(const int32_t *label, int64_t n, int64_t *prompt, int64_t *labels)
{
    int64_t first = 0, count = 0;
    while (first < n && label[first] == DT__NO_LABEL) first++;
    while (first + count < n && label[first + count] != DT__NO_LABEL) count++;
    *prompt = first + 1;
    *labels = count;
}

static dt_status put_one(making *m, int64_t i, bool prompted)
{
    const dt__examples *e = m->e;
    dt_tensor *x, *target;
    int64_t prompt = 0, labels = 0;
    DT__TRY(dt__examples_at(e, i, &x, &target));
    const int32_t *id = dt_data(x), *label = dt_data(target);
    cut(label, x->count, &prompt, &labels);
    if (!prompted) prompt = dt__min_i64(PROMPT, dt__max_i64(x->count / 2, 1));
    if (prompt > x->count) prompt = x->count;
    m->most = prompted ? dt__min_i64(labels, MOST) : MOST;
    DT__TRY(make(m, id, prompt));
    dt__put_text(e->t, "{\"index\": ");
    dt__put_integer(e->t, i);
    DT__TRY(put_text(e, "prompt", id, prompt));
    DT__TRY(put_text(e, "made", m->made, m->n));
    if (prompted) DT__TRY(put_text(e, "wanted", label + prompt - 1, labels));
    dt__put_text(e->t, "}");
    return DT_OK;
}

static dt_status put_all(making *m)
{
    const dt__examples *e = m->e;
    const bool prompted = dt_dataset_is_prompted(e->d);
    const int64_t usual = prompted ? PROMPTED : RUNNING;
    const int64_t shown = dt__min_i64(e->samples > 0 ? e->samples : usual, e->n);
    m->how = dt_sampling_defaults();
    m->how.temperature = prompted ? 0 : 0.8;
    DT__PUT_ALL(e->t, "\"temperature\": ", m->how.temperature);
    dt__put_text(e->t, ", \"texts\": [");
    for (int64_t i = 0; i < shown; i++) {
        dt__put_text(e->t, i > 0 ? ",\n  " : "\n  ");
        DT__TRY(put_one(m, i * e->n / shown, prompted));
    }
    dt__put_text(e->t, "]");
    return DT_OK;
}

dt_status dt__examples_of_tokens(const dt__examples *e)
{
    making m = { .e = e };
    const bool was_training = dt_is_training(e->m);
    dt_status s = dt_decoder_create(e->m, NULL, &m.decoder);
    if (s == DT_OK) {
        m.made = dt__alloc_array(e->ctx, MOST, sizeof *m.made);
        s = m.made == NULL ? DT_ERR_NOMEM : put_all(&m);
    }
    dt__release(e->ctx, m.made);
    dt_decoder_free(m.decoder);
    dt_train(e->m, was_training);
    return s;
}
