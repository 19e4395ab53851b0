"""Check `sufficiency`: does the circuit alone do what the model does? (Faithfulness, Wang et al. 2022.)"""

from __future__ import annotations

from collections.abc import Mapping

from hopscope.circuits.checks.card import Check
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.evaluate.ablations import KEEP, Ablation, AblationKind
from hopscope.statistics import Measured

BLIND = "rows at their mean attend to their own chain as to any other"
ALIKE_ROWS = "rows kept as they are attend to all chains alike but for named keys"


def check_sufficiency(evidence: Evidence) -> Check:
    """Measure the model, the circuit, and controls in which rows lose information that the circuit does not claim."""
    own, imposed, controls = evidence.patterns == "own", evidence.imposed, dict[str, Measured]()
    means = [row for row in evidence.at_mean if imposed[row].kind is AblationKind.MEAN]
    blinded = evidence.base | {row: evidence.units.blind(row) for row in means}
    if means:
        controls[BLIND] = evidence.fresh.sure(blinded)
    unmodified = [row for row in evidence.rows if own and imposed[row] == KEEP]
    if unmodified:
        named = {row: tuple(path.key for path in evidence.paths if path.row == row) for row in unmodified}
        alike = {row: Ablation(AblationKind.ALIKE, keys) for row, keys in named.items()}
        controls[ALIKE_ROWS] = evidence.fresh.sure(blinded | alike)
    spread = [row for row in evidence.rows if imposed[row].kind is not AblationKind.ONE_HOT]
    beside = 0 if own else len({*evidence.at_mean, *spread})
    model, circuit = (evidence.fresh.measured(evidence.wholes[number]) for number in (0, 2 if own else 1))
    return sufficiency(evidence.max_loss, model, circuit, controls, beside)


def sufficiency(
    max_loss: float, model: Measured, circuit: Measured, controls: Mapping[str, Measured], spread: int = 0
) -> Check:
    """Pass if the intervals of model, circuit and controls all end below the threshold.

    With imposed patterns, every row must also be ablated or one-hot; `spread` is the number of rows that are neither.
    """
    judged = {"the circuit alone": circuit, **{f"where {name}": loss for name, loss in controls.items()}}
    worst = max(judged, key=lambda name: judged[name].interval[1])
    passed = max(model.interval[1], judged[worst].interval[1]) < max_loss and not spread
    says = f"the circuit alone has a loss of {circuit.mean:.3f}, the model {model.mean:.3f}"
    if judged[worst].interval[1] >= max_loss and worst != "the circuit alone":
        says += f"; {worst}, it has {judged[worst].mean:.3f}"
    if spread:
        says += f"; {spread} rows are neither ablated nor one-hot at a key"
    numbers = {"model": model.mean, "circuit": circuit.mean, "worst": judged[worst].mean}
    return Check("sufficiency", "passed" if passed else "failed", says, numbers, judged[worst].interval)
