/* Reads the tokens that a tokenizer.json adds before and after a text: its post_processor. */
#include "data/text/tokenizer.h"

#include <string.h>

#define MOST_PIECES 64

typedef struct template
{
    dt__json *j;
    dt_tokenizer *k;
    const unsigned char *map; /* special_tokens: the ids of each name; NULL: missing */
    int pieces;
    bool text; /* the position of the text has been read */
}
template;

/* Moves to the value of a name in special_tokens. */
static dt_status find_special(template *t, const char *wanted)
{
    dt__json *j = t->j;
    char shown[DT__SHOWN];
    bool more = t->map != NULL;
    if (more) {
        j->at = t->map;
        more = dt__json_open(j, '{');
        DT__TRY(j->status);
    }
    for (; more; more = dt__json_more(j, '}')) {
        const char *name;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &name));
        j->strings = strings;
        if (strcmp(name, wanted) == 0) return DT_OK;
        DT__TRY(dt__json_skip(j));
    }
    if (t->map != NULL) DT__TRY(j->status);
    return dt__json_fail(j, "post_processor: special_tokens does not have '%s'",
                         dt__shown(wanted, shown));
}

static dt_status read_special(template *t, const char *name)
{
    enum { ID, IDS, TOKENS, KEYS };
    static const char *const names[] = { "id", "ids", "tokens", NULL };
    const unsigned char *field[KEYS];
    dt__json *j = t->j;
    dt_ids *to = t->text ? &t->k->after : &t->k->before;
    char shown[DT__SHOWN];
    DT__TRY(find_special(t, name));
    DT__TRY(dt__json_fields(j, "special_tokens", names, field));
    if (field[IDS] == NULL) return dt__json_fail(j, "post_processor: a token without ids");
    j->at = field[IDS];
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        int32_t id;
        DT__TRY(dt__read_id(j, name, &id));
        if (id >= t->k->vocab || !t->k->token[id].there) {
            return dt__json_fail(j, "post_processor: '%s' is %d, which is not a token",
                                 dt__shown(name, shown), id);
        }
        if (to->n == MOST_PIECES) return dt__json_fail(j, "post_processor: too many tokens");
        DT__TRY(dt_ids_put(to, id));
    }
    return j->status;
}

static dt_status read_text(template *t, const char *name)
{
    if (strcmp(name, "A") != 0) {
        return dt__json_fail(t->j, "post_processor: a second text where there is one");
    }
    if (t->text) return dt__json_fail(t->j, "post_processor: the text occurs twice");
    t->text = true;
    return DT_OK;
}

/* {"SpecialToken": {"id": name}} or {"Sequence": {"id": "A"}}. */
static dt_status read_piece(template *t)
{
    static const char *const kinds[] = { "SpecialToken", "Sequence", NULL };
    static const char *const names[] = { "id", "type_id", NULL };
    const unsigned char *kind[2], *field[2];
    dt__json *j = t->j;
    const char *name;
    if (t->pieces++ == MOST_PIECES) return dt__json_fail(j, "post_processor: too many pieces");
    DT__TRY(dt__json_fields(j, "a piece of the template", kinds, kind));
    const unsigned char *const after = j->at;
    if ((kind[0] == NULL) == (kind[1] == NULL)) {
        return dt__json_fail(j, "post_processor: a piece is a SpecialToken or a Sequence");
    }
    j->at = kind[0] != NULL ? kind[0] : kind[1];
    DT__TRY(dt__json_fields(j, "a piece of the template", names, field));
    if (field[0] == NULL) return dt__json_fail(j, "post_processor: a piece has no id");
    j->at = field[0];
    DT__TRY(dt__json_string(j, &name));
    DT__TRY(kind[0] != NULL ? read_special(t, name) : read_text(t, name));
    j->at = after;
    return DT_OK;
}

static dt_status read_template(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    enum { TYPE, SINGLE, PAIR, SPECIAL, KEYS };
    static const char *const names[] = { "type", "single", "pair", "special_tokens", NULL };
    const unsigned char *field[KEYS];
    j->at = at;
    DT__TRY(dt__json_fields(j, "post_processor", names, field));
    if (field[SINGLE] == NULL) return dt__json_fail(j, "post_processor.single is missing");
    template t = { .j = j, .k = k, .map = field[SPECIAL] };
    j->at = field[SINGLE];
    for (bool more = dt__json_open(j, '['); more; more = dt__json_more(j, ']')) {
        char *const strings = j->strings;
        DT__TRY(read_piece(&t));
        j->strings = strings;
    }
    DT__TRY(j->status);
    return t.text ? DT_OK : dt__json_fail(j, "post_processor.single has no text");
}

/* Only a template affects ids; ByteLevel affects offsets only. */
dt_status dt__bpe_read_template(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    const unsigned char *step[DT__MOST_STEPS] = { at };
    const char *type;
    char shown[DT__SHOWN];
    int n = 1;
    bool found = false;
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_type(j, "post_processor", &type));
    if (strcmp(type, "Sequence") == 0) {
        DT__TRY(dt__json_list(j, at, "post_processor", "processors", step, &n));
    }
    for (int i = 0; i < n; i++) {
        j->at = step[i];
        DT__TRY(dt__json_type(j, "post_processor", &type));
        if (strcmp(type, "ByteLevel") == 0) continue;
        if (strcmp(type, "TemplateProcessing") != 0) {
            return dt__json_fail(j,
                                 "post_processor: '%s' is not known here, only ByteLevel and "
                                 "TemplateProcessing",
                                 dt__shown(type, shown));
        }
        if (found) return dt__json_fail(j, "post_processor: two templates");
        found = true;
        DT__TRY(read_template(j, step[i], k));
    }
    return DT_OK;
}
