/* Messages between ranks of one machine:
 *     a sender fills the slot (with the address of the bytes) and wakes the receiver
 *     the receiver copies the bytes, marks the slot as read and wakes the sender
 * A rank sleeps on a futex that counts its wakeups, and only if the count has not changed since it
 * last looked at its slots: so no wakeup is missed. */
#define _GNU_SOURCE /* process_vm_readv, syscall */
#include "cluster/intranode.h"

#include <stdio.h>
#include <string.h>

#ifdef __linux__

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NAP_NS 20000000L /* longest sleep, so that a rank that ends, or a timeout, is noticed */

/* A list of pieces of memory, of which a part is done. */
typedef struct pieces_left {
    struct iovec piece[DT__MOST_SEGMENTS];
    int first, n;
} pieces_left;

static void skip(pieces_left *p, size_t bytes)
{
    while (p->first < p->n && bytes >= p->piece[p->first].iov_len) {
        bytes -= p->piece[p->first++].iov_len;
    }
    if (p->first == p->n) return;
    p->piece[p->first].iov_base = (char *)p->piece[p->first].iov_base + bytes;
    p->piece[p->first].iov_len -= bytes;
}

static bool copy(int64_t process, pieces_left *to, pieces_left *from, uint64_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = process_vm_readv(
            (pid_t)process, to->piece + to->first, (unsigned long)(to->n - to->first),
            from->piece + from->first, (unsigned long)(from->n - from->first), 0);
        if (n == 0) errno = EFAULT;
        if (n <= 0) return false;
        skip(to, (size_t)n);
        skip(from, (size_t)n);
        bytes -= (uint64_t)n < bytes ? (uint64_t)n : bytes;
    }
    return true;
}

static void add_piece(pieces_left *p, void *data, size_t bytes)
{
    p->piece[p->n++] = (struct iovec){ data, bytes };
}

static void *pointer_of(uint64_t at) { return (void *)(uintptr_t)at; }

bool dt__intranode_read(int64_t process, void *to, uint64_t from, size_t bytes)
{
    pieces_left here = { .n = 0 }, there = { .n = 0 };
    add_piece(&here, to, bytes);
    add_piece(&there, pointer_of(from), bytes);
    return copy(process, &here, &there, bytes);
}

static void wake(const dt__intranode *n, int rank)
{
    _Atomic uint32_t *wakeups = &n->shared->part[rank].wakeups;
    atomic_fetch_add(wakeups, 1);
    syscall(SYS_futex, wakeups, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void fill_slot(const dt__intranode *n, int to, const dt__message *m)
{
    dt__message_slot *l = dt__slot_of(n, n->rank, to);
    const bool list = m->n_segments > 0;
    l->n_segments = list ? m->n_segments : 1;
    l->at = (uint64_t)(uintptr_t)(list ? (const void *)m->segment : m->data);
    if (m->n_segments == 1) l->at = (uint64_t)(uintptr_t)m->segment->data;
    l->bytes = m->bytes;
    atomic_fetch_add(&l->written, 1);
    wake(n, to);
}

static int post(void *state, const dt__message *send, const dt__message *receive, int ranks,
                char why[DT__TRANSPORT_WHY])
{
    dt__intranode *n = state;
    (void)why;
    for (int k = 0; k < ranks; k++) {
        n->waits[k] = receive[k].bytes > 0;
        if (send[k].bytes > 0) fill_slot(n, k, &send[k]);
    }
    return 0;
}

static bool is_on_its_way(dt__message_slot *l)
{
    return atomic_load(&l->written) != atomic_load(&l->read);
}

static bool find_bytes(int64_t process, const dt__message_slot *l, pieces_left *from)
{
    dt__segment list[DT__MOST_SEGMENTS];
    from->first = from->n = 0;
    errno = EPROTO;
    if (l->n_segments < 1 || l->n_segments > DT__MOST_SEGMENTS) return false;
    if (l->n_segments == 1) {
        add_piece(from, pointer_of(l->at), (size_t)l->bytes);
        return true;
    }
    if (!dt__intranode_read(process, list, l->at, (size_t)l->n_segments * sizeof *list))
        return false;
    for (int i = 0; i < l->n_segments; i++) add_piece(from, list[i].data, list[i].bytes);
    return true;
}

/* Copies the bytes that a slot announces. */
static bool take(const dt__intranode *n, int from, const dt__message *m,
                 char why[DT__TRANSPORT_WHY])
{
    const dt__message_slot *l = dt__slot_of(n, from, n->rank);
    pieces_left here = { .n = 0 }, there;
    if (m->at_most ? l->bytes > m->bytes : l->bytes != m->bytes) {
        snprintf(why, DT__TRANSPORT_WHY,
                 "%llu bytes have come, %zu are expected: ranks are out of step",
                 (unsigned long long)l->bytes, m->bytes);
        return false;
    }
    if (m->n_segments == 0) add_piece(&here, m->data, m->bytes);
    for (int i = 0; i < m->n_segments; i++) {
        add_piece(&here, m->segment[i].data, m->segment[i].bytes);
    }
    if (find_bytes(n->process[from], l, &there) &&
        copy(n->process[from], &here, &there, l->bytes)) {
        return true;
    }
    snprintf(why, DT__TRANSPORT_WHY, "its memory cannot be read: %s", strerror(errno));
    return false;
}

/* Whether a rank has announced its end. */
static bool hear_end(const dt__intranode *n, int *who, char why[DT__TRANSPORT_WHY])
{
    for (int k = 0; k < n->ranks; k++) {
        const dt__rank_part *d = &n->shared->part[k];
        if (k == n->rank || !atomic_load(&d->has_ended)) continue;
        *who = k;
        memcpy(why, d->words, DT__TRANSPORT_WHY);
        why[DT__TRANSPORT_WHY - 1] = 0;
        return true;
    }
    return false;
}

static dt__tested test(void *state, const dt__message *receive, int ranks, int *left, int *missing,
                       char why[DT__TRANSPORT_WHY])
{
    dt__intranode *n = state;
    *left = 0;
    *missing = -1;
    n->seen = atomic_load(&n->shared->part[n->rank].wakeups);
    for (int k = ranks - 1; k >= 0; k--) {
        if (k == n->rank || !is_on_its_way(dt__slot_of(n, n->rank, k))) continue;
        ++*left;
        *missing = k;
    }
    for (int k = ranks - 1; k >= 0; k--) {
        dt__message_slot *l = dt__slot_of(n, k, n->rank);
        if (!n->waits[k]) continue;
        if (!is_on_its_way(l)) {
            ++*left;
            *missing = k;
            continue;
        }
        if (!take(n, k, &receive[k], why)) {
            *missing = k;
            return hear_end(n, missing, why) ? DT__HAS_ENDED : DT__GOES_WRONG;
        }
        n->waits[k] = false;
        atomic_fetch_add(&l->read, 1);
        wake(n, k);
    }
    return *left > 0 && hear_end(n, missing, why) ? DT__HAS_ENDED : DT__GOES_ON;
}

/* Sleeps on the futex. Two long are the timespec of the system call. */
static void wait_for_wakeup(void *state)
{
    dt__intranode *n = state;
    const long nap[2] = { 0, NAP_NS };
    syscall(SYS_futex, &n->shared->part[n->rank].wakeups, FUTEX_WAIT, n->seen, nap, NULL, 0);
}

static void end(void *state, const char why[DT__TRANSPORT_WHY], int rank, int ranks)
{
    const dt__intranode *n = state;
    dt__rank_part *d = &n->shared->part[rank];
    memcpy(d->words, why, DT__TRANSPORT_WHY);
    atomic_store(&d->has_ended, 1);
    for (int k = 0; k < ranks; k++) {
        if (k != rank) wake(n, k);
    }
}

const dt__transport dt__intranode_transport = {
    .post = post, .test = test, .wait = wait_for_wakeup, .end = end
};

#else

/* Never used: without these system calls dt__intranode_open refuses. */
const dt__transport dt__intranode_transport = { 0 };

#endif
