/* Supported steps of tokenizer.json: normalizers, which edit text (tokenizer_edits.c), and
 * pre_tokenizers, which split it into pieces (tokenizer_cuts.c). The tables at the end have a row
 * for each; other steps are errors. */
#include "data/text/tokenizer.h"

#include <stdio.h>
#include <string.h>

static dt_status lacks(dt__json *j, const char *where, const char *field)
{
    return dt__json_fail(j, "%s.%s is missing", where, field);
}

/* A string field of 1 to DT__STEP_TEXT - 1 bytes. */
static dt_status read_text(dt__json *j, const unsigned char *at, const char *where,
                           char to[DT__STEP_TEXT])
{
    const char *text;
    j->at = at;
    DT__TRY(dt__json_string(j, &text));
    if (*text == 0 || strlen(text) >= DT__STEP_TEXT) {
        return dt__json_fail(j, "%s: a string of 1 to %d bytes is known here", where,
                             DT__STEP_TEXT - 1);
    }
    strcpy(to, text);
    return DT_OK;
}

/* Reads a word of a list that ends with NULL. */
static dt_status read_word(dt__json *j, const unsigned char *at, const char *where,
                           const char *const *words, int *choice)
{
    const char *text = "";
    char shown[DT__SHOWN];
    if (at != NULL) {
        j->at = at;
        DT__TRY(dt__json_string(j, &text));
    }
    for (*choice = 0; words[*choice] != NULL; ++*choice) {
        if (strcmp(words[*choice], text) == 0) return DT_OK;
    }
    char known[96] = "";
    for (int i = 0; words[i] != NULL; i++) {
        const size_t used = strlen(known);
        const char *before = i == 0 ? "" : words[i + 1] == NULL ? " and " : ", ";
        snprintf(known + used, sizeof known - used, "%s%s", before, words[i]);
    }
    return dt__json_fail(j, "%s: '%s' is not known here, only %s", where, dt__shown(text, shown),
                         known);
}

static dt_status read_nothing(dt__json *j, const char *where, dt__step *s)
{
    static const char *const names[] = { "type", NULL };
    const unsigned char *field[1];
    (void)s;
    return dt__json_fields(j, where, names, field);
}

static dt_status read_prepend(dt__json *j, const char *where, dt__step *s)
{
    static const char *const names[] = { "type", "prepend", NULL };
    const unsigned char *field[2];
    DT__TRY(dt__json_fields(j, where, names, field));
    return field[1] == NULL ? lacks(j, where, "prepend") : read_text(j, field[1], where, s->to);
}

static void put_prepend(const dt__step *s, dt__chars *out)
{
    DT__PUT_ALL(out, ",\"prepend\":", DT__QUOTED(s->to));
}

/* A pattern {"String": ...} or {"Regex": ...}; *is_regex says which, the value is next. */
static dt_status read_pattern(dt__json *j, const unsigned char *at, const char *where,
                              bool *is_regex)
{
    static const char *const names[] = { "String", "Regex", NULL };
    const unsigned char *field[2];
    if (at == NULL) return lacks(j, where, "pattern");
    j->at = at;
    DT__TRY(dt__json_fields(j, "a pattern", names, field));
    *is_regex = field[1] != NULL;
    if ((field[0] == NULL) == (field[1] == NULL)) {
        return dt__json_fail(j, "%s.pattern: expected a String or a Regex", where);
    }
    j->at = field[*is_regex];
    return DT_OK;
}

static dt_status read_replace(dt__json *j, const char *where, dt__step *s)
{
    static const char *const names[] = { "type", "pattern", "content", NULL };
    const unsigned char *field[3];
    bool is_regex = false;
    DT__TRY(dt__json_fields(j, where, names, field));
    DT__TRY(read_pattern(j, field[1], where, &is_regex));
    if (is_regex) {
        return dt__json_fail(j, "%s.pattern: a Regex is not known here, only a String", where);
    }
    DT__TRY(read_text(j, j->at, where, s->from));
    return field[2] == NULL ? lacks(j, where, "content") : read_text(j, field[2], where, s->to);
}

static void put_replace(const dt__step *s, dt__chars *out)
{
    dt__put_text(out, ",\"pattern\":{\"String\":");
    dt__put_quoted(out, s->from);
    dt__put_text(out, "},\"content\":");
    dt__put_quoted(out, s->to);
}

static dt_status read_byte_level(dt__json *j, const char *where, dt__step *s)
{
    enum { TYPE, PREFIX, TRIM, REGEX, KEYS };
    static const char *const names[] = { "type", "add_prefix_space", "trim_offsets", "use_regex",
                                         NULL };
    const unsigned char *field[KEYS];
    char what[DT__SHOWN + 32];
    DT__TRY(dt__json_fields(j, where, names, field));
    if (field[PREFIX] == NULL) {
        return dt__json_fail(j, "%s.add_prefix_space is missing, which means true", where);
    }
    snprintf(what, sizeof what, "%s.add_prefix_space", where);
    DT__TRY(dt__must_be_false(j, field[PREFIX], what));
    return dt__read_truth(j, field[REGEX], true, &s->on);
}

static void put_truth(dt__chars *out, const char *name, bool value)
{
    DT__PUT_ALL(out, name, value ? "true" : "false");
}

static void put_byte_level(const dt__step *s, dt__chars *out)
{
    dt__put_text(out, ",\"add_prefix_space\":false,\"trim_offsets\":true");
    put_truth(out, ",\"use_regex\":", s->on);
}

static dt_status read_regex(dt__json *j, const char *where, dt__step *s)
{
    const char *text;
    char shown[DT__SHOWN];
    DT__TRY(dt__json_string(j, &text));
    for (s->split = dt__splits; s->split->next != NULL; s->split++) {
        if (strcmp(s->split->regex, text) == 0) return DT_OK;
    }
    return dt__json_fail(j,
                         "%s: the regex '%s' is not known here, only those of GPT-2, Llama 3 and "
                         "Qwen2",
                         where, dt__shown(text, shown));
}

static const char *const behaviors[] = { "Isolated", "MergedWithPrevious", "MergedWithNext", NULL };

/* The regular expressions match every character. So with "invert" nothing is left unmatched, and
 * "Removed" gives the same pieces as "Isolated". */
static dt_status read_split(dt__json *j, const char *where, dt__step *s)
{
    enum { TYPE, PATTERN, BEHAVIOR, INVERT, KEYS };
    static const char *const names[] = { "type", "pattern", "behavior", "invert", NULL };
    static const char *const inverted[] = { "Removed", "Isolated", NULL };
    const unsigned char *field[KEYS];
    char what[DT__SHOWN + 32];
    bool invert, is_regex = false;
    int choice;
    DT__TRY(dt__json_fields(j, where, names, field));
    DT__TRY(dt__read_truth(j, field[INVERT], false, &invert));
    DT__TRY(read_pattern(j, field[PATTERN], where, &is_regex));
    const unsigned char *const pattern = j->at;
    if (invert && !is_regex) {
        return dt__json_fail(j, "%s.invert: true is known with a Regex only", where);
    }
    snprintf(what, sizeof what, "%s.behavior", where);
    DT__TRY(read_word(j, field[BEHAVIOR], what, invert ? inverted : behaviors, &choice));
    s->choice = invert ? DT__ISOLATED : choice;
    if (is_regex && s->choice != DT__ISOLATED) {
        return dt__json_fail(j, "%s: '%s' is not known here with a Regex, only Isolated", what,
                             behaviors[choice]);
    }
    j->at = pattern;
    return is_regex ? read_regex(j, where, s) : read_text(j, pattern, where, s->to);
}

static void put_split(const dt__step *s, dt__chars *out)
{
    dt__put_text(out, s->split != NULL ? ",\"pattern\":{\"Regex\":" : ",\"pattern\":{\"String\":");
    dt__put_quoted(out, s->split != NULL ? s->split->regex : s->to);
    dt__put_text(out, "},\"behavior\":");
    DT__PUT_ALL(out, DT__QUOTED(behaviors[s->choice]), ",\"invert\":false");
}

static dt_status read_digits(dt__json *j, const char *where, dt__step *s)
{
    static const char *const names[] = { "type", "individual_digits", NULL };
    const unsigned char *field[2];
    DT__TRY(dt__json_fields(j, where, names, field));
    return dt__read_truth(j, field[1], false, &s->on);
}

static void put_digits(const dt__step *s, dt__chars *out)
{
    put_truth(out, ",\"individual_digits\":", s->on);
}

static const char *const schemes[] = { "always", "first", "never", NULL };

static dt_status read_metaspace(dt__json *j, const char *where, dt__step *s)
{
    enum { TYPE, SIGN, SCHEME, SPLIT, KEYS };
    static const char *const names[] = { "type", "replacement", "prepend_scheme", "split", NULL };
    const unsigned char *field[KEYS];
    char what[DT__SHOWN + 32];
    DT__TRY(dt__json_fields(j, where, names, field));
    if (field[SIGN] == NULL) return lacks(j, where, "replacement");
    DT__TRY(read_text(j, field[SIGN], where, s->to));
    snprintf(what, sizeof what, "%s.prepend_scheme", where);
    if (field[SCHEME] != NULL) DT__TRY(read_word(j, field[SCHEME], what, schemes, &s->choice));
    return dt__read_truth(j, field[SPLIT], true, &s->on);
}

static void put_metaspace(const dt__step *s, dt__chars *out)
{
    DT__PUT_ALL(out, ",\"replacement\":", DT__QUOTED(s->to),
                ",\"prepend_scheme\":", DT__QUOTED(schemes[s->choice]));
    put_truth(out, ",\"split\":", s->on);
}

const dt__step_kind dt__normalizers[] = {
    { "NFC", read_nothing, NULL, dt__edit_nfc, NULL },
    { "NFD", read_nothing, NULL, dt__edit_nfd, NULL },
    { "NFKC", read_nothing, NULL, dt__edit_nfkc, NULL },
    { "NFKD", read_nothing, NULL, dt__edit_nfkd, NULL },
    { "Prepend", read_prepend, put_prepend, dt__edit_prepend, NULL },
    { "Replace", read_replace, put_replace, dt__edit_replace, NULL },
    { .name = NULL },
};

const dt__step_kind dt__pre_tokenizers[] = {
    { "ByteLevel", read_byte_level, put_byte_level, NULL, dt__cut_bytes },
    { "Split", read_split, put_split, NULL, dt__cut_split },
    { "Digits", read_digits, put_digits, NULL, dt__cut_digits },
    { "Metaspace", read_metaspace, put_metaspace, dt__edit_sign_spaces, dt__cut_sign },
    { .name = NULL },
};
