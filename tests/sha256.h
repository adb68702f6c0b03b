/* SHA-256 (FIPS 180-4); reference values give the hash of long results. */
#ifndef TEST_SHA256_H
#define TEST_SHA256_H

#include <stddef.h>

/* 64 hexadecimal digits and a NUL. */
void test_sha256(const void *data, size_t bytes, char out[65]);

#endif
