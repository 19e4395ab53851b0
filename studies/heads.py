"""Can heads stand in for a layer?

Theory asks for two layers even of one hop: one ties the members of a pair, the next finds the pair. It counts what is
carried along attention paths. But a row of attention sums to one. A head that looks at the second member of some pair,
unless the query's symbol stands in the first member of another, which it then looks at instead, brings the one or does
not: it tells by looking away which pair is meant. In one layer nothing else can: how a query scores a second member has
nothing to do with what stands before it. Asked here: how far do models come that way?

One hop, two, four and eight chains; one layer with 1, 2, 4, 8 and 16 heads of eight numbers, and as the control two
layers with the fewest and the most; five seeds each, 4,800 steps, the rate falling over the last three tenths. Counted
is the loss on held-out sequences. Averaging the candidates costs 1 - 1/N. (Seen before the rules were written: four
chains, one seed, and `depth`'s models of one hop and one layer, which fall below 0.5 with eight heads.)

Rules, for each number of chains:

1. One layer with the most heads does better than averaging. As asked: the 95% interval of the mean loss (Student's t)
   lies below by more than 0.02, four standard errors of what averaging costs on the held-out sequences, which are the
   same for all seeds. Not as asked: it lies above by more than that. Else inconclusive, and so until models with the
   most heads are run, and where one of them diverged.
2. More heads do better, at one layer. As asked: Spearman's rank correlation of heads and loss is negative, p below 5%
   (by permutation), of all models and of those with fewer than the most heads. Not as asked: both are positive
   so. Else inconclusive. A model that diverged has the highest loss.

And over all of them:

3. No number of heads stands in for the layer: no model of one layer holds the bar (0.05). As asked: none does, the
   upper 95% Clopper-Pearson bound on how often one would is below 10%, and most models of two layers do, in all (the
   lower bound on the share is above one half) and at each number of chains (more than half). Not as asked: one does.
   Else inconclusive, and so where at some number of chains none with the most heads is there. A model that diverged
   is no case of one layer that fails; of two layers it does not hold the bar.

(The rules were content with less: 1 with any interval below averaging, 2 with what the most heads do alone, 3 with
models that diverged or had few heads. No verdict hung on that.)

    python -m studies heads results/studies/heads
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from studies.tools.arms import finished
from studies.tools.inference import share_in_words, spread_in_words, t_interval
from studies.tools.judgements import TOO_FEW, Judgement, falls_with, most_of, never
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

BAR = 0.05
"""The paper's bar: a model with a lower loss solves the task."""

BESIDE = 0.02
"""A mean loss this near to that of averaging may be averaging: the held-out sequences of a problem are drawn once."""


@dataclass(frozen=True)
class HeadsStudy:
    """What is trained.

    Attributes:
        recipe: the recipe of all models; its layers and heads are varied.
        chains: the numbers of chains N.
        heads: the numbers of heads with one layer; with two layers only the fewest and the most of them.
        seeds: the seeds of every shape.
    """

    recipe: hs.Recipe
    chains: tuple[int, ...] = (2, 4, 8)
    heads: tuple[int, ...] = (1, 2, 4, 8, 16)
    seeds: tuple[int, ...] = tuple(range(9000, 9005))

    @property
    def models(self) -> list[hs.Setup]:
        """One run for each model, seed by seed."""
        shapes = [(1, heads) for heads in self.heads] + [(2, heads) for heads in (self.heads[0], self.heads[-1])]
        return [
            hs.Setup(
                f"{chains}-chains/{layers}-layers-{heads}-heads/seed-{seed}",
                hs.RetrievalProblem(hops=1, chains=chains),
                replace(self.recipe, layers=layers, heads=heads),
                (seed,),
            )
            for seed in self.seeds
            for chains in self.chains
            for layers, heads in shapes
        ]


@dataclass(frozen=True)
class OneModel:
    """The result of one model.

    Attributes:
        chains: N.
        layers: its number of layers.
        heads: its number of heads per layer.
        seed: the seed it was trained from.
        loss: its loss on held-out sequences; None where it diverged.
    """

    chains: int
    layers: int
    heads: int
    seed: int
    loss: float | None

    @property
    def averaging(self) -> float:
        """The loss of averaging the candidates."""
        return 1 - 1 / self.chains

    @property
    def holds(self) -> bool:
        """Whether the model holds the bar."""
        return self.loss is not None and self.loss < BAR


@dataclass(frozen=True)
class HeadsResult:
    """The results of all models.

    Attributes:
        models: the models that are trained.
    """

    models: tuple[OneModel, ...]

    @property
    def chains(self) -> list[int]:
        """The numbers of chains N, rising."""
        return sorted({model.chains for model in self.models})

    def every(self, chains: int, layers: int) -> list[OneModel]:
        """The models with so many chains and layers, by rising number of heads."""
        found = [model for model in self.models if (model.chains, model.layers) == (chains, layers)]
        return sorted(found, key=lambda one: (one.heads, one.seed))

    def losses(self, chains: int, layers: int) -> dict[int, list[float]]:
        """The losses of the models that did not diverge, by number of heads, rising."""
        found: dict[int, list[float]] = {}
        for one in self.every(chains, layers):
            if one.loss is not None:
                found.setdefault(one.heads, []).append(one.loss)
        return found


def standard(recipe: hs.Recipe) -> HeadsStudy:
    """The study of a recipe."""
    return HeadsStudy(replace(recipe, head_dim=8, schedule="warmup-stable-decay", steps=4_800, decay_fraction=0.3))


def quick(recipe: hs.Recipe) -> HeadsStudy:
    """A tiny version that only shows that the study runs."""
    return HeadsStudy(replace(recipe, head_dim=8, steps=20), (2,), (1, 2), (0,))


def run(study: HeadsStudy, folder: Path, work: Work) -> HeadsResult:
    """Train what is not trained yet, and read the losses."""
    work.train(study.models, folder / "runs")
    return HeadsResult(tuple(map(_model, finished(study.models, folder / "runs").values())))


def _model(run: hs.Run) -> OneModel:
    loss = run.result.models[0].held_out_loss
    return OneModel(run.problem.chains, run.recipe.layers, run.recipe.heads, run.seeds[0], loss)


def judge(result: HeadsResult) -> list[Judgement]:
    """Judge by the rules above."""
    most = max((model.heads for model in result.models), default=0)
    found = [of_chain for chains in result.chains for of_chain in _of_chains(chains, result.every(chains, 1), most)]
    return [*found, _none_holds(result, most)]


def _of_chains(chains: int, models: Sequence[OneModel], most_heads: int) -> list[Judgement]:
    """Rules 1 and 2."""
    better = f"{chains} chains: one layer with the most heads does better than averaging"
    more = f"{chains} chains: more heads do better"
    if not models:
        return [Judgement(better, "not run"), Judgement(more, "not run")]
    first = _better(better, [model for model in models if model.heads == models[-1].heads], most_heads)
    losses = [math.inf if model.loss is None else model.loss for model in models]
    return [first, falls_with(more, [model.heads for model in models], losses)]


def _better(asked: str, models: Sequence[OneModel], most_heads: int) -> Judgement:
    """Rule 1, for models of one number of chains and of heads."""
    losses = [model.loss for model in models if model.loss is not None]
    diverged = f"{len(models) - len(losses)} of {len(models)} diverged" if len(losses) < len(models) else ""
    if not losses:
        return Judgement(asked, "inconclusive", "", len(models), diverged)
    (low, high), averaging, heads = t_interval(losses), models[0].averaging, models[0].heads
    ours = f"{sum(losses) / len(losses):.3f} ({low:.3f} to {high:.3f}) with {heads} heads; averaging {averaging:g}"
    if heads < most_heads:
        return Judgement(asked, "inconclusive", ours, len(losses), f"none with {most_heads} heads is finished")
    if diverged or low - BESIDE <= averaging <= high + BESIDE:
        return Judgement(asked, "inconclusive", ours, len(losses), diverged or TOO_FEW)
    return Judgement(asked, "as asked" if high < averaging else "not as asked", ours, len(losses))


def _none_holds(result: HeadsResult, most: int) -> Judgement:
    """Rule 3."""
    asked = "no number of heads stands in for the layer"
    shallow, deep = ([model for model in result.models if model.layers == layers] for layers in (1, 2))
    models = [one for one in shallow if one.loss is not None]
    if not shallow:
        return Judgement(asked, "not run")
    n, yes, control = len(models), sum(model.holds for model in models), most_of("", [one.holds for one in deep])
    ours = f"{share_in_words(yes, n)} hold the bar; with two layers {control.ours or 'none is run'}"
    here = {chains: [one.holds for one in deep if one.chains == chains] for chains in result.chains}
    lacking = ""
    if control.verdict != "as asked" or any(2 * sum(some) <= len(some) for some in here.values()):
        lacking = "no positive control"
    elif {*result.chains} != {model.chains for model in models if model.heads == most}:
        lacking = f"not everywhere one with {most} heads"
    return never(asked, ours, n, happened=bool(yes), lacking=lacking)


def table(result: HeadsResult) -> str:
    """A Markdown table with a row for each shape: median and range of the loss over seeds that did not diverge."""
    rows = []
    for chains in result.chains:
        for layers in (1, 2):
            models = result.every(chains, layers)
            for heads in sorted({model.heads for model in models}):
                some = [model for model in models if model.heads == heads]
                losses = [one.loss for one in some if one.loss is not None]
                told = chains, f"{some[0].averaging:.3g}", layers, heads, len(some)
                lost = f", {len(some) - len(losses)} diverged" if len(losses) < len(some) else ""
                rows.append((*told, f"{spread_in_words(losses)}{lost}"))
    return markdown_table(("chains", "averaging", "layers", "heads", "models", "loss"), rows)


STUDY = Study("heads", "Can heads stand in for a layer?", HeadsResult, standard, quick, run, judge, table)
