"""Untrained heads are drawn as the model's own were: others may look nowhere in particular, and be a weak control."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import hopscope as hs
from hopscope.circuits import find
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.model.architecture import AS_TORCH, InitialWeights
from hopscope.model.initial_weights import initialise, with_untrained_heads
from hopscope.model.transformer import Transformer
from hopscope.training.data import held_out

PROBLEM = hs.RetrievalProblem(hops=1, chains=2)
SHARP = InitialWeights("gpt2", 40.0)
TINY = hs.Recipe(
    layers=2, heads=2, d_model=8, steps=2, batch_size=4, final_steps=1, init=SHARP.init, qk_gain=SHARP.qk_gain
)


def drawn(how: InitialWeights, seed: int) -> Transformer:
    made = Transformer(TINY.architecture(PROBLEM))
    initialise(made, [seed], how)
    return made.requires_grad_(False)


def of_head(model: Transformer, head: int) -> list[Tensor]:
    """The weights of a head of the second layer."""
    attention, here = model.blocks[1].attention, slice(4 * head, 4 * head + 4)
    maps = (attention.query, attention.key, attention.value)
    into = [weight[..., here] for one in maps for weight in (one.weight, one.bias)]
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


def test_whoever_asks_of_a_run_asks_by_its_recipe(run: hs.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook and in a search, and however the evaluator that is asked came from the first."""
    searched: list[Evaluator] = []

    class Seen(Exception):
        pass

    def seen(evaluator: Evaluator, *given: object, **named: object) -> None:
        searched.append(evaluator)
        raise Seen

    monkeypatch.setattr(find, "search_circuit", seen)
    with pytest.raises(Seen):
        run[1].find_circuit(effort="quick")
    for first in (run[1].evaluator, *searched):
        again = first.with_untrained([(0, 0)], 1)
        for one in (first, first.part(4), first.on(first.batch[:3]), first.fresh(4, 0, "certificate"), again):
            assert torch.equal(untrained(one), of_head(drawn(SHARP, 7), 1)[0])
    by_hand = VectorEvaluator(single(run.transformer(), 1), PROBLEM, held_out(PROBLEM, 8))
    assert torch.equal(untrained(by_hand), of_head(drawn(AS_TORCH, 7), 1)[0])
