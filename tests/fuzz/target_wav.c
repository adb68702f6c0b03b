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
}

const fuzz_target fuzz_target_wav = { "wav", "a recording", run, seeds };
