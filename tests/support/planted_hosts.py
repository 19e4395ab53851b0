"""Hand-built models of `studies.calibration` on sequences, altered or as they are, as the certificate sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.torch_module import TorchModule
from hopscope.training.data import held_out
from studies.calibration.altered import Altered
from studies.calibration.kinds import Host as Built

FEW = CertificateConfig(sequences=48, deciding=48, few=16, rough=4, draws=20, halves=4)
"""Enough for hand-built circuits, which are clear on few sequences."""


@dataclass(frozen=True)
class Host:
    """A hand-built model on sequences, and its circuit; every row is named."""

    evaluator: VectorEvaluator
    circuit: Interventions
    bar: float = 0.05

    @cached_property
    def units(self) -> Units:
        """The rows of the model, and hypotheses about them."""
        return Units.of(self.evaluator)

    def losses(self, program: Interventions) -> tuple[float, float]:
        """The losses of a program with the model's own patterns, and with imposed ones."""
        natural, imposed = self.evaluator.mse([self.units.natural(program), program])
        return natural, imposed


def hand_built(hops: int, seed: int, sequences: int) -> Host:
    """The model of so many hops and that seed."""
    built = Built.build(hops, seed)
    batch = held_out(built.problem, sequences, 0, "calibration truth")
    evaluator = VectorEvaluator(built.transformer, built.problem, batch)
    return Host(
        evaluator, dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in built.circuit}
    )


def evaluated(altered: Altered, known: VectorEvaluator) -> VectorEvaluator:
    """An altered model on the sequences of the known one."""
    inputs, reads = known.batch.inputs[:2], known.shape.reads
    made = TorchModule.of(
        altered,
        lambda one: one.parts,
        lambda one, layer, head: one.untrain(layer, head),
        inputs,
        reads,
        known.problem.causal,
    )
    return VectorEvaluator(made, known.problem, known.batch)
