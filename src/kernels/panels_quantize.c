/* From values to a packed panel, plain C: panels_quantize.inc. */
#include "kernels/kernels.h"
#include "kernels/panels_quantize.h"

#include <math.h>
#include <string.h>

static void write_eight(const dt__panel_layout *l, int64_t n, const int8_t *codes, uint8_t *to,
                        int32_t sum[EIGHT])
{
    for (int j = 0; j < EIGHT; j++) {
        sum[j] += dt__panel_write(l, n, codes + j * CODES, to + 4 * j);
    }
}

#define RANGE dt__range__ref
#define ENCODE dt__encode__ref
#define QUANTIZE_PANEL dt__quantize_panel__ref
#include "kernels/panels_quantize.inc"
