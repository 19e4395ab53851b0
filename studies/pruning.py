"""Can a circuit be certified once redundant heads are pruned?

Models of four layers of eight heads are trained on three hops by the plain recipe, in two conditions. In one, the
models keep all heads. In the other, heads that a model can do without are pruned once it has learned (`prune_every`).
Both conditions use the same seeds, so the two models of a seed are the same until the first head is pruned. Twenty
seeds are pruned, and the first ten of them are also trained with all heads. Sixty more seeds are trained and pruned by
the laptop's recipe, which has twice the heads and drops a tenth of them in every update until all hops are learned. The
circuits of the first forty of these seeds led to changes of the search and of its checks, so rule 4 counts only the
last twenty. The circuit of every model is found by the quick search and checked on fresh sequences.

Rules:

1. Most pruned models that learned the task have a certified circuit.
2. Pruning is the cause: of the seeds in both conditions, more are certified only when pruned than only with all heads.
3. Pruning costs no hop: a model below the loss threshold with all heads is below it when pruned.
4. Most models of the laptop's recipe that learned the task have a certified circuit, over the seeds from 7140 on.

Rules 1 and 4 are confirmed if the lower 95% Clopper-Pearson bound on the share of models is above one half, and refuted
if the upper bound is below one half. Rule 2 is confirmed if the two-sided sign test over seeds that differ gives p
below 5% in favour of pruning, and refuted if it gives p below 5% against pruning. Rule 3 is refuted if one seed is
below the threshold with all heads but not when pruned. It is confirmed if no seed is, and the upper 95% Clopper-Pearson
bound on the share that would be is below one tenth. Otherwise a rule is inconclusive. The size of circuits, their
similarity between seeds, and the loss by pruning are reported but not judged.

    python -m studies pruning results/studies/pruning
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import hopscope as hs
from hopscope.statistics import sign_test
from studies.tools import conditions
from studies.tools.circuits import HASTY, CircuitSummary, Search, find_circuits, rows_by_group
from studies.tools.inference import share_in_words, spread_in_words, t_interval
from studies.tools.judgements import Judgement, most_of, never
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

UNSEEN = 7140
"""The first seed of the laptop's recipe whose circuit did not influence the search or its checks."""


@dataclass(frozen=True)
class PruningStudy:
    """The models to train and examine.

    Attributes:
        recipe: the recipe of the models that keep all heads.
        prune_every: the recipe's `prune_every` in the pruned condition.
        hops: D.
        seeds: the seeds of the pruned condition.
        fresh: the seeds of the laptop's recipe.
        whole: how many of the first `seeds` are also trained with all heads.
        search: how circuits are searched for.
    """

    recipe: hs.Recipe
    prune_every: int = 40
    hops: int = 3
    seeds: tuple[int, ...] = tuple(range(7000, 7020))
    fresh: tuple[int, ...] = tuple(range(7100, 7160))
    whole: int = 10
    search: Search = field(default_factory=Search)

    @property
    def pruned_models(self) -> list[hs.Setup]:
        """One run for each model that is pruned."""
        recipe = replace(self.recipe, prune_every=self.prune_every)
        return conditions.runs_of(hs.Setup("pruned", self._problem, recipe, self.seeds), to_the_end=True)

    @property
    def whole_models(self) -> list[hs.Setup]:
        """One run for each model that keeps all heads."""
        condition = hs.Setup("all-heads", self._problem, self.recipe, self.seeds[: self.whole])
        return conditions.runs_of(condition, to_the_end=True)

    @property
    def laptop_models(self) -> list[hs.Setup]:
        """One run for each model of the laptop's recipe: twice the heads, with head dropout and pruning."""
        width = self.recipe.head_dim or self.recipe.d_model // self.recipe.heads
        heads = replace(self.recipe, heads=2 * self.recipe.heads, head_dim=width, prune_every=self.prune_every)
        recipe = replace(heads, head_dropout=0.1, head_dropout_after=1)
        return conditions.runs_of(hs.Setup("laptop", self._problem, recipe, self.fresh), to_the_end=True)

    @property
    def _problem(self) -> hs.RetrievalProblem:
        return hs.RetrievalProblem(hops=self.hops)


@dataclass(frozen=True)
class PruningResult:
    """The results of the study.

    Attributes:
        max_loss: the loss threshold of models and their circuits.
        pruned: the pruned models.
        whole: the models with all heads.
        left: how many heads are left in each of `pruned`.
        laptop: the models of the laptop's recipe.
        laptop_left: how many heads are left in each of `laptop`.
    """

    max_loss: float
    pruned: tuple[CircuitSummary, ...]
    whole: tuple[CircuitSummary, ...]
    left: tuple[int, ...]
    laptop: tuple[CircuitSummary, ...] = ()
    laptop_left: tuple[int, ...] = ()

    @property
    def pairs(self) -> list[tuple[CircuitSummary, CircuitSummary]]:
        """Pairs of a pruned model and the model of the same seed with all heads."""
        whole = {model.seed: model for model in self.whole}
        return [(model, whole[model.seed]) for model in self.pruned if model.seed in whole]

    @property
    def unseen(self) -> list[CircuitSummary]:
        """The models of the laptop's recipe that rule 4 counts: those with seeds from `UNSEEN` on."""
        return [model for model in self.laptop if model.seed >= UNSEEN]

    @property
    def earlier(self) -> list[CircuitSummary]:
        """The models of the laptop's recipe with seeds below `UNSEEN`."""
        return [model for model in self.laptop if model.seed < UNSEEN]


def standard(recipe: hs.Recipe) -> PruningStudy:
    """Return the study of a recipe."""
    return PruningStudy(recipe)


def quick(recipe: hs.Recipe) -> PruningStudy:
    """Return a tiny version that only shows that the study runs: a model of one hop."""
    recipe = replace(recipe, steps=240, decay_fraction=0.6)
    return PruningStudy(recipe, 20, hops=1, seeds=(0,), fresh=(UNSEEN,), whole=1, search=HASTY)


def run(study: PruningStudy, folder: Path, work: Work) -> PruningResult:
    """Train the models that are missing, and find the circuit of every model, seed by seed."""
    setups = sorted([*study.pruned_models, *study.whole_models, *study.laptop_models], key=lambda setup: setup.seeds)
    found: dict[str, list[CircuitSummary]] = {"pruned": [], "all-heads": [], "laptop": []}
    for summary in find_circuits(setups, folder / "runs", work, study.search):
        found[summary.model.split("/")[0]].append(summary)
    pruned, whole, laptop = map(tuple, found.values())
    runs = conditions.finished(setups, folder / "runs")
    of_pruned, of_laptop = (
        tuple(int(runs[model.model].metrics.heads[-1, 0]) for model in models) for models in (pruned, laptop)
    )
    return PruningResult(study.search.budget.max_loss, pruned, whole, of_pruned, laptop, of_laptop)


def judge(result: PruningResult) -> list[Judgement]:
    """Judge by the rules in the module's docstring."""
    pruned, laptop = (
        [model for model in models if model.solves(result.max_loss)] for models in (result.pruned, result.unseen)
    )
    return [
        most_of("most pruned models have a certified circuit", list(map(_certified, pruned))),
        _does_it(result.pairs),
        _costs(result),
        most_of("most models of the laptop's recipe have a certified circuit", list(map(_certified, laptop))),
    ]


def _does_it(pairs: Sequence[tuple[CircuitSummary, CircuitSummary]]) -> Judgement:
    """Judge by rule 2."""
    hypothesis = "the same seed is certified more often without redundant heads"
    if not pairs:
        return Judgement(hypothesis, "not run")
    changes = [_certified(pruned) - _certified(whole) for pruned, whole in pairs]
    p, n = sign_test(changes), len(changes)
    observed = f"{changes.count(1)} only when pruned, {changes.count(-1)} only with all heads, p = {p:.2g}"
    if p < 0.05:
        return Judgement(hypothesis, "confirmed" if sum(changes) > 0 else "refuted", observed, n)
    return Judgement(hypothesis, "inconclusive", observed, n, "too few models to tell")


def _costs(result: PruningResult) -> Judgement:
    """Judge by rule 3."""
    hypothesis = "a model below the threshold with all heads is below it when pruned"
    solved = [(pruned, whole) for pruned, whole in result.pairs if whole.solves(result.max_loss)]
    if not solved:
        return Judgement(hypothesis, "not run")
    lost, n = sum(not pruned.solves(result.max_loss) for pruned, _ in solved), len(solved)
    observed = f"{share_in_words(n - lost, n)}; {_rise(solved)}"
    return never(hypothesis, observed, n, happened=bool(lost))


def _rise(pairs: Sequence[tuple[CircuitSummary, CircuitSummary]]) -> str:
    """Return, in words, how much higher the loss is when pruned than with all heads, and how many pairs diverged."""
    rise = [pruned.loss - whole.loss for pruned, whole in pairs if pruned.loss is not None and whole.loss is not None]
    lost = f"{len(pairs) - len(rise)} diverged" if len(rise) < len(pairs) else ""
    if not rise:
        return lost
    low, high = t_interval(rise)
    rises = f"loss {sum(rise) / len(rise):+.4f} ({low:+.4f} to {high:+.4f})"
    return f"{rises}, {lost}" if lost else rises


def _certified(model: CircuitSummary) -> bool:
    return "own" in model.certified


def table(result: PruningResult) -> str:
    """Return a Markdown table with a column for each condition."""
    groups = [result.pruned, result.whole, result.earlier, result.unseen]
    solve = [share_in_words(sum(model.solves(result.max_loss) for model in group), len(group)) for group in groups]
    losses = [spread_in_words([model.loss for model in group if model.loss is not None]) for group in groups]
    of_laptop = list(zip(result.laptop, result.laptop_left, strict=True))
    earlier, unseen = ([left for model, left in of_laptop if (model.seed >= UNSEEN) == new] for new in (False, True))
    rows = [
        ["models", *map(len, groups)],
        ["below the threshold", *solve],
        ["loss", *losses],
        *rows_by_group(groups),
        ["heads left", spread_in_words(result.left), "all", spread_in_words(earlier), spread_in_words(unseen)],
    ]
    names = "pruned", "all heads", "the laptop's recipe", f"the laptop's recipe, seeds from {UNSEEN}"
    return markdown_table(["", *names], rows)


STUDY = Study(
    "pruning",
    "Can a circuit be certified once redundant heads are pruned?",
    PruningResult,
    standard,
    quick,
    run,
    judge,
    table,
)
