"""The kinds of circuits that are planted in models whose circuit is known, and the truth about each, by measure.

A circuit is the list of its paths. `true` is the circuit itself. The others are false: a path's key replaced; a path
left out; one or two paths of other rows added; a second key given to a row; a path credited to another head that
attends alike; the circuit of another model of the same shape; as many paths at random, each of a row that attends
there; and, in a model that was altered and answers as before, the circuit itself and: the path of a head that rests and
also attends somewhere, for no use (`idle key`); with a backup for one of its keys in the same row; with a row that
attends to its key for some of the questions and elsewhere for the rest (`by turns`); with a head that rests at a key of
its own chain, where it reads nothing, as a path (`sink`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import torch

import hopscope as hs
from studies.calibration.altered import Altered, AlteredBlockAsItWas
from studies.calibration.backup import Backup, may_have_backup, with_backup
from studies.calibration.resting import Rest, resting
from studies.calibration.sink import Sink, with_sink
from studies.calibration.turns import Turns, by_turns

MARGIN = 1.3
"""The factor by which a loss must differ from the threshold for a label; nearer ones are left out."""

Label = Literal["true", "false", "equivalent", "undecided"]
"""The truth by measured effect. `equivalent`: planted as false, but it does as well, so it is not false."""

T = TypeVar("T")


@dataclass(frozen=True)
class Host:
    """A model whose circuit is known: built by hand, or trained, with a circuit that a search found and certified.

    Attributes:
        hops: D.
        seed: the seed of a built model's places and noise, or the one that a model was trained from.
        transformer: the model.
        problem: the problem that it answers.
        circuit: its circuit.
        beside: rows without a path that the circuit has at something else than uniform, and what they are at.
        others: circuits of other trained models of the same shape; None for a model built by hand.
    """

    hops: int
    seed: int
    transformer: hs.Transformer
    problem: hs.RetrievalProblem
    circuit: tuple[hs.AttentionPath, ...]
    beside: Mapping[Any, Any] = field(default_factory=dict)
    others: tuple[tuple[hs.AttentionPath, ...], ...] | None = None

    @classmethod
    def build(cls, hops: int, seed: int) -> Host:
        """The model built by hand of so many hops and that seed.

        It has three heads per layer in random places: the real one, one that attends alike and writes next to nothing,
        and one that attends like the real one of another layer and writes nothing. There is noise on every weight.
        """
        witness = hs.theory.build_witness(hops, spare_heads=2)
        model, generator = witness.transformer, torch.Generator().manual_seed(seed)
        places = [torch.randperm(3, generator=generator).tolist() for _ in range(model.shape.layers)]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 2e-5 * parameter.abs().max())
            blocks: list[Any] = list(model.blocks)
            originals = [
                {name: weight.clone() for name, weight in block.attention.state_dict().items()} for block in blocks
            ]
            for layer, (real, twin, stray) in enumerate(places):
                _put(blocks[layer].attention, real, originals[layer], 1.0)
                _put(blocks[layer].attention, twin, originals[layer], 0.002)
                _put(blocks[layer].attention, stray, originals[layer - 1], 0.0)
        paths = tuple(path._replace(head=places[path.layer][path.head]) for path in witness.circuit)
        return cls(hops, seed, model.requires_grad_(False), witness.problem, paths)

    @classmethod
    def trained(cls, model: Any, circuit: hs.Circuit, others: Sequence[hs.Circuit]) -> Host:
        """A trained model with the circuit that was found in it, which has neither groups nor helpers."""
        paths = tuple(found.path for found in circuit.paths)
        beside = {row: ablation for row, ablation in circuit.interventions.items() if row not in circuit.rows}
        elsewhere = tuple(tuple(found.path for found in other.paths) for other in others)
        transformer = model.transformer.requires_grad_(False)
        return cls(circuit.hops, circuit.seed, transformer, model.problem, paths, beside, elsewhere)

    def parts(self, circuit: Sequence[hs.AttentionPath | str]) -> list[hs.AttentionPath | str]:
        """A circuit as `Model.check` takes it: its paths, and the rows that are not uniform."""
        roles, used = self.problem.roles, {path.row for path in circuit if isinstance(path, hs.AttentionPath)}
        rows = [(row.describe(roles), ablation) for row, ablation in self.beside.items() if row not in used]
        return [*circuit, *(f"{row}={ablation.kind.value}" for row, ablation in rows)]

    @cached_property
    def model(self) -> Any:
        """The model, to ablate and to check circuits of."""
        return Altered(self.transformer, lambda layer, block: AlteredBlockAsItWas(block)).model(self.problem)

    @cached_property
    def attended(self) -> list[hs.AttentionPath]:
        """A path for every role to which a row that can reach an answer gives more than a tenth of its weight."""
        maps = self.model.attention()
        keys = range(len(self.problem.roles))
        return [
            hs.AttentionPath(row.layer, row.head, row.query, key)
            for row in self.model.evaluator.live_rows
            for key in keys
            if key != row.query and float(maps[row][key]) > 0.1
        ]

    @property
    def heads(self) -> int:
        """Heads in each layer, and so the number of the first one that is added."""
        return self.transformer.shape.heads


def _put(attention: Any, head: int, weights: Mapping[str, torch.Tensor], gain: float) -> None:
    """Make a head a copy of head 0 of some weights, and let it write `gain` times as much."""
    width = attention.d_head
    here, first = slice(head * width, (head + 1) * width), slice(width)
    for name in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            getattr(getattr(attention, name), kind)[..., here] = weights[f"{name}.{kind}"][..., first]
    attention.out.weight[:, here] = gain * weights["out.weight"][:, first]


@dataclass(frozen=True)
class Planted:
    """A planted circuit.

    Attributes:
        circuit: its paths, as `Model.check` takes them.
        description: what was done.
        model: the model that it is planted in, where that is not the host's own.
        without: for a path that is claimed and not needed, or that is needed and not claimed, the ablation that shows
            it: with it the whole model still answers, or does not.
        breaks: whether that ablation must break the model, and not leave it as it is.
    """

    circuit: tuple[hs.AttentionPath | str, ...]
    description: str
    model: Any = None
    without: Mapping[Any, str] | None = None
    breaks: bool = False


def label(kind: str, host: Host, planted: Planted, max_loss: float) -> Label:
    """The truth about a planted circuit, by its effect on sequences that no check uses."""
    if kind == "true":
        return "true"
    model, low, high = planted.model or host.model, max_loss / MARGIN, max_loss * MARGIN
    if planted.without is not None:
        if model.loss > low:
            return "undecided"
        loss = model.ablate(planted.without).loss
        return "false" if (loss >= high if planted.breaks else loss <= low) else "undecided"
    loss = model.ablate(_all_but(host, planted.circuit)).loss
    return "false" if loss >= high else "equivalent" if loss <= low else "undecided"


def _all_but(host: Host, circuit: Sequence[hs.AttentionPath | str]) -> dict[Any, Any]:
    """The ablation of every row that has no path among these; those are left as the model has them."""
    used = {path.row for path in circuit if isinstance(path, hs.AttentionPath)}
    rows = [row for row in host.model.evaluator.live_rows if row not in used]
    return {row: host.beside.get(row, "uniform") for row in rows}


def plant(kind: str, host: Host, generator: torch.Generator) -> Planted | None:
    """Plant a circuit of a kind; None where there is nothing to do it to."""
    return KINDS[kind](host, generator)


def _true(host: Host, generator: torch.Generator) -> Planted | None:
    return Planted(host.circuit, "the circuit itself")


def _wrong_key(host: Host, generator: torch.Generator) -> Planted | None:
    path = _one(host.circuit, generator)
    wrong = _one([key for key in _visible(host, path) if key != path.key], generator) if path else None
    if path is None or wrong is None:
        return None
    other = path._replace(key=wrong)
    without: dict[Any, str] = {**_all_but(host, host.circuit), path: "knock_out"}
    said = f"{_said(host, other)} for {_said(host, path)}"
    return Planted(_replaced(host, path, other), said, without=without, breaks=True)


def _missing(host: Host, generator: torch.Generator) -> Planted | None:
    path = _one(host.circuit, generator)
    return path and Planted(tuple(own for own in host.circuit if own != path), f"without {_said(host, path)}")


def _superfluous(host: Host, generator: torch.Generator) -> Planted | None:
    used = {path.row for path in host.circuit}
    outside = [path for path in host.attended if path.row not in used]
    added = [outside[number] for number in torch.randperm(len(outside), generator=generator).tolist()[:2]]
    nothing = {f"L{path.layer + 1}.H{path.head + 1} {host.problem.roles[path.query]}": "uniform" for path in added}
    said = "and " + "; ".join(_said(host, path) for path in added)
    return Planted((*host.circuit, *added), said, without=nothing) if added else None


def _second_key(host: Host, generator: torch.Generator) -> Planted | None:
    path = _one(host.circuit, generator)
    second = _one([key for key in _visible(host, path) if key != path.key], generator) if path else None
    if path is None or second is None:
        return None
    added = path._replace(key=second)
    return Planted((*host.circuit, added), f"and {_said(host, added)}", without={added: "knock_out"})


def _twin(host: Host, generator: torch.Generator) -> Planted | None:
    used = {path.row for path in host.circuit}
    free = [path for path in host.attended if path.row not in used]
    pairs = [(path, twin) for path in host.circuit for twin in free if twin[2:] == path[2:]]
    pair = _one(pairs, generator)
    return pair and Planted(_replaced(host, *pair), f"{_said(host, pair[1])} for {_said(host, pair[0])}")


def _other_model(host: Host, generator: torch.Generator) -> Planted | None:
    if host.others is not None:
        circuit = _one(host.others, generator)
        return Planted(circuit, "the circuit of another trained model") if circuit else None
    other = Host.build(host.hops, host.seed + 1 + int(torch.randint(100, (), generator=generator)))
    return Planted(other.circuit, f"the circuit of the model of seed {other.seed}")


def _random(host: Host, generator: torch.Generator) -> Planted | None:
    order = torch.randperm(len(host.attended), generator=generator).tolist()
    paths = tuple(host.attended[number] for number in order[: len(host.circuit)])
    return Planted(paths, "; ".join(_said(host, path) for path in paths))


def _idle_key(host: Host, generator: torch.Generator) -> Planted | None:
    if host.hops < 2:
        return None
    layer, pair, seed = _integers(generator, (0, host.transformer.shape.layers - 1), (1, host.hops), (0, 2**31))
    rest = Rest(layer, pair, _between(0.12, 0.35, generator), seed)
    model, path = resting(host, rest).model(host.problem), rest.path(host.problem, host.heads)
    return Planted((*host.circuit, path), f"and {_said(host, path)}, at rest", model, {path: "knock_out"})


def _backup_key(host: Host, generator: torch.Generator) -> Planted | None:
    path = _one([path for path in host.circuit if may_have_backup(host.problem, path)], generator)
    if path is None:
        return None
    backup = Backup(path, _between(0.2, 0.8, generator))
    said = f"{_said(host, path)} with {backup.share:.2f}, or else {host.problem.roles[backup.key]}"
    return Planted(host.circuit, said, with_backup(host, backup).model(host.problem), {path: "knock_out"})


def _by_turns(host: Host, generator: torch.Generator) -> Planted | None:
    path = _one([path for path in host.circuit if may_have_backup(host.problem, path)], generator)
    if path is None:
        return None
    turns = Turns(path, _between(0.25, 0.75, generator), *_integers(generator, (0, 2**31)))
    elsewhere = path._replace(key=Backup(path, 0.0).key)
    model = by_turns(host, turns).model(host.problem)
    said = f"{_said(host, path)} for {turns.share:.0%}, else {host.problem.roles[elsewhere.key]}"
    return Planted(host.circuit, said, model, {elsewhere: "knock_out"}, breaks=True)


def _sink(host: Host, generator: torch.Generator) -> Planted | None:
    layer, pair, seed = _integers(generator, (0, host.transformer.shape.layers - 1), (1, host.hops + 1), (0, 2**31))
    sink = Sink(layer, pair, seed)
    model, path = with_sink(host, sink).model(host.problem), sink.path(host.problem, host.heads)
    said = f"and {_said(host, path)}, where it reads nothing"
    return Planted((*host.circuit, path), said, model, {path: "moved"})


KINDS: Mapping[str, Callable[[Host, torch.Generator], Planted | None]] = {
    "true": _true,
    "wrong key": _wrong_key,
    "missing": _missing,
    "superfluous": _superfluous,
    "second key": _second_key,
    "twin": _twin,
    "other model": _other_model,
    "random": _random,
    "idle key": _idle_key,
    "backup key": _backup_key,
    "by turns": _by_turns,
    "sink": _sink,
}
"""The kinds by name; all but `true` are planted to be refused."""


def _one(choices: Sequence[T], generator: torch.Generator) -> T | None:
    """One of the choices at random, or None if there are none."""
    return choices[int(torch.randint(len(choices), (), generator=generator))] if choices else None


def _integers(generator: torch.Generator, *ranges: tuple[int, int]) -> list[int]:
    return [int(torch.randint(low, high, (), generator=generator)) for low, high in ranges]


def _between(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _visible(host: Host, path: hs.AttentionPath) -> list[int]:
    """Roles that a path's row sees for certain: those of pairs whose block is before, or the same pair's first."""
    fact = host.problem.fact_of
    at = fact(path.query)
    return [
        key
        for key in range(len(host.problem.roles))
        if key != path.query and fact(key) and (not at or fact(key) > at or (fact(key) == at and key < path.query))
    ]


def _replaced(host: Host, path: hs.AttentionPath, other: hs.AttentionPath) -> tuple[hs.AttentionPath, ...]:
    return tuple(other if own == path else own for own in host.circuit)


def _said(host: Host, path: hs.AttentionPath) -> str:
    return path.describe(host.problem.roles)
