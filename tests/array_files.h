/* Writers of array files, apart from the library's readers: .npy, .npz, .safetensors, .wav. */
#ifndef ARRAY_FILES_H
#define ARRAY_FILES_H

#include <stddef.h>
#include <stdint.h>

/* A growing file in memory. */
typedef struct file_bytes {
    unsigned char *v;
    size_t n;
} file_bytes;

void file_put(file_bytes *f, const void *bytes, size_t n);
void file_text(file_bytes *f, const char *text);
void file_number(file_bytes *f, uint64_t value, int bytes); /* little-endian */
/* n bytes of numbers of `width` bytes, of this machine, little-endian. */
void file_numbers(file_bytes *f, const void *numbers, size_t n, int width);
void file_free(file_bytes *f);

/* A .npy of version 1, 2 or 3: `header` is the dictionary; `n` bytes of this machine's numbers
 * follow, of the width that it declares. */
file_bytes npy_file(int version, const char *header, const void *data, size_t n);

/* One file of an archive. */
typedef struct zip_member {
    const char *name;
    file_bytes bytes;
    int method; /* 0: stored, 8: deflated */
} zip_member;

/* A zip archive; `large`: sizes and offsets are in extra fields of 64 bits. */
file_bytes zip_file(const zip_member *m, int count, int large);

/* A safetensors file of a header and `n` bytes of numbers. */
file_bytes safetensors_file(const char *header, const void *data, size_t n, int width);

/* A .wav file with any header. */
typedef struct wav_parts {
    int channels, rate, bytes; /* bytes of a sample; real: samples are floats */
    int real, extensible, rf64;
    const char *before; /* the name of a chunk before the samples; NULL: none */
    int odd, unfilled;  /* that chunk has an odd size; it lacks the padding byte */
    uint32_t said;      /* size of the samples in the header */
    uint64_t said64;    /* size of the samples in chunk ds64 */
    const void *samples;
    size_t size; /* their bytes, little-endian */
} wav_parts;

file_bytes wav_of(const wav_parts *p);

/* A .wav of 16 bits, with a chunk of an odd size before the samples. */
file_bytes wav_file(int channels, int rate, const int16_t *samples, int count);

#endif
