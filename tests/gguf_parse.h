/* A GGUF file, parsed by the tests' own code from the format's description alone. */
#ifndef GGUF_PARSE_H
#define GGUF_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gguf_pair {
    char key[96];
    uint32_t type, of; /* of: of an array */
    uint64_t n;        /* elements of an array, bytes of a string */
    size_t at;         /* of the value, of an array's first element, of a string's first byte */
} gguf_pair;

typedef struct gguf_tensor {
    char name[96];
    uint32_t rank, type;
    uint64_t extent[4]; /* fastest first */
    size_t at;          /* of its data */
    int64_t count;
} gguf_tensor;

typedef struct gguf_parsed {
    unsigned char *bytes;
    size_t size;
    int n_pairs, n_tensors;
    gguf_pair pair[64];
    gguf_tensor tensor[128];
    size_t infos, data; /* where descriptions of tensors, and data, begin */
} gguf_parsed;

/* Fails the test where the file is not as described. Free with gguf_free. */
gguf_parsed *gguf_parse(const char *path);
void gguf_free(gguf_parsed *g);
/* NULL: there is none. */
const gguf_pair *gguf_pair_of(const gguf_parsed *g, const char *key);
const gguf_tensor *gguf_tensor_of(const gguf_parsed *g, const char *name);
uint32_t gguf_u32(const gguf_parsed *g, const char *key); /* fails the test without it */
float gguf_f32(const gguf_parsed *g, const char *key);
bool gguf_says(const gguf_parsed *g, const char *key, const char *text);
/* String i of an array, NUL at its end. */
void gguf_string(const gguf_parsed *g, const char *key, uint64_t i, char *text, size_t size);
/* The values of a tensor: malloc'ed. */
float *gguf_values(const gguf_parsed *g, const gguf_tensor *t);

#endif
