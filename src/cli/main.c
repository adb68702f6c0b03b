/* The program `detent`: the table of its commands and their options, from which help, man pages and
 * completion are made, and its start. */
#include "cli/arguments.h"
#include "cli/print/text.h"

#include <detent/experimental/sweep.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const cli_command commands[] = {
    { "train", "RECIPE [key=value ...], or RUN --resume",
      "trains as a recipe says: in float, then quantization-aware, then converts and compares",
      cli_train, .least_words = 1,
      .options = { { "--resume", NULL, "go on with the run from its newest good checkpoint" },
                   { "--folds", "K",
                     "cross-validation: as detent sweep RECIPE --folds K, one run for each part" },
                   { "--dry-run", NULL, "build everything, run one step, write nothing" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress" } } },
    { "config", "show|validate RECIPE [key=value ...], or schema, or keys",
      "show: the resolved recipe and where each value comes from; validate: its errors; schema, "
      "keys: "
      "all keys, as a JSON schema and as a page",
      cli_config, .threads = 1, .least_words = 1,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--leave-files", NULL, "neither open nor look for files of the recipe" },
                   { "--summary", NULL, "show: the model's layers, shapes and sizes" } } },
    { "eval", "MODEL|RUN|EXPORT [RECIPE|RUN] [key=value ...]",
      "metrics of a model, or of an exported file (.onnx, .tflite, a folder of format c), on the "
      "test data (else the validation data) of a recipe or a run, or of its own run",
      cli_eval, .least_words = 1, .model = CLI_FINAL_MODEL,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--outputs", "FILE", "write the model's outputs as one tensor, in data order",
                     .writes = true },
                   { "--cache", "f32|int8|int4",
                     "read keys and values of a language model as such a cache keeps them" },
                   { "--quiet", NULL, "no progress" } } },
    { "report", "RUN|SWEEP... [-o FILE]",
      "a page about one run, several side by side, or all runs of sweeps: curves, layers, "
      "examples, mean and spread, as one HTML file",
      cli_report, .threads = 1, .least_words = 1,
      .options = { { "-o", "FILE", "the page to write; default: report.html in the first run" },
                   { "--live", NULL, "write it again whenever a run goes on, until it ends" } } },
    { "compare", "RUN|SWEEP...",
      "what differs in the recipes and results of runs, side by side; of sweeps, or more than 16 "
      "runs, a row for each recipe: the keys that differ, mean and standard deviation",
      cli_compare, .threads = 1, .least_words = 1,
      .options = { { "--seeds", "N",
                     "every N runs in a row are one recipe, shown as mean and standard deviation" },
                   { "--csv", NULL, "a row for each recipe, for programs" },
                   { "--latex", NULL, "the same as a tabular of LaTeX" },
                   { "--markdown", NULL, "the same as a table of Markdown" } } },
    { "sweep", "RECIPE [FILE] [key=value ...]",
      "trains a recipe with many values of its keys, as FILE says: a grid, random draws, or "
      "successive halving; a table, a page and the best recipe",
      cli_sweep, .least_words = 1,
      .options = { { "--seeds", "N",
                     "runs of each recipe, with N seeds: mean and standard deviation" },
                   { "--folds", "K",
                     "cross-validation: runs of each recipe that test on each of K parts of the "
                     "training data once; without FILE of the recipe as it is" },
                   { "--dry-run", NULL, "list the runs, write nothing" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress" } } },
    { "search", "RECIPE --budget BYTES [key=value ...]",
      "chooses the bits of each layer's weight so that the model has a given size, by what they "
      "cost "
      "the loss; trains that model, and compares it with one of the same bits for all layers",
      cli_search, .least_words = 1,
      .options = { { "--budget", "BYTES", "the most that the model's tensors may take" },
                   { "--seeds", "N", "runs of each, with N seeds: mean and standard deviation" },
                   { "--dir", "DIR",
                     "folder of the search; default: run.dir of the recipe with -search behind "
                     "it" },
                   { "--dry-run", NULL, "list the choices and their sizes, train nothing" },
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
                   { "--calibration", "FILE", "of a file of tensors: the weights' inputs, by name",
                     .reads = true },
                   { "--codes", "packed|i8",
                     "of a file of tensors: packed, as many in a byte as fit, or i8, one in a "
                     "byte" },
                   { "--json", NULL, "results as JSON" },
                   { "--quiet", NULL, "no progress; totals without a row a weight" } } },
    { "export", "MODEL|RUN --format NAME -o PATH",
      "a model for another program: c, a folder of C files without libraries; onnx, a file for "
      "onnxruntime; tflite, one for LiteRT and TFLite Micro; gguf, one for llama.cpp; hf, a folder "
      "as "
      "transformers reads it, of floats, compressed-tensors and torchao, folders of integers; or "
      "in "
      "another form of detent: experts, with a tensor for each expert of a grouped parameter; "
      "stacked, with one for all of them",
      cli_export, .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1,
      .options = { { "--format", "c|onnx|tflite|gguf|hf|compressed-tensors|torchao|experts|stacked",
                     "which; each is described in docs/export.md" },
                   { "-o", "PATH", "the file to write, or the folder, which is new or empty" },
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
                   { "--opset", "21|25",
                     "onnx: 25 holds codes of 2 bits in INT2 (onnxruntime 1.32 reads it); default "
                     "21" },
                   { "--past", NULL,
                     "onnx: keys and values of earlier tokens are inputs and outputs" },
                   { "--accuracy-level", "0|4", "onnx, nbits: 4 quantizes activations in blocks" },
                   { "--dtype", "as_read|f32|f16|bf16",
                     "hf: of the weights; default: as they were read, or f32" },
                   { "--dequantize", NULL,
                     "hf: the values of integer codes, also of a model that has float masters" },
                   { "--type", "TYPE",
                     "gguf: of the weights: trained, f32, f16, q4_0, q8_0, tq1_0, tq2_0, q2_0 "
                     "or q1_0; default: as they are quantized, floats in f32" } } },
    { "tokenize", "TEXT... [-o FILE.bin] --tokenizer bytes|chars|FILE",
      "texts to a file of ids, or to lines of ids on stdout; with --decode, files of ids to text",
      cli_tokenize, .threads = 1, .least_words = 1,
      .options = { { "--tokenizer", "bytes|chars|FILE",
                     "every byte, the texts' own characters, or a tokenizer.json", .reads = true },
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
      "text from a language model, in any form, token by token", .alone = cli_sample,
      .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1,
      .options = { { "--prompt", "TEXT", "what the text begins with" },
                   { "--prompt-file", "FILE", "the same from a file; - is standard input" },
                   { "--prompt-ids", "1,2,3", "the same as ids of tokens" },
                   { "--format", NULL,
                     "the prompt is put into the format of the model's prompts (data.prompt), or "
                     "becomes a user's message (data.chat): text, or where the format has "
                     "several fields a JSON object" },
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
                   { "--cache", "f32|int8|int4",
                     "how keys and values are kept; int8: in a quarter of the memory, int4: in an "
                     "eighth; default f32" },
                   { "--threads", "N", "default: one for each core" },
                   { "--json", NULL, "the whole result as JSON, at the end" } } },
    { "predict", "MODEL|RUN INPUT...",
      "what a model answers to files: .png, .jpg, .wav, .csv (- for standard input), .npy, .npz, "
      ".safetensors, or a folder of them; of a language model to texts, the next token",
      cli_predict, .least_words = 2, .model = CLI_FINAL_MODEL,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--top", "K", "the likeliest classes or tokens; default 3" },
                   { "--columns", "a,b,...",
                     "of CSV files: the columns to read; default: those trained on" },
                   { "--keep", "a,b,...",
                     "columns in front of answers; default: those that the model does not read" },
                   { "--probabilities", NULL, "with -o FILE.csv: of all classes" },
                   { "--format", NULL,
                     "texts are put into the format of the model's prompts (data.prompt), or "
                     "become a "
                     "user's message (data.chat)" },
                   { "-o", "PATH",
                     "answers as .csv, - for standard output; images: a .png file, or a folder",
                     .writes = true, .pipes = true },
                   { "--quiet", NULL, "no progress" } } },
    { "merge", "MODEL|RUN -o FILE",
      "a model whose layers have adapters, to one that computes the same without; packed weights "
      "are "
      "rounded anew",
      cli_merge, .least_words = 1, .model = CLI_TRAINED_MODEL, .most_words = 1,
      .options = { { "-o", "FILE", "the file to write", .writes = true },
                   { "--quiet", NULL, "no line about it" } } },
    { "rotate", "MODEL|RUN [RECIPE] [key=value ...] -o FILE",
      "a float language model, to one that computes the same with fewer outliers in its "
      "activations: orthogonal matrices in front of its layers, folded into the weights",
      cli_rotate, .least_words = 1, .model = CLI_FLOAT_MODEL,
      .options = { { "-o", "FILE", "the file to write", .writes = true },
                   { "--learn", NULL,
                     "from the recipe's data, quantize.calibration.samples examples; without, "
                     "signs "
                     "are drawn" },
                   { "--hadamard", "N",
                     "a Hadamard matrix of this order in front of each mlp's output layer too, "
                     "computed in every pass: a power of two that divides its hidden width" },
                   { "--quiet", NULL, "no line about it" } } },
    { "import", "MODEL [key=value ...] -o FILE",
      "an ONNX or TFLite model as a model of family layers: float, or prepared with the integers "
      "of the file; or weights of PyTorch or Keras (.safetensors, .npz) for the network of a "
      "recipe, whose keys can be set",
      cli_import, .least_words = 1,
      .options = { { "-o", "FILE", "the file to write", .writes = true },
                   { "--check", "FILE",
                     "inputs of the model, .safetensors, .npz or .npy: compare its results "
                     "before writing; -o may be left out",
                     .reads = true },
                   { "--expect", "FILE",
                     "the results that are expected, of outputs and of values inside, by name; "
                     "default: the file of --check",
                     .reads = true },
                   { "--tolerance", "T",
                     "how far outputs may be, relative to their largest value; default 1e-5" },
                   { "--mean", "LIST",
                     "the model reads (v - mean) / deviation of each channel, pixels as v = p/255: "
                     "0.485,0.456,0.406" },
                   { "--deviation", "LIST", "the same: 0.229,0.224,0.225" },
                   { "--classes", "LIST|FILE",
                     "names of the classes that its output has: between commas, or a file with one "
                     "a line" },
                   { "--layout", "nchw|nhwc",
                     "of images in the file; nhwc: channels last, as TensorFlow has them" },
                   { "--batch", "first|none",
                     "which dimension of the inputs is the batch; none: the file computes one "
                     "example" },
                   { "--float", NULL, "of a quantized file: float weights, without its scales" },
                   { "--shape", "DIMS",
                     "of inputs whose dimensions are no numbers in the file, in its order: "
                     "1x3x48x320, with names x:1x3x48x320,n:1x4; ? stays open" },
                   { "--network", "RECIPE",
                     "MODEL has weights alone: RECIPE's 'model' says what the network is",
                     .reads = true },
                   { "--map", "FILE",
                     "names of the network by names in the file, YAML (docs/format.md); default: "
                     "equal names",
                     .reads = true },
                   { "--quiet", NULL, "no progress" } } },
    { "inspect", "FILE|RUN",
      "tensors, shapes, schemes, bytes, bits per weight of a safetensors file; of an ONNX or "
      "TFLite file its "
      "operators, and what import refuses in it",
      cli_inspect, .threads = 1, .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--layers", NULL, "of a model: layers, output shapes, multiply-adds" },
                   { "--graph", "table|dot",
                     "of a model: the ops that it runs, their forms, memory and multiply-adds; dot "
                     "is for Graphviz" },
                   { "--device", "[cortex-m4]",
                     "of a model: what it takes as C, flash and RAM by layer, and the layer with "
                     "the most RAM; cortex-m4: also instructions, cycles and milliseconds, "
                     "estimated" },
                   { "--clock", "MHZ", "of cortex-m4; default 64" } } },
    { "check", "FILE|RUN", "verifies a file's structure, hash and values", cli_check,
      .least_words = 1, .model = CLI_FINAL_MODEL, .most_words = 1 },
    { "bench", "MODEL|RUN", "how long a model takes on this machine, by layer", .alone = cli_bench,
      .least_words = 1, .most_words = 1, .model = CLI_FINAL_MODEL,
      .options = { { "--json", NULL, "results as JSON" },
                   { "--threads", "N", "default: one for each core" },
                   { "--repeat", "N", "passes; default: as many as a second holds" },
                   { "--batch", "N", "examples of a pass; default 1" },
                   { "--quiet", NULL, "no progress" } } },
    { "new", "[FILE] [--data PATH] [--task TASK]",
      "writes a recipe for data of your own; asks for what is not given", .alone = cli_new,
      .most_words = 1,
      .options = { { "--data", "PATH", "a folder, a file, or the name of drawn data" },
                   { "--task", "classification|regression|multi_label|anomaly|denoising|language",
                     "what to learn; default: what the data say" },
                   { "--target", "a,b,...", "of CSV files: the columns to predict" },
                   { "--bits", "N", "of the weights: 2, 3, 4 or 8; default 4" },
                   { "--float", NULL, "train in float only" },
                   { "--inputs", "a,b,...", "of CSV files: the columns that are inputs" },
                   { "--ignore", "a,b,...", "of CSV files: columns that are no inputs" },
                   { "--test", "FILE", "of CSV files: test data" },
                   { "--group", "COLUMN",
                     "values of it are validated and tested whole; of "
                     "recordings a part of the name, as part2" },
                   { "--rows", NULL, "of CSV files: a row is an example, also of series" },
                   { "--init", "MODEL|RUN",
                     "a trained model that the recipe trains on: its layers and weights, of a "
                     "language model its tokenizer and form of chats" } } },
    { "doctor", "", "the machine as detent sees it, and what would make it faster", cli_doctor,
      .options = { { "--json", NULL, "results as JSON" } } },
    { "ls", "", "the recipes that come with detent", .alone = cli_ls,
      .options = { { "--json", NULL, "results as JSON" } } },
    { "cp", "NAME [FILE]", "copies such a recipe, to NAME.yaml if no FILE is given",
      .alone = cli_cp, .least_words = 1, .most_words = 2 },
    { "pages", "FOLDER", "writes the manual pages of all commands, for packages",
      .alone = cli_pages, .least_words = 1, .most_words = 1, .hidden = true },
    { "complete", "-- [WORD ...]", "what the last word may become, for completion in shells",
      .alone = cli_complete, .hidden = true },
};

const cli_command *cli_command_at(int i)
{
    return i >= 0 && i < (int)(sizeof commands / sizeof commands[0]) ? &commands[i] : NULL;
}

const cli_command *cli_command_named(const char *name)
{
    const cli_command *c = NULL;
    for (int i = 0; (c = cli_command_at(i)) != NULL && strcmp(c->name, name) != 0;) i++;
    return c;
}

/* Opens those of the descriptors 0 to 2 that are closed: otherwise the first files that are opened
 * get them, and messages are written into these files. */
static bool open_standard_streams(void)
{
    int opened;
    do opened = open("/dev/null", O_RDONLY); /* opened for reading, so writes still fail */
    while (opened >= 0 && opened <= STDERR_FILENO);
    return opened >= 0 && close(opened) == 0;
}

static int run_named(int argc, char **argv)
{
    if (argc < 2) {
        cli_print_beginning(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || cli_is_help(argv[1])) {
        return cli_help(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--version") == 0) {
        return cli_print_version(argc - 2, argv + 2);
    }
    const cli_command *c = cli_command_named(argv[1]);
    return c == NULL ? cli_refuse_command(argv[1]) : cli_run(c, argc - 2, argv + 2);
}

/* The least stack of this thread and of the pool's: rounding by OpenBLAS needs the most, about 200
 * KiB. */
#define LEAST_STACK (512 * 1024)

static bool has_stack(void)
{
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur == RLIM_INFINITY) return true;
    if (stack.rlim_cur >= LEAST_STACK) return true;
    fprintf(stderr,
            "detent: the stack is limited to %lld KiB; at least %d must be allowed (ulimit -s)\n",
            (long long)stack.rlim_cur / 1024, LEAST_STACK / 1024);
    return false;
}

int cli_main(int argc, char **argv)
{
    if (!has_stack()) return CLI_FAILED;
    if (!open_standard_streams()) {
        fprintf(stderr, "detent: no file can be opened: %s\n", strerror(errno));
        return CLI_FAILED;
    }
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* detent calls it from its own threads */
    signal(SIGXFSZ, SIG_IGN);               /* at the limit of file size, writes fail instead */
    cli_begin_output();
    int status = run_named(argc, argv);
    if (cli_is_incomplete() && status == CLI_DONE) status = CLI_FAILED;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "detent: standard output cannot be written\n");
        if (status == CLI_DONE) status = CLI_FAILED;
    }
    return status;
}
