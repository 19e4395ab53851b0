"""Compare Inspect AI and lm-evaluation-harness with exact mode: a table of results/language-models/README.md.

    python -m studies.tools.other_ways results/language-models/records/MODEL/code LOG.eval SAMPLES.jsonl

LOG.eval is from `inspect eval hopscope/...`, and SAMPLES.jsonl is from `lm_eval --log_samples`. Their questions must
be in the records.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from inspect_ai.log import read_eval_log
from scipy.stats import t as student

import hopscope as hs
from studies.tools.command import status
from studies.tools.records import markdown_table

SAMPLED = ("Inspect AI: replies", "acceptable", "exact mode", "right of these", "exact mode")
WEIGHED = ("harness: accuracy", "exact mode's share", "difference", "likeliest: harness, exact")


def share(record: dict[str, Any]) -> float:
    """Return P(right) / P(acceptable) of a question in exact mode."""
    return float(record["weights"][record["answer"]] / sum(record["weights"].values()))


def sampled(replies: Sequence[dict[str, Any]], exact: Sequence[dict[str, Any]]) -> list[str]:
    """Return the counts of sampled replies, and the counts that exact mode expects, with one standard deviation."""
    attempts, right = [reply["attempts"] for reply in replies], sum(reply["correct"] for reply in replies)
    expected = _expected((n, min(sum(e["weights"].values()), 1)) for n, e in zip(attempts, exact, strict=True))
    accepted = [share(e) for reply, e in zip(replies, exact, strict=True) if reply["accepted"] is not None]
    return [str(sum(attempts)), str(len(accepted)), expected, str(right), _expected((1, chance) for chance in accepted)]


def _expected(trials: Iterable[tuple[int, float]]) -> str:
    each = [(number * chance, number * chance * (1 - chance)) for number, chance in trials]
    return f"{sum(mean for mean, _ in each):.1f} ± {sqrt(sum(variance for _, variance in each)):.1f}"


def weighed(scores: Sequence[dict[str, Any]], exact: Sequence[dict[str, Any]]) -> list[str]:
    """Return, for the harness and exact mode, the mean accuracies, their mean difference with its 95% interval, and how
    often the likeliest answer is right."""
    means = [fmean(score["accuracy"] for score in scores), fmean(map(share, exact))]
    off = [score["accuracy"] - share(e) for score, e in zip(scores, exact, strict=True)]
    noise = student.ppf(0.975, len(off) - 1) * stdev(off) / sqrt(len(off)) if len(off) > 1 else float("nan")
    right = fmean(max(e["weights"], key=e["weights"].__getitem__) == e["answer"] for e in exact)
    likeliest = f"{fmean(score['likeliest'] for score in scores):.2f}, {right:.2f}"
    return [*(f"{mean:.3f}" for mean in means), f"{fmean(off):+.3f} ± {noise:.3f}", likeliest]


def table(folder: Path, log: Path, samples: Path) -> str:
    """Return a table with a row for each D; raise an `InputError` if a file or an answer of exact mode is missing."""
    for path in (folder, log, samples):
        if not path.exists():
            raise hs.InputError(f"{path} does not exist; give a folder of records, an Inspect log and harness samples")
    lines = (line for path in folder.glob("records/*.jsonl") for line in path.read_text().splitlines())
    exact = {record["id"]: record for record in map(json.loads, lines)}
    metadata = [sample.metadata for sample in read_eval_log(str(log)).samples or ()]
    replies = {sample["hopscope"]["id"]: sample["hopscope"] for sample in metadata if "hopscope" in sample}
    scores = {score["doc"]["id"]: score for score in map(json.loads, samples.read_text().splitlines())}
    if missing := {*scores, *replies} - exact.keys():
        raise hs.InputError(f"{folder} lacks {len(missing)} of the questions, e.g. {min(missing)}; ask these first")
    rows: list[list[str]] = []
    for hops in sorted({exact[key]["hops"] for key in (*scores, *replies)}):
        rows.append([folder.parent.name, str(hops)])
        for found, numbers, columns in ((replies, sampled, SAMPLED), (scores, weighed, WEIGHED)):
            keys = [key for key in found if exact[key]["hops"] == hops]
            rows[-1] += numbers([found[k] for k in keys], [exact[k] for k in keys]) if keys else ["-"] * len(columns)
    return markdown_table(("model", "D", *SAMPLED, *WEIGHED), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m studies.tools.other_ways", description=__doc__.splitlines()[0])
    for name, text in (
        ("folder", "records of exact mode"),
        ("log", "log of `inspect eval hopscope/...`"),
        ("samples", "samples of `lm_eval --log_samples`, as JSONL"),
    ):
        parser.add_argument(name, type=Path, help=text)
    sys.exit(status(lambda: print(table(**vars(parser.parse_args())), end="")))
