"""Data of scripts/compare-qat.py: the examples of each epoch in detent's order, whose shuffle is
computed here once more, and what a recipe says of them.
"""

import glob
import importlib.util
import math
import os
import wave

import numpy as np

MASK = (1 << 64) - 1
CONTEXT, HELD_BACK, PADDING = 64, 0.1, -100  # for text


# ---- detent's shuffle ----------------------------------------------------------------------------

def mix(z):
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
    return z ^ (z >> 31)


def philox(key, counter):
    a, b, c, d = counter & 0xffffffff, counter >> 32, 0, 0
    low, high = key & 0xffffffff, key >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ low, q & 0xffffffff, (p >> 32) ^ d ^ high, p & 0xffffffff
        low, high = (low + 0x9E3779B9) & 0xffffffff, (high + 0xBB67AE85) & 0xffffffff
    return a, b, c, d


def keys(seed, epoch):
    """Of an epoch: that of the order, and another."""
    golden = 0x9e3779b97f4a7c15
    shuffle = 3  # DT__FOR_SHUFFLE
    w = philox(mix((mix((seed + golden) & MASK) + golden * (shuffle + 1)) & MASK), epoch)
    return w[0] << 32 | w[1], w[2] << 32 | w[3]


def below(key, at, n):
    """Draw `at`; of 2^64 numbers so few are unfair that none is met."""
    w = philox(key, at)
    return (w[0] << 32 | w[1]) % n


def order(seed, epoch, n):
    key, v = keys(seed, epoch)[0], list(range(n))
    for at, last in enumerate(range(n - 1, 0, -1)):
        place = below(key, at, last + 1)
        v[last], v[place] = v[place], v[last]
    return np.array(v)


# ---- kinds of data -------------------------------------------------------------------------------

class Arrays:
    """Examples with a class. An epoch is all of them, of small data so often that it has 40 updates
    or more."""
    batch, train_keys = 64, ""

    def __init__(self, x, y, test_x, test_y):
        self.x, self.y = x.astype(np.float32), y.astype(np.int64)
        self.test_x, self.test_y = test_x.astype(np.float32), test_y.astype(np.int64)
        once = math.ceil(len(y) / self.batch)
        self.passes = math.ceil(40 / once)
        self.updates = once * self.passes

    def batches(self, seed, epochs):
        for e in range(epochs * self.passes):
            rows = order(seed, e, len(self.y))
            for i in range(0, len(rows), self.batch):
                yield self.x[rows[i:i + self.batch]], self.y[rows[i:i + self.batch]]

    def recipe(self, folder):
        for name, x, y in (("train", self.x, self.y), ("test", self.test_x, self.test_y)):
            np.savez(os.path.join(folder, name + ".npz"), x=x, y=y)
        return (f"{{format: tensors, dir: {folder}, train: {{x: 'train.npz:x', y: 'train.npz:y'}}, "
                "test: {x: 'test.npz:x', y: 'test.npz:y'}}")

    def score(self, logits):
        return 100 * float((logits.argmax(1) == self.test_y).mean())

    @staticmethod
    def of_summary(result):
        return 100 * result["accuracy"]


class Text:
    """Characters, of which each window's next one is to be predicted. An epoch, in the sense of
    other data, is 100 updates, fewer than a pass over the text."""
    batch, updates, context = 16, 100, CONTEXT
    train_keys = "evaluate: {every_steps: 1000000}"  # only at the end

    def __init__(self, path):
        self.path = os.path.abspath(path)
        with open(path, encoding="utf-8", newline="") as f:
            text = f.read()
        cut = int((1 - HELD_BACK) * len(text.encode()))
        if len(text) != len(text.encode()):
            raise ValueError(f"{path}: expected ASCII, whose bytes are characters")
        characters = sorted(set(text[:cut]))
        self.vocab = len(characters)
        ids = np.array([characters.index(c) for c in text])
        self.ids, held = ids[:cut], ids[cut:]
        windows = math.ceil((len(held) - 1) / CONTEXT)
        padded = np.full(windows * CONTEXT + 1, PADDING)
        padded[:len(held)] = held
        self.test_y = padded[1:].reshape(windows, CONTEXT)
        self.test_x = np.maximum(padded[:-1], 0).reshape(windows, CONTEXT)

    def windows(self, seed, epoch):
        n = (len(self.ids) - CONTEXT) // CONTEXT
        offset = below(keys(seed, epoch)[1], 0, min(CONTEXT, len(self.ids) - n * CONTEXT))
        at = offset + order(seed, epoch, n)[:, None] * CONTEXT + np.arange(CONTEXT)
        return self.ids[at], self.ids[at + 1]

    def batches(self, seed, epochs):
        left, epoch = epochs * self.updates, 0
        while left > 0:
            x, y = self.windows(seed, epoch)
            for i in range(0, min(len(x), left * self.batch), self.batch):
                yield x[i:i + self.batch], y[i:i + self.batch]
                left -= 1
            epoch += 1

    def recipe(self, folder):
        return (f"{{format: text, dir: {os.path.dirname(self.path)}, "
                f"train: [{os.path.basename(self.path)}], validation: {HELD_BACK}, "
                f"tokenizer: chars, context: {CONTEXT}}}")

    def score(self, logits):
        """logits: [windows, vocab, context]"""
        logits = logits.astype(np.float64)
        top = logits.max(1, keepdims=True)
        log_sums = np.log(np.exp(logits - top).sum(1)) + top[:, 0]
        counts = self.test_y != PADDING
        right = np.take_along_axis(logits, np.maximum(self.test_y, 0)[:, None], 1)[:, 0]
        return math.exp(float((log_sums - right)[counts].mean()))

    @staticmethod
    def of_summary(result):
        return result["perplexity"]


# ---- sources -------------------------------------------------------------------------------------

def mnist1d(draw):
    """Draw 0 is the usual one."""
    from mnist1d.data import get_dataset_args, make_dataset
    args = get_dataset_args()
    args.seed += draw
    d = make_dataset(args)
    x, test_x = d["x"].astype(np.float32), d["x_test"].astype(np.float32)
    return (x - x.mean()) / x.std(), d["y"], (test_x - x.mean()) / x.std(), d["y_test"]


def features(path):
    """32 frames of 16 bands: logarithms of the energies of a spoken digit at 8 kHz."""
    with wave.open(path) as w:
        x = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float64) / 32768
    x = np.pad(x[:8000], (0, max(0, 8000 - len(x))))
    frames = np.stack([x[i * 240:i * 240 + 512] for i in range(32) if i * 240 + 512 <= 8000] +
                      [np.zeros(512)] * 32)[:32] * np.hanning(512)
    power = np.abs(np.fft.rfft(frames)) ** 2
    top = 2595 * np.log10(1 + 4000 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, 18) / 2595) - 1) / 4000 * 256
    k = np.arange(257)
    bands = [np.clip(np.minimum((k - a) / (b - a), (c - k) / (c - b)), 0, None)
             for a, b, c in zip(edges, edges[1:], edges[2:])]
    return np.log(power @ np.array(bands).T + 1e-6)


def sounds(folder):
    names = sorted(n for n in os.listdir(folder) if n.endswith(".wav"))
    x = np.stack([features(os.path.join(folder, n)) for n in names]).astype(np.float32)
    y = np.array([int(n[0]) for n in names])
    test = np.array([int(n.split("_")[2].split(".")[0]) < 5 for n in names])  # the published split
    x = ((x - x[~test].mean()) / x[~test].std())[:, None]
    return x[~test], y[~test], x[test], y[test]


def series(name):
    """A data set of UCR or UEA in the package aeon; None: it is not installed. Shorter series are
    padded with zeros, each channel has mean 0 and deviation 1."""
    found = importlib.util.find_spec("aeon")
    if found is None:
        return None
    folder = os.path.join(os.path.dirname(found.origin), "datasets", "data", name)
    parts = [read_series(glob.glob(os.path.join(folder, f"{name}_{p}.ts"))[0])
             for p in ("TRAIN", "TEST")]
    classes = sorted({label for p in parts for _, label in p})
    channels, length = len(parts[0][0][0]), max(len(x[0]) for p in parts for x, _ in p)
    values = np.concatenate([x for x, _ in parts[0]], axis=1)
    mean, deviation = values.mean(1)[:, None], values.std(1)[:, None]
    result = []
    for p in parts:
        x = np.zeros((len(p), channels, length), np.float32)
        for i, (v, _) in enumerate(p):
            x[i, :, :v.shape[1]] = (v - mean) / deviation
        result += [x, np.array([classes.index(label) for _, label in p])]
    return result


def read_series(path):
    with open(path, encoding="utf-8") as f:
        lines = [line.strip() for line in f]
    rows = lines[[line.lower() for line in lines].index("@data") + 1:]
    split = [row.split(":") for row in rows if row]
    return [(np.array([[float(v) for v in c.split(",")] for c in r[:-1]]), r[-1]) for r in split]
