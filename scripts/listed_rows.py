"""Results of a script that a list beside it has: no row may become worse, and none be left out.

A line of the list is "RESULT | ROW". Results, from the worst: wrong; refused, and not made (by a
converter); near; equal. LISTED_UPDATE=1 writes rows that are new or better, and takes none away."""
import os

RANK = {"wrong": 0, "refused": 1, "not made": 1, "near": 2, "equal": 3}


def complaints(script, results, whole):
    """What is worse than in the list of a script, whose results {row: result} are of all its rows
    if it is `whole`: rows that are worse, were not tried, fail though nobody expected it, or that
    the list lacks."""
    path = os.path.splitext(os.path.abspath(script))[0] + ".txt"
    listed = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            listed = {row: what for what, row in
                      (line.rstrip("\n").split(" | ", 1) for line in file)}
    if "LISTED_UPDATE" in os.environ:
        for row, what in results.items():
            if RANK[what] > RANK[listed.get(row, "wrong")]:
                listed[row] = what
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{what} | {row}\n" for row, what in sorted(listed.items()))
    found = []
    for row, what in results.items():
        if row not in listed and RANK[what] < RANK["near"]:
            found.append(f"{row}: {what}, which is not expected")
        elif RANK[what] < RANK[listed.get(row, "wrong")]:
            found.append(f"{row}: {what}, but it was {listed[row]}")
    if whole:
        found += [f"{row}: it was not tried" for row in listed if row not in results]
        found += [f"{row}: {what}, but the list lacks it; LISTED_UPDATE=1 adds it"
                  for row, what in results.items()
                  if row not in listed and RANK[what] >= RANK["near"]]
    return [f"{one} ({os.path.basename(path)})" for one in found]
