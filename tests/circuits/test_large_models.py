"""Many heads: what bounds passes and memory of a search changes nothing of what it finds. Untrained heads."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from planted_text import Planted, planted_among_random
from small_models import disguised_witness
from torch import Tensor

import hopscope as hs
from examples.text_model.text import make_tokenizer
from hopscope.circuits.evaluate import evaluator as evaluators
from hopscope.circuits.evaluate.ablations import POSITIONAL, UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.resume import run_search
from hopscope.circuits.search import elimination, gradients
from hopscope.circuits.search.config import SearchBudget, SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.gradients import estimated_order, row_scores
from hopscope.circuits.search.own_patterns import own_pattern_search
from hopscope.errors import InputError
from hopscope.language import limits
from hopscope.language.hooked import HookedDecoder
from hopscope.language.limits import check_memory, memory_needed
from hopscope.language.text_batch import TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.model.architecture import AS_TORCH, InitialWeights
from hopscope.model.initial_weights import initialise, with_untrained_heads
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import text_role_names
from hopscope.statistics import rank_correlation
from hopscope.training.data import held_out

STAND = Planted(layers=8, heads=16, width=272, before=(1, 5), value=(5, 8))
PATHS = [AttentionPath.parse(path, text_role_names(1)) for path in STAND.circuit]


@cache
def planted() -> HookedDecoder:
    """128 heads, of which two are needed."""
    return HookedDecoder(planted_among_random(STAND))


def on_text(questions: int = 32) -> TextEvaluator:
    tokenizer, task = make_tokenizer(), TextTask("equations", 1)
    return TextEvaluator(planted(), tokenizer, task, text_batch(task, tokenizer, questions, seed=5))


def on_vectors(hops: int = 2, sequences: int = 32) -> Evaluator:
    witness = disguised_witness(hops)
    return VectorEvaluator(witness.transformer, witness.problem, held_out(witness.problem, sequences, 0, "large"))


def some_candidates(evaluator: Evaluator) -> list[Interventions]:
    """Changes in different layers, and one that mixes sequences."""
    last, query = evaluator.shape.layers - 1, evaluator.where.roles - 1
    nothing: Interventions = dict.fromkeys(evaluator.rows, UNIFORM)
    late: Interventions = {HeadRow(last, 0, query): one_hot(0)}
    return [{}, late, nothing, {**nothing, **late}, {HeadRow(0, 0, query): POSITIONAL}]


@pytest.mark.slow
def test_search_among_many_heads_finds_the_planted_circuit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With so many heads none is scored alone: fails where halves lose a head that is needed or keep an idle one."""
    monkeypatch.setattr(elimination, "_SIZES", (1, 2, 4, 8))
    monkeypatch.setattr(elimination, "_eliminated", _few_at_most(elimination._eliminated, 24))
    evaluator = on_text(16)
    config = SearchConfig(SearchBudget(1, 0, sequences=16, confirming=16, deciding=16))
    measured, errors = list[int](), Evaluator.errors
    monkeypatch.setattr(Evaluator, "errors", lambda self, some: (measured.append(len(some)), errors(self, some))[1])
    outcome = run_search(own_pattern_search(evaluator, Units.of(evaluator), config))
    assert sorted(Units.of(evaluator).paths(outcome.found[0].interventions)) == sorted(PATHS)
    assert sum(measured) < 250


def _few_at_most(eliminated: Any, most: int) -> Any:
    def checked(gauge: Gauge, interventions: Interventions, moves: list[Interventions], *rest: Any) -> Interventions:
        assert len(moves) <= most, "each of many is scored alone"
        found: Interventions = eliminated(gauge, interventions, moves, *rest)
        return found

    return checked


@pytest.mark.slow
def test_halving_keeps_needed_heads_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against every order of a few moves: what is needed stays, all else goes."""
    evaluator = on_text(16)
    gauge, base = (
        Gauge.scanning(evaluator, SearchConfig(SearchBudget(sequences=16, confirming=16))),
        Units.of(evaluator).base,
    )
    needed = [{row: UNIFORM for row in evaluator.rows if row[:2] == path.row[:2]} for path in (PATHS[0], PATHS[2])]
    idle = [{row: UNIFORM for row in evaluator.rows if row[:2] == (layer, 0)} for layer in range(3)]
    for first, second in ((0, 1), (0, 4), (2, 3), (4, 3)):
        moves = list(idle)
        for place, one in sorted(zip((first, second), needed, strict=True), key=lambda pair: pair[0]):
            moves.insert(place, one)
        end = elimination._in_halves(gauge, base, moves, gauge.limit())
        off = [all(end[row] == UNIFORM for row in move if row in evaluator.live_rows) for move in moves]
        assert [move for move, gone in zip(moves, off, strict=True) if not gone] == [m for m in moves if m in needed]


@pytest.mark.parametrize("make", [pytest.param(on_text, marks=pytest.mark.slow), on_vectors])
def test_splitting_a_batch_and_caching_fewer_streams_changes_no_loss(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where a share forgets the interventions that candidates depart from, or mixes its own sequences alone."""
    whole = make()
    candidates = some_candidates(whole)
    expected, maps = whole.errors(candidates), whole.role_maps().expected
    monkeypatch.setattr(evaluators, "_ROWS_AT_ONCE", 5 * whole.where.role.shape[1])
    monkeypatch.setattr(evaluators, "STREAMS", 4 * 5 * whole.where.role.shape[1] * whole.shape.d_model)
    shared = make()
    assert len(shared._shares) == 7
    assert shared._shares[0]._stride == shared.shape.layers
    for trunk in candidates[:4]:
        shared.depart_from(trunk)
        torch.testing.assert_close(shared.errors(candidates), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(shared.role_maps().expected, maps, rtol=1e-4, atol=1e-5)
    if isinstance(whole, TextEvaluator):
        assert shared.scores({}).log_loss == pytest.approx(whole.scores({}).log_loss, abs=1e-5)


def test_gradients_of_a_block_of_layers_include_later_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the patterns of a block themselves held, a first step that only steers a second would seem idle."""
    evaluator = on_vectors(hops=3)
    apart = row_scores(evaluator)
    monkeypatch.setattr(gradients, "BLOCKS", 1)
    order, agreement = estimated_order(evaluator)
    together = row_scores(evaluator)
    assert agreement >= 0.5
    needed = {(path.layer, path.head) for path in disguised_witness(3).circuit}
    heads = evaluator.shape.heads
    assert {(number // heads, number % heads) for number in order[-len(needed) :]} == needed
    assert rank_correlation(apart.sum(-1).flatten().tolist(), together.sum(-1).flatten().tolist()) > 0.7


def test_search_without_enough_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator, proof = on_text(32), hs.CertificateConfig()
    needed = memory_needed(evaluator, planted().size, proof)
    assert needed > 2 * planted().size
    monkeypatch.setattr(limits, "free_memory", lambda: needed)
    check_memory(evaluator, planted().size, proof)
    monkeypatch.setattr(limits, "free_memory", lambda: needed - 1)
    with pytest.raises(InputError, match=r"8 x 16 heads, on questions of 11 tokens, takes .* GB of memory beside"):
        check_memory(evaluator, planted().size, proof)


def test_untrained_head_copies_only_its_own_layer() -> None:
    model = planted()
    before = {name: weight.clone() for name, weight in model._model.named_parameters()}
    mixed = model.with_untrained([(1, 5)], seed=0)
    for name, weight in mixed._model.named_parameters():
        own = model._model.get_parameter(name)
        assert (weight is own) == (".h.1." not in name), name
        torch.testing.assert_close(own, before[name], rtol=0, atol=0)
    changed = [name for name, weight in mixed._model.named_parameters() if not torch.equal(weight, before[name])]
    assert changed
    assert all(".h.1.attn." in name for name in changed)


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
