/* Classifies a picture of a digit with a model that was trained and exported by detent. */
#include "digits.h"
#include "image.h"
#include "semihosting.h"

#include <stdint.h>

static float x[IMAGE_SIDE * IMAGE_SIDE];
static float y[10];
static uint64_t arena[(DIGITS_ARENA_BYTES + 7) / 8];

int main(void)
{
    /* Does this processor, with this compiler and its flags, compute what was trained? */
    if (digits_selftest(arena) != 0) {
        semihosting_print("self-test: other outputs than those of training\n");
        return 1;
    }
    semihosting_print("self-test: the bits of training\n");

    image_read(x);
    if (digits_run(x, y, arena) != 0) return 1;
    int best = 0;
    for (int i = 1; i < 10; i++) best = y[i] > y[best] ? i : best;
    char line[] = "class 0\n";
    line[6] = (char)('0' + best);
    for (int i = 0; i < IMAGE_SIDE; i++) {
        semihosting_print(image[i]);
        semihosting_print("\n");
    }
    semihosting_print(line);
    return 0;
}
