/* delay NAME RANKS MICROSECONDS MBIT: emulates a network with delay, for kernels without netem. It
 * makes a device "tun" in each of the network namespaces NAME-1 ... NAME-RANKS, writes "ready", and
 * forwards IPv4 packets between them, by the last byte of the address, until it is killed:
 *     a packet is sent when the earlier ones are: bytes / rate after them
 *     it is received when the earlier ones are, and then DELAY later
 * Needs root. bench/netns.sh starts it. */
#define _GNU_SOURCE /* setns, ppoll */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, MOST_BYTES = 65535, ROOM = 4096 };

typedef struct packet {
    double due; /* seconds */
    size_t bytes;
    unsigned char *data;
} packet;

/* A rank's device, and the packets on their way to it: a ring, in the order of their times. */
typedef struct end_of {
    int file;
    double sends_until, receives_until;
    packet queue[ROOM];
    size_t first, n;
} end_of;

static end_of ends[MOST_RANKS];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static int refuse(const char *wanted)
{
    fprintf(stderr, "delay: expected %s; usage: delay NAME RANKS MICROSECONDS MBIT\n", wanted);
    return 2;
}

static int open_device(const char *name, int k)
{
    char path[256];
    struct ifreq request;
    memset(&request, 0, sizeof request);
    snprintf(path, sizeof path, "/var/run/netns/%s-%d", name, k);
    const int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
    close(space);
    const int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    strcpy(request.ifr_name, "tun");
    return file >= 0 && ioctl(file, TUNSETIFF, &request) == 0 ? file : -1;
}

static double later(double a, double b) { return a > b ? a : b; }

/* A packet that finds the ring full is lost, as in a network. */
static void pass_on(end_of *from, int ranks, const unsigned char *data, size_t bytes,
                    const double link[2])
{
    const int to = bytes < 20 || data[0] >> 4 != 4 ? -1 : data[19] - 1;
    if (to < 0 || to >= ranks || ends[to].n == ROOM) return;
    end_of *e = &ends[to];
    packet *p = &e->queue[(e->first + e->n) % ROOM];
    const double takes = (double)bytes * 8 / link[1];
    from->sends_until = later(now(), from->sends_until) + takes;
    e->receives_until = later(from->sends_until, e->receives_until + takes);
    *p = (packet){ e->receives_until + link[0], bytes, malloc(bytes) };
    if (p->data == NULL) return;
    memcpy(p->data, data, bytes);
    e->n++;
}

static void deliver(end_of *e)
{
    while (e->n > 0 && e->queue[e->first].due <= now()) {
        const packet *p = &e->queue[e->first];
        if (write(e->file, p->data, p->bytes) < 0) { /* lost */
        }
        free(p->data);
        e->first = (e->first + 1) % ROOM;
        e->n--;
    }
}

static void work(int ranks, const double link[2])
{
    static unsigned char data[MOST_BYTES];
    struct pollfd files[MOST_RANKS];
    for (int k = 0; k < ranks; k++) files[k] = (struct pollfd){ ends[k].file, POLLIN, 0 };
    for (;;) {
        double next = now() + 1;
        for (int k = 0; k < ranks; k++) {
            deliver(&ends[k]);
            if (ends[k].n > 0 && ends[k].queue[ends[k].first].due < next) {
                next = ends[k].queue[ends[k].first].due;
            }
        }
        const double left = later(0, next - now());
        const struct timespec nap = { (time_t)left, (long)(1e9 * (left - (double)(time_t)left)) };
        if (ppoll(files, (nfds_t)ranks, &nap, NULL) <= 0) continue;
        for (int k = 0; k < ranks; k++) {
            if (!(files[k].revents & POLLIN)) continue;
            const ssize_t bytes = read(ends[k].file, data, sizeof data);
            if (bytes > 0) pass_on(&ends[k], ranks, data, (size_t)bytes, link);
        }
    }
}

int main(int n_words, char **words)
{
    const int ranks = n_words == 5 ? atoi(words[2]) : 0;
    if (ranks < 2 || ranks > MOST_RANKS) return refuse("2 to 64 RANKS");
    const double link[2] = { 1e-6 * atof(words[3]), 1e6 * atof(words[4]) };
    if (!(link[0] >= 0) || !(link[1] > 0)) return refuse("a delay and a rate");
    for (int k = 0; k < ranks; k++) {
        ends[k].file = open_device(words[1], k + 1);
        if (ends[k].file < 0) return fail("/dev/net/tun");
    }
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    puts("ready");
    fflush(stdout);
    work(ranks, link);
    return 0;
}
