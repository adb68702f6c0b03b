/* Format c: the files of an export. */
#ifndef DT__EXPORT_C_WRITE_H
#define DT__EXPORT_C_WRITE_H

#include "export/c/c_program.h"

#include <detent/experimental/io.h>
#include <detent/experimental/text.h>

#define DT__C_LONG_NAME 160  /* size of names that consist of several */
#define DT__C_TEST_TOKENS 48 /* tokens in the self-test of a language model */

/* All that the files need besides the program. */
typedef struct dt__c_about {
    const dt_export_call *call;
    dt__c_program *p;
    dt__chars body;                 /* statements of NAME_run */
    char name[DT__C_NAME];          /* of functions */
    char upper[DT__C_NAME];         /* of macros */
    const dt_model_data *data;      /* metadata about its training data; NULL: unknown */
    dt_features *features;          /* features that are computed from signals; NULL: none */
    float *frame;                   /* features of one frame, for the self-test */
    const dt_model_data *row;       /* `data`, or the metadata of the only input */
    const dt_columns *table;        /* typed columns of the input; NULL: none */
    char (*field)[DT__C_LONG_NAME]; /* field names in NAME_fields, one per column */
    dt_field *cells;                /* rows of the self-test, [n_rows][columns] */
    float *row_x;                   /* these rows encoded, [n_rows][width] */
    int64_t n_rows;
    float *expected[DT_MAX_OUT]; /* results of the self-test's examples, one after the other */
    int examples;
    int64_t multiply_adds;
    /* of a language model that is exported with text; NULL: none */
    const dt_tokenizer *tokenizer;
    uint32_t sums[DT__C_TEST_TOKENS]; /* checksums of the logits of a language model */
} dt__c_about;

/* Generates the next n numbers of a self-test example, from -2 to 2 with six fractional bits;
 * *state begins as dt__c_seed(example); rows > 0: integers below it. */
uint32_t dt__c_seed(uint32_t example);
void dt__c_example(uint32_t *state, int64_t rows, int64_t n, float *x);

/* The same numbers as 8-bit codes. */
void dt__c_example_codes(uint32_t *state, int64_t n, int8_t *x);

void dt__c_put_header(const dt__c_about *a, dt__chars *to);
/* Writes NAME.c before the constants, and after them. */
void dt__c_put_source(const dt__c_about *a, dt__chars *to);
void dt__c_put_model_source(const dt__c_about *a, dt__chars *to);
/* Writes the program NAME_test.c; `word` is ARENA or STATE. */
void dt__c_put_test_main(const dt__c_about *a, const char *word, dt__chars *to);
void dt__c_put_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_readme(const dt__c_about *a, dt__chars *to);

/* Writes the table expected_NAME: the bits of n results of the self-test. */
void dt__c_put_expected(dt__chars *to, const char *name, const float *v, int64_t n);

/* What is computed from raw data before NAME_run (c_write_features.c): checks `data`, makes
 * `features` and its tables; the caller frees `features` and `frame`. Errors: FORMAT (not the
 * model's input), NOMEM. */
dt_status dt__c_begin_data(dt__c_about *a);
/* Parts of the files for features; nothing without features. */
void dt__c_put_features_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_features_source(const dt__c_about *a, dt__chars *to);
void dt__c_put_features_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_features_check(const dt__c_about *a, dt__chars *to);

/* Typed columns: the fields of a row (c_write_columns.c), its part of the self-test and of the page
 * (c_write_rows.c); nothing without typed columns. ARG, NOMEM. */
dt_status dt__c_begin_columns(dt__c_about *a);
dt_status dt__c_make_rows(dt__c_about *a);
void dt__c_put_columns_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_columns_source(const dt__c_about *a, dt__chars *to);
void dt__c_put_rows_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_rows_check(const dt__c_about *a, dt__chars *to);
/* Whether a field is a double; otherwise it is an int. */
bool dt__c_is_real(const dt_column *c);
/* A double literal with the bits of v. */
dt__c_name dt__c_double(double v);
/* A string literal of any bytes. */
void dt__c_put_string(dt__chars *to, const char *text);

/* Integer-only models (c_write_device.c): sizes, scales and zero points in the header; prototypes;
 * the memory for CMSIS-NN, behind the arena; the end of NAME_run. */
void dt__c_put_device_sizes(const dt__c_about *a, dt__chars *to);
extern const char dt__c_device_prototypes[], dt__c_device_end[];
/* Whether the file has channels last where the input's data have them first. */
bool dt__c_channels_last(const dt__c_about *a, const dt_model_data *d);
void dt__c_put_device_room(const dt__c_about *a, dt__chars *to);
/* Writes NAME_quantize and NAME_dequantize. */
void dt__c_put_codes_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_codes_source(const dt__c_about *a, dt__chars *to);

/* Writes the files of a language model (c_write_language.c); the size of its vocabulary. */
int64_t dt__c_vocab(const dt__c_about *a);
void dt__c_put_language_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_language_run(const dt__c_about *a, dt__chars *to);
void dt__c_put_language_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_language_readme(const dt__c_about *a, dt__chars *to);
void dt__c_put_text_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_text_source(const dt__c_about *a, dt__chars *to);
/* Computes the results that the self-test expects. */
dt_status dt__c_language_expected(dt__c_about *a);

/* Writes text in which @ is replaced by the name and $ by the name in macros. */
/* "float", or "int8_t" for an integer-only model. */
/* The name of input or output i in the model; NULL if it is the only one. */
const char *dt__c_end_name(const dt__c_program *p, bool output, int i);
const char *dt__c_element(const dt__c_program *p);
void dt__c_put_named(const dt__c_about *a, dt__chars *to, const char *text);
/* Declares the blocks that statements use, as pointers into the bytes at `memory`. */
void dt__c_put_pointers(const dt__c_about *a, dt__chars *to);

/* Parts of the page (c_write_page.c): the model's metadata; the schemes of each weight and its
 * input; the map of the arena; compiler options; notes about the table. */
void dt__c_put_model(const dt__c_about *a, dt__chars *to);
void dt__c_put_quantization(const dt__c_about *a, dt__chars *to);
void dt__c_put_map(const dt__c_about *a, dt__chars *to);
extern const char dt__c_flags_text[], dt__c_map_text[];

/* Writes the build files, and the metadata about training data (c_write_build.c). */
void dt__c_put_makefile(const dt__c_about *a, dt__chars *to);
void dt__c_put_cmake(const dt__c_about *a, dt__chars *to);
void dt__c_put_data(const dt__c_about *a, dt__chars *to);

/* Breaks lines of code that are longer than 100 columns at blanks. */
void dt__c_wrap(const dt__chars *from, dt__chars *to);
/* NAME_ARENA_BYTES: at least 8, as C has no empty array. */
size_t dt__c_arena_bytes(const dt__c_program *p);
/* "x", or "x1" if there are several. */
dt__c_name dt__c_given(const char *base, int i, int n);
/* Writes " [3, 32, 32]": extents of a value, without the batch. */
void dt__c_put_extents(const dt__c_program *p, int64_t value, dt__chars *to);

#endif
