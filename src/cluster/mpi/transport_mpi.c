/* The transport by MPI, compiled once for each MPI that CMake finds. It uses messages and no
 * collectives: a collective that waits cannot tell for which rank, and keeps a processor busy. */
#include "cluster/transport.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

extern const dt__transport dt__mpi_transport;

#define TAG 1
#define TAG_END 2
#define PATIENCE 100 /* the last message may take so many times 10 ms */

static int explain(int error, const char *call, char why[DT__TRANSPORT_WHY])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n;
    if (error == MPI_SUCCESS) return 0;
    MPI_Error_string(error, text, &n);
    snprintf(why, DT__TRANSPORT_WHY, "%s: %.400s", call, text);
    return 1;
}

static int open_mpi(int *rank, int *ranks, size_t *request_bytes, char why[DT__TRANSPORT_WHY])
{
    int before = 0, level;
    MPI_Initialized(&before);
    if (before) {
        snprintf(why, DT__TRANSPORT_WHY, "MPI was started in this process already");
        return 1;
    }
    if (explain(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread", why)) {
        return 1;
    }
    if (level < MPI_THREAD_FUNNELED) {
        snprintf(why, DT__TRANSPORT_WHY, "this MPI does not support programs with threads");
        return 1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    *request_bytes = sizeof(MPI_Request);
    return 0;
}

/* A message as MPI sees it: several segments need a type of their own. */
typedef struct layout {
    void *data;
    int count;
    MPI_Datatype type;
    bool made;
} layout;

static int lay_out(const dt__message *m, layout *l, char why[DT__TRANSPORT_WHY])
{
    int bytes[DT__MOST_SEGMENTS];
    MPI_Aint at[DT__MOST_SEGMENTS];
    *l = (layout){ m->data, (int)m->bytes, MPI_BYTE, false };
    if (m->n_segments == 0) return 0;
    for (int i = 0; i < m->n_segments; i++) {
        bytes[i] = (int)m->segment[i].bytes;
        MPI_Get_address(m->segment[i].data, &at[i]);
    }
    *l = (layout){ MPI_BOTTOM, 1, MPI_DATATYPE_NULL, true };
    const int e = MPI_Type_create_hindexed(m->n_segments, bytes, at, MPI_BYTE, &l->type);
    if (explain(e, "MPI_Type_create_hindexed", why)) return 1;
    return explain(MPI_Type_commit(&l->type), "MPI_Type_commit", why);
}

typedef int start(const layout *l, int rank, MPI_Request *request);

static int receive_from(const layout *l, int rank, MPI_Request *request)
{
    return MPI_Irecv(l->data, l->count, l->type, rank, TAG, MPI_COMM_WORLD, request);
}

static int send_to(const layout *l, int rank, MPI_Request *request)
{
    return MPI_Isend(l->data, l->count, l->type, rank, TAG, MPI_COMM_WORLD, request);
}

/* MPI keeps a freed type until its message is complete. */
static int begin(const dt__message *m, int rank, start *go, MPI_Request *request,
                 char why[DT__TRANSPORT_WHY])
{
    layout l;
    if (m->bytes == 0) return 0;
    if (lay_out(m, &l, why)) return 1;
    const int e = go(&l, rank, request);
    if (l.made) MPI_Type_free(&l.type);
    return explain(e, go == send_to ? "MPI_Isend" : "MPI_Irecv", why);
}

static int post(void *requests, const dt__message *send, const dt__message *receive, int ranks,
                char why[DT__TRANSPORT_WHY])
{
    MPI_Request *in = requests, *out = in + ranks;
    for (int k = 0; k < 2 * ranks; k++) in[k] = MPI_REQUEST_NULL;
    for (int k = 0; k < ranks; k++) {
        if (begin(&receive[k], k, receive_from, &in[k], why)) return 1;
    }
    for (int k = 0; k < ranks; k++) {
        if (begin(&send[k], k, send_to, &out[k], why)) return 1;
    }
    return 0;
}

/* All messages have one tag, and arrive in order. A rank that is at another message is detected by
 * the number of bytes. */
static int check_bytes(MPI_Status *status, const dt__message *m, char why[DT__TRANSPORT_WHY])
{
    int n = 0;
    MPI_Get_count(status, MPI_BYTE, &n);
    if (m->at_most || (size_t)n == m->bytes) return 0;
    snprintf(why, DT__TRANSPORT_WHY, "%d bytes have come, %zu are expected: ranks are out of step",
             n, m->bytes);
    return 1;
}

/* Whether a rank has announced its end. */
static bool hear_end(int *who, char why[DT__TRANSPORT_WHY])
{
    int there = 0;
    MPI_Status status;
    const int e = MPI_Iprobe(MPI_ANY_SOURCE, TAG_END, MPI_COMM_WORLD, &there, &status);
    if (e != MPI_SUCCESS || !there) return false;
    *who = status.MPI_SOURCE;
    MPI_Recv(why, DT__TRANSPORT_WHY, MPI_BYTE, *who, TAG_END, MPI_COMM_WORLD, &status);
    why[DT__TRANSPORT_WHY - 1] = 0;
    return true;
}

static dt__tested test(void *requests, const dt__message *receive, int ranks, int *left,
                       int *missing, char why[DT__TRANSPORT_WHY])
{
    MPI_Request *all = requests;
    *left = 0;
    *missing = -1;
    for (int k = 2 * ranks - 1; k >= 0; k--) {
        int done;
        MPI_Status status;
        if (all[k] == MPI_REQUEST_NULL) continue;
        if (explain(MPI_Test(&all[k], &done, &status), "MPI_Test", why) ||
            (done && k < ranks && check_bytes(&status, &receive[k], why))) {
            *missing = k % ranks;
            return DT__GOES_WRONG;
        }
        if (done) continue;
        ++*left;
        *missing = k % ranks;
    }
    return *left > 0 && hear_end(missing, why) ? DT__HAS_ENDED : DT__GOES_ON;
}

static void end(void *requests, const char why[DT__TRANSPORT_WHY], int rank, int ranks)
{
    (void)requests;
    for (int k = 0; k < ranks; k++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int done = 0;
        if (k == rank) continue;
        MPI_Isend(why, DT__TRANSPORT_WHY, MPI_BYTE, k, TAG_END, MPI_COMM_WORLD, &request);
        for (int i = 0; i < PATIENCE && !done; i++) {
            if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
            if (!done) nanosleep(&(const struct timespec){ .tv_nsec = 10000000 }, NULL);
        }
    }
}

static int close_mpi(char why[DT__TRANSPORT_WHY])
{
    return explain(MPI_Finalize(), "MPI_Finalize", why);
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const dt__transport dt__mpi_transport = {
    .open = open_mpi, .post = post, .test = test, .end = end, .close = close_mpi
};
