"""What the repository keeps of runs is whole, and is read as it was written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hopscope.benchmark.points import SUMMARY
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.search.config import BUDGETS
from hopscope.emergence.history import Emergence
from hopscope.emergence.language import TEXT_EMERGENCE
from hopscope.integrity import check
from hopscope.paper.claims import read_claims
from hopscope.training.run import RunFolder

RESULTS = Path(__file__).parents[1] / "results"

ON_THEIR_PLATEAU = ("paper/readings/d-gpt2-scales-pair-codes", "paper-short/transformers/seed-9")
"""The stored runs that learn no hop."""


def stored(pattern: str) -> list[Path]:
    found = sorted(RESULTS.glob(f"**/{pattern}"))
    assert found, f"no {pattern} among the results"
    return found


def test_no_file_is_damaged():
    found = check(RESULTS)
    assert len(found) > 200
    assert not [result.trouble for result in found if result.trouble]


@pytest.mark.parametrize("path", stored("run.json"), ids=str)
def test_runs(path):
    run = RunFolder(path.parent)
    assert run.finished
    assert [model.seed for model in run.result.models] == list(run.seeds)
    assert run.metrics.steps[-1] == run.result.steps == run.schedule.end
    stays_on_its_plateau = path.parent.relative_to(RESULTS).as_posix() in ON_THEIR_PLATEAU
    assert (run.metrics.first_below()[0][0] is None) == stays_on_its_plateau  # x1 at least


@pytest.mark.parametrize("path", stored("circuit*.json"), ids=str)
def test_circuits(path):
    circuit = Circuit.load(path)
    assert len(circuit.losses) >= 1
    given_up = circuit.given_up and circuit.checks["sufficiency"].numbers["rows_left"] > BUDGETS["quick"].most_rows
    assert circuit.found or given_up or circuit.losses["full"] > circuit.max_loss


@pytest.mark.parametrize("path", stored("text/circuits/*.json"), ids=lambda path: path.stem)
def test_circuits_of_language_models(path):
    circuit = Circuit.load(path)
    assert circuit.text is not None
    assert f"{circuit.text.name}-{circuit.hops}-hops" in path.stem
    assert not circuit.found or circuit.text.lowest > circuit.text.floor


@pytest.mark.parametrize("path", stored("emergence.json"), ids=str)
def test_emergences(path):
    emergence = Emergence.load(path)
    assert len(emergence.paths) == len(Circuit.load(path.with_name("circuit.json")).paths)


def test_the_text_model_answers_once_its_last_path_is_there():
    found = TEXT_EMERGENCE.read(RESULTS / "own-model/three-hops/checkpoints.json")
    there = [min(point.attention) > 0.5 for point in found.checkpoints]
    assert there == [point.full.accuracy > 0.9 for point in found.checkpoints]


@pytest.mark.parametrize("path", stored("own-model/*/summary.json"), ids=str)
def test_benchmarks(path):
    points = SUMMARY.read(path).points
    assert points
    assert all(point.lowest <= point.accuracy <= point.highest for point in points)


@pytest.mark.parametrize("path", stored("claims.json"), ids=str)
def test_claims(path):
    assert [claim.id for claim in read_claims(path)] == [f"C{number}" for number in range(1, 22)]


def test_races_agree_as_closely_as_is_said():
    """Losses of all racers in fp32, to what the page on speed says of those of one model and of those of many."""
    said = " ".join((RESULTS.parent / "docs" / "speed.md").read_text().split())
    one, many = (float(re.search(rf"{words} (\S+e-\d)", said)[1]) for words in ("steps agree to", "they agree to"))
    races = [json.loads(path.read_text()) for path in sorted((RESULTS / "race").glob("*core*.json"))]
    assert max(race["agree_within"] for race in races if "agree_within" in race) <= one
    several = [racer for race in races for field in race.get("races", ()) for racer in field["racers"].values()]
    assert max(racer["differs_by"] for racer in several) <= many


def test_the_table_of_the_short_recipe_tells_the_losses_that_are_recorded() -> None:
    folder = RESULTS / "paper-short"
    stated = dict(re.findall(r"^\| (\d) \| ([0-9.]+) \|", (folder / "README.md").read_text(), flags=re.MULTILINE))
    for seed in range(10):
        result = json.loads((folder / "transformers" / f"seed-{seed}" / "result.json").read_text())
        assert stated[str(seed)] == f"{result['models'][0]['final_validation_loss']:.3f}"


def test_accuracy_by_line_of_language_models_averages_to_that_of_all_questions() -> None:
    summary = json.loads((RESULTS / "language-models" / "summary.json").read_text())
    by_step: dict[tuple[str, int, int], list[dict[str, float]]] = {}
    for row in summary["lines"]:
        by_step.setdefault((row["model"], row["hops"], row["step"]), []).append(row)
    points = {
        (point["model"], point["hops"]): point
        for point in summary["points"]
        if (point["form"], point["formulation"], point["mode"]) == ("code", "equations", "exact")
    }
    assert {(model, hops) for model, hops, _ in by_step} == {key for key in points if key[1] <= 4}
    for (model, hops, _), rows in by_step.items():
        asked = sum(row["n"] for row in rows)
        average = sum(row["n"] * row["accuracy"] for row in rows) / asked
        assert {row["place"] for row in rows} == {1, 2, 3, 4}
        assert abs(average - points[model, hops]["accuracy"]) < 0.003
