/* Exports models as C, compiles and runs them. */
#include "c_folder.h"

#include "core/core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

dt_status c_trace_of(const c_subject *o, dt_trace **out)
{
    dt_trace_input in[DT_MAX_IN];
    for (int i = 0; i < o->n_in; i++) {
        in[i] = (dt_trace_input){ .dtype = DT_F32, .rank = dt_rank(o->x[i]), .dims = { 1 } };
        for (int d = 1; d < in[i].rank; d++) in[i].dims[d] = dt_dim(o->x[i], d);
    }
    return dt_trace_create(o->m,
                           &(dt_trace_options){ .input = in,
                                                .n_inputs = o->n_in,
                                                .n_outputs = o->n_out,
                                                .becomes = dt_exporter_named("c")->becomes },
                           out);
}

dt_status c_export(const c_subject *o, const dt_model_info *info, const char *path)
{
    dt_ctx *ctx = dt_module_ctx(o->m);
    dt_export_options options = dt_export_defaults();
    dt_export_summary summary = { .bytes = 0 };
    options.name = o->name;
    dt_trace *t;
    DT__TRY(c_trace_of(o, &t));
    const dt_exporter *e = dt_exporter_named("c");
    dt_export_call call = { .ctx = ctx,
                            .m = o->m,
                            .info = info,
                            .trace = t,
                            .options = &options,
                            .path = path,
                            .summary = &summary };
    dt_status s = DT_OK;
    for (int64_t i = 0; i < dt_trace_calls(t) && s == DT_OK; i++) {
        char why[200] = "no emitter";
        const dt_trace_call *c = dt_trace_call_at(t, i);
        if (!e->expresses(t, c, &options, why, sizeof why)) {
            s = dt_fail(ctx, DT_ERR_UNSUPPORTED, "%s: %s", c->op->name, why);
        }
    }
    if (s == DT_OK) s = e->write(&call);
    dt_trace_free(t);
    return s;
}

/* Where the exporter is sanitized, the exported C is sanitized too, in one of so many folders. */
#ifdef TEST_SANITIZED
#define SANITIZERS "-fsanitize=address,undefined -fno-sanitize-recover=all"
#else
#define SANITIZERS ""
#endif

void c_check_folder(const char *path, const char *cc, const char *what)
{
    static const test_draws one_of = { .usual = 1, .sanitized = 4 };
    static int64_t folders;
    char *output;
    if (folders++ % test_count(one_of) != 0) return;
    int status = test_shell(&output, "cd %s && %s " SANITIZERS " net.c net_test.c -o net_test 2>&1",
                            path, cc);
    TEST_EACH(status == 0, "%s: %s: %s", what, cc, output);
    free(output);
    status = test_shell(&output, "cd %s && ./net_test && ! grep -nE '^.{101}' *.[ch] 2>&1", path);
    TEST_EACH(status == 0, "%s: %s: %s", what, cc, output);
    free(output);
}

void c_new_folder(char path[TEST_PATH])
{
    test_folder(path);
    test_join(path, path, "net");
}

void c_check_model(dt_module *m, dt_tensor *x, const char *cc, const char *what)
{
    char path[TEST_PATH];
    const c_subject o = { m, &x, 1, 1, "net" };
    c_new_folder(path);
    TEST_EACH(c_export(&o, NULL, path) == DT_OK, "%s: %s", what, dt_error(dt_module_ctx(m)));
    c_check_folder(path, cc, what);
}

/* Converts a data pointer to a function pointer as POSIX recommends, without a cast. */
c_any_function *c_function_of(const c_loaded *l, const char *name)
{
    c_any_function *f = NULL;
    void *address = dlsym(l->library, name);
    ck_assert_msg(address != NULL, "%s is not there", name);
    memcpy(&f, &address, sizeof f);
    return f;
}

static size_t arena_bytes(const char *path)
{
    static const char macro[] = "#define NET_ARENA_BYTES ";
    char header[TEST_PATH];
    test_join(header, path, "net.h");
    char *text = test_read_file(header, NULL);
    const char *at = strstr(text, macro);
    ck_assert_ptr_nonnull(at);
    const size_t n = (size_t)strtoull(at + strlen(macro), NULL, 10);
    free(text);
    return n;
}

c_loaded c_load(const char *path, const char *cc)
{
    char file[TEST_PATH], *output;
    const int status =
        test_shell(&output, "cd %s && %s -shared -fPIC net.c -o net.so 2>&1", path, cc);
    ck_assert_msg(status == 0, "%s: %s", cc, output);
    free(output);
    test_join(file, path, "net.so");
    c_loaded l = { .library = dlopen(file, RTLD_NOW | RTLD_LOCAL) };
    ck_assert_msg(l.library != NULL, "%s", dlerror());
    l.run = (c_run_function *)c_function_of(&l, "net_run");
    l.arena = malloc(arena_bytes(path));
    return l;
}

void c_unload(c_loaded *l)
{
    free(l->arena);
    dlclose(l->library);
}
