"""A model that diverged ends no study: it has no circuit, makes no look-up, and counts where models are counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from planted_arms import arm
from planted_circuits import DOUBLING, seen
from studies.tools.asking import study as ask_study
from studies.tools.kept import study_form
from studies.tools.moving_rows import places_of

import hopscope as hs
from hopscope.circuits.store import circuit_path
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import REFERENCE, Execution
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import train_all
from studies import census, conditional, places, pruning, rows
from studies.census import CensusResult
from studies.conditional import ConditionalResult
from studies.figures.pruning import pruning as pruning_figure
from studies.places import PlacesResult
from studies.pruning import PruningResult
from studies.rows import RowsResult
from studies.tools.by_place import ByPlace, RowsMoved
from studies.tools.circuits import (
    HASTY,
    by_one_rule,
    diverged,
    find_circuits,
    look,
    rules_in_words,
    seen_table,
)
from studies.tools.followed import checkpoints_after_learning
from studies.tools.judgements import Judgement
from studies.tools.work import Work

WILD = Recipe(
    layers=2, heads=2, d_model=8, mlp=False, steps=4, batch_size=4, validation_size=4, learning_rate=1e30, clip=None
)
SETUP = Setup("2-layers/seed-000", RetrievalProblem(hops=2), WILD, (0,))
LOST = seen((), 7, loss=None, strategy="none", delivers=False, model="lost")


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose model diverged."""
    folder = tmp_path_factory.mktemp("wild")
    train_all([SETUP], folder, execution=Execution(workers=1))
    return folder


def test_a_run_that_diverged_has_no_circuit(wild: Path, tmp_path: Path) -> None:
    """It is not searched, and known from then on: in its process, alone, and where nothing is run."""
    run = RunFolder(wild / SETUP.name)
    assert diverged(run)
    look(run.path, None, HASTY)
    (found,) = find_circuits([SETUP], wild, Work(workers=1), HASTY)
    assert (found.loss, found.paths, found.certified, found.strategy) == (None, (), (), "none")
    assert (found.model, found.seed, found.layers, found.hops) == (SETUP.name, 0, 2, 2)
    assert not circuit_path(run.path).exists()
    assert find_circuits([SETUP], wild, Work(judge_only=True), HASTY) == (found,)
    assert find_circuits([SETUP], tmp_path, Work(judge_only=True), HASTY, [found]) == (found,)
    form = study_form("census", CensusResult)
    form.write(tmp_path / "census.json", CensusResult((found,), ()))
    assert form.read(tmp_path / "census.json").models == (found,)


def test_a_run_that_diverged_makes_no_look_up(wild: Path) -> None:
    (found,) = places_of([SETUP], wild, (), Work(), lambda problem: (1, 2), 4)
    assert (found.losses, found.moved) == ((None, None), ())
    assert not any(found.makes(hop) or found.goes_by_place(hop) for hop in (1, 2))
    assert found.rise(1) == 0


@pytest.mark.parametrize("module", [census, places, pruning])
def test_the_verb_ends_and_goes_on(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(recipe: Recipe) -> Any:
        return replace(before(recipe), recipe=replace(WILD, checkpoint_every=None))

    before: Callable[[Recipe], Any] = module.STUDY.quick
    monkeypatch.setattr("hopscope.plot.style.FORMATS", ("svg",))
    monkeypatch.setattr(module, "STUDY", replace(module.STUDY, quick=quick))
    name = module.STUDY.name
    once = ask_study(name, tmp_path / name, quick=True, workers=1, precision="fp32")
    assert ask_study(name, tmp_path / name, quick=True, workers=1, precision="fp32").told == once.told
    assert not {one.verdict for one in once.judgements} & {"as asked", "not as asked"}


def test_the_census_counts_it_among_the_models() -> None:
    models = [seen(DOUBLING, seed, [DOUBLING]) for seed in range(3)]
    result = CensusResult((*models, LOST), (seen(DOUBLING, 0),), (ByPlace("lost", (None,) * 3, ()),))
    assert "| models | 4 |\n| with a circuit | 3 |" in census.table(result)
    assert census.judge(result)[:4] == census.judge(replace(result, models=tuple(models)))[:4]
    assert result.depths == [4]


def test_pruning_that_made_a_model_diverge_cost_it_the_bar() -> None:
    whole = [seen(DOUBLING, seed, model=f"all-heads/{seed}") for seed in range(36)]
    pruned = [seen(DOUBLING, seed, model=f"pruned/{seed}", loss=0.02) for seed in range(36)]
    lost = [replace(LOST, seed=0), *pruned[1:]]
    good, bad = (PruningResult(0.05, tuple(one), tuple(whole), (5,) * 36) for one in (pruned, lost))
    costs = [pruning.judge(one)[2] for one in (good, bad)]
    assert [one.verdict for one in costs] == ["as asked", "not as asked"]
    assert costs[1].ours.endswith("loss +0.0100 (+0.0100 to +0.0100), 1 diverged")
    never = replace(bad, whole=tuple(replace(one, loss=None) for one in whole))
    assert pruning.judge(never)[2].verdict == "not run"
    alone = replace(bad, pruned=bad.pruned[:1], left=(5,))
    assert pruning.judge(alone)[2].ours == "0 of 1 (0% to 98%); 1 diverged"
    assert pruning.judge(alone)[0].verdict == "not run"
    told = pruning.table(bad)
    assert "| models | 36 | 36 | 0 |" in told
    assert "| hold the bar | 35 of 36 (85% to 100%) |" in told
    assert len(pruning_figure(bad).axes) == 2


def test_its_rules_are_those_of_no_certificate() -> None:
    judged, other = Judgement("asked", "as asked"), [seen(DOUBLING, rules=2), replace(LOST, rules=4)]
    assert by_one_rule(judged, other) == judged
    assert by_one_rule(judged, [*other, seen(DOUBLING, rules=3)]).verdict == "inconclusive"
    assert (rules_in_words(other), rules_in_words([LOST])) == ("by rules 2", "by rules -")


def test_tables_say_that_it_diverged() -> None:
    assert "| lost | diverged | none | 0 (-) | no | no |" in seen_table([LOST])
    asked = ByPlace("relatives-4-layers/seed-0", (None,) * 4, ())
    learned = arm("relatives-4-layers", RetrievalProblem(4, 2, graph="relatives"), [[None] * 4], layers=4)
    found = ConditionalResult(0.05, (learned,), (replace(LOST, model=asked.model),), (asked,))
    assert found.solved("relatives") == []
    assert f"| {asked.model} | diverged |" in seen_table(found.models)
    assert "| diverged | - | - | - | - |" in conditional.table(found)
    assert [one.verdict for one in conditional.judge(found)[-2:]] == ["not run", "not run"]


def test_it_goes_neither_by_place_nor_by_what_rows_hold() -> None:
    two = RetrievalProblem(hops=2, chains=2)
    learned = arm("2-chains-2-layers", two, [[None, None], [10, 20]], layers=2, heads=16)
    moved = (RowsMoved(1, 1, (0.0, 1.5), (0.0, 1.5), (0.0, 0.9), 0.3),)
    asked = (ByPlace(f"{learned.name}/a", (None, None), ()), ByPlace(f"{learned.name}/b", (0.0, 0.02), moved))
    found = PlacesResult((learned,), asked)
    assert [one.model for one in found.of(learned)] == [asked[1].model]
    assert f"| {asked[0].model} | diverged | - | - | - | - |" in places.table(found)
    early = RowsResult((learned,), asked)
    assert [one.model for one, _ in early.early()] == [asked[1].model]
    assert "diverged" not in rows.table(early)


def test_checkpoints_are_looked_at_to_where_it_diverged(tmp_path: Path) -> None:
    """Planted: it had learned by step 2, and its weights are numbers there; later they are none."""
    recipe = replace(WILD, steps=6, checkpoint_every=2, learning_rate=1e-3, log_every=1)
    path = hs.train(recipe, RetrievalProblem(hops=1), tmp_path / "a", execution=REFERENCE).path
    run = RunFolder(path)
    weights = {name: weight.clone() for name, weight in run.transformer(4).state_dict().items()}
    lost = {name: torch.full_like(weight, torch.nan) for name, weight in weights.items()}

    class Planted(RunFolder):
        result = replace(run.result, models=(replace(run.result.models[0], held_out_loss=None),))  # type: ignore[assignment]

        @property
        def regular_metrics(self) -> Any:
            class Learned:
                @staticmethod
                def first_below() -> list[tuple[int]]:
                    return [(2,)]

            return Learned()

        def transformer(self, step: int | None = None) -> Any:
            found = super().transformer(step)
            found.load_state_dict(weights if step is not None and step < 4 else lost)
            return found

    assert checkpoints_after_learning(Planted(path)) == [2]
    assert diverged(Planted(path))
    assert not any(diverged(run, step) for step in (None, 2, 4, 6))


def test_a_record_that_holds_a_number_holds_one_still() -> None:
    one = seen(DOUBLING, 0, loss=0.04)
    assert [one.holds(bar) for bar in (0.05, 0.04, 0.01)] == [True, False, False]
    assert [LOST.holds(bar) for bar in (0.05, 1e9)] == [False, False]
