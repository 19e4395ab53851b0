"""Untrained heads are drawn as the model's own were: others may be a weak control."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import hopscope as hs
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.model.architecture import AS_TORCH, InitialWeights
from hopscope.model.initial_weights import initialise, with_untrained_heads
from hopscope.model.transformer import Transformer

PROBLEM = hs.RetrievalProblem(hops=1, chains=2)
SHARP = InitialWeights("gpt2", 40.0)
TINY = hs.Recipe(layers=2, heads=2, d_model=8, steps=2, batch_size=4, final_steps=1, initial=SHARP)


def drawn(how: InitialWeights, seed: int) -> Transformer:
    made = Transformer(TINY.architecture(PROBLEM))
    initialise(made, [seed], how)
    return made.requires_grad_(False)


def of_head(model: Transformer, head: int) -> list[Tensor]:
    """The weights of a head of the second layer."""
    attention, here = model.blocks[1].attention, slice(4 * head, 4 * head + 4)
    maps = (attention.query, attention.key, attention.value)
    into = [weight[..., here] for linear in maps for weight in (linear.weight, linear.bias)]
    return [*into, attention.out.weight[:, here]]


def untrained(evaluator: Evaluator) -> Tensor:
    """The queries of an untrained head."""
    transformer = evaluator.with_untrained([(1, 1)], 7).transformer
    assert isinstance(transformer, Transformer)
    return of_head(transformer, 1)[0]


@pytest.mark.parametrize("how", [AS_TORCH, SHARP])
def test_an_untrained_head_has_initial_weights_and_the_others_keep_theirs(how: InitialWeights) -> None:
    model, fresh = drawn(AS_TORCH, 0), drawn(how, 7)
    mixed = with_untrained_heads(model, [(1, 1)], 7, how)
    for head, source in ((0, model), (1, fresh)):
        for mine, theirs in zip(of_head(mixed, head), of_head(source, head), strict=True):
            assert torch.equal(mine, theirs)
    assert not torch.equal(of_head(model, 1)[0], of_head(fresh, 1)[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hs.Run:
    return hs.train(TINY, PROBLEM, tmp_path_factory.mktemp("untrained") / "run", seeds=[3, 5])


def test_a_run_gives_untrained_heads_the_weights_that_its_recipe_draws(run: hs.Run) -> None:
    """Seed 7 draws them as for a whole model; as torch draws weights they would be far smaller."""
    assert torch.equal(untrained(run[1].evaluator), of_head(drawn(SHARP, 7), 1)[0])
    assert not torch.equal(untrained(hs.Model(run[1].transformer, PROBLEM).evaluator), of_head(drawn(SHARP, 7), 1)[0])
