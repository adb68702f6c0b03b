/* The program's commands. Each is one file cmd_<name>.c and one line of the table in main.c.
 *
 * What a program may read goes to stdout, what a person watches to stderr. */
#ifndef CLI_H
#define CLI_H

#include <detent/io.h>
#include <detent/train.h>

/* Exit statuses. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,    /* at run time */
    CLI_USAGE = 2,     /* wrong usage, or a wrong recipe */
    CLI_NONFINITE = 3, /* stopped on a value that is not finite */
    CLI_BAD_FILE = 4,  /* a file of the command line that is missing, malformed, another model's */
    CLI_INTERRUPTED = 130
};

#define CLI_OPTIONS 16
#define CLI_PATH 4096
#define CLI_WORDS 1024 /* arguments that are no options, at most */

typedef struct cli_option {
    const char *name;  /* "--json"; NULL ends a list */
    const char *value; /* what its value is called; NULL: it takes none */
    const char *text;
    bool writes; /* its value is a file to write */
} cli_option;

typedef struct cli_args {
    const struct cli_command *command;
    const char *option[CLI_OPTIONS]; /* the value of each, "" if it takes none; NULL: not given */
    const char **words;              /* what is no option */
    int n_words;
} cli_args;

/* Which file of a run's folder stands for it, where a command's first word is a model. */
typedef enum cli_model {
    CLI_NO_MODEL,
    CLI_FINAL_MODEL,  /* the model of its end; else its newest checkpoint, else its float model */
    CLI_FLOAT_MODEL,  /* its float model, else its newest checkpoint */
    CLI_TRAINED_MODEL /* its newest checkpoint, else its float model */
} cli_model;

typedef struct cli_command {
    const char *name;
    const char *usage; /* behind the name: "RECIPE [key=value ...]" */
    const char *text;  /* one sentence */
    int (*run)(const cli_args *args);
    int least_words, most_words; /* most 0: any number */
    cli_model model;
    cli_option options[CLI_OPTIONS + 1];
} cli_command;

int cli_train(const cli_args *args);
int cli_config(const cli_args *args);
int cli_ls(const cli_args *args);
int cli_cp(const cli_args *args);
int cli_eval(const cli_args *args);
int cli_convert(const cli_args *args);
int cli_quantize(const cli_args *args);
int cli_sample(const cli_args *args);
int cli_inspect(const cli_args *args);
int cli_check(const cli_args *args);
int cli_export(const cli_args *args);
int cli_tokenize(const cli_args *args);
int cli_merge(const cli_args *args);
int cli_bench(const cli_args *args);

/* ---- helpers of commands (cli.c) ---- */

/* "detent COMMAND: ..." and a newline to stderr; returns `status`. */
int cli_fail(const cli_args *args, int status, const char *format, ...) DT_PRINTF(3, 4);
/* The same with the context's error, and its exit status. */
int cli_fail_by(const cli_args *args, const dt_ctx *ctx);
int cli_exit_of(dt_status status);
/* The same after reading a file of the command line: one that this program is too old or not built
 * for is a bad file too. */
int cli_fail_file(const cli_args *args, const dt_ctx *ctx);
/* A context that prints notes on stderr; NULL after a message. */
dt_ctx *cli_ctx(const cli_args *args, int threads);
/* A dt_sink: text to stdout. IO where it cannot be written. */
dt_status cli_stdout(void *user, const char *text, size_t bytes);
/* The exit status of what went through it. */
int cli_written(dt_status status);
/* A string of JSON to stdout. */
void cli_json_string(const char *text);
/* The same of n bytes of any kind; what is no UTF-8 becomes U+FFFD, one a byte. */
void cli_json_text(const char *text, size_t n);
/* A finite number of JSON, or null. */
void cli_json_number(double value);
/* A name from a file, with control characters as '?'; padded with spaces to `width` characters. */
void cli_print_name(const char *name, int width);
/* The same where the recipe may be to blame: then all its errors. */
int cli_fail_recipe(const cli_args *args, const dt_ctx *ctx, const dt_recipe *recipe);
/* All errors of a recipe to stderr. Returns CLI_USAGE. */
int cli_print_errors(const dt_recipe *recipe);
/* Whether a run's recipe lies beside a file, or a folder or two higher up. */
bool cli_lies_in_run(const char *model);
/* Whether a word changes a recipe: "key=value" or "~key". */
bool cli_is_override(const char *word);
/* Reads words[first] as a recipe and the words behind it as overrides. Prints all errors. CLI_DONE,
 * or the exit status. *out is to be freed if not NULL. */
int cli_read_recipe(const cli_args *args, dt_ctx *ctx, int first, bool leave_files,
                    dt_recipe **out);
/* The same from another source; words[first] and those behind it are the overrides. */
int cli_read_source(const cli_args *args, dt_ctx *ctx, int first, const dt_recipe_source *source,
                    dt_recipe **out);
/* The same for a command with the words MODEL [RECIPE] [key=value ...]: without RECIPE that of the
 * run that MODEL lies in. Files that it names are not looked for. `what` is what a recipe is wanted
 * for. */
int cli_read_recipe_of(const cli_args *args, dt_ctx *ctx, const char *what, dt_recipe **out);

/* ---- outputs.c ---- */

/* Says on stderr which outputs are there already, and will be replaced. */
void cli_say_replaced(const cli_args *args);
/* Refuses a `path` that is one of the words; NULL is none of them. CLI_DONE, or the status. */
int cli_check_apart(const cli_args *args, const char *path);

/* ---- run_model.c ---- */

/* The file of the model that the first word names: itself, or one of the run's folder that it is,
 * which is said on stderr. CLI_DONE, or the status after a message. */
int cli_find_model(const cli_args *args, char path[CLI_PATH]);

/* ---- signals.c ---- */

/* The first SIGINT or SIGTERM makes cli_stopped true; a second one ends the program as ever. */
void cli_catch_signals(void);
bool cli_stopped(void *user); /* `user` is not looked at */

#endif
