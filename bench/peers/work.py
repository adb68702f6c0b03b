"""What is measured: the shapes and names of `detent-bench`."""

import dataclasses
import glob

GROUP = 32  # of the default preset


@dataclasses.dataclass(frozen=True)
class Model:
    sizes: tuple
    batch: int

    def name(self, what, threads):
        sizes = "-".join(map(str, self.sizes))
        return "step/%s/b%d/%s/t%d" % (sizes, self.batch, what, threads)


def models(quick):
    if quick:
        return [Model((64, 32, 10), 16)]
    small, large = (768, 256, 128, 10), (1024, 4096, 4096, 1024)
    return [Model(small, 64), Model(small, 512), Model(large, 256)]


@dataclasses.dataclass(frozen=True)
class Net:
    """A convolutional network of src/bench/nets.c or nets_lists.c."""

    network: str
    image: tuple
    batch: int

    def name(self, what, threads):
        return "step/%s/b%d/%s/t%d" % (self.network, self.batch, what, threads)


def nets(quick):
    if quick:
        return [Net("cnn", (1, 28, 28), 4)]
    return [Net("cnn", (1, 28, 28), 128), Net("resnet20", (3, 32, 32), 128),
            Net("dscnn", (1, 49, 10), 128), Net("mobilenet", (1, 28, 28), 128)]


@dataclasses.dataclass(frozen=True)
class Gpt:
    """A language model of src/bench/bench_language.c."""

    network: str
    layers: int
    heads: int
    width: int
    batch: int
    context: int
    vocabulary: int = 65

    def name(self, what, threads):
        return "language/%s/b%dx%d/%s/t%d" % (self.network, self.batch, self.context, what,
                                              threads)


def gpts(quick):
    if quick:
        return [Gpt("gpt-32", 2, 2, 32, 2, 8)]
    return [Gpt("gpt-128", 4, 4, 128, 12, 64), Gpt("gpt-384", 6, 6, 384, 8, 256)]


def products(quick):
    """Of [m, n] by [n, n]: each n with its m."""
    rows = (1, 16) if quick else (1, 4, 16, 96, 512)
    return [(n, rows) for n in ((256,) if quick else (256, 1024, 4096))]


def product_name(m, n, form, threads):
    return "products/m%d/n%d/k%d/%s/t%d" % (m, n, n, form, threads)


@dataclasses.dataclass(frozen=True)
class Codes:
    """A form of quantization; `group` None: a whole row."""

    name: str
    bits: int
    group: int | None
    activation: bool = False

    def bytes(self, rows, columns):
        """Of a matrix as detent's row counts them, so that GB/s compare as speeds: fp32 values read
        once; codes, scales and the row's sum (or zero point) written."""
        groups = columns // (self.group or columns)
        return rows * (columns * (4 + self.bits / 8) + 4 * groups + 4)


CODES = [
    Codes("weight-int4-group32", 4, 32),
    Codes("weight-int4-group128", 4, 128),
    Codes("weight-int8-channel", 8, None),
    Codes("activation-int8-token", 8, None, activation=True),
]


def last_cache():
    """Bytes of the largest cache; 16 MiB where the system does not say."""
    sizes = [16 << 20]
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        with open(path) as file:
            sizes.append(int(file.read().strip().rstrip("K")) << 10)
    return max(sizes)


def matrices(quick, cached_rows):
    """(where, rows, columns) of a matrix in cache and of one that no cache holds."""
    if quick:
        return [("cache", 32, 1024)]
    memory = min(max(4 * last_cache(), 64 << 20), 1 << 30)
    return [("cache", cached_rows, 1024), ("memory", memory // 4 // 1024, 1024)]
