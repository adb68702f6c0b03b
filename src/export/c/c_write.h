/* Format c: the files of an export. */
#ifndef DT__EXPORT_C_WRITE_H
#define DT__EXPORT_C_WRITE_H

#include "export/c/c_program.h"

#include <detent/experimental/io.h>
#include <detent/experimental/text.h>

#define DT__C_LONG_NAME 160  /* bytes of a name that is made of several */
#define DT__C_TEST_TOKENS 48 /* of the self-test of a language model */

/* What the files say of a model besides its program. */
typedef struct dt__c_about {
    const dt_export_call *call;
    dt__c_program *p;
    dt__chars body;                 /* statements of NAME_run */
    char name[DT__C_NAME];          /* of functions */
    char upper[DT__C_NAME];         /* of macros */
    const dt_model_data *data;      /* what it was trained on; NULL: not known */
    dt_features *features;          /* that its data computes of signals; NULL: none */
    float *frame;                   /* features of the self-test's frame */
    const dt_model_data *row;       /* that, or what is known of the only input */
    const dt_columns *table;        /* typed columns of the input; NULL: none */
    char (*field)[DT__C_LONG_NAME]; /* of NAME_fields, for each column */
    dt_field *cells;                /* of the self-test, [n_rows][columns] */
    float *row_x;                   /* what they become, [n_rows][width] */
    int64_t n_rows;
    float *expected[DT_MAX_OUT]; /* results of the self-test's examples, one after another */
    int examples;
    int64_t multiply_adds;
    const dt_tokenizer *tokenizer;    /* of a language model with text; NULL: no text */
    uint32_t sums[DT__C_TEST_TOKENS]; /* of logits, of a language model */
} dt__c_about;

/* The next n numbers of an example of the self-test, from -2 to 2 with six bits of fraction; *state
 * is dt__c_seed(example) at its beginning; rows > 0: whole numbers below it. */
uint32_t dt__c_seed(uint32_t example);
void dt__c_example(uint32_t *state, int64_t rows, int64_t n, float *x);

/* The same as codes of 8 bits. */
void dt__c_example_codes(uint32_t *state, int64_t n, int8_t *x);

void dt__c_put_header(const dt__c_about *a, dt__chars *to);
/* NAME.c in front of the constants, and behind them. */
void dt__c_put_source(const dt__c_about *a, dt__chars *to);
void dt__c_put_model_source(const dt__c_about *a, dt__chars *to);
/* The program of NAME_test.c; `word` is ARENA or STATE. */
void dt__c_put_test_main(const dt__c_about *a, const char *word, dt__chars *to);
void dt__c_put_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_readme(const dt__c_about *a, dt__chars *to);

/* The bits of n results that the self-test expects: expected_NAME. */
void dt__c_put_expected(dt__chars *to, const char *name, const float *v, int64_t n);

/* What NAME_run reads of the data (c_write_features.c): checks `data`, makes `features` and its
 * tables; the caller frees `features` and `frame`. Errors: FORMAT (not what the model reads),
 * NOMEM. */
dt_status dt__c_begin_data(dt__c_about *a);
/* Parts of the files; without features nothing. */
void dt__c_put_features_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_features_source(const dt__c_about *a, dt__chars *to);
void dt__c_put_features_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_features_check(const dt__c_about *a, dt__chars *to);

/* Typed columns: the fields of a row (c_write_columns.c), its part of the self-test and of the page
 * (c_write_rows.c); without columns nothing. ARG, NOMEM. */
dt_status dt__c_begin_columns(dt__c_about *a);
dt_status dt__c_make_rows(dt__c_about *a);
void dt__c_put_columns_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_columns_source(const dt__c_about *a, dt__chars *to);
void dt__c_put_rows_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_rows_check(const dt__c_about *a, dt__chars *to);
/* Whether a field is a double; an int otherwise. */
bool dt__c_is_real(const dt_column *c);
/* A literal of double with the bits of v. */
dt__c_name dt__c_double(double v);
/* A string literal of any bytes. */
void dt__c_put_string(dt__chars *to, const char *text);

/* A model of integers alone (c_write_device.c): sizes, scales and zero points of the header; its
 * prototypes; the memory that CMSIS-NN computes in, behind the arena's; the end of NAME_run. */
void dt__c_put_device_sizes(const dt__c_about *a, dt__chars *to);
extern const char dt__c_device_prototypes[], dt__c_device_end[];
/* Whether channels that are the first dimension of an input's data are the last in the file. */
bool dt__c_channels_last(const dt__c_about *a, const dt_model_data *d);
void dt__c_put_device_room(const dt__c_about *a, dt__chars *to);
/* NAME_quantize and NAME_dequantize. */
void dt__c_put_codes_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_codes_source(const dt__c_about *a, dt__chars *to);

/* The files of a language model (c_write_language.c), and the size of its vocabulary. */
int64_t dt__c_vocab(const dt__c_about *a);
void dt__c_put_language_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_language_run(const dt__c_about *a, dt__chars *to);
void dt__c_put_language_test(const dt__c_about *a, dt__chars *to);
void dt__c_put_language_readme(const dt__c_about *a, dt__chars *to);
void dt__c_put_text_header(const dt__c_about *a, dt__chars *to);
void dt__c_put_text_source(const dt__c_about *a, dt__chars *to);
/* What the self-test expects. */
dt_status dt__c_language_expected(dt__c_about *a);

/* A text in which @ stands for the name and $ for the name of macros. */
/* "float", or of a model of integers "int8_t". */
/* The name of input or output i in the model; NULL where it is the only one. */
const char *dt__c_end_name(const dt__c_program *p, bool output, int i);
const char *dt__c_element(const dt__c_program *p);
void dt__c_put_named(const dt__c_about *a, dt__chars *to, const char *text);
/* Blocks that statements name, as pointers into the bytes at `memory`. */
void dt__c_put_pointers(const dt__c_about *a, dt__chars *to);

/* Parts of the page (c_write_page.c): what the model file says of the model; the scheme of each
 * weight and of what it multiplies; the table of the arena; how the source may be compiled; what
 * the table says. */
void dt__c_put_model(const dt__c_about *a, dt__chars *to);
void dt__c_put_quantization(const dt__c_about *a, dt__chars *to);
void dt__c_put_map(const dt__c_about *a, dt__chars *to);
extern const char dt__c_flags_text[], dt__c_map_text[];

/* What builds the files, and what the model was trained on (c_write_build.c). */
void dt__c_put_makefile(const dt__c_about *a, dt__chars *to);
void dt__c_put_cmake(const dt__c_about *a, dt__chars *to);
void dt__c_put_data(const dt__c_about *a, dt__chars *to);

/* Breaks lines of code that are longer than 100 columns where a blank is. */
void dt__c_wrap(const dt__chars *from, dt__chars *to);
/* NAME_ARENA_BYTES: at least 8, as C has no empty array. */
size_t dt__c_arena_bytes(const dt__c_program *p);
/* "x", or "x1" where there are several. */
dt__c_name dt__c_given(const char *base, int i, int n);
/* " [3, 32, 32]" of a value, without the batch. */
void dt__c_put_extents(const dt__c_program *p, int64_t value, dt__chars *to);

#endif
