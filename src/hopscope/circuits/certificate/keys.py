"""Do the rows attend to what the circuit says they attend to?"""

from __future__ import annotations

from hopscope.circuits.certificate.evidence import COUNTS, Evidence
from hopscope.circuits.certificate.part import Part, tidy
from hopscope.circuits.certificate.sampling import by_sequence
from hopscope.circuits.evaluate.ablations import Interventions, one_hot

_MOST = 0.9
"""How much of the way from nothing to the model the circuit must keep with a row in its own form."""

_INDIFFERENT = 0.5
"""The share of a row's other keys that may serve as well; a few do where they hold the same symbol."""


def random_keys(evidence: Evidence) -> Part:
    """Each row alone put into its form, the rest making its own patterns; then pointed at every other role it may see.

    Passes if with every row in its own form the circuit keeps 90% of the way from nothing to the model, no other key
    serves it better for sure, and at most half of the others serve it as well. In the strict sense the rest is imposed
    too, save for `exempt` rows: these are judged among natural patterns, and must keep 90% of the way that the circuit
    goes with those. Rows without a path are not asked.
    """
    in_form = by_sequence(evidence.few, [{**evidence.around(row), row: evidence.program[row]} for row in evidence.rows])
    wrong, rows = [], []
    margin = COUNTS * evidence.bar
    for row, own in zip(evidence.rows, in_form, strict=True):
        claimed = {path.key for path in evidence.paths if path.row == row}
        if not claimed:
            continue
        others = [
            key
            for key in range(evidence.evaluator.where.roles)
            if key not in claimed and key != row.query and bool(evidence.evaluator.where.visible[row.query, key])
        ]
        programs: list[Interventions] = [{**evidence.around(row), row: one_hot(key)} for key in others]
        loss = float(own.mean())
        losses = evidence.settled(programs, max(loss, evidence.bar), evidence.base)
        better = [key for key, other in zip(others, losses, strict=True) if other < loss - margin]
        rival = by_sequence(evidence.few, [programs[others.index(key)] for key in better])
        sure = [
            key
            for key, less in zip(better, evidence.measured(list(own - rival)), strict=True)
            if less.interval[0] > margin
        ]
        as_good = sum(other <= max(loss, evidence.bar) for other in losses)
        kept = evidence.kept(row, loss)
        right = kept >= _MOST and not sure and as_good <= _INDIFFERENT * len(others)
        wrong += [] if right else [evidence.name(row)]
        names = evidence.evaluator.names
        rows.append(
            {
                "row": evidence.name(row),
                "mse": tidy(loss),
                "kept": tidy(kept),
                "others": {names[key]: tidy(other) for key, other in zip(others, losses, strict=True)},
                "better": [names[key] for key in sure],
            }
        )
    says = f"each of {len(rows)} rows serves with its own key, and no other key serves it better"
    if wrong:
        says = f"{len(wrong)} of {len(rows)} rows do not attend to what is claimed, or might as well attend elsewhere: "
        says += "; ".join(wrong)
    return Part(bool(rows) and not wrong, says, {"rows": rows})
