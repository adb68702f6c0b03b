"""Adds up what the suites ran: coverage-table.py BUILD prints lines and branches of src/ by folder;
coverage-table.py BUILD --files by file, the file with most branches that were not taken first;
coverage-table.py BUILD FILE the lines of src/FILE with branches that were not taken, a sign for
each branch: "." if it was. BUILD/suites/SUITE has the counts of gcc (.gcda) of each suite."""

import collections
import concurrent.futures
import glob
import json
import os
import shutil
import struct
import subprocess
import sys

SUMMARY, FUNCTION, ARCS = 0xa1000000, 0x01000000, 0x01a10000 # tags of records, in gcov-io.h
OF_SETS = 'src/kernels/x86', 'src/kernels/arm' # left out


def arcs(data):
    """{function: (place and number of its counters, whether any is above 0: else gcc writes none)};
    ValueError where a process was killed while it wrote."""
    at, found, function = 16, {}, None # after magic, version, stamp and checksum
    while at + 8 <= len(data):
        tag, size = struct.unpack_from('<Ii', data, at)
        at += 8
        if tag == FUNCTION and size in (0, 12):
            function = data[at:at + size]
        elif tag == ARCS and function and function not in found:
            found[function] = at, abs(size) // 8, size > 0
        elif tag != SUMMARY:
            raise ValueError
        at += max(size, 0)
    if at + 4 != len(data):
        raise ValueError
    return found


class Counts:
    """The sum of the counts of a file of src/ over suites. Counts of functions that have changed
    since then are not in the compiler's notes, and are left out."""

    def __init__(self, notes):
        self.of = {}
        with open(notes, 'rb') as f:
            self.notes = f.read()

    def add(self, data):
        for function, (at, n, any_ran) in arcs(data).items():
            if function not in self.notes:
                continue
            more = struct.unpack_from('<%dQ' % n, data, at) if any_ran else (0,) * n
            old = self.of.get(function, (0,) * n)
            self.of[function] = [min(a + b, 1 << 62) for a, b in zip(old, more)]
        self.head = data[:8] + self.notes[8:16] # the stamp of the newest build

    def data(self):
        records = [self.head]
        for function, values in self.of.items():
            records.append(struct.pack('<Ii', FUNCTION, len(function)) + function)
            records.append(struct.pack('<Ii', ARCS, 8 * len(values)))
            records.append(struct.pack('<%dQ' % len(values), *values))
        return b''.join(records) + bytes(4)


def add_up(build):
    """Writes the sums of all suites to BUILD/merged, beside the compiler's notes."""
    merged = os.path.join(build, 'merged')
    shutil.rmtree(merged, ignore_errors=True)
    sums = {}
    suites = os.path.join(build, 'suites')
    left_out = collections.Counter()
    for path in glob.glob(suites + '/*/CMakeFiles/**/src/**/*.gcda', recursive=True):
        suite, name = os.path.relpath(path, suites).split('/', 1)
        try:
            if name not in sums:
                sums[name] = Counts(os.path.join(build, name[:-4] + 'gcno'))
            with open(path, 'rb') as f:
                sums[name].add(f.read())
        except ValueError:
            left_out[suite] += 1
        except FileNotFoundError: # the file is no more
            pass
    for suite, n in sorted(left_out.items()):
        print('left out: what %s ran in %d files, whose counts are damaged' % (suite, n),
              file=sys.stderr)
    for name, counts in sums.items():
        to = os.path.join(merged, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with open(to, 'wb') as f:
            f.write(counts.data())
        notes = name[:-4] + 'gcno'
        os.symlink(os.path.join(build, notes), os.path.join(merged, notes))
    return merged


def read(counts):
    out = subprocess.run(['gcov', '-b', '--json-format', '--stdout', counts], capture_output=True)
    return json.loads(out.stdout)['files'] if out.stdout else []


def lines_of(merged):
    """File of src/: {line: (times it ran, [times each branch was taken])}."""
    paths = glob.glob(merged + '/**/*.gcda', recursive=True)
    found = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() * 3) as pool:
        for f in (f for files in pool.map(read, paths) for f in files):
            name = f['file'][f['file'].find('src/'):]
            if not name.startswith('src/') or name.startswith(OF_SETS):
                continue
            for n in f['lines']: # a function of a header has counts in several objects
                ran, taken = found[name].get(n['line_number'], (0, [0] * len(n['branches'])))
                more = [b['count'] for b in n['branches']]
                found[name][n['line_number']] = ran + n['count'], add(taken, more)
    return found


def add(a, b):
    n = max(len(a), len(b))
    return [x + y for x, y in zip(a + [0] * (n - len(a)), b + [0] * (n - len(b)))]


def counted(lines):
    """Lines, those that ran, branches, those that were taken."""
    taken = [b for _, branches in lines.values() for b in branches]
    ran = [n for n, _ in lines.values()]
    return len(ran), sum(n > 0 for n in ran), len(taken), sum(n > 0 for n in taken)


def print_folders(found):
    table = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name, lines in found.items():
        for row in (name.split('/')[1], 'all'):
            table[row] = add(table[row], list(counted(lines)))
    print('| folder | lines | run, % | branches | taken, % |\n|---|---|---|---|---|')
    for row in sorted(table, key=lambda r: (r == 'all', r)):
        a, b, c, d = table[row]
        print('| %s | %d | %.1f | %d | %.1f |' % (row, a, 100 * b / a, c, 100 * d / max(1, c)))


def print_files(found):
    rows = [(c - d, c, name) for name, (_, _, c, d) in ((n, counted(found[n])) for n in found)]
    for missed, branches, name in sorted(rows, key=lambda r: (-r[0], r[2])):
        print('%5d of %5d  %s' % (missed, branches, name))


def print_missed(lines, source):
    text = open(source).read().split('\n')
    for n, (ran, taken) in sorted(lines.items()):
        if ran == 0 or 0 in taken:
            signs = ''.join('.' if b else '-' for b in taken) if ran else 'does not run'
            print('%5d  %-12s  %s' % (n, signs, text[n - 1].strip()))


def main():
    found = lines_of(add_up(os.path.abspath(sys.argv[1])))
    if not found:
        sys.exit('nothing was counted yet: scripts/coverage runs the suites')
    if len(sys.argv) == 2:
        print_folders(found)
    elif sys.argv[2] == '--files':
        print_files(found)
    else:
        source = 'src/' + sys.argv[2]
        if source not in found:
            sys.exit('%s: nothing was counted of it; a file of src/, as gguf_read.c' % source)
        print_missed(found[source], source)


main()
