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
    CLI_USAGE = 2,     /* error at run time */
    CLI_NONFINITE = 3, /* stopped on a value that is not finite */
    CLI_BAD_FILE = 4,  /* a file named on the command line is missing, malformed or unfit */
    CLI_INTERRUPTED = 130
};

#define CLI_OPTIONS 20
#define CLI_PATH 4096

typedef struct cli_option {
    const char *name; /* "--json"; NULL ends a list */
    /* the value in the help: a name, or lower-case words to choose from as "f32|f16|FILE"; NULL:
     * the option has no value */
    const char *value;
    const char *text;
    bool writes; /* the value is a file to write */
    bool pipes;  /* for -o: "-" is standard output */
    bool reads;  /* the value is a file to read */
} cli_option;

#define CLI_PLUGINS 16

typedef struct cli_args {
    const struct cli_command *command;
    const char *option[CLI_OPTIONS]; /* values, "" for an option without one; NULL: not given */
    const char **words;              /* arguments that are not options */
    int n_words;
    const char *plugin[CLI_PLUGINS]; /* of --plugin, which every command takes */
    int n_plugins;
    const char *run; /* the folder of the run that words[0] was found in; NULL: none */
} cli_args;

/* Which file is used when the command's first word, a model, is the folder of a run. */
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
    int (*alone)(const cli_args *args); /* replaces `run`: opens no context, or its own */
    int threads;                        /* threads of the context; 0: all */
    int least_words, most_words;        /* most 0: any number */
    cli_model model;
    bool hidden; /* left out of the help: for packages and shells */
    cli_option options[CLI_OPTIONS + 1];
} cli_command;

/* The whole program, as main. Returns the exit status. */
int cli_main(int argc, char **argv);

/* The table in main.c: command i, NULL past the last; the command with a name, or NULL. */
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

/* Prints "detent COMMAND: ..." and a newline to stderr; returns `status`. */
int cli_fail(const cli_args *args, int status, const char *format, ...) DT_PRINTF(3, 4);
/* Prints the context's error like cli_fail and returns its exit status. */
int cli_fail_by(const cli_args *args, const dt_ctx *ctx);
int cli_exit_of(dt_status status);
/* The exit status of the context's error; CLI_FAILED where the machine is the cause. */
int cli_exit_by(const dt_ctx *ctx);
/* The exit status of an errno, after a system call. */
int cli_exit_errno(int error);
/* Writes a new file with the permissions of the umask; CLI_BAD_FILE if it exists. */
int cli_write_new(const cli_args *args, const char *path, const char *text, size_t bytes);
/* Like cli_fail_by, after reading a file that the command line names: a file from a newer version,
 * or of a kind that this build cannot read, gives CLI_BAD_FILE too. */
int cli_fail_file(const cli_args *args, const dt_ctx *ctx);
/* Seconds of a monotonic clock. */
double cli_seconds(void);
bool cli_is_folder(const char *path);
/* Opens a context that prints notes to stderr. After an error: *out is NULL, a message is printed,
 * and its status returned. */
int cli_open(const cli_args *args, int threads, dt_ctx **out);
/* Opens a context that prints nothing, to try something. */
int cli_open_quiet(const cli_args *args, dt_ctx **out);
/* A dt_sink that writes text to stdout. IO if that fails. */
dt_status cli_stdout(void *user, const char *text, size_t bytes);
/* The exit status after writing with cli_stdout. */
int cli_written(dt_status status);
/* Reads an option's value, a number of 1 to `most`; *out does not change if it is not given.
 * Returns CLI_DONE, or a status after a message. */
int cli_read_count(const cli_args *args, int option, int most, int *out);
/* Sets *out to the index of an option's value in `choices`, which NULL ends; otherwise as
 * cli_read_count. */
int cli_read_choice(const cli_args *args, int option, const char *const *choices, int *out);
/* Prints a JSON string to stdout. */
void cli_json_string(const char *text);
/* Prints n arbitrary bytes as a JSON string; each byte that is not UTF-8 becomes U+FFFD. */
void cli_json_text(const char *text, size_t n);
/* Prints a JSON number; null if it is not finite. */
void cli_json_number(double value);
/* Like cli_fail_by, for a recipe's file: suggests a shipped recipe that may be meant. */
int cli_fail_source(const cli_args *args, const dt_ctx *ctx, const char *path);
/* Like cli_fail_by, but prints all errors of the recipe if it has any. */
int cli_fail_recipe(const cli_args *args, const dt_ctx *ctx, const dt_recipe *recipe);
/* Prints all errors of a recipe to stderr. Returns CLI_USAGE. */
int cli_print_errors(const dt_recipe *recipe);
/* Whether a run's recipe.yaml is in a file's folder, or one or two folders above. */
bool cli_lies_in_run(const char *model);
/* Whether a word changes a recipe: "key=value" or "~key". */
bool cli_is_override(const char *word);
/* Reads words[first] as a recipe and the words after it as overrides. Prints all errors. Returns
 * CLI_DONE, or the exit status. The caller frees *out if it is not NULL. */
int cli_read_recipe(const cli_args *args, dt_ctx *ctx, int first, bool leave_files,
                    dt_recipe **out);
/* Reads a recipe from another source; the overrides begin at words[first]. */
int cli_read_source(const cli_args *args, dt_ctx *ctx, int first, const dt_recipe_source *source,
                    dt_recipe **out);
/* Reads the recipe of the words MODEL [RECIPE] [key=value ...]; without RECIPE that of MODEL's run.
 * Does not check that the recipe's files exist. `what` says in messages what the recipe is needed
 * for. */
int cli_read_recipe_of(const cli_args *args, dt_ctx *ctx, const char *what,
                       const char *const *reads, dt_recipe **out);
/* The blocks that `quantize` and `convert` read of a recipe (dt_recipe_source). */
extern const char *const cli_rounding_reads[];
extern const char *const cli_observing_reads[]; /* likewise, where ranges are observed */

/* ---- outputs.c ---- */

/* Says on stderr that an output file exists and will be replaced, if so; `path` may be NULL. */
void cli_say_replaced(const cli_args *args, const char *path);
/* Does so for all options that are files to write. */
void cli_say_all_replaced(const cli_args *args);
/* Refuses an output `path` that is also read: one of the words, or the value of an option that is a
 * file to read. Returns CLI_DONE, or the status. */
int cli_check_apart(const cli_args *args, const char *path);
/* Refuses outputs that are the file `read`, which is not on the command line. */
int cli_check_kept(const cli_args *args, const char *read);
/* Refuses two options that would write one file. */
int cli_check_outputs(const cli_args *args);

/* ---- run_model.c ---- */

/* Finds the file of the model that the first word names: the file itself or, for a run's folder, a
 * file in it, which is reported on stderr. Returns CLI_DONE, or the status after a message. */
int cli_find_model(const cli_args *args, char path[CLI_PATH]);

/* The plural ending of a word after a count: 1 layer, 2 layers. */
#define CLI_S(n) ((n) == 1 ? "" : "s")

/* ---- prompt.c ---- */

/* How prompts were written when a model was trained: by a format, or as chats. */
typedef struct cli_prompts {
    bool given;   /* --format is given; otherwise prompts are used as they are */
    char *format; /* a format of dt_prompt_fill; NULL: chats */
    int chat;     /* dt_chat_template */
    char *system; /* of dt_chat; NULL: none */
} cli_prompts;

/* Reads them from the model that the first word names. Returns CLI_DONE, or the status after a
 * message. */
int cli_prompts_read(const cli_args *args, dt_ctx *ctx, const dt_model_info *info,
                     cli_prompts *out);
void cli_prompts_free(cli_prompts *p);
/* Where --format is not given: says on stderr if the model was trained on a format. */
void cli_prompts_advise(const cli_args *args, dt_ctx *ctx, const dt_model_info *info);
/* Appends the ids of a prompt, a message of the user, to a list that has a context. `how` applies
 * to prompts as they are and in formats. */
dt_status cli_prompt_encode(const cli_prompts *p, const dt_tokenizer *k, const dt_message *text,
                            const dt_encoding *how, dt_ids *ids);

/* ---- signals.c ---- */

/* After the first SIGINT or SIGTERM cli_stopped is true; a second one ends the program. */
void cli_catch_signals(void);
bool cli_stopped(void *user); /* `user` is ignored */

#endif
