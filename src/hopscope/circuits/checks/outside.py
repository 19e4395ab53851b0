"""The circuit and the rest of the model: random circuits, other ways to switch the rest off, parts of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.checks.certificate import Part, tidy
from hopscope.circuits.checks.evidence import COUNTS, Evidence
from hopscope.circuits.checks.sampling import by_sequence
from hopscope.circuits.evaluate.ablations import (
    IDENTITY,
    KEEP,
    POSITIONAL,
    RESAMPLE,
    UNIFORM,
    Ablation,
    Interventions,
    knock_out,
)
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.theory.delivery import arrives
from hopscope.theory.scene import Scene

RowSet = frozenset[HeadRow]

_TRIES = 6
"""How many attempts are made for each draw asked for: where few distinct circuits exist, all are soon found."""


def random_rows(pool: Sequence[HeadRow], size: int, generator: torch.Generator) -> RowSet:
    """Some `size` rows of a pool, drawn at random."""
    return frozenset(pool[number] for number in torch.randperm(len(pool), generator=generator)[:size].tolist())


def random_deliverable(
    scene: Scene, pool: Sequence[AttentionPath], size: int, generator: torch.Generator
) -> tuple[AttentionPath, ...] | None:
    """Random paths of a pool that carry x{D} to the query by theory, none of which can be done without.

    Paths are drawn until they deliver, and taken away in random order while the rest still delivers. None if the pool
    does not deliver, if more than `size` rows come out, or if `size` is 0.
    """
    if not size:
        return None
    shuffled = [pool[number] for number in torch.randperm(len(pool), generator=generator).tolist()]
    count = 2 * size
    while not arrives(scene, shuffled[:count]):
        if count >= len(shuffled):
            return None
        count *= 2
    kept = shuffled[:count]
    for path in shuffled[:count]:
        rest = [other for other in kept if other != path]
        kept = rest if arrives(scene, rest) else kept
    return tuple(sorted(kept)) if len({path.row for path in kept}) <= size else None


def rivals(
    scene: Scene, pool: Sequence[AttentionPath], own: RowSet, draws: int, generator: torch.Generator
) -> list[RowSet]:
    """Distinct random circuits of the size of `own`: about half are any heavy rows, half deliver by theory.

    A row is heavy if it attends to some role. Circuits that deliver are filled up to size with other heavy rows. There
    are fewer than `draws` if no more are found, and none for an empty circuit.
    """
    heavy, size = sorted({path.row for path in pool} | own), len(own)
    found: dict[RowSet, None] = {}
    for attempt in range(_TRIES * draws if size else 0):
        drawn = random_rows(heavy, size, generator)
        if attempt % 2:
            paths = random_deliverable(scene, pool, size, generator)
            if paths is None:
                continue
            chosen = frozenset(path.row for path in paths)
            rest = [row for row in heavy if row not in chosen]
            drawn = chosen | random_rows(rest, size - len(chosen), generator)
        if drawn != own:
            found[drawn] = None
        if len(found) == draws:
            break
    return list(found)


_MOST = 0.9
"""The share of the way from nothing to the model that counts as almost all."""

_HALF = 0.5
"""The share of that way that must be kept with one unused head at itself."""

_RARE = 0.05
"""The share of random circuits that may do as well."""

_ALIKE, _LEAST_ALIKE = 0.5, 0.25
"""The share of the damage knocked-out rows do in the circuit that they must do in the model: in all, and each alone."""


def recovery(evidence: Evidence) -> Part:
    """The circuit's faithfulness compared with that of random circuits of the same size.

    A random circuit keeps as many rows, with the model's own patterns. Everything else is as the circuit has it, the
    circuit's own rows being switched off: so it stands on the same background. Random circuits are drawn from the rows
    that attend to some role, in heads that write something; half of them deliver x{D} by theory. Passes if the circuit
    goes 90% of the way from nothing to the model and at most one in twenty of them does as well (none, if there are
    fewer than twenty).
    """
    heavy = [AttentionPath(*row, key) for row in evidence.telling for key in evidence.hypotheses.heavy(row)]
    levels, scene, own = evidence.levels, evidence.evaluator.scene, frozenset(evidence.rows)
    drawn = rivals(scene, heavy, own, evidence.proof.draws, evidence.random("circuits"))
    around: Interventions = {**evidence.base, **evidence.off}
    kept: list[Interventions] = [{**around, **dict.fromkeys(rows, KEEP)} for rows in drawn]
    losses = evidence.settled(kept, levels.own, around)
    mine, *others = (tidy(levels.faithfulness(loss)) for loss in (levels.own, *losses))
    as_good = sum(loss <= levels.own for loss in losses)
    chance = (1 + as_good) / (1 + len(losses))
    rare = chance <= _RARE if len(losses) >= 1 / _RARE else as_good == 0
    best = f"the best of {len(others)} random circuits of its size goes {max(others, default=0):.0%}"
    says = f"the circuit goes {mine:.0%} of the way from nothing to the model; {best if others else 'it has no rival'}"
    numbers = {"recovery": mine, "random": others, "as_good": as_good, "p_value": tidy(chance)}
    return Part(mine >= _MOST and rare, f"{says} (p = {chance:.2g})", numbers)


def families(evidence: Evidence) -> Part:
    """The circuit with everything else ablated in other ways than the search used.

    Everything at once by `uniform`, by `average` (each outside row's positional mean) and by `resample` (its pattern on
    another sequence); and each head that the circuit does not use alone by `identity`, of which the worst counts. Rows
    that the circuit has at themselves or at their mean stay so. Passes if 90% of the way from nothing to the model is
    kept each time, and half of it with the worst head at itself: a head that is idle where it looks may well write
    something where it never looks. All heads at themselves at once is reported and not judged. If rows are left outside
    but none that could be ablated otherwise, this says nothing, and so it does not pass.
    """
    ways = {"uniform": UNIFORM, "average": POSITIONAL, "resample": RESAMPLE, "all_identity": IDENTITY}
    programs: list[Interventions] = [{**evidence.base, **dict.fromkeys(evidence.free, form)} for form in ways.values()]
    used, unused = {(row.layer, row.head) for row in evidence.rows}, defaultdict[tuple[int, int], Interventions](dict)
    for row in evidence.free:
        if (row.layer, row.head) not in used:
            unused[row.layer, row.head][row] = IDENTITY
    alone: list[Interventions] = [{**evidence.base, **rows} for rows in unused.values()]
    losses = evidence.settled(programs, evidence.levels.at(_MOST), evidence.base)
    losses += evidence.settled(alone, evidence.levels.at(_HALF), evidence.base)
    by_way = {**dict(zip(ways, losses, strict=False)), "identity": max(losses[len(ways) :], default=losses[0])}
    kept = {name: tidy(evidence.levels.faithfulness(loss)) for name, loss in by_way.items()}
    judged = [name for name in kept if name != "all_identity"]
    asked = bool(evidence.free) or not evidence.outside
    passed = asked and all(kept[name] >= (_HALF if name == "identity" else _MOST) for name in judged)
    shares = ", ".join(f"{kept[name]:.0%} ({name})" for name in judged[:-1])
    says = f"with everything else ablated the circuit keeps {shares} of the way from nothing to the model; "
    says += f"with any one unused head at itself {kept['identity']:.0%}"
    return Part(passed, says, {"mse": {name: tidy(loss) for name, loss in by_way.items()}, "kept": kept})


def outside(evidence: Evidence) -> Part:
    """The model without what carries nothing according to the circuit: random halves of the other rows, other keys.

    Of the rows, each half and its rest are taken away. In the strict sense the circuit's patterns are imposed then,
    since a strict circuit does not claim what makes them. Rows taken away look at all chains alike if they never tell
    theirs from others, are at themselves if the circuit has them so, and uniform otherwise. Of the rows in use that are
    said to look at chosen keys, all others that they attend to in their chain are knocked out of the model at once: a
    row that looks at its key for some questions, and elsewhere for the rest, is not what the circuit says. Passes if
    the model holds the bar for sure without the worst half, and without those keys: the interval of its loss ends
    below.
    """
    generator, idle = evidence.random("outside"), list(evidence.idle.items())
    halves: list[Interventions] = []
    for _ in range(evidence.proof.halves // 2):
        order = torch.randperm(len(idle), generator=generator).tolist()
        halves += [dict(idle[number] for number in order[start::2]) for start in (0, 1)]
    imposed: Interventions = {row: evidence.program[row] for row in evidence.rows} if evidence.sense == "strict" else {}
    programs: list[Interventions] = [imposed | half for half in halves]
    losses = evidence.settled(programs, evidence.bar, imposed)
    loss = evidence.sure(programs[max(range(len(losses)), key=losses.__getitem__)])
    says = (
        f"the model without random halves of the other {len(idle)} rows has a loss of at most {loss.mean:.3f}; the bar "
        f"is {evidence.bar:g}"
    )
    numbers = {"worst_mse": loss.mean, "interval": loss.interval, "mse": [tidy(loss) for loss in losses]}
    if not evidence.unnamed:
        return Part(loss.interval[1] < evidence.bar, says, numbers)
    others: dict[HeadRow, list[int]] = defaultdict(list)
    for look in evidence.unnamed:
        others[look.row].append(look.key)
    keys = evidence.sure({row: knock_out(*keys) for row, keys in others.items()})
    looks = [look.describe(evidence.evaluator.names) for look in evidence.unnamed]
    says += f"; without {'; '.join(looks)}, of which the circuit says nothing, {keys.mean:.3f}"
    numbers |= {"unnamed": looks, "unnamed_mse": keys.mean, "unnamed_interval": keys.interval}
    return Part(max(loss.interval[1], keys.interval[1]) < evidence.bar, says, numbers)


def completeness(evidence: Evidence) -> Part:
    """The same rows knocked out of the model and of the circuit: if the circuit is all there is, both suffer alike.

    Single rows, random sets of rows, and single keys are knocked out; of the circuit a row is taken with its only key,
    since it says no more of it. Passes if in all the damage in the model is at least half of that in the circuit, and
    for sure at least a quarter for every single row, and every single key, that does some damage; less means that
    something outside steps in: another head, or, for a key, another key of its row.
    """
    generator, rows = evidence.random("completeness"), evidence.rows
    sets: list[Interventions] = []
    for _ in range(evidence.proof.halves // 4):
        chosen = torch.rand(len(rows), generator=generator) < 0.5
        some = {row: evidence.off[row] for row, knocked in zip(rows, chosen.tolist(), strict=True) if knocked}
        sets += [some] if some else []
    model = [loss - evidence.levels.full for loss in evidence.few.mse(sets)]
    circuit = [loss - evidence.levels.own for loss in evidence.few.mse([{**evidence.base, **one} for one in sets])]
    alone = {evidence.name(row): _knocked_out(evidence, row, evidence.off[row], evidence.off[row]) for row in rows}
    model, circuit = [one.model for one in alone.values()] + model, [one.circuit for one in alone.values()] + circuit
    names = evidence.evaluator.names
    keys = {
        path.describe(names): _knocked_out(evidence, path.row, knock_out(path.key), evidence.unclaimed(path))
        for path in evidence.paths
    }
    telling, telling_keys = (
        {name: one for name, one in some.items() if one.circuit > COUNTS * evidence.bar} for some in (alone, keys)
    )
    all_in_all = sum(model) / max(sum(circuit), 1e-12)
    least, least_key = (min((one.share for one in some.values()), default=0.0) for some in (telling, telling_keys))
    every = [*telling.values(), *telling_keys.values()]
    return Part(
        bool(telling) and all_in_all >= _ALIKE and all(one.enough for one in every),
        f"knocked out of the model, its rows do {all_in_all:.0%} of the damage they do in the circuit; the least of "
        f"them does {least:.0%}, the least of their keys {least_key:.0%}",
        {
            "share": tidy(all_in_all),
            "least": tidy(least),
            "least_key": tidy(least_key),
            "rows": {name: tidy(one.share) for name, one in telling.items()},
            "keys": {name: tidy(one.share) for name, one in telling_keys.items()},
            "model": [tidy(one) for one in model],
            "circuit": [tidy(one) for one in circuit],
        },
    )


class _Damage(NamedTuple):
    """How much the loss rises without something, and whether it surely rises a quarter as much in the model."""

    model: float
    circuit: float
    enough: bool

    @property
    def share(self) -> float:
        """The model's rise as a share of the circuit's."""
        return self.model / self.circuit


def _knocked_out(evidence: Evidence, row: HeadRow, in_model: Ablation, in_circuit: Ablation) -> _Damage:
    """What is lost with a row in these forms, on as many sequences as it takes to see whether the model feels it."""

    def rises(evaluator: Evaluator) -> Float[Tensor, "of sequence"]:
        own = torch.stack([evidence.full(evaluator), evidence.own(evaluator, row)])
        model, circuit = by_sequence(evaluator, [{row: in_model}]), evidence.changed(evaluator, [(row, in_circuit)])
        return torch.cat([model, circuit]) - own

    def beyond(rises: Float[Tensor, "of sequence"]) -> Float[Tensor, " sequence"]:
        """How far the model's rise exceeds the share of the circuit's rise that it must reach."""
        return rises[0] - _LEAST_ALIKE * rises[1]

    def doubtful(rises: Float[Tensor, "of sequence"]) -> bool:
        return evidence.in_doubt([beyond(rises)], 0.0)

    found = evidence.until_clear(rises, doubtful)
    model, circuit = found.mean(dim=1).tolist()
    return _Damage(model, circuit, float(beyond(found).mean()) > 0 and not doubtful(found))
