"""Heads that write nothing wherever they look: those pruned in training, and those left empty in a hand-built model."""

from __future__ import annotations

import torch

from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.model.hooks import Hooks, Pattern


class _Without(Hooks):
    """An edit by which one head looks nowhere."""

    def __init__(self, layer: int, head: int) -> None:
        self._at = layer, head

    def pattern(self, layer: int, pattern: Pattern) -> Pattern:
        """The pattern with that head's weights at zero."""
        if layer != self._at[0]:
            return pattern
        pattern = pattern.clone()
        pattern[:, :, self._at[1]] = 0
        return pattern


@torch.no_grad()
def silent_heads(evaluator: Evaluator) -> frozenset[tuple[int, int]]:
    """Layer and head, from 0, of the heads without which the stream after their own layer is the same to the bit.

    They are told by what they write and not by the answers: without a head that has a backup no answer changes either.

        >>> from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
        >>> from hopscope.theory.witness import build_witness
        >>> from hopscope.training.data import held_out
        >>> made = build_witness(hops=1, spare_heads=1)  # the spare heads' weights are zero
        >>> sorted(silent_heads(VectorEvaluator(made.transformer, made.problem, held_out(made.problem, 4))))
        [(0, 1), (1, 1)]
    """
    model, silent = evaluator.transformer, set()
    stream = model.embed(evaluator.batch.inputs[None])
    for layer in range(model.shape.layers):
        after = model.run(stream, start=layer, stop=layer + 1, hooks=Hooks())
        for head in range(model.shape.heads):
            without = model.run(stream, start=layer, stop=layer + 1, hooks=_Without(layer, head))
            if torch.equal(without, after):
                silent.add((layer, head))
        stream = after
    return frozenset(silent)
