/* Turns names from models into C identifiers and comments. */
#include "core/text/row_named.h"
#include "core/text/ending.h"
#include "export/c/c_program.h"
#include "export/c/c_texts.h"

#include <string.h>

/* Reserved words of C and C++ that might be a model's name. */
static bool is_reserved(const char *name)
{
    static const char *const words[] = {
        "auto",   "break",    "case",    "char",    "class",    "const",    "continue", "default",
        "delete", "do",       "double",  "else",    "enum",     "export",   "extern",   "float",
        "for",    "friend",   "goto",    "if",      "inline",   "int",      "long",     "namespace",
        "new",    "operator", "private", "public",  "register", "return",   "short",    "signed",
        "sizeof", "static",   "struct",  "switch",  "template", "this",     "try",      "typedef",
        "union",  "unsigned", "using",   "virtual", "void",     "volatile", "while",
    };
    return DT__IS_ONE_OF(name, words);
}

/* Standard headers that an export includes; a file of that name in its folder could hide them. */
static bool is_header(const char *name)
{
    static const char *const words[] = { "stddef", "stdint", "stdio", "stdlib", "string" };
    return DT__IS_ONE_OF(name, words);
}

/* Whether a function of the texts begins with this name, so that NAME_next could be one of them. */
static bool begins_text(const char *name)
{
    const size_t n = strlen(name);
    for (int i = 0; i < dt__c_texts_n; i++) {
        const char *text = dt__c_texts[i].name;
        if (strncmp(text, name, n) == 0 && text[n] == '_') return true;
    }
    return false;
}

void dt__c_identifier(const char *from, char to[DT__C_NAME])
{
    size_t n = 0;
    for (; *from != '\0' && n + 2 < DT__C_NAME; from++) {
        if (dt__is_letter(*from) || (dt__is_digit(*from) && n > 0)) to[n++] = *from;
        else if (n > 0 && to[n - 1] != '_') to[n++] = '_';
    }
    while (n > 0 && to[n - 1] == '_') n--;
    to[n] = '\0';
    if (n == 0) memcpy(to, "model", sizeof "model");
    if (is_reserved(to) || is_header(to) || begins_text(to)) memcpy(to + n, "_", 2);
}

/* `*` and `/` may form the end of a comment, a backslash may continue a line, and two question
 * marks begin a trigraph. */
const char *dt__c_comment(const char *from, char to[DT__C_COMMENT])
{
    size_t n = 0;
    for (; *from != '\0' && n + 1 < DT__C_COMMENT; from++) {
        const unsigned char c = (unsigned char)*from;
        const bool plain = c >= ' ' && c < 127 && strchr("*/\\?|", c) == NULL;
        to[n++] = plain ? (char)c : '_';
    }
    to[n] = '\0';
    return to;
}
