"""Models whose circuits are known: built by hand, or trained and cut down to what is clear; and models with faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from hopscope.circuits.evaluate.ablations import IDENTITY, UNIFORM, ZERO, Interventions, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.hooks import Hooks, PatternRecorder, Queried, Stream
from hopscope.model.transformer import Attention, Block, Transformer
from hopscope.problem.paths import AttentionPath
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.theory.witness import build_witness
from hopscope.training.data import held_out

MARGIN = 1.3
"""The factor by which a loss on many sequences must differ from the bar for a label; nearer ones are left out."""

TRUTH = "calibration truth"
"""The purpose for which the sequences behind every label are drawn."""

_BARS, _LEAST = (0.02, 0.1), 1e-3
"""The range in which a bar may lie, and the least loss in a gap: smaller ones count as this."""


@dataclass(frozen=True)
class Host:
    """A model, and a circuit of it that holds the bar by the margin.

    Attributes:
        name: its name, for people and files.
        family: `hand-built` or `trained`, with D and, if trained, layers x heads.
        evaluator: the model on many sequences, which no search and no certificate sees.
        circuit: the form of every row, uniform for those that are not in use.
        bar: the highest loss that a circuit may have.
        clear: whether every row is also needed, by the margin.
    """

    name: str
    family: str
    evaluator: VectorEvaluator
    circuit: Interventions
    bar: float
    clear: bool

    @cached_property
    def units(self) -> Units:
        """The rows of the model, and hypotheses about them."""
        return Units.of(self.evaluator)

    @cached_property
    def heavy(self) -> list[AttentionPath]:
        """A path for every role that a row attends to."""
        return [AttentionPath(*row, key) for row in self.units.rows for key in self.units.hypotheses.heavy(row)]

    def losses(self, program: Interventions) -> tuple[float, float]:
        """The losses of a program in the natural and in the imposed reading."""
        natural, imposed = self.evaluator.mse([self.units.natural(program), program])
        return natural, imposed


def hand_built(hops: int, seed: int, sequences: int, bar: float) -> Host:
    """A witness with three heads per layer in random places: the real one, one that attends alike and writes next to
    nothing, and one that attends like the real one of another layer and writes nothing. There is noise on every
    weight."""
    witness = build_witness(hops, spare_heads=2)
    model, generator = witness.transformer, torch.Generator().manual_seed(seed)
    places = [torch.randperm(3, generator=generator).tolist() for _ in range(model.shape.layers)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 2e-5 * parameter.abs().max())
        sources = [_attention(model, layer) for layer in range(model.shape.layers)]
        originals = [{name: weight.clone() for name, weight in one.state_dict().items()} for one in sources]
        for layer, (real, twin, stray) in enumerate(places):
            _put(sources[layer], real, originals[layer], 1.0)
            _put(sources[layer], twin, originals[layer], 0.002)
            _put(sources[layer], stray, originals[layer - 1], 0.0)
    paths = [path._replace(head=places[path.layer][path.head]) for path in witness.circuit]
    evaluator = VectorEvaluator(model.requires_grad_(False), witness.problem, _sequences(witness.problem, sequences))
    circuit: Interventions = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in paths}
    return Host(f"hand-built-{hops}-hops-{seed}", f"hand-built, D = {hops}", evaluator, circuit, bar, True)


def cut_down(
    name: str, family: str, transformer: Transformer, problem: RetrievalProblem, found: Interventions, sequences: int
) -> Host:
    """A trained model with that part of a circuit found in it whose truth is clearest.

    Rows are removed from the circuit one by one, the least costly first; a removed row may become uniform, attend to
    itself, or be zero. Between two successive losses on the way there is a widest gap, as a ratio: the circuit is the
    one before this gap, and the bar is the gap's geometric middle. So the circuit is sufficient by a margin, and none
    of its rows can be spared, by a margin.
    """
    evaluator = VectorEvaluator(transformer, problem, _sequences(problem, sequences))
    units, some = Units.of(evaluator), evaluator.part(128)
    chain: list[tuple[float, Interventions]] = [(max(some.mse([units.natural(found), found])), found)]
    while chain[-1][0] < 0.3 and units.on(chain[-1][1]):
        program = chain[-1][1]
        smaller = [{**program, row: off} for row in units.on(program) for off in (UNIFORM, IDENTITY, ZERO)]
        some.depart_from(units.natural(program))
        losses = some.mse([units.natural(one) for one in smaller])
        best = min(range(len(losses)), key=losses.__getitem__)
        chain.append((losses[best], smaller[best]))
    steps = [(max(before, _LEAST), after, program) for (before, program), (after, _) in pairwise(chain)]
    gaps = [(after / before, (before * after) ** 0.5, program) for before, after, program in steps]
    gaps = [gap for gap in gaps if _BARS[0] <= gap[1] <= _BARS[1]]
    if not gaps:
        return Host(name, family, evaluator, found, 0.05, False)
    ratio, bar, program = max(gaps, key=lambda gap: gap[0])
    return Host(name, family, evaluator, program, bar, ratio >= MARGIN**2)


class Deaf(Transformer):
    """A model whose tools are broken: edits of layer `deaf`, from 0, have no effect."""

    deaf: int = -1

    @classmethod
    def copy(cls, model: Transformer, layer: int) -> Deaf:
        """A copy of a model in which edits of one layer have no effect."""
        made = cls(model.shape)
        made.load_state_dict(model.state_dict())
        made.deaf = layer
        return made.requires_grad_(False)

    def run(
        self,
        x: Stream,
        *,
        start: int = 0,
        stop: int | None = None,
        hooks: Hooks | None = None,
        reads: int | None = None,
    ) -> Queried:
        """As in `Transformer`, but without the hooks in one layer; a recorder works in all layers."""
        for layer in range(start, self.shape.layers if stop is None else stop):
            heard = hooks if layer != self.deaf or isinstance(hooks, PatternRecorder) else None
            x = super().run(x, start=layer, stop=layer + 1, hooks=heard, reads=reads)
        return x


def _sequences(problem: RetrievalProblem, count: int) -> Batch:
    return held_out(problem, count, 0, TRUTH)


def _attention(model: Transformer, layer: int) -> Attention:
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block.attention


def _put(attention: Attention, head: int, weights: Mapping[str, Tensor], gain: float) -> None:
    """Make a head a copy of head 0 of some weights, and let it write `gain` times as much."""
    width = attention.d_head
    here, first = slice(head * width, (head + 1) * width), slice(width)
    for name in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            getattr(getattr(attention, name), kind)[..., here] = weights[f"{name}.{kind}"][..., first]
    attention.out.weight[:, here] = gain * weights["out.weight"][:, first]
