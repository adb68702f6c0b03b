/* Failures by call site. A call of the library for memory, or a system call, fails: it alone, or it
 * and all later ones. The call sites of a call are the return addresses on its stack. A first pass
 * finds a set of calls whose stacks contain every call site at least once; in each further pass one
 * of them fails. So a few passes try each check of a result, at each level above a call that can
 * fail.
 *
 * The linker replaces the functions by those of failing_calls.c (--wrap, tests/CMakeLists.txt).
 * Memory of the library fails before the block pool, which could serve it from a free block. Only
 * calls of the requesting thread count. */
#ifndef FAILING_CALLS_H
#define FAILING_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FAILING_MEMORY = 1, /* dt__alloc and its like */
    FAILING_MALLOC = 2, /* malloc, calloc, realloc, of libraries too */
    FAILING_SYSTEM = 4  /* files, folders, threads */
};

/* What fails in the pass that begins, until failing_end. Of the stack only frames below the caller
 * of failing_begin count, so all passes of a test must begin in one place. */
#define FAILING_FIND (-1)
typedef struct failing_call {
    int64_t i;      /* which of the calls that were found; FAILING_FIND: none, they are looked for,
                     * without sites that earlier passes of this process found */
    unsigned kinds; /* kinds of calls; the same in all passes */
    bool lasts;     /* all later calls fail, too: system calls of the same function */
    int error;      /* errno */
} failing_call;
void failing_begin(failing_call c);
/* Whether a call failed. */
bool failing_end(void);
/* Whether the caller of the failed call can do without the memory: OK is a correct result, too. */
bool failing_is_forgiven(void);

/* How many calls were found: one is to fail in a pass. */
int64_t failing_found(void);

/* Whether the next call of this kind is to fail; then errno is set. */
bool failing_now(unsigned kind);

/* What fails, for a message: the name of the function, or "malloc". */
const char *failing_name(void);

#endif
