/* detent tokenize: texts to files of ids and back, printed ids, refused input. */
#include "testing.h"

#include <jansson.h>
#include <stdlib.h>

#define DETENT "'" DETENT_BINARY_DIR "/detent' "

static char folder[TEST_PATH];

static void setup(void)
{
    char path[TEST_PATH];
    test_folder(folder);
    test_join(path, folder, "a.txt");
    test_write_text(path, "b\xc3\xa9"
                          "a");
    test_join(path, folder, "b.txt");
    test_write_file(path, "a\0\n", 3);
    test_join(path, folder, "bad.txt");
    test_write_text(path, "ab\xff");
    test_join(path, folder, "odd.bin");
    test_write_text(path, "abc");
    test_join(path, folder, "big.bin");
    test_write_text(path, "ab\x01");
    test_write_file(path, "a\0\x2c\x01", 4);
}

typedef struct usage_case {
    const char *arguments;
    int status;
    const char *output; /* of both streams, or a part of it */
} usage_case;

static const usage_case cases[] = {
    { "a.txt b.txt --tokenizer bytes", 0, "98 195 169 97\n97 0 10\n" },
    { "a.txt b.txt --tokenizer chars", 0, "3 4 2\n2 0 1\n" },
    { "a.txt b.txt --tokenizer chars -o x.bin --save-tokenizer k.json", 0,
      "x.bin: 6 tokens, chars, a vocabulary of 5\n" },
    { "x.bin --tokenizer k.json --decode | od -An -c", 0, "   b 303 251   a   a  \\0  \\n\n" },
    { "b.txt a.txt --tokenizer k.json --json", 0,
      "{\"tokenizer\": \"chars\", \"vocab\": 5, \"tokens\": 6, \"ids\": [2, 0, 1, 3, 4, 2]}" },
    { "b.txt --tokenizer k.json --json -o y.u32.bin", 0, "\"file\": \"y.u32.bin\"" },
    { "y.u32.bin --tokenizer k.json --decode | od -An -c", 0, "   a  \\0  \\n\n" },
    { "a.txt", 2, "--tokenizer is missing" },
    { "--tokenizer bytes", 2, "usage: detent tokenize" },
    { "none.txt --tokenizer bytes", 4, "none.txt" },
    { "a.txt --tokenizer none.json", 4, "none.json" },
    { "a.txt --tokenizer a.txt", 4, "'{' is expected here" },
    { "bad.txt --tokenizer chars", 4, "byte 2 of the text, 0xff" },
    { "b.txt bad.txt --tokenizer k.json", 4, "bad.txt: characters: byte 2" },
    { "a.txt --tokenizer bytes -o a.txt", 2, "would be overwritten" },
    { "a.txt --tokenizer chars -o x.bin --save-tokenizer a.txt", 2, "would be overwritten" },
    { "a.txt --tokenizer chars -o x.bin --save-tokenizer x.bin", 2, "are one file, 'x.bin'" },
    { "a.txt --tokenizer chars -o ./k.bin --save-tokenizer k.bin", 2, "are one file, 'k.bin'" },
    { "a.txt --tokenizer bytes -o none/x.bin", 4, "none/x.bin" },
    { "a.txt --tokenizer bytes --end", 2, "no token for it" },
    { "a.txt --tokenizer chars --decode", 2, "--decode requires the tokenizer" },
    { "a.txt --tokenizer bytes --decode -o x", 2, "--decode and -o exclude each other" },
    { "odd.bin --tokenizer bytes --decode", 4, "3 bytes are not multiple" },
    { "big.bin --tokenizer bytes --decode", 4, "id 1 is 300; the tokenizer has 256" },
    { "none.bin --tokenizer bytes --decode", 4, "none.bin" },
    { "a.txt --tokenizer bytes 2>&1 >/dev/full #", 1, "standard output cannot be written" },
    { "x.bin --tokenizer k.json --decode 2>&1 >/dev/full #", 1, "cannot be written" },
};

/* One after the other: some read what others wrote. */
START_TEST(tokenize)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const usage_case *c = &cases[i];
        char *output = NULL;
        const int status =
            test_shell(&output, "cd '%s' && { " DETENT "tokenize %s\n} 2>&1", folder, c->arguments);
        TEST_EACH(status == c->status || strstr(c->arguments, "| od") != NULL,
                  "tokenize %s: %d: %s", c->arguments, status, output);
        TEST_EACH(strstr(output, c->output) != NULL, "tokenize %s: %s", c->arguments, output);
        free(output);
    }
}
END_TEST

START_TEST(special_tokens_are_text_unless_wanted)
{
    static const char *const wants[] = { "27 91", "510 40\n", "40 511\n" };
    char path[TEST_PATH], *output = NULL;
    if (!test_golden(path, "tokenizer/llama3-512/tokenizer.json")) return;
    static const char *const options[] = { "", "--special --wrap", "--special --end" };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(test_shell(&output,
                                    "cd '%s' && printf '%s' > s.txt && " DETENT
                                    "tokenize s.txt --tokenizer '%s' %s",
                                    folder, i == 0 ? "<|end_of_text|>" : "I", path, options[i]),
                         0);
        ck_assert_msg(strstr(output, wants[i]) == output, "%s", output);
        free(output);
    }
}
END_TEST

Suite *test_tokenize_suite(void)
{
    Suite *s = suite_create("tokenize");
    TCase *c = tcase_create("program");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, tokenize);
    tcase_add_test(c, special_tokens_are_text_unless_wanted);
    suite_add_tcase(s, c);
    return s;
}
