"""The kinds of circuits that are planted in models whose circuit is known, and the measured label of each.

A circuit is the list of its paths. The kind `true` is the model's own circuit. All other kinds are planted as false.
Some of them change the circuit:

- `wrong key` replaces the key of a path, and `second key` adds a second key to a row.
- `missing` leaves a path out, and `superfluous` adds one or two paths of other rows.
- `twin` credits a path to another head with the same query and key.
- `other model` is the circuit of another model of the same shape.
- `random` is the circuit's number of randomly chosen paths, along which the model attends.

The others alter the model, which still answers as before:

- `idle key` adds the path of a resting head, which also attends to a key without using it.
- `backup key` keeps the circuit, but one of its keys has a backup in the same row.
- `by turns` keeps the circuit, but one row attends to its key for some questions and elsewhere for the rest.
- `sink` adds the path of a head that rests at a key of its own chain, where it reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import torch

import hopscope as hs
from studies.calibration.altered import Altered, AlteredBlockAsItWas, tying_path
from studies.calibration.backup import Backup, may_have_backup, with_backup
from studies.calibration.resting import Rest, resting
from studies.calibration.sink import Sink, with_sink
from studies.calibration.turns import Turns, by_turns

MARGIN = 1.3
"""The factor by which a loss must be above or below the loss threshold; otherwise the label is `undecided`."""

Label = Literal["true", "false", "equivalent", "undecided"]
"""The measured label. `equivalent`: the circuit was planted as false, but is as good as the true circuit."""

T = TypeVar("T")


@dataclass(frozen=True)
class Host:
    """A model whose circuit is known: built by hand, or trained, with a circuit that a search found and certified.

    Attributes:
        hops: D.
        seed: the seed that the model was trained from, or that draws the order of heads and the noise of a built model.
        transformer: the model.
        problem: the problem that the model answers.
        circuit: the model's circuit.
        beside: the ablations of rows without a path, for the rows that the circuit does not set to uniform attention.
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
        """Return the model built by hand for `hops` hops, with the order of its heads and its noise drawn from `seed`.

        Each layer has three heads in random order: the real head, a twin that attends like it and writes next to
        nothing, and a head that attends like the real head of another layer and writes nothing. Every weight has noise.
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
        """Return a trained model with the circuit found in it, which must have neither groups nor helpers."""
        paths = tuple(found.path for found in circuit.paths)
        beside = {row: ablation for row, ablation in circuit.interventions.items() if row not in circuit.rows}
        elsewhere = tuple(tuple(found.path for found in other.paths) for other in others)
        transformer = model.transformer.requires_grad_(False)
        return cls(circuit.hops, circuit.seed, transformer, model.problem, paths, beside, elsewhere)

    def parts(self, circuit: Sequence[hs.AttentionPath | str]) -> list[hs.AttentionPath | str]:
        """Return a circuit in the form that `Model.check` takes: its paths, and the rows that are not uniform."""
        roles, used = self.problem.roles, {path.row for path in circuit if isinstance(path, hs.AttentionPath)}
        rows = [(row.describe(roles), ablation) for row, ablation in self.beside.items() if row not in used]
        return [*circuit, *(f"{row}={ablation.kind.value}" for row, ablation in rows)]

    @cached_property
    def model(self) -> Any:
        """The model in the form in which it can be ablated and its circuits checked."""
        return Altered(self.transformer, lambda layer, block: AlteredBlockAsItWas(block)).model(self.problem)

    @cached_property
    def attended(self) -> list[hs.AttentionPath]:
        """The paths along which a row that can affect an answer puts more than a tenth of its attention."""
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
        """The number of heads in each layer, which is also the number (from 0) of the first added head."""
        return self.transformer.shape.heads


def _put(attention: Any, head: int, weights: Mapping[str, torch.Tensor], gain: float) -> None:
    """Copy head 0 of `weights` to the given head, and multiply what the head writes by `gain`."""
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
        circuit: its paths, in the form that `Model.check` takes.
        description: what was changed, in words.
        model: the altered model that the circuit is planted in; None if the circuit is planted in the host's own model.
        without: the ablation of the whole model that shows that the circuit is false; None if the circuit alone is run.
        breaks: True if the circuit is false when `without` breaks the model (a needed path is not claimed); False if
            the circuit is false when the model still answers (a claimed path is not needed).
    """

    circuit: tuple[hs.AttentionPath | str, ...]
    description: str
    model: Any = None
    without: Mapping[Any, str] | None = None
    breaks: bool = False


def label(kind: str, host: Host, planted: Planted, max_loss: float) -> Label:
    """Return the label of a planted circuit, by its measured effect on sequences that no check uses."""
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
    """Return the ablations of all rows without a path in `circuit`; rows with a path are left unchanged."""
    used = {path.row for path in circuit if isinstance(path, hs.AttentionPath)}
    rows = [row for row in host.model.evaluator.live_rows if row not in used]
    return {row: host.beside.get(row, "uniform") for row in rows}


def plant(kind: str, host: Host, generator: torch.Generator) -> Planted | None:
    """Plant a circuit of the given kind and return it, or None if this kind cannot be planted in the host."""
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
    model, path = resting(host, rest).model(host.problem), tying_path(host.problem, layer, host.heads, pair)
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
    model, path = with_sink(host, sink).model(host.problem), tying_path(host.problem, layer, host.heads, pair)
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
"""The function that plants each kind, by name. The checks should refuse every kind but `true`."""


def _one(choices: Sequence[T], generator: torch.Generator) -> T | None:
    """One of the choices at random, or None if there are none."""
    return choices[int(torch.randint(len(choices), (), generator=generator))] if choices else None


def _integers(generator: torch.Generator, *ranges: tuple[int, int]) -> list[int]:
    return [int(torch.randint(low, high, (), generator=generator)) for low, high in ranges]


def _between(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _visible(host: Host, path: hs.AttentionPath) -> list[int]:
    """Return the keys that a path's query can always see: roles of earlier blocks, and its own pair's first member."""
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
