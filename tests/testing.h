/* What the suites share. A suite is a file test_<topic>.c that defines test_<topic>_suite. */
#ifndef TESTING_H
#define TESTING_H

#include <check.h>

#define SUITE(topic) Suite *test_##topic##_suite(void);
#include "suites.inc"
#undef SUITE

#endif
