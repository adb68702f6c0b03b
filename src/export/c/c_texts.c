/* The list of texts: c_texts.inc, with the files themselves, which CMake turns into arrays. */
#include "export/c/c_texts.h"

#include <string.h>

#define DT__C_TEXT(name, needs) extern const char dt__c_text_##name[];
#define DT__C_MAP(name, expression, needs)
#define DT__C_MAP_WITH(name, option, expression, needs)
#define DT__C_ZIP(name, statement, needs)
#include "export/c/c_texts.inc"
#undef DT__C_TEXT
#undef DT__C_MAP
#undef DT__C_MAP_WITH
#undef DT__C_ZIP

/* Elementwise functions of n elements; of two operands, a step of 0 repeats one of them. */
#define MAP(name, options, expression)                                                             \
    "static void map_" #name "(const float *x, int32_t n, " options "float *y)\n"                  \
    "{\n    int32_t i;\n    for (i = 0; i < n; i++) y[i] = " expression ";\n}\n"
#define ZIP(name, statement)                                                                       \
    "static void map_" #name "(const float *a, int32_t a_step, const float *b, int32_t b_step,\n"  \
    "    int32_t n, float *y)\n"                                                                   \
    "{\n    int32_t i;\n    for (i = 0; i < n; i++) {\n"                                           \
    "        const float p = a[i * a_step], q = b[i * b_step];\n        " statement                \
    ";\n    }\n}\n"

const dt__c_text dt__c_texts[] = {
#define DT__C_TEXT(name, needs) { #name, needs, dt__c_text_##name },
#define DT__C_MAP(name, expression, needs) { "map_" #name, needs, MAP(name, "", expression) },
#define DT__C_MAP_WITH(name, option, expression, needs)                                            \
    { "map_" #name, needs, MAP(name, "float " #option ", ", expression) },
#define DT__C_ZIP(name, statement, needs) { "map_" #name, needs, ZIP(name, statement) },
#include "export/c/c_texts.inc"
};

const int dt__c_texts_n = DT__COUNT_OF(dt__c_texts);

int dt__c_text_named(const char *name)
{
    const size_t length = strcspn(name, " ");
    for (int i = 0; i < dt__c_texts_n; i++) {
        const char *other = dt__c_texts[i].name;
        if (strncmp(other, name, length) == 0 && other[length] == '\0') return i;
    }
    return -1;
}

/* A text's needs come before it, so one pass from the last to the first finds all. */
void dt__c_text_want(bool *wanted, int text)
{
    wanted[text] = true;
    for (int i = text; i >= 0; i--) {
        if (!wanted[i]) continue;
        for (const char *need = dt__c_texts[i].needs; *need != '\0';) {
            wanted[dt__c_text_named(need)] = true;
            need += strcspn(need, " ");
            need += strspn(need, " ");
        }
    }
}
