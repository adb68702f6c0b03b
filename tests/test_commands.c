/* Command lines in the process of the test: what each option takes and refuses, and what is said of
 * models, runs and data of every kind. */
#include "fault_trials.h"

#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct line {
    int status;
    const char *words; /* among both streams */
    const char *arguments;
} line;

/* Names of inputs and outputs with what a terminal obeys. */
static const char joined[] =
    "run: {dir: joined, seed: 1}\n"
    "model:\n"
    "  family: layers\n"
    "  input: {\"a\\u009b31m\": [1], \xc3\xa9: [1]}\n"
    "  layers:\n"
    "    - {concat: c, from: [\"a\\u009b31m\", \xc3\xa9]}\n"
    "    - {linear: kind, from: [c], out: 2}\n"
    "    - {linear: \"v\\u202e\", from: [c], out: 1}\n"
    "  output: [kind, \"v\\u202e\"]\n"
    "data: {format: tensors, train: {x: joined.csv}, validation: 0.3, inputs: [{name: "
    "\"a\\u009b31m\", columns: [a]}, {name: \xc3\xa9, columns: [b]}], outputs: [{name: kind}, "
    "{name: "
    "\"v\\u202e\", columns: [v], task: regression}]}\n"
    "train: {epochs: 1, batch_size: 8}\n";

static const char talk[] =
    "run: {dir: talk, seed: 1}\n"
    "model: {family: gpt, vocab: 256, context: 16, layers: 1, heads: 2, width: 16}\n"
    "data: {format: jsonl, train: [talk.jsonl], tokenizer: bytes, prompt: \"Q {q}\\n\", "
    "completion: \"{a}\"}\n"
    "train: {epochs: 1, batch_size: 2}\n";

static const line lines[] = {
    { 0, "[2]: a?31m [1], \xc3\xa9 [1]", "inspect joined" },
    { 0, "several: kind (classes), v? (values)", "inspect joined" },
    { 0, "{\"a?31m\":[1], \"\xc3\xa9\":[1]}", "inspect joined" },
    { 0, "prompts         Q {q}?", "inspect talk" },
    { 0, "completions     {a}", "inspect talk" },
    /* models */
    { 2, "table or dot", "inspect run --graph zebra" },
    { 0, "digraph", "inspect run --graph dot" },
    { 0, "digraph", "inspect llama --graph dot" },
    { 0, "conv", "inspect cnn.st --layers" },
    { 0, "conv2d", "inspect cnn.st --graph table" },
    { 0, "flash", "inspect cnn.st --device" },
    { 0, "Cortex-M4 at 64 MHz", "inspect cnn.st --device cortex-m4" },
    { 0, "\"clock_mhz\": 100", "inspect --device=cortex-m4 --clock 100 cnn.st --json" },
    { 2, "no estimate for 'cortex-m7'", "inspect cnn.st --device=cortex-m7" },
    { 2, "usage: detent inspect", "inspect cnn.st --device cortex-m7" },
    { 2, "--clock requires --device", "inspect cnn.st --device --clock 9" },
    { 2, "--clock is '0'", "inspect cnn.st --device cortex-m4 --clock 0" },
    { 0, "in the ops above", "bench cnn.st --repeat 2" },
    { 0, "\"in_ops\"", "bench cnn.st --repeat 2 --batch 3 --threads 1 --json" },
    { 4, "detent import makes a model", "eval cnn.onnx" },
    { 0, "usage: detent train", "help train" },
    { 0, "usage: detent train", "train -h" },
    { 0, "usage: detent COMMAND", "-h" },
    { 2, "did you mean 'train'?", "help tran" },
    { 2, "did you mean '--help'?", "--hlep" },
    { 0, "state of a run", "inspect half" },
    { 0, "lora", "inspect adapted" },
    { 0, "\"metadata\": {", "inspect adapted --json" },
    { 0, "tensor", "inspect of-two" },
    { 4, "not a safetensors file", "inspect text.txt" },
    { 4, "not a safetensors file", "inspect text.txt --layers" },
    { 0, "nothing in it is refused", "inspect cnn.onnx" },
    { 0, "\"refusals\": []", "inspect cnn.onnx --json" },
    { 2, "'detent import' makes one", "inspect cnn.onnx --layers" },
    { 4, "nowhere.onnx", "inspect nowhere.onnx" },
    { 4, "nowhere.tflite", "inspect nowhere.tflite --json" },
    { 2, "-o FILE is missing", "import cnn.onnx" },
    { 2, "--map requires --network", "import cnn.onnx -o new.st --map rows.csv" },
    { 0, "good", "check adapted" },
    { 4, "rows.csv", "check rows.csv" },
    { 4, "adapter", "merge run -o new.st" },
    { 0, "23 layers", "import cnn.onnx -o new.st --check onnx/cnn.safetensors" },
    { 4, "not an ONNX file", "import rows.csv -o new.st" },
    { 4, "nowhere", "import cnn.onnx -o new.st --check nowhere" },
    /* exports */
    { 2, "there are", "export run --format zebra -o new" },
    { 2, "--format", "export run -o new" },
    { 2, "onnx", "export run --format onxn -o new" },
    { 2, "-o", "export run --format c" },
    { 2, "--context", "export llama --format c -o new --context 0" },
    { 2, "--context", "export llama --format c -o new --context 99999999999" },
    { 2, "--accuracy-level", "export run --format onnx -o new --accuracy-level 3" },
    { 2, "--accuracy-level", "export run --format onnx -o new --accuracy-level 4 --ops plain" },
    { 2, "--ops", "export run --format onnx -o new --ops zebra" },
    { 2, "--dtype", "export llama --format hf -o new --dtype zebra" },
    { 2, "--type", "export llama --format gguf -o new --type zebra" },
    { 2, "", "export run --format c -o new --verify" },
    { 0, "", "export half --format onnx -o new.onnx --quiet" },
    { 0, "", "export half --format c -o new-c --name own" },
    { 0, "", "export cnn.st --format c -o new-c" },
    { 0, "new.onnx", "export cnn.st --format onnx -o new.onnx --verify" },
    { 0, "", "export llama --format c -o new-c --context 8" },
    { 0, "", "export llama --format hf -o new-hf --dtype bf16" },
    { 0, "", "export llama --format gguf --type q8_0 -o new.gguf" },
    { 1, "", "export run --format hf -o new" },
    /* predictions */
    { 2, "--top", "predict of-two rows.csv --top 0" },
    { 2, "--top", "predict of-two rows.csv --top x" },
    { 2, "zebra", "predict of-two rows.csv --columns zebra" },
    { 4, "", "predict of-two rows.csv --columns a" },
    { 4, "", "predict run rows.csv" },
    { 4, "text.txt", "predict of-two text.txt" },
    { 4, "", "predict llama text.txt" },
    { 0, "%", "predict of-two rows.csv --columns a,b --top 1" },
    /* text */
    { 2, "--temperature", "sample llama --prompt-ids 1 --temperature x" },
    { 2, "--temperature", "sample llama --prompt-ids 1 --temperature -1" },
    { 2, "--top-p", "sample llama --prompt-ids 1 --top-p 0" },
    { 2, "--top-p", "sample llama --prompt-ids 1 --top-p 1.5" },
    { 2, "--top-k", "sample llama --prompt-ids 1 --top-k 1.5" },
    { 2, "--seed", "sample llama --prompt-ids 1 --seed x" },
    { 2, "--seed", "sample llama --prompt-ids 1 --seed 99999999999999999999" },
    { 0, "0 more", "sample llama --prompt-ids 1 --max-tokens 0" },
    { 2, "--cache", "sample llama --prompt-ids 1 --cache f16" },
    { 2, "--threads", "sample llama --prompt-ids 1 --threads 0" },
    { 2, "like 1,2,3", "sample llama --prompt-ids 1,,2" },
    { 2, "like 1,2,3", "sample llama --prompt-ids 1;2" },
    { 2, "like 1,2,3", "sample llama --prompt-ids 1," },
    { 2, "lie in 0...31", "sample llama --prompt-ids 32" },
    { 2, "lie in 0...31", "sample llama --prompt-ids -1" },
    { 2, "carries no tokenizer", "sample llama --prompt a" },
    { 2, "", "sample llama" },
    { 2, "", "sample llama --prompt-ids 1 --prompt a" },
    { 2, "vocabulary", "sample llama --prompt-file nowhere --tokenizer bytes" },
    { 2, "vocabulary", "sample llama --prompt a --tokenizer bytes" },
    { 2, "an id", "sample llama --prompt-ids 1 --stop a" },
    { 2, "--stop", "sample llama --prompt-ids 1 --stop 32" },
    { 0, "--stop has come", "sample llama --prompt-ids 1 --temperature 0 --print-ids --stop 14" },
    { 0, "\"ended_by\": \"tokens\"", "sample llama --prompt-ids 1 --max-tokens 2 --json" },
    { 0, "slid", "sample llama --prompt-ids 1,2 --max-tokens 300 --print-ids --temperature 0" },
    { 2, "not a language model", "sample run --prompt-ids 1" },
    { 2, "--tokenizer", "tokenize text.txt" },
    { 4, "rows.csv", "tokenize text.txt --tokenizer rows.csv" },
    { 0, "116", "tokenize text.txt --tokenizer bytes" },
    { 0, "\"tokens\": 233", "tokenize text.txt rows.csv -o new.bin --tokenizer bytes --json" },
    { 4, "nowhere", "tokenize text.txt nowhere -o new.bin --tokenizer bytes" },
    { 4, "", "tokenize rows.csv --decode --tokenizer chars.json" },
    /* recipes */
    { 2, "no such key", "config show r.yaml ~zebra" },
    { 2, "zebra", "config show r.yaml zebra=1" },
    { 0, "\"valid\": true", "config validate r.yaml --json" },
    { 2, "\"valid\": false", "config validate r.yaml --json train.epochs=x" },
    { 0, "linear", "config show r.yaml --summary" },
    { 4, "nowhere", "config validate nowhere --json" },
    { 2, "exists", "train r.yaml" },
    { 2, "--resume", "train run" },
    { 2, "exclude each other", "train run --resume --dry-run" },
    { 2, "the resumed run stays in", "train half --resume run.dir=other" },
    { 4, "has no run", "train llama --resume" },
    { 0, "without --dry-run, an error", "train r.yaml --dry-run" },
    { 0, "", "train half --resume --json" },
    { 0, "examples", "eval of-two" },
    { 2, "is not in the folder of a run", "eval cnn.st" },
    /* several runs */
    { 2, "--budget", "search r.yaml" },
    { 2, "--budget", "search r.yaml --budget 0" },
    { 2, "--seeds", "search r.yaml --budget 900 --seeds 0" },
    { 2, "cannot be met", "search r.yaml --budget 9" },
    { 2, "no `qat`", "search r.yaml --budget 900 ~qat" },
    { 0, "the smallest", "search r.yaml --budget 900 --dry-run" },
    { 2, "--seeds", "sweep r.yaml sweep.yaml --seeds x" },
    { 2, "sweep.yaml", "sweep r.yaml bad-sweep.yaml" },
    { 0, "nothing was written", "sweep r.yaml sweep.yaml --dry-run" },
    { 0, "\"rows\"", "sweep r.yaml sweep.yaml --dry-run --json" },
    { 2, "--seeds", "compare run half --seeds x" },
    { 2, "", "compare run half of-two --seeds 2" },
    { 0, "accuracy", "compare run of-two" },
    { 0, "report.html", "report run" },
    { 4, "llama", "report llama" },
    { 4, "", "report run -o nowhere/new.html" },
    /* new recipes */
    { 0, "denoising", "new new.yaml --data digits --task denoising" },
    { 0, "new.yaml", "new new.yaml --data digits --bits 2" },
    { 0, "new.yaml", "new new.yaml --data digits --float" },
    { 0, "new.yaml", "new new.yaml --data sensors --task anomaly" },
    { 0, "new.yaml", "new new.yaml --data sensors" },
    { 0, "new.yaml", "new new.yaml --data sounds" },
    { 0, "new.yaml", "new new.yaml --data table --task regression" },
    { 0, "new.yaml", "new new.yaml --data table --task multi_label" },
    { 0, "language", "new new.yaml --data text.txt" },
    { 0, "in the training data", "new new.yaml --data rows.csv --target a --task regression" },
    { 2, "--bits", "new new.yaml --data digits --bits 5" },
    { 2, "--task", "new new.yaml --data digits --task zebra" },
    { 2, "", "new new.yaml --data digits --task language" },
    { 2, "zebra", "new new.yaml --data rows.csv --target zebra" },
    { 2, "", "new new.yaml --data text.txt --target a" },
    { 4, "r.yaml", "new r.yaml --data digits" },
    { 0, "it's.yaml", "new \"it's.yaml\" --data digits" },
    { 2, "control characters", "new \"a\nb.yaml\" --data digits" },
    { 2, "which has no columns", "new new.yaml --data digits --target a" },
    { 2, "exclude each other", "new new.yaml --data digits --float --bits 2" },
    { 2, "no input is left", "new new.yaml --data rows.csv --target a,b,kind --task regression" },
    { 2, "is not a page", "report run -o run/model.safetensors" },
    { 2, "is not a page", "report run -o r.yaml" },
    { 2, "exclude each other", "inspect run --layers --device" },
    { 2, "it is read", "import cnn.onnx -o cnn.st --check cnn.st" },
    /* the rest */
    { 2, "usage: detent bench", "bench" },
    { 0, "processor", "doctor" },
    { 0, "\"processor\"", "doctor --json" },
    { 0, "detent ", "--version" },
    { 2, "", "--version --zebra" },
    { 0, "compiler", "--version --verbose" },
    { 1, "nowhere/detent.1", "pages nowhere" },
    { 0, "--resume", "complete -- train --r" },
    { 0, "train", "complete -- tr" },
    { 0, "", "complete -- zebra a" },
    { 0, "onnx", "complete -- export run --format o" },
    { 0, "train.epochs", "complete -- train r.yaml train.ep" },
};

static void setup(void)
{
    char path[TEST_PATH];
    fault_folder_make();
    test_join(path, fault_folder, "sweep.yaml");
    test_write_text(path, "keys: {train.optimizer.lr: [1e-3, 1e-2]}\n");
    test_join(path, fault_folder, "bad-sweep.yaml");
    test_write_text(path, "keys: {train.zebra: [1e-3, 1e-2]}\n");
    test_join(path, fault_folder, "joined.yaml");
    test_write_text(path, joined);
    test_join(path, fault_folder, "joined.csv");
    test_write_text(path, "a,b,v,kind\n1,2,3,x\n2,3,1,y\n3,1,2,x\n4,4,4,y\n5,1,1,x\n6,2,2,y\n");
    test_join(path, fault_folder, "talk.yaml");
    test_write_text(path, talk);
    test_join(path, fault_folder, "talk.jsonl");
    test_write_text(path, "{\"q\": \"1\", \"a\": \"2\"}\n{\"q\": \"2\", \"a\": \"3\"}\n");
    ck_assert_int_eq(test_shell(NULL,
                                "cd '%s' && cp -r '" DETENT_SOURCE_DIR "/tests/onnx' . && "
                                "'" DETENT_BINARY_DIR "/detent' import cnn.onnx -o cnn.st --quiet "
                                "&& '" DETENT_BINARY_DIR "/detent' tokenize text.txt -o ids.bin "
                                "--tokenizer chars --save-tokenizer chars.json --quiet && "
                                "for r in joined talk; do '" DETENT_BINARY_DIR "/detent' train "
                                "$r.yaml --quiet || exit 1; done",
                                fault_folder),
                     0);
    fault_folder_keep();
}

static void teardown(void) { fault_folder_free(); }

/* One of so many lines is tried. */
static const test_draws among = { .usual = 1, .sanitized = 3 };

START_TEST(commands_say_what_they_did)
{
    const line *l = &lines[_i * test_count(among)];
    fault_run r = { .folder = fault_folder, .arguments = l->arguments };
    fault_folder_reset();
    fault_run_inside(&r, NULL);
    ck_assert_msg(r.status == l->status, "detent %s: %d: %s", l->arguments, r.status, r.said);
    ck_assert_msg(strstr(r.said, l->words) != NULL, "detent %s: %s", l->arguments, r.said);
    ck_assert_msg(l->status == 0 || r.said[0] != 0, "detent %s: no message", l->arguments);
}
END_TEST

Suite *test_commands_suite(void)
{
    Suite *s = suite_create("commands");
    TCase *c = tcase_create("commands");
    tcase_set_timeout(c, 300);
    tcase_add_unchecked_fixture(c, setup, teardown);
    const int tried = (int)((DT__COUNT_OF(lines) - 1) / test_count(among) + 1);
    tcase_add_loop_test(c, commands_say_what_they_did, 0, tried);
    suite_add_tcase(s, c);
    return s;
}
