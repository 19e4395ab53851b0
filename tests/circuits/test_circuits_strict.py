"""The strict search against models that know their own circuit, and against slow arithmetic of this file's own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from planted_models import LITTLE, attention, columns, copy_head, evidence_of, louder, softer, witness
from small_models import disguised_witness
from studies.calibration.hosts import hand_built

from hopscope.circuits.describe import strict_reading
from hopscope.circuits.evaluate.ablations import IDENTITY, KEEP, UNIFORM, ZERO, Ablation
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.find import find_circuit
from hopscope.circuits.resume import Journal
from hopscope.circuits.search.appendix_e import FILLS, HeadNumbers, Imposed, Strict, appendix_e, whole_heads
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.model.architecture import Architecture
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch, position_codes
from hopscope.theory.witness import Witness
from hopscope.training.data import held_out

BUDGET = SearchConfig(orders=1, growing=0, sequences=16, confirming=32, deciding=32)
PROOF = replace(LITTLE, draws=4, halves=8)
LAST = 2
"""Layer of the answer in a witness of two hops."""


def searched(made: Witness, budget: SearchConfig = BUDGET, **options: Any) -> tuple[Evaluator, list[Imposed]]:
    """The sequences that the strict search saw, and its ends."""
    batch = held_out(made.problem, budget.confirming, 0, "circuit search")
    evaluator = VectorEvaluator(made.transformer, made.problem, batch)
    return evaluator, appendix_e(evaluator, Units.of(evaluator), budget, **options)


@torch.no_grad()
def slow(model: Transformer, batch: Batch, state: Imposed) -> float:
    """The loss under imposition, one sequence, head and position after another."""
    errors = []
    for inputs, target, place in zip(batch.inputs, batch.targets, batch.place.tolist(), strict=True):
        stands = {at: (chain, role) for chain, roles in enumerate(place) for role, at in enumerate(roles)}
        x = inputs @ model.embed.weight[0] + model.embed.bias[0]
        for layer in range(model.shape.layers):
            at, brought = attention(model, layer), []
            value = x @ at.value.weight[0] + at.value.bias[0]
            for head in range(model.shape.heads):
                does, pattern = state.heads[layer, head], torch.zeros(len(x), len(x))
                for query in range(len(x)):
                    chain, role = stands[query]
                    key = None if isinstance(does, Ablation) else does.get(role)
                    rest = does if isinstance(does, Ablation) else state.fill
                    if key is not None:
                        pattern[query, place[chain][key]] = 1.0
                    elif rest == UNIFORM:
                        pattern[query, : query + 1] = 1 / (query + 1)
                    elif rest == IDENTITY:
                        pattern[query, query] = 1.0
                brought.append(pattern @ value[:, columns(model, head)])
            x = x + torch.cat(brought, dim=1) @ at.out.weight[0] + at.out.bias[0]
        answers = (x @ model.read.weight[0] + model.read.bias[0])[-len(target) :]
        errors.append(float((answers - target).square().mean()))
    return sum(errors) / len(errors)


def all_without(state: Imposed, path: Any) -> list[Imposed]:
    """A state without one path: its row filled like the rest, or the head idle in either way if it was the only one."""
    head = (path.layer, path.head)
    left = {query: key for query, key in dict(state.heads[head]).items() if query != path.query}  # type: ignore[arg-type]
    return [replace(state, heads={**state.heads, head: does}) for does in ([left] if left else [UNIFORM, IDENTITY])]


@pytest.mark.parametrize("fill", list(FILLS))
def test_the_evaluator_gives_what_slow_arithmetic_gives(fill: str) -> None:
    made = witness(2, 1, 3e-4)
    evaluator, (end, *_) = searched(made)
    few, state = evaluator.part(4), replace(end, fill=FILLS[fill])
    assert few.mse([state.program])[0] == pytest.approx(slow(made.transformer, few.batch, state), rel=1e-3)
    others = [replace(state, fill=form) for name, form in FILLS.items() if name != fill]
    for other in others:
        assert few.mse([other.program])[0] != pytest.approx(few.mse([state.program])[0], rel=0.02)


def test_every_number_of_the_reading_is_what_slow_arithmetic_gives() -> None:
    """Also with a second head in the first useful layer, idle at itself: that layer is made uniform as a whole."""
    made = witness(1, 1, 3e-4)
    copy_head(made.transformer, 0, 0, 1, 0.3)
    looks: dict[HeadNumbers, Any] = {(0, 0): {1: 0}, (0, 1): IDENTITY, (1, 0): {2: 1}, (1, 1): UNIFORM}
    end = Imposed(looks, ZERO, 3)
    evidence = evidence_of(made, end.program, paths=(), sense="strict", proof=PROOF)
    found = strict_reading([end], dict(evidence.natural), Units.of(evidence.evaluator), evidence)

    def fresh(state: Imposed) -> Any:
        return pytest.approx(slow(made.transformer, evidence.evaluator.batch, state), rel=1e-3)

    for name, fill in FILLS.items():
        assert found.loss(name).mse == fresh(replace(end, fill=fill))  # type: ignore[arg-type]
    assert [path.where for path in found.paths] == [(1, 1, ">x1", "x0>"), (2, 1, "x0?", ">x1")]
    for path, one in zip(end.paths, found.paths, strict=True):
        assert one.without.mse == min(map(fresh, all_without(end, path)), key=lambda loss: loss.expected)
    uniform = replace(end, heads={**looks, (0, 0): UNIFORM, (0, 1): UNIFORM})
    assert found.first_layer_uniform.mse == fresh(uniform)
    assert fresh(uniform).expected != pytest.approx(fresh(replace(end, heads={**looks, (0, 0): UNIFORM})).expected)
    assert found.first_layer == 1


@pytest.mark.parametrize(("hops", "seed"), [(1, 0), (2, 0), (2, 1), (3, 3)])
def test_planted_paths_are_found_wherever_they_stand(hops: int, seed: int) -> None:
    """Among a twin that attends alike and a stray that attends like another layer's head, in random places."""
    host = hand_built(hops, seed, 32, 0.05)
    ends = appendix_e(host.evaluator, host.units, BUDGET)
    assert ends[0].paths == sorted(host.units.paths(host.circuit))


def halved() -> Witness:
    """The answer's head in two halves: neither does alone."""
    made = witness(2, 2)
    copy_head(made.transformer, LAST, 0, 1, 0.5)
    louder(made.transformer, LAST, 0, 0.5)
    return made


@pytest.mark.parametrize("made", [disguised_witness(3), halved()], ids=["disguised", "halved"])
def test_no_path_beyond_the_first_layer_can_go(made: Witness) -> None:
    evaluator, (end, *_) = searched(made)
    assert evaluator.mse([end.program])[0] <= BUDGET.max_loss
    beyond = [path for path in end.paths if path.layer > end.paths[0].layer]
    assert len(beyond) >= 3
    for path in beyond:
        assert min(evaluator.mse([state.program for state in all_without(end, path)])) > BUDGET.max_loss, path


def test_superfluous_paths_go() -> None:
    """Paths of the decoys put into the circuit, which cost nothing and bring nothing."""
    made = disguised_witness(2)
    evaluator, (end, *_) = searched(made)
    decoy = made.transformer.shape.heads - 1
    padded = replace(end, heads={**end.heads, **{(layer, decoy): end.heads[layer, 0] for layer in range(3)}})
    assert len(padded.paths) == 2 * len(end.paths)
    search = Strict(Gauge.scanning(evaluator, BUDGET), Units.of(evaluator))
    assert search.reduced(padded).paths == sorted(made.circuit)


def must_be_uniform() -> Witness:
    """A head that attends evenly in the model, and at itself writes its own symbol into the answer."""
    made = witness(2)
    copy_head(made.transformer, LAST, 0, 1, 0.5)
    softer(made.transformer, LAST, 1, 0.0)
    return made


@torch.no_grad()
def must_be_identity() -> Witness:
    """A head that attends to queries alone, where its values are nothing; anywhere else they do harm."""
    made = witness(2, noise=0.0)
    problem, model = made.problem, made.transformer
    queries = torch.arange(problem.sequence_length) >= problem.sequence_length - problem.chains
    code = (
        torch.linalg.lstsq(position_codes(problem).double(), (~queries).double()[:, None], rcond=1e-3, driver="gelsd")
        .solution[:, 0]
        .float()
    )
    read_code = torch.linalg.pinv(model.embed.weight[0])[:, problem.symbol_dim :] @ code
    at, first = attention(model, LAST), columns(model, 1).start
    at.query.bias[0, 0, first] = model.shape.d_head**0.5
    at.key.weight[0, :, first] = -40 * read_code
    at.value.weight[0, :, first] = read_code
    at.out.weight[0, first] = 0.5
    return made


@pytest.mark.parametrize(("made", "form"), [(must_be_uniform(), UNIFORM), (must_be_identity(), IDENTITY)])
def test_an_idle_head_is_what_serves(made: Witness, form: Ablation) -> None:
    evaluator, (end, *_) = searched(made)
    assert end.paths == sorted(made.circuit)
    assert end.heads[LAST, 1] == form
    flipped = replace(end, heads={**end.heads, (LAST, 1): IDENTITY if form == UNIFORM else UNIFORM})
    good, bad = evaluator.mse([end.program, flipped.program])
    assert good < BUDGET.max_loss < bad


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_the_fewest_whole_heads_are_the_fewest(share: float) -> None:
    """Against every choice of heads kept, uniform and at themselves."""
    made = witness(1, 2)
    copy_head(made.transformer, 1, 0, 2, share)
    louder(made.transformer, 1, 0, 1 - share)
    evaluator, _ = searched(made)
    heads = list(product(range(2), range(3)))
    programs = [
        {HeadRow(*head, query): form for head, form in zip(heads, forms, strict=True) for query in range(3)}
        for forms in product((KEEP, UNIFORM, IDENTITY), repeat=len(heads))
    ]
    losses = evaluator.mse(programs)
    kept = [sum(form == KEEP for form in program.values()) // 3 for program in programs]
    fewest = min(count for count, loss in zip(kept, losses, strict=True) if loss <= BUDGET.max_loss)
    units = Units.of(evaluator)
    found = whole_heads(evaluator, units, BUDGET, None)
    assert len({row[:2] for row in units.on(found)}) == fewest == (3 if share == 0.5 else 2)
    assert evaluator.mse([found])[0] <= BUDGET.max_loss


def test_a_model_above_the_bar_has_no_strict_reading() -> None:
    made = disguised_witness(2).without_layer(1)
    assert searched(made)[1] == []
    assert find_circuit(made.transformer, made.problem, effort=BUDGET, proof=PROOF).strict is None


@torch.no_grad()
def evenly() -> Witness:
    """One chain, one hop: an even look at x0, x1 and x0 tells x1, so no path is needed."""
    problem = RetrievalProblem(hops=1, chains=1)
    width, symbol = problem.input_dim, problem.symbol_dim
    shape = Architecture(width, symbol, 1, 1, 1, width + symbol, head_dim=symbol, mlp=False, layer_norm=False)
    model, eye = Transformer(shape).requires_grad_(False), torch.eye(symbol)
    model.embed.weight[0, :width, :width] = torch.eye(width)
    at = attention(model, 0)
    at.value.weight[0, :symbol] = eye
    at.out.weight[0, :, width:] = 3 * eye
    model.read.weight[0, :symbol], model.read.weight[0, width:] = -2 * eye, eye
    return Witness(problem, model, ())


COST = "evaluations of "
"""What the journal remembers beside each end."""


def _last(told: list[str], memory: dict[str, Any]) -> None:
    told.append([*memory][-1].removeprefix(COST))


def test_the_same_seed_gives_the_same_resumed_or_not() -> None:
    made, memory = disguised_witness(2), dict[str, Any]()
    budget = replace(BUDGET, orders=3)
    _, whole = searched(made, budget, journal=Journal(memory=memory))
    names = [name for name in memory if not name.startswith(COST)]
    assert names == ["strict-zero", "strict-uniform", "strict-identity", "strict-random-1", "strict-random-2"]
    assert searched(made, budget)[1] == whole
    for done in range(len(names)):
        resumed = {name: one for name, one in memory.items() if name.removeprefix(COST) in names[:done]}
        told = list[str]()
        journal = Journal(memory=resumed, remember=partial(_last, told))
        assert searched(made, budget, journal=journal)[1] == whole
        assert told == names[done:]
