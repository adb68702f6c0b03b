/* Format c: the program that is being written. Emitters include only c_emit.h. */
#ifndef DT__EXPORT_C_PROGRAM_H
#define DT__EXPORT_C_PROGRAM_H

#include "export/c/c_codes.h"

/* Where a value is stored: `offset` elements behind the start of an input, an output, a table, or a
 * block. */
typedef enum dt__c_home { DT__C_NOWHERE, DT__C_INPUT, DT__C_TABLE, DT__C_BLOCK } dt__c_home;
typedef struct dt__c_place {
    dt__c_home home;
    int64_t index;
    int64_t offset;
} dt__c_place;

/* Points of time for planning memory: a call first reads, then writes. Its result may overwrite
 * blocks that are last used at the call's read. */
#define DT__C_READS(call) (2 * (call))
#define DT__C_WRITES(call) (2 * (call) + 1)

/* A block of the arena, or an output. It may contain several values. */
typedef struct dt__c_block {
    char name[24];
    const char *type;    /* of its elements */
    int64_t n;           /* elements */
    size_t size;         /* of one */
    int64_t first, last; /* lifetime: DT__C_READS or DT__C_WRITES of calls */
    int64_t value;       /* the first value in it; -1: scratch memory of one call */
    int output;          /* index of the output that it is; -1: in the arena */
    size_t at;           /* offset in the arena, in bytes */
    bool used;           /* a statement names it */
    bool gone;           /* its values were moved to another block */
} dt__c_block;

/* Type of the numbers in a table (c_tables.c). */
typedef struct dt__c_number dt__c_number;

/* A table of constants, which the self-test's checksum covers. */
typedef struct dt__c_table {
    char name[24];
    const dt__c_number *of;
    int64_t n;
    void *values; /* owned */
    size_t at;    /* offset in `constants` where its rows are inserted */
} dt__c_table;

/* The table of a product's weight. */
typedef struct dt__c_matrix {
    int64_t value, bias;
    bool by_codes;  /* the other operand has codes */
    bool by_blocks; /* with a scale per block */
    dt__c_weight weight;
} dt__c_matrix;

/* The grid of a static range, or the format of blocks of small floats. */
typedef struct dt__c_static {
    const dt_tensor *scale, *zero_point;
    /* scheme of the small floats, with its type of scale; NULL: a grid */
    const struct dt__scheme *blocks;
    int scale_dtype;
    dt__c_name name;
} dt__c_static;

struct dt__c_program {
    dt_ctx *ctx;
    int64_t printed; /* numbers of its tables that were written so far */
    dt_status status;
    const dt_trace *trace;
    const dt_export_options *options;
    bool device;        /* integer-only model (c_device.h) */
    int64_t length;     /* tokens */
    int64_t at;         /* the call that is being written */
    bool *wanted;       /* texts */
    bool *tabled;       /* for each value: its table was written */
    struct dt__c_took { /* what each call added to the export */
        size_t flash;   /* bytes of tables */
        int64_t lines;  /* 0: the result is an alias of an operand */
    } * took;
    unsigned grids;     /* bit set of the functions for dynamic ranges that were written */
    dt__c_place *place; /* of each value */
    dt__c_block *block;
    int64_t n_blocks, room_blocks;
    dt__c_table *table;
    int64_t n_tables, room_tables;
    dt__c_matrix *matrix;
    int64_t n_matrices, room_matrices;
    dt__c_static *fixed;
    int64_t n_fixed, room_fixed;
    char **line; /* statements; owned */
    int64_t n_lines, room_lines;
    dt__chars constants; /* without the rows of tables */
    dt__chars functions;
    size_t flash, arena; /* bytes of tables; of the arena */
    size_t cmsis;        /* scratch bytes for CMSIS-NN, behind the arena */
    uint32_t checksum;   /* of the tables */
    int64_t loops;       /* statements that were folded into loops */
    /* statements after the last keys and values are in a block that prompts skip */
    bool skips;
    int64_t integer_products, float_products;
};

/* Makes the program of a trace: places, statements, the plan of the arena (export_c.c). To be freed
 * with dt__c_program_free, also after an error. */
dt_status dt__c_program_make(const dt_export_call *call, dt__c_program *p);
/* What each call of a trace costs (c_costs.c): dt_export_costs. */
dt_status dt__c_costs(const dt_export_call *call, dt_cost_fn each, void *user, dt_costs *out);

/* Places values in blocks (c_places.c), before the first emitter. */
dt_status dt__c_place_values(dt__c_program *p);
/* Writes all calls as lines. */
dt_status dt__c_emit_calls(dt__c_program *p);
/* Adds statements that copy outputs which are not in the caller's memory. */
void dt__c_copy_outputs(dt__c_program *p);
/* Bytes of a descriptor `static const TYPE NAME = { ... }` of 4-byte fields, on a 32-bit processor;
 * 0 for any other text. */
size_t dt__c_descriptor_bytes(const char *text);
/* The name of the text that computes a table's checksum. */
const char *dt__c_check_of(const dt__c_table *t);
/* Appends rows of a table from number `from` on, until `to` has `most` bytes and a row is complete.
 * Returns the next number. */
int64_t dt__c_put_rows(const dt__c_table *t, int64_t from, size_t most, dt__chars *to);
/* Places blocks in the arena. */
dt_status dt__c_plan(dt__c_program *p);
/* Writes the lines, repeated ones as loops (c_fold.c); marks the blocks that they use. */
void dt__c_put_lines(dt__c_program *p, dt__chars *to);
void dt__c_program_free(dt__c_program *p);

/* ---- language models (c_emit_language.c) ----------------------------------------------------- */

/* The largest number of tokens. */
int64_t dt__c_context(const dt__c_program *p);
/* Whether a call computes each token independently. */
bool dt__c_takes_token(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);

int64_t dt__c_block_add(dt__c_program *p, const dt__c_block *b);
/* Sets p->status unless there was an error before. */
void dt__c_fail(dt__c_program *p, dt_status s);
void dt__c_printf(dt__chars *to, const char *format, ...) DT_PRINTF(2, 3);

/* In a line, an address in a block is written as MARK index : offset END; input i is block -1 -
 * i. */
#define DT__C_MARK '\001'
#define DT__C_END '\002'

/* ---- names of strangers ---------------------------------------------------------------------- */

#define DT__C_NAME 32 /* size of names that detent makes */
/* Makes an identifier: letters, digits and _ of `from`, not beginning with a digit; "model" if
 * nothing is left; followed by _ if C, its headers or the texts use the name. */
void dt__c_identifier(const char *from, char to[DT__C_NAME]);
/* Makes text safe for a comment: it cannot end the comment, continue a line or be a trigraph.
 * Truncated if too long; returns `to`. */
#define DT__C_COMMENT 96
const char *dt__c_comment(const char *from, char to[DT__C_COMMENT]);

/* Estimated instructions of a call for one example on a Cortex-M4 (c_instructions.c). */
double dt__c_instructions(const dt__c_program *p, const dt_trace_call *c);

#endif
