"""What does the position code change: the algorithm that a model learns, or whether it saves a layer?

A code can number every token (our default), every pair (Definition 2 of the paper), or there can be none. The plan has
the forecasts: docs/studies/plans/2026-11-30-codes.md.

- The algorithm: models of four layers on three hops and four chains, by the recipe of `census`, with token codes and
  with pair codes. hopscope searches for the circuit of every model with its own patterns, as `census` does.
- A layer saved by position: models of two layers on two hops and two chains, by the recipe of `escape`, with pair codes
  and without a code. `escape` has the models with token codes. Models of three layers without a code are the control.

Rules:

1. With pair codes, more circuits double than with token codes. Confirmed: Fisher's exact test (one-sided) gives p below
   2.5%. Refuted: the same test the other way does. Otherwise inconclusive.
2. With pair codes, most circuits double. Confirmed: the lower 95% Clopper-Pearson bound on the share of models with a
   circuit is above one half. Refuted: the upper bound is below one half. Otherwise inconclusive.
3. With pair codes and two chains, most seeds save a layer (learn x2 with two layers). Judged as rule 2, over all seeds.
4. Without a position code, no model saves a layer. Confirmed: none of those that learn x1 does, the upper 95%
   Clopper-Pearson bound on how often one would is below one half, and a model of three layers learns x2. Refuted: one
   does. Otherwise inconclusive.

    python -m studies codes results/studies/codes
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import hopscope as hs
from studies.places import standard as places_standard
from studies.tools import conditions
from studies.tools.circuits import HASTY, CircuitSummary, Search, find_circuits, rows_by_group
from studies.tools.conditions import Condition, nothing_beyond
from studies.tools.judgements import Judgement, more_often, most_of
from studies.tools.position_based import LEARNED
from studies.tools.records import markdown_table
from studies.tools.study import Study
from studies.tools.work import Work

LAYERS = 4
"""The number of layers of the models whose circuits are compared: one more than three hops need."""


def _seeds(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


@dataclass(frozen=True)
class CodesStudy:
    """The settings of the study.

    Attributes:
        algorithm: one setup for each position code, of models whose circuits are compared.
        saved: the setups of models that may save a layer, and of their control.
        search: the settings of the search for circuits.
    """

    algorithm: tuple[hs.Setup, ...]
    saved: tuple[hs.Setup, ...]
    search: Search = field(default_factory=Search)


@dataclass(frozen=True)
class CodesResult:
    """The result of the study.

    Attributes:
        circuits: the circuits of the models of four layers, with token codes and pair codes.
        conditions: what the models that may save a layer have learned.
    """

    circuits: tuple[CircuitSummary, ...]
    conditions: tuple[Condition, ...]

    def of(self, code: str) -> list[CircuitSummary]:
        """Return the models with this position code that have a circuit."""
        return [model for model in self.circuits if model.model.startswith(f"{code}/") and model.paths]


def standard(recipe: hs.Recipe) -> CodesStudy:
    """Return the study: `LAPTOP` for the circuits, and the recipe as `places` changes it for a layer saved."""
    three = replace(hs.recipes.LAPTOP, layers=LAYERS)
    shallow = replace(places_standard(recipe).recipe, layers=2, heads=4)
    pair, none = (hs.RetrievalProblem(hops=2, chains=2, position=code) for code in ("pair", "none"))
    return CodesStudy(
        tuple(
            hs.Setup(code, hs.RetrievalProblem(hops=3, position=code), three, _seeds(9600, 16))
            for code in ("token", "pair")
        ),
        (
            hs.Setup("pair-2-layers", pair, shallow, _seeds(9700, 16)),
            hs.Setup("none-2-layers", none, shallow, _seeds(9700, 10)),
            hs.Setup("none-3-layers", none, replace(shallow, layers=3), _seeds(9700, 2)),
        ),
    )


def quick(recipe: hs.Recipe) -> CodesStudy:
    """Return a tiny version with models of one hop, which only shows that the study runs."""
    problem = hs.RetrievalProblem(hops=1, position="pair")
    learns = hs.Setup("pair", problem, replace(recipe, steps=240, decay_fraction=0.6), (0,))
    return CodesStudy((learns,), (hs.Setup("pair-1-layer", problem, replace(recipe, layers=1, steps=20), (0,)),), HASTY)


def run(study: CodesStudy, folder: Path, work: Work) -> CodesResult:
    """Train the missing models, and find the circuits of those that are compared."""
    setups = [setup for setup in study.algorithm if work.selects(setup.name)]
    found = conditions.train(study.saved, folder, work, to_the_end=True, below=LEARNED)
    circuits = find_circuits(conditions.by_seed(setups, to_the_end=True), folder / "runs", work, study.search)
    return CodesResult(circuits, found.conditions)


def outcomes(found: CodesResult) -> dict[str, list[bool]]:
    """Return, by what is asked, whether it is true of each model."""
    named = {"pair-2-layers": "a layer saved, pair codes", "none-2-layers": "a layer saved, no code"}
    return {
        **{
            f"circuit doubles, {code} codes": [model.strategy == "doubling" for model in found.of(code)]
            for code in ("token", "pair")
        },
        **{
            named[condition.name]: [step is not None for step in condition.times(2)]
            for condition in found.conditions
            if condition.name in named
        },
    }


def judge(found: CodesResult) -> list[Judgement]:
    """Judge by the rules above."""
    of = outcomes(found)
    token, pair = of["circuit doubles, token codes"], of["circuit doubles, pair codes"]
    without = [condition for condition in found.conditions if condition.name.startswith("none-")]
    return [
        more_often("with pair codes, more circuits double than with token codes", pair, token),
        most_of("with pair codes, most circuits double", pair),
        most_of("with pair codes and two chains, most seeds save a layer", of.get("a layer saved, pair codes", [])),
        nothing_beyond("without a position code, no model saves a layer", without),
    ]


def table(found: CodesResult) -> str:
    """Return Markdown tables of the circuits by position code, and of what the other models learned."""
    codes = ("token", "pair")
    circuits = markdown_table(("circuits", *codes), rows_by_group([found.of(code) for code in codes]))
    return f"{circuits}\n{conditions.table(conditions.Conditions(found.conditions))}"


STUDY = Study(
    "codes",
    "What does the position code change?",
    CodesResult,
    standard,
    quick,
    run,
    judge,
    table,
    conditions=lambda study: [setup.name for setup in (*study.algorithm, *study.saved)],
)
