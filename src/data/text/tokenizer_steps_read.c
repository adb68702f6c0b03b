/* Reads and writes the normalizer and the pre_tokenizer of a tokenizer.json, and reads the decoder
 * of a sentencepiece vocabulary. */
#include "data/text/tokenizer.h"

#include <stdio.h>
#include <string.h>

dt_status dt__json_list(dt__json *j, const unsigned char *at, const char *what, const char *name,
                        const unsigned char **element, int *n)
{
    const char *const names[] = { "type", name, NULL };
    const unsigned char *field[2];
    j->at = at;
    *n = 0;
    DT__TRY(dt__json_fields(j, what, names, field));
    if (field[1] == NULL) return dt__json_fail(j, "%s.%s is missing", what, name);
    j->at = field[1];
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']'), ++*n) {
        if (*n == DT__MOST_STEPS) return dt__json_fail(j, "%s has too many steps", what);
        dt__json_peek(j); /* skips white space */
        element[*n] = j->at;
        DT__TRY(dt__json_skip(j));
    }
    return j->status;
}

typedef struct part {
    const char *name, *list; /* name of the part, and of the list in a Sequence */
    const dt__step_kind *kinds;
} part;

static part part_of(int i)
{
    const bool normal = i == DT__PART_NORMALIZER;
    return (part){ dt__tokenizer_part[i], normal ? "normalizers" : "pretokenizers",
                   normal ? dt__normalizers : dt__pre_tokenizers };
}

static dt_status unknown(const dt__json *j, const part *p, const char *where, const char *type)
{
    char shown[DT__SHOWN], known[160] = "";
    for (const dt__step_kind *k = p->kinds; k->name != NULL; k++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s, ", k->name);
    }
    return dt__json_fail(j, "%s: '%s' is not known here, only %sand a Sequence of them", where,
                         dt__shown(type, shown), known);
}

static dt_status read_step(dt__json *j, const part *p, const char *where, dt__step *s)
{
    const char *type;
    *s = (dt__step){ .kind = p->kinds };
    DT__TRY(dt__json_type(j, where, &type));
    while (s->kind->name != NULL && strcmp(s->kind->name, type) != 0) s->kind++;
    return s->kind->name == NULL ? unknown(j, p, where, type) : s->kind->read(j, where, s);
}

dt_status dt__steps_read(dt__json *j, const unsigned char *at, int i, dt__steps *out)
{
    const unsigned char *step[DT__MOST_STEPS] = { at };
    const part p = part_of(i);
    const char *type;
    out->n = 0;
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_type(j, p.name, &type));
    if (strcmp(type, "Sequence") != 0) {
        out->n = 1;
        return read_step(j, &p, p.name, &out->at[0]);
    }
    DT__TRY(dt__json_list(j, at, p.name, p.list, step, &out->n));
    for (int k = 0; k < out->n; k++) {
        char where[DT__SHOWN];
        snprintf(where, sizeof where, "%s.%s[%d]", p.name, p.list, k);
        j->at = step[k];
        DT__TRY(read_step(j, &p, where, &out->at[k]));
    }
    return DT_OK;
}

static void put_step(const dt__step *s, dt__chars *out)
{
    dt__put_text(out, "{\"type\":");
    dt__put_quoted(out, s->kind->name);
    if (s->kind->put != NULL) s->kind->put(s, out);
    dt__put_text(out, "}");
}

void dt__steps_put(const dt__steps *steps, int i, dt__chars *out)
{
    const part p = part_of(i);
    if (steps->n == 1) {
        put_step(&steps->at[0], out);
        return;
    }
    if (steps->n == 0) {
        dt__put_text(out, "null");
        return;
    }
    dt__put_text(out, "{\"type\":\"Sequence\",\"");
    dt__put_text(out, p.list);
    dt__put_text(out, "\":[");
    for (int k = 0; k < steps->n; k++) {
        if (k > 0) dt__put_text(out, ",");
        put_step(&steps->at[k], out);
    }
    dt__put_text(out, "]}");
}

#define DECODER                                                                                    \
    "decoder: of a model with byte_fallback a Sequence is known here: Replace U+2581 by a space, " \
    "ByteFallback, Fuse and, or not, Strip of spaces at the beginning"

/* Reads Strip: `start` spaces. */
static dt_status read_strip(dt__json *j, int *strip)
{
    enum { TYPE, CONTENT, START, STOP, KEYS };
    static const char *const names[] = { "type", "content", "start", "stop", NULL };
    const unsigned char *field[KEYS];
    const char *content = "";
    int64_t count[2] = { 0, 0 };
    DT__TRY(dt__json_fields(j, "decoder", names, field));
    if (field[CONTENT] != NULL) {
        j->at = field[CONTENT];
        DT__TRY(dt__json_string(j, &content));
    }
    const bool spaces = strcmp(content, " ") == 0;
    for (int i = 0; i < 2; i++) {
        if (field[START + i] == NULL) continue;
        j->at = field[START + i];
        DT__TRY(dt__json_integer(j, &count[i]));
    }
    if (!spaces || count[1] != 0 || count[0] > 1024) return dt__json_fail(j, DECODER);
    *strip = (int)count[0];
    return DT_OK;
}

dt_status dt__bpe_read_decoder(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    static const char *const want[] = { "Replace", "ByteFallback", "Fuse", "Strip" };
    const unsigned char *step[DT__MOST_STEPS];
    const part normal = part_of(DT__PART_NORMALIZER);
    const char *type;
    dt__step replace;
    int n;
    DT__TRY(dt__must_be_type(j, at, "decoder", "Sequence"));
    DT__TRY(dt__json_list(j, at, "decoder", "decoders", step, &n));
    bool known = n == 3 || n == 4;
    for (int i = 0; i < n && known; i++) {
        j->at = step[i];
        DT__TRY(dt__json_type(j, "decoder", &type));
        known = strcmp(type, want[i]) == 0;
        if (known && i == 3) DT__TRY(read_strip(j, &k->bpe.strip));
    }
    if (!known) return dt__json_fail(j, DECODER);
    j->at = step[0];
    DT__TRY(read_step(j, &normal, "decoder.decoders[0]", &replace));
    known = strcmp(replace.from, DT__SPACE_SIGN) == 0 && strcmp(replace.to, " ") == 0;
    return known ? DT_OK : dt__json_fail(j, DECODER);
}
