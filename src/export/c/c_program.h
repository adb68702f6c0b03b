/* Format c: the program that is being written. Emitters see c_emit.h alone. */
#ifndef DT__EXPORT_C_PROGRAM_H
#define DT__EXPORT_C_PROGRAM_H

#include "export/c/c_codes.h"

/* Where a value lies: `offset` elements behind an input, an output, a table, or a block. */
typedef enum dt__c_home { DT__C_NOWHERE, DT__C_INPUT, DT__C_TABLE, DT__C_BLOCK } dt__c_home;
typedef struct dt__c_place {
    dt__c_home home;
    int64_t index;
    int64_t offset;
} dt__c_place;

/* The time of a plan: a call reads, then it writes. Blocks of the first half alone may be written
 * over by its result. */
#define DT__C_READS(call) (2 * (call))
#define DT__C_WRITES(call) (2 * (call) + 1)

/* A piece of the arena, or an output. Several values may lie in one. */
typedef struct dt__c_block {
    char name[24];
    const char *type;    /* of its elements */
    int64_t n;           /* elements */
    size_t size;         /* of one */
    int64_t first, last; /* DT__C_READS or DT__C_WRITES of calls */
    int64_t value;       /* the first that lies in it; -1: memory of one call */
    int output;          /* it is an output, and not in the arena; -1: in the arena */
    size_t at;           /* offset in the arena, in bytes */
    bool used;           /* a statement names it */
    bool gone;           /* its values moved into another one */
} dt__c_block;

/* What the numbers of a table are (c_tables.c). */
typedef struct dt__c_number dt__c_number;

/* A table of constants, which the self-test's checksum covers. */
typedef struct dt__c_table {
    char name[24];
    const dt__c_number *of;
    int64_t n;
    void *values; /* owned */
    size_t at;    /* where its rows belong in `constants` */
} dt__c_table;

/* The table of a weight that a product multiplies. */
typedef struct dt__c_matrix {
    int64_t value, bias;
    bool by_codes;  /* what it is multiplied by has codes */
    bool by_blocks; /* in blocks */
    dt__c_weight weight;
} dt__c_matrix;

/* The grid of a static range, or the format of blocks of small floats. */
typedef struct dt__c_static {
    const dt_tensor *scale, *zero_point;
    const struct dt__scheme *blocks; /* of the format, NULL: a grid; with the type of its scales */
    int scale_dtype;
    dt__c_name name;
} dt__c_static;

struct dt__c_program {
    dt_ctx *ctx;
    int64_t printed; /* numbers of its tables, in the file that is written */
    dt_status status;
    const dt_trace *trace;
    const dt_export_options *options;
    bool device;        /* codes from layer to layer (c_device.h) */
    int64_t length;     /* tokens */
    int64_t at;         /* the call that is being written */
    bool *wanted;       /* texts */
    bool *tabled;       /* of each value: its table is written */
    struct dt__c_took { /* what each call added */
        size_t flash;   /* bytes of tables */
        int64_t lines;  /* 0: its result is its operand under another name */
    } * took;
    unsigned grids;     /* functions of dynamic ranges that are written */
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
    size_t cmsis;        /* behind the arena, where CMSIS-NN computes */
    uint32_t checksum;   /* of the tables */
    int64_t loops;       /* statements that were folded into loops */
    bool skips;          /* what follows the last keys and values is in a block of its own */
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
/* Copies outputs that lie elsewhere to the caller's memory. */
void dt__c_copy_outputs(dt__c_program *p);
/* Bytes of a descriptor, `static const TYPE NAME = { ... }` of 4-byte fields, as on a processor of
 * 32 bits; 0 of any other text. */
size_t dt__c_descriptor_bytes(const char *text);
/* The text that computes a table's checksum. */
const char *dt__c_check_of(const dt__c_table *t);
/* Appends rows of a table from number `from` on, until `to` holds `most` bytes and a row is full.
 * Returns the number behind them. */
int64_t dt__c_put_rows(const dt__c_table *t, int64_t from, size_t most, dt__chars *to);
/* Places blocks in the arena. */
dt_status dt__c_plan(dt__c_program *p);
/* Writes the lines (c_fold.c), repeated ones as loops; marks the blocks that they name. */
void dt__c_put_lines(dt__c_program *p, dt__chars *to);
void dt__c_program_free(dt__c_program *p);

/* ---- language models (c_emit_language.c) ----------------------------------------------------- */

/* The most tokens of a text. */
int64_t dt__c_context(const dt__c_program *p);
/* Whether a call computes each token by itself. */
bool dt__c_takes_token(const dt_trace *t, const dt_trace_call *c, char *why, size_t size);

int64_t dt__c_block_add(dt__c_program *p, const dt__c_block *b);
/* Keeps the first error. */
void dt__c_fail(dt__c_program *p, dt_status s);
void dt__c_printf(dt__chars *to, const char *format, ...) DT_PRINTF(2, 3);

/* In a line, a place in a block is written as MARK index : offset END; in input i as of block -1 -
 * i. */
#define DT__C_MARK '\001'
#define DT__C_END '\002'

/* ---- names of strangers ---------------------------------------------------------------------- */

#define DT__C_NAME 32 /* bytes of a name of ours */
/* The name of an export: letters, digits and _ of `from`, not beginning with a digit; "model" where
 * nothing is left; with _ behind it where C, its headers or the texts have that name. */
void dt__c_identifier(const char *from, char to[DT__C_NAME]);
/* Text for a comment: nothing in it ends the comment, continues a line or is a trigraph. Cut if it
 * is longer; returns `to`. */
#define DT__C_COMMENT 96
const char *dt__c_comment(const char *from, char to[DT__C_COMMENT]);

/* Instructions of the C of a call, estimated. */
/* Of one call for one example, on a Cortex-M4 (c_instructions.c). */
double dt__c_instructions(const dt__c_program *p, const dt_trace_call *c);

#endif
