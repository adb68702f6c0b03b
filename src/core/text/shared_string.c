/* Shared strings: paths of modules and names of tensors, which several owners hold. The reference
 * count lies in front of the characters, so that owners hold a plain `const char *`. */
#include "core/core.h"

#include <stdio.h>

typedef struct shared_text {
    atomic_int refs;
    dt_ctx *ctx; /* retained: the last owner may be a tape of another context */
    char text[];
} shared_text;

static shared_text *header_of(const char *text)
{
    return (shared_text *)(void *)((char *)(uintptr_t)text - offsetof(shared_text, text));
}

const char *dt__text(dt_ctx *ctx, const char *format, ...)
{
    va_list a, b;
    va_start(a, format);
    va_copy(b, a);
    const int length = vsnprintf(NULL, 0, format, a);
    const size_t size = length < 0 ? 0 : (size_t)length + 1;
    shared_text *s = length < 0 ? NULL : dt__alloc(ctx, sizeof *s + size);
    if (s != NULL) {
        atomic_init(&s->refs, 1);
        s->ctx = ctx;
        dt__ctx_retain(ctx);
        vsnprintf(s->text, size, format, b);
    }
    va_end(b);
    va_end(a);
    return s == NULL ? NULL : s->text;
}

const char *dt__text_retain(const char *text)
{
    if (text != NULL) atomic_fetch_add(&header_of(text)->refs, 1);
    return text;
}

void dt__text_release(const char *text)
{
    if (text == NULL || atomic_fetch_sub(&header_of(text)->refs, 1) != 1) return;
    dt_ctx *ctx = header_of(text)->ctx;
    dt__release(ctx, header_of(text));
    dt__ctx_release(ctx);
}
