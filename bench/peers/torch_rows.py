"""Rows of PyTorch, and of torchao's training steps, which are its own float step's neighbours."""

import functools
import warnings

import torch
from torch import nn
from torch.nn import functional

import measure
import work

try:
    import torchao_rows
except ImportError:  # peers.py says so
    torchao_rows = None

SOURCE = "PyTorch " + torch.__version__.split("+")[0]
RATE = 1e-3


def machine():
    return {
        "pytorch": torch.__version__,
        "pytorch_cpu": torch.backends.cpu.get_cpu_capability(),
        "pytorch_blas": "MKL" if torch.backends.mkl.is_available() else "other",
    }


# ---- training steps ------------------------------------------------------------------------------


def unit(inputs, outputs, stride):
    return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)


class Block(nn.Module):
    """Two convolutions and a shortcut, which is padded with channels of zeros."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Sequential(*unit(inputs, outputs, stride), nn.ReLU())
        self.second = nn.Sequential(*unit(outputs, outputs, 1))
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        y = self.second(self.first(x))
        if self.more > 0:
            before = self.more // 2
            x = x[:, :, :: self.stride, :: self.stride]
            x = functional.pad(x, (0, 0, 0, 0, before, self.more - before))
        return functional.relu(y + x)


def cnn():
    layers = []
    for inputs, outputs, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 1), (32, 48, 2)):
        layers += [*unit(inputs, outputs, stride), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48 * 9, 10))


def resnet20():
    layers, inputs = [*unit(3, 16, 1), nn.ReLU()], 16
    for outputs in (16, 32, 64):
        for _ in range(3):
            layers.append(Block(inputs, outputs, 1 if inputs == outputs else 2))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def conv(inputs, outputs, kernel=1, stride=1, padding=0, groups=1, active=nn.ReLU):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
              nn.BatchNorm2d(outputs)]
    return layers + ([active()] if active else [])


def dscnn():
    layers = conv(1, 32, (10, 4), 2, (5, 1))
    for _ in range(3):
        layers += conv(32, 32, 3, 1, 1, groups=32) + conv(32, 32)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 12))


class Inverted(nn.Module):
    """An inverted residual block of 16 channels."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*conv(16, 48, active=nn.ReLU6),
                                  *conv(48, 48, 3, 1, 1, groups=48, active=nn.ReLU6),
                                  *conv(48, 16, active=None))

    def forward(self, x):
        return self.body(x) + x


def mobilenet():
    return nn.Sequential(*conv(1, 16, 3, 2, 1, active=nn.ReLU6), Inverted(), Inverted(),
                         *conv(16, 64, active=nn.ReLU6),
                         *conv(64, 64, 3, 2, 1, groups=64, active=nn.ReLU6),
                         *conv(64, 24, active=None),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))


class Attend(nn.Module):
    """A block of a gpt, with a bias in its linear layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm2(x))


class Language(nn.Module):
    """The head uses the token embedding's weight."""

    def __init__(self, of):
        super().__init__()
        self.tokens = nn.Embedding(of.vocabulary, of.width)
        self.positions = nn.Parameter(0.02 * torch.randn(of.context, of.width))
        self.blocks = nn.Sequential(*(Attend(of.width, of.heads) for _ in range(of.layers)))
        self.norm = nn.LayerNorm(of.width)

    def forward(self, ids):
        x = self.norm(self.blocks(self.tokens(ids) + self.positions))
        return functional.linear(x, self.tokens.weight).flatten(0, 1)


NETS = {"cnn": cnn, "resnet20": resnet20, "dscnn": dscnn, "mobilenet": mobilenet}


class Step:
    """Forward, cross entropy, backward, AdamW. The fused AdamW is PyTorch's fastest on a CPU:
    with foreach or the plain loop a step takes 1.1 to 1.4 times as long. `bf16`: forward and loss
    in autocast, as its guide writes it; masters and AdamW stay fp32. `last`: channels last."""

    def __init__(self, model, qat=False, compiled=False, bf16=False, last=False):
        self.bf16 = bf16
        self.fill(model)
        if last:
            self.module = self.module.to(memory_format=torch.channels_last)
            self.x = self.x.to(memory_format=torch.channels_last)
        if qat:
            torchao_rows.prepare(self.module)
        matrices = [p for p in self.module.parameters() if p.dim() > 1]
        vectors = [p for p in self.module.parameters() if p.dim() == 1]
        groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.01, fused=True)
        self.loss = torch.compile(self.forward, dynamic=False) if compiled else self.forward

    def fill(self, model):
        """Module and batch."""
        if isinstance(model, work.Gpt):
            self.module = Language(model)
            self.x = torch.randint(model.vocabulary, (model.batch, model.context))
            self.labels = torch.randint(model.vocabulary, (model.batch * model.context,))
            return
        net = isinstance(model, work.Net)
        self.module = NETS[model.network]() if net else self.perceptron(model.sizes)
        self.x = torch.rand(model.batch, *(model.image if net else model.sizes[:1]))
        self.labels = torch.arange(model.batch) * 7 % (10 if net else model.sizes[-1])

    @staticmethod
    def perceptron(sizes):
        layers = []
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def forward(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            return functional.cross_entropy(self.module(self.x), self.labels)

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()

    def held(self):
        """Bytes that forward keeps for backward, besides parameters and the batch."""
        known = {p.untyped_storage().data_ptr() for p in self.module.parameters()}
        known.add(self.x.untyped_storage().data_ptr())
        storages = {}

        def pack(saved):
            storage = saved.untyped_storage()
            if storage.data_ptr() not in known:
                storages[storage.data_ptr()] = storage.nbytes()
            return saved

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            loss = self.forward()
        held = sum(storages.values())
        loss.backward()
        return held


def float_steps(model, threads, compiled, images):
    """The fp32 step, then that of autocast's bf16; of networks of images, both with channels last,
    too."""
    how = " compiled" if compiled else ""
    trials = []
    for last in (False, True) if images else (False,):
        for form, bf16 in (("float", False), ("bf16", True)):
            name = model.name(form + ("-channels-last" if last else ""), threads)
            step = Step(model, compiled=compiled, bf16=bf16, last=last)
            to = (trials[0], "float") if trials else (None, "")
            trials.append(measure.Trial(name, SOURCE + how, "ms", step.run, 0, *to))
    return trials


def all_steps(model, threads, compiled, images=False):
    """The float steps and, where torchao is there, the quantization-aware one: torchao prepares
    linear layers alone."""
    how = " compiled" if compiled else ""
    trials = float_steps(model, threads, compiled, images)
    if torchao_rows is not None and not images:
        name = model.name("qat", threads)
        step = Step(model, qat=True, compiled=compiled)
        source = torchao_rows.SOURCE + how
        trials.append(measure.Trial(name, source, "ms", step.run, 0, trials[0], "float"))
    return trials


def print_held(printer, model, threads, images):
    held = Step(model).held()
    measure.print_bytes(printer, model.name("float-held", threads), SOURCE, held)
    bf16 = Step(model, bf16=True).held()
    measure.print_bytes(printer, model.name("bf16-held", threads), SOURCE, bf16,
                        {"float": bf16 / held})
    if torchao_rows is not None and not images:
        name, qat = model.name("qat-held", threads), Step(model, qat=True).held()
        measure.print_bytes(printer, name, torchao_rows.SOURCE, qat, {"float": qat / held})


def steps(options, printer, threads):
    nets = work.nets(options.quick)
    for model in work.models(options.quick) + work.gpts(options.quick) + nets:
        images = model in nets
        trials = all_steps(model, threads, False, images)
        if options.compiled:
            torch.compiler.reset()  # after some models it would give up, and run them as they are
            trials += all_steps(model, threads, True, images)
        measure.measure(options, printer, trials)
        print_held(printer, model, threads, images)


# ---- updates -------------------------------------------------------------------------------------


def update(rows, columns, make):
    weight = nn.Parameter(torch.randn(rows, columns))
    weight.grad = torch.randn(rows, columns)
    return make([weight]).step


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9, fused=True)


def optimizer(options, printer, threads):
    for where, rows, columns in work.matrices(options.quick, 64):
        trials = []
        for name, make, floats in (("adamw", adamw, 7), ("sgd-momentum", sgd, 5)):
            name = "optimizer/%s/%s/t%d" % (name, where, threads)
            size = 4 * floats * rows * columns
            trials.append(measure.Trial(name, SOURCE, "GB/s", update(rows, columns, make), size))
        measure.measure(options, printer, trials)


# ---- fake quantization ---------------------------------------------------------------------------


def fake_quantize(x, codes):
    """PyTorch's own operators: ranges, then the one that quantizes and dequantizes by groups."""
    rows, limit = x.reshape(-1, codes.group or x.shape[1]), 2 ** (codes.bits - 1) - 1
    scale = rows.abs().amax(1).clamp_(min=1e-12).div_(limit)
    zero = torch.zeros(rows.shape[0], dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(rows, scale, zero, 0, -limit - 1, limit)


def quantize(options, printer, threads):
    for where, rows, columns in work.matrices(options.quick, 128):
        x = torch.randn(rows, columns)
        trials = []
        for codes in work.CODES:
            name = "quantize/%s/%s/t%d" % (codes.name, where, threads)
            size = codes.bytes(rows, columns)
            if not codes.activation:
                run = functools.partial(fake_quantize, x, codes)
                trials.append(measure.Trial(name, SOURCE, "GB/s", run, size))
            if torchao_rows is not None:
                run = torchao_rows.fake_quantize(x, codes)
                trials.append(measure.Trial(name, torchao_rows.SOURCE, "GB/s", run, size))
        measure.measure(options, printer, trials)


# ---- products ------------------------------------------------------------------------------------


def float_linear(n):
    return nn.Linear(n, n, bias=False)


def int8_linear(n):
    """Activations quantized in the call, weights int8: FBGEMM's kernels on x86."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.nn.quantized.dynamic.Linear(n, n, bias_=False)


def int4_linear(n):
    """Activations quantized in the call, weights int4 in groups; vectorized on ARM only."""
    codes = torch.randint(0, 256, (n, n // 2), dtype=torch.uint8)
    shape = (work.GROUP, n, n)
    scales = torch.rand(n, n // work.GROUP)
    weight = torch.ops.aten._dyn_quant_pack_4bit_weight(codes, scales, None, *shape)
    return lambda x: torch.ops.aten._dyn_quant_matmul_4bit(x, weight, *shape)


LINEARS = {"f32-pytorch": float_linear, "int8-row": int8_linear, "int4-group32": int4_linear}
MOST_OF_INT4 = 1 << 27  # multiply-adds: more take too long where they are not vectorized


def products(options, printer, threads):
    for n, all_rows in work.products(options.quick):
        linears = {form: make(n) for form, make in LINEARS.items()}
        for m in all_rows:
            x, trials = torch.randn(m, n), []
            for form, linear in linears.items():
                if form.startswith("int4") and m * n * n > MOST_OF_INT4:
                    continue
                name = work.product_name(m, n, form, threads)
                run = functools.partial(linear, x)
                trials.append(measure.Trial(name, SOURCE, "GMAC/s", run, m * n * n))
            with torch.no_grad():
                measure.measure(options, printer, trials)


PARTS = {"products": products, "quantize": quantize, "optimizer": optimizer, "step": steps}


def rows(options, printer, part, threads):
    if part in PARTS:
        torch.set_num_threads(threads)
        PARTS[part](options, printer, threads)
