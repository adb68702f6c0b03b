/* A buffer for generated text: writes bytes to stdout as soon as they can be neither part of the
 * stop text nor of an incomplete character. */
#ifndef TEXT_STREAM_H
#define TEXT_STREAM_H

#include <detent/experimental/detent.h>

#define TEXT_STREAM_MOST 4096 /* bytes of a stop text */

typedef struct text_stream {
    dt_sink to; /* NULL: keeps everything in `text` */
    void *user;
    const char *stop; /* output ends before it; NULL: none */
    char *text;       /* bytes not written yet */
    size_t n, room;
    bool stopped; /* `stop` was found */
} text_stream;

/* A dt_sink whose user is a text_stream. Errors: NOMEM. */
dt_status text_stream_add(void *s, const char *text, size_t bytes);
/* Writes what is complete; called between tokens. Holds back a prefix of the stop text, and an
 * incomplete UTF-8 character. */
dt_status text_stream_flush(text_stream *s);
/* Writes the rest, at the end of the text. */
dt_status text_stream_end(text_stream *s);
void text_stream_free(text_stream *s);

#endif
