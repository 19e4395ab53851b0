"""Rows that look at all chains alike: what is shared, what stays, and what a certificate makes of it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from studies.calibration.hosts import Host, hand_built

from hopscope.circuits.checks import Evidence, certify
from hopscope.circuits.checks.attended import _moved
from hopscope.circuits.checks.harness import harness
from hopscope.circuits.evaluate import evaluator
from hopscope.circuits.evaluate.ablations import ALIKE, KEEP, POSITIONAL, UNIFORM, Interventions, one_hot
from hopscope.circuits.evaluate.apply import PatternCache
from hopscope.circuits.evaluate.chains import ChainsSeen
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.rewired import ChainsAlike, OtherChains, errors_alike, errors_rewired
from hopscope.circuits.evaluate.role_maps import coordinates
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.gauge import Gauge
from hopscope.circuits.search.orders import search
from hopscope.circuits.search.simplify import told_alike
from hopscope.model.hooks import Hooks
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import held_out
from studies.calibration import study as calibration
from studies.calibration.loud import Loud, with_loud
from studies.calibration.resting import Rest, resting

QUERY, NAMED = 4, 3


@pytest.fixture(scope="module")
def host() -> Host:
    return hand_built(2, 0, 64, 0.05)


def _pattern(evaluator: VectorEvaluator) -> torch.Tensor:
    allowed, generator = evaluator.where.allowed, torch.Generator().manual_seed(0)
    scores = torch.randn(1, evaluator.sequences, 3, *allowed.shape, generator=generator)
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)


def test_every_role_has_as_much_in_the_own_chain_as_in_others_but_for_what_is_named(host: Host) -> None:
    """Head 2 of layer 2; an oracle in plain loops."""
    evaluator, where = host.evaluator, host.evaluator.where
    before = _pattern(evaluator)
    row = HeadRow(1, 1, QUERY)
    after = ChainsAlike(Hooks(), {row: (NAMED,)}, where).pattern(1, before)
    assert torch.equal(after[:, :, [0, 2]], before[:, :, [0, 2]])
    is_query = where.role == QUERY
    assert torch.equal(after[0, :, 1][~is_query], before[0, :, 1][~is_query])
    assert torch.allclose(after.sum(dim=-1), torch.ones(()), atol=1e-6)
    for sequence in range(4):
        for query in is_query[sequence].nonzero().flatten().tolist():
            was, now = before[0, sequence, 1, query], after[0, sequence, 1, query]
            wanted = was.clone()
            kept = {query}
            for role in range(where.roles):
                seen = [key for key in range(query + 1) if int(where.role[sequence, key]) == role]
                own = [key for key in seen if int(where.relation[sequence, query, key]) == role and key != query]
                others = [key for key in seen if key not in own and key != query]
                if role == NAMED:
                    kept |= {*own}
                elif own:
                    wanted[own] = was[others].mean() if others else 0.0
            rest = [key for key in range(query + 1) if key not in kept]
            wanted[rest] *= was[rest].sum() / wanted[rest].sum()
            assert torch.allclose(now, wanted, atol=1e-6)


@given(seed=st.integers(0, 99))
def test_nothing_tells_what_a_row_would_see_in_its_own_chain(seed: int) -> None:
    """Whatever scores keys of its own chain have, the pattern is the same; rules 10 let the weight on itself tell."""
    where = coordinates(held_out(RetrievalProblem(hops=2), 4), causal=True)
    generator = torch.Generator().manual_seed(seed)
    scores, more = (torch.randn(1, 4, *where.allowed.shape, generator=generator) for _ in range(2))
    itself = torch.eye(where.allowed.shape[-1], dtype=torch.bool)
    own = (where.relation < where.roles) & ~itself
    patterns = [
        one.masked_fill(~where.allowed, -torch.inf).softmax(dim=-1) for one in (scores, torch.where(own, more, scores))
    ]
    chains = ChainsSeen(where)
    shared = chains.shared(dict.fromkeys(range(where.roles), ()))
    found, same = (chains.alike(one, shared) for one in patterns)
    torch.testing.assert_close(found, same)
    assert torch.allclose(found.sum(dim=-1), torch.ones(()), atol=1e-5)
    assert (patterns[0] - patterns[1]).abs().max() > 0.01


def test_the_form_is_the_edit_without_named_keys(host: Host) -> None:
    """In a program, beside other forms of the same head and layer, and as the plain transformer has it."""
    evaluator, rows = host.evaluator, [HeadRow(0, 0, 1), HeadRow(0, 0, 3), HeadRow(2, 1, QUERY)]
    program = dict.fromkeys(rows, ALIKE) | {HeadRow(0, 0, 2): UNIFORM, HeadRow(0, 1, 1): one_hot(0)}
    rest = {row: form for row, form in program.items() if form != ALIKE}
    (found,) = evaluator.errors([program])
    torch.testing.assert_close(found.double().mean(dim=1), errors_alike(evaluator, rest, dict.fromkeys(rows, ())))
    assert (found - evaluator.errors([rest])[0]).abs().max() > 1e-3
    torch.testing.assert_close(evaluator.plain_errors(evaluator.edit(program)), found, atol=1e-5, rtol=1e-4)


def test_what_is_alike_is_put_in_place_by_hand_too(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """`harness` compares every position with its own reckoning: tools that leave a row as it is are seen."""
    rows = host.units.on(host.circuit)
    program = {**host.circuit, rows[0]: ALIKE}
    evidence = Evidence(host.evaluator, host.units.hypotheses, program, host.bar, 1, calibration.QUICK, "natural")
    assert harness(evidence).passed
    monkeypatch.setattr(PatternCache, "alike", lambda self, pattern, forms: pattern)
    assert not harness(evidence).passed


def test_a_row_that_needs_its_key_is_not_told_to_look_alike(host: Host) -> None:
    """It is no longer a path then, the circuit breaks, and a search does not say it of any row."""
    for path in host.units.paths(host.circuit):
        program = {**host.circuit, path.row: ALIKE}
        assert path not in host.units.paths(program)
        assert host.losses(program)[0] > 0.1
    gauge = Gauge.confirming(host.evaluator, SearchConfig.of("quick"))
    natural = host.units.natural(host.circuit)
    assert told_alike(gauge, host.units, natural) == natural


def test_a_search_says_of_a_head_at_rest_that_all_chains_are_alike_to_it(host: Host) -> None:
    """And so the row is a helper, and what it looks at besides is no path; the circuit is certified."""
    rest = Rest(0, 1, 0.2, 3, places=host.evaluator.problem.chains, bears=0.5, loud=80.0)
    evaluator, path = resting(host.evaluator, rest), rest.path(host.evaluator.problem, 3)
    units = Units.of(evaluator)
    assert path.key in units.hypotheses.heavy(path.row)
    found = search(evaluator, units, SearchConfig.of("quick"), None)
    assert found[path.row] == ALIKE
    assert units.natural(found)[path.row] == ALIKE
    assert units.paths(found) == host.units.paths(host.circuit)
    evidence = Evidence(evaluator, units.hypotheses, found, host.bar, 1, calibration.QUICK, "natural")
    assert evidence.helpers == [path.row]
    assert evidence.as_they_are == {}
    assert certify(evidence).failed == ()


def test_the_queries_may_be_the_last_positions_alone(host: Host) -> None:
    """As in the last block, which is computed where it is read."""
    evaluator, last = host.evaluator, host.evaluator.shape.reads
    before = _pattern(evaluator)
    edit = ChainsAlike(Hooks(), {HeadRow(0, 2, QUERY): ()}, evaluator.where)
    assert torch.equal(edit.pattern(0, before[..., -last:, :]), edit.pattern(0, before)[..., -last:, :])


def test_rows_that_see_other_chains_alone_have_all_their_weight_there(host: Host) -> None:
    """But for what lies on the position itself; the others stay to the bit."""
    where, before, row = host.evaluator.where, _pattern(host.evaluator), HeadRow(1, 1, QUERY)
    after = OtherChains(Hooks(), [row], where).pattern(1, before)
    is_query = (where.role == QUERY)[:, None, :, None] & (torch.arange(3) == row.head)[None, :, None, None]
    assert torch.equal(after[0].masked_fill(is_query, 0), before[0].masked_fill(is_query, 0))
    gone = (where.relation < where.roles) & ~torch.eye(where.relation.shape[-1], dtype=torch.bool)
    wanted = before[0, :, 1].masked_fill(gone, 0)
    wanted = wanted / wanted.sum(dim=-1, keepdim=True)
    asked = where.role == QUERY
    torch.testing.assert_close(after[0, :, 1][asked], wanted[asked])


def test_words_of_no_chain_keep_their_weight(host: Host) -> None:
    """A place of a role that no chain has there, as instructions in a prompt, is not shared with any other."""
    where = host.evaluator.where
    place = where.place.clone()
    first = where.role[:, 0]
    for sequence, role in enumerate(first.tolist()):
        place[sequence, :, role][place[sequence, :, role] == 0] = -1
    before = _pattern(host.evaluator)
    without = type(where)(where.role, where.relation, where.allowed, place, where.visible)
    after = ChainsAlike(Hooks(), {HeadRow(0, 0, QUERY): (NAMED,)}, without).pattern(0, before)
    assert torch.equal(after[..., 0], before[..., 0])


def test_a_row_that_looks_at_its_key_alone_may_be_as_it_is(host: Host) -> None:
    """The control: the same circuit with all rows as they are, each naming its key, is certified."""
    rows = host.units.on(host.circuit)
    program = {**host.circuit, **dict.fromkeys(rows, KEEP)}
    evidence = Evidence(host.evaluator, host.units.hypotheses, program, host.bar, 1, calibration.QUICK, "natural")
    assert evidence.as_they_are == {path.row: (path.key,) for path in host.units.paths(host.circuit)}
    found = certify(evidence)
    assert found.failed == ()
    assert found.number("sufficiency", "alike_mse") < 1e-3


def test_a_helper_that_brings_a_part_of_the_answer_fails_sufficiency_alone(host: Host) -> None:
    """It looks towards the key in half of the sequences, away from it in the rest, and writes the contrary there: its
    mean knows nothing, so that no path and no mean says what it does. Rules 7 certified it."""
    path = max(host.units.paths(host.circuit))
    loud = Loud(path, 0.45, 0.03, 7)
    evaluator, row = with_loud(host.evaluator, loud), loud.row(3)
    patterns = evaluator.transformer.patterns(evaluator.batch.inputs[None])
    assert min(float(one.min()) for one in patterns) >= 0  # attention that a softmax could give
    assert torch.allclose(evaluator.plain_errors(), host.evaluator.plain_errors(), atol=1e-5)
    hypotheses = Units.of(evaluator).hypotheses
    program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, row: KEEP}
    needed = evaluator.mse([program, {**program, row: hypotheses.mean(row)}])
    assert needed[0] < 1e-3
    assert needed[1] > 0.06
    assert float(errors_alike(evaluator, program, {row: ()}).mean()) > 0.06
    found = certify(Evidence(evaluator, hypotheses, program, host.bar, 1, calibration.QUICK, "natural"))
    assert found.failed == ("sufficiency",)
    assert found.number("sufficiency", "helper_rows") == 1
    assert found.number("sufficiency", "natural_mse") < 1e-3
    assert found.number("sufficiency", "alike_mse") > 0.06


def test_a_helper_may_not_tie_the_pair_of_the_chain_that_stands_first(host: Host) -> None:
    """Its query sees no other chain's key, so that there is none to look at as much: rules 10 left it as it was, and
    `places` alone refused this."""
    path = min(host.units.paths(host.circuit))
    evaluator = with_loud(host.evaluator, loud := Loud(path, 1.0, 0.08, 7, first=True))
    assert torch.allclose(evaluator.plain_errors(), host.evaluator.plain_errors(), atol=1e-5)
    hypotheses, row = Units.of(evaluator).hypotheses, loud.row(3)
    assert hypotheses.chainless(row)
    program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, row: KEEP}
    found = certify(Evidence(evaluator, hypotheses, program, host.bar, 1, calibration.QUICK, "natural"))
    assert found.failed == ("sufficiency", "places")
    assert found.number("sufficiency", "natural_mse") < 1e-3
    assert found.number("sufficiency", "alike_mse") > 0.06


@pytest.mark.parametrize("sequences", [1, 8])
def test_a_row_at_its_positional_mean_is_averaged_over_all_sequences_where_few_go_through_at_once(
    host: Host, sequences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a wide model. Share by share, such a row got its own pattern back."""
    whole = host.evaluator
    position = evaluator.BYTES_A_POSITION * whole.shape.d_model
    monkeypatch.setattr(evaluator, "ACTIVATIONS", position * whole.where.role.shape[1] * sequences)
    few = VectorEvaluator(whole.transformer, whole.problem, whole.batch, whole.initial)
    assert len(few.shares_for([host.circuit])) == -(-whole.sequences // sequences)
    program = {**host.circuit, max(host.units.paths(host.circuit)).row: POSITIONAL}
    wanted = whole.errors([program])[0].double().mean(dim=1)
    assert float(wanted.mean()) > 0.1
    for found in (errors_alike(few, program, {}), errors_rewired(few, program, {}, [], 1)):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    off = [row for row in whole.live_rows if program[row] == UNIFORM]
    for some in (program, host.circuit):
        gathered = [errors_rewired(one, some, {}, off, 1) for one in (few, whole)]
        torch.testing.assert_close(*gathered, rtol=1e-4, atol=1e-6)
    moved = [[one.rise.mean for one in _moved(_judged(host, program), model, program)] for model in (few, whole)]
    assert moved[0] == pytest.approx(moved[1], abs=1e-5)


def _judged(host: Host, program: Interventions) -> Evidence:
    return Evidence(host.evaluator, host.units.hypotheses, program, host.bar, 1, calibration.QUICK)


def test_a_head_that_ties_pairs_may_be_off_at_its_positional_mean_where_it_looks_back_from_names(host: Host) -> None:
    """What it gathers there serves nobody."""
    tie = min(host.units.paths(host.circuit))
    roles = {row.query: row for row in host.evaluator.live_rows if row[:2] == (tie.layer, tie.head)}
    names = {row: POSITIONAL for role, row in roles.items() if host.circuit[row] == UNIFORM and role < QUERY}
    asked = Evidence(host.evaluator, host.units.hypotheses, {**host.circuit, **names}, host.bar, 1, calibration.QUICK)
    assert asked.background == sorted(names)
    assert certify(asked).failed == ()
