/* A recording that libsndfile decodes; without it, one that is refused. */
#include "fuzz.h"

#include "array_files.h"
#include "target_arrays.h"

static void run(const uint8_t *data, size_t n) { fuzz_array(fuzz_file("a.aiff", data, n)); }

/* An AIFF file of 8000 samples a second, which is the number of 80 bits. */
static void seeds(const fuzz_seeds *s)
{
    static const unsigned char head[] = { 'F', 'O', 'R', 'M', 0,   0,   0,    54,   'A',  'I', 'F',
                                          'F', 'C', 'O', 'M', 'M', 0,   0,    0,    18,   0,   1,
                                          0,   0,   0,   4,   0,   16,  0x40, 0x0b, 0xfa, 0,   0,
                                          0,   0,   0,   0,   0,   'S', 'S',  'N',  'D',  0,   0,
                                          0,   16,  0,   0,   0,   0,   0,    0,    0,    0 };
    file_bytes f = { NULL, 0 };
    file_put(&f, head, sizeof head);
    file_text(&f, "\1\2\3\4\5\6\7\10");
    fuzz_seed(s, "aiff", f.v, f.n);
    file_free(&f);
}

const fuzz_target fuzz_target_sound = { "sound", "a recording for libsndfile", run, seeds };
