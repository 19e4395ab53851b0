"""How far do pretrained language models retrieve, untuned, and does the form of asking matter? (Section 4, Figure 2)

Three models of 0.1 to 1.5 billion weights of 4 bits (`python -m examples.models smollm2 gemma3 qwen` fetches them) are
asked the paper's five formulations in three forms: by the paper's instruction, as a line to complete, and as code. All
by exact probabilities; some replies are also sampled, which shows that both agree and what wrong replies are.

    python -m studies.language_models ask models runs/language-models
    python -m studies.language_models condense models runs/language-models results/language-models

Asking takes hours. It goes one point at a time, first a hundred questions of each, then five hundred, and goes on where
it was stopped; condensing reads what there is.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hopscope as hs
from hopscope.plot import INK, PAGE, hop_look, house, new_figure, save
from studies.tools.records import markdown_table, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = {"SmolLM2-135M-Instruct": 0.135, "gemma-3-270m": 0.27, "Qwen2.5-Coder-1.5B-Instruct": 1.54}
"""The models, with their billions of weights."""
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
"""What a reply to a question of equations can be."""


@dataclass(frozen=True)
class Asking:
    """A model asked in one form: equations at some D, or the other formulations; `sampled`: one reply each."""

    model: str
    form: str
    count: int
    hops: tuple[int, ...] = ()
    sampled: bool = False

    @property
    def folder(self) -> Path:
        """Where its records are, below the folder of all."""
        return Path(self.model) / (f"{self.form}-sampled" if self.sampled else self.form)

    @property
    def precision(self) -> str:
        """In which it is computed: in bf16, as its weights are stored, what would be slowest; else in fp32."""
        return "bf16" if (self.model, self.form) == (LARGE, "instruction") else "fp32"


def plan() -> Iterator[Asking]:
    """What is asked, in this order."""
    six = tuple(range(1, 7))
    for form in ("code", "completion", "instruction"):
        for model in SIZES:
            yield Asking(model, form, 100, six if model != LARGE else six[:4])
        if form == "code":
            yield from (Asking(model, form, 100, six[:4], sampled=True) for model in SIZES)
    for model in SIZES:
        yield from (Asking(model, form, 100) for form in FORMS)
    for count in (100, 500):
        for form in ("code", "instruction", "completion"):
            for model in SIZES:
                yield from (Asking(model, form, count, six), Asking(model, form, count))


def ask(models: Path, runs: Path) -> None:
    """Ask everything of the plan that has not been asked, and note the processor's seconds."""
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
    """Write summary.json, the tables and the figures from what was asked."""
    points: list[dict[str, Any]] = []
    replies: dict[str, dict[str, dict[str, float]]] = {}
    for model in SIZES:
        source = models / model / "source.json"
        origin = json.loads(source.read_text()) if source.is_file() else {}
        for form in (*FORMS, "code-sampled"):
            folder = runs / model / form
            if not (folder / "summary.json").is_file():
                continue
            header = json.loads((folder / "benchmark.json").read_text())
            [identity] = header["models"].values()
            paid = folder / "seconds.jsonl"
            rows = [json.loads(line) for line in paid.read_text().splitlines()] if paid.is_file() else []
            questions = sum(row["questions"] for row in rows)
            seconds = round(sum(row["cpu_seconds"] for row in rows) / questions, 3) if questions else None
            for point in json.loads((folder / "summary.json").read_text())["points"]:
                points.append(
                    {
                        "model": model,
                        "form": form.removesuffix("-sampled"),
                        **{name: point[name] for name in ("formulation", "hops", "mode")},
                        "n": point["asked"],
                        **{name: point[name] for name in ("accuracy", "low", "high", "share", "argmax", "unweighed")},
                        "p_acceptable": point["first_acceptance"],
                        "p_correct": point["first_accuracy"],
                        **{name: point[name] for name in ("guess", "shortcut", "p_shortcut")},
                        "cpu_seconds": seconds,
                        "precision": identity["precision"],
                        "file": origin.get("file"),
                        "sha256": origin.get("sha256"),
                        "quantisation": origin.get("quantisation"),
                    }
                )
            if form == "code-sampled":
                replies[model] = what_replies_are(folder)
    if not points:
        raise hs.InputError(f"nothing was asked yet in {runs}; run ask first")
    out.mkdir(parents=True, exist_ok=True)
    whole = {"points": points, "replies": replies}
    write(out / "summary.json", whole)
    (out / "tables.md").write_text(tables(points, replies))
    save(figure_2(points), out / "figure-2")
    save(by_size(points), out / "by-size")


def what_replies_are(folder: Path) -> dict[str, dict[str, float]]:
    """By D, the share of sampled first replies that are each of `REPLIES`."""
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


def tables(points: Sequence[dict[str, Any]], replies: dict[str, dict[str, dict[str, float]]]) -> str:
    """The points, and what replies are, as Markdown."""
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
    if shares:
        kinds = markdown_table(("model", "D", *REPLIES), shares)
        text += f"\nWhat sampled replies to equations as code are:\n\n{kinds}"
    return text


def figure_2(points: Sequence[dict[str, Any]]) -> Figure:
    """As the paper's Figure 2, a row of panels for each form: bars with 95% intervals, dashed floors of guessing."""
    from matplotlib.patches import Patch

    exact = [point for point in points if point["mode"] == "exact"]
    forms = [form for form in FORMS if any(point["form"] == form for point in exact)]
    with house():
        figure = new_figure(PAGE, 0.5 + 1.7 * len(forms))
        for row, form in zip(figure.subplots(len(forms), 2, squeeze=False), forms, strict=True):
            those = [point for point in exact if point["form"] == form]
            _bars(row[0], [p for p in those if p["formulation"] == "equations"], "hops", range(1, 7))
            _bars(row[1], [p for p in those if p["formulation"] != "equations"], "formulation", OTHERS)
            row[0].set_ylabel(f"accuracy, by {form}" if form == "instruction" else f"accuracy, as {form}")
            row[0].set_xlabel("equations, D")
        handles = [Patch(color=hop_look(2 * number + 1).color, label=model) for number, model in enumerate(SIZES)]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _bars(axes: Axes, points: Sequence[dict[str, Any]], by: str, groups: Sequence[Any]) -> None:
    width = 0.8 / len(SIZES)
    for number, model in enumerate(SIZES):
        look = hop_look(2 * number + 1)
        those = [point for point in points if point["model"] == model and point["accuracy"] is not None]
        at = [groups.index(point[by]) + (number - 1) * width for point in those]
        heights = [point["accuracy"] for point in those]
        ends = [[p["accuracy"] - p["low"] for p in those], [p["high"] - p["accuracy"] for p in those]]
        axes.bar(at, heights, width, yerr=ends, color=look.color, error_kw={"elinewidth": 0.8})
    for point in points:
        place = groups.index(point[by])
        axes.hlines(point["guess"], place - 0.45, place + 0.45, color=INK, linestyle="--", linewidth=0.9)
        if point["shortcut"] > point["guess"]:
            axes.hlines(point["shortcut"], place - 0.45, place + 0.45, color=INK, linestyle=":", linewidth=1.1)
    if not points:
        axes.text(0.5, 0.5, "not asked yet", transform=axes.transAxes, ha="center")
    axes.set_ylim(0, 1.04)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_xticks(range(len(groups)), list(map(str, groups)))


def by_size(points: Sequence[dict[str, Any]]) -> Figure:
    """How often the right answer of equations is the likeliest, against the size of the model, for each D and form."""
    exact = [point for point in points if point["mode"] == "exact" and point["formulation"] == "equations"]
    forms = [form for form in FORMS if any(point["form"] == form for point in exact)]
    with house():
        figure = new_figure(PAGE, 2.4)
        for axes, form in zip(figure.subplots(1, len(forms), sharey=True, squeeze=False)[0], forms, strict=True):
            for hops in range(1, 7):
                those = [point for point in exact if (point["form"], point["hops"]) == (form, hops)]
                sizes, look = [SIZES[point["model"]] for point in those], hop_look(hops)
                values = [point["argmax"] for point in those]
                axes.plot(sizes, values, color=look.color, marker=look.marker, label=f"D = {hops}")
            axes.axhline(0.25, color=INK, linestyle="--", linewidth=0.9)
            axes.set_xscale("log")
            axes.set_xticks(list(SIZES.values()), [f"{size:g}" for size in SIZES.values()])
            axes.minorticks_off()
            axes.set_xlim(0.11, 1.9)
            axes.set_ylim(0, 1.04)
            axes.set_title(form)
            axes.set_xlabel("billions of weights")
        figure.axes[0].set_ylabel("right answer likeliest")
        figure.axes[-1].legend(loc="upper left", fontsize=6.5)
    return figure


def main() -> int:
    """Ask or condense; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.language_models", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("ask", "condense"))
    parser.add_argument("models", type=Path, help="the folder of the model folders")
    parser.add_argument("runs", type=Path, help="the folder of the records")
    parser.add_argument("results", type=Path, nargs="?", default=Path("results/language-models"))
    given = parser.parse_args()
    try:
        if given.what == "ask":
            ask(given.models, given.runs)
        else:
            condense(given.models, given.runs, given.results)
    except hs.InputError as error:
        print(f"studies: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
