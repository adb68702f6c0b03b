/* Runs llama.cpp on a GGUF file, for scripts/check-exports.
 *
 *   llama_run logits MODEL IDS LENGTH OUT [ROWS]
 *                                            logits (f32) of all tokens of rows of LENGTH ids
 *                                            (i32), ROWS at once, each a sequence of its own
 *   llama_run greedy MODEL IDS N             N ids after those of a file, each the most likely one
 *   llama_run text MODEL TEXT OUT            ids (i32) of a text
 *   llama_run quantize MODEL OUT TYPE        all matrices (--pure) in q4_0, q3_k or q2_k
 *   llama_run time MODEL IDS N               milliseconds of all ids of a file at once, and of each
 *                                            of N further ones; the fastest of several runs
 *
 * Keys and values are F32 and attention is not fused, to avoid rounding. */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void say(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
}

static void *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) {
        fprintf(stderr, "llama_run: cannot read %s\n", path);
        exit(1);
    }
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*bytes + 1);
    if (data == NULL || fread(data, 1, *bytes, f) != *bytes) exit(1);
    data[*bytes] = 0;
    fclose(f);
    return data;
}

static struct llama_model *load(const char *path)
{
    struct llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = 0;
    struct llama_model *m = llama_model_load_from_file(path, p);
    if (m == NULL) exit(1);
    return m;
}

static struct llama_context *context_of(struct llama_model *m, int length, int rows)
{
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = p.n_batch = p.n_ubatch = (uint32_t)(length * rows);
    p.n_seq_max = (uint32_t)rows;
    p.kv_unified = true; /* the size of a sequence's context is not rounded */
    p.n_threads = p.n_threads_batch = 1;
    p.type_k = p.type_v = GGML_TYPE_F32;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *c = llama_init_from_model(m, p);
    if (c == NULL) exit(1);
    return c;
}

/* Logits of all ids of rows, each of n ids that follow `past` earlier ones. */
static void feed_rows(struct llama_context *c, const int32_t *id, int n, int past, int rows)
{
    struct llama_batch b = llama_batch_init(n * rows, 0, 1);
    b.n_tokens = n * rows;
    for (int i = 0; i < n * rows; i++) {
        b.token[i] = id[i];
        b.pos[i] = past + i % n;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = i / n;
        b.logits[i] = 1;
    }
    if (llama_decode(c, b) != 0) exit(1);
    llama_batch_free(b);
}

static void feed(struct llama_context *c, const int32_t *id, int n, int past)
{
    feed_rows(c, id, n, past, 1);
}

static int logits(char **v)
{
    size_t bytes;
    const int length = atoi(v[4]), most = v[6] == NULL ? 1 : atoi(v[6]);
    struct llama_model *m = load(v[2]);
    struct llama_context *c = context_of(m, length, most);
    const int32_t *id = read_file(v[3], &bytes);
    const size_t vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(m));
    const size_t rows = bytes / sizeof *id / (size_t)length;
    FILE *out = fopen(v[5], "wb");
    for (size_t r = 0, now; r < rows && out != NULL; r += now) {
        now = rows - r < (size_t)most ? rows - r : (size_t)most;
        llama_memory_clear(llama_get_memory(c), true);
        feed_rows(c, id + r * (size_t)length, length, 0, (int)now);
        for (int i = 0; i < length * (int)now; i++) {
            fwrite(llama_get_logits_ith(c, i), sizeof(float), vocab, out);
        }
    }
    return out == NULL || fclose(out) != 0;
}

static int greedy(char **v)
{
    size_t bytes;
    const int n = atoi(v[4]);
    struct llama_model *m = load(v[2]);
    int32_t *id = read_file(v[3], &bytes);
    const struct llama_vocab *vocab = llama_model_get_vocab(m);
    int here = (int)(bytes / sizeof *id), past = 0;
    struct llama_context *c = context_of(m, here + n, 1);
    for (int i = 0; i < n; i++) {
        feed(c, id, here, past);
        const float *y = llama_get_logits_ith(c, here - 1);
        int best = 0;
        for (int k = 1; k < llama_vocab_n_tokens(vocab); k++) best = y[k] > y[best] ? k : best;
        if (llama_vocab_is_eog(vocab, best)) break;
        printf("%s%d", i == 0 ? "" : ",", best);
        past += here;
        here = 1;
        id[0] = best;
    }
    puts("");
    return 0;
}

static int tokenize(char **v)
{
    size_t bytes;
    struct llama_model *m = load(v[2]);
    const char *text = read_file(v[3], &bytes);
    int32_t *id = malloc((bytes + 8) * sizeof *id);
    if (id == NULL) return 1;
    const int n = llama_tokenize(llama_model_get_vocab(m), text, (int32_t)bytes, id,
                                 (int32_t)bytes + 8, true, false);
    FILE *out = fopen(v[4], "wb");
    if (n < 0 || out == NULL) return 1;
    fwrite(id, sizeof *id, (size_t)n, out);
    return fclose(out) != 0;
}

static int quantize(char **v)
{
    static const struct {
        const char *name;
        enum llama_ftype type;
    } types[] = { { "q4_0", LLAMA_FTYPE_MOSTLY_Q4_0 },
                  { "q3_k", LLAMA_FTYPE_MOSTLY_Q3_K_S },
                  { "q2_k", LLAMA_FTYPE_MOSTLY_Q2_K } };
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    int i = 0;
    while (i < 3 && strcmp(types[i].name, v[4]) != 0) i++;
    if (i == 3) return 2;
    p.ftype = types[i].type;
    p.nthread = 1;
    p.pure = true;
    return llama_model_quantize(v[2], v[3], &p) != 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int time_it(char **v)
{
    size_t bytes;
    const int n = atoi(v[4]);
    struct llama_model *m = load(v[2]);
    const int32_t *id = read_file(v[3], &bytes);
    const int here = (int)(bytes / sizeof *id);
    struct llama_context *c = context_of(m, here + n, 1);
    double all = 1e9, each = 1e9;
    for (int run = 0; run < 20; run++) {
        llama_memory_clear(llama_get_memory(c), true);
        const double start = now();
        feed(c, id, here, 0);
        const double fed = now();
        for (int i = 0; i < n; i++) feed(c, id + i % here, 1, here + i);
        const double end = now();
        all = fed - start < all ? fed - start : all;
        each = (end - fed) / n < each ? (end - fed) / n : each;
    }
    printf("%.3f %.4f\n", all, each);
    return 0;
}

int main(int n, char **v)
{
    llama_log_set(say, NULL);
    llama_backend_init();
    if ((n == 6 || n == 7) && strcmp(v[1], "logits") == 0) return logits(v);
    if (n == 5 && strcmp(v[1], "greedy") == 0) return greedy(v);
    if (n == 5 && strcmp(v[1], "text") == 0) return tokenize(v);
    if (n == 5 && strcmp(v[1], "quantize") == 0) return quantize(v);
    if (n == 5 && strcmp(v[1], "time") == 0) return time_it(v);
    fputs("llama_run: see its head\n", stderr);
    return 2;
}
