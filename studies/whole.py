"""Do models get a certified circuit if no head is pruned?

The laptop's recipe prunes heads that a model can do without once it has learned its last hop. In this study,
`prune_every` is None, and nothing else is changed. Twenty seeds are trained on three hops, with four layers of 16
heads. The quick search looks for the circuit of every model whose loss is below the threshold. A search that is left
with more than 64 rows is given up; its model has no card and no checks, and counts as not certified. The study reports
how many models are certified. For the other circuits, it reports the faithfulness with own patterns and uniform other
rows, and how many of the six checks pass.

Confirmed: the lower 95% Clopper-Pearson bound on the share of certified models among those that learned the task is
above one half. Refuted: the upper bound is below one half. Otherwise inconclusive.

    python -m studies whole results/studies/whole
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import hopscope as hs
from studies.tools import records
from studies.tools.circuits import HASTY, Search
from studies.tools.conditions import finished
from studies.tools.judgements import Judgement, most_of
from studies.tools.study import Study
from studies.tools.work import Work


@dataclass(frozen=True)
class WholeStudy:
    """The runs to train, and how circuits are searched for."""

    setups: tuple[hs.Setup, ...]
    search: Search = field(default_factory=Search)

    @classmethod
    def of(cls, recipe: hs.Recipe) -> WholeStudy:
        """Return the study of a recipe."""
        problem, recipe = hs.RetrievalProblem(hops=3), replace(recipe, prune_every=None)
        return cls(tuple(hs.Setup(f"whole-{seed}", problem, recipe, (seed,)) for seed in range(1000, 1020)))


@dataclass(frozen=True)
class WholeModel:
    """One model: its loss (None if it diverged), whether the loss is below the threshold, and its circuit.

    Attributes:
        not_off: how many rows of the circuit are active or at their mean; if the search was given up, the rows left.
        faithfulness: with own patterns and uniform other rows; None if no circuit was found.
        failed: the checks that the circuit did not pass.
    """

    seed: int
    loss: float | None
    learned: bool = False
    paths: int = 0
    not_off: int = 0
    faithfulness: float | None = None
    failed: tuple[str, ...] = ()

    @property
    def certified(self) -> bool:
        """Whether its circuit passed all checks."""
        return self.paths > 0 and not self.failed

    @classmethod
    def of(cls, circuit: hs.Circuit) -> WholeModel:
        """Return the numbers of a model's circuit."""
        loss, card, failed = circuit.losses["full"], circuit.card, tuple(circuit.failed)
        if card is None:
            left = int(circuit.checks["sufficiency"].numbers.get("rows_left", 0))
            return cls(circuit.seed, loss, loss < circuit.max_loss, not_off=left)
        return cls(circuit.seed, loss, True, len(circuit.paths), card.size.not_off, card.own.uniform, failed)


@dataclass(frozen=True)
class WholeResult:
    """The results of all models."""

    models: tuple[WholeModel, ...]


def run(study: WholeStudy, folder: Path, work: Work) -> WholeResult:
    """Train the runs that are missing, and find the circuit of every model, which is stored in its run folder."""
    work.train(study.setups, folder / "runs")
    models = []
    for trained in finished(study.setups, folder / "runs").values():
        (ended,) = trained.result.models
        if ended.diverged:
            models.append(WholeModel(ended.seed, None))
        elif not work.judge_only or (trained.path / "circuit.json").exists():
            found = trained[0].find_circuit(effort=study.search.budget, proof=study.search.proof, progress=False)
            models.append(WholeModel.of(found))
    return WholeResult(tuple(models))


def judge(result: WholeResult) -> list[Judgement]:
    """Judge by the rule in the module's docstring."""
    learned = [model for model in result.models if model.learned]
    others = [model for model in learned if model.paths and not model.certified]
    also = f"{sum(not model.paths for model in learned)} given up"
    if others:
        faithful, passed = median(m.faithfulness or 0 for m in others), median(6 - len(m.failed) for m in others)
        also += f"; median of the {len(others)} others: faithfulness {faithful:.3f}, {passed:g} of 6 checks"
    return [most_of("most whole models that learned the task are certified", [m.certified for m in learned], also)]


def table(result: WholeResult) -> str:
    """Return a Markdown table with a row for each model."""
    rows = []
    for model in result.models:
        verdict = "certified" if model.certified else ", ".join(model.failed) or ("given up" if model.learned else "-")
        loss, faithful = (f"{number:.3f}" if number is not None else "-" for number in (model.loss, model.faithfulness))
        rows.append((model.seed, loss, model.paths or "-", model.not_off or "-", faithful, verdict))
    return records.markdown_table(("seed", "loss", "paths", "rows not off", "faithfulness", "failed checks"), rows)


STUDY = Study(
    "whole", "Do models get a certified circuit if no head is pruned?", WholeResult, WholeStudy.of,
    lambda recipe: WholeStudy((hs.Setup("whole", hs.RetrievalProblem(hops=1), recipe, (0,)),), HASTY),
    run, judge, table, recipe=hs.recipes.LAPTOP,
)  # fmt: skip
