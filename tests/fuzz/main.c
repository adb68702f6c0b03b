/* The fuzzer: libFuzzer around the target that DETENT_FUZZ names. scripts/fuzz calls it. */
#include "fuzz.h"

#include <stdio.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("DETENT_FUZZ");
    (void)argc;
    (void)argv;
    target = name == NULL ? NULL : fuzz_target_named(name);
    if (target != NULL) return 0;
    fprintf(stderr, "detent-fuzz: DETENT_FUZZ must be one of\n");
    for (int i = 0; fuzz_targets[i] != NULL; i++) {
        fprintf(stderr, "%-12s%s\n", fuzz_targets[i]->name, fuzz_targets[i]->text);
    }
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    target->run(data, n);
    return 0;
}
