/* Failures by call site. A call of the library for memory, or a call of the system, fails: it
 * alone, or it and all that follow. The call sites on the way to a call are the return addresses
 * on the stack. A first pass finds calls on whose ways every site lies at least once; then one of
 * them fails in each further pass. So few passes try each check of a result, at each level above a
 * call that can fail.
 *
 * The linker puts the functions of failing_calls.c in the place of those that they stand for
 * (--wrap, tests/CMakeLists.txt). Memory of the library fails in front of the block pool, which
 * would hand out a block of its own. Only calls of the thread that asked count. */
#ifndef FAILING_CALLS_H
#define FAILING_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FAILING_MEMORY = 1, /* dt__alloc and its like */
    FAILING_MALLOC = 2, /* malloc, calloc, realloc, of libraries too */
    FAILING_SYSTEM = 4  /* files, folders, threads */
};

/* What fails in the pass that begins, until failing_end. Of the stack only what is called by the
 * caller of failing_begin counts, so all passes of one thing begin in one place. */
#define FAILING_FIND (-1)
typedef struct failing_call {
    int64_t i;      /* which of the calls that were found; FAILING_FIND: none, they are looked for,
                     * without sites that earlier passes of this process found */
    unsigned kinds; /* that are looked for; of the same kinds when a call fails */
    bool lasts;     /* and all that follow: of the system those of the same function */
    int error;      /* errno */
} failing_call;
void failing_begin(failing_call c);
/* Whether a call failed. */
bool failing_end(void);
/* Whether the call that failed was one whose caller does without the memory: OK is right, too. */
bool failing_is_forgiven(void);

/* How many calls were found: one is to fail in a pass. */
int64_t failing_found(void);

/* Whether the call of this kind that is about to be made fails; then errno is set. */
bool failing_now(unsigned kind);

/* What fails, for a message: the name of the function, or "malloc". */
const char *failing_name(void);

#endif
