/* Models exported as C: the folder is compiled, and its self-test, which compares bits with
 * dt_forward, is run; or NAME_run is called on values of the test's own. */
#ifndef C_FOLDER_H
#define C_FOLDER_H

#include "testing.h"

#include <detent/experimental/export.h>

/* Compiler flags: warnings are errors. */
#define C_STRICT                                                                                   \
    "-std=c99 -pedantic -Wall -Wextra -Wconversion -Wshadow -Wbad-function-cast -Werror"

/* A model, its inputs, and how it is called. */
typedef struct c_subject {
    dt_module *m;
    dt_tensor *const *x;
    int n_in, n_out;
    const char *name; /* of the files */
} c_subject;

dt_status c_trace_of(const c_subject *o, dt_trace **out);
/* Exports a model, which need not have a family: `info` may be NULL. */
dt_status c_export(const c_subject *o, const dt_model_info *info, const char *path);

/* A path in a new folder; nothing exists there. */
void c_new_folder(char path[TEST_PATH]);
/* Compiles the folder `path`, whose files are named net, and runs the self-test. */
void c_check_folder(const char *path, const char *cc, const char *what);
/* Exports a model of one input and output, and checks the folder. */
void c_check_model(dt_module *m, dt_tensor *x, const char *cc, const char *what);

typedef int c_run_function(const float *x, float *y, void *arena);

/* net_run of a folder, and memory for it. */
typedef struct c_loaded {
    void *library, *arena;
    c_run_function *run;
} c_loaded;

typedef void c_any_function(void);

c_loaded c_load(const char *path, const char *cc);
/* A function of the folder by its name, to be cast. */
c_any_function *c_function_of(const c_loaded *l, const char *name);
void c_unload(c_loaded *l);

#endif
