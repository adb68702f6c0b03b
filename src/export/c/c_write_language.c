/* Format c: the files of a language model, which is fed one token at a time:
 *
 *     NAME_reset(state)      NAME_next(state, token, logits)
 *
 * The state is the number of tokens so far, then the arena, which keeps keys and values. */
#include "export/c/c_write.h"

#include <detent/experimental/nn.h>
#include <string.h>

#define HEAD 8 /* bytes of the state before the arena */

int64_t dt__c_context(const dt__c_program *p)
{
    const int64_t context = dt_trace_context(p->trace), wanted = p->options->context;
    return wanted > 0 && wanted < context ? wanted : context;
}

int64_t dt__c_vocab(const dt__c_about *a)
{
    const int64_t *out;
    dt_trace_outputs(a->p->trace, &out);
    return dt__c_count(a->p, out[0]);
}

static size_t state_bytes(const dt__c_program *p) { return HEAD + (p->arena + 7) / 8 * 8; }

void dt__c_put_named(const dt__c_about *a, dt__chars *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '@') dt__put_text(to, a->name);
        else if (*text == '$') dt__put_text(to, a->upper);
        else dt__put(to, text, 1);
    }
}

/* ---- NAME.h ---------------------------------------------------------------------------------- */

static const char header[] =
    "/* @: a language model of detent, without libraries, allocation and global\n"
    " * state. README.md says what it takes. */\n"
    "#ifndef $_H\n#define $_H\n\n#include <stdint.h>\n\n"
    "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";

static const char prototypes[] =
    "#define $_STATE_ALIGN 8 /* an address is a multiple of it */\n\n"
    "/* What @_next returns. */\n"
    "enum {\n"
    "    $_OK = 0,\n"
    "    /* there is no such token, or the text is full; nothing changed */\n"
    "    $_NO_TOKEN = 1,\n"
    "    /* a number to be quantized is not finite, or too large; logits mean nothing */\n"
    "    $_NOT_FINITE = 2,\n"
    "    /* the state is not aligned; nothing changed */\n"
    "    $_MISALIGNED = 3,\n"
    "    /* compiled or linked with parts of -ffast-math; nothing changed */\n"
    "    $_FAST_MATH = 4\n"
    "};\n\n"
    "/* Begins a text. A state has $_STATE_BYTES bytes, aligned to\n"
    " * $_STATE_ALIGN; each text has one of its own. */\n"
    "void @_reset(void *state);\n\n"
    "/* Appends a token, 0 ... $_VOCAB - 1, and computes the logits of\n"
    " * the one behind it; with logits 0 it only remembers the token. At most\n"
    " * $_CONTEXT tokens are a text. */\n"
    "int @_next(void *state, int32_t token, float *logits);\n\n"
    "/* The number of tokens so far. */\n"
    "int32_t @_length(const void *state);\n\n"
    "/* A checksum of all constants. */\n"
    "uint32_t @_checksum(void);\n\n"
    "/* In @_test.c: behind how many tokens the logits differ in a bit from\n"
    " * those of detent, plus 1 where a constant was changed. 0 is right. Below 0: -s, where\n"
    " * @_next returned s, as for a state that is not aligned. */\n"
    "int @_selftest(void *state);\n\n"
    "#ifdef __cplusplus\n}\n#endif\n#endif\n";

void dt__c_put_language_header(const dt__c_about *a, dt__chars *to)
{
    dt__c_put_named(a, to, header);
    dt__c_printf(to,
                 "#define %s_VOCAB %lld\n#define %s_CONTEXT %lld /* the most tokens of a text */\n"
                 "#define %s_STATE_BYTES %zu\n",
                 a->upper, (long long)dt__c_vocab(a), a->upper, (long long)dt__c_context(a->p),
                 a->upper, state_bytes(a->p));
    dt__c_put_named(a, to, prototypes);
}

/* ---- NAME.c ---------------------------------------------------------------------------------- */

static const char state_functions[] =
    "void @_reset(void *state)\n{\n    const int32_t position = 0;\n"
    "    memcpy(state, &position, sizeof position);\n}\n\n"
    "int32_t @_length(const void *state)\n{\n    int32_t position;\n"
    "    memcpy(&position, state, sizeof position);\n    return position;\n}\n\n"
    "int @_next(void *state, int32_t token, float *y)\n{\n";

static const char checks[] = "    int32_t position = @_length(state);\n"
                             "    int bad = 0;\n"
                             "    if ((uintptr_t)state % $_STATE_ALIGN != 0) return $_MISALIGNED;\n"
                             "    if (check_flags()) return $_FAST_MATH;\n"
                             "    if (token < 0 || token >= $_VOCAB) return $_NO_TOKEN;\n"
                             "    if (position >= $_CONTEXT) return $_NO_TOKEN;\n";

void dt__c_put_language_run(const dt__c_about *a, dt__chars *to)
{
    dt__c_put_named(a, to, state_functions);
    dt__c_put_named(a, to, checks);
    dt__c_printf(to, "    uint8_t *const memory = (uint8_t *)state + %d;\n", HEAD);
    dt__c_put_pointers(a, to);
    dt__put(to, a->body.bytes, a->body.used);
    if (a->p->skips) dt__put_text(to, "    }\n");
    dt__c_put_named(a, to,
                    "    position++;\n    memcpy(state, &position, sizeof position);\n"
                    "    return bad ? $_NOT_FINITE : $_OK;\n}\n");
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
    const int64_t vocab = dt__c_vocab(a);
    DT__TRY(dt_decoder_create(a->call->m, &(dt_decoder_options){ .capacity = dt__c_context(a->p) },
                              &d));
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

static const char test_head[] =
    "/* The self-test of @, and a program that runs it; $_NO_MAIN\n"
    " * leaves the program out. */\n#include \"@.h\"\n\n#include <string.h>\n\n"
    "/* Checksums of the logits that detent's decoder computed behind each token. */\n";

static const char test_loop[] =
    "        draw = draw * 1664525u + 1013904223u;\n"
    "        status = @_next(state, (int32_t)((draw >> 8) % $_VOCAB), logits);\n"
    "        if (status == $_FAST_MATH) return -status;\n"
    "        wrong += status != 0 || sum_of(logits, $_VOCAB) != expected[i];\n"
    "    }\n    return wrong;\n}\n\n";

void dt__c_put_language_test(const dt__c_about *a, dt__chars *to)
{
    dt__c_put_named(a, to, test_head);
    dt__c_printf(to, "static const uint32_t expected[%d] = {", a->examples);
    for (int i = 0; i < a->examples; i++) {
        dt__c_printf(to, "%s0x%08xu,", i % 7 == 0 ? "\n    " : " ", a->sums[i]);
    }
    dt__put_text(to, "\n};\n\n");
    dt__put_text(to, test_tools);
    dt__c_put_named(a, to, "int @_selftest(void *state)\n{\n    static float logits[$_VOCAB];\n");
    dt__c_printf(to,
                 "    uint32_t draw = 1;\n    int wrong = %s_checksum() != 0x%08xu, status, i;\n"
                 "    if ((uintptr_t)state %% %s_STATE_ALIGN != 0) return -%s_MISALIGNED;\n"
                 "    %s_reset(state);\n    for (i = 0; i < %d; i++) {\n",
                 a->name, a->p->checksum, a->upper, a->upper, a->name, a->examples);
    dt__c_put_named(a, to, test_loop);
    dt__c_put_test_main(a, "STATE", to);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Bytes of all keys and values, and those per token. */
static size_t kept_bytes(const dt__c_program *p)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < p->n_blocks; i++) {
        const dt__c_block *b = &p->block[i];
        if (b->value < 0 && b->last == DT__C_WRITES(dt_trace_calls(p->trace)))
            bytes += (size_t)b->n * b->size;
    }
    return bytes;
}

static const char usage[] =
    "# @\n\nA language model of detent as C99. "
    "`@.c` and `@.h` need no library; `@_test.c` shows that a compiler and a processor give the\n"
    "same bits as detent's decoder, which is fed one token at a time:\n\n"
    "    cc -O2 @.c @_test.c -o @_test && ./@_test\n\n"
    "```c\n#include \"@.h\"\n\n"
    "static double state[$_STATE_BYTES / 8]; /* on 32-bit x86 with _Alignas(8) */\n"
    "static float logits[$_VOCAB];\n\n"
    "@_reset(state);\n"
    "for (i = 0; i + 1 < n; i++) @_next(state, prompt[i], 0); /* remembers them */\n"
    "@_next(state, prompt[n - 1], logits); /* the logits of token n */\n"
    "```\n\n";

static const char usage_of_text[] =
    "`@_text.c` has the tokenizer and sampling, and is a program that continues a text:\n\n"
    "    cc -O2 -D$_MAIN @.c @_text.c -o @ && ./@ \"a text\" 200 0.8 1\n\n";

void dt__c_put_language_readme(const dt__c_about *a, dt__chars *to)
{
    const dt__c_program *p = a->p;
    const long long context = (long long)dt__c_context(p);
    dt__c_put_named(a, to, usage);
    if (a->tokenizer != NULL) dt__c_put_named(a, to, usage_of_text);
    dt__put_text(to, dt__c_flags_text);
    dt__c_put_model(a, to);
    dt__c_put_quantization(a, to);
    dt__c_printf(to,
                 "## Costs\n\n| | |\n|---|---|\n| flash | %zu bytes of constants and descriptors, "
                 "and the code |\n"
                 "| RAM | %zu bytes of state, one for each text, and the stack |\n"
                 "| of these keys and values | %zu bytes, %zu a token, for %lld tokens |\n"
                 "| multiply-adds of a token | %lld, and those of attention over earlier tokens |\n"
                 "| products of integers | %lld |\n| products of floats | %lld |\n"
                 "| checksum of the constants | %08x |\n\n",
                 p->flash, state_bytes(p), kept_bytes(p), kept_bytes(p) / (size_t)context, context,
                 (long long)a->multiply_adds, (long long)p->integer_products,
                 (long long)p->float_products, p->checksum);
    dt__c_printf(to, "## The arena\n\nOffsets are in bytes, from byte %d of the state on. ", HEAD);
    dt__put_text(to, dt__c_map_text);
    dt__c_put_map(a, to);
}
