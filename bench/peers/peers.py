#!/usr/bin/env python3
"""The work of `detent-bench` in PyTorch, torchao and onnxruntime, as the same rows. README.md says
how to make the environment that this wants."""

import argparse
import importlib
import logging
import os
import platform
import sys

import measure

PARTS = ("products", "quantize", "optimizer", "step")
# Packages that are measured, each with the other packages that this requires.
PEERS = {"torch": (), "torchao": ("torch",), "onnxruntime": ("numpy", "onnx")}


def import_peers():
    """The modules of those that are installed; says who is missing."""
    peers = {}
    for name, others in PEERS.items():
        try:
            for package in (*others, name):
                importlib.import_module(package)
            peers[name] = importlib.import_module(name + "_rows")
        except ImportError as error:
            print("peers: no rows of %s: %s" % (name, error), file=sys.stderr)
    return peers


def parts_of(text):
    parts = text.split(",")
    for part in parts:
        if part not in PARTS:
            message = "there is no part '%s'; there are %s" % (part, ", ".join(PARTS))
            raise argparse.ArgumentTypeError(message)
    return parts


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("'%s' should be a whole number from 1" % text)
    return int(text)


def arguments():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object with all rows")
    parser.add_argument("--only", type=parts_of, default=list(PARTS), metavar="PART,...")
    parser.add_argument("--threads", type=positive, default=cores, help="default: all cores")
    parser.add_argument("--repeat", type=positive, help="turns of each comparison")
    parser.add_argument("--quick", action="store_true", help="whether it works, not how fast")
    parser.add_argument("--compile", action="store_true", help="steps by torch.compile, too")
    return parser.parse_args()


def machine(peers, threads):
    """What is measured on, and with which versions."""
    about = {"processor": processor(), "threads": threads, "python": platform.python_version()}
    for peer in peers.values():
        about.update(peer.machine())
    return about


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
        return names[0]
    except (OSError, IndexError):
        return platform.processor()


def main():
    given = arguments()
    logging.disable(logging.WARNING)  # the packages' own, about GPUs and what is deprecated
    peers = import_peers()
    if not peers:
        return 1
    options = measure.Options(given.repeat, given.quick, given.compile)
    printer = measure.Printer(given.json)
    printer.begin(machine(peers, given.threads))
    for threads in sorted({1, given.threads}):
        for part in given.only:
            for peer in peers.values():
                if hasattr(peer, "rows"):
                    peer.rows(options, printer, part, threads)
    printer.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
