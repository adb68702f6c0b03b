/* A model of integers as C of detent and in TensorFlow Lite Micro's interpreter (tflm_model.cc), on
 * the same codes: how many of how many outputs are equal, bytes of the interpreter's arena and
 * stack, and the instructions of an inference (host_clock). */
#include "exported.h"
#include "host.h"
#include "report.h"

enum { EXAMPLES = 4 };

int tflm_begin(void);
int8_t *tflm_input(void);
const int8_t *tflm_output(void);
int tflm_invoke(void);
size_t tflm_arena(void);

static uint64_t memory[(ARENA_BYTES + 7) / 8];
static ELEMENT x[INPUTS], y[OUTPUTS];

int main(void)
{
    uint32_t state = 1;
    unsigned equal = 0, refused = 0;
    if (tflm_begin() != 0) {
        host_print("the interpreter does not take the model\n");
        return 1;
    }
    uint64_t took = 0;
    size_t stack = 0;
    for (int k = 0; k < EXAMPLES; k++) {
        for (unsigned i = 0; i < INPUTS; i++) {
            state = state * 1664525u + 1013904223u;
            x[i] = (ELEMENT)((int)(state >> 24) - 128);
            tflm_input()[i] = x[i];
        }
        host_paint_stack();
        uint64_t begin = host_clock();
        refused += tflm_invoke() != 0;
        took = host_clock() - begin;
        stack = host_used_stack();
        refused += MODEL_RUN(x, y, memory) != 0;
        for (unsigned i = 0; i < OUTPUTS; i++) equal += tflm_output()[i] == y[i];
    }
    print_line("equal", equal);
    print_line("of", (unsigned)EXAMPLES * OUTPUTS);
    print_line("refused", refused);
    print_line("arena", tflm_arena());
    print_line("stack", stack);
    print_line("time", took);
    return refused != 0 || equal != (unsigned)EXAMPLES * OUTPUTS;
}
