/* Replays calls that change files, and makes the states in which a power failure may leave the
 * disk. */
#include "disk_model.h"

#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct change { /* of contents: bytes at a place, or a new length */
    int64_t at;
    const char *bytes; /* lent by the log; NULL: the file is cut or grown to `at` */
    size_t n;
} change;

typedef struct contents {
    char *synced;
    size_t n;
    change *change; /* since the last sync */
    int n_change;
} contents;

typedef struct name_change {
    char letter; /* 'l' a name is made, 'u' removed, 'r' renamed */
    char path[256], to[256];
    int file; /* what is made; FOLDER */
    bool synced;
} name_change;

#define FOLDER (-1)
#define NONE (-2)
#define DESCRIPTORS 1024

struct disk {
    const tree *start;
    const char *folder, *log;
    size_t at, bytes;
    contents *file; /* those of start first */
    int n_files;
    name_change *name;
    int n_names;
    struct {
        int file; /* FOLDER: a folder, of that path */
        char path[256];
    } open[DESCRIPTORS];
};

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct entry {
    char path[256];
    int file;
} entry;

typedef struct names {
    entry *e;
    int n;
} names;

static entry *find(const names *all, const char *path)
{
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->e[i].path, path) == 0) return &all->e[i];
    }
    return NULL;
}

static void set(names *all, const char *path, int file)
{
    entry *e = find(all, path);
    if (e == NULL) {
        all->e = realloc(all->e, (size_t)(all->n + 1) * sizeof *all->e);
        ck_assert_ptr_nonnull(all->e);
        e = &all->e[all->n++];
        snprintf(e->path, sizeof e->path, "%s", path);
    }
    e->file = file;
}

static void drop(names *all, const char *path)
{
    entry *e = find(all, path);
    if (e != NULL) *e = all->e[--all->n];
}

static bool lies_in(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return n == 0 || (strncmp(path, folder, n) == 0 && path[n] == '/');
}

static void apply(names *all, const name_change *c)
{
    if (c->letter == 'l') set(all, c->path, c->file);
    if (c->letter == 'u') drop(all, c->path);
    if (c->letter != 'r') return;
    drop(all, c->path);
    set(all, c->to, c->file);
    for (int i = 0; i < all->n && c->file == FOLDER; i++) { /* files in the folder move with it */
        char moved[600];
        if (!lies_in(all->e[i].path, c->path)) continue;
        snprintf(moved, sizeof moved, "%s%s", c->to, all->e[i].path + strlen(c->path));
        snprintf(all->e[i].path, sizeof all->e[i].path, "%.255s", moved);
    }
}

/* The directory entries after the changes that `order` leaves on the disk. */
static names names_of(const disk *d, int order)
{
    names all = { NULL, 0 };
    int pending = 0, of_all = 0;
    for (int64_t i = 0; i < d->start->n; i++) {
        char path[256];
        const tree_file *f = &d->start->file[i];
        const size_t n = strlen(f->path);
        snprintf(path, sizeof path, "%s", f->path);
        if (path[n - 1] == '/') path[n - 1] = 0;
        set(&all, path, f->path[n - 1] == '/' ? FOLDER : (int)i);
    }
    for (int i = 0; i < d->n_names; i++) of_all += !d->name[i].synced;
    for (int i = 0; i < d->n_names; i++) {
        bool there = d->name[i].synced || order == 0;
        if (!d->name[i].synced) {
            const int k = pending++;
            if (order >= 2 && order < 2 + of_all) there = k == order - 2;
            if (order >= 2 + of_all) there = k != order - 2 - of_all;
        }
        if (there) apply(&all, &d->name[i]);
    }
    return all;
}

int disk_orders(const disk *d)
{
    int pending = 0;
    for (int i = 0; i < d->n_names; i++) pending += !d->name[i].synced;
    ck_assert_int_le(pending, 100);
    if (pending == 0) return 1;
    return pending == 1 ? 2 : 2 + 2 * pending;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The path relative to the folder; false: it is outside. */
static bool inside(const disk *d, const char *path, size_t n, char out[256])
{
    const size_t before = strlen(d->folder);
    if (n > before && memcmp(path, d->folder, before) == 0 && path[before] == '/') {
        path += before + 1;
        n -= before + 1;
    } else if (n == before && memcmp(path, d->folder, n) == 0) {
        n = 0;
    } else if (n > 0 && path[0] == '/') {
        return false;
    }
    while (n >= 2 && path[0] == '.' && path[1] == '/') {
        path += 2;
        n -= 2;
    }
    if (n == 1 && path[0] == '.') n = 0;
    while (n > 0 && path[n - 1] == '/') n--;
    ck_assert_uint_lt(n, 256);
    memcpy(out, path, n);
    out[n] = 0;
    return true;
}

static void add_name(disk *d, name_change c)
{
    d->name = realloc(d->name, (size_t)(d->n_names + 1) * sizeof *d->name);
    ck_assert_ptr_nonnull(d->name);
    d->name[d->n_names++] = c;
}

static int new_file(disk *d)
{
    d->file = realloc(d->file, (size_t)(d->n_files + 1) * sizeof *d->file);
    ck_assert_ptr_nonnull(d->file);
    d->file[d->n_files] = (contents){ .synced = calloc(1, 1) };
    return d->n_files++;
}

static void add_change(disk *d, int file, change c)
{
    contents *f = &d->file[file];
    f->change = realloc(f->change, (size_t)(f->n_change + 1) * sizeof *f->change);
    ck_assert_ptr_nonnull(f->change);
    f->change[f->n_change++] = c;
}

static void take_open(disk *d, const int64_t number[3], const char *path, size_t n)
{
    name_change c = { .letter = 'l' };
    ck_assert_int_lt(number[0], DESCRIPTORS);
    d->open[number[0]].file = NONE;
    if (!inside(d, path, n, c.path)) return;
    names all = names_of(d, 0);
    const entry *e = find(&all, c.path);
    int file = e != NULL ? e->file : *c.path == 0 ? FOLDER : NONE;
    if (file == NONE && number[1] != 0) {
        file = c.file = new_file(d);
        add_name(d, c);
    } else if (file >= 0 && number[2] != 0) {
        add_change(d, file, (change){ 0, NULL, 0 });
    }
    free(all.e);
    d->open[number[0]].file = file;
    memcpy(d->open[number[0]].path, c.path, sizeof c.path);
}

static void take_name(disk *d, char letter, const char *a, size_t n_a, const char *b, size_t n_b)
{
    name_change c = { .letter = letter == 'm' ? 'l' : letter, .file = FOLDER };
    if (!inside(d, a, n_a, c.path) || !inside(d, b, n_b, c.to)) return;
    names all = names_of(d, 0);
    const entry *e = find(&all, c.path);
    if (letter != 'm' && e != NULL) c.file = e->file;
    if (letter == 'm' || e != NULL) add_name(d, c);
    free(all.e);
}

static bool is_parent(const char *folder, const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    return strlen(folder) == n && strncmp(folder, path, n) == 0;
}

static void apply_change(contents *f, const change *c, size_t n, bool zeros)
{
    const size_t end = (size_t)c->at + n;
    if (c->bytes == NULL || end > f->n) {
        f->synced = realloc(f->synced, end + 1);
        ck_assert_ptr_nonnull(f->synced);
        if (end > f->n) memset(f->synced + f->n, 0, end - f->n);
        f->n = end;
    }
    if (n > 0 && !zeros) memcpy(f->synced + c->at, c->bytes, n);
    if (n > 0 && zeros) memset(f->synced + c->at, 0, n);
}

static void take_sync(disk *d, int64_t descriptor)
{
    const int file = d->open[descriptor].file;
    if (file == NONE) return;
    if (file >= 0) {
        contents *f = &d->file[file];
        for (int i = 0; i < f->n_change; i++) apply_change(f, &f->change[i], f->change[i].n, false);
        f->n_change = 0;
        return;
    }
    for (int i = 0; i < d->n_names; i++) {
        name_change *c = &d->name[i];
        if (is_parent(d->open[descriptor].path, c->letter == 'r' ? c->to : c->path)) {
            c->synced = true;
        }
    }
}

bool disk_step(disk *d)
{
    int64_t head[6];
    if (d->bytes - d->at < sizeof head) return false;
    memcpy(head, d->log + d->at, sizeof head);
    const char *a = d->log + d->at + sizeof head, *b = a + head[4];
    d->at += sizeof head + (size_t)head[4] + (size_t)head[5];
    ck_assert_uint_le(d->at, d->bytes);
    const char letter = (char)head[0];
    const int file = letter == 'w' || letter == 't' ? d->open[head[1]].file : NONE;
    if (letter == 'o') take_open(d, head + 1, a, (size_t)head[4]);
    if (letter == 'w' && file >= 0) {
        add_change(d, file, (change){ head[2], a, (size_t)head[4] });
    }
    if (letter == 't' && file >= 0) add_change(d, file, (change){ head[2], NULL, 0 });
    if (letter == 's') take_sync(d, head[1]);
    if (letter == 'c') d->open[head[1]].file = NONE;
    if (strchr("mur", letter) != NULL) {
        take_name(d, letter, a, (size_t)head[4], b, (size_t)head[5]);
    }
    return true;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* A possible content of the file; to be freed. */
static contents contents_of(const contents *f, disk_loss loss)
{
    contents out = { .synced = malloc(f->n + 1), .n = f->n };
    ck_assert_ptr_nonnull(out.synced);
    memcpy(out.synced, f->synced, f->n);
    size_t all = 0, done = 0;
    for (int i = 0; i < f->n_change; i++) all += f->change[i].n;
    for (int i = 0; i < f->n_change && loss != DISK_ALL; i++) {
        size_t n = f->change[i].n;
        if (loss == DISK_EARLIER && i + 1 < f->n_change) continue;
        if (loss == DISK_TORN) n = done >= all / 2 ? 0 : n < all / 2 - done ? n : all / 2 - done;
        done += n;
        if (n > 0 || f->change[i].bytes == NULL) {
            apply_change(&out, &f->change[i], n, loss == DISK_ZEROS);
        }
    }
    return out;
}

static bool has_parent(const names *all, const char *path)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strrchr(folder, '/'); slash != NULL; slash = strrchr(folder, '/')) {
        *slash = 0;
        const entry *e = find(all, folder);
        if (e == NULL || e->file != FOLDER) return false;
    }
    return true;
}

void disk_state(const disk *d, int order, disk_loss loss, tree *out)
{
    names all = names_of(d, order);
    *out = (tree){ NULL, 0, 0 };
    for (int i = 0; i < all.n; i++) {
        char path[260];
        if (!has_parent(&all, all.e[i].path)) continue; /* a folder that is not there */
        if (all.e[i].file == FOLDER) {
            snprintf(path, sizeof path, "%s/", all.e[i].path);
            tree_add(out, path, "", 0);
            continue;
        }
        contents c = contents_of(&d->file[all.e[i].file], loss);
        tree_add(out, all.e[i].path, c.synced, c.n);
        free(c.synced);
    }
    tree_sort(out);
    free(all.e);
}

disk *disk_open(const tree *start, const char *folder, const char *log, size_t bytes)
{
    disk *d = calloc(1, sizeof *d);
    ck_assert_ptr_nonnull(d);
    d->start = start;
    d->folder = folder;
    d->log = log;
    d->bytes = bytes;
    for (int i = 0; i < DESCRIPTORS; i++) d->open[i].file = NONE;
    for (int64_t i = 0; i < start->n; i++) {
        const tree_file *f = &start->file[i];
        const int file = new_file(d);
        apply_change(&d->file[file], &(change){ 0, f->bytes, f->size }, f->size, false);
    }
    return d;
}

void disk_close(disk *d)
{
    for (int i = 0; i < d->n_files; i++) {
        free(d->file[i].synced);
        free(d->file[i].change);
    }
    free(d->file);
    free(d->name);
    free(d);
}
