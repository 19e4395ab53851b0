"""Inspect AI's and lm-evaluation-harness's numbers beside exact mode's: a table of results/language-models/README.md.

    python -m studies.tools.other_ways results/language-models/records/MODEL/code LOG.eval SAMPLES.jsonl

LOG.eval is a log of `inspect eval hopscope/...`, SAMPLES.jsonl what `lm_eval --log_samples` wrote, both of questions
that the folder's records have in exact mode.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from inspect_ai.log import read_eval_log
from scipy.stats import t as student

import hopscope as hs
from hopscope.benchmark.answers import Record
from hopscope.benchmark.results import Results
from hopscope.records import convert
from studies.tools.command import status
from studies.tools.records import markdown_table

SAMPLED = ("Inspect AI: replies", "acceptable", "exact mode", "right of these", "exact mode")
WEIGHED = ("harness: accuracy", "exact mode's share", "difference", "likeliest: harness, exact")


def sampled(pairs: Sequence[tuple[Record, Record]]) -> list[str]:
    """Counts of sampled replies, and what exact mode expects of as many, with one standard deviation."""
    accepted = [(reply, exact) for reply, exact in pairs if reply.accepted is not None]
    counts = sum(reply.attempts for reply, _ in pairs), len(accepted), sum(reply.correct for reply, _ in accepted)
    acceptable = _expected((reply.attempts, exact.p_acceptable) for reply, exact in pairs)
    return [*map(str, counts[:2]), acceptable, str(counts[2]), _expected((1, exact.share) for _, exact in accepted)]


def _expected(trials: Iterable[tuple[int, float]]) -> str:
    each = [(number * chance, number * chance * (1 - chance)) for number, chance in trials]
    return f"{sum(mean for mean, _ in each):.1f} ± {sqrt(sum(variance for _, variance in each)):.1f}"


def weighed(pairs: Sequence[tuple[Mapping[str, Any], Record]]) -> list[str]:
    """The harness's mean accuracy, exact mode's, their mean difference with its 95% interval, and both argmax."""
    off = [found["accuracy"] - exact.share for found, exact in pairs]
    noise = student.ppf(0.975, len(off) - 1) * stdev(off) / sqrt(len(off)) if len(off) > 1 else float("nan")
    means = [fmean(found["accuracy"] for found, _ in pairs), fmean(exact.share for _, exact in pairs)]
    likeliest = [fmean(found["likeliest"] for found, _ in pairs), fmean(exact.likeliest for _, exact in pairs)]
    return [*(f"{m:.3f}" for m in means), f"{fmean(off):+.3f} ± {noise:.3f}", "{:.2f}, {:.2f}".format(*likeliest)]


def table(folder: Path, log: Path, samples: Path) -> str:
    """A row for each D that was asked in either way; an `InputError` if exact mode was not asked as well."""
    results = Results(folder)
    exact = {key: record for model in results.header.models for key, record in results.records(model).items()}
    done = [sample.metadata for sample in read_eval_log(str(log)).samples or () if "hopscope" in sample.metadata]
    replies = [convert(metadata["hopscope"], Record, str(log)) for metadata in done]
    scores = {score["doc"]["id"]: score for score in map(json.loads, samples.read_text().splitlines())}
    if missing := {*scores, *(reply.id for reply in replies)} - exact.keys():
        raise hs.InputError(f"{folder} lacks {len(missing)} of the questions, such as {min(missing)}; ask them first")
    rows = []
    for hops in sorted({exact[key].hops for key in (*scores, *(reply.id for reply in replies))}):
        asked = [(reply, exact[reply.id]) for reply in replies if reply.hops == hops]
        read = [(score, exact[key]) for key, score in scores.items() if exact[key].hops == hops]
        first = sampled(asked) if asked else ["not asked", "", "", "", ""]
        rows.append([folder.parent.name, hops, *first, *(weighed(read) if read else ["not asked", "", "", ""])])
    return markdown_table(("model", "D", *SAMPLED, *WEIGHED), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m studies.tools.other_ways", description=__doc__.splitlines()[0])
    for name in ("records", "log", "samples"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    sys.exit(status(lambda: print(table(given.records, given.log, given.samples), end="")))
