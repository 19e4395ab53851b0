"""Planted circuits: labels that are right by measure, and certificates that say so."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch
from tiny_calibration import TINY

from hopscope.circuits.checks import Evidence, Sense, certify
from hopscope.circuits.evaluate.ablations import KEEP, POSITIONAL, UNIFORM, Ablation, AblationKind, knock_out, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.problem.graph import CONDITIONAL
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import held_out
from hopscope.training.recipe import Recipe
from studies.calibration import study as calibration
from studies.calibration.backup import Backup, backup_of, may_have_backup, with_backup
from studies.calibration.hosts import Deaf, Host, cut_down, hand_built
from studies.calibration.kinds import TRUE, Kind, Planted
from studies.calibration.labels import label
from studies.calibration.loud import Loud, with_loud
from studies.calibration.planting import plant
from studies.calibration.resting import Rest, resting
from studies.calibration.turns import Turns, by_turns


@pytest.fixture(scope="module")
def hosts() -> list[Host]:
    return [hand_built(2, seed, 64, 0.05) for seed in (0, 2)]


def test_hand_built_models_do_what_their_circuits_say(hosts: list[Host]) -> None:
    for host in hosts:
        assert max(host.losses(host.circuit)) < 1e-4
        for row in host.units.on(host.circuit):
            assert host.losses({**host.circuit, row: UNIFORM})[0] > 0.3
        assert len(host.heavy) > 2 * len(host.units.on(host.circuit))  # others attend as well, and do nothing
    assert hosts[0].circuit != hosts[1].circuit


@pytest.mark.parametrize("kind", get_args(Kind))
def test_what_is_planted_is_what_it_is_called_by_measure(kind: Kind, hosts: list[Host]) -> None:
    host, generator = hosts[0], torch.Generator().manual_seed(4)
    planted = plant(kind, host, hosts, generator)
    assert planted is not None
    assert label(kind, host, planted) == ("true" if kind in TRUE else "false")
    assert (planted.program == host.circuit) == (kind in ("true", "deaf tool", "backup key", "by turns"))


def test_a_head_that_rests_is_needed_and_what_it_looks_at_is_not(hosts: list[Host]) -> None:
    """Two hops: the second members of pair 1 look at the first ones, and rest at the start."""
    (host, _), rest = hosts, Rest(0, 1, 0.2, 3)
    evaluator, path = resting(host.evaluator, rest), rest.path(host.evaluator.problem, 3)
    assert path.describe(evaluator.names) == "layer 1 head 4: >x1 -> x0>"
    units = Units.of(evaluator)
    assert units.hypotheses.weights(path.row)[path.key] == pytest.approx(0.2)
    at_rest = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, path.row: KEEP}
    without = {**at_rest, path.row: Ablation(AblationKind.KNOCK_OUT, (path.key,))}
    with_it, idle, broken = evaluator.mse([at_rest, without, {**at_rest, path.row: UNIFORM}])
    assert idle < 1e-3
    assert idle < with_it < broken
    untrained = evaluator.with_untrained([(0, 3)], 0)
    assert untrained.mse([at_rest])[0] == pytest.approx(broken, rel=0.01)  # it looks everywhere alike


def test_a_head_at_rest_leaves_a_model_as_it_is() -> None:
    """One with norms and MLPs, which no hand built."""
    problem = RetrievalProblem(hops=2)
    model = Transformer(Recipe(layers=2, heads=2, d_model=16, steps=1, batch_size=4).architecture(problem))
    initialise(model, [0])
    known = VectorEvaluator(model.requires_grad_(False), problem, held_out(problem, 8))
    for weight, same in ((0.0, True), (0.2, False)):
        found = resting(known, Rest(0, 1, weight, 3)).plain_errors()
        assert torch.allclose(found, known.plain_errors(), atol=1e-6) == same


@pytest.mark.parametrize(("kind", "form"), [("idle key", KEEP), ("at rest", POSITIONAL)])
def test_only_a_whole_pattern_with_one_key_is_an_idle_key(kind: Kind, form: Ablation, hosts: list[Host]) -> None:
    """Nothing is planted with a label where the head looks nowhere, or where what it looks at breaks the circuit."""
    host = hosts[0]
    labels = {}
    for weight in (0.03, 0.13, 0.9):
        rest = Rest(0, 1, weight, 3)
        evaluator, path = resting(host.evaluator, rest), rest.path(host.evaluator.problem, 3)
        program = {**dict.fromkeys(evaluator.rows, UNIFORM), **host.circuit, path.row: form}
        labels[weight] = label(kind, host, Planted(program, "", path.row, evaluator))
    assert labels == {0.03: "true" if kind == "at rest" else "undecided", 0.13: "false" if kind == "idle key" else
                      "undecided", 0.9: "undecided"}  # fmt: skip


def test_a_backup_takes_weight_and_changes_no_answer() -> None:
    """Of the query's look at >x1 a quarter stays there; either of the two places would do, and no third one."""
    host = hand_built(1, 0, 64, 0.05)
    first, last = sorted(host.units.paths(host.circuit))
    problem = host.evaluator.problem
    assert [may_have_backup(problem, path) for path in (first, last)] == [False, True]
    backup = Backup(last, 0.25)
    made = with_backup(host.evaluator, backup)
    assert torch.allclose(made.plain_errors(), host.evaluator.plain_errors(), atol=1e-5)
    weights = Units.of(made).hypotheses.weights(last.row)
    assert (weights[last.key], weights[backup.key]) == (pytest.approx(0.25, abs=0.01), pytest.approx(0.75, abs=0.01))
    other = last.row._replace(head=(last.head + 1) % 3)
    assert Units.of(made).hypotheses.weights(other) == pytest.approx(host.units.hypotheses.weights(other), abs=1e-5)
    without = [(last.key,), (backup.key,), (last.key, backup.key)]
    *holds, breaks = made.mse([host.circuit, *({last.row: knock_out(*keys)} for keys in without)])
    assert max(holds) < 1e-3
    assert breaks > 0.3
    untrained = made.with_untrained([(last.layer, last.head)], 0)
    assert untrained.mse([{}])[0] > 0.3
    weights = Units.of(untrained).hypotheses.weights(last.row)
    assert weights[backup.key] < 2 * weights[last.key]  # a head with initial weights has no backup; it would be 7 times


def test_a_backup_is_false_only_where_the_key_can_be_done_without() -> None:
    """In a model whose look is not shared, the same circuit and row are no falsehood."""
    host = hand_built(1, 0, 64, 0.05)
    planted = plant("backup key", host, [host], torch.Generator().manual_seed(0))
    assert planted is not None
    assert planted.evaluator is not None
    assert label("backup key", host, planted) == "false"
    assert label("backup key", host, planted._replace(evaluator=host.evaluator)) == "undecided"


@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_a_circuit_whose_key_has_a_backup_fails_completeness_alone(hosts: list[Host], sense: Sense) -> None:
    """The circuit feeds the backup, so that in the natural sense it stands in within the circuit as well."""
    host = hosts[0]
    path = max(host.units.paths(host.circuit))
    evaluator = with_backup(host.evaluator, Backup(path, 0.5))
    hypotheses = Units.of(evaluator).hypotheses
    evidence = Evidence(evaluator, hypotheses, host.circuit, host.bar, 1, calibration.QUICK, sense)
    found = certify(evidence)
    assert found.failed == ("completeness",)
    assert found.number("completeness", "keys")[path.describe(evaluator.names)] < 0.1


def test_a_row_that_looks_by_turns_answers_as_before_and_looks_at_its_key_for_its_share() -> None:
    host = hand_built(1, 0, 64, 0.05)
    path = max(host.units.paths(host.circuit))
    made = by_turns(host.evaluator, Turns(path, 0.25, 7))
    assert torch.equal(made.plain_errors(), host.evaluator.plain_errors())
    weights = Units.of(made).hypotheses.weights(path.row)
    assert (weights[path.key], weights[backup_of(path.key)]) == (
        pytest.approx(0.25, abs=0.01),
        pytest.approx(0.75, 0.01),
    )
    (without,) = made.errors([{path.row: knock_out(path.key)}])
    assert (without.mean(dim=1) > 0.3).float().mean() == pytest.approx(0.25, abs=0.05)  # for the others nothing is lost
    again = made.with_untrained([(path.layer, path.head)], 0)
    weights = Units.of(again).hypotheses.weights(path.row)
    assert weights[backup_of(path.key)] < 2 * weights[path.key]  # a head with initial weights has no turns


@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_a_circuit_right_for_most_questions_fails_outside_alone(hosts: list[Host], sense: Sense) -> None:
    """For the rest its row looks elsewhere: enough stays for whatever is asked of the key by itself."""
    host = hosts[0]
    evaluator = by_turns(host.evaluator, Turns(max(host.units.paths(host.circuit)), 0.62, 7))
    evidence = Evidence(evaluator, Units.of(evaluator).hypotheses, host.circuit, host.bar, 1, calibration.QUICK, sense)
    assert certify(evidence).failed == ("outside",)


def test_a_loud_head_answers_as_before_and_is_what_its_share_comes_from(hosts: list[Host]) -> None:
    """Its mean brings what the circuit would lack; as much on any chain it brings nothing, and the loss is the
    share's square."""
    host = hosts[0]
    path = max(host.units.paths(host.circuit))
    loud = Loud(path, 0.4, 0.05)
    made, row = with_loud(host.evaluator, loud), loud.row(3)
    assert torch.allclose(made.plain_errors(), host.evaluator.plain_errors(), atol=1e-5)
    hypotheses = Units.of(made).hypotheses
    own = hypotheses.weights(path.row)[path.key]
    alike = 1 / host.evaluator.problem.sequence_length
    assert hypotheses.weights(row)[path.key] == pytest.approx(0.05 * own + 0.95 * alike, rel=0.1)
    assert hypotheses.chainless(row)
    program = dict.fromkeys(made.rows, UNIFORM) | host.circuit
    mean, blind, off = made.mse(
        [{**program, row: form} for form in (hypotheses.mean(row), hypotheses.blind(row), UNIFORM)]
    )
    assert mean < 1e-3
    assert blind == pytest.approx(off, rel=0.05)
    assert off > 0.05
    untrained = made.with_untrained([(row.layer, row.head)], 0)
    assert untrained.mse([{}])[0] == pytest.approx(off, rel=0.2)  # it looks at nothing more than at anything else


@pytest.mark.parametrize(
    ("form", "failed"),
    [("mean", ("sufficiency",)), ("positional", ("sufficiency",)), ("keep", ("sufficiency", "necessity"))],
)
def test_a_loud_head_is_refused_in_whatever_form_it_stands(
    hosts: list[Host], form: str, failed: tuple[str, ...]
) -> None:
    """At its mean, which is no path; at its positional one, which knows no chain; as a helper, which its mean could
    replace, and which brings a part of the answer. By no other parts."""
    host = hosts[0]
    loud = Loud(max(host.units.paths(host.circuit)), 0.45, 0.05)
    made, row = with_loud(host.evaluator, loud), loud.row(3)
    hypotheses = Units.of(made).hypotheses
    its = {"mean": hypotheses.mean(row), "positional": POSITIONAL, "keep": KEEP}[form]
    program = {**dict.fromkeys(made.rows, UNIFORM), **host.circuit, row: its}
    found = certify(Evidence(made, hypotheses, program, host.bar, 1, calibration.QUICK, "natural"))
    assert found.failed == failed


def test_a_loud_look_that_counts_as_a_path_is_not_false(hosts: list[Host]) -> None:
    """Where few positions are seen, the row's mean weight on its key is 0.1 above that on others: it is named."""
    host = hosts[0]
    found = [plant("loud background", host, hosts, torch.Generator().manual_seed(seed)) for seed in range(3)]
    for planted in found:
        assert planted is not None
        assert planted.evaluator is not None
        assert planted.row is not None
        hidden = Units.of(planted.evaluator).hypotheses.chainless(planted.row)
        assert hidden or label("loud background", host, planted) == "undecided"
    assert {label("loud background", host, one) for one in found if one is not None} == {"false", "undecided"}


def test_nothing_of_chains_is_planted_where_look_ups_meet(hosts: list[Host]) -> None:
    """Conditional retrieval has other roles: no head rests at a pair of a chain, and no pair is a key's backup."""
    problem = RetrievalProblem(graph="functions", hops=len(CONDITIONAL["functions"].steps))
    model = Transformer(Recipe(layers=2, heads=2, d_model=16, steps=1, batch_size=4).architecture(problem))
    evaluator = VectorEvaluator(model.requires_grad_(False), problem, held_out(problem, 8))
    last = len(problem.roles) - 1
    circuit = dict.fromkeys(evaluator.rows, UNIFORM) | {HeadRow(1, 0, last): one_hot(0)}
    host = replace(hosts[0], evaluator=evaluator, circuit=circuit)
    kinds: tuple[Kind, ...] = ("at rest", "idle key", "backup key", "by turns", "loud background")
    assert [plant(kind, host, [host], torch.Generator().manual_seed(0)) for kind in kinds] == [None] * 5


def test_another_key_of_the_same_symbol_is_not_false(hosts: list[Host]) -> None:
    """A planted path that holds the bar by the margin is equivalent, whatever was meant by planting it."""
    host = hosts[0]
    planted = plant("twin", host, hosts, torch.Generator().manual_seed(0))
    assert planted is not None
    same = planted._replace(program=host.circuit)
    assert label("twin", host, same) == "equivalent"


def test_tools_that_are_deaf_where_nothing_is_said_are_good_enough(hosts: list[Host]) -> None:
    """As in a layer all of whose heads training took away."""
    host = hosts[0]
    planted = plant("deaf tool", host, hosts, torch.Generator().manual_seed(3))
    assert planted is not None
    deaf = int(planted.what.split()[1]) - 1
    assert label("deaf tool", host, planted) == "false"
    mute = Deaf.copy(host.evaluator.transformer, -1)
    mute.blocks[deaf].attention.out.weight.zero_()
    without = replace(host, evaluator=VectorEvaluator(mute, host.evaluator.problem, host.evaluator.batch))
    assert label("deaf tool", without, planted) == "equivalent"


def test_a_trained_model_is_cut_down_to_what_is_clear(hosts: list[Host]) -> None:
    """Rows that do nothing go, those that do stay, and the bar stands in the gap."""
    host = hosts[0]
    paths = [path for path in host.heavy if path.row not in host.units.on(host.circuit)][:2]
    padded = host.circuit | {path.row: one_hot(path.key) for path in paths}
    made = cut_down("t", "trained", host.evaluator.transformer, host.evaluator.problem, padded, 64)
    assert made.units.on(made.circuit) == host.units.on(host.circuit)
    assert made.clear
    assert 0.02 <= made.bar <= 0.1


@pytest.mark.parametrize(
    ("kind", "sense", "failed"),
    [
        ("at rest", "natural", ()),
        ("aside", "natural", ()),
        ("spare look", "natural", ("completeness",)),
        ("idle key", "natural", ("sufficiency", "necessity", "completeness")),
        ("not imposed", "strict", ("sufficiency",)),
    ],
)
def test_only_these_parts_stand_against_it(
    kind: Kind, sense: Sense, failed: tuple[str, ...], hosts: list[Host]
) -> None:
    """Against what rules 3 certified, and nothing against a head at rest: all other parts pass. The row of an idle key
    that is as it is rests at one place, with nothing at all on others: rules 9 spread that over all chains. Nothing
    stands against a helper to which all chains are alike, unless its look could do what a path of the circuit does.
    """
    study = replace(TINY, sense=sense)
    made = (calibration._certified(study, hosts[0], hosts, kind, number) for number in range(9))
    found = next(one for one in made if one is not None and one.label in ("true", "false"))
    assert found.failed == failed
