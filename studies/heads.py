"""Can heads replace a layer?

Theory asks for two layers even for one hop: the first layer combines the members of a pair, and the second layer finds
the pair. Theory counts what is carried along attention paths. But a row of attention sums to one, so a head can also
carry information by where it does not attend. For example, a head attends to the second member of some pair, unless the
query's symbol is the first member of another pair; then it attends to that first member instead. One layer has no other
way, because the score that a query gives to a second member does not depend on the member before it. How far do models
get in this way?

We train one hop with two, four and eight chains, in one layer with 1, 2, 4, 8 and 16 heads of width eight. The control
has two layers with the fewest and the most heads. Each condition has five seeds and 4,800 steps, with a learning rate
that decays over the last three tenths. The result is the loss on held-out sequences. Averaging the candidates has a
loss of 1 - 1/N.

Rules for each number of chains:

1. One layer with the most heads does better than averaging. Confirmed: the whole 95% interval of the mean loss
   (Student's t) is below the loss of averaging by more than 0.02. This is four standard errors of the loss of averaging
   on the held-out sequences, which are the same for all seeds. Refuted: the whole interval is above by more than 0.02.
   Otherwise inconclusive, also if no model with the most heads is finished or one of them diverged.
2. More heads do better, with one layer. Confirmed: Spearman's rank correlation between heads and loss is negative, with
   p below 5% (by permutation), over all models and over those with fewer than the most heads. Refuted: both
   correlations are positive, with the same p. Otherwise inconclusive. A model that diverged has the highest loss.

Rule for all numbers of chains:

3. No number of heads replaces the layer: no model of one layer is below the loss threshold (0.05). Confirmed: no model
   is; the upper 95% Clopper-Pearson bound on how often a model would be is below 10%; and most models of two layers are
   below the threshold, both in all (the lower bound on the share is above one half) and for each number of chains (more
   than half). Refuted: a model of one layer is. Otherwise inconclusive, also if some number of chains has no model with
   the most heads. A model of one layer that diverged is not counted. A model of two layers that diverged counts as
   above the threshold.

    python -m studies heads results/studies/heads
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import hopscope as hs
from studies.tools.conditions import finished
from studies.tools.inference import share_in_words, spread_in_words, t_interval
from studies.tools.judgements import TOO_FEW, Judgement, falls_with, most_of, never
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

MAX_LOSS = 0.05
"""The paper's loss threshold: a model below it solves the task."""

NEAR = 0.02
"""A mean loss this close to that of averaging can be averaging, since all models share their held-out sequences."""


@dataclass(frozen=True)
class HeadsStudy:
    """The settings of the study.

    Attributes:
        recipe: the recipe of all models; its layers and heads are varied.
        chains: the numbers of chains N.
        heads: the numbers of heads with one layer; models of two layers have the fewest or the most of these heads.
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
        layers: the number of layers.
        heads: the number of heads per layer.
        seed: the seed that the model was trained from.
        loss: the loss on held-out sequences; None if the model diverged.
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
    def solves(self) -> bool:
        """Whether the loss of the model is below the loss threshold."""
        return self.loss is not None and self.loss < MAX_LOSS


@dataclass(frozen=True)
class HeadsResult:
    """The results of all models.

    Attributes:
        models: the trained models.
    """

    models: tuple[OneModel, ...]

    @property
    def chains(self) -> list[int]:
        """The numbers of chains N, in rising order."""
        return sorted({model.chains for model in self.models})

    def every(self, chains: int, layers: int) -> list[OneModel]:
        """Return the models with `chains` chains and `layers` layers, by rising number of heads."""
        found = [model for model in self.models if (model.chains, model.layers) == (chains, layers)]
        return sorted(found, key=lambda model: (model.heads, model.seed))

    def losses(self, chains: int, layers: int) -> dict[int, list[float]]:
        """Return the losses of the models that did not diverge, by rising number of heads."""
        found: dict[int, list[float]] = {}
        for model in self.every(chains, layers):
            if model.loss is not None:
                found.setdefault(model.heads, []).append(model.loss)
        return found


def standard(recipe: hs.Recipe) -> HeadsStudy:
    """Return the study of a recipe, with heads of width eight and 4,800 steps."""
    return HeadsStudy(replace(recipe, head_dim=8, schedule="warmup-stable-decay", steps=4_800, decay_fraction=0.3))


def quick(recipe: hs.Recipe) -> HeadsStudy:
    """Return a tiny version, which only shows that the study runs."""
    return HeadsStudy(replace(recipe, head_dim=8, steps=20), (2,), (1, 2), (0,))


def run(study: HeadsStudy, folder: Path, work: Work) -> HeadsResult:
    """Train the missing models, and return the losses of all models."""
    work.train(study.models, folder / "runs")
    return HeadsResult(tuple(map(_model, finished(study.models, folder / "runs").values())))


def _model(run: hs.Run) -> OneModel:
    loss = run.result.models[0].held_out_loss
    return OneModel(run.problem.chains, run.recipe.layers, run.recipe.heads, run.seeds[0], loss)


def judge(result: HeadsResult) -> list[Judgement]:
    """Judge by the rules above."""
    most = max((model.heads for model in result.models), default=0)
    found = [of_chain for chains in result.chains for of_chain in _of_chains(chains, result.every(chains, 1), most)]
    return [*found, _none_solves(result, most)]


def _of_chains(chains: int, models: Sequence[OneModel], most_heads: int) -> list[Judgement]:
    """Judge rules 1 and 2 for one number of chains."""
    better = f"{chains} chains: one layer with the most heads does better than averaging"
    more = f"{chains} chains: more heads do better"
    if not models:
        return [Judgement(better, "not run"), Judgement(more, "not run")]
    first = _better(better, [model for model in models if model.heads == models[-1].heads], most_heads)
    losses = [math.inf if model.loss is None else model.loss for model in models]
    return [first, falls_with(more, [model.heads for model in models], losses)]


def _better(hypothesis: str, models: Sequence[OneModel], most_heads: int) -> Judgement:
    """Judge rule 1 for models with the same number of chains and heads."""
    losses = [model.loss for model in models if model.loss is not None]
    diverged = f"{len(models) - len(losses)} of {len(models)} diverged" if len(losses) < len(models) else ""
    if not losses:
        return Judgement(hypothesis, "inconclusive", "", len(models), diverged)
    (low, high), averaging, heads = t_interval(losses), models[0].averaging, models[0].heads
    observed = f"{sum(losses) / len(losses):.3f} ({low:.3f} to {high:.3f}) with {heads} heads; averaging {averaging:g}"
    if heads < most_heads:
        return Judgement(hypothesis, "inconclusive", observed, len(losses), f"none with {most_heads} heads is finished")
    if diverged or low - NEAR <= averaging <= high + NEAR:
        return Judgement(hypothesis, "inconclusive", observed, len(losses), diverged or TOO_FEW)
    return Judgement(hypothesis, "confirmed" if high < averaging else "refuted", observed, len(losses))


def _none_solves(result: HeadsResult, most: int) -> Judgement:
    """Judge rule 3."""
    hypothesis = "no number of heads replaces the layer"
    shallow, deep = ([model for model in result.models if model.layers == layers] for layers in (1, 2))
    models = [model for model in shallow if model.loss is not None]
    if not shallow:
        return Judgement(hypothesis, "not run")
    n, yes = len(models), sum(model.solves for model in models)
    control = most_of("", [model.solves for model in deep])
    observed = f"{share_in_words(yes, n)} are below the threshold; with two layers {control.observed or 'none is run'}"
    by_chains = [[model.solves for model in deep if model.chains == chains] for chains in result.chains]
    lacking = ""
    if control.verdict != "confirmed" or any(2 * sum(solve) <= len(solve) for solve in by_chains):
        lacking = "no positive control"
    elif {*result.chains} != {model.chains for model in models if model.heads == most}:
        lacking = f"not every number of chains has a model with {most} heads"
    return never(hypothesis, observed, n, happened=bool(yes), lacking=lacking)


def table(result: HeadsResult) -> str:
    """Return a Markdown table with a row for each shape: median and range of the loss of seeds that did not diverge."""
    rows = []
    for chains in result.chains:
        for layers in (1, 2):
            models = result.every(chains, layers)
            for heads in sorted({model.heads for model in models}):
                alike = [model for model in models if model.heads == heads]
                losses = [model.loss for model in alike if model.loss is not None]
                shape = chains, f"{alike[0].averaging:.3g}", layers, heads, len(alike)
                lost = f", {len(alike) - len(losses)} diverged" if len(losses) < len(alike) else ""
                rows.append((*shape, f"{spread_in_words(losses)}{lost}"))
    return markdown_table(("chains", "averaging", "layers", "heads", "models", "loss"), rows)


STUDY = Study("heads", "Can heads replace a layer?", HeadsResult, standard, quick, run, judge, table)
