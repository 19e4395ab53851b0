"""Circuits of your own, not searched for: what is certified, what is refused, and what the message says."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command_line import call
from planted_models import LITTLE, witness

import hopscope as hs
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.ablations import KEEP, Ablation, AblationKind
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.find import Origin, check_custom_circuit
from hopscope.circuits.resume import run_search
from hopscope.errors import InputError
from hopscope.model.fast import FastTransformer
from hopscope.problem.paths import AttentionPath, HeadRow, PathGroup
from hopscope.training.data import held_out

RESULTS = Path(__file__).parents[2] / "results"
MADE = witness(2, spare_heads=2)
EVALUATOR = VectorEvaluator(MADE.transformer, MADE.problem, held_out(MADE.problem, 64, 0, "circuit search"))
PATHS = [path.describe(MADE.problem.roles) for path in MADE.circuit]
PROBLEM = hs.RetrievalProblem(hops=2, chains=2, symbol_dim=3)
TINY = hs.Recipe(layers=2, heads=2, d_model=8, steps=4, batch_size=4, log_every=2, final_steps=2, checkpoint_every=2)


def certified(given, max_loss: float | None = None, seed: int = 1) -> Circuit:
    return run_search(check_custom_circuit(EVALUATOR, given, max_loss, seed, Origin("a model"), LITTLE))


def failed(circuit: Circuit) -> set[str]:
    return set(circuit.failed)


def test_built_in_circuit_is_certified_from_text_paths_or_record() -> None:
    circuit = certified(PATHS)
    assert circuit.certified
    assert [path.path for path in circuit.paths] == sorted(MADE.circuit)
    assert circuit.imposed is None
    assert circuit.losses["own"] < 0.05
    assert certified(list(MADE.circuit)) == circuit  # typed values, as well as text
    again = certified(circuit)  # a record
    assert again == circuit
    assert "given, not searched for" in str(circuit)
    assert Circuit.to_json(circuit)["search"]["effort"] is None


@pytest.mark.slow
def test_a_found_circuit_typed_in_again_gets_the_same_card() -> None:
    model = hs.Model(MADE.transformer, MADE.problem)
    found = model.find_circuit(effort="quick", seed=0, proof=LITTLE)
    for circuit in (found, found.parts):
        given = model.check(circuit, seed=0, proof=LITTLE)
        assert (given.checks, given.card, given.losses) == (found.checks, found.card, found.losses)
        assert (given.paths, given.interventions) == (found.paths, found.interventions)


@pytest.mark.slow
def test_missing_path_extra_path_and_wrong_key_fail() -> None:
    assert "sufficiency" in failed(certified(PATHS[1:]))
    idle = AttentionPath(0, 1, MADE.circuit[0].query, MADE.circuit[0].key)  # a spare head writes nothing
    assert "necessity" in failed(certified([*MADE.circuit, idle]))
    *others, last = MADE.circuit
    wrong = last._replace(key=last.key - 1)
    refused = certified([*others, wrong])
    assert not refused.certified
    assert "right_keys" in failed(refused)


@pytest.mark.parametrize("needs", [1, 2])
def test_the_parts_of_a_circuit_are_its_interventions(needs: int) -> None:
    """Rows at whatever they can be at, a row with two keys, and a group: written and read again."""
    last = max(MADE.circuit)
    backup, second = last._replace(head=1), last._replace(key=1)
    rows = ["L1.H2 >x2=mean", "L1.H2 >x1=positional", "L2.H2 >x2=identity", "L2.H3 x0?=zero", "L1.H3 x0?=keep"]
    group = PathGroup((MADE.circuit[0], backup, backup._replace(head=2)), needs)
    spare = MADE.circuit[1]._replace(head=2)
    other = PathGroup((MADE.circuit[0], spare))  # a path in two groups, of which a row is as it is
    kept = f"{spare.row.describe(MADE.problem.roles)}=keep"
    circuit = certified([*MADE.circuit[1:], second, group, other, *rows, kept, "L1.H3 >x1=alike"])
    assert circuit.parts[0].startswith("2 of L") == (needs == 2)
    again = certified(circuit.parts)
    assert circuit.groups == again.groups == (group, other)
    assert again.interventions == circuit.interventions
    assert again == circuit
    assert {*rows, kept} <= {*circuit.parts}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted({weights.parents[1] for weights in RESULTS.rglob("step-*.safetensors")}), ids=str
)
def test_a_stored_circuit_typed_in_again_has_the_same_losses(path: Path) -> None:
    """The record and its parts, in the model whose weights are stored beside it."""
    model, record = hs.Run(path)[0], Circuit.load(path / "circuit.json")
    few = hs.CertificateConfig(sequences=64, few=16, deciding=64, draws=1, halves=4)
    given = [model.check(circuit, seed=record.search.seed, proof=few) for circuit in (record, record.parts)]
    assert given[0].losses == given[1].losses
    assert given[0].card == given[1].card


@pytest.mark.slow
def test_rows_and_heads_are_active_with_all_their_keys() -> None:
    row = f"L1.H1 {MADE.problem.roles[MADE.circuit[0].query]}"
    first, *others = MADE.circuit
    assert first.layer == first.head == 0
    circuit = certified([row, *others])
    interventions = circuit.interventions
    assert interventions[first.row] == KEEP
    assert first in [path.path for path in circuit.paths]
    whole = certified([f"L{layer + 1}.H1" for layer in range(EVALUATOR.shape.layers)])
    assert {row for row in whole.interventions if row.head == 0} <= {*EVALUATOR.live_rows}
    assert {*MADE.circuit} <= {path.path for path in whole.paths}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "a circuit needs at least one path"),
        ("L1.H1 >x1 -> x0>", "a circuit must be a Circuit or a list of parts, e.g."),
        (3, "a circuit must be a Circuit or a list of parts, e.g."),
        (["L9.H1 x0? -> >x1"], "layer must be from 1 to 3, got 9"),
        (["L1.H9 x0? -> >x1"], "head must be from 1 to"),
        ([HeadRow(7, 0, 0)], "layer must be from 1 to 3, got 8"),
        (["L1.H1 x9> -> x0>"], "x9>"),
        (["nonsense"], "a row is written like"),
        (["L3.H1 >x1 -> x0>"], "the output of L3.H1 >x1 -> x0> cannot reach an answer"),
        (["L1.H1 >x2 -> >x1"], "is not a path: its query must be able to attend to its key"),
        ([PATHS[0], PATHS[0]], "L1.H1 .* is given twice"),
        (["L1.H1 >x1 -> x0>", "L1.H1 >x1"], "L1.H1 >x1 is given twice"),
        ([*PATHS, "L1.H2 >x2=average"], "must be one of keep, alike, mean, positional, identity, zero, got"),
        ([*PATHS, "L1.H2 >x2 -> x1>=mean"], "is not a path: its query must be able to"),
        ([*PATHS, "L1.H2 >x2 or L1.H3 >x2"], "a group joins paths of several rows"),
        (["L1.H1 >x1 -> x0> or L1.H1 >x1 -> x1>"], "a group joins paths of several rows"),  # one would hide the other
        (["L2.H1 x0? -> x0?"], "its key, which is another role"),
    ],
)
def test_input_that_is_no_circuit_is_refused(given, says: str) -> None:
    with pytest.raises(hs.InputError, match=says):
        certified(given)


@pytest.mark.slow
def test_records_of_other_problems_or_without_circuit_are_refused() -> None:
    circuit = certified(PATHS)
    other = witness(1, spare_heads=2)
    evaluator = VectorEvaluator(other.transformer, other.problem, held_out(other.problem, 16, 0, "circuit search"))
    with pytest.raises(hs.InputError, match="'>x2' is not a role"):
        run_search(check_custom_circuit(evaluator, circuit, None, 1, Origin("other"), LITTLE))
    none = hs.Model(MADE.transformer, MADE.problem).find_circuit(effort="quick", max_loss=1e-9, proof=LITTLE)
    assert not none.found
    with pytest.raises(hs.InputError, match="a circuit needs at least one path"):
        certified(none)


@pytest.mark.slow
def test_mean_rows_of_a_record_take_the_models_own_mean() -> None:
    """Planted: a record says that a chain-agnostic row is ablated, and attends to its own chain's key."""
    circuit = certified(PATHS)
    spare = HeadRow(0, 1, MADE.circuit[0].query)
    weights = [0.0] * 10
    weights[MADE.circuit[0].key] = 1.0
    attending = Ablation(AblationKind.MEAN, (), tuple(weights))
    found = certified(replace(circuit, interventions={**circuit.interventions, spare: attending})).interventions[spare]
    assert found.kind is AblationKind.MEAN
    assert found.weights[MADE.circuit[0].key] < 0.5


@pytest.mark.parametrize("max_loss", [0, -1.0, float("nan"), float("inf"), "0.05", True])
def test_loss_threshold_out_of_range_is_refused(max_loss) -> None:
    with pytest.raises(hs.InputError, match="max_loss"):
        certified(PATHS, max_loss)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return hs.train(TINY, PROBLEM, tmp_path_factory.mktemp("given") / "run", seeds=[3, 5])


def test_checked_circuit_names_its_model(run) -> None:
    few = hs.CertificateConfig(sequences=32, deciding=64, few=16, draws=20, halves=8)
    paths = ["L1.H1 >x1 -> x0>", "L2.H1 x0? -> >x1"]
    circuit = run[1].check(paths, proof=few)
    assert (circuit.seed, circuit.number, circuit.certified) == (5, 1, False)
    assert circuit.model == run.model_hashes[1]
    assert run[1].at(2).check(paths, proof=few).model != circuit.model
    assert circuit.problem == PROBLEM
    assert run[0].check(circuit, max_loss=0.4, proof=few).max_loss == 0.4
    assert circuit.max_loss == 0.05


def test_certify_verb_writes_only_its_output(run, capsys) -> None:
    before = sorted(path.name for path in run.path.rglob("*"))
    paths = "L1.H1 >x1 -> x0>", "L2.H1 x0?", "L1.H2 >x2=positional"
    assert call("circuit", "certify", str(run.path), *paths, "--max-loss", "0.4", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["max_loss"] == 0.4
    assert (1, 1, ">x1", "x0>") in [(*path.values(),)[:4] for path in record["paths"]]
    assert [row["query"] for row in record["interventions"] if row["form"] == "positional"] == [">x2"]
    assert sorted(path.name for path in run.path.rglob("*")) == before
    assert call("circuit", "certify", str(run.path)) == 2
    assert re.search(r"circuit\.json does not exist; `hopscope circuit .*` makes it", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"causal": False}, "has causal=False, and .* causal=True"),
        ({"reads": 1}, "has answers=1, and .* answers=4"),
        ({"d_input": 7}, "has inputs=7, and .* inputs="),
    ],
)
def test_transformer_of_another_problem_is_refused(changed, says) -> None:
    other = FastTransformer(replace(MADE.transformer.shape, **changed))
    with pytest.raises(hs.InputError, match=says):
        hs.Model(other, MADE.problem)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_model_with_answers_that_are_not_finite_is_refused(value: float) -> None:
    transformer = deepcopy(MADE.transformer)
    with torch.no_grad():
        transformer.read.bias.fill_(value)
    evaluator = VectorEvaluator(transformer, MADE.problem, held_out(MADE.problem, 8, 0, "circuit search"))
    says = "answers are not finite, e.g. because training diverged; it has no circuit"
    with pytest.raises(InputError, match=says):
        hs.Model(transformer, MADE.problem).find_circuit(effort="quick")
    with pytest.raises(InputError, match=says):
        run_search(check_custom_circuit(evaluator, PATHS, None, 1, Origin("a model"), LITTLE))
