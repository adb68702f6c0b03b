/* Buffered output of generated text (text_stream.h). Bytes pass unchanged, also invalid UTF-8. */
#include "cli/print/text_stream.h"

#include <stdlib.h>
#include <string.h>

dt_status text_stream_add(void *user, const char *text, size_t bytes)
{
    text_stream *s = user;
    if (bytes > s->room - s->n) {
        const size_t room = 2 * (s->n + bytes) + 64;
        char *grown = realloc(s->text, room);
        if (grown == NULL) return DT_ERR_NOMEM;
        s->text = grown;
        s->room = room;
    }
    if (bytes > 0) memcpy(s->text + s->n, text, bytes);
    s->n += bytes;
    return DT_OK;
}

/* Number of bytes at the end that belong to an incomplete character. */
static size_t incomplete(const char *text, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char c = (unsigned char)text[n - back];
        if (c < 0x80) return 0;
        if (c < 0xC0) continue; /* a continuation byte */
        const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        return length > back ? back : 0;
    }
    return 0;
}

/* Number of bytes at the end that are a prefix of `stop`. */
static size_t begun(const char *text, size_t n, const char *stop)
{
    const size_t length = strlen(stop);
    for (size_t k = length - 1 < n ? length - 1 : n; k > 0; k--) {
        if (memcmp(text + n - k, stop, k) == 0) return k;
    }
    return 0;
}

/* Position of `stop` in the text; n if it does not occur. */
static size_t find(const char *text, size_t n, const char *stop)
{
    const size_t length = strlen(stop);
    for (size_t i = 0; i + length <= n; i++) {
        if (memcmp(text + i, stop, length) == 0) return i;
    }
    return n;
}

static dt_status leave(text_stream *s, size_t n)
{
    if (s->to == NULL || n == 0) return DT_OK;
    const dt_status status = s->to(s->user, s->text, n);
    s->n -= n;
    memmove(s->text, s->text + n, s->n);
    return status;
}

dt_status text_stream_flush(text_stream *s)
{
    if (s->n == 0) return DT_OK;
    size_t held = incomplete(s->text, s->n);
    if (s->stop != NULL) {
        const size_t at = find(s->text, s->n, s->stop);
        if (at < s->n) {
            s->stopped = true;
            s->n = at;
            return leave(s, at);
        }
        const size_t part = begun(s->text, s->n, s->stop);
        if (part > held) held = part;
    }
    return leave(s, s->n - held);
}

dt_status text_stream_end(text_stream *s) { return leave(s, s->n); }

void text_stream_free(text_stream *s)
{
    free(s->text);
    *s = (text_stream){ .to = NULL };
}
