"""Circuits of questions in which look-ups meet: tools that know rows of distractors, records that name their roles."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from known_run import imposed
from small_models import random_model, some_batch

from hopscope.circuits.checks import CertificateConfig, Check, Evidence
from hopscope.circuits.checks.delivery import check_delivery
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath, SearchRecord
from hopscope.circuits.evaluate.ablations import UNIFORM, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.explorer.exhibit import exhibits
from hopscope.plot.circuit import figure_5
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.statistics import Measured
from hopscope.training.execution import REFERENCE
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.trainer import train

PROBLEM = RetrievalProblem(3, chains=2, graph="functions")
PATHS = (
    "L1.H1 >0 -> i>", "L1.H1 >a -> f>", "L1.H1 >3 -> 0>", "L1.H2 >3 -> a>", "L1.H3 i? -> f?", "L2.H1 i? -> >0",
    "L2.H2 i? -> >a", "L3.H1 i? -> >3",
)  # fmt: skip


def paths(*written: str) -> list[AttentionPath]:
    return [AttentionPath.parse(path, PROBLEM.roles) for path in written]


def evidence(*written: str) -> Evidence:
    """The evidence on a model that knows nothing, said to have these paths."""
    evaluator = VectorEvaluator(random_model(PROBLEM, layers=3, heads=3), PROBLEM, some_batch(PROBLEM, 6))
    units = Units.of(evaluator)
    interventions = dict.fromkeys(evaluator.rows, UNIFORM) | {path.row: one_hot(path.key) for path in paths(*written)}
    proof = CertificateConfig(sequences=8, deciding=8, few=4, draws=2, halves=4)
    return Evidence(evaluator, units.hypotheses, interventions, 0.05, 1, proof)


def test_a_row_is_the_same_in_a_fact_and_in_its_distractors() -> None:
    evaluator = evidence().evaluator
    value, key = (PROBLEM.roles.index(name) for name in (">3", "a>"))
    pattern = evaluator.edit({HeadRow(0, 0, value): one_hot(key)}).pattern(
        0, evaluator.transformer.patterns(evaluator.batch.inputs[None])[0]
    )[0, :, 0]
    place = evaluator.where.place
    assert place.shape[1:] == (6, 9)
    for row in range(6):
        for sequence in range(len(place)):
            at = pattern[sequence, place[sequence, row, value]]
            assert at[place[sequence, row, key]] == 1
            assert at.sum() == 1
    assert (evaluator.where.place >= 0).all(dim=-1).all(dim=0).nonzero().flatten().tolist() == [0, 1]


@pytest.mark.parametrize("left_out", [None, *PATHS])
def test_a_circuit_without_one_of_the_look_ups_that_meet_is_no_circuit(
    left_out: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of delivery, where every row matters: it passes the whole circuit alone."""
    known = evidence(*(path for path in PATHS if path != left_out))
    monkeypatch.setattr(Evidence, "screened", lambda self, candidates, *limits: [1e3] * len(candidates))
    part = check_delivery(known)
    assert part.passed is (left_out is None)
    assert part.numbers["layers_needed"] == 3
    assert ("the paths carry 3 to the query" if part.passed else "and not 3") in part.says


def circuit(*written: str) -> Circuit:
    between = Measured(0.3, (0.2, 0.5))
    return Circuit(
        model="m", seed=0, number=0, problem=PROBLEM, layers=3, heads=3, max_loss=0.05,
        losses={"full": 0.01, "imposed": 0.03, "own": 0.02},
        paths=tuple(CircuitPath(path, "one_hot", 0.9, between, between) for path in paths(*written)),
        interventions=imposed(paths(*written), PROBLEM), others=(), search=SearchRecord(),
        checks={"sufficiency": Check("sufficiency", "passed", "")},
    )  # fmt: skip


def test_a_record_names_its_own_roles(tmp_path: Path) -> None:
    one = circuit(*PATHS)
    one.save(tmp_path / "circuit.json")
    assert Circuit.load(tmp_path / "circuit.json") == one
    assert one.to_json()["paths"][-1]["key"] == ">3"
    assert "i? -> >3" in str(one)
    assert "functions, 3 layers x 3" in str(one)


def test_a_role_of_a_chain_is_none_of_a_graph(tmp_path: Path) -> None:
    one = circuit(*PATHS)
    one.save(tmp_path / "circuit.json")
    with pytest.raises(InputError, match="'x0\\?' is not a role; the roles are i>, >0"):
        AttentionPath.parse("L1.H1 x0? -> >x1", one.roles)


def test_what_is_said_of_chains_is_said_of_graphs() -> None:
    assert circuit(*PATHS).strategy == "serial"
    assert circuit(*PATHS, "L2.H3 >a -> >3").strategy == "doubling"


def test_a_circuit_is_drawn_with_its_symbols() -> None:
    labels = {text.get_text() for text in figure_5(circuit(*PATHS)).axes[0].texts}
    assert {"i", "0", "f", "a", "3", "i?", "f?"} <= labels


def test_attention_between_rows_is_averaged_over_the_chains_that_have_both() -> None:
    """Rows of distractors have no other fact to attend to, so they are no reason to call attention weak."""
    problem = RetrievalProblem(3, chains=2, graph="functions", causal=False)
    evaluator = VectorEvaluator(random_model(problem, layers=1, heads=2), problem, some_batch(problem, 3))
    (pattern,), maps = evaluator.transformer.patterns(evaluator.batch.inputs[None]), evaluator.role_maps()
    query, key = (problem.roles.index(name) for name in ("a>", ">a"))
    place = evaluator.where.place
    weights = [
        pattern[0, sequence, 1, int(row[query]), int(row[key])]
        for sequence, rows in enumerate(place)
        for row in rows
        if row[query] >= 0 and row[key] >= 0
    ]
    assert len(weights) == 3 * problem.chains < int((place[..., query] >= 0).sum())
    assert float(maps.same[0, 0, 1, query, key]) == pytest.approx(float(torch.stack(weights).mean()), rel=1e-5)


def test_what_knows_chains_alone_says_so(tmp_path: Path) -> None:
    """The explorer and emergence, before they ask for a circuit."""
    recipe = Recipe(layers=2, heads=1, d_model=8, steps=2, batch_size=2, log_every=2, final_steps=1, validation_size=2)
    run = train(Setup("run", PROBLEM, recipe), tmp_path / "run", execution=REFERENCE)
    with pytest.raises(InputError, match=r"explorer shows models of chains, and .*run is of functions"):
        exhibits([run])
    with pytest.raises(InputError, match=r"emergence follows circuits of chains, and .*run is of functions"):
        emergence_of_run(run)
