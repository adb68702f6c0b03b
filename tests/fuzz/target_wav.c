/* A recording. */
#include "fuzz.h"

#include "array_files.h"
#include "target_arrays.h"

static void run(const uint8_t *data, size_t n) { fuzz_array(fuzz_file("a.wav", data, n)); }

static void seeds(const fuzz_seeds *s)
{
    static const int16_t samples[8] = { 1, -2, 32767, -32768 };
    for (int channels = 1; channels < 3; channels++) {
        file_bytes f = wav_file(channels, 8000, samples, 8 / channels);
        fuzz_seed(s, channels == 1 ? "mono" : "stereo", f.v, f.n);
        file_free(&f);
    }
    const wav_parts rf64 = { .channels = 2,
                             .rate = 8000,
                             .bytes = 3,
                             .extensible = 1,
                             .rf64 = 1,
                             .before = "bext",
                             .odd = 1,
                             .said = UINT32_MAX,
                             .said64 = 12,
                             .samples = samples,
                             .size = 12 };
    file_bytes f = wav_of(&rf64);
    fuzz_seed(s, "rf64", f.v, f.n);
    file_free(&f);
    const wav_parts reals = { .channels = 1,
                              .rate = 8000,
                              .bytes = 8,
                              .real = 1,
                              .said = 0,
                              .samples = samples,
                              .size = 16 };
    f = wav_of(&reals);
    fuzz_seed(s, "stream", f.v, f.n);
    file_free(&f);
}

const fuzz_target fuzz_target_wav = { "wav", "a recording", run, seeds };
