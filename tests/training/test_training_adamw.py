"""AdamW by torch's function, against torch's class."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hopscope.paper.recipes import PLAIN
from hopscope.training import adamw

RECIPE = replace(PLAIN, beta1=0.8, beta2=0.9, weight_decay=0.3)


def fresh(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"step": torch.zeros(()), **{moment: torch.zeros_like(weight) for moment in adamw.MOMENTS}}


@pytest.mark.parametrize("shown", [float, torch.tensor])
def test_to_the_bit_what_the_class_does(shown):
    """At a rate that changes, and with a weight that has no gradient every other time."""
    draw = torch.Generator().manual_seed(0)
    ours = [torch.randn(2, 5, 3, generator=draw), torch.randn(2, 7, generator=draw), torch.randn(4, generator=draw)]
    theirs = [weight.clone().requires_grad_() for weight in ours]
    state = {weight: fresh(weight) for weight in ours}
    betas = (RECIPE.beta1, RECIPE.beta2)
    one = torch.optim.AdamW(theirs[:2], lr=1.0, betas=betas, weight_decay=RECIPE.weight_decay, fused=True)
    for step in range(6):
        for mine, other in zip(ours, theirs, strict=True):
            skipped = step % 2 and mine is ours[1]
            mine.grad = None if skipped else torch.randn(mine.shape, generator=draw)
            other.grad = None if mine.grad is None else mine.grad.clone()
        rate = 0.1 / (1 + step)
        one.param_groups[0]["lr"] = shown(rate)
        one.step()
        adamw.step(ours[:2], state, shown(rate), RECIPE)
        assert all(mine.equal(other) for mine, other in zip(ours, theirs, strict=True))
        for mine, other in zip(ours[:2], theirs[:2], strict=True):
            assert all(state[mine][name].equal(number) for name, number in one.state[other].items())
    assert int(state[ours[1]]["step"]) == 3
    assert int(state[ours[2]]["step"]) == 0


def test_without_a_gradient_nothing_moves():
    weight = torch.ones(3)
    state = {weight: fresh(weight)}
    adamw.step([weight], state, 0.1, RECIPE)
    assert weight.equal(torch.ones(3))
    assert not state[weight]["step"]
