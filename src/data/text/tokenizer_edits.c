/* Edits of text before it is tokenized: normalizers, and what Metaspace does to spaces.
 *
 *   NFC, NFD, NFKC, NFKD   Unicode's normalization forms, by utf8proc; invalid UTF-8 is kept
 *   Prepend, Replace       a string before a text; a string for each occurrence of another
 *   Metaspace              a sign for each space, and before the text */
#include "core/text/utf8.h"
#include "data/text/tokenizer.h"

#include <string.h>
#include <utf8proc.h>

bool dt__text_begins(const unsigned char *p, const unsigned char *end, const char *text)
{
    const size_t n = strlen(text);
    return (size_t)(end - p) >= n && memcmp(p, text, n) == 0;
}

dt_status dt__edit_prepend(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed)
{
    *changed = in->at < in->end;
    if (!*changed) return DT_OK;
    dt__put_text(out, s->to);
    dt__put(out, (const char *)in->at, (size_t)(in->end - in->at));
    return DT_OK;
}

static void put_replaced(const dt__passage *in, const char *from, const char *to, dt__chars *out)
{
    const unsigned char *kept = in->at; /* not copied yet from here on */
    for (const unsigned char *p = in->at; p < in->end;) {
        if (!dt__text_begins(p, in->end, from)) {
            p++;
            continue;
        }
        dt__put(out, (const char *)kept, (size_t)(p - kept));
        dt__put_text(out, to);
        kept = p += strlen(from);
    }
    dt__put(out, (const char *)kept, (size_t)(in->end - kept));
}

dt_status dt__edit_replace(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed)
{
    *changed = true;
    put_replaced(in, s->from, s->to, out);
    return DT_OK;
}

dt_status dt__edit_sign_spaces(const dt__step *s, const dt__passage *in, dt__chars *out,
                               bool *changed)
{
    const bool signed_ =
        dt__text_begins(in->at, in->end, s->to) || dt__text_begins(in->at, in->end, " ");
    *changed = true;
    if (!signed_ && (s->choice == DT__ALWAYS || (s->choice == DT__FIRST && in->first))) {
        dt__put_text(out, s->to);
    }
    put_replaced(in, " ", s->to, out);
    return DT_OK;
}

/* Normalizes UTF-8. */
static dt_status put_normal(utf8proc_option_t form, const unsigned char *p, size_t bytes,
                            dt__chars *out)
{
    const utf8proc_ssize_t n = utf8proc_decompose(p, (utf8proc_ssize_t)bytes, NULL, 0, form);
    if (n < 0) return dt_fail(out->ctx, DT_ERR_ARG, "encode: %s", utf8proc_errmsg(n));
    utf8proc_int32_t *room = dt__alloc_array(out->ctx, n + 1, sizeof *room);
    if (room == NULL) return DT_ERR_NOMEM;
    utf8proc_decompose(p, (utf8proc_ssize_t)bytes, room, n, form);
    const utf8proc_ssize_t used = utf8proc_reencode(room, n, form);
    dt__put(out, (const char *)room, used < 0 ? 0 : (size_t)used);
    dt__release(out->ctx, room);
    return DT_OK;
}

/* bytes that are normalized at a time, extended to the end of the line */
#define RUN ((ptrdiff_t)1 << 16)

static dt_status normalize(utf8proc_option_t form, const dt__passage *in, dt__chars *out,
                           bool *changed)
{
    const unsigned char *p = in->at, *const end = in->end;
    while (p < end && *p < 0x80) p++;
    *changed = p < end; /* ASCII text is normalized in every form */
    for (p = in->at; *changed && p < end;) {
        const unsigned char *q = p;
        for (int n; q < end && (n = dt__utf8_length(q, end)) > 0; q += n) {
            if (q - p >= RUN && q[-1] == '\n') break; /* nothing is composed with a line break */
        }
        if (q > p) DT__TRY(put_normal(form, p, (size_t)(q - p), out));
        if (q == p) dt__put(out, (const char *)q++, 1);
        p = q;
    }
    return DT_OK;
}

#define FORM(name, options)                                                                        \
    dt_status name(const dt__step *s, const dt__passage *in, dt__chars *out, bool *changed)        \
    {                                                                                              \
        (void)s;                                                                                   \
        return normalize(UTF8PROC_STABLE | (options), in, out, changed);                           \
    }

FORM(dt__edit_nfc, UTF8PROC_COMPOSE)
FORM(dt__edit_nfd, UTF8PROC_DECOMPOSE)
FORM(dt__edit_nfkc, UTF8PROC_COMPOSE | UTF8PROC_COMPAT)
FORM(dt__edit_nfkd, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)

dt_status dt__steps_edit(const dt__steps *steps, dt__passage *t, dt__chars room[2])
{
    int at = 0;
    for (int i = 0; i < steps->n; i++) {
        const dt__step *s = &steps->at[i];
        bool changed = false;
        if (s->kind->edit == NULL) continue;
        room[at].used = 0;
        DT__TRY(s->kind->edit(s, t, &room[at], &changed));
        if (room[at].failed) return DT_ERR_NOMEM;
        if (!changed) continue;
        t->at = (const unsigned char *)room[at].bytes;
        t->end = t->at + room[at].used;
        at = 1 - at;
    }
    return DT_OK;
}
