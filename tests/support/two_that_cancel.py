"""The witness of two hops with two heads more, which write the contrary of each other: together they do nothing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from planted_models import LITTLE, witness
from torch import Tensor

import hopscope as hs
from hopscope.circuits.checks import Evidence, Patterns
from hopscope.circuits.evaluate.ablations import UNIFORM, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.transformer import Block
from hopscope.training.data import held_out
from studies.calibration.altered import Altered
from studies.calibration.beside import BlockWithMore

LAYER = 1


class _Two(BlockWithMore):
    """A block with two heads more, of one pattern; one writes what it `reads`, the other its contrary."""

    def __init__(
        self, block: Block, own: Float[Tensor, "query key"], reads: Callable[[Tensor], Tensor], loud: float
    ) -> None:
        super().__init__(block, own, more=2)
        self.reads, self.loud = reads, loud

    def written(
        self,
        pattern: Float[Tensor, "sequence head query key"],
        normed: Float[Tensor, "1 sequence pos d_model"],
    ) -> Float[Tensor, "sequence pos d_model"]:
        brought: Tensor = self.attention.write(pattern[None, :, :-2], normed)[0]
        one, other = self.reads(pattern[:, -2]), self.reads(pattern[:, -1])
        return brought + self.loud * (one - other)[..., None]


def _evidence(
    own: Float[Tensor, "query key"], reads: Callable[[Tensor], Tensor], loud: float, patterns: Patterns
) -> Evidence:
    made = witness(2)
    batch = held_out(made.problem, 64, 0, "circuit search")
    whole = Altered(made.transformer, lambda layer, block: _Two(block, own, reads, loud if layer == LAYER else 0.0))
    module = hs.Model.from_torch(whole, made.problem, lambda one: one.parts, Altered.untrain)
    evaluator = VectorEvaluator(module.transformer, made.problem, batch)
    program = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in made.circuit}
    return Evidence(evaluator, Units.of(evaluator).hypotheses, program, 0.05, 1, LITTLE, patterns)


def at_rest(patterns: Patterns) -> Evidence:
    """Both rest at themselves, and write what they read elsewhere: alone, either does harm where it is uniform."""
    length = witness(2).problem.sequence_length
    elsewhere = 1 - torch.eye(length)
    return _evidence(torch.eye(length), lambda pattern: (pattern * elsewhere).sum(dim=-1), 3.0, patterns)


def little_looks(patterns: Patterns) -> Evidence:
    """Both rest likewise, but for a look at the place before that one can hardly see, and write what they see there."""
    length = witness(2).problem.sequence_length
    own, places = torch.eye(length), torch.arange(1, length)
    own[places, places], own[places, places - 1] = 0.95, 0.05

    def look(pattern: Float[Tensor, "sequence query key"]) -> Float[Tensor, "sequence query"]:
        seen: Tensor = pattern.diagonal(-1, dim1=1, dim2=2)
        return torch.nn.functional.pad(seen, (1, 0))

    return _evidence(own, look, 100.0, patterns)
