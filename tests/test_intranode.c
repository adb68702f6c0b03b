/* Messages between two processes of this machine (cluster/intranode.h): pieces, wrong lengths, a
 * process that ends or is killed, an address in another process's memory. Whole runs are in
 * test_cluster.c. */
#include "testing.h"

#include "cluster/intranode.h"
#include "core/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 20.0 /* seconds */

/* Rank 0 is the test, rank 1 a process that it forks. */
typedef struct side {
    dt_ctx *ctx;
    dt__intranode *intranode;
    int rank, line; /* a socket to the other */
    pid_t child;
    bool joined;
} side;

static bool swap(const side *s, const void *out, void *in, size_t bytes)
{
    return write(s->line, out, bytes) == (ssize_t)bytes &&
           read(s->line, in, bytes) == (ssize_t)bytes;
}

/* Both ranks run this; `forge` changes the address of rank 1. */
static bool join(side *s, void (*forge)(dt__rank_address *address))
{
    dt__rank_address address[2];
    char done = 1, other;
    if (dt_ctx_create(&s->ctx, NULL) != DT_OK) return false;
    if (dt__intranode_make(s->ctx, s->rank, 2, &s->intranode) != DT_OK) return false;
    address[s->rank] = s->intranode->address;
    if (s->rank == 1 && forge != NULL) forge(&address[1]);
    if (!swap(s, &address[s->rank], &address[1 - s->rank], sizeof *address)) return false;
    s->joined = dt__intranode_join(s->intranode, address);
    if (!swap(s, &done, &other, 1)) return false;
    dt__intranode_close_file(s->intranode);
    return true;
}

static void forget(side *s)
{
    dt__intranode_free(s->intranode);
    dt_ctx_free(s->ctx);
    close(s->line);
}

/* Emulators, and some containers, do not allow a process to read another's memory. */
static bool can_read(void)
{
    const int x = 5;
    int y = 0;
    if (dt__intranode_read(getpid(), &y, (uint64_t)(uintptr_t)&x, sizeof x)) return y == 5;
    test_skip("messages by memory: process_vm_readv: %s", strerror(errno));
    return false;
}

/* Forks rank 1, which runs `work` and ends with status 0 if that succeeds. */
static void begin(side *s, void (*forge)(dt__rank_address *address), bool (*work)(side *s))
{
    int line[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
    *s = (side){ .rank = 0, .line = line[0] };
    s->child = fork();
    ck_assert_int_ge(s->child, 0);
    if (s->child == 0) {
        side other = { .rank = 1, .line = line[1] };
        close(line[0]);
        const bool ok = join(&other, forge) && (!other.joined || work(&other));
        forget(&other);
        test_leave(ok ? 0 : 1);
    }
    close(line[1]);
    ck_assert(join(s, forge));
}

static void end(side *s, int expected)
{
    int status = -1;
    ck_assert_int_eq(waitpid(s->child, &status, 0), s->child);
    ck_assert_int_eq(status, expected);
    forget(s);
}

/* What one rank sends to the other, and what it waits for. */
typedef struct trade {
    dt__message send[2], receive[2];
    char why[DT__TRANSPORT_WHY];
    int left, missing;
} trade;

static dt__tested run(side *s, trade *t)
{
    const dt__transport *way = &dt__intranode_transport;
    const double began = dt__seconds();
    dt__tested found = DT__GOES_ON;
    way->post(s->intranode, t->send, t->receive, 2, t->why);
    do {
        found = way->test(s->intranode, t->receive, 2, &t->left, &t->missing, t->why);
        if (found == DT__GOES_ON && t->left > 0) way->wait(s->intranode);
    } while (found == DT__GOES_ON && t->left > 0 && dt__seconds() - began < PATIENCE);
    return found;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

enum { BYTES = 100003, MOST = DT__MOST_SEGMENTS, ROUNDS = 40 };

static unsigned char value(int rank, int round, int i)
{
    return (unsigned char)((i * 7 + round * 31 + rank * 101) >> (i % 3));
}

/* The bytes of a message, and where each of them lies. */
typedef struct cut_bytes {
    unsigned char room[BYTES + MOST], *place[BYTES];
    dt__segment segment[MOST];
} cut_bytes;

/* n segments with gaps of a byte between them; 0: one piece. */
static dt__message cut(cut_bytes *x, int bytes, int n)
{
    dt__message m = { x->room, (size_t)bytes, x->segment, n, false };
    for (int i = 0, at = 0; i < n; i++) {
        const int past = (int)((int64_t)bytes * (i + 1) / n);
        x->segment[i] = (dt__segment){ x->room + at + i, (size_t)(past - at) };
        for (; at < past; at++) x->place[at] = x->room + at + i;
    }
    for (int i = 0; i < bytes && n == 0; i++) x->place[i] = x->room + i;
    return m;
}

/* Messages of other cuts in each round, both ways at once. */
static bool trade_pieces(side *s)
{
    static cut_bytes out, in;
    static const int cuts[] = { 0, 1, 2, 3, 17, MOST };
    const int n = (int)(sizeof cuts / sizeof cuts[0]), other = 1 - s->rank;
    for (int round = 0; round < ROUNDS; round++) {
        const int bytes = round % 7 == 0 ? MOST : BYTES - round;
        trade t = { .left = 0 };
        dt__message *receive = &t.receive[other];
        t.send[other] = cut(&out, bytes, cuts[(round + s->rank) % n]);
        *receive = cut(&in, bytes, cuts[round / n % n]);
        receive->at_most = receive->n_segments == 0;
        if (receive->at_most) receive->bytes += 9;
        for (int i = 0; i < bytes; i++) *out.place[i] = value(s->rank, round, i);
        memset(in.room, 0, sizeof in.room);
        if (run(s, &t) != DT__GOES_ON || t.left != 0) return false;
        for (int i = 0; i < bytes; i++) {
            if (*in.place[i] != value(other, round, i)) return false;
        }
    }
    return true;
}

/* Whether this process maps the memory that ranks share. */
static bool maps_shared(void)
{
    char *text = test_read_file("/proc/self/maps", NULL);
    const bool found = strstr(text, "memfd:detent-ranks") != NULL;
    free(text);
    return found;
}

START_TEST(pieces_come_as_they_were_sent)
{
    side s;
    if (!can_read()) return;
    begin(&s, NULL, trade_pieces);
    ck_assert(s.joined);
    ck_assert(trade_pieces(&s));
    ck_assert(maps_shared());
    end(&s, 0);
    ck_assert(!maps_shared());
}
END_TEST

/* ---- what goes wrong ------------------------------------------------------------------------- */

static bool send_8(side *s)
{
    static uint64_t x = 5;
    trade t = { .send[0] = { .data = &x, .bytes = sizeof x } };
    run(s, &t);
    return true;
}

START_TEST(another_length_is_an_error)
{
    side s;
    char in[16];
    trade t = { .receive[1] = { .data = in, .bytes = sizeof in } };
    if (!can_read()) return;
    begin(&s, NULL, send_8);
    ck_assert(s.joined);
    ck_assert_int_eq(run(&s, &t), DT__GOES_WRONG);
    ck_assert_int_eq(t.missing, 1);
    ck_assert_str_eq(t.why, "8 bytes have come, 16 are expected: ranks are out of step");
    kill(s.child, SIGKILL);
    end(&s, SIGKILL);
}
END_TEST

static bool say_why(side *s)
{
    static const char why[DT__TRANSPORT_WHY] = "there is no more coffee";
    dt__intranode_transport.end(s->intranode, why, 1, 2);
    return true;
}

START_TEST(a_rank_that_ends_says_why)
{
    side s;
    char in[16];
    trade t = { .receive[1] = { .data = in, .bytes = sizeof in } };
    if (!can_read()) return;
    begin(&s, NULL, say_why);
    ck_assert(s.joined);
    ck_assert_int_eq(run(&s, &t), DT__HAS_ENDED);
    ck_assert_int_eq(t.missing, 1);
    ck_assert_str_eq(t.why, "there is no more coffee");
    end(&s, 0);
}
END_TEST

/* Its slot is there, its memory is not. */
static bool send_and_die(side *s)
{
    static uint64_t x = 5;
    const trade t = { .send[0] = { .data = &x, .bytes = sizeof x } };
    dt__intranode_transport.post(s->intranode, t.send, t.receive, 2, NULL);
    kill(getpid(), SIGKILL);
    return false;
}

START_TEST(the_memory_of_a_killed_rank_is_an_error)
{
    side s;
    uint64_t in;
    int status;
    trade t = { .receive[1] = { .data = &in, .bytes = sizeof in } };
    if (!can_read()) return;
    begin(&s, NULL, send_and_die);
    ck_assert(s.joined);
    ck_assert_int_eq(waitpid(s.child, &status, 0), s.child);
    ck_assert_int_eq(run(&s, &t), DT__GOES_WRONG);
    ck_assert_int_eq(t.missing, 1);
    ck_assert_str_eq(t.why, "its memory cannot be read: No such process");
    forget(&s);
}
END_TEST

static void other_token(dt__rank_address *address) { address->token[1]++; }
static void other_place(dt__rank_address *address) { address->token_at = 16; }
static void other_process(dt__rank_address *address) { address->process = getppid(); }
static void no_process(dt__rank_address *address) { address->process = 0; }

static void (*const forgeries[])(dt__rank_address *address) = { other_token, other_place,
                                                                other_process, no_process };

START_TEST(memory_without_the_token_is_not_read)
{
    side s;
    if (!can_read()) return;
    begin(&s, forgeries[_i], send_8);
    ck_assert(!s.joined);
    kill(s.child, SIGKILL); /* it has found rank 0, and sends */
    int status;
    ck_assert_int_eq(waitpid(s.child, &status, 0), s.child);
    forget(&s);
}
END_TEST

Suite *test_intranode_suite(void)
{
    Suite *s = suite_create("intranode");
    TCase *t = tcase_create("intranode");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, pieces_come_as_they_were_sent);
    tcase_add_test(t, another_length_is_an_error);
    tcase_add_test(t, a_rank_that_ends_says_why);
    tcase_add_test(t, the_memory_of_a_killed_rank_is_an_error);
    tcase_add_loop_test(t, memory_without_the_token_is_not_read, 0,
                        (int)(sizeof forgeries / sizeof forgeries[0]));
    suite_add_tcase(s, t);
    return s;
}
