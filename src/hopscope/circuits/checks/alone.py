"""The circuit alone: does it do what the model does, is all of it needed, trained weights too, and is none smaller?"""

from __future__ import annotations

from functools import partial
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.certificate import Part, tidy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.checks.sampling import Lost, Measured, by_sequence
from hopscope.circuits.evaluate.ablations import AblationKind, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.rewired import errors_alike, errors_rewired, rewirings
from hopscope.errors import InputError
from hopscope.problem.paths import HeadRow
from hopscope.theory.depth import minimum_paths
from hopscope.words import counted

_EVERY_SUBSET = 8
"""Up to so many rows, every part of a circuit is tried: some 250 of them."""

_ENOUGH = 3
"""After so many smaller parts that hold the bar, the best first, no more are measured: one alone refutes minimality."""


def sufficiency(evidence: Evidence) -> Part:
    """The loss of the circuit alone, in total and by hop, with its forms imposed and with the model's own patterns.

    Everything else is switched off. Passes if the interval of the loss ends below the bar: of the model, which else
    does not do what the circuit is said to explain; of the circuit, with its forms imposed, and in the natural sense
    with the model's own patterns too, also where its rows at their mean attend to their own chain as they do to any
    other, and those of which it says no more than that they are as they are, helpers among them: what they bring of
    their own chain would be the work of paths that it does not name. So would what rows that are off gather of it,
    uniform or at a mean, and in both senses they write then what they gather on average while the values of one pair go
    round all chains (`circuits.evaluate.rewired`), for each pair in turn. In the strict sense it passes only if every
    row in use is imposed and has a path, and no other row is at its mean. `least_bar` is the lowest bar at which its
    losses would still pass.
    """
    errors = evidence.alone
    full, imposed, natural, nothing = evidence.measured(list(errors.mean(dim=2)))
    hops = {}
    for index, hop in enumerate(evidence.problem.target_hops):
        (measured,) = evidence.measured([errors[1, :, index]])
        whole = tidy(float(errors[0, :, index].mean()))
        hops[f"x{hop}"] = {"mse": measured.mean, "interval": measured.interval, "full_mse": whole}
    judged = [full, *_judged(evidence, imposed, natural)]
    says = (
        f"the circuit alone has a loss of {imposed.mean:.3f} with its patterns imposed and {natural.mean:.3f} with the "
        f"model's own; the model has {full.mean:.3f}, the bar is {evidence.bar:g}"
    )
    beside = [f"{len(evidence.background)} rows at their mean"] if evidence.background else []
    beside += [f"{len(evidence.helpers)} helper rows"] if evidence.helpers else []
    spread = [row for row in evidence.rows if evidence.program[row].kind is not AblationKind.ONE_HOT]
    if beside:
        says += f"; it stands on {' and '.join(beside)} beside its paths"
    blind = {}
    if evidence.blinded != evidence.base:
        loss = evidence.sure(evidence.blinded)
        blind = {"blind_mse": loss.mean, "blind_interval": loss.interval}
        judged.append(loss)
        if loss.interval[1] >= evidence.bar:
            says += f"; where these attend to their own chain as to any other it has {loss.mean:.3f}"
    if evidence.as_they_are and evidence.sense == "natural":
        loss = evidence.sure_of(lambda evaluator: errors_alike(evaluator, evidence.blinded, evidence.as_they_are))
        blind |= {"alike_mse": loss.mean, "alike_interval": loss.interval}
        judged.append(loss)
        if loss.interval[1] >= evidence.bar:
            says += f"; where rows that are said to be as they are look at all chains alike it has {loss.mean:.3f}"

    def rewired(evaluator: Evaluator, pair: int) -> Float[Tensor, " sequence"]:
        named = evidence.as_they_are if evidence.sense == "natural" else {}
        return errors_rewired(evaluator, evidence.blinded, named, evidence.gathering, pair)

    if evidence.gathering:
        losses = [evidence.sure_of(partial(rewired, pair=pair)) for pair in rewirings(evidence.evaluator)]
        worst = max(losses, key=lambda loss: loss.mean)
        blind |= {"rewired_mse": worst.mean, "rewired_interval": worst.interval}
        if worst.interval[1] >= evidence.bar > max(one.interval[1] for one in judged):
            says += f"; where rows that are off gather in rewired sequences it has {worst.mean:.3f}"
        judged += losses
    numbers = {
        "sense": evidence.sense,
        "full_mse": full.mean,
        "imposed_mse": imposed.mean,
        "interval": imposed.interval,
        "natural_mse": natural.mean,
        "natural_interval": natural.interval,
        "nothing_mse": nothing.mean,
        **blind,
        "ratio": tidy(imposed.mean / max(full.mean, 1e-12)),
        "background_rows": len(evidence.background),
        "helper_rows": len(evidence.helpers),
        "least_bar": max(one.interval[1] for one in judged),
        "hops": hops,
        "sequences": errors.shape[1],
    }
    if evidence.sense == "strict" and spread:
        says += f"; {len(spread)} rows in use are not one at their key"
    whole = evidence.sense == "natural" or not (beside or spread)
    return Part(whole and all(one.interval[1] < evidence.bar for one in judged), says, numbers)


def _judged(evidence: Evidence, imposed: Measured, natural: Measured) -> list[Measured]:
    """The losses that must lie below the bar."""
    return [imposed, natural] if evidence.sense == "natural" else [imposed]


def _holds(evidence: Evidence) -> bool:
    """Whether the circuit alone holds the bar for sure."""
    _, imposed, natural, _ = evidence.measured(list(evidence.alone.mean(dim=2)))
    return all(one.interval[1] < evidence.bar for one in _judged(evidence, imposed, natural))


def necessity(evidence: Evidence) -> Part:
    """The circuit with each row switched off in turn, and with each path's key taken from its row.

    A key is taken away if its row looks at that role of other chains instead, provided that half of its queries see it
    there; or, where the row looks elsewhere too (it has several keys, or its form is a whole pattern), if the key is
    knocked out of it. What costs least counts: so a row that is needed because it rests at a key, where it reads
    nothing or the same whatever the chain, is not needed for that key.

    Passes if without any one of them the interval of the loss lies above the bar, and the loss rises for sure by a
    fifth of the bar: in a circuit just below the bar, any grain of sand would otherwise be necessary. Losing a row that
    imposed patterns make idle (`exempt`) must raise the natural circuit's loss by the bar. Once one is surely spare,
    what is in doubt about others stays open. `most_bar` is the highest bar at which all would still be needed.
    """
    lost = [(evidence.name(row), one) for row, one in evidence.lost.items()]
    names = evidence.evaluator.names
    lost += [(path.describe(names), one) for path, one in evidence.lost_keys.items()]
    without = evidence.measured([one.without for _, one in lost])
    rise = evidence.measured([one.rise for _, one in lost])
    told, spare, open_, most = [], [], [], []
    for (name, (_, _, due)), loss, more in zip(lost, without, rise, strict=True):
        need = loss.interval[0] > evidence.bar and more.interval[0] > due
        told.append({"row": name, "mse": loss.mean, "interval": loss.interval, "rise": more.mean, "needed": need})
        surely_spare = loss.interval[1] < evidence.bar or more.interval[1] < due
        spare += [name] if surely_spare else []
        open_ += [] if need or surely_spare else [name]
        most.append(min(loss.interval[0], more.interval[0] * evidence.bar / due))
    rows, keys = told[: len(evidence.rows)], told[len(evidence.rows) :]
    asked = "their" if len(keys) == len(evidence.paths) else f"{len(keys)} of their"
    several = f", and of {asked} {len(evidence.paths)} keys," if keys else ""
    least = min((loss.mean for loss in without), default=0.0)
    own = len(rows) if evidence.sense == "natural" else len(evidence.exempt)
    some = "" if own == len(rows) else f"for {own} of them "
    with_own = f" ({some}with the model's own patterns)" if own else ""
    says = f"without any one of its {len(rows)} rows{several} the circuit{with_own} has a loss of at least {least:.3f}"
    kinds = "rows" if not keys else "rows and keys"
    if spare:
        says = f"{len(spare)} of {len(told)} {kinds} can be done without on fresh sequences: {'; '.join(spare)}"
    elif open_:
        says = f"whether {len(open_)} of {len(told)} {kinds} can be done without stays open: {'; '.join(open_)}"
    numbers = {"rows": rows, "keys": keys, "most_bar": tidy(min(most, default=0.0))}
    return Part(bool(rows) and not spare and not open_, says, numbers)


def minimality(evidence: Evidence) -> Part:
    """Whether a part of the circuit that is two or more rows smaller holds the bar; `necessity` asks of one row less.

    Every part is tried for circuits of up to eight rows; else every pair is left out, and random sets of rows. Fails if
    the interval of a part's loss ends below the bar. Rows that are `exempt` stay in. If the circuit itself does not
    hold the bar, and so is not certified whatever comes out here, only the best part is measured on more sequences:
    nearly all of them may be in doubt then.
    """
    rows = [row for row in evidence.rows if row not in evidence.exempt]
    gone: list[tuple[HeadRow, ...]]
    if len(rows) <= _EVERY_SUBSET:
        gone = [combination for size in range(2, len(rows) + 1) for combination in combinations(rows, size)]
        tried = f"every part two or more rows smaller, {len(gone)} in all"
    else:
        gone = [*combinations(rows, 2), *_random_parts(evidence, rows)]
        tried = f"every part two rows smaller, and {evidence.proof.halves} others, {len(gone)} in all"
    programs: list[Interventions] = [{**evidence.base, **{row: evidence.off[row] for row in some}} for some in gone]
    seen = evidence.settled_or_open(programs, evidence.bar, evidence.base)
    losses = [loss for loss, _ in seen]
    may_hold = [number for number, (loss, in_doubt) in enumerate(seen) if in_doubt or loss <= evidence.bar]
    holding: list[int] = []
    best_first = sorted(may_hold, key=losses.__getitem__)
    for number in best_first if _holds(evidence) else best_first[:1]:
        if len(holding) == _ENOUGH:
            break
        if evidence.sure(programs[number]).interval[1] < evidence.bar:
            holding.append(number)
    says = f"it has no part two rows smaller: of {counted(len(evidence.rows), 'row')} {len(rows)} may go"
    if losses:
        says = f"no smaller part of it holds the bar: {tried}; the best has {min(losses):.3f}"
    if holding:
        smallest = max((gone[number] for number in holding), key=len)
        says = f"the bar holds without {'; '.join(map(evidence.name, smallest))}"
    numbers = {
        "tried": len(gone),
        "kind": "every subset" if len(rows) <= _EVERY_SUBSET else "pairs",
        "holding": [[evidence.name(row) for row in gone[number]] for number in holding],
        "least_mse": tidy(min(losses)) if losses else None,
        "paths": len(evidence.paths),
        "fewest_in_theory": minimum_paths(evidence.problem.hops),
    }
    return Part(not holding, says, numbers)


def _random_parts(evidence: Evidence, rows: list[HeadRow]) -> list[tuple[HeadRow, ...]]:
    """Random sets of at least three rows, to be left out."""
    generator, parts = evidence.random("parts"), []
    for _ in range(evidence.proof.halves):
        size = int(torch.randint(3, len(rows), (), generator=generator))
        chosen = torch.randperm(len(rows), generator=generator)[:size].tolist()
        parts.append(tuple(rows[number] for number in chosen))
    return parts


def untrained(evidence: Evidence) -> Part:
    """The circuit in the same model with one of its heads untrained, head by head, and with all of them untrained.

    A head's query, key, value and output weights are drawn as before training: what they had learned was needed or was
    not. In the natural sense all rows in use make their own patterns; in the strict sense patterns are imposed, save
    for heads of `exempt` rows untrained alone. Passes if each time the loss lies above the bar for sure, and above the
    circuit's own by a fifth of the bar. Where no head can be untrained nobody knows, and it does not pass.
    """
    of_head = {(row.layer, row.head): row for row in evidence.rows}
    heads = sorted(of_head)
    some: list[tuple[list[tuple[int, int]], HeadRow | None]] = [([head], of_head[head]) for head in heads]
    some.append((heads, None))
    seed = int(torch.randint(2**31, (), generator=evidence.random("untrained")))
    try:
        measures = [partial(_untrained, evidence, chosen, row, seed) for chosen, row in some]
        lost = evidence.all_until_clear(measures, evidence.open, evidence.spare)
    except InputError as error:
        return Part(False, str(error), {})
    measured = evidence.measured([one.without for one in lost])
    rises = evidence.measured([one.rise for one in lost])
    spare = [
        number
        for number, (one, rise) in enumerate(zip(measured, rises, strict=True))
        if one.interval[0] <= evidence.bar or rise.interval[0] <= COUNTS * evidence.bar
    ]
    *alone, together = [one.mean for one in measured]
    says = f"with any of its {len(heads)} heads untrained the circuit has a loss of at least "
    says += f"{min(alone, default=0):.3f}, with all of them {together:.2f}"
    if spare:
        least = min(spare, key=lambda number: measured[number].mean)
        named = "; ".join(f"layer {layer + 1} head {head + 1}" for layer, head in some[least][0])
        says = f"with untrained weights in {named or 'no head'} the circuit is as good"
    told = zip(heads, alone, strict=True)
    rows = [{"head": [layer + 1, head + 1], "mse": tidy(loss)} for (layer, head), loss in told]
    return Part(not spare, says, {"heads": rows, "all_mse": tidy(together)})


def _untrained(
    evidence: Evidence, chosen: list[tuple[int, int]], row: HeadRow | None, seed: int, evaluator: Evaluator
) -> Lost:
    """The losses with heads untrained; `row` is one of theirs, or None."""
    (without,) = by_sequence(evaluator.with_untrained(chosen, seed), [evidence.around(row)])
    return Lost(without, evidence.own(evaluator, row), COUNTS * evidence.bar)
