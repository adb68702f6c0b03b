"""Prints lines and branches of src/ that ran, by folder: coverage-table.py FOLDER, whose counts of
gcov lie beside the compiler's notes; coverage-table.py FOLDER FILE: the lines of FILE that did not.
"""

import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys


def read(counts):
    out = subprocess.run(['gcov', '-b', '--json-format', '--stdout', counts], capture_output=True)
    return json.loads(out.stdout)['files'] if out.stdout else []


folder = sys.argv[1]
paths = glob.glob(folder + '/**/*.gcda', recursive=True)
lines, branches = collections.Counter(), collections.Counter()
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() * 3) as pool:
    for files in pool.map(read, paths):
        for f in files:
            name = f['file'][f['file'].find('src/'):]
            left_out = name.startswith(('src/kernels/x86', 'src/kernels/arm'))
            if not name.startswith('src/') or left_out:
                continue
            for n in f['lines']:
                at = name, n['line_number']
                lines[at] += n['count']
                for i, b in enumerate(n['branches']):
                    branches[at + (i,)] += b['count']
if len(sys.argv) > 2:
    print(*sorted(n for name, n in lines if name == sys.argv[2] and not lines[name, n]))
    sys.exit()
table = collections.defaultdict(lambda: [0, 0, 0, 0])
for k, counts in enumerate((lines, branches)):
    for at, count in counts.items():
        for row in (at[0].split('/')[1], 'all'):
            table[row][2 * k] += 1
            table[row][2 * k + 1] += count > 0
print('| folder | lines | run, % | branches | taken, % |\n|---|---|---|---|---|')
for row in sorted(table, key=lambda r: (r == 'all', r)):
    a, b, c, d = table[row]
    print('| %s | %d | %.1f | %d | %.1f |' % (row, a, 100 * b / a, c, 100 * d / max(1, c)))
