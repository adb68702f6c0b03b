/* The program `detent`: finds the command, its options and words, and runs it. */
#include "cli.h"
#include "text.h"

#include <detent/sweep.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_command commands[] = {
    { "train", "RECIPE [key=value ...], or RUN --resume",
      "trains as a recipe says: in float, then quantization-aware, then converts and compares",
      cli_train, .least_words = 1,
      .options = { { "--resume", NULL, "go on with the run from its newest good checkpoint" },
                   { "--dry-run", NULL, "build everything, run one step, write nothing" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress" } } },
    { "config", "show|validate RECIPE [key=value ...], or schema, or keys",
      "the resolved recipe with each value's origin; its errors; the schema and the page of keys",
      cli_config, .least_words = 1,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--leave-files", NULL, "do not look whether files of the recipe exist" },
                   { "--summary", NULL, "show: the model's layers, shapes and sizes" } } },
    { "eval", "MODEL|RUN [RECIPE] [key=value ...]",
      "metrics of a checkpoint or a converted model on the test data (else those to validate with) "
      "of a "
      "recipe, or of its own run",
      cli_eval, .least_words = 1, .model = CLI_FINAL_MODEL,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--outputs", "FILE", "write the model's outputs as one tensor, in data order",
                     .writes = true },
                   { "--quiet", NULL, "no progress" } } },
    { "report", "RUN... [-o FILE]",
      "a page about one run, or several side by side: curves, layers, examples, as one HTML file",
      cli_report, .least_words = 1, .most_words = DT_MOST_REPORTED,
      .options = { { "-o", "FILE", "the file to write; default: report.html in the first run" },
                   { "--live", NULL, "write it again whenever a run goes on, until it ends" } } },
    { "compare", "RUN RUN...", "what differs in the recipes and results of runs, side by side",
      cli_compare, .least_words = 2, .most_words = DT_MOST_REPORTED,
      .options = { { "--seeds", "N",
                     "so many runs in a row are one recipe: mean and standard deviation" } } },
    { "sweep", "RECIPE FILE [key=value ...]",
      "trains a recipe with many values of its keys, as FILE says: a grid, random draws, or "
      "successive halving; a table, a page and the best recipe",
      cli_sweep, .least_words = 2,
      .options = { { "--seeds", "N",
                     "runs of each recipe, with N seeds: mean and standard deviation" },
                   { "--dry-run", NULL, "list the runs, write nothing" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress" } } },
    { "search", "RECIPE --budget BYTES [key=value ...]",
      "chooses the bits of each layer's weight so that the model fits, by what they cost the loss, "
      "trains that, and compares with the same bits for all layers",
      cli_search, .least_words = 1,
      .options = { { "--budget", "BYTES", "the most that the model's tensors may take" },
                   { "--seeds", "N", "runs of each, with N seeds: mean and standard deviation" },
                   { "--dir", "DIR", "folder of it; default: the recipe's run.dir and -search" },
                   { "--dry-run", NULL, "what choices there are, and how large" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress" } } },
    { "convert", "RUN|CHECKPOINT -o FILE", "the integer form of a QAT checkpoint", cli_convert,
      .least_words = 1, .most_words = 1,
      .options = { { "--json", NULL, "results as JSON" },
                   { "-o", "FILE", "the file to write", .writes = true },
                   { "--quiet", NULL, "no progress; totals without a row a weight" } } },
    { "quantize", "FILE|RUN [RECIPE] [key=value ...] -o FILE",
      "weights of a model or of a safetensors file to integers without training: to nearest, or "
      "with calibration data by gptq, gpfq, qronos and their a2 forms",
      cli_quantize, .least_words = 1, .model = CLI_FLOAT_MODEL,
      .options = { { "-o", "FILE", "the file to write", .writes = true },
                   { "--calibration", "FILE",
                     "of a file of tensors: the weights' inputs, by name" },
                   { "--codes", "packed|i8",
                     "of a file of tensors: as many in a byte as fit, or one" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress; totals without a row a weight" } } },
    { "export", "MODEL|RUN --format NAME -o PATH",
      "a model for another program: c, a folder of C files without libraries; onnx, a file for "
      "onnxruntime; tflite, one for LiteRT and TFLite Micro; hf, a folder as transformers reads "
      "it; or in another form of detent: experts, "
      "with a tensor for each expert of a grouped parameter; stacked, with one for all of them",
      cli_export, .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1,
      .options = { { "--format", "NAME",
                     "c, onnx, tflite, gguf, hf, compressed-tensors, torchao, experts or stacked" },
                   { "-o", "PATH", "the file to write; of c and hf the folder: new, or empty" },
                   { "--verify", NULL,
                     "onnx, tflite: run what was written and compare its results with the "
                     "model's" },
                   { "--quiet", NULL, "no progress and no summary" },
                   { "--name", "NAME", "c: what all names begin with; default: the folder's name" },
                   { "--context", "N", "c: the most tokens of a language model" },
                   { "--text", NULL, "c: tokenizer and sampling of a language model too" },
                   { "--ops", "plain|nbits|qdq",
                     "onnx: standard operators with detent's bits (the default), MatMulNBits, or "
                     "pairs of QuantizeLinear and DequantizeLinear" },
                   { "--past", NULL,
                     "onnx: keys and values of earlier tokens are inputs and outputs" },
                   { "--accuracy-level", "0|4", "onnx, nbits: 4 quantizes activations in blocks" },
                   { "--dtype", "as_read|f32|f16|bf16",
                     "hf: of the weights; default: as they were read, or f32" },
                   { "--dequantize", NULL, "hf: what integers say, in place of float weights too" },
                   { "--type", "trained|f32|f16|q4_0|q8_0",
                     "gguf: of the weights; default: as they are quantized, floats in f32" } } },
    { "tokenize", "TEXT... [-o FILE.bin] --tokenizer bytes|chars|FILE",
      "texts to a file of ids, or to lines of ids on stdout; with --decode, files of ids to text",
      cli_tokenize, .least_words = 1,
      .options = { { "--tokenizer", "bytes|chars|FILE",
                     "every byte, the texts' own characters, or a tokenizer.json" },
                   { "-o", "FILE.bin", "the file to write: u16, or u32 if it ends in .u32.bin",
                     .writes = true },
                   { "--save-tokenizer", "FILE", "write the tokenizer too, as JSON",
                     .writes = true },
                   { "--special", NULL,
                     "added tokens in a text (<|endoftext|>) become their ids, not text" },
                   { "--wrap", NULL, "put the tokenizer's template around each text" },
                   { "--end", NULL, "put its token for the end of a text behind each" },
                   { "--decode", NULL, "the words are files of ids: write their text to stdout" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress" } } },
    { "sample", "MODEL|RUN --prompt TEXT",
      "text from a language model, in any form, token by token", cli_sample, .least_words = 1,
      .model = CLI_FINAL_MODEL, .most_words = 1,
      .options = { { "--prompt", "TEXT", "what the text begins with" },
                   { "--prompt-file", "FILE", "the same from a file; - is standard input" },
                   { "--prompt-ids", "1,2,3", "the same as ids of tokens" },
                   { "--tokenizer", "FILE",
                     "in place of the model's own; bytes: every byte an id" },
                   { "--max-tokens", "N",
                     "tokens to add; default 256; where the context is full, the window slides" },
                   { "--temperature", "T", "default 1; 0: always the most likely token" },
                   { "--top-k", "K", "only the K most likely; default 0: all" },
                   { "--top-p", "P", "of those the fewest with this share; default 1" },
                   { "--seed", "N", "of what is drawn; default 0" },
                   { "--stop", "TEXT|ID", "the text ends before this, or before this token" },
                   { "--print-ids", NULL, "ids of tokens in place of text" },
                   { "--special", NULL,
                     "special tokens in the prompt are tokens, and those made are printed" },
                   { "--cache", "f32|int8",
                     "how keys and values are kept; int8: a quarter of the memory; default f32" },
                   { "--threads", "N", "default: one for each core" },
                   { "--json", NULL, "the whole result as JSON, at the end" } } },
    { "predict", "MODEL|RUN INPUT...",
      "what a model answers to files: .png, .jpg, .wav, .csv, .npy, .npz, .safetensors; of a "
      "language model to texts, the next token",
      cli_predict, .least_words = 2, .model = CLI_FINAL_MODEL,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--top", "K", "the likeliest classes or tokens; default 3" },
                   { "--columns", "a,b,...",
                     "of CSV files: the columns to read; default: those trained on" },
                   { "-o", "PATH", "images: a .png file to write, or a folder", .writes = true },
                   { "--quiet", NULL, "no progress" } } },
    { "merge", "MODEL|RUN -o FILE",
      "a model whose layers have adapters, to one that computes the same without", cli_merge,
      .least_words = 1, .model = CLI_TRAINED_MODEL, .most_words = 1,
      .options = { { "-o", "FILE", "the file to write", .writes = true } } },
    { "import", "MODEL.onnx -o FILE", "an ONNX model as a float model of family layers", cli_import,
      .least_words = 1, .most_words = 1,
      .options = { { "-o", "FILE", "the file to write", .writes = true },
                   { "--verify", "FILE",
                     "a safetensors file of inputs and outputs, by name: compare before "
                     "writing" },
                   { "--quiet", NULL, "no progress" } } },
    { "inspect", "FILE|RUN",
      "tensors, shapes, schemes, bytes, bits per weight of a safetensors file", cli_inspect,
      .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--layers", NULL, "of a model: layers, output shapes, multiply-adds" },
                   { "--graph", "table|dot",
                     "of a model: the ops that it runs, their forms, memory and multiply-adds; dot "
                     "is for Graphviz" } } },
    { "check", "FILE|RUN", "verifies a file's structure, hash and values", cli_check,
      .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1 },
    { "bench", "",
      "kernels and a training step against the machine's limits, which are measured beside them",
      cli_bench,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--only", "PART[,PART]",
                     "limits, products, quantize, optimizer, step, convolutions, rounding, "
                     "language, experts, backward, waiting" },
                   { "--threads", "N", "beside one thread; default: one for each core" },
                   { "--repeat", "N", "repetitions; default: as many as a second holds" },
                   { "--explain", NULL, "also where the time of each training step goes" },
                   { "--quick", NULL, "small shapes, a few seconds: whether it works" },
                   { "--quiet", NULL, "no progress" } } },
    { "new", "[FILE] [--data PATH] [--task TASK]",
      "writes a recipe for data of your own; asks for what is not given", cli_new, .most_words = 1,
      .options = { { "--data", "PATH", "a folder, a file, or the name of drawn data" },
                   { "--task", "TASK",
                     "classification, regression, multi_label, anomaly, denoising or language" },
                   { "--target", "a,b,...", "of CSV files: the columns to predict" },
                   { "--bits", "N", "of the weights: 2, 3, 4 or 8; default 4" },
                   { "--float", NULL, "train in float only" } } },
    { "doctor", "", "the machine as detent sees it, and what would make it faster", cli_doctor,
      .options = { { "--json", NULL, "results as JSON" } } },
    { "ls", "", "the recipes that come with detent", cli_ls,
      .options = { { "--json", NULL, "results as JSON" } } },
    { "cp", "NAME [FILE]", "copies such a recipe, to NAME.yaml if no FILE is given", cli_cp,
      .least_words = 1, .most_words = 2 },
};

#define N_COMMANDS ((int)(sizeof commands / sizeof commands[0]))

/* ---- help --------------------------------------------------------------------------------- */

static void print_usage(FILE *to)
{
    fprintf(to, "usage: detent COMMAND [ARGUMENTS]\n\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        char head[32];
        snprintf(head, sizeof head, "  %s", commands[i].name);
        cli_entry(to, head, 13, commands[i].text);
    }
    fputc('\n', to);
    cli_wrap(to, 0, 0, "detent COMMAND --help says more. detent --version prints the version.");
}

/* What to begin with. */
static void print_beginning(FILE *to)
{
    static const char *const lines[][2] = {
        { "  detent cp digits-2bit", "copies a recipe that needs no files" },
        { "  detent train digits-2bit.yaml", "trains by it in seconds, and compares" },
        { "  detent new", "writes a recipe for data of your own" },
        { "  detent --help", "lists all commands" },
    };
    cli_wrap(to, 0, 0, "detent trains small models, in float and for integers. To begin:");
    fputc('\n', to);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cli_entry(to, lines[i][0], 33, lines[i][1]);
    }
}

#define OPTION_COLUMN 27 /* of the text about an option */

static void print_option(const cli_option *o)
{
    char head[64];
    snprintf(head, sizeof head, "  %s%s%s", o->name, o->value == NULL ? "" : " ",
             o->value == NULL ? "" : o->value);
    cli_entry(stdout, head, OPTION_COLUMN, o->text);
}

static void print_help(const cli_command *c)
{
    char usage[256];
    snprintf(usage, sizeof usage, "%s%s%s%s", c->name, *c->usage == 0 ? "" : " ", c->usage,
             c->options[0].name == NULL ? "" : " [OPTIONS]");
    fputs("usage: detent ", stdout);
    cli_wrap(stdout, 14, 14, usage);
    putchar('\n');
    cli_wrap(stdout, 0, 0, c->text);
    if (c->options[0].name != NULL) putchar('\n');
    for (const cli_option *o = c->options; o->name != NULL; o++) print_option(o);
}

static int refuse_command(const char *name)
{
    const char *names[N_COMMANDS + 1] = { NULL };
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    const char *meant = dt_nearest(names, name);
    if (meant != NULL) {
        fprintf(stderr, "detent: no command '%s' (did you mean '%s'?)\n", name, meant);
    } else {
        fprintf(stderr, "detent: no command '%s'\n\n", name);
        print_usage(stderr);
    }
    return CLI_USAGE;
}

/* ---- arguments ---------------------------------------------------------------------------- */

/* The option of which `name` is a prefix; NULL: none, or several. */
static const char *begun_by(const cli_command *c, const char *name)
{
    const char *found = NULL;
    for (const cli_option *o = c->options; o->name != NULL; o++) {
        if (strncmp(o->name, name, strlen(name)) != 0) continue;
        if (found != NULL) return NULL;
        found = o->name;
    }
    return found;
}

/* Reports an unknown option. `next` is the argument after it, or NULL. */
static int refuse_option(const cli_args *args, const char *text, const char *next)
{
    const char *names[CLI_OPTIONS + 2] = { NULL };
    char name[CLI_KEY], key[CLI_KEY];
    int n = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    for (const cli_option *o = args->command->options; o->name != NULL; o++) names[n++] = o->name;
    if (strncmp(name, "--h", 3) == 0) names[n] = "--help";
    const char *meant = begun_by(args->command, name);
    const bool has_recipe = strstr(args->command->usage, "key=value") != NULL;
    if (meant == NULL && has_recipe && strncmp(name, "--", 2) == 0 && cli_find_key(name + 2, key)) {
        const char *value = strchr(text, '=');
        value = value != NULL ? value + 1 : next != NULL && *next != '-' ? next : "VALUE";
        return cli_fail(args, CLI_USAGE, "no option '%s'; write %s=%s", name, key, value);
    }
    if (meant == NULL) meant = dt_nearest(names, name);
    if (meant == NULL) return cli_fail(args, CLI_USAGE, "no option '%s'", text);
    return cli_fail(args, CLI_USAGE, "no option '%s' (did you mean '%s'?)", text, meant);
}

/* The index of the option that `text` is, or with which it begins as "NAME=". */
static int find_option(const cli_command *c, const char *text)
{
    const size_t n = strcspn(text, "=");
    for (int i = 0; c->options[i].name != NULL; i++) {
        if (strlen(c->options[i].name) == n && memcmp(c->options[i].name, text, n) == 0) return i;
    }
    return -1;
}

/* Parses the option argv[*i] and its value, if any. */
static int take_option(cli_args *args, char **argv, int argc, int *i)
{
    const char *text = argv[*i];
    const int found = find_option(args->command, text);
    if (found < 0) return refuse_option(args, text, *i + 1 < argc ? argv[*i + 1] : NULL);
    const cli_option *o = &args->command->options[found];
    const char *value = strchr(text, '=');
    if (o->value == NULL) {
        if (value != NULL) return cli_fail(args, CLI_USAGE, "%s takes no value", o->name);
        args->option[found] = "";
        return CLI_DONE;
    }
    if (value == NULL && *i + 1 >= argc) {
        return cli_fail(args, CLI_USAGE, "%s needs a value: %s", o->name, o->value);
    }
    args->option[found] = value != NULL ? value + 1 : argv[++*i];
    return CLI_DONE;
}

static int run(const cli_command *c, int argc, char **argv)
{
    const char *words[CLI_WORDS];
    cli_args args = { .command = c, .words = words };
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (!only_words && strcmp(text, "--help") == 0) {
            print_help(c);
            return CLI_DONE;
        }
        if (!only_words && strcmp(text, "--") == 0) {
            only_words = true;
        } else if (!only_words && text[0] == '-' && text[1] != 0) {
            const int status = take_option(&args, argv, argc, &i);
            if (status != CLI_DONE) return status;
        } else if (args.n_words == CLI_WORDS) {
            return cli_fail(&args, CLI_USAGE, "more than %d arguments", CLI_WORDS);
        } else {
            words[args.n_words++] = text;
        }
    }
    if (args.n_words < c->least_words || (c->most_words > 0 && args.n_words > c->most_words) ||
        (args.n_words > 0 && *c->usage == 0)) {
        return cli_fail(&args, CLI_USAGE, "usage: detent %s %s", c->name, c->usage);
    }
    char model[CLI_PATH];
    int status = CLI_DONE;
    if (c->model != CLI_NO_MODEL) {
        status = cli_find_model(&args, model);
        words[0] = model;
    }
    cli_say_all_replaced(&args);
    return status == CLI_DONE ? c->run(&args) : status;
}

/* Opens what is closed of the descriptors 0 to 2: the first files opened would get them, and lines
 * for people would be written into these. */
static bool open_standard_streams(void)
{
    int opened;
    do opened = open("/dev/null", O_RDONLY); /* writing fails, as it does without */
    while (opened >= 0 && opened <= STDERR_FILENO);
    return opened >= 0 && close(opened) == 0;
}

static int run_named(int argc, char **argv)
{
    if (argc < 2) {
        print_beginning(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("detent %s\n", dt_version());
        return CLI_DONE;
    }
    int i = 0;
    while (i < N_COMMANDS && strcmp(commands[i].name, argv[1]) != 0) i++;
    return i == N_COMMANDS ? refuse_command(argv[1]) : run(&commands[i], argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    if (!open_standard_streams()) return CLI_FAILED;
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* detent calls it from threads of its own */
    signal(SIGXFSZ, SIG_IGN);               /* at the limit of file size writes fail instead */
    int status = run_named(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "detent: standard output cannot be written\n");
        if (status == CLI_DONE) status = CLI_FAILED;
    }
    return status;
}
