"""Do the circuits of pretrained language models look like those of models that were trained on the problem?

The study trains and searches nothing: it compares stored circuits. With `--models`, it first measures the circuits of
pretrained models that `fresh.json` lacks, on new prompts (`studies.tools.fresh`). The circuits are those of pretrained
models (`results/pretrained/*/circuit.json`), of the paper's transformers A to D, and of our own text models
(`python -m studies text`). A path has one of four kinds, by the roles at its ends:

- `binds`: within one line, such as from a value to its name; in induction, from a word to the word before it.
- `joins`: from one line to another line.
- `fetches`: within the question, such as from the last token to the name asked for.
- `reads`: from the question to a line; in induction, from the second mention to the first.

The layer in which a circuit binds is the layer of the `binds` path whose ablation costs most. The layer in which it
reads is found in the same way. No hypothesis is judged, because there are too few pretrained models.

    python -m studies pretrained    # prints the tables, and writes tables.md and a figure to results/pretrained
    python -m studies pretrained results --models models
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import hopscope as hs
from hopscope.statistics import wilson
from studies.tools import records
from studies.tools.command import status
from studies.tools.fresh import Fresh, measure_all
from studies.tools.records import markdown_table

Kind = Literal["binds", "joins", "fetches", "reads"]
KINDS: tuple[Kind, ...] = ("binds", "joins", "fetches", "reads")

_QUESTION, _FIRST = {"x0?", "answer", "before2", "A2", "S2", "end"}, {"before", "A1", "B1", "IO", "S1", "S1+1"}
"""The roles of the question, and the roles of the first line in induction (the first mention) and IOI (both names)."""


@dataclass(frozen=True)
class KnownPath:
    """A path: its layer from 1, its kind, the loss without it, and what it feeds most (`K of reads`, `answer`)."""

    layer: int
    kind: Kind
    loss: float
    feeds: str  # empty if no use was measured


@dataclass(frozen=True)
class KnownCircuit:
    """A circuit to compare: its group, its verdict, the number of layers of its model, and its paths of known kind."""

    group: str
    verdict: str
    layers: int
    paths: tuple[KnownPath, ...]

    @classmethod
    def of(cls, circuit: hs.Circuit, group: str) -> KnownCircuit:
        """Return a circuit with the kinds of its paths. Paths between roles that fit no kind are left out."""
        paths = []
        for path in circuit.paths:
            layer, _, query, key = path.path.names(circuit.roles)
            most = max(path.feeds, key=lambda feed: feed.change, default=None)
            reader = most.reader.names(circuit.roles) if most and most.reader else None
            feeds = "" if most is None else f"{most.into[0].upper()} of {kind_of(*reader[2:])}" if reader else "answer"
            if kind := kind_of(query, key):
                paths.append(KnownPath(layer, kind, path.without.mean, feeds))
        return cls(group, circuit.verdict, circuit.layers, tuple(paths))

    def of_kind(self, kind: Kind) -> list[KnownPath]:
        """Return its paths of a kind, beginning with the path whose ablation costs most."""
        return sorted((path for path in self.paths if path.kind == kind), key=lambda path: -path.loss)

    def at(self, kind: Kind) -> int | None:
        """Return the layer, from 1, of the path of a kind whose ablation costs most; None if there is no such path."""
        return next((path.layer for path in self.of_kind(kind)), None)

    @property
    def between(self) -> int | None:
        """The number of layers from binding up to reading; None if the circuit lacks either."""
        binds, reads = self.at("binds"), self.at("reads")
        return None if binds is None or reads is None else reads - binds


def kind_of(query: str, key: str) -> Kind | None:
    """Return the kind of a path from its query role to its key role; None if the roles fit no kind."""
    reader, read = _line(query), _line(key)
    if reader is None or read is None:
        return None
    if not reader:
        return "reads" if read else "fetches"
    return "binds" if reader == read else "joins" if read else None


def _line(role: str) -> int | None:
    """Return the number of a role's line, from 1; 0 for a role of the question, None for other roles."""
    if role in _QUESTION | _FIRST:
        return int(role in _FIRST)
    found = re.fullmatch(r">?x(\d+)(?:([>=.]?)|-1)", role)
    return int(found[1]) + (found[2] in (">", "=")) if found else None


def compared(results: Path, pretrained: Sequence[tuple[str, hs.Circuit]]) -> list[KnownCircuit]:
    """Return the circuits to compare: of pretrained models, of transformers A to D, and of our own text models."""
    ours = {f"transformer {n.upper()}": results / "paper" / "transformers" / n / "circuit.json" for n in "abcd"}
    texts = map(hs.Circuit.load, sorted((results / "studies" / "text" / "circuits").glob("*.json")))
    found = [*pretrained, *((name, hs.Circuit.load(path)) for name, path in ours.items() if path.exists())]
    found += [(f"own text, D = {circuit.hops}", circuit) for circuit in texts]
    known = [KnownCircuit.of(circuit, group) for group, circuit in found if circuit.found]
    return sorted(known, key=lambda circuit: circuit.group * circuit.group.startswith("own"))  # own ones last


def card_table(circuits: Iterable[tuple[str, hs.Circuit]], measured: Mapping[str, Fresh]) -> str:
    """Return a Markdown table with a row for the card of each circuit; `measured` has the shares on new prompts."""
    rows = []
    for name, circuit in circuits:
        card, asked, proof, new = circuit.card, circuit.text, circuit.search.proof, measured.get(name)
        if card is None or asked is None or proof is None:
            continue  # not of a language model, or not measured
        shares = [asked.scores[which].accuracy for which in ("own", "full")]
        ends = [wilson(round(share * proof.sequences), proof.sequences) for share in shares]
        right, of_model = (f"{s:.2f} ({a:.2f} to {b:.2f})" for s, (a, b) in zip(shares, ends, strict=True))
        others, passed = card.baselines, [name for name, check in circuit.checks.items() if check.passed]
        equal = ("-" if v is None else f"{v:.2f}" for v in (others.attribution, others.random, others.untrained))
        eap, random, untrained = equal
        rows.append([
            asked.name, circuit.problem.named, len(circuit.paths),
            f"{len(circuit.used_heads)} of {circuit.layers * circuit.heads}",
            f"{card.size.not_off} of {card.size.rows}", str(new.alone) if new else "not measured",
            *((str(new.without_rows), str(new.without_heads)) if new else ("", "")),
            f"{right}; model {of_model}; n = {proof.sequences}",
            ", ".join(passed) or "none", ", ".join(circuit.failed) or "none",
            f"{card.curve.cpr:.3f}", f"{card.curve.cmd:.3f}",
            eap, f"{random} (best of {others.drawn})", untrained,
        ])  # fmt: skip
    head = ("model", "task", "paths", "heads", "rows", "share of the way, new prompts")
    more = ("the model without its rows", "without its heads", "right answers", "passed", "failed")
    return markdown_table((*head, *more, "CPR", "CMD", "EAP-IG, as large", "random, as large", "untrained heads"), rows)


def role_table(circuits: Sequence[KnownCircuit]) -> str:
    """Return a Markdown table with a row per group: where circuits bind and read, how often, and what paths feed."""
    rows = []
    for group in dict.fromkeys(circuit.group for circuit in circuits):
        those = [circuit for circuit in circuits if circuit.group == group]
        verdicts = Counter(circuit.verdict for circuit in those).items()
        uses = Counter(f"{path.kind} → {path.feeds}" for circuit in those for path in circuit.paths if path.feeds)
        known = sum(any(path.feeds for path in circuit.paths) for circuit in those)
        most = ", ".join(f"{use} {times}" for use, times in uses.most_common(4))
        rows.append([
            group, ", ".join(f"{count} {verdict}" for verdict, count in verdicts),
            _spread(circuit.layers for circuit in those),
            *(_spread(circuit.at(kind) for circuit in those) for kind in ("binds", "reads")),
            _spread(circuit.between for circuit in those),
            *(_spread(len(circuit.of_kind(kind)) for circuit in those) for kind in KINDS),
            f"{most} (n = {known})" if known else "not measured",
        ])  # fmt: skip
    head = ("circuits", "n", "layers", "binds in layer", "reads in layer", "layers between")
    return markdown_table((*head, *KINDS, "path → what it feeds most"), rows)


def _spread(values: Iterable[int | None]) -> str:
    """Return the median, with the lowest and highest value if they differ; `-` if there are no values."""
    known = sorted(value for value in values if value is not None)
    between = f" ({known[0]} to {known[-1]})" if len({*known}) > 1 else ""
    return f"{median(known):g}{between}" if known else "-"


def write(results: Path) -> None:
    """Write `pretrained/tables.md` and a figure below the folder of all results, and print the tables."""
    from studies.figures.pretrained import kinds

    folder = results / "pretrained"
    found = [(path.parent.name, hs.Circuit.load(path)) for path in sorted(folder.glob("*/circuit.json"))]
    if not found:
        raise hs.InputError(f"{folder} has no folder with a circuit.json; give the folder of all results")
    known, file = compared(results, found), folder / "fresh.json"
    measured = {each.circuit: each for each in (records.read(file, list[Fresh]) if file.exists() else ())}
    text = f"{card_table(found, measured)}\n{role_table(known)}"
    (folder / "tables.md").write_text(text)
    hs.plot.save(kinds(known), folder / "kinds")
    print(text)


def main(arguments: list[str]) -> int:
    """Compare the circuits in a folder of results, `results` by default, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies pretrained", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="the folder of all results")
    parser.add_argument("--models", type=Path, help="the folder of the models, to measure the circuits on new prompts")
    given = parser.parse_args(arguments)

    def run() -> None:
        if given.models is not None:
            measure_all(given.results, given.models)
        write(given.results)

    return status(run)
