"""Do the circuits of pretrained language models look like those of models that were trained on the problem?

Reads stored circuits, trains and searches nothing: those of pretrained models (`results/pretrained/*/circuit.json`), of
the paper's transformers A to D, and of our own models of text (`python -m studies text`). A path is one of four kinds,
by the roles at its ends:

- `binds`: within one line, as a value that attends to its name; in induction, a word to the one before it.
- `joins`: from one line to another.
- `fetches`: within the question, as the last token that attends to the name asked for.
- `reads`: from the question to a line; in induction, from the second mention to the first.

A circuit binds in the layer of the path of that kind without which it loses most, and so for reading. Nothing is
judged: of pretrained models there are too few.

    python -m studies pretrained    # prints the tables, and writes tables.md and a figure to results/pretrained
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import hopscope as hs
from hopscope.statistics import wilson
from studies.tools.command import status
from studies.tools.records import markdown_table

Kind = Literal["binds", "joins", "fetches", "reads"]
KINDS: tuple[Kind, ...] = ("binds", "joins", "fetches", "reads")

_QUESTION, _FIRST = {"x0?", "answer", "before2", "A2", "S2", "end"}, {"before", "A1", "B1", "IO", "S1", "S1+1"}
"""Roles of the question, and those of a first line in induction (the first mention) and IOI (both names)."""


@dataclass(frozen=True)
class KnownPath:
    """A path: layer from 1, kind, loss without it, what it feeds most (`K of reads`, `answer`; empty: no use seen)."""

    layer: int
    kind: Kind
    loss: float
    feeds: str


@dataclass(frozen=True)
class KnownCircuit:
    """A circuit as it is compared: its group, its verdict, its model's number of layers, and its paths with a kind."""

    group: str
    verdict: str
    layers: int
    paths: tuple[KnownPath, ...]

    @classmethod
    def of(cls, circuit: hs.Circuit, group: str) -> KnownCircuit:
        """The paths of a circuit by their kinds; those of other roles, as of text that has none, are left out."""
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
        """Its paths of a kind, the one that is missed most first."""
        return sorted((path for path in self.paths if path.kind == kind), key=lambda path: -path.loss)

    def at(self, kind: Kind) -> int | None:
        """The layer, from 1, of the path of a kind that is missed most; None without any."""
        return next((path.layer for path in self.of_kind(kind)), None)

    @property
    def between(self) -> int | None:
        """How many layers reading is above binding; None where there is only one of them."""
        binds, reads = self.at("binds"), self.at("reads")
        return None if binds is None or reads is None else reads - binds


def kind_of(query: str, key: str) -> Kind | None:
    """The kind of a path, by its roles; None where one of them is of no line and no question."""
    reader, read = _line(query), _line(key)
    if reader is None or read is None:
        return None
    if not reader:
        return "reads" if read else "fetches"
    return "binds" if reader == read else "joins" if read else None


def _line(role: str) -> int | None:
    """The number of the line that a role is of, from 1; 0 for the question, None for neither."""
    if role in _QUESTION | _FIRST:
        return int(role in _FIRST)
    found = re.fullmatch(r">?x(\d+)(?:([>=.]?)|-1)", role)
    return int(found[1]) + (found[2] in (">", "=")) if found else None


def compared(results: Path, pretrained: Sequence[tuple[str, hs.Circuit]]) -> list[KnownCircuit]:
    """All circuits that are compared: of pretrained models, with their names, of A to D, and of our models of text."""
    ours = {f"transformer {n.upper()}": results / "paper" / "transformers" / n / "circuit.json" for n in "abcd"}
    texts = map(hs.Circuit.load, sorted((results / "studies" / "text" / "circuits").glob("*.json")))
    found = [*pretrained, *((name, hs.Circuit.load(path)) for name, path in ours.items() if path.exists())]
    found += [(f"own text, D = {circuit.hops}", circuit) for circuit in texts]
    known = [KnownCircuit.of(circuit, group) for group, circuit in found if circuit.found]
    return sorted(known, key=lambda circuit: circuit.group * circuit.group.startswith("own"))  # the others as they are


def card_table(circuits: Iterable[hs.Circuit]) -> str:
    """A Markdown table with a row for the card of each circuit."""
    rows = []
    for circuit in circuits:
        card, asked, proof = circuit.card, circuit.text, circuit.search.proof
        if card is None or asked is None or proof is None:
            continue  # of no language model, or not measured
        shares = [asked.scores[which].accuracy for which in ("own", "full")]
        ends = [wilson(round(share * proof.sequences), proof.sequences) for share in shares]
        right, of_model = (f"{s:.2f} ({a:.2f} to {b:.2f})" for s, (a, b) in zip(shares, ends, strict=True))
        others, passed = card.baselines, [name for name, check in circuit.checks.items() if check.passed]
        equal = ("-" if v is None else f"{v:.2f}" for v in (others.attribution, others.random, others.untrained))
        eap, random, untrained = equal
        rows.append([
            asked.name, circuit.problem.named, len(circuit.paths),
            f"{len(circuit.used_heads)} of {circuit.layers * circuit.heads}",
            f"{card.size.not_off} of {card.size.rows}", share_of_the_way(circuit),
            f"{right}; model {of_model}; n = {proof.sequences}",
            ", ".join(passed) or "none", ", ".join(circuit.failed) or "none",
            f"{card.curve.cpr:.3f}", f"{card.curve.cmd:.3f}",
            eap, f"{random} (best of {others.drawn})", untrained,
        ])  # fmt: skip
    head = ("model", "task", "paths", "heads", "rows", "share of the way", "right answers", "passed", "failed")
    return markdown_table((*head, "CPR", "CMD", "EAP-IG, as large", "random, as large", "untrained heads"), rows)


def share_of_the_way(circuit: hs.Circuit) -> str:
    """Faithfulness with own patterns, and with the interval of the circuit's loss where the record has that."""
    check, losses, text = circuit.checks.get("sufficiency"), circuit.losses, f"{circuit.measured_card.own.uniform:.2f}"
    if check is None or check.interval is None or check.numbers.get("worst") != check.numbers.get("circuit"):
        return f"{text} (no interval stored)"
    low, high = ((losses["nothing"] - loss) / (losses["nothing"] - losses["full"]) for loss in check.interval[::-1])
    return f"{text} ({low:.2f} to {high:.2f})"


def role_table(circuits: Sequence[KnownCircuit]) -> str:
    """A Markdown table with a row for each group: where it binds and reads, how often, and what feeds what."""
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
    """The median, with the least and the most where they differ; `-` without any."""
    known = sorted(value for value in values if value is not None)
    between = f" ({known[0]} to {known[-1]})" if len({*known}) > 1 else ""
    return f"{median(known):g}{between}" if known else "-"


def write(results: Path) -> None:
    """Write `pretrained/tables.md` and a figure below the folder of all results, and print the former."""
    from studies.figures.pretrained import kinds

    folder = results / "pretrained"
    found = [(path.parent.name, hs.Circuit.load(path)) for path in sorted(folder.glob("*/circuit.json"))]
    if not found:
        raise hs.InputError(f"{folder} has no folder with a circuit.json; give the folder of all results")
    known = compared(results, found)
    text = f"{card_table(circuit for _, circuit in found)}\n{role_table(known)}"
    (folder / "tables.md").write_text(text)
    hs.plot.save(kinds(known), folder / "kinds")
    print(text)


def main(arguments: list[str]) -> int:
    """Read the results in the folder that is named, `results` by default; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies pretrained", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"), help="the folder of all results")
    return status(lambda: write(parser.parse_args(arguments).results))
