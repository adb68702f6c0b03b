/* Reads how a tokenizer.json splits text before byte-level BPE, and which template it applies
 * afterwards. */
#include "data/tokenizer.h"

#include <string.h>

/* ---- splitting ------------------------------------------------------------------------------ */

/* Whether text is split by GPT-2's expression at this step. */
static dt_status read_byte_level(dt__json *j, const unsigned char *at, bool *splits)
{
    enum { TYPE, PREFIX, TRIM, REGEX, KEYS };
    static const char *const names[] = { "type", "add_prefix_space", "trim_offsets", "use_regex",
                                         NULL };
    const unsigned char *field[KEYS];
    DT__TRY(dt__must_be_type(j, at, "pre_tokenizer", "ByteLevel"));
    DT__TRY(dt__json_fields(j, "pre_tokenizer", names, field));
    if (field[PREFIX] == NULL) {
        return dt__json_fail(j, "pre_tokenizer.add_prefix_space is missing, which means true");
    }
    DT__TRY(dt__must_be_false(j, field[PREFIX], "pre_tokenizer.add_prefix_space"));
    return dt__read_truth(j, field[REGEX], true, splits);
}

static dt_status read_regex(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    static const char *const names[] = { "Regex", NULL };
    const unsigned char *field[1];
    const char *text;
    char shown[DT__SHOWN];
    if (at == NULL) return dt__json_fail(j, "a Split without a pattern");
    j->at = at;
    DT__TRY(dt__json_fields(j, "the pattern of a Split", names, field));
    if (field[0] == NULL) return dt__json_fail(j, "a Split without a regular expression");
    j->at = field[0];
    DT__TRY(dt__json_string(j, &text));
    for (const dt__split *s = dt__splits; s->next != NULL; s++) {
        if (strcmp(s->regex, text) != 0) continue;
        k->bpe.split = s;
        return DT_OK;
    }
    return dt__json_fail(j,
                         "the regex '%s' is not known here, only those of GPT-2, Llama 3 and "
                         "Qwen2",
                         dt__shown(text, shown));
}

static dt_status read_split(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    enum { TYPE, PATTERN, BEHAVIOR, INVERT, KEYS };
    static const char *const names[] = { "type", "pattern", "behavior", "invert", NULL };
    const unsigned char *field[KEYS];
    const char *behavior = "";
    char shown[DT__SHOWN];
    DT__TRY(dt__must_be_type(j, at, "pre_tokenizer", "Split"));
    DT__TRY(dt__json_fields(j, "a Split", names, field));
    DT__TRY(dt__must_be_false(j, field[INVERT], "invert of a Split"));
    if (field[BEHAVIOR] != NULL) {
        j->at = field[BEHAVIOR];
        DT__TRY(dt__json_string(j, &behavior));
    }
    if (strcmp(behavior, "Isolated") != 0) {
        return dt__json_fail(j, "behavior of a Split: '%s' is not known here, only Isolated",
                             dt__shown(behavior, shown));
    }
    return read_regex(j, field[PATTERN], k);
}

#define MOST_STEPS 8

/* Positions of the elements of the list `name` in the object at `at`. */
static dt_status read_steps(dt__json *j, const unsigned char *at, const char *what,
                            const char *name, const unsigned char *step[MOST_STEPS], int *n)
{
    const char *const names[] = { "type", name, NULL };
    const unsigned char *field[2];
    j->at = at;
    *n = 0;
    DT__TRY(dt__json_fields(j, what, names, field));
    if (field[1] == NULL) return dt__json_fail(j, "%s.%s is missing", what, name);
    j->at = field[1];
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    for (; more; ++*n) {
        if (*n == MOST_STEPS) return dt__json_fail(j, "%s has too many steps", what);
        dt__json_peek(j); /* skips white space */
        step[*n] = j->at;
        DT__TRY(dt__json_skip(j));
        DT__TRY(dt__json_more(j, ']', &more));
    }
    return DT_OK;
}

/* A ByteLevel that splits; or a Sequence of a Split and a ByteLevel that does not. */
dt_status dt__bpe_read_split(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    const unsigned char *step[MOST_STEPS] = { at };
    const char *type;
    bool splits;
    int n = 1;
    if (at == NULL) return dt__json_fail(j, "pre_tokenizer is missing");
    j->at = at;
    DT__TRY(dt__json_type(j, "pre_tokenizer", &type));
    if (strcmp(type, "Sequence") == 0) {
        DT__TRY(read_steps(j, at, "pre_tokenizer", "pretokenizers", step, &n));
    }
    if (n == 2) DT__TRY(read_split(j, step[0], k));
    else k->bpe.split = &dt__splits[0];
    if (n != 1 && n != 2) {
        return dt__json_fail(j,
                             "pre_tokenizer: %d steps are not known here, only a Split and "
                             "ByteLevel",
                             n);
    }
    DT__TRY(read_byte_level(j, step[n - 1], &splits));
    if (splits == (n == 1)) return DT_OK;
    return dt__json_fail(j, "pre_tokenizer: use_regex %s",
                         splits ? "after a Split would split twice; false is known"
                                : "without a Split would split nothing; true is known");
}

/* ---- the template --------------------------------------------------------------------------- */

#define MOST_PIECES 64

typedef struct template
{
    dt__json *j;
    dt_tokenizer *k;
    const unsigned char *map; /* special_tokens: what each name means; NULL: missing */
    int pieces;
    bool text; /* the place of the text has been read */
}
template;

/* Moves to the value of a name in the map. */
static dt_status find_special(template *t, const char *wanted)
{
    dt__json *j = t->j;
    char shown[DT__SHOWN];
    bool more = t->map != NULL;
    if (more) {
        j->at = t->map;
        DT__TRY(dt__json_expect(j, '{'));
        more = !dt__json_next(j, '}');
    }
    while (more) {
        const char *name;
        char *const strings = j->strings;
        DT__TRY(dt__json_key(j, &name));
        j->strings = strings;
        if (strcmp(name, wanted) == 0) return DT_OK;
        DT__TRY(dt__json_skip(j));
        DT__TRY(dt__json_more(j, '}', &more));
    }
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
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    while (more) {
        int32_t id;
        DT__TRY(dt__read_id(j, name, &id));
        if (id >= t->k->vocab || !t->k->token[id].there) {
            return dt__json_fail(j, "post_processor: '%s' is %d, which is no token",
                                 dt__shown(name, shown), id);
        }
        if (to->n == MOST_PIECES) return dt__json_fail(j, "post_processor: too many tokens");
        DT__TRY(dt_ids_put(to, id));
        DT__TRY(dt__json_more(j, ']', &more));
    }
    return DT_OK;
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
    DT__TRY(dt__json_expect(j, '['));
    bool more = !dt__json_next(j, ']');
    while (more) {
        char *const strings = j->strings;
        DT__TRY(read_piece(&t));
        j->strings = strings;
        DT__TRY(dt__json_more(j, ']', &more));
    }
    return t.text ? DT_OK : dt__json_fail(j, "post_processor.single has no text");
}

/* Only a template changes ids; ByteLevel changes offsets. */
dt_status dt__bpe_read_template(dt__json *j, const unsigned char *at, dt_tokenizer *k)
{
    const unsigned char *step[MOST_STEPS] = { at };
    const char *type;
    char shown[DT__SHOWN];
    int n = 1;
    bool found = false;
    if (at == NULL) return DT_OK;
    j->at = at;
    DT__TRY(dt__json_type(j, "post_processor", &type));
    if (strcmp(type, "Sequence") == 0) {
        DT__TRY(read_steps(j, at, "post_processor", "processors", step, &n));
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
