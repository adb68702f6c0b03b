/* Format c: the files of a language model, which takes one token after the other:
 *
 *     NAME_reset(state)      NAME_next(state, token, logits)
 *
 * The state is the number of tokens so far, then the arena, in which keys and values stay. */
#include "export/c_write.h"

#include <detent/nn.h>
#include <stdio.h>
#include <string.h>

#define HEAD 8 /* bytes of the state in front of the arena */

int64_t dt__c_context(const dt__c_program *p)
{
    const int64_t context = dt_trace_context(p->trace), wanted = p->options->context;
    return wanted > 0 && wanted < context ? wanted : context;
}

static int64_t vocab_of(const dt__c_about *a)
{
    const int64_t *out;
    dt_trace_outputs(a->p->trace, &out);
    return dt__c_count(a->p, out[0]);
}

static size_t state_bytes(const dt__c_program *p) { return HEAD + (p->arena + 7) / 8 * 8; }

/* ---- NAME.h ---------------------------------------------------------------------------------- */

static const char prototypes[] =
    "/* Begins a text. A state has %s_STATE_BYTES bytes, aligned to 8; one for each text. */\n"
    "void %s_reset(void *state);\n\n"
    "/* Appends a token, 0 ... %s_VOCAB - 1, and computes the logits of the one behind it; with "
    "logits\n * 0 it only remembers the token. Returns 0; or 1 and changes nothing where there is "
    "no "
    "such\n * token, or the text has %s_CONTEXT tokens already; or 2 where a number to be "
    "quantized "
    "is not\n * finite, and logits mean nothing. */\n"
    "int %s_next(void *state, int32_t token, float *logits);\n\n"
    "/* The number of tokens so far. */\n"
    "int32_t %s_length(const void *state);\n\n"
    "/* A checksum of all constants. */\n"
    "uint32_t %s_checksum(void);\n\n"
    "/* In %s_test.c: of how many tokens the logits differ in a bit from those of detent, plus 1 "
    "where a\n * constant was changed. 0 is right. */\n"
    "int %s_selftest(void *state);\n\n";

void dt__c_put_language_header(const dt__c_about *a, dt__chars *to)
{
    const char *u = a->upper, *n = a->name;
    dt__c_printf(
        to,
        "/* %s: a language model of detent, without libraries, allocation and global state. "
        "README.md says\n * what it takes. */\n#ifndef %s_H\n#define %s_H\n\n#include "
        "<stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
        n, u, u);
    dt__c_printf(to,
                 "#define %s_VOCAB %lld\n#define %s_CONTEXT %lld /* the most tokens of a text */\n"
                 "#define %s_STATE_BYTES %zu\n\n",
                 u, (long long)vocab_of(a), u, (long long)dt__c_context(a->p), u,
                 state_bytes(a->p));
    dt__c_printf(to, prototypes, u, n, u, u, n, n, n, n, n);
    dt__put_text(to, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- NAME.c ---------------------------------------------------------------------------------- */

void dt__c_put_language_run(const dt__c_about *a, dt__chars *to)
{
    const char *u = a->upper, *n = a->name;
    dt__c_printf(to,
                 "void %s_reset(void *state)\n{\n    const int32_t position = 0;\n"
                 "    memcpy(state, &position, sizeof position);\n}\n\n"
                 "int32_t %s_length(const void *state)\n{\n    int32_t position;\n"
                 "    memcpy(&position, state, sizeof position);\n    return position;\n}\n\n",
                 n, n);
    dt__c_printf(to, "int %s_next(void *state, int32_t token, float *y)\n{\n", n);
    dt__c_printf(to, "    uint8_t *const memory = (uint8_t *)state + %d;\n", HEAD);
    dt__c_put_pointers(a, to);
    dt__c_printf(to,
                 "    int32_t position = %s_length(state);\n"
                 "    int bad = 0;\n"
                 "    if (token < 0 || token >= %s_VOCAB || position >= %s_CONTEXT) return 1;\n",
                 n, u, u);
    dt__put(to, a->body.bytes, a->body.used);
    if (a->p->skips) dt__put_text(to, "    }\n");
    dt__c_printf(to, "    position++;\n    memcpy(state, &position, sizeof position);\n"
                     "    return bad ? 2 : 0;\n}\n");
}

/* ---- the self-test --------------------------------------------------------------------------- */

static int32_t test_token(uint32_t *state, int64_t vocab)
{
    *state = *state * 1664525u + 1013904223u;
    return (int32_t)((*state >> 8) % (uint32_t)vocab);
}

static uint32_t test_sum(const float *y, int64_t n)
{
    uint32_t sum = 2166136261u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &y[i], sizeof bits);
        for (int k = 0; k < 32; k += 8) sum = (sum ^ (bits >> k & 255)) * 16777619u;
    }
    return sum;
}

dt_status dt__c_language_expected(dt__c_about *a)
{
    dt_decoder *d;
    const int64_t vocab = vocab_of(a);
    DT__TRY(dt_decoder_create(a->call->m, dt__c_context(a->p), &d));
    dt_status s = DT_OK;
    uint32_t state = 1;
    a->examples = (int)dt__min_i64(DT__C_TEST_TOKENS, dt__c_context(a->p));
    for (int i = 0; i < a->examples && s == DT_OK; i++) {
        const int32_t token = test_token(&state, vocab);
        dt_tensor *logits;
        s = dt_decoder_feed(d, &token, 1, &logits);
        if (s == DT_OK) a->sums[i] = test_sum(dt_data(logits), vocab);
    }
    dt_decoder_free(d);
    return s;
}

static const char test_tools[] =
    "/* FNV-1a over the bits of n logits, the lowest byte of each first. */\n"
    "static uint32_t sum_of(const float *y, int32_t n)\n"
    "{\n"
    "    uint32_t sum = 2166136261u;\n"
    "    int32_t i, k;\n"
    "    for (i = 0; i < n; i++) {\n"
    "        uint32_t bits;\n"
    "        memcpy(&bits, &y[i], sizeof bits);\n"
    "        for (k = 0; k < 32; k += 8) sum = (sum ^ (bits >> k & 255)) * 16777619u;\n"
    "    }\n"
    "    return sum;\n"
    "}\n\n";

static void put_selftest(const dt__c_about *a, dt__chars *to)
{
    const char *u = a->upper, *n = a->name;
    dt__c_printf(to,
                 "int %s_selftest(void *state)\n{\n    static float logits[%s_VOCAB];\n"
                 "    uint32_t draw = 1;\n    int wrong = %s_checksum() != 0x%08xu;\n"
                 "    int i;\n    %s_reset(state);\n    for (i = 0; i < %d; i++) {\n",
                 n, u, n, a->p->checksum, n, a->examples);
    dt__c_printf(
        to,
        "        draw = draw * 1664525u + 1013904223u;\n"
        "        wrong += %s_next(state, (int32_t)((draw >> 8) %% %s_VOCAB), logits) != 0 ||\n"
        "                 sum_of(logits, %s_VOCAB) != expected[i];\n"
        "    }\n    return wrong;\n}\n",
        n, u, u);
    dt__c_printf(
        to,
        "\n#ifndef %s_NO_MAIN\n#include <stdio.h>\n\n"
        "/* 64 bytes in front of the state and behind it must not change. */\n"
        "static union {\n    double align;\n    uint8_t bytes[64 + %s_STATE_BYTES + 64];\n"
        "} memory;\n\n"
        "int main(void)\n{\n    int wrong, i;\n"
        "    memset(memory.bytes, 0xa5, sizeof memory.bytes);\n"
        "    wrong = %s_selftest(memory.bytes + 64);\n"
        "    for (i = 0; i < 64; i++) {\n"
        "        wrong += memory.bytes[i] != 0xa5;\n"
        "        wrong += memory.bytes[64 + %s_STATE_BYTES + i] != 0xa5;\n"
        "    }\n    printf(\"%s: %%d wrong\\n\", wrong);\n    return wrong != 0;\n}\n#endif\n",
        u, u, n, u, n);
}

void dt__c_put_language_test(const dt__c_about *a, dt__chars *to)
{
    dt__c_printf(
        to,
        "/* The self-test of %s, and a program that runs it; %s_NO_MAIN leaves the program "
        "out. */\n#include \"%s.h\"\n\n#include <string.h>\n\n"
        "/* Checksums of the logits that detent's decoder computed behind each token. */\n"
        "static const uint32_t expected[%d] = {",
        a->name, a->upper, a->name, a->examples);
    for (int i = 0; i < a->examples; i++) {
        dt__c_printf(to, "%s0x%08xu,", i % 8 == 0 ? "\n    " : " ", a->sums[i]);
    }
    dt__put_text(to, "\n};\n\n");
    dt__put_text(to, test_tools);
    put_selftest(a, to);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Bytes of all keys and values, and what of them is a token's. */
static size_t kept_bytes(const dt__c_program *p)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < p->n_blocks; i++) {
        const dt__c_block *b = &p->block[i];
        if (b->value < 0 && b->last == dt_trace_calls(p->trace)) bytes += (size_t)b->n * b->size;
    }
    return bytes;
}

static const char usage[] =
    "```c\n#include \"%s.h\"\n\n"
    "static double state[%s_STATE_BYTES / 8];\n"
    "static float logits[%s_VOCAB];\n\n"
    "%s_reset(state);\n"
    "for (i = 0; i + 1 < n; i++) %s_next(state, prompt[i], 0); /* remembers them */\n"
    "%s_next(state, prompt[n - 1], logits);                    /* the logits of token n */\n"
    "```\n\n";

void dt__c_put_language_readme(const dt__c_about *a, dt__chars *to)
{
    const dt__c_program *p = a->p;
    const char *n = a->name, *u = a->upper;
    char family[DT__C_COMMENT];
    const dt_family *f = a->call->info != NULL ? a->call->info->family : NULL;
    const long long context = (long long)dt__c_context(p);
    dt__c_printf(
        to,
        "# %s\n\nA language model of detent (family %s) as C99. `%s.c` and `%s.h` need no "
        "library; `%s_test.c` shows\nthat a compiler and a processor give the same bits as "
        "detent's decoder, fed one token at a time:\n\n"
        "    cc -O2 %s.c %s_test.c -o %s_test && ./%s_test\n\n",
        n, f != NULL ? dt__c_comment(f->name, family) : "of its own", n, n, n, n, n, n, n);
    dt__c_printf(to, usage, n, u, u, n, n, n);
    dt__c_printf(
        to,
        "| | |\n|---|---|\n| constants | %zu bytes, beside the code |\n| state | %zu bytes, "
        "one for each text |\n| of these keys and values | %zu bytes, %zu a token, for %lld "
        "tokens |\n| multiply-adds of a token | %lld, and those of attention over earlier "
        "tokens |\n| products of integers | %lld |\n| products of floats | %lld |\n"
        "| checksum of the constants | %08x |\n\n",
        p->flash, state_bytes(p), kept_bytes(p), kept_bytes(p) / (size_t)context, context,
        (long long)a->multiply_adds, (long long)p->integer_products, (long long)p->float_products,
        p->checksum);
    dt__put_text(to, "Compile it without `-ffast-math`; on 32-bit x86 with `-msse2 "
                     "-mfpmath=sse`.\n\n## The arena\n\nIt begins 8 bytes behind the state.\n\n");
    dt__c_put_map(a, to);
}
