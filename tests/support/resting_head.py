"""The witness of three hops with one head more, which rests: most of its weight lies where it reads nothing."""

from __future__ import annotations

from planted_models import LITTLE

from hopscope.circuits.checks import Evidence
from hopscope.circuits.evaluate.ablations import POSITIONAL, UNIFORM, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.problem.paths import AttentionPath
from hopscope.theory.witness import build_witness
from hopscope.training.data import held_out
from studies.calibration import resting as planted


def resting(weight: float) -> tuple[Evidence, AttentionPath]:
    """The witness's circuit, the head's row at its positional mean; and what the row looks at with that weight."""
    made, rest = build_witness(hops=3), planted.Rest(0, 2, weight, 0)
    made.transformer.requires_grad_(False)
    module = planted.resting(made, rest).model(made.problem)
    evaluator = VectorEvaluator(module.transformer, made.problem, held_out(made.problem, 64))
    head = rest.path(made.problem, made.transformer.shape.heads)
    program = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in made.circuit}
    program[head.row] = POSITIONAL
    return Evidence(evaluator, Units.of(evaluator).hypotheses, program, 0.05, 1, LITTLE), head
