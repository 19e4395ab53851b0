"""The six checks and the card of a circuit, measured on sequences that no search has seen.

Each file holds one check: a function that measures (`check_...`), and a function that decides from the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hopscope.circuits.checks.card import Card, Check, CheckName
from hopscope.circuits.checks.completeness import check_completeness
from hopscope.circuits.checks.delivery import check_delivery
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.checks.measure_card import measure_card
from hopscope.circuits.checks.necessity import check_necessity
from hopscope.circuits.checks.outside import check_outside
from hopscope.circuits.checks.right_keys import check_right_keys
from hopscope.circuits.checks.sufficiency import check_sufficiency
from hopscope.circuits.resume import Search, Stage
from hopscope.statistics import tidy

MEASURED: Mapping[CheckName, Callable[[Evidence], Check]] = {
    "sufficiency": check_sufficiency,
    "necessity": check_necessity,
    "completeness": check_completeness,
    "outside": check_outside,
    "right_keys": check_right_keys,
    "delivery": check_delivery,
}
"""The function that runs each check, by the name of the check."""


def check_in_stages(evidence: Evidence) -> Search[tuple[dict[CheckName, Check], Card]]:
    """Measure the six checks and the card of a circuit, each in a stage that is not repeated after an interruption."""
    checks, patterns, problem = dict[CheckName, Check](), f"{evidence.patterns} patterns", evidence.problem
    for name, measure in MEASURED.items():
        checks[name] = yield Stage(f"{patterns}, check: {name}", partial(measure, evidence), problem, Check)
    card: Card = yield Stage(f"{patterns}, card", partial(measure_card, evidence, checks), problem, Card)
    return checks, card


def no_circuit(loss: float, max_loss: float, *, rows_left: int = 0) -> dict[CheckName, Check]:
    """Return the failed check of a model without a circuit below the threshold, or whose search was given up."""
    own = f"the model's own loss, {loss:.3f}, is"
    why = f"{own} so close to the threshold of {max_loss:g} that no circuit is surely below it"
    if loss > max_loss:
        why = f"{own} above the threshold of {max_loss:g}: it does not solve the problem, so it has no circuit"
    elif rows_left:
        why = (
            f"{rows_left} rows of attention are left after the easy removals (the model's own loss is {loss:.3f}, the "
            f"threshold {max_loss:g}), too many for a small circuit, so the search was given up; `--effort thorough` "
            "goes on, and a higher `--max-loss` or a model trained with `prune_every` may give a small circuit"
        )
    numbers = {"model": tidy(loss)} | ({"rows_left": float(rows_left)} if rows_left else {})
    return {"sufficiency": Check("sufficiency", "failed", why, numbers)}
