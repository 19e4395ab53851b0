"""Baselines of the literature, with the same signature as the other searches, at the level of rows."""

from __future__ import annotations

from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, changed
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.gauge import Gauge, Random
from hopscope.circuits.search.gradients import row_scores

_THRESHOLDS = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0)
"""Thresholds as shares of `max_loss`, the largest first: ACDC leaves its own open, so it gets the best of a grid."""


def acdc(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """ACDC's rule (Conmy et al. 2023): from the last layer to the first, a row whose removal costs little is removed.

    It is removed for good if the loss rises by less than a threshold. The result of the largest threshold that is
    within the limit is returned; `units.base` if none is. The rule is greedy and tries each row once; `generator` is
    not used, since the order is the rule's own.
    """
    gauge = Gauge.scanning(evaluator, config)
    for threshold in _THRESHOLDS:
        interventions = swept(gauge.evaluator, units, threshold * config.max_loss)
        if gauge.passes(interventions):
            return interventions
    return units.base


def swept(evaluator: Evaluator, units: Units, threshold: float) -> Interventions:
    """What ACDC's rule leaves of `units.base` with a threshold."""
    interventions = units.base
    (now,) = evaluator.mse([interventions])
    for row in sorted(units.on(interventions), reverse=True):
        evaluator.depart_from(interventions)
        without = changed(interventions, {row: UNIFORM})
        (loss,) = evaluator.mse([without])
        if loss - now < threshold:
            interventions, now = without, loss
    return interventions


def attribution(evaluator: Evaluator, units: Units, config: SearchConfig, generator: Random) -> Interventions:
    """The fewest rows, by highest estimated effect (integrated gradients, Hanna et al. 2024), within the limit.

    `units.base` if not even all rows are. `generator` is not used: gradients give the order.
    """
    gauge = Gauge.scanning(evaluator, config)
    scores = row_scores(gauge.evaluator)
    rows = sorted(units.on(units.base), key=lambda row: -float(scores[row.layer, row.head, row.query]))
    # The loss need not fall with every row that is added, so every number of rows is tried, the fewest first.
    for count in range(len(rows) + 1):
        interventions = changed(units.base, dict.fromkeys(reversed(rows[count:]), UNIFORM))
        if gauge.passes(interventions):
            return interventions
    return units.base
