"""The paper's recipes and transformers, and a quick recipe of our own. Vary them with `dataclasses.replace`.

>>> hs.recipes.SWEEP.batch_size
512
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hopscope.model.architecture import InitialWeights
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.recipe import Recipe, Setup

__all__ = ["A_SHORT", "BY_NAME", "LAPTOP", "PLAIN", "SWEEP", "A", "B", "C", "D"]


SWEEP = Recipe(layers=8, heads=8, d_model=128, steps=10_000, batch_size=512, examples=2**20, log_every=10)
"""The recipe of Figure 4 (Section 7.1); the sweep varies `layers` from 1 to 8."""

LAPTOP = Recipe(
    layers=4,
    heads=16,
    d_model=64,
    head_dim=8,
    mlp=False,
    steps=3_200,
    batch_size=128,
    examples=None,
    learning_rate=6e-3,
    schedule="decay-when-learned",
    decay_fraction=0.25,
    learned_below=0.1,
    prune_every=40,
    head_dropout=0.1,
    head_dropout_after=1,
    beta2=0.98,
    clip=1.0,
    weight_decay=0.1,
    initial=InitialWeights(qk_gain=4.0),
    log_every=20,
    validation_size=64,
)
"""A quick recipe of our own for two cores, D = 3, and two or more layers.

It has half the paper's width, no MLP and a quarter of the sweep's batch. Learning is fast and reliable because of many
heads whose attention is not uniform at the start (`qk_gain`), weight decay, a high learning rate, a low `beta2`, and
head dropout between the first and the last hop learned. Redundant heads are then pruned, so that the circuit can be
certified, and the learning rate decays. `python -m studies learning` measures how reliably a run learns."""

PLAIN = replace(LAPTOP, heads=8, head_dim=None, prune_every=None, head_dropout=0.0, head_dropout_after=0)
"""`LAPTOP` with eight heads, without head dropout and pruning: the recipe that the studies vary."""

A = Setup(
    "a",
    RetrievalProblem(hops=3),
    Recipe(layers=12, heads=1, d_model=128, steps=24_000, batch_size=128, checkpoint_every=800),
    seeds=(0,),
)
"""Transformer A (Section 8.1)."""

A_SHORT = replace(A.recipe, steps=4_000, schedule="warmup-stable-decay", checkpoint_every=400)
"""A's shape with a sixth of A's steps; the rate decays over the last 30%. The paper does not have this recipe."""

B = replace(A, name="b", seeds=(1,))
"""Transformer B (Section 8.1): A with another seed."""

C = replace(A, name="c", seeds=(2,))
"""Transformer C (Section 8.1): A with a third seed."""

D = Setup(
    "d",
    RetrievalProblem(hops=4),
    Recipe(layers=24, heads=1, d_model=512, head_dim=16, mlp=False, steps=6_400, batch_size=256, checkpoint_every=80),
    seeds=(0,),
)
"""Transformer D (Section 9.1)."""

BY_NAME: Mapping[str, Setup] = {
    "laptop": Setup("laptop", RetrievalProblem(hops=3), LAPTOP),
    "plain": Setup("plain", RetrievalProblem(hops=3), PLAIN),
    "sweep": Setup("sweep", RetrievalProblem(hops=5), SWEEP),
    **{setup.name: setup for setup in (A, B, C, D)},
}
"""The setups by the names that the command line knows."""
