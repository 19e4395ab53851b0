"""The witness of three hops with one head more, which rests at a key of its own chain and reads nothing of it."""

from __future__ import annotations

from planted_models import LITTLE, witness

from hopscope.circuits.checks import Evidence, Patterns
from hopscope.circuits.evaluate.ablations import UNIFORM, Ablation, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.problem.paths import AttentionPath
from hopscope.training.data import held_out
from studies.calibration.sink import Sink, with_sink


def sink(patterns: Patterns, form: Ablation | None = None, *, brings: float = 0.0) -> tuple[Evidence, AttentionPath]:
    """The witness's circuit and, said to be one more path of it, the sink.

    Args:
        patterns: whether patterns are the model's own or imposed.
        form: the form of the sink's row; by default all weight on the key.
        brings: how much it writes at rest.
    """
    made, rest = witness(3), Sink(0, 1, 5, brings)
    module, batch = with_sink(made, rest).model(made.problem), held_out(made.problem, 64, 0, "circuit search")
    evaluator = VectorEvaluator(module.transformer, made.problem, batch)
    path = rest.path(made.problem, made.transformer.shape.heads)
    program = dict.fromkeys(evaluator.rows, UNIFORM) | {one.row: one_hot(one.key) for one in made.circuit}
    program[path.row] = form or one_hot(path.key)
    return Evidence(evaluator, Units.of(evaluator).hypotheses, program, 0.05, 1, LITTLE, patterns), path
