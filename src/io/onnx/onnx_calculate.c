/* Arithmetic of two constant numbers, of which one may be the batch size. */
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

/* Operators that know no batch size. A truth is 0 or 1. */
static const struct plain {
    const char *op;
    char code;
    bool truth;
} plains[] = {
    { "Max", 'X', false },        { "Min", 'N', false }, { "Mod", '%', false },
    { "Greater", '>', true },     { "Less", '<', true }, { "GreaterOrEqual", 'g', true },
    { "LessOrEqual", 'l', true }, { "And", '&', true },  { "Or", '|', true },
    { "Xor", '^', true },
};

char dt__onnx_code_of(const char *op, bool *truth)
{
    *truth = strcmp(op, "Equal") == 0;
    for (int i = 0; i < DT__COUNT_OF(plains); i++) {
        if (strcmp(plains[i].op, op) != 0) continue;
        *truth = plains[i].truth;
        return plains[i].code;
    }
    return *op;
}

/* False: no such number. A remainder has the sign of b. */
static bool calculate_plainly(char op, double a, double b, double *y)
{
    switch (op) {
    case 'X': *y = a >= b || isnan(a) ? a : b; return true;
    case 'N': *y = a <= b || isnan(a) ? a : b; return true;
    case '%': *y = a - b * floor(a / b); return b != 0 && floor(a) == a && floor(b) == b;
    case '>': *y = a > b; return true;
    case '<': *y = a < b; return true;
    case 'g': *y = a >= b; return true;
    case 'l': *y = a <= b; return true;
    case '&': *y = a != 0 && b != 0; return true;
    case '|': *y = a != 0 || b != 0; return true;
    default: *y = (a != 0) != (b != 0); return true;
    }
}

/* The batch size occurs at most once in a product, and alone in a sum. False: no such number. */
static bool calculate_exactly(char op, bool integer, dt__onnx_number a, dt__onnx_number b,
                              dt__onnx_number *y)
{
    if (strchr("XN%><gl&|^", op) != NULL) {
        *y = (dt__onnx_number){ 0, false };
        return !a.batch && !b.batch && calculate_plainly(op, a.value, b.value, &y->value);
    }
    if (op == 'P' || op == 'E') {
        const bool equal = a.batch == b.batch && a.value == b.value;
        *y = (dt__onnx_number){ op == 'E' ? equal : pow(a.value, b.value), false };
        if (a.batch == b.batch) return op == 'E' || !a.batch;
        return op == 'E' && (a.batch ? b.value : a.value) < 1; /* a batch has an example */
    }
    *y = (dt__onnx_number){ 0, a.batch || b.batch };
    if (op == 'M') y->value = a.value * b.value;
    if (op == 'A') y->value = a.value + b.value;
    if (op == 'S') y->value = a.value - b.value;
    if (op == 'D' && b.value != 0) y->value = a.value / b.value;
    if (op == 'D' && integer) {
        if (a.batch && y->value != floor(y->value)) return false;
        y->value = trunc(y->value);
    }
    if (op == 'D' && a.batch && b.batch) y->batch = false;
    else if (op == 'D' && b.batch) return false;
    if (op == 'M' && a.batch && b.batch) return false;
    if ((op == 'A' || op == 'S') && a.batch != b.batch) {
        if ((a.batch ? b.value : a.value) != 0) return false;
    }
    return op != 'D' || b.value != 0;
}

/* Integers that do not fit their type would wrap around, and those from 2^53 on are not exact: such
 * operands and results are refused. */
bool dt__onnx_calculate(char op, const dt__onnx_value *like, dt__onnx_number a, dt__onnx_number b,
                        dt__onnx_number *y)
{
    const bool integer = !dt__onnx_is_real(like->type);
    if (integer && (fabs(a.value) >= 0x1p53 || fabs(b.value) >= 0x1p53)) return false;
    return calculate_exactly(op, integer, a, b, y) && dt__onnx_round(like->type, &y->value);
}
