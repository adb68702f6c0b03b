/* Finds out whether ranks share a machine: each sends the address of random numbers in its memory,
 * and all check whether they find them there. On another machine or in another container the same
 * process number is another process, without these numbers; and the system may refuse to read. Each
 * rank sends whether it succeeded; if one did not, all of them use MPI. */
#define _GNU_SOURCE /* memfd_create */
#include "cluster/intranode.h"

#include <stdlib.h>
#include <string.h>

#ifdef __linux__

#include "core/system/system_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#define MOST_RANKS 1024

static size_t bytes_of_shared(int ranks)
{
    const size_t n = (size_t)ranks;
    return sizeof(dt__shared) + n * sizeof(dt__rank_part) + n * n * sizeof(dt__message_slot);
}

static bool map_shared(dt__intranode *n, int file)
{
    const size_t bytes = bytes_of_shared(n->ranks);
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) return false;
    n->shared = shared;
    n->shared_bytes = bytes;
    return true;
}

/* Creates a file of zeros, in memory only, which vanishes with its last process. */
static void make_shared(dt__intranode *n)
{
    const int file = memfd_create("detent-ranks", MFD_CLOEXEC);
    if (file < 0) return;
    if (dt__sys_truncate(file, (off_t)bytes_of_shared(n->ranks)) == 0 && map_shared(n, file)) {
        memcpy(n->shared->token, n->address.token, sizeof n->address.token);
        n->address.file = file;
    } else {
        dt__sys_close(file);
    }
}

dt_status dt__intranode_make(dt_ctx *ctx, int rank, int ranks, dt__intranode **out)
{
    dt__intranode *n = dt__alloc_zero(ctx, sizeof *n);
    *out = n;
    if (n == NULL) return DT_ERR_NOMEM;
    n->ctx = ctx;
    n->rank = rank;
    n->ranks = ranks;
    n->address.file = -1;
    n->process = dt__alloc_array(ctx, ranks, sizeof *n->process);
    n->waits = dt__alloc_array(ctx, ranks, sizeof *n->waits);
    if (n->process == NULL || n->waits == NULL) return DT_ERR_NOMEM;
    const ssize_t got = getrandom(n->address.token, sizeof n->address.token, 0);
    if (got != (ssize_t)sizeof n->address.token || ranks > MOST_RANKS) return DT_OK;
    /* Where the security module Yama protects processes: allows those of the same launcher to read
     * this one. */
    prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0, 0, 0);
    n->address.token_at = (uint64_t)(uintptr_t)n->address.token;
    n->address.process = getpid();
    if (rank == 0) make_shared(n);
    return DT_OK;
}

static bool has_token(const dt__rank_address *address)
{
    uint64_t token[2];
    return address->process > 0 &&
           dt__intranode_read(address->process, token, address->token_at, sizeof token) &&
           memcmp(token, address->token, sizeof token) == 0;
}

/* Maps the file of rank 0, a process of this machine, which is the shared memory. */
static bool open_shared(dt__intranode *n, const dt__rank_address *first)
{
    char path[64];
    if (first->file < 0) return false;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)first->process,
             (long long)first->file);
    const int file = dt__sys_open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return false;
    const bool mapped = map_shared(n, file);
    dt__sys_close(file);
    return mapped && memcmp(n->shared->token, first->token, sizeof first->token) == 0;
}

bool dt__intranode_join(dt__intranode *n, const dt__rank_address *all)
{
    if (n->address.process == 0) return false;
    for (int k = 0; k < n->ranks; k++) {
        if (k != n->rank && !has_token(&all[k])) return false;
        n->process[k] = all[k].process;
    }
    return n->rank == 0 ? n->shared != NULL : open_shared(n, &all[0]);
}

void dt__intranode_close_file(dt__intranode *n)
{
    if (n->address.file >= 0) dt__sys_close((int)n->address.file);
    n->address.file = -1;
}

void dt__intranode_free(dt__intranode *n)
{
    if (n == NULL) return;
    dt__intranode_close_file(n);
    if (n->shared != NULL) munmap(n->shared, n->shared_bytes);
    DT__RELEASE(n->ctx, n->process, n->waits, n);
}

static dt_status agree(dt__cluster *c, dt__intranode *n, dt__rank_address *address, bool *ok)
{
    const int ranks = dt__cluster_ranks(c);
    char *all = (char *)address; /* has room */
    DT__TRY(dt__cluster_gather(c, "where memory is", &n->address, sizeof *address, address));
    const char joined = dt__intranode_join(n, address);
    DT__TRY(dt__cluster_gather(c, "who shares memory", &joined, sizeof joined, all));
    *ok = memchr(all, 0, (size_t)ranks) == NULL;
    return DT_OK;
}

dt_status dt__intranode_open(dt__cluster *c, dt__intranode **out)
{
    dt_ctx *ctx = c->ctx;
    const int ranks = dt__cluster_ranks(c);
    const char *wanted = getenv("DETENT_EXCHANGE");
    bool ok = false;
    *out = NULL;
    if (wanted != NULL && strcmp(wanted, "messages") != 0) {
        return dt_fail(ctx, DT_ERR_ARG, "DETENT_EXCHANGE is '%s'; it can be messages", wanted);
    }
    dt__intranode *n;
    dt_status s = dt__intranode_make(ctx, dt__cluster_rank(c), ranks, &n);
    dt__rank_address *address = s == DT_OK ? dt__alloc_array(ctx, ranks, sizeof *address) : NULL;
    if (s == DT_OK && address == NULL) s = DT_ERR_NOMEM;
    if (s == DT_OK && wanted != NULL) n->address.process = 0;
    if (s == DT_OK) s = agree(c, n, address, &ok);
    dt__release(ctx, address);
    if (n != NULL) dt__intranode_close_file(n);
    if (s == DT_OK && ok) *out = n;
    else dt__intranode_free(n);
    return s;
}

#else

dt_status dt__intranode_open(dt__cluster *c, dt__intranode **out)
{
    (void)c;
    *out = NULL;
    return DT_OK;
}

void dt__intranode_free(dt__intranode *n) { (void)n; }

#endif
