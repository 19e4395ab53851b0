"""Find the circuit of a model: search, checks, card, and the paper's own procedure (Appendix E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from hopscope.circuits.checks import check_in_stages, no_circuit
from hopscope.circuits.checks.card import CertificateConfig, Check, CheckName
from hopscope.circuits.checks.evidence import COUNTS, Evidence, Lost
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import CircuitPath, Helper, ImposedCircuit, ImposedPath, OtherCircuit, SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit, of_parts
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.patching import Patcher
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.resume import Search
from hopscope.circuits.search.appendix_e import FILLS, appendix_e, fill_of, filled, imposed_paths, without
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.own_patterns import own_pattern_search, with_backups
from hopscope.model.hooks import PatchableModel
from hopscope.problem.paths import AttentionPath, Feed, HeadRow
from hopscope.statistics import Measured, tidy

_LEAST_ATTENTION = 0.1
"""A path also counts as feeding a later path if cutting it lowers the attention along the later path by this much."""


@dataclass(frozen=True)
class Origin:
    """The model that a circuit belongs to: the hash that identifies it, its seed, and its number in the run."""

    model: str
    seed: int = 0
    number: int = 0


def search_circuit(
    evaluator: Evaluator, config: SearchConfig, origin: Origin, proof: CertificateConfig, *, appendix_e: bool = True
) -> Search[Circuit]:
    """Search for the circuit of a model and check it; a model whose loss is not below the threshold has no circuit.

    The search uses the evaluator's sequences. With `appendix_e`, the paper's own procedure is run too.
    """
    evaluator.require_finite()
    units = Units.of(evaluator)
    result = yield from own_pattern_search(evaluator, units, config)
    imposed = None
    if appendix_e and not result.left:
        imposed = yield from imposed_circuit(evaluator, units, config, proof)
    search, max_loss = SearchRecord(config.effort, config.seed, proof=proof), config.max_loss
    if not result.found:
        full = float(evaluator.own.mean())
        checks = no_circuit(full, max_loss, rows_left=result.left)
        return replace(without_circuit(evaluator, origin, max_loss, full, search, checks), imposed=imposed)
    first, *rest = result.found
    live, off = {*units.rows}, units.is_off
    removed = [row for row, ablation in first.interventions.items() if row in live and off(row, ablation)]
    search = replace(search, orders_ending_here=first.orders, removed=tuple(removed))
    others = (OtherCircuit(tuple(units.paths(end.interventions)), tidy(end.mse), end.orders) for end in rest)
    interventions, groups = with_backups(evaluator, units, first.interventions, max_loss)
    evidence = Evidence(evaluator, units, interventions, max_loss, config.seed + 1, proof, groups=groups)
    circuit = yield from checked_circuit(evidence, origin, search)
    return replace(circuit, others=tuple(others), imposed=imposed)


def without_circuit(
    evaluator: Evaluator,
    origin: Origin,
    max_loss: float,
    loss: float,
    search: SearchRecord,
    checks: Mapping[CheckName, Check],
) -> Circuit:
    """Return the record of a model without a circuit; `loss` is the model's own loss, and `checks` say why."""
    problem, shape, losses = evaluator.problem, evaluator.shape, {"full": tidy(loss)}
    return Circuit(**asdict(origin), problem=problem, layers=shape.layers, heads=shape.heads, max_loss=max_loss,
                   losses=losses, search=search, checks=checks)  # fmt: skip


def check_custom_circuit(
    evaluator: Evaluator,
    circuit: CustomCircuit,
    max_loss: float | None,
    seed: int,
    origin: Origin,
    proof: CertificateConfig,
) -> Search[Circuit]:
    """Check a circuit of your own, without any search, and return its record with checks and card.

    Of a `Circuit`, only the `parts` are used: a row at its mean gets the mean pattern measured in this model, since
    stored weights could tell one chain from another.
    """
    evaluator.require_finite()
    units = Units.of(evaluator)
    if isinstance(circuit, Circuit):
        max_loss = circuit.max_loss if max_loss is None else max_loss
        circuit = circuit.parts
    interventions, groups = of_parts(circuit, evaluator, units)
    max_loss = SearchConfig.of(max_loss=max_loss).max_loss
    evidence = Evidence(evaluator, units, interventions, max_loss, seed + 1, proof, groups=groups)
    return (yield from checked_circuit(evidence, origin, SearchRecord(seed=seed, proof=proof)))


def checked_circuit(evidence: Evidence, origin: Origin, search: SearchRecord) -> Search[Circuit]:
    """Check a circuit and return its record, with the checks, the card and the numbers of its paths."""
    checks, card = yield from check_in_stages(evidence)
    paths, helpers = explained(evidence)
    means = dict(zip(("full", "imposed", "own", "nothing"), evidence.wholes.mean(dim=1).tolist(), strict=True))
    interventions = {row: ablation for row, ablation in sorted(evidence.imposed.items()) if ablation != UNIFORM}
    return replace(
        without_circuit(evidence.evaluator, origin, evidence.max_loss, means["full"], search, checks),
        losses={name: tidy(loss) for name, loss in means.items()},
        paths=paths,
        interventions=interventions,
        card=card,
        groups=evidence.groups,
        helpers=helpers,
    )


def explained(evidence: Evidence) -> tuple[tuple[CircuitPath, ...], tuple[Helper, ...]]:
    """Return the paths with their losses and uses, and the helper rows; uses in a torch module are unknown."""
    candidates = [evidence.without(path) for path in evidence.paths]
    without = evidence.fresh.losses(evidence.evaluator, candidates, evidence.imposed)
    lost: list[tuple[HeadRow | AttentionPath, Lost]] = [*evidence.lost.items(), *evidence.lost_keys.items()]
    own = {part: losses.loss for part, losses in lost}
    uses: dict[HeadRow, list[Feed]] = {}
    if isinstance(model := evidence.fresh.few.transformer, PatchableModel):
        patcher = Patcher(evidence.fresh.few, model, evidence.own)
        uses = {row: patcher.uses(evidence.paths, row) for row in evidence.rows}
    paths = tuple(
        CircuitPath(
            path,
            ablation=evidence.imposed[path.row].kind.value,
            weight=tidy(evidence.units.weights(path.row)[path.key]),
            without_imposed=evidence.fresh.measured(loss),
            without=own[path if path in evidence.partial else path.row],
            feeds=tuple(
                replace(use, change=tidy(use.change), attention=tidy(use.attention))
                for use in uses.get(path.row, ())
                if use.change >= COUNTS * evidence.max_loss or use.attention >= _LEAST_ATTENTION
            ),
        )
        for path, loss in zip(evidence.paths, without, strict=True)
    )
    names = evidence.evaluator.names
    return paths, tuple(Helper(row.layer + 1, row.head + 1, names[row.query], own[row]) for row in evidence.helpers)


def imposed_circuit(
    evaluator: Evaluator, units: Units, config: SearchConfig, proof: CertificateConfig
) -> Search[ImposedCircuit | None]:
    """Run the paper's own procedure and check its result; None if the model's loss is not below the threshold."""
    ends = yield from appendix_e(evaluator, units, config)
    if not ends:
        return None
    best, *others = ends
    seed, roles = config.seed + 1, evaluator.problem.all_roles
    evidence = Evidence(evaluator, units, best, config.max_loss, seed, proof, "imposed")

    def losses(candidates: Sequence[Interventions]) -> list[Measured]:
        return [*map(evidence.fresh.measured, evidence.fresh.losses(evidence.evaluator, candidates))]

    paths = imposed_paths(best)
    uniform = {row: UNIFORM if paths and row.layer == paths[0].layer else best[row] for row in best}
    fills = [filled(best, ablation) for ablation in FILLS.values()]
    *by_fill, first_uniform, own = losses([*fills, uniform, units.own_patterns(best)])
    lost = [min(losses(without(best, path)), key=lambda loss: loss.mean) for path in paths]
    checks, card = (yield from check_in_stages(evidence)) if paths else ({}, None)
    return ImposedCircuit(
        paths=tuple(ImposedPath(*path.names(roles), loss) for path, loss in zip(paths, lost, strict=True)),
        losses=dict(zip(FILLS, by_fill, strict=True)),
        fill=next(fill for fill, ablation in FILLS.items() if ablation == fill_of(best)),
        first_layer_uniform=first_uniform,
        others=tuple(tuple(path.names(roles) for path in imposed_paths(end)) for end in others),
        own=own,
        checks=checks,
        card=card,
    )
