/* Runs of several ranks: the same bytes on 1, 2 and 4 ranks, resuming, what must agree. Faults are
 * in test_cluster_faults.c. */
#include "kernels/sets.h"
#include "ranks.h"
#include "run_jobs.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define IMAGES                                                                                     \
    "digits-cnn.yaml " RANKS_COMMON "data.train_count=60 data.test_count=20 train.epochs=2 "       \
    "train.batch_size=20 qat.start_step=3 train.schedule.warmup_steps=1 train.shards=4 "
#define ADDER                                                                                      \
    "adder.yaml " RANKS_COMMON "train.steps=5 model.layers=1 model.width=16 model.heads=2 "        \
    "train.batch_size=10 data.train_count=200 data.test_count=20 train.schedule.warmup_steps=1 "   \
    "qat.start_step=3 train.shards=4 "
#define EXPERTS                                                                                    \
    ADDER "'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: 16, "        \
          "hidden: 16, moe: {experts: 4, top_k: 2}}' "
/* A parameter of its experts has several partial sums of the norm, none of which ends with an
 * expert. */
#define MIXTURE(experts, top_k)                                                                    \
    ADDER "'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: 64, "        \
          "hidden: 100, moe: {experts: " experts ", top_k: " top_k "}}' "
#define TABLE                                                                                      \
    "table-values.yaml " RANKS_COMMON "train.epochs=1 train.batch_size=20 train.shards=4 "         \
    "train.float_baseline=false train.eval_batch_size=4 qat.start_step=2 "
#define STATIC(observer)                                                                           \
    "'qat={preset: int8-static-int8-weight, start_step: 3, activation: {observer: " observer "}}'" \
    " "
#define SPLIT(files, split, share)                                                                 \
    TABLE "'data={format: tensors, dir: ., task: multi_label, train: {x: " files                   \
          "}, split: " split ", validation: " share                                                \
          ", columns: {inputs: [l1, l2, l3], target: [b1, b2]}}' "                                 \
          "'model={family: layers, input: [3], layers: [{linear: a, out: 2}]}'"

#define SERIES(length, label)                                                                      \
    TABLE "'data={format: tensors, dir: ., train: {x: table.csv}, validation: 0.3, columns: "      \
          "{inputs: [l1, l2, l3], target: kind}, window: {length: " length                         \
          ", stride: 1}, series: {label: " label "}}' 'model={family: layers, input: [" length     \
          ", 3], layers: [flatten, {linear: a, out: 3}]}'"

#define RATE(method)                                                                               \
    TABLE "'data={format: tensors, dir: ., train: {x: table.csv}, validation: 0.3, columns: "      \
          "{inputs: [l1, l2, l3], target: kind}, window: {length: 2, stride: 1}, series: {time: "  \
          "time, rate: 1.6, method: " method "}, cache: kept}' 'model={family: layers, input: "    \
          "[2, 3], layers: [flatten, {linear: a, out: 3}]}'"

static const struct {
    const char *name, *recipe;
    bool quick; /* also where not all cases are wanted */
} cases[] = {
    { "mlp", RANKS_DIGITS "model.norm=batch model.dropout=0.2", true },
    { "learned",
      RANKS_DIGITS "'qat={preset: int4-int4, start_step: 3}' 'data.augment={shift: 1, mixup: "
                   "0.4, cutmix: 1}'",
      true },
    { "cnn", IMAGES STATIC("moving_average"), true },
    { "experts", EXPERTS "data.validation=0.2 train.eval_batch_size=7", false },
    { "gptq",
      RANKS_DIGITS "'convert={rounder: gptq, calibration: {samples: 40, batch_size: 7}}' "
                   "data.validation=0.2 train.eval_batch_size=3 run.report=true",
      true },
    { "gpt", ADDER "'qat={preset: int4-int4, start_step: 3}' model.dropout=0.1", false },
    { "int8 cache", ADDER "qat.cache=int8", false },
    { "int4 cache", ADDER "qat.cache=int4 train.recompute=true", false },
    { "recompute", ADDER "train.recompute=true train.clip_grad_norm=0.3", false },
    { "teacher", ADDER "'train.distill={weight: 0.5}'", false },
    { "minmax", IMAGES STATIC("minmax"), false },
    { "percentile", IMAGES STATIC("percentile, percentile: 99, samples: 3000"), false },
    { "mse", IMAGES STATIC("mse"), false },
    { "device",
      RANKS_DIGITS "'qat={preset: device-int4, start_step: 3, activation: {range: learned}}'",
      false },
    { "accumulate", RANKS_DIGITS "train.accumulate=2 qat.start_step=0", false },
    { "lion", RANKS_DIGITS "'train.optimizer={name: lion, lr: 3e-4}'", false },
    { "sgd", RANKS_DIGITS "'train.optimizer={name: sgd, lr: 0.1, momentum: 0.9}'", false },
    { "adam", RANKS_DIGITS "'train.optimizer={name: adam}'", false },
    { "lora", RANKS_DIGITS "'adapters={rank: 3, alpha: 6}'", false },
    { "average", RANKS_DIGITS "'train.average={name: ema}' model.norm=batch", false },
    { "integers", RANKS_DIGITS "train.backward=int8-all", false },
    { "bf16", RANKS_DIGITS "train.float=bf16", false },
    { "bf16 experts", EXPERTS "train.float=bf16", true },
    { "bf16 tiles", RANKS_DIGITS "train.float=bf16-tiles", false },
    { "baseline",
      RANKS_DIGITS "train.float_baseline=true data.validation=0.2 train.finish_with=best "
                   "'train.evaluate={every_steps: 3, samples: 2}'",
      false },
    { "gpfq", RANKS_DIGITS "'convert={rounder: gpfq, calibration: {samples: 40, batch_size: 3}}'",
      false },
    { "qronos",
      RANKS_DIGITS "'convert={rounder: qronos, calibration: {samples: 40, batch_size: 3}}'",
      false },
    { "a2gptq",
      RANKS_DIGITS "'convert={rounder: a2gptq, accumulator: {bits: 20}, calibration: {samples: 40, "
                   "batch_size: 5}}'",
      false },
    { "refreshed scales",
      RANKS_DIGITS "'convert={rounder: gptq, rounding: {group_scales: refresh, order: group}, "
                   "calibration: {samples: 40, batch_size: 9}}'",
      false },
    { "experts rounded",
      EXPERTS "'convert={rounder: gptq, calibration: {samples: 30, batch_size: 4, cache_mb: 0}}' "
              "train.eval_batch_size=3",
      true },
    { "static and rounded",
      IMAGES STATIC("minmax") "'convert={rounder: gptq, calibration: {samples: 30, batch_size: "
                              "4}}' train.eval_batch_size=6",
      false },
    { "plateau",
      RANKS_DIGITS "data.validation=0.2 train.eval_batch_size=4 train.evaluate.every_steps=1 "
                   "'train.schedule={name: plateau, patience: 1}' qat.start_step=0",
      false },
    { "denoising",
      "digits-unet-denoise.yaml " RANKS_COMMON
      "'model.widths=[4, 8]' ~qat.rules data.train_count=60 "
      "data.test_count=20 train.epochs=1 train.batch_size=20 train.float_baseline=false "
      "train.eval_batch_size=3 qat.start_step=2 train.schedule.warmup_steps=1 train.shards=4",
      false },
    { "anomaly",
      "sensors-anomaly.yaml " RANKS_COMMON "data.train_count=60 data.test_count=25 train.epochs=1 "
      "train.batch_size=20 train.float_baseline=false train.eval_batch_size=4 qat.start_step=2 "
      "train.shards=4",
      false },
    { "values",
      "table-values.yaml " RANKS_COMMON "data.train_count=60 data.test_count=25 train.epochs=1 "
      "train.batch_size=20 train.float_baseline=false train.eval_batch_size=4 qat.start_step=2 "
      "train.shards=4",
      false },
    { "early",
      RANKS_DIGITS "data.validation=0.2 train.evaluate.every_steps=1 train.early_stopping="
                   "'{patience: 1, least_improvement: 5}'",
      false },
    { "shared",
      RANKS_DIGITS "cluster.shard_optimizer=on model.norm=batch 'train.average={name: ema}' "
                   "train.clip_grad_norm=0.2 'qat={preset: int4-int4, start_step: 3}'",
      true },
    { "shared dynamic",
      RANKS_DIGITS "cluster.shard_optimizer=on data.validation=0.2 train.finish_with=best "
                   "train.evaluate.every_steps=2 'train.average={name: ema}' train.accumulate=2",
      false },
    { "shared experts",
      ADDER "cluster.shard_optimizer=on train.checkpoint.grouped=experts "
            "'train.optimizer={name: lion, lr: 3e-4}' "
            "'model={family: llama, vocab: 12, context: 11, layers: 1, heads: 2, width: 32, "
            "hidden: 64, moe: {experts: 4, top_k: 2}}'",
      true },
    { "spread", EXPERTS "cluster.experts=spread data.validation=0.2 train.eval_batch_size=7",
      true },
    { "spread shared",
      MIXTURE("5", "3") "cluster.experts=spread cluster.shard_optimizer=on "
                        "train.checkpoint.grouped=experts train.clip_grad_norm=0.1 "
                        "'train.average={name: ema}' 'qat={preset: int4-int4, start_step: 2, "
                        "weight: {range: learned}}'",
      true },
    { "spread float",
      MIXTURE("4", "1") "cluster.experts=spread ~qat train.accumulate=2 train.recompute=true",
      false },
    { "spread static", EXPERTS STATIC("minmax") "cluster.experts=spread train.clip_grad_norm=0.2",
      false },
    { "spread percentile",
      EXPERTS STATIC("percentile, percentile: 99, samples: 3000") "cluster.experts=spread", false },
    { "spread mse", EXPERTS STATIC("mse") "cluster.experts=spread", false },
    { "spread weights",
      EXPERTS "cluster.experts=spread 'qat={preset: int4-weight, start_step: 2, weight: {scheme: "
              "asymmetric}}' 'train.optimizer={name: adam, groups: [{match: \"*w_up*\", frozen: "
              "true}]}'",
      false },
    { "spread blocks",
      EXPERTS "cluster.experts=spread 'qat={preset: int8-block-int4-weight, start_step: 2}' "
              "'adapters={rank: 3, alpha: 6}'",
      false },
    { "spread ranges",
      EXPERTS "cluster.experts=spread 'qat={start_step: 2, weight: {range: static, granularity: "
              "tensor, ste: clipped}, activation: {granularity: sample, ste: clipped}}' "
              "train.backward=int8-all",
      false },
    { "spread baseline",
      EXPERTS "cluster.experts=spread train.float_baseline=true train.finish_with=best "
              "train.evaluate.every_steps=1 data.validation=0.2 train.batch_size=3 "
              "run.report=true train.log.layers_every_steps=1",
      false },
    { "spread teacher",
      EXPERTS "cluster.experts=spread 'train.distill={weight: 0.5}' train.nonfinite=skip "
              "'convert={rounder: gptq, calibration: {samples: 30, batch_size: 4}}'",
      false },
    { "spread unevenly",
      MIXTURE("7", "3") "cluster.experts=spread train.shards=6 train.clip_grad_norm=0.1", false },
    { "shared cnn", IMAGES STATIC("moving_average") "cluster.shard_optimizer=on", false },
    { "shared sgd",
      RANKS_DIGITS
      "'train.optimizer={name: sgd, lr: 0.1, momentum: 0.9}' cluster.shard_optimizer=on",
      false },
    { "shared groups",
      RANKS_DIGITS
      "'train.optimizer={name: adam, weight_decay: 0.1, groups: [{match: \"*bias\", rate: "
      "2, weight_decay: 0}, {match: \"head.weight\", frozen: true}]}' cluster.shard_optimizer=on",
      false },
    { "shared lora", RANKS_DIGITS "'adapters={rank: 3, alpha: 6}' cluster.shard_optimizer=on",
      false },
    { "shared buckets",
      RANKS_DIGITS "cluster.bucket_mb=0.01 train.shards=6 cluster.shard_optimizer=on "
                   "model.sizes=[784,60,10]",
      false },
    { "resnet",
      IMAGES "'model={family: resnet, image: [1, 28, 28], depth: 8, widths: [4, 4, 4], outputs: "
             "10}' 'train.schedule={name: step, every: 2}' train.sampler=balanced",
      false },
    { "segmentation",
      "digits-unet-denoise.yaml " RANKS_COMMON
      "'model={family: unet, image: [1, 28, 28], widths: [4, 8], outputs: 11}' 'data={format: "
      "digits, task: segmentation, train_count: 60, test_count: 20}' ~qat.rules train.epochs=1 "
      "train.batch_size=20 train.float_baseline=false train.eval_batch_size=3 qat.start_step=2 "
      "train.schedule.warmup_steps=1 train.shards=4",
      false },
    { "bits",
      TABLE "'data={format: tensors, dir: ., task: multi_label, train: {x: table.csv}, validation: "
            "0.3, validation_order: drawn, columns: {inputs: [l1, l2, l3], target: [b1, b2]}}' "
            "'model={family: layers, "
            "input: [3], layers: [{linear: a, out: 8, activation: relu}, {softplus: s}, "
            "{where: w, from: [a, s], second: [8], trained: true}, {div: d, from: [w, s]}, "
            "{clamp: c, max: 4}, {linear: b, out: 2}]}' train.threshold=f1",
      false },
    { "quantiles",
      TABLE "'data={format: tensors, dir: ., task: regression, train: {x: table.csv}, validation: "
            "0.3, validation_order: drawn, columns: {inputs: [l1, l2, l3], target: [v]}}' "
            "'model={family: mlp, sizes: [3, 8, 3]}' train.loss=quantile",
      false },
    { "focal", IMAGES "train.loss=focal train.focal_gamma=1.5 train.class_weights=balanced",
      false },
    { "focal of bits",
      TABLE "'data={format: table, task: multi_label, train_count: 96, test_count: 24, "
            "standardize: true}' 'model={family: mlp, sizes: [12, 8, 3]}' train.loss=focal "
            "train.class_weights=balanced",
      false },
    { "split by rows",
      SPLIT("table.csv", "{by: rows, test: 0.2}", "0.3") " train.threshold=balanced", false },
    { "split by stratified", SPLIT("table.csv", "{by: stratified, test: 0.2}", "0.3"), false },
    { "split by file", SPLIT("[table.csv, table.csv, table.csv]", "{by: file, test: 0.3}", "0.5"),
      false },
    { "split by group", SPLIT("table.csv", "{by: group, column: kind, test: 0.2}", "0.3"), false },
    { "split by time", SPLIT("table.csv", "{by: time, column: v, test: 0.2}", "0.3"), false },
    { "series by majority", SERIES("3", "majority"), false },
    { "series of one label", SERIES("1", "pure"), false },
    { "series at a rate", RATE("nearest"), false },
    { "series at a rate, the last", RATE("last"), false },
    { "typed columns",
      TABLE "'data={format: tensors, dir: ., train: {x: table.csv}, validation: 0.3, "
            "standardize: true, cache: kept, columns: {inputs: [l1, word, hole], target: kind, "
            "types: [{columns: word, type: category, most: 3}, {columns: hole, missing: median, "
            "indicator: true, scale: quantile}]}}' 'model={family: mlp, sizes: [6, 8, 3]}'",
      true },
    { "several outputs",
      TABLE "'data={format: tensors, dir: ., train: {x: table.csv}, validation: 0.3, "
            "validation_order: time, inputs: "
            "[{name: in, columns: [l1, l2, l3]}], outputs: [{name: kind}, {name: level, columns: "
            "[v], task: regression}, {name: bits, columns: [b1, b2], task: multi_label}]}' "
            "'model={family: layers, input: {in: [3]}, layers: [{linear: a, from: [in], out: 8, "
            "activation: relu}, {linear: kind, from: [a], out: 3}, {linear: level, from: [a], out: "
            "1}, {linear: bits, from: [a], out: 2}], output: [kind, level, bits]}'",
      false },
    { "prompts",
      ADDER "'data={format: jsonl, dir: ., train: [lines.jsonl], tokenizer: bytes, validation: "
            "0.2}' model.vocab=256 model.context=12 train.mask=all train.eval_batch_size=4",
      false },
    { "averaged epochs",
      RANKS_DIGITS "'train.average={name: epochs, last: 2}' 'train.schedule={name: linear}' "
                   "qat.forward=simulated cluster.shard_optimizer=off",
      false },
    { "constant",
      RANKS_DIGITS
      "'train.schedule={name: constant}' train.backward=int8 train.optimizer.decay=all "
      "'qat={preset: int8-dynamic-int8-weight, start_step: 2}'",
      false },
    { "multistep",
      RANKS_DIGITS "'train.schedule={name: multistep, milestones: [2, 4]}' 'qat={preset: "
                   "int4-weight, start_step: 2, weight: {scheme: asymmetric, scale_dtype: f16}}'",
      false },
    { "restarts",
      RANKS_DIGITS
      "'train.schedule={name: cosine_restarts, every: 2}' 'qat={preset: int8-block-int4-weight, "
      "start_step: 2, weight: {scheme: symmetric_no_clip, scale_dtype: bf16}}'",
      false },
    { "polynomial",
      RANKS_DIGITS "'train.schedule={name: polynomial, power: 2}' 'qat={preset: "
                   "int8-block-q4_0-weight, start_step: 2, estimator: ewgs, damping: 0.01}'",
      false },
    { "one cycle",
      RANKS_DIGITS "'train.schedule={name: one_cycle}' "
                   "'qat={preset: device-int8, start_step: 2, estimator: tanh}'",
      false },
    { "stable",
      RANKS_DIGITS "'train.schedule={name: warmup_stable_decay, decay_steps: 2}' 'qat={preset: "
                   "int8-dynamic-int8-weight, start_step: 2, layer_steps: 1, estimator: dsq, "
                   "weight: {granularity: group, "
                   "group_size: 32}, activation: {scheme: symmetric_no_clip}}'",
      false },
    { "sample",
      RANKS_DIGITS "'qat={start_step: 2, freeze: 0.05, freeze_momentum: 0.4, weight: {range: "
                   "static, granularity: tensor, ste: clipped}, activation: {granularity: sample, "
                   "ste: clipped}}' "
                   "'train.spikes={policy: skip, deviations: 1, window: 2}'",
      false },
    { "tensor",
      RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: narrow, granularity: channel, ste: "
                   "identity}, activation: {granularity: tensor, ste: identity, scale_dtype: "
                   "bf16}}' 'train.spikes={policy: lower, deviations: 1, window: 2}'",
      false },
    { "half levels",
      RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: half_levels, range: learned}}'", false },
    { "ternary", RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: ternary}}'", false },
    { "power of two", RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: power_of_two}}'", false },
    { "mxfp4",
      RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: mxfp4}, activation: {scheme: mxfp4}}'",
      false },
    { "mxfp4 up",
      RANKS_DIGITS
      "'qat={start_step: 2, weight: {scheme: mxfp4_up}, activation: {scheme: mxfp4_up}}'",
      false },
    { "mxfp6",
      RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: mxfp6}, activation: {scheme: mxfp6}}'",
      false },
    { "mxfp8",
      RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: mxfp8}, activation: {scheme: mxfp8}}'",
      false },
    { "mxfp8 up",
      RANKS_DIGITS
      "'qat={start_step: 2, weight: {scheme: mxfp8_up}, activation: {scheme: mxfp8_up}}'",
      false },
    { "e5m2",
      RANKS_DIGITS
      "'qat={start_step: 2, weight: {scheme: mxfp8_e5m2}, activation: {scheme: mxfp8_e5m2}}'",
      false },
    { "e3m2",
      RANKS_DIGITS
      "'qat={start_step: 2, weight: {scheme: mxfp6_e3m2}, activation: {scheme: mxfp6_e3m2}}'",
      false },
    { "nvfp4",
      RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: nvfp4}, activation: {scheme: nvfp4}}'",
      false },
    { "nvfp4 both", RANKS_DIGITS "'qat={start_step: 2, preset: nvfp4-nvfp4}'", false },
    { "mxfp4 both", RANKS_DIGITS "'qat={start_step: 2, preset: mxfp4-mxfp4}'", false },
    { "mxfp8 both", RANKS_DIGITS "'qat={start_step: 2, preset: mxfp8-mxfp8}'", false },
    { "mxfp8 by mxfp4", RANKS_DIGITS "'qat={start_step: 2, preset: mxfp8-mxfp4}'", false },
    { "binary", RANKS_DIGITS "'qat={start_step: 2, weight: {scheme: binary}}'", false },
    { "exact",
      RANKS_DIGITS "'qat={preset: int4-int4, start_step: 2, activation: {save: exact}}' "
                   "train.nonfinite=skip 'train.spikes={policy: stop, deviations: 100000}'",
      false },
    { "fixed",
      RANKS_DIGITS
      "'qat={preset: device-int8, start_step: 2, activation: {range: fixed, low: -3, high: 3}}'",
      false },
    { "a2gpfq",
      RANKS_DIGITS "'convert={rounder: a2gpfq, accumulator: {bits: 20, diffuse: all}, rounding: "
                   "{order: weight}, calibration: {samples: 40, batch_size: 7}}'",
      false },
    { "a2qronos",
      RANKS_DIGITS "'convert={rounder: a2qronos, accumulator: {bits: 20}, rounding: {damping_mean: "
                   "all}, calibration: {samples: 40, batch_size: 7}}'",
      false },
    { "sync", RANKS_DIGITS "model.norm=batch model.dropout=0.2 cluster.sync_norm=true", true },
    { "sync cnn", IMAGES STATIC("moving_average") "cluster.sync_norm=true", true },
    { "sync learned",
      IMAGES "'qat={preset: int4-int4, start_step: 2}' cluster.sync_norm=true train.batch_size=3",
      false },
    { "sync recompute",
      IMAGES "'model={family: resnet, image: [1, 28, 28], depth: 8, widths: [4, 8, 8], outputs: "
             "10}' train.recompute=true train.accumulate=2 qat.start_step=1 cluster.sync_norm=true "
             "cluster.shard_optimizer=on train.nonfinite=skip",
      false },
    { "sync teacher",
      RANKS_DIGITS "model.norm=batch 'train.distill={weight: 0.5, features: [layers.0]}' "
                   "cluster.sync_norm=true "
                   "'data.augment={mixup: 0.4}'",
      false },
    { "buckets", RANKS_DIGITS "cluster.bucket_mb=0.01 train.shards=6", false },
};

#define CASES ((int)(sizeof cases / sizeof cases[0]))

/* A folder with table.csv, of 60 rows, and lines.jsonl for those cases that read them. */
static void make_folder(char folder[TEST_PATH])
{
    test_folder(folder);
    ck_assert(
        test_shell(NULL,
                   "cd %s && awk 'BEGIN { print \"l1,l2,l3,kind,v,b1,b2,time,word,hole\"; "
                   "for (i = 0; i < 60; i++) print i %% 7 / 7 \",\" i %% 5 / 5 \",\" "
                   "i %% 3 \",k\" i %% 3 \",\" i %% 11 / 11 \",\" i %% 2 \",\" "
                   "(i %% 4 == 1) \",\" i / 1.5 \",w\" i * i %% 5 \",\" (i %% 6 ? i * 7 %% 13 : "
                   "\"\") }' >table.csv && awk 'BEGIN { for (i = 0; i < 50; i++) "
                   "printf \"{\\\"prompt\\\": \\\"%%d\\\", \\\"completion\\\": "
                   "\\\"=%%d\\\"}\\n\", i, i * 3 }' >lines.jsonl",
                   folder) == 0);
}

/* One of so many quick cases runs. */
static const test_draws case_steps = { .usual = 1, .sanitized = 5 };

/* Whether case i is left out, unless every case is wanted; then it counts as skipped. */
static bool is_for_all(bool quick, int i)
{
    if ((quick && i % test_count(case_steps) == 0) || test_every_site()) return false;
    test_skip("only with DETENT_TESTS=all or DETENT_FAILURES=all");
    return true;
}

START_TEST(any_number_of_ranks_gives_the_same_bytes)
{
    const launcher *found[LAUNCHERS];
    const int n = ranks_launchers(found);
    if (n == 0 || is_for_all(cases[_i].quick, _i)) return;
    const bool six = strstr(cases[_i].recipe, "shards=6") != NULL;
    const int most = six ? 6 : 4;
    char alone[TEST_PATH], folder[TEST_PATH];
    make_folder(alone);
    ranks_train(NULL, 1, alone, cases[_i].recipe);
    for (int i = 0; i < n; i++) {
        for (int ranks = 2; ranks <= most; ranks++) {
            const bool quick = i == _i % n && ranks == (_i % 2 ? 2 : most);
            if (most % ranks != 0 || (!quick && !test_all())) continue;
            for (int way = 0; way < RANKS_WAYS; way++) {
                if (!test_all() && way != _i / 2 % RANKS_WAYS) continue;
                ranks_choose_way(way);
                make_folder(folder);
                ranks_train(found[i], ranks, folder, cases[_i].recipe);
                ranks_compare(alone, folder, cases[_i].name);
            }
        }
    }
}
END_TEST

START_TEST(it_goes_on_with_another_number_of_ranks)
{
    const launcher *found[LAUNCHERS];
    char alone[TEST_PATH], folder[TEST_PATH], a[TEST_PATH + 64], b[TEST_PATH + 64];
    const int n = ranks_launchers(found);
    if (n == 0) return;
    const launcher *l = found[0];
    static const char recipe[] = RANKS_DIGITS "train.schedule.total_steps=9 qat.start_step=2 "
                                              "model.norm=batch model.dropout=0.1 ";
    test_folder(alone);
    test_folder(folder);
    snprintf(a, sizeof a, "%strain.epochs=3", recipe);
    snprintf(b, sizeof b, "%strain.epochs=1", recipe);
    ranks_train(NULL, 1, alone, a);
    ranks_train(l, 4, folder, b);
    ck_assert_int_eq(ranks_run(l, 2, folder,
                               "train run --resume train.epochs=2 cluster.shard_optimizer=on",
                               NULL),
                     0);
    ck_assert_int_eq(ranks_run(NULL, 1, folder, "train run --resume train.epochs=3", NULL), 0);
    snprintf(a, sizeof a, "%s/run", alone);
    snprintf(b, sizeof b, "%s/run", folder);
    job_same_files(a, b, "model.safetensors");
}
END_TEST

/* ---- what the table covers ------------------------------------------------------------------- */

enum { MOST_CHOICES = 500 };

/* A choice of a key, and whether a case has it. */
typedef struct choice {
    char path[120];
    bool seen;
} choice;

typedef struct choices {
    choice of[MOST_CHOICES];
    int n;
} choices;

static choice *choice_at(choices *c, const char *path, const char *value)
{
    char text[120];
    snprintf(text, sizeof text, "%s: %s", path, value);
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->of[i].path, text) == 0) return &c->of[i];
    }
    ck_assert_int_lt(c->n, MOST_CHOICES);
    snprintf(c->of[c->n].path, sizeof c->of[c->n].path, "%s", text);
    return &c->of[c->n++];
}

/* Adds all choices below `keys`, and marks those that the options at `base` have. */
static void walk_keys(choices *c, const char *path, const dt_key *keys, const char *base)
{
    for (const dt_key *k = keys; k->name != NULL; k++) {
        char below[100];
        snprintf(below, sizeof below, "%s%s%s", path, *path == 0 ? "" : ".", k->name);
        const bool given = k->given <= 0 || *(const bool *)(base + k->given);
        if (k->type == DT_KEY_MAP && k->keys != NULL)
            walk_keys(c, below, k->keys, base + k->offset);
        if (k->type != DT_KEY_CHOICE) continue;
        for (int i = 0; k->choices[i] != NULL; i++) {
            choice *at = choice_at(c, below, k->choices[i]);
            at->seen |= given && *(const int *)(const void *)(base + k->offset) == i;
        }
    }
}

/* Words of a shell's line, in place; quotes hold blanks together. */
static int split(char *text, const char **word, int most)
{
    int n = 0;
    for (char *at = text, *to; *at != 0 && n < most; n++) {
        bool quoted = false;
        word[n] = to = at;
        for (; *at != 0 && (quoted || *at != ' '); at++) {
            if (*at == '\'') quoted = !quoted;
            else *to++ = *at;
        }
        while (*at == ' ') at++;
        *to = 0;
    }
    return n;
}

/* The spec that a preset and the recipe's own keys give. */
static void walk_spec(choices *c, const char *path, const dt_key *keys, const dt_quant_spec *base,
                      const dt_quant_patch *own)
{
    dt_quant_patch all = { .quant = *base };
    dt_quant_apply(&all.quant, own);
    for (const dt_key *k = keys; k->name != NULL; k++) {
        if (k->given > 0) *(bool *)((char *)&all + k->given) = true;
    }
    walk_keys(c, path, keys, (const char *)&all);
}

static void walk_qat(choices *c, const dt_recipe_options *o)
{
    dt_quant_spec weight, activation;
    if (!o->qat.given) return;
    const bool both = dt_qat_preset(o->qat.preset, &weight, &activation);
    walk_spec(c, "weight", dt_weight_quant_keys, &weight, &o->qat.weight);
    if (both) {
        walk_spec(c, "activation", dt_activation_quant_keys, &activation, &o->qat.activation);
    }
}

static void walk_case(dt_ctx *ctx, const char *recipe, choices *c)
{
    char text[2048], path[TEST_PATH];
    const char *word[64];
    dt_recipe *r;
    snprintf(text, sizeof text, "%s", recipe);
    const int n = split(text, word, 64);
    snprintf(path, sizeof path, RANKS_RECIPES "%s", word[0]);
    const dt_recipe_source source = {
        .path = path, .overrides = word + 1, .n_overrides = n - 1, .leave_files = true
    };
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &r));
    const dt_recipe_options *o = dt_recipe_get(r);
    walk_keys(c, "", dt_recipe_keys, (const char *)o);
    walk_qat(c, o);
    choice_at(c, "model.family", o->model.family->name)->seen = true;
    dt_recipe_free(r);
}

/* What ranks read alike (data), what only chooses other keys (qat.target, qat.recipe), the settings
 * of weights that are packed before training (model.pack), what has a table of its own below
 * (quantize), and what no preset or recipe may have. */
static bool is_left_out(const char *path)
{
    static const char *const out[] = {
        "data.format: ",
        "model.pack.",
        "data.split: ",
        "data.columns.",
        "data.features.",
        "data.labels: ",
        "data.chat: ",
        "data.layout: nhwc",
        "data.standardize.",
        "qat.target: ",
        "qat.recipe: ",
        "train.optimizer.name: own", /* of a plugin */
        "qat.weight.",
        "qat.activation.",
        "quantize.",
        "weight.granularity: token",
        "weight.granularity: sample",
        "weight.range: fixed",
        "weight.scheme: device",
        "weight.scheme: q8_0",
        "activation.scheme: q4_0",
        "activation.scheme: narrow",
        "activation.scheme: half_levels",
        "activation.scheme: ternary",
        "weight.scheme: own", /* of a plugin, tests/test_plugins.c */
        "activation.scheme: own",
        "activation.scheme: binary",
        "activation.scheme: power_of_two",
        "activation.granularity: channel",
    };
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
        if (strncmp(path, out[i], strlen(out[i])) == 0) return true;
    }
    return false;
}

START_TEST(the_table_has_every_choice)
{
    static choices all;
    dt_ctx *ctx = sample_context(1);
    int missing = 0;
#define DT__FAMILY(name) choice_at(&all, "model.family", #name);
#include "nn/families/families.inc"
#undef DT__FAMILY
    for (int i = 0; i < CASES; i++) walk_case(ctx, cases[i].recipe, &all);
    for (int i = 0; i < all.n; i++) {
        if (all.of[i].seen || is_left_out(all.of[i].path)) continue;
        fprintf(stderr, "no case of several ranks has %s\n", all.of[i].path);
        missing++;
    }
    ck_assert_int_eq(missing, 0);
    dt_ctx_free(ctx);
}
/* ---- batch norms over all shards ------------------------------------------------------------- */

/* The first losses of a run whose batches have 1 or 4 shards. */
static void read_losses(const char *keys, double loss[2])
{
    char folder[TEST_PATH], recipe[1024], *said;
    test_folder(folder);
    snprintf(recipe, sizeof recipe, RANKS_DIGITS "~qat model.norm=batch train.log.every_steps=1 %s",
             keys);
    ranks_train(NULL, 1, folder, recipe);
    ck_assert(test_shell(&said, "sed -n 's/.*\"loss\": \\([^,]*\\),.*/\\1/p' %s/run/metrics.jsonl",
                         folder) == 0);
    ck_assert_int_eq(sscanf(said, "%lf %lf", &loss[0], &loss[1]), 2);
    free(said);
}

START_TEST(synchronized_norms_are_those_of_the_whole_batch)
{
    double whole[2], own[2], all[2];
    read_losses("train.shards=1", whole);
    read_losses("train.shards=4", own);
    read_losses("train.shards=4 cluster.sync_norm=true", all);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(fabs(all[i] - whole[i]) <= 1e-4 * whole[i], "step %d: %g, of one batch %g",
                      i + 1, all[i], whole[i]);
        ck_assert_msg(fabs(own[i] - whole[i]) > 1e-3 * whole[i], "step %d: %g, of one batch %g",
                      i + 1, own[i], whole[i]);
    }
}
END_TEST

/* ---- detent quantize ------------------------------------------------------------------------- */

static const struct {
    const char *settings;
    bool quick;
} roundings[] = {
    { "quantize.rounder=qronos quantize.correct_bias=true", true },
    { "quantize.rounder=gpfq quantize.calibration.cache_mb=0", false },
    { "quantize.rounder=a2qronos quantize.accumulator.bits=20", false },
    { "quantize.rounder=gptq 'qat={preset: int8-static-int8-weight}'", false },
    { "quantize.rounder=nearest", false },
    { "quantize.rounder=nearest quantize.correct_bias=true", false },
};

/* Where the words occur last; NULL: nowhere. */
static const char *last_of(const char *text, const char *words)
{
    const char *at = strstr(text, words), *next;
    while (at != NULL && (next = strstr(at + 1, words)) != NULL) at = next;
    return at;
}

START_TEST(a_model_is_quantized_with_the_same_bytes)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], words[1024], *said;
    const int n = ranks_launchers(found);
    if (n == 0 || is_for_all(roundings[_i].quick, _i)) return;
    test_folder(folder);
    ranks_train(NULL, 1, folder, RANKS_DIGITS);
    for (int ranks = 1; ranks <= 4; ranks += 1 + (ranks > 1)) {
        snprintf(words, sizeof words,
                 "quantize run/float.safetensors run/recipe.yaml -o %d.safetensors "
                 "'quantize={calibration: {samples: 45, batch_size: 4}}' %s",
                 ranks, roundings[_i].settings);
        const int status = ranks_run(ranks > 1 ? found[_i % n] : NULL, ranks, folder, words, &said);
        ck_assert_msg(status == 0, "%s: status %d: %s", words, status, said);
        ck_assert_msg(strstr(said, "2 weights of ") == last_of(said, "2 weights of "), "%s", said);
        free(said);
    }
    ck_assert_int_eq(test_shell(NULL,
                                "cd %s && cmp 1.safetensors 2.safetensors && cmp 1.safetensors "
                                "4.safetensors && ! ls *.partial",
                                folder),
                     0);
}
END_TEST

static bool at_once(void *user)
{
    (void)user;
    return true;
}

#define ROUNDED "quantize.rounder=gptq"
#define SAMPLES "quantize.calibration.samples=40"

/* Leaves q.safetensors.partial in the folder, in which one weight of run/ is done. */
static void quantize_one_weight(const char *folder)
{
    char path[TEST_PATH], model[TEST_PATH], output[TEST_PATH];
    const char *const overrides[] = { ROUNDED, SAMPLES };
    const dt_recipe_source source = { .path = path, .overrides = overrides, .n_overrides = 2 };
    const dt_quantize_job one = { .model = model, .output = output, .stop = at_once };
    dt_ctx *ctx = NULL;
    dt_recipe *recipe = NULL;
    dt_quantize_summary summary;
    test_join(path, folder, "run/recipe.yaml");
    test_join(model, folder, "run/float.safetensors");
    test_join(output, folder, "q.safetensors");
    TEST_OK(NULL, dt_ctx_create(&ctx, NULL));
    TEST_OK(ctx, dt_recipe_read(ctx, &source, &recipe));
    TEST_FAILS(ctx, DT_ERR_INTERRUPTED, "1 of 2 weights",
               dt_quantize_model(ctx, recipe, &one, &summary));
    dt_quantize_summary_free(&summary);
    dt_recipe_free(recipe);
    dt_ctx_free(ctx);
}

/* OUT.partial in a folder that only rank 0 has: the ranks would round different layers. */
START_TEST(ranks_go_on_from_the_same_partial_file)
{
    static const char words[] = " " RANKS_PROGRAM " quantize run/float.safetensors run/recipe.yaml "
                                "-o q.safetensors " ROUNDED " " SAMPLES " ";
    const launcher *found[LAUNCHERS];
    char a[TEST_PATH], b[TEST_PATH], *said = NULL;
    if (ranks_launchers(found) == 0) return;
    test_folder(a);
    test_folder(b);
    ranks_train(NULL, 1, a, RANKS_DIGITS);
    ck_assert(test_shell(NULL, "cp -r %s/run %s/run", a, b) == 0);
    quantize_one_weight(a);
    const int status = test_shell(&said, "%s -n 1 env -C %s %s : -n 1 env -C %s %s 2>&1",
                                  found[0]->command, a, words, b, words);
    ck_assert_msg(status == 1 && strstr(said, "rank 1 reads 0 finished weights") != NULL,
                  "status %d: %s", status, said);
    ck_assert_msg(test_shell(NULL, "cd %s && test ! -e q.safetensors && test -e *.partial", a) == 0,
                  "%s", said);
    free(said);
}
END_TEST

/* ---- what must agree ------------------------------------------------------------------------- */

/* Two ranks that differ by the text before and behind the program's name. */
static void refuse(const launcher *l, const char *const before[2], const char *const behind[2],
                   const char *words)
{
    char folder[TEST_PATH], *said = NULL;
    test_folder(folder);
    const int status = test_shell(
        &said,
        "cd %s && mkdir a b && head -c 3000 " DETENT_SOURCE_DIR "/README.md >a/text && "
        "sed s/detent/extent/ a/text >b/text && cp a/text text && "
        "v=$(" RANKS_PROGRAM " --version | tr -dc '0-9.' | sed 's/[.]/[.]/g') && "
        "sed \"s/$v/0.0.0/g\" " RANKS_PROGRAM " >detent && chmod +x detent && "
        "printf 'shift; DETENT_MODULES=" DETENT_BINARY_DIR " exec ./detent \"$@\"' >other && "
        "%s -n 1 %s " RANKS_PROGRAM " train %s : -n 1 %s " RANKS_PROGRAM " train %s 2>&1",
        folder, l->command, before[0], behind[0], before[1], behind[1]);
    ck_assert_msg(status == 1, "status %d: %s", status, said);
    ck_assert_msg(strstr(said, words) != NULL, "%s: not in: %s", words, said);
    ck_assert_msg(test_shell(NULL, "test -e %s/run", folder) != 0, "a folder was made");
    free(said);
}

#define TEXT                                                                                       \
    "shakespeare-char-gpt.yaml " RANKS_COMMON "data.dir=. data.train=[text] data.tokenizer=bytes " \
    "model.vocab=256 train.steps=4 train.schedule.warmup_steps=1 train.float_baseline=false ~qat "

START_TEST(ranks_that_differ_are_refused_by_name)
{
    const launcher *found[LAUNCHERS];
    const int n = ranks_launchers(found);
    const char *const none[2] = { "", "" }, *const sets[2] = { "", "env DETENT_CPU=plain" };
    const char *const same[2] = { RANKS_RECIPES RANKS_DIGITS, RANKS_RECIPES RANKS_DIGITS };
    const char *const seeds[2] = { RANKS_RECIPES RANKS_DIGITS "run.seed=1",
                                   RANKS_RECIPES RANKS_DIGITS "run.seed=2" };
    const char *const text[2] = { RANKS_RECIPES TEXT, RANKS_RECIPES TEXT };
    const char *const folders[2] = { "env -C a", "env -C b" };
    const char *const versions[2] = { "", "sh ./other " };
    const dt__kernel_set *more = dt__kernel_set_at(1);
    for (int i = 0; i < n && i < (test_all() ? n : 1); i++) {
        refuse(found[i], none, seeds, "rank 1 has another recipe than rank 0");
        if (more != NULL && dt__kernel_set_runs(more)) /* behind plain C, in this build */
            refuse(found[i], sets, same, "rank 1 has another instruction set than rank 0");
        refuse(found[i], folders, text, "rank 1 has other data than rank 0");
        refuse(found[i], versions, same, "rank 1 has another version of detent than rank 0");
    }
}
END_TEST

/* ---- alone ----------------------------------------------------------------------------------- */

START_TEST(shards_that_ranks_do_not_divide_are_refused)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], *said;
    if (ranks_launchers(found) == 0) return;
    test_folder(folder);
    const int status =
        ranks_run(found[0], 2, folder, "train " RANKS_RECIPES RANKS_DIGITS "train.shards=3", &said);
    ck_assert_msg(status == 2 && strstr(said, "'train.shards' is 3, which 2 ranks do not divide"),
                  "status %d: %s", status, said);
    free(said);
}
END_TEST

START_TEST(the_environment_chooses_messages)
{
    const launcher *found[LAUNCHERS];
    char folder[TEST_PATH], *said;
    if (ranks_launchers(found) == 0) return;
    test_folder(folder);
    ranks_choose_way(1);
    int status = ranks_run(found[0], 2, folder, "train " RANKS_RECIPES RANKS_DIGITS, &said);
    ck_assert_msg(status == 0 && strstr(said, "2 ranks, which exchange messages of MPI\n"),
                  "status %d: %s", status, said);
    free(said);
    setenv("DETENT_EXCHANGE", "pigeons", 1);
    status = ranks_run(found[0], 2, folder, "train " RANKS_RECIPES RANKS_DIGITS, &said);
    ck_assert_msg(status == 1 && strstr(said, "DETENT_EXCHANGE is 'pigeons'; it can be messages"),
                  "status %d: %s", status, said);
    free(said);
}
END_TEST

Suite *test_cluster_suite(void)
{
    Suite *s = suite_create("cluster");
    TCase *t = tcase_create("ranks");
    tcase_add_checked_fixture(t, NULL, ranks_choose_no_way);
    tcase_set_timeout(t, 1800);
    tcase_add_loop_test(t, any_number_of_ranks_gives_the_same_bytes, 0, CASES);
    tcase_add_test(t, the_table_has_every_choice);
    tcase_add_test(t, synchronized_norms_are_those_of_the_whole_batch);
    tcase_add_test(t, it_goes_on_with_another_number_of_ranks);
    tcase_add_loop_test(t, a_model_is_quantized_with_the_same_bytes, 0,
                        (int)(sizeof roundings / sizeof roundings[0]));
    tcase_add_test(t, ranks_go_on_from_the_same_partial_file);
    tcase_add_test(t, ranks_that_differ_are_refused_by_name);
    tcase_add_test(t, shards_that_ranks_do_not_divide_are_refused);
    tcase_add_test(t, the_environment_chooses_messages);
    suite_add_tcase(s, t);
    return s;
}
