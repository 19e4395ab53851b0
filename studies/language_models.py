"""How many hops do pretrained language models answer, and does the form of asking matter? (Section 4, Figure 2)

Three models of 0.1 to 1.5 billion 4-bit weights are asked the paper's five formulations in three forms: with the
paper's instruction, as a line to complete, and as code. They are not fine-tuned, and
`python -m examples.models smollm2 gemma3 qwen` downloads them. All questions are asked by exact probabilities. Some
replies are also sampled, which shows that both ways agree and what wrong replies are.

    python -m studies.language_models ask models runs/language-models
    python -m studies.language_models condense models runs/language-models results/language-models

`ask` takes hours. It asks a hundred questions per point, and then five hundred, and continues where it was stopped.
`condense` reads the records that exist so far.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hopscope as hs
from hopscope.plot import save
from studies.tools.command import status
from studies.tools.records import markdown_table, write

SIZES = {"SmolLM2-135M-Instruct": 0.135, "gemma-3-270m": 0.27, "Qwen2.5-Coder-1.5B-Instruct": 1.54}
"""The number of weights of each model, in billions."""
SMALL, MIDDLE, LARGE = SIZES
FORMS = ("instruction", "completion", "code")
OTHERS = ("lives-with", "kingdoms", "functions", "relatives")
SECONDS_BETWEEN_LINES = 30
REPLIES = (
    "right",
    "value of another chain",
    "letter of its own chain",
    "another letter",
    "another number",
    "anything else",
)
"""The kinds of reply to a question of equations."""


@dataclass(frozen=True)
class Asking:
    """The questions that one model is asked in one form.

    Attributes:
        count: the number of questions per formulation and D.
        hops: the values of D for equations; empty to ask the other formulations.
        sampled: whether one reply per question is sampled, instead of exact probabilities.
    """

    model: str
    form: str
    count: int
    hops: tuple[int, ...] = ()
    sampled: bool = False

    @property
    def folder(self) -> Path:
        """The folder of its records, below the folder of all records."""
        return Path(self.model) / f"{self.form}{'-sampled' * self.sampled}{'-bf16' * (self.precision == 'bf16')}"

    @property
    def precision(self) -> str:
        """The precision of the computation: bf16 for the largest model, as its weights are stored, except for one to
        four hops as code; fp32 for everything else."""
        return "bf16" if self.model == LARGE and (self.form, self.hops) != ("code", SOME_HOPS) else "fp32"


BY_LINE = {SMALL: "code", MIDDLE: "code", LARGE: "code-bf16"}
"""For each model, the folder of the records from which the accuracy by line is computed (equations as code)."""

SOME_HOPS, ALL_HOPS = (1, 2, 3, 4), (1, 2, 3, 4, 5, 6)


def plan() -> Iterator[Asking]:
    """Yield everything that is asked, in order."""
    yield from (Asking(model, "code", 100, SOME_HOPS, sampled) for model in SIZES for sampled in (False, True))
    for count in (100, 500):
        for form in ("code", "instruction", "completion"):
            for model in SIZES:
                beyond = (model, form, count) == (LARGE, "code", 100)
                yield Asking(model, form, count, ALL_HOPS[4:] if beyond else ALL_HOPS)
                yield Asking(model, form, count)


def ask(models: Path, runs: Path) -> None:
    """Ask everything in the plan that has not been asked yet, and record the CPU seconds."""
    for asking in plan():
        folder = runs / asking.folder
        if _complete(folder, asking):
            continue
        extensions = hs.Extensions(form=asking.form)  # type: ignore[arg-type]  # one of FORMS
        settings = hs.BenchmarkSettings(mode="exact", extensions=extensions)
        if asking.sampled:
            settings = hs.BenchmarkSettings(attempts=1, extensions=extensions)
        formulations, hops = (["equations"], asking.hops) if asking.hops else (list(OTHERS), None)
        reported, done = 0.0, 0

        def progress(record: Any, asking: Asking = asking) -> None:
            nonlocal reported, done
            done += 1
            if time.monotonic() - reported > SECONDS_BETWEEN_LINES:
                reported = time.monotonic()
                print(f"{asking.folder}: {done} questions, now {record.formulation}, D = {record.hops}", flush=True)

        before, began = len(_records(folder)), time.process_time()
        model, precision = [str(models / asking.model)], asking.precision
        hs.benchmark(model, folder, formulations, hops, asking.count, settings, progress, precision=precision)
        if new := len(_records(folder)) - before:
            with (folder / "seconds.jsonl").open("a") as file:
                row = {"questions": new, "cpu_seconds": round(time.process_time() - began, 1)}
                file.write(json.dumps(row) + "\n")


def _complete(folder: Path, asking: Asking) -> bool:
    if not (folder / "summary.json").is_file():
        return False
    points = json.loads((folder / "summary.json").read_text())["points"]
    asked = {(point["formulation"], point["hops"]) for point in points if point["asked"] >= asking.count}
    if asking.hops:
        return {("equations", hops) for hops in asking.hops} <= asked
    return set(OTHERS) <= {formulation for formulation, _ in asked}


def _records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.glob("records/*.jsonl") for line in path.read_text().splitlines()]


def condense(models: Path, runs: Path, out: Path) -> None:
    """Write summary.json, the tables and the figures from the records in `runs`."""
    from studies.figures.language_models import by_size, figure_2

    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    lines: list[dict[str, Any]] = []
    replies: dict[str, dict[str, dict[str, float]]] = {}
    agreement: list[Agreement] = []
    for model in SIZES:
        for path in sorted((runs / model).glob("*/summary.json")):
            for point in _points(path.parent, model, models / model / "source.json"):
                key = tuple(point[name] for name in ("model", "form", "formulation", "hops", "mode"))
                if key not in found or found[key]["n"] <= point["n"]:
                    found[key] = point
            if path.parent.name == BY_LINE[model]:
                lines += _lines(path, model)
            if path.parent.name == "code-sampled":
                replies[model] = what_replies_are(path.parent)
                agreement += compare(model, path.parent.with_name("code"), path.parent)
    if not found:
        raise hs.InputError(f"{runs} holds no records; run ask first")
    points = sorted(
        found.values(),
        key=lambda point: (
            *(list(SIZES).index(point["model"]), FORMS.index(point["form"])),
            *(point[name] for name in ("mode", "formulation", "hops")),
        ),
    )
    out.mkdir(parents=True, exist_ok=True)
    write(out / "summary.json", {"points": points, "lines": lines, "replies": replies, "agreement": agreement})
    (out / "tables.md").write_text(tables(points, replies, agreement, lines))
    save(figure_2(points), out / "figure-2")
    save(by_size(points), out / "by-size")


def _points(folder: Path, model: str, source: Path) -> Iterator[dict[str, Any]]:
    """Yield the points in a folder of records, with their cost in CPU seconds and the source of the model."""
    [identity] = json.loads((folder / "benchmark.json").read_text())["models"].values()
    paid = folder / "seconds.jsonl"
    rows = [json.loads(line) for line in paid.read_text().splitlines()] if paid.is_file() else []
    questions = sum(row["questions"] for row in rows)
    origin = json.loads(source.read_text()) if source.is_file() else {}
    for point in json.loads((folder / "summary.json").read_text())["points"]:
        yield {
            "model": model,
            "form": folder.name.split("-")[0],
            **{name: point[name] for name in ("formulation", "hops", "mode")},
            "n": point["asked"],
            **{name: point[name] for name in ("accuracy", "low", "high", "share", "argmax", "unweighed")},
            "p_acceptable": point["first_acceptance"],
            "p_correct": point["first_accuracy"],
            **{name: point[name] for name in ("guess", "shortcut", "p_shortcut")},
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows) / questions, 3) if questions else None,
            "precision": identity["precision"],
            **{name: origin.get(name) for name in ("file", "sha256", "quantisation")},
        }


def _lines(path: Path, model: str) -> Iterator[dict[str, Any]]:
    """Yield the accuracy on equations by the place of each hop's line in its block. The last hop gives the value."""
    for row in json.loads(path.read_text())["lines"]:
        if row["formulation"] == "equations" and row["hops"] in SOME_HOPS:
            numbers = {name: row[name] for name in ("hops", "step", "accuracy", "low", "high")}
            yield {"model": model, "place": (row["line"] - 1) % 4 + 1, "n": round(row["accepted"]), **numbers}


@dataclass(frozen=True)
class Agreement:
    """Sampled replies to equations as code at one D, compared with the exact probabilities of the same questions.

    Attributes:
        n: the number of sampled replies.
        accepted, right: how many replies were acceptable, and how many of the acceptable replies were right.
        expected_accepted, expected_right: the counts that the exact probabilities predict.
        accepted_noise, right_noise: 1.96 standard deviations of the predicted counts.
    """

    model: str
    hops: int
    n: int
    accepted: int
    expected_accepted: float
    accepted_noise: float
    right: int
    expected_right: float
    right_noise: float


def compare(model: str, exact: Path, sampled: Path) -> list[Agreement]:
    """Compare the sampled replies with the exact probabilities of the same questions, for each D."""
    weights = {record["id"]: record["weights"] for record in _records(exact)}
    both = [(record, weights[record["id"]]) for record in _records(sampled) if record["id"] in weights]
    found: list[Agreement] = []
    for hops in sorted({record["hops"] for record, _ in both}):
        those = [(reply, weight) for reply, weight in both if reply["hops"] == hops]
        taken = [(reply, weight) for reply, weight in those if reply["accepted"] is not None]
        accepted = _counted(sum(weight.values()) for _, weight in those)
        right = _counted(weight[reply["answer"]] / sum(weight.values()) for reply, weight in taken)
        correct = sum(reply["correct"] for reply, _ in taken)
        found.append(Agreement(model, hops, len(those), len(taken), *accepted, correct, *right))
    return found


def _counted(chances: Iterable[float]) -> tuple[float, float]:
    """Return the expected number of independent events with these probabilities, and 1.96 standard deviations."""
    each = [min(chance, 1.0) for chance in chances]
    return sum(each), 1.96 * sum(chance * (1 - chance) for chance in each) ** 0.5


def what_replies_are(folder: Path) -> dict[str, dict[str, float]]:
    """Return the share of each kind of `REPLIES` among the first sampled replies, by D."""
    by_hops: dict[int, list[dict[str, Any]]] = {}
    for record in _records(folder):
        by_hops.setdefault(record["hops"], []).append(record)
    found: dict[str, dict[str, float]] = {}
    for hops, records in sorted(by_hops.items()):
        count = 1 + max(record["index"] for record in records)
        questions = hs.questions("equations", hops, count, extensions=hs.Extensions(form="code"))
        replies = ((record["response"] or record["rejected"][0]).strip() for record in records)
        kinds = Counter(_kind(reply, questions[r["index"]]) for reply, r in zip(replies, records, strict=True))
        found[str(hops)] = {kind: kinds[kind] / kinds.total() for kind in REPLIES}
    return found


def _kind(reply: str, question: Any) -> str:
    words, path = question.latent.words, question.latent.path(question.latent.asked)
    own = {words[len(words) - 1 - step][symbol] for step, symbol in enumerate(path)}
    if reply == question.answer:
        return "right"
    if reply in question.acceptable:
        return "value of another chain"
    if reply in own:
        return "letter of its own chain"
    if any(reply in level for level in words):
        return "another letter"
    return "another number" if reply.lstrip("-").isdigit() else "anything else"


def tables(
    points: Sequence[dict[str, Any]],
    replies: dict[str, dict[str, dict[str, float]]],
    agreement: Sequence[Agreement] = (),
    lines: Sequence[dict[str, Any]] = (),
) -> str:
    """Return Markdown tables of points, accuracy by line, kinds of replies, and samples against exact mode."""
    names = ("accuracy", "low", "high", "share", "argmax", "p_acceptable", "unweighed", "guess", "shortcut")
    head = ("model", "form", "formulation", "hops", "n", "mode")
    numbers = [["-" if point[name] is None else f"{point[name]:.3f}" for name in names] for point in points]
    rows = [[*(point[name] for name in head), *row] for point, row in zip(points, numbers, strict=True)]
    shares = [
        [model, hops, *(f"{those[kind]:.2f}" for kind in REPLIES)]
        for model, by_hops in replies.items()
        for hops, those in by_hops.items()
    ]
    text = markdown_table((*head, *names), rows)
    if lines:
        text += f"\nEquations as code, by the place of a hop's line in its block of four:\n\n{_line_table(lines)}"
    if shares:
        kinds = markdown_table(("model", "D", *REPLIES), shares)
        text += f"\nWhat sampled replies to equations as code are:\n\n{kinds}"
    if agreement:
        text += f"\nSampled replies beside exact mode, the same questions:\n\n{_agreement_table(agreement)}"
    return text


def _line_table(lines: Sequence[dict[str, Any]]) -> str:
    cells = {(row["model"], row["hops"], row["step"], row["place"]): row for row in lines}
    rows = []
    for model, hops, step in sorted({key[:3] for key in cells}, key=lambda key: (list(SIZES).index(key[0]), key[1:])):
        places = [cells.get((model, hops, step, place)) for place in (1, 2, 3, 4)]
        shown = [f"{p['accuracy']:.2f} ({p['low']:.2f} to {p['high']:.2f})" if p else "-" for p in places]
        rows.append((model, hops, f"{step}{' (value)' * (step == hops)}", sum(p["n"] for p in places if p), *shown))
    return markdown_table(("model", "D", "hop", "n", "first line", "second", "third", "fourth"), rows)


def _agreement_table(agreement: Sequence[Agreement]) -> str:
    head = (
        "model",
        "D",
        "replies",
        "acceptable",
        "exact mode expects",
        "right",
        "expects",
        "accuracy less exact",
        "inside",
    )
    rows = []
    for a in agreement:
        difference, noise = ((x / max(a.accepted, 1)) for x in (a.right - a.expected_right, a.right_noise))
        off = (
            abs(a.accepted - a.expected_accepted) <= a.accepted_noise,
            abs(a.right - a.expected_right) <= a.right_noise,
        )
        expected = f"{a.expected_accepted:.1f} ± {a.accepted_noise:.1f}"
        right = f"{a.expected_right:.1f} ± {a.right_noise:.1f}"
        words = "both" if all(off) else "accuracy" if off[1] else "acceptance" if off[0] else "neither"
        rows.append(
            (a.model, a.hops, a.n, a.accepted, expected, a.right, right, f"{difference:+.2f} ± {noise:.2f}", words)
        )
    return markdown_table(head, rows)


def main() -> int:
    """Run `ask` or `condense`, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.language_models", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("ask", "condense"))
    parser.add_argument("models", type=Path, help="the folder that holds the model folders")
    parser.add_argument("runs", type=Path, help="the folder of the records")
    parser.add_argument("results", type=Path, nargs="?", default=Path("results/language-models"))
    given = parser.parse_args()
    if given.what == "ask":
        return status(lambda: ask(given.models, given.runs))
    return status(lambda: condense(given.models, given.runs, given.results))


if __name__ == "__main__":
    sys.exit(main())
