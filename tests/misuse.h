/* Calls of public functions with one bad argument. misuse.awk writes a call_ function for each,
 * which gets its arguments from here; test_misuse.c chooses the bad one. */
#ifndef MISUSE_H
#define MISUSE_H

#include <detent/experimental/data.h>
#include <detent/experimental/device.h>
#include <detent/experimental/export.h>
#include <detent/experimental/figures.h>
#include <detent/experimental/io.h>
#include <detent/experimental/keys.h>
#include <detent/experimental/layers.h>
#include <detent/experimental/machine.h>
#include <detent/experimental/ptq.h>
#include <detent/experimental/plugin.h>
#include <detent/experimental/report.h>
#include <detent/experimental/sweep.h>
#include <detent/experimental/tables.h>
#include <detent/experimental/text.h>
#include <detent/experimental/train.h>

#include <setjmp.h>
#include <string.h>

/* What is wrong with the bad argument. */
typedef enum misuse_wrong {
    MISUSE_NOTHING,
    MISUSE_NULL,    /* of a pointer */
    MISUSE_INTEGER, /* of a number: `integer` or `real` below */
    MISUSE_DTYPE,   /* of a tensor: i32 in place of f32 */
    MISUSE_SCALAR,  /* rank 0 */
    MISUSE_RANK,    /* rank 8 */
    MISUSE_EMPTY,   /* no elements */
    MISUSE_CONTEXT  /* made with another context */
} misuse_wrong;

typedef struct misuse {
    int bad; /* the argument */
    misuse_wrong wrong;
    int64_t integer;
    double real;
    /* results */
    dt_status status;
    const void *returned;
    /* objects of this call, made when they are needed */
    dt_ctx *ctx, *other;
    dt_tape *tape;
    dt_module *module;
    const char *lacks; /* a type of which no object can be made; then the call is skipped */
    jmp_buf back;
} misuse;

typedef struct misuse_call {
    const char *name;
    void (*call)(misuse *m);
    const char *kinds; /* a letter an argument: p pointer, t tensor, i integer, d double, - other */
    const char *names; /* of the arguments, with commas between */
    char result;       /* s status, p pointer, - other */
} misuse_call;

typedef struct misuse_good {
    const char *type;
    void (*fill)(void *to);
} misuse_good;

extern const misuse_call misuse_calls[];    /* ends with a name of NULL */
extern const misuse_good misuse_defaults[]; /* structs that have defaults; ends likewise */

bool misuse_is_null(const misuse *m, int argument);
int64_t misuse_integer(const misuse *m, int argument);
double misuse_real(const misuse *m, int argument);

/* A good value of a type "dt_tensor" with `stars` stars, or NULL where this argument shall be. */
void *misuse_pointer(misuse *m, int argument, const char *type, int stars);

/* Callbacks that do nothing. */
typedef void (*dt_drop_user)(dt_ctx *ctx, void *user);
void good_dt_cost_fn(void *user, const dt_cost_row *row);
void good_dt_drop_user(dt_ctx *ctx, void *user);
void good_dt_figures_visit(void *user, const dt_layer_figures *layer);
dt_tensor *good_dt_hook(void *user, dt_tape *t, dt_module *m, dt_tensor *x);
void good_dt_layer_visit(void *user, const dt_layer_row *row);
void good_dt_option_fault(void *user, const char *path, const char *text);
dt_status good_dt_sink(void *user, const char *text, size_t bytes);
dt_status good_dt_visit_module(void *user, const char *path, dt_module *m);
dt_status good_dt_visit_slot(void *user, const char *slot, const char *path, dt_tensor *x);
dt_status good_dt_visit_tensor(void *user, const char *path, dt_tensor *x, dt_entry_kind kind);
void good_dt_work_told(void *user, const dt_work_state *state);

#endif
