/* Format c: NAME_test.c. */
#include "export/c/c_write.h"

#include "nn/layers/embedding.h"

#include <stdio.h>
#include <string.h>

uint32_t dt__c_seed(uint32_t example) { return example * 2654435761u + 1; }

void dt__c_example(uint32_t *state, int64_t rows, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = rows > 0 ? (float)((*state >> 8) % (uint32_t)rows)
                        : (float)((int32_t)(*state >> 24) - 128) / 64.0f;
    }
}

void dt__c_example_codes(uint32_t *state, int64_t n, int8_t *x)
{
    for (int64_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = (int8_t)((int32_t)(*state >> 24) - 128);
    }
}

void dt__c_put_expected(dt__chars *to, const char *name, const float *v, int64_t n)
{
    dt__c_printf(to,
                 "/* The bits of %s that detent computed. */\n"
                 "static const uint32_t expected_%s[%lld] = {",
                 name, name, (long long)n);
    for (int64_t k = 0; k < n; k++) {
        uint32_t bits;
        memcpy(&bits, &v[k], sizeof bits);
        dt__c_printf(to, "%s0x%08xu,", k % 7 == 0 ? "\n    " : " ", bits);
    }
    dt__put_text(to, "\n};\n\n");
}

/* For networks with an embedding: n row indices that all embeddings have. */
static void put_example(const dt__c_about *a, dt__chars *to)
{
    const long long rows = dt__embedding_rows(a->call->m);
    char number[80] = "(float)((int32_t)(*state >> 24) - 128) / 64.0f";
    if (rows > 0) snprintf(number, sizeof number, "(float)((*state >> 8) %% %lldu)", rows);
    dt__c_printf(to,
                 "/* n numbers%s, the same everywhere. */\n"
                 "static void make_example(uint32_t *state, float *x, int32_t n)\n"
                 "{\n"
                 "    int32_t i;\n"
                 "    for (i = 0; i < n; i++) {\n"
                 "        *state = *state * 1664525u + 1013904223u;\n"
                 "        x[i] = %s;\n"
                 "    }\n"
                 "}\n\n",
                 rows > 0 ? ", rows of tables" : " from -2 to 2", number);
}

static const char tools[] =
    "/* How many of n outputs differ in a bit. A NaN is one whatever its bits are. */\n"
    "static int differing(const float *y, const uint32_t *expected, int32_t n)\n"
    "{\n"
    "    int wrong = 0;\n"
    "    int32_t i;\n"
    "    for (i = 0; i < n; i++) {\n"
    "        uint32_t bits;\n"
    "        memcpy(&bits, &y[i], sizeof bits);\n"
    "        if (bits << 1 > 0xff000000u && expected[i] << 1 > 0xff000000u) continue; /* NaN */\n"
    "        wrong += bits != expected[i];\n"
    "    }\n"
    "    return wrong;\n"
    "}\n\n";

static const char tools_of_codes[] =
    "/* n codes, the same everywhere. */\n"
    "static void make_example(uint32_t *state, int8_t *x, int32_t n)\n"
    "{\n"
    "    int32_t i;\n"
    "    for (i = 0; i < n; i++) {\n"
    "        *state = *state * 1664525u + 1013904223u;\n"
    "        x[i] = (int8_t)((int32_t)(*state >> 24) - 128);\n"
    "    }\n"
    "}\n\n"
    "/* How many of n codes differ. */\n"
    "static int differing(const int8_t *y, const int8_t *expected, int32_t n)\n"
    "{\n"
    "    int wrong = 0;\n"
    "    int32_t i;\n"
    "    for (i = 0; i < n; i++) wrong += y[i] != expected[i];\n"
    "    return wrong;\n"
    "}\n\n";

/* Writes the codes of n results that the self-test expects. */
static void put_expected_codes(dt__chars *to, const char *name, const float *v, int64_t n)
{
    dt__c_printf(to,
                 "/* The codes of %s that detent computed. */\n"
                 "static const int8_t expected_%s[%lld] = {",
                 name, name, (long long)n);
    for (int64_t k = 0; k < n; k++) {
        dt__c_printf(to, "%s%d,", k % 16 == 0 ? "\n    " : " ", (int)v[k]);
    }
    dt__put_text(to, "\n};\n\n");
}

static void put_selftest(const dt__c_about *a, dt__chars *to)
{
    const int64_t *in, *out;
    const int n_in = dt_trace_inputs(a->p->trace, &in), n_out = dt_trace_outputs(a->p->trace, &out);
    dt__c_printf(to, "int %s_selftest(void *arena)\n{\n", a->name);
    for (int i = 0; i < n_in; i++) {
        dt__c_printf(to, "    static %s %s[%lld];\n", dt__c_element(a->p),
                     dt__c_given("x", i, n_in).text, (long long)dt__c_count(a->p, in[i]));
    }
    for (int i = 0; i < n_out; i++) {
        dt__c_printf(to, "    static %s %s[%lld];\n", dt__c_element(a->p),
                     dt__c_given("y", i, n_out).text, (long long)dt__c_count(a->p, out[i]));
    }
    dt__c_printf(to,
                 "    int wrong = %s_checksum() != 0x%08xu, status;\n"
                 "    uint32_t example;\n"
                 "    if ((uintptr_t)arena %% %s_ARENA_ALIGN != 0) return -%s_MISALIGNED;\n",
                 a->name, a->p->checksum, a->upper, a->upper);
    dt__c_put_features_check(a, to);
    dt__c_put_rows_check(a, to);
    dt__c_printf(to,
                 "    for (example = 0; example < %d; example++) {\n"
                 "        uint32_t state = example * 2654435761u + 1;\n",
                 a->examples);
    for (int i = 0; i < n_in; i++) {
        dt__c_printf(to, "        make_example(&state, %s, %lld);\n",
                     dt__c_given("x", i, n_in).text, (long long)dt__c_count(a->p, in[i]));
    }
    dt__c_printf(to, "        status = %s_run(", a->name);
    for (int i = 0; i < n_in; i++) dt__c_printf(to, "%s, ", dt__c_given("x", i, n_in).text);
    for (int i = 0; i < n_out; i++) dt__c_printf(to, "%s, ", dt__c_given("y", i, n_out).text);
    dt__put_text(to, "arena);\n");
    if (!a->p->device) {
        dt__c_put_named(a, to, "        if (status == $_FAST_MATH) return -status;\n");
    }
    dt__put_text(to, "        wrong += status;\n");
    for (int i = 0; i < n_out; i++) {
        const long long n = (long long)dt__c_count(a->p, out[i]);
        const dt__c_name y = dt__c_given("y", i, n_out);
        dt__c_printf(to, "        wrong += differing(%s, expected_%s + example * %lld, %lld);\n",
                     y.text, y.text, n, n);
    }
    dt__put_text(to, "    }\n    return wrong;\n}\n");
}

static const char main_head[] =
    "#ifndef $_NO_MAIN\n#include <stdio.h>\n\n"
    "/* 64 bytes in front of what the model uses and behind it must not change. */\n"
    "static uint8_t memory[64 + %_BYTES + 64 + %_ALIGN];\n\n"
    "int main(void)\n{\n"
    "    uint8_t *used = memory + 64;\n"
    "    int wrong, i;\n"
    "    memset(memory, 0xa5, sizeof memory);\n"
    "    while ((uintptr_t)used \001 %_ALIGN != 0) used++;\n"
    "    wrong = @_selftest(used);\n"
    "    if (wrong == -$_MISALIGNED) {\n"
    "        printf(\"@: its memory is not aligned to \001d bytes\\n\", %_ALIGN);\n    }\n";

static const char main_flags[] =
    "    if (wrong == -$_FAST_MATH) {\n"
    "        printf(\"@: compiled or linked with parts of -ffast-math\\n\");\n    }\n";

static const char main_tail[] = "    if (wrong < 0) return 1;\n"
                                "    for (i = 0; i < 64; i++) {\n"
                                "        wrong += used[i - 64] != 0xa5;\n"
                                "        wrong += used[%_BYTES + i] != 0xa5;\n"
                                "    }\n"
                                "    printf(\"@: \001d wrong\\n\", wrong);\n"
                                "    return wrong != 0;\n}\n#endif\n";

/* In these texts % is replaced by NAME_ARENA or NAME_STATE, and \001 by a percent sign. */
static void put_with(const dt__c_about *a, const char *word, const char *text, dt__chars *to)
{
    for (; *text != '\0'; text++) {
        const char one[] = { *text, '\0' };
        if (*text == '%') dt__c_printf(to, "%s_%s", a->upper, word);
        else if (*text == '\001') dt__put_text(to, "%");
        else dt__c_put_named(a, to, one);
    }
}

void dt__c_put_test_main(const dt__c_about *a, const char *word, dt__chars *to)
{
    put_with(a, word, main_head, to);
    if (!a->p->device) put_with(a, word, main_flags, to);
    put_with(a, word, main_tail, to);
}

void dt__c_put_test(const dt__c_about *a, dt__chars *to)
{
    const int64_t *out;
    const int n = dt_trace_outputs(a->p->trace, &out);
    dt__c_printf(to,
                 "/* The self-test of %s, and a program that runs it;\n * %s_NO_MAIN leaves the "
                 "program out. */\n#include \"%s.h\"\n\n#include <string.h>\n\n",
                 a->name, a->upper, a->name);
    for (int i = 0; i < n; i++) {
        const dt__c_name name = dt__c_given("y", i, n);
        const int64_t count = a->examples * dt__c_count(a->p, out[i]);
        if (a->p->device) put_expected_codes(to, name.text, a->expected[i], count);
        else dt__c_put_expected(to, name.text, a->expected[i], count);
    }
    dt__c_put_features_test(a, to);
    dt__c_put_rows_test(a, to);
    if (!a->p->device) put_example(a, to);
    dt__put_text(to, a->p->device ? tools_of_codes : tools);
    put_selftest(a, to);
    dt__put_text(to, "\n");
    dt__c_put_test_main(a, "ARENA", to);
}
