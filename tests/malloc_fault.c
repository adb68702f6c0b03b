/* malloc, calloc and realloc that can fail. A definition in the program comes before the C
 * library's for every shared library too, so this reaches libyaml, jansson and zlib. glibc keeps
 * its own under the names __libc_*. A sanitizer brings an allocator of its own: then nothing is
 * replaced. */
#include "failing_calls.h"
#include "testing.h"

#include <errno.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#elif __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#if !defined(__GLIBC__)
#define SANITIZED 1
#endif

/* Only for the thread that requested it. */
static _Thread_local int64_t calls, fail_at;

void test_malloc_fail_at(int64_t n)
{
    calls = 0;
    fail_at = n;
}

int64_t test_malloc_calls(void) { return calls; }

#ifdef SANITIZED
bool test_malloc_can_fail(void)
{
    test_skip("failures of malloc: it is not glibc's here");
    return false;
}
#else
bool test_malloc_can_fail(void) { return true; }

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t bytes);

static bool fails(void)
{
    if (failing_now(FAILING_MALLOC)) return true;
    if (++calls != fail_at) return false;
    errno = ENOMEM;
    return true;
}

DT_API void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
DT_API void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}
DT_API void *realloc(void *old, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(old, bytes);
}
#endif
