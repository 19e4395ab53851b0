"""Can a circuit be certified once the heads that it can do without are gone?

Models of three hops, four layers of eight heads, by the plain recipe; with all heads to the end, and with the heads
taken away that a model can do without once it has learned (`prune_every`). The same seeds, so that a
model of either arm is the same until its first head goes. Every model's circuit is searched for by the quick search and
has the whole certificate, on fresh sequences. Twenty seeds are pruned, and the first ten of them keep their heads too.
When those were done the laptop's recipe became another, with twice the heads, a tenth of them left out of every update
from the first hop learned to the last. So twenty fresh seeds are trained by it, pruned likewise. What their circuits
failed by gave the search a new form (`alike`: a row to which all chains are alike), and what those of twenty more
failed by changed the certificate; so another twenty are trained, which nobody had looked at, and only these are
asked about.

Rules:

1. Most models that were pruned have a certified circuit in the natural reading. Counted are all that had learned.
2. Pruning is what does it: of the seeds of both arms, more are certified in the pruned one alone than in the other
   alone.
3. It costs no hop: models that hold the bar with all heads hold it pruned.
4. Most models of the laptop's recipe have a certified circuit in the natural reading, counted as in 1, of the seeds
   from 7140 on.

1 and 4 are as asked if the lower 95% Clopper-Pearson bound on the share of models is above one half, not as asked if
the upper one is below. 2 is as asked if the two-sided sign test over seeds that differ gives p below 5% that way, not
as asked if it gives it the other way. 3 is not as asked if a model holds the bar with all heads and not without, as
asked if there is none and the upper 95% Clopper-Pearson bound on how often there would be is below one tenth. (It was
content with ten models, of which one in twenty is missed in three draws of five.) Else inconclusive.

How large circuits are, how alike those of different seeds, and what the model loses by it is told and not judged.

    python -m studies pruning results/studies/pruning
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import hopscope as hs
from hopscope.statistics import sign_test
from studies.tools import arms
from studies.tools.circuits import HASTY, Search, Seen, between, find_circuits
from studies.tools.inference import share_in_words, spread_in_words, t_interval
from studies.tools.judgements import Judgement, most_of, never
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

UNSEEN = 7140
"""The first seed of the laptop's recipe whose circuit nobody had seen when search or certificate were last changed."""


@dataclass(frozen=True)
class PruningStudy:
    """What is trained and examined.

    Attributes:
        recipe: the recipe with all heads to the end.
        prune_every: the recipe's `prune_every` in the pruned arm.
        hops: D.
        seeds: the seeds of the pruned arm.
        fresh: the seeds of the laptop's recipe.
        whole: how many of `seeds`, the first ones, are also trained with all heads.
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
        return arms.runs_of(hs.Setup("pruned", self._problem, recipe, self.seeds), to_the_end=True)

    @property
    def whole_models(self) -> list[hs.Setup]:
        """One run for each model that keeps all heads."""
        arm = hs.Setup("all-heads", self._problem, self.recipe, self.seeds[: self.whole])
        return arms.runs_of(arm, to_the_end=True)

    @property
    def laptop_models(self) -> list[hs.Setup]:
        """One run for each model of the laptop's recipe: pruned, twice the heads, some left out until it has
        learned."""
        width = self.recipe.head_dim or self.recipe.d_model // self.recipe.heads
        heads = replace(self.recipe, heads=2 * self.recipe.heads, head_dim=width, prune_every=self.prune_every)
        recipe = replace(heads, head_dropout=0.1, head_dropout_after=1)
        return arms.runs_of(hs.Setup("laptop", self._problem, recipe, self.fresh), to_the_end=True)

    @property
    def _problem(self) -> hs.RetrievalProblem:
        return hs.RetrievalProblem(hops=self.hops)


@dataclass(frozen=True)
class PruningResult:
    """What was found.

    Attributes:
        bar: the bar that a model and its circuit must hold.
        pruned: the models that lost heads.
        whole: the models that kept theirs.
        left: how many heads are left in each of `pruned`.
        laptop: the models of the laptop's recipe.
        laptop_left: how many heads are left in each of those.
    """

    bar: float
    pruned: tuple[Seen, ...]
    whole: tuple[Seen, ...]
    left: tuple[int, ...]
    laptop: tuple[Seen, ...] = ()
    laptop_left: tuple[int, ...] = ()

    @property
    def pairs(self) -> list[tuple[Seen, Seen]]:
        """Pairs of a pruned model and the model of the same seed with all heads."""
        whole = {one.seed: one for one in self.whole}
        return [(one, whole[one.seed]) for one in self.pruned if one.seed in whole]

    @property
    def unseen(self) -> list[Seen]:
        """The models of the laptop's recipe that nobody had looked at, see `UNSEEN`."""
        return [one for one in self.laptop if one.seed >= UNSEEN]

    @property
    def looked_at(self) -> list[Seen]:
        """The other models of the laptop's recipe."""
        return [one for one in self.laptop if one.seed < UNSEEN]


def standard(recipe: hs.Recipe) -> PruningStudy:
    """The study of a recipe."""
    return PruningStudy(recipe)


def quick(recipe: hs.Recipe) -> PruningStudy:
    """A tiny version that only shows that the study runs: a model of one hop."""
    recipe = replace(recipe, steps=240, decay_fraction=0.6)
    return PruningStudy(recipe, 20, hops=1, seeds=(0,), fresh=(UNSEEN,), whole=1, search=HASTY)


def run(study: PruningStudy, folder: Path, work: Work) -> PruningResult:
    """Train what is not trained yet, and find the circuit of every model; a seed's two models in turn."""
    setups = sorted([*study.pruned_models, *study.whole_models, *study.laptop_models], key=lambda setup: setup.seeds)
    arms_seen: dict[str, list[Seen]] = {"pruned": [], "all-heads": [], "laptop": []}
    for find_circuit in find_circuits(setups, folder / "runs", work, study.search):
        arms_seen[find_circuit.model.split("/")[0]].append(find_circuit)
    pruned, whole, laptop = map(tuple, arms_seen.values())
    runs = arms.finished(setups, folder / "runs")
    of_pruned, of_laptop = (
        tuple(int(runs[model.model].metrics.heads[-1, 0]) for model in models) for models in (pruned, laptop)
    )
    return PruningResult(study.search.budget.max_loss, pruned, whole, of_pruned, laptop, of_laptop)


def judge(result: PruningResult) -> list[Judgement]:
    """Judge by the rules above."""
    pruned, laptop = (
        [model for model in models if model.holds(result.bar)] for models in (result.pruned, result.unseen)
    )
    return [
        most_of("most pruned models have a certified circuit", list(map(_natural, pruned))),
        _does_it(result.pairs),
        _costs(result),
        most_of("most models of the laptop's recipe have a certified circuit", list(map(_natural, laptop))),
    ]


def _does_it(pairs: Sequence[tuple[Seen, Seen]]) -> Judgement:
    """Rule 2."""
    asked = "the same seed is certified more often without spare heads"
    if not pairs:
        return Judgement(asked, "not run")
    changes = [_natural(pruned) - _natural(whole) for pruned, whole in pairs]
    p, n = sign_test(changes), len(changes)
    ours = f"{changes.count(1)} pruned alone, {changes.count(-1)} with all heads alone, p = {p:.2g}"
    if p < 0.05:
        return Judgement(asked, "as asked" if sum(changes) > 0 else "not as asked", ours, n)
    return Judgement(asked, "inconclusive", ours, n, "too few models to tell")


def _costs(result: PruningResult) -> Judgement:
    """Rule 3."""
    asked = "what holds the bar with all heads holds it pruned"
    held = [(pruned, whole) for pruned, whole in result.pairs if whole.holds(result.bar)]
    if not held:
        return Judgement(asked, "not run")
    lost, n = sum(not pruned.holds(result.bar) for pruned, _ in held), len(held)
    ours = f"{share_in_words(n - lost, n)}; {_rise(held)}"
    return never(asked, ours, n, happened=bool(lost))


def _rise(pairs: Sequence[tuple[Seen, Seen]]) -> str:
    """How far the loss of pruned models lies above that of whole ones, in words; some may have diverged."""
    rise = [one.loss - whole.loss for one, whole in pairs if one.loss is not None and whole.loss is not None]
    lost = f"{len(pairs) - len(rise)} diverged" if len(rise) < len(pairs) else ""
    if not rise:
        return lost
    low, high = t_interval(rise)
    told = f"loss {sum(rise) / len(rise):+.4f} ({low:+.4f} to {high:+.4f})"
    return f"{told}, {lost}" if lost else told


def _natural(one: Seen) -> bool:
    return "natural" in one.certified


def table(result: PruningResult) -> str:
    """A Markdown table with a column for each arm."""
    arms_seen = {
        "pruned": result.pruned, "all heads": result.whole,
        "the laptop's recipe": result.looked_at,
        f"from seed {UNSEEN} on": result.unseen,
    }  # fmt: skip
    rows: dict[str, Callable[[Sequence[Seen]], str]] = {
        "models": lambda seen: str(len(seen)),
        "hold the bar": lambda seen: share_in_words(sum(one.holds(result.bar) for one in seen), len(seen)),
        "loss": lambda seen: spread_in_words([one.loss for one in seen if one.loss is not None]),
        "with a circuit": lambda seen: str(sum(bool(one.paths) for one in seen)),
        "certified, natural": lambda seen: share_in_words(sum(map(_natural, seen)), len(seen)),
        "certified, strict": lambda seen: share_in_words(sum("strict" in one.certified for one in seen), len(seen)),
        "paths, natural": lambda seen: spread_in_words([len(one.paths) for one in seen if one.paths]),
        "heads with a path": lambda seen: spread_in_words([one.heads for one in seen if one.paths]),
        "paths that do a step again": lambda seen: spread_in_words([one.repeated for one in seen if one.paths]),
        "doubling": lambda seen: share_in_words(
            sum(one.strategy == "doubling" for one in seen), sum(bool(one.paths) for one in seen)
        ),
        "overlap with another model": lambda seen: spread_in_words(between([one for one in seen if one.paths])),
    }
    told = [[name, *map(tell, arms_seen.values())] for name, tell in rows.items()]
    of_laptop = list(zip(result.laptop, result.laptop_left, strict=True))
    seen, unseen = ([left for one, left in of_laptop if (one.seed >= UNSEEN) == new] for new in (False, True))
    heads = ["heads left", spread_in_words(result.left), "all", spread_in_words(seen), spread_in_words(unseen)]
    return markdown_table(["", *arms_seen], [*told, heads])


STUDY = Study(
    "pruning",
    "Can a circuit be certified once spare heads are gone?",
    PruningResult,
    standard,
    quick,
    run,
    judge,
    table,
)
