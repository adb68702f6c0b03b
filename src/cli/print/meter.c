/* The progress line (meter.h). A lock serializes drawing by the thread and printing by others. */
#include "cli/print/meter.h"

#include "cli/cli.h"

#include "cli/print/screen.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define FIRST_SECONDS 0.5
#define EVERY_SECONDS 0.1
#define FIRST_LINE 5.0 /* seconds until the first line, where it cannot be redrawn */
#define DETAIL 96
#define LINE 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

/* All fields are guarded by the lock. */
static struct {
    bool drawn;       /* an unfinished line is on the terminal */
    bool running;     /* the thread draws */
    pthread_t thread; /* valid while it runs */
    const char *what;
    char detail[DETAIL];
    int64_t done, all;
    double share;      /* fraction of the work that is done */
    double began;      /* when it began */
    double left, when; /* the latest estimate of the seconds left, and its time; when 0: none yet */
    bool guessed;      /* as in dt_work_state */
    double next;       /* time of the next line, where it cannot be redrawn */
    int turn;          /* state of the moving sign */
} meter;

bool meter_can_move(void) { return isatty(STDERR_FILENO) != 0; }

/* Leaves the last column free: there terminals wrap, and \r no longer returns to the line's
 * beginning. */
static void draw(const char *text)
{
    const int fits = (int)screen_fitting(text, screen_width(stderr) - 1);
    fprintf(stderr, "\r%.*s\033[K", fits, text);
    fflush(stderr);
    meter.drawn = true;
}

static void finish(const char *end)
{
    if (meter.drawn) fputs(end, stderr);
    if (meter.drawn) fflush(stderr);
    meter.drawn = false;
}

void meter_draw(const char *text)
{
    pthread_mutex_lock(&lock);
    draw(text);
    pthread_mutex_unlock(&lock);
}

void meter_keep(void)
{
    pthread_mutex_lock(&lock);
    finish("\n");
    pthread_mutex_unlock(&lock);
}

void meter_remove(void)
{
    pthread_mutex_lock(&lock);
    finish("\r\033[K");
    pthread_mutex_unlock(&lock);
}

/* Writes ", 0:12 left"; nothing where that time has passed without an end of the work. */
static void put_left(char text[64])
{
    char time[32];
    text[0] = 0;
    if (meter.when == 0) return;
    const double more = meter.left - (cli_seconds() - meter.when);
    if (more < 0 && meter.share < 0.9) return;
    screen_time(time, more > 0 ? more : 0);
    snprintf(text, 64, ", %s%s left", meter.guessed ? "about " : "", time);
}

static void draw_work(void)
{
    static const char signs[] = "|/-\\";
    const bool moves = meter_can_move();
    char bar[SCREEN_BAR] = "", time[32], line[LINE], share[SCREEN_BAR + 64] = "";
    char left[64];
    screen_time(time, cli_seconds() - meter.began);
    if (meter.all > 0) {
        if (moves) screen_bar(bar, screen_width(stderr) / 5, meter.share);
        snprintf(share, sizeof share, "%s%s%lld/%lld  ", bar, moves ? " " : "",
                 (long long)meter.done, (long long)meter.all);
    } else if (meter.share > 0) {
        if (moves) screen_bar(bar, screen_width(stderr) / 5, meter.share);
        snprintf(share, sizeof share, "%s%s%.0f %%  ", bar, moves ? " " : "", 100 * meter.share);
    }
    put_left(left);
    snprintf(line, sizeof line, "%s  %s%s%s  %.*s", meter.what, share, time, left, DETAIL - 1,
             meter.detail);
    if (!moves) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    char moving[LINE + 2];
    snprintf(moving, sizeof moving, "%c %s", signs[meter.turn++ % 4], line);
    draw(moving);
}

/* The thread: draws until meter_end. */
static void *redraw(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (meter.running) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(1e9 * EVERY_SECONDS);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&ended, &lock, &until);
        const double since = cli_seconds() - meter.began;
        if (!meter.running || since < meter.next) continue;
        draw_work();
        meter.next = meter_can_move() ? 0 : 2 * since;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void meter_begin(const char *what, bool quiet)
{
    if (quiet) return;
    pthread_mutex_lock(&lock);
    meter.what = what;
    meter.detail[0] = 0;
    meter.done = meter.all = 0;
    meter.share = meter.when = 0;
    meter.guessed = false;
    meter.next = meter_can_move() ? FIRST_SECONDS : FIRST_LINE;
    meter.began = cli_seconds();
    meter.running = pthread_create(&meter.thread, NULL, redraw, NULL) == 0;
    pthread_mutex_unlock(&lock);
}

void meter_name(const char *what)
{
    pthread_mutex_lock(&lock);
    meter.what = what;
    pthread_mutex_unlock(&lock);
}

static void set_count(int64_t done, int64_t all, const char *detail)
{
    meter.done = done;
    meter.all = all;
    snprintf(meter.detail, DETAIL, "%s", detail == NULL ? "" : detail);
}

void meter_count(int64_t done, int64_t all, const char *detail)
{
    pthread_mutex_lock(&lock);
    set_count(done, all, detail);
    pthread_mutex_unlock(&lock);
}

/* Once a twentieth is done, the time left is estimated in proportion. */
void meter_at(int64_t done, int64_t all, const char *detail)
{
    pthread_mutex_lock(&lock);
    const double share = all > 0 ? (double)done / (double)all : 0, now = cli_seconds();
    if (share >= 0.05 && share != meter.share) {
        meter.left = (now - meter.began) * (1 - share) / share;
        meter.when = now;
    }
    meter.share = share;
    set_count(done, all, detail);
    pthread_mutex_unlock(&lock);
}

void meter_told(void *user, const dt_work_state *state)
{
    (void)user;
    pthread_mutex_lock(&lock);
    meter.share = state->share;
    meter.left = state->seconds_left;
    meter.guessed = state->guessed;
    meter.when = cli_seconds();
    pthread_mutex_unlock(&lock);
}

void meter_end(void)
{
    pthread_mutex_lock(&lock);
    const bool ran = meter.running;
    meter.running = false;
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
    if (ran) pthread_join(meter.thread, NULL);
    meter_remove();
}
