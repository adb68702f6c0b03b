/* The program's commands. Each is one file cmd_<name>.c and one line of the table in main.c.
 *
 * Results go to stdout, messages and progress to stderr. */
#ifndef CLI_H
#define CLI_H

#include <detent/experimental/io.h>
#include <detent/experimental/train.h>

/* Exit statuses. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,    /* at run time */
    CLI_USAGE = 2,     /* wrong usage, or a wrong recipe */
    CLI_NONFINITE = 3, /* stopped on a value that is not finite */
    CLI_BAD_FILE = 4,  /* a file named on the command line is missing, malformed or unfit */
    CLI_INTERRUPTED = 130
};

#define CLI_OPTIONS 20
#define CLI_PATH 4096

typedef struct cli_option {
    const char *name;  /* "--json"; NULL ends a list */
    const char *value; /* its value in the help: a name, or words to choose from as "f32|f16|FILE",
                        * in lower case; NULL: it takes none */
    const char *text;
    bool writes; /* its value is a file to write */
    bool pipes;  /* of -o: "-" is standard output */
    bool reads;  /* its value is a file to read */
} cli_option;

#define CLI_PLUGINS 16

typedef struct cli_args {
    const struct cli_command *command;
    const char *option[CLI_OPTIONS]; /* values, "" if it takes none; NULL: not given */
    const char **words;              /* arguments that are not options */
    int n_words;
    const char *plugin[CLI_PLUGINS]; /* of --plugin, which every command takes */
    int n_plugins;
    const char *run; /* the folder of the run that words[0] was found in; NULL: none */
} cli_args;

/* Which file of a run's folder is used when a command's first word, a model, is such a folder. */
typedef enum cli_model {
    CLI_NO_MODEL,
    CLI_FINAL_MODEL,  /* final model, else newest checkpoint, else float model */
    CLI_FLOAT_MODEL,  /* float model, else newest checkpoint */
    CLI_TRAINED_MODEL /* newest checkpoint, else float model */
} cli_model;

typedef struct cli_command {
    const char *name;
    const char *usage; /* arguments after the name: "RECIPE [key=value ...]" */
    const char *text;  /* one sentence */
    int (*run)(const cli_args *args, dt_ctx *ctx);
    int (*alone)(const cli_args *args); /* in its place: it opens no context, or its own */
    int threads;                        /* of the context; 0: all */
    int least_words, most_words;        /* most 0: any number */
    cli_model model;
    bool hidden; /* for packages and shells: help does not list it */
    cli_option options[CLI_OPTIONS + 1];
} cli_command;

/* The whole program, as main. Returns the exit status. */
int cli_main(int argc, char **argv);

/* The table in main.c: command i, NULL past the last; the command of a name, or NULL. */
const cli_command *cli_command_at(int i);
const cli_command *cli_command_named(const char *name);

int cli_train(const cli_args *args, dt_ctx *ctx);
int cli_config(const cli_args *args, dt_ctx *ctx);
int cli_ls(const cli_args *args);
int cli_cp(const cli_args *args);
int cli_eval(const cli_args *args, dt_ctx *ctx);
int cli_convert(const cli_args *args, dt_ctx *ctx);
int cli_quantize(const cli_args *args, dt_ctx *ctx);
int cli_sample(const cli_args *args);
int cli_inspect(const cli_args *args, dt_ctx *ctx);
int cli_check(const cli_args *args, dt_ctx *ctx);
int cli_export(const cli_args *args, dt_ctx *ctx);
int cli_tokenize(const cli_args *args, dt_ctx *ctx);
int cli_merge(const cli_args *args, dt_ctx *ctx);
int cli_rotate(const cli_args *args, dt_ctx *ctx);
int cli_import(const cli_args *args, dt_ctx *ctx);
int cli_predict(const cli_args *args, dt_ctx *ctx);
int cli_new(const cli_args *args);
int cli_doctor(const cli_args *args, dt_ctx *ctx);
int cli_report(const cli_args *args, dt_ctx *ctx);
int cli_compare(const cli_args *args, dt_ctx *ctx);
int cli_sweep(const cli_args *args, dt_ctx *ctx);
int cli_search(const cli_args *args, dt_ctx *ctx);
int cli_bench(const cli_args *args);
int cli_pages(const cli_args *args);
int cli_complete(const cli_args *args);

/* ---- helpers of commands (cli.c) ---- */

/* "detent COMMAND: ..." and a newline to stderr; returns `status`. */
int cli_fail(const cli_args *args, int status, const char *format, ...) DT_PRINTF(3, 4);
/* Prints the context's error like cli_fail and returns its exit status. */
int cli_fail_by(const cli_args *args, const dt_ctx *ctx);
int cli_exit_of(dt_status status);
/* The exit status of the context's error; CLI_FAILED where the machine is to blame. */
int cli_exit_by(const dt_ctx *ctx);
/* The same of an errno, after a call of the system. */
int cli_exit_errno(int error);
/* Writes a new file, whose permissions are the umask's; CLI_BAD_FILE if there is one. */
int cli_write_new(const cli_args *args, const char *path, const char *text, size_t bytes);
/* The same after reading a file named on the command line: files that this program is too old for,
 * or not built to read, give CLI_BAD_FILE too. */
int cli_fail_file(const cli_args *args, const dt_ctx *ctx);
/* The time of a clock that never goes back. */
double cli_seconds(void);
bool cli_is_folder(const char *path);
/* *out: a context that prints notes on stderr; NULL after a message, whose status is returned. */
int cli_open(const cli_args *args, int threads, dt_ctx **out);
/* The same without a line of output, to try something. */
int cli_open_quiet(const cli_args *args, dt_ctx **out);
/* A dt_sink that writes text to stdout. IO if that fails. */
dt_status cli_stdout(void *user, const char *text, size_t bytes);
/* The exit status after writing with cli_stdout. */
int cli_written(dt_status status);
/* Reads an option's value, a number of 1 to `most`; *out keeps its value without it. CLI_DONE, or
 * the status after a message. */
int cli_read_count(const cli_args *args, int option, int most, int *out);
/* The same of one of the names `choices`, ended by NULL: *out becomes its place. */
int cli_read_choice(const cli_args *args, int option, const char *const *choices, int *out);
/* Prints a JSON string to stdout. */
void cli_json_string(const char *text);
/* The same for n arbitrary bytes; each byte that is not UTF-8 becomes U+FFFD. */
void cli_json_text(const char *text, size_t n);
/* Prints a JSON number; null if it is not finite. */
void cli_json_number(double value);
/* Like cli_fail_by, of a recipe's file: one that comes with detent may be meant. */
int cli_fail_source(const cli_args *args, const dt_ctx *ctx, const char *path);
/* Like cli_fail_by, but prints all errors of the recipe if it has any. */
int cli_fail_recipe(const cli_args *args, const dt_ctx *ctx, const dt_recipe *recipe);
/* Prints all errors of a recipe to stderr. Returns CLI_USAGE. */
int cli_print_errors(const dt_recipe *recipe);
/* Whether a run's recipe.yaml is in a file's folder, or one or two folders above. */
bool cli_lies_in_run(const char *model);
/* Whether a word changes a recipe: "key=value" or "~key". */
bool cli_is_override(const char *word);
/* Reads words[first] as a recipe and the words after it as overrides. Prints all errors. CLI_DONE,
 * or the exit status. The caller frees *out if it is not NULL. */
int cli_read_recipe(const cli_args *args, dt_ctx *ctx, int first, bool leave_files,
                    dt_recipe **out);
/* The same from another source; the overrides begin at words[first]. */
int cli_read_source(const cli_args *args, dt_ctx *ctx, int first, const dt_recipe_source *source,
                    dt_recipe **out);
/* The same for the words MODEL [RECIPE] [key=value ...]. Without RECIPE it takes that of MODEL's
 * run. Does not check that the recipe's files exist. `what` says in messages what the recipe is
 * needed for. */
int cli_read_recipe_of(const cli_args *args, dt_ctx *ctx, const char *what,
                       const char *const *reads, dt_recipe **out);
/* What `quantize` and `convert` read of a recipe (dt_recipe_source). */
extern const char *const cli_rounding_reads[];
extern const char *const cli_observing_reads[]; /* the same where ranges are observed */

/* ---- outputs.c ---- */

/* Says on stderr that an output file exists and will be replaced, if so; `path` may be NULL. */
void cli_say_replaced(const cli_args *args, const char *path);
/* The same of all options that are files to write. */
void cli_say_all_replaced(const cli_args *args);
/* Refuses an output `path` that is also read: one of the words, or the value of an option that is a
 * file to read. CLI_DONE, or the status. */
int cli_check_apart(const cli_args *args, const char *path);
/* Refuses outputs that are the file `read`, which the command line does not name. */
int cli_check_kept(const cli_args *args, const char *read);
/* Refuses two options that would write one file. */
int cli_check_outputs(const cli_args *args);

/* ---- run_model.c ---- */

/* The file of the model that the first word names: itself, or, for a run's folder, a file of it,
 * which is reported on stderr. CLI_DONE, or the status after a message. */
int cli_find_model(const cli_args *args, char path[CLI_PATH]);

/* The ending of a word behind a count: 1 layer, 2 layers. */
#define CLI_S(n) ((n) == 1 ? "" : "s")

/* ---- prompt.c ---- */

/* The prompts on which a model was trained: a format, or a form of chats. */
typedef struct cli_prompts {
    bool given;   /* --format; else texts are as they are */
    char *format; /* of dt_prompt_fill; NULL: chats */
    int chat;     /* dt_chat_template */
    char *system; /* of dt_chat; NULL: none */
} cli_prompts;

/* Those of the model of the first word. CLI_DONE, or the status after a message. */
int cli_prompts_read(const cli_args *args, dt_ctx *ctx, const dt_model_info *info,
                     cli_prompts *out);
void cli_prompts_free(cli_prompts *p);
/* Where --format is not given: says on stderr that the model's prompts had a format, if so. */
void cli_prompts_advise(const cli_args *args, dt_ctx *ctx, const dt_model_info *info);
/* Appends the ids of a prompt, a message of the user, to a list that has a context. `how` is of
 * texts as they are, and in formats. */
dt_status cli_prompt_encode(const cli_prompts *p, const dt_tokenizer *k, const dt_message *text,
                            const dt_encoding *how, dt_ids *ids);

/* ---- signals.c ---- */

/* After the first SIGINT or SIGTERM cli_stopped is true; a second one ends the program. */
void cli_catch_signals(void);
bool cli_stopped(void *user); /* `user` is ignored */

#endif
