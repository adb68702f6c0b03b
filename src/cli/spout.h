/* Text that grows token by token, on its way to stdout: bytes leave as soon as nobody can want them
 * back. */
#ifndef SPOUT_H
#define SPOUT_H

#include <detent/detent.h>

#define SPOUT_MOST 4096 /* bytes of a stop text */

typedef struct spout {
    dt_sink to; /* NULL: everything is kept, in `text` */
    void *user;
    const char *stop; /* nothing leaves from where it begins; NULL: none */
    char *text;       /* what has not left yet */
    size_t n, room;
    bool stopped; /* `stop` has come */
} spout;

/* A dt_sink whose user is a spout. NOMEM where there is no room. */
dt_status spout_add(void *s, const char *text, size_t bytes);
/* Between tokens: what is complete leaves. Held back are the beginning of a stop text and of a
 * UTF-8 character. */
dt_status spout_flow(spout *s);
/* No more will come: the rest leaves. */
dt_status spout_end(spout *s);
void spout_free(spout *s);

#endif
