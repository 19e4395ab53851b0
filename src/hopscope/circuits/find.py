"""From a model to its circuit: the search, its checks, and the paper's own procedure (Appendix E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import torch

from hopscope.circuits.checks import (
    CertificateConfig,
    Check,
    CheckName,
    Evidence,
    check_in_stages,
    no_circuit,
    tidy,
)
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import ImposedCircuit, OtherCircuit, SearchRecord
from hopscope.circuits.describe import explained, imposed_circuit
from hopscope.circuits.evaluate.ablations import UNIFORM, from_json, to_json
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.resume import Search, Stage, interventions_stage
from hopscope.circuits.search.appendix_e import appendix_e, whole_heads
from hopscope.circuits.search.backups import with_backups
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.search.own_patterns import Found, own_pattern_search
from hopscope.model.torch_module import TorchModule
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow, PathGroup
from hopscope.records import content_hash, convert, plain


@dataclass(frozen=True)
class Origin:
    """The model that a circuit is of: a hash of its weights, or of its run; its seed, and its number in the run."""

    model: str
    seed: int = 0
    number: int = 0

    @classmethod
    def of_weights(cls, transformer: Transformer | TorchModule) -> Origin:
        """The origin of a model that is known by its weights alone."""
        module = transformer.module if isinstance(transformer, TorchModule) else transformer
        weights = {name: weight for name, weight in module.state_dict().items() if isinstance(weight, torch.Tensor)}
        return cls(content_hash({name: weight.tolist() for name, weight in weights.items()}))


def search_circuit(
    evaluator: Evaluator, config: SearchConfig, origin: Origin, proof: CertificateConfig, *, appendix_e: bool = True
) -> Search[Circuit]:
    """Search for the circuit of a model and check it; a model whose loss is not below the threshold has none.

    Args:
        evaluator: the model on the sequences of the search.
        config: how to search.
        origin: the model, as the record names it.
        proof: how many sequences and random draws checks and card are measured on.
        appendix_e: whether the paper's own procedure is done too.
    """
    evaluator.require_finite()
    units = Units.of(evaluator)
    result = yield from own_pattern_search(evaluator, units, config)
    imposed = None
    if appendix_e and not result.left:
        imposed = yield from _appendix_e(evaluator, units, config, proof)
    search = SearchRecord(
        effort=config.effort,
        seed=config.seed,
        minimality=result.minimality,
        evaluations=evaluator.evaluations,
        orders_ending_here=result.found[0].orders if result.found else (),
        removed=_removed(units, result.found[0]) if result.found else (),
        proof=proof,
    )
    if not result.found:
        checks = no_circuit(result.full_mse, config.max_loss, rows_left=result.left)
        return without_circuit(evaluator, origin, config.max_loss, result.full_mse, search, checks, imposed)
    first, *rest = result.found
    interventions, groups = yield Stage(
        "backups",
        partial(with_backups, evaluator, units, first.interventions, config.max_loss),
        evaluator,
        lambda found: [to_json(found[0], evaluator.problem), plain(found[1])],
        lambda saved: (from_json(saved[0], evaluator.problem), convert(saved[1], tuple[PathGroup, ...], "groups")),
    )
    max_loss, seed = config.max_loss, config.seed + 1
    evidence = Evidence(evaluator, units.hypotheses, interventions, max_loss, seed, proof, groups=groups)
    others = [_other(units, found, first) for found in rest]
    return (yield from checked_circuit(evidence, origin, search, others, imposed))


def _removed(units: Units, found: Found) -> tuple[HeadRow, ...]:
    """The rows that the search switched off, in the order in which it did so."""
    live, off = {*units.rows}, units.hypotheses.is_off
    return tuple(row for row, ablation in found.interventions.items() if row in live and off(row, ablation))


def without_circuit(
    evaluator: Evaluator,
    origin: Origin,
    max_loss: float,
    loss: float,
    search: SearchRecord,
    checks: Mapping[CheckName, Check],
    imposed: ImposedCircuit | None = None,
) -> Circuit:
    """The record of a model without a circuit, whose own loss is given; the check of sufficiency says why."""
    shape = evaluator.shape
    return Circuit(
        **asdict(origin), problem=evaluator.problem, layers=shape.layers, heads=shape.heads, max_loss=max_loss,
        losses={"full": tidy(loss)}, paths=(), interventions={}, others=(), search=search, checks=checks,
        imposed=imposed,
    )  # fmt: skip


def checked_circuit(
    evidence: Evidence,
    origin: Origin,
    search: SearchRecord,
    others: Sequence[OtherCircuit] = (),
    imposed: ImposedCircuit | None = None,
) -> Search[Circuit]:
    """Check a circuit; returns its record, with its checks, its card and the numbers of its paths."""
    checks, card = yield from check_in_stages(evidence)
    paths, helpers = explained(evidence)
    means = evidence.wholes.mean(dim=1).tolist()
    losses = dict(zip(("full", "imposed", "own", "nothing"), map(tidy, means), strict=True))
    interventions = {row: ablation for row, ablation in sorted(evidence.imposed.items()) if ablation != UNIFORM}
    none = without_circuit(evidence.evaluator, origin, evidence.max_loss, 0.0, search, checks, imposed)
    return replace(
        none,
        losses=losses,
        paths=paths,
        interventions=interventions,
        others=tuple(others),
        card=card,
        groups=evidence.groups,
        helpers=helpers,
    )


def _other(units: Units, found: Found, first: Found) -> OtherCircuit:
    """A short record of another circuit that the search ended in."""
    paths, known = units.paths(found.interventions), {*units.paths(first.interventions)}
    shared = len(known & {*paths}) / len(known | {*paths})
    return OtherCircuit(tuple(paths), tidy(found.mse), found.orders, tidy(shared))


def _appendix_e(
    evaluator: Evaluator, units: Units, config: SearchConfig, proof: CertificateConfig
) -> Search[ImposedCircuit | None]:
    """The result of the paper's own procedure; None where the model's loss is not below the threshold."""
    ends = yield from appendix_e(evaluator, units, config)
    if not ends:
        return None
    compute = partial(whole_heads, evaluator, units, config)
    heads = yield interventions_stage("Appendix E: whole heads", compute, evaluator)
    interventions = ends[0].interventions
    evidence = Evidence(evaluator, units.hypotheses, interventions, config.max_loss, config.seed + 1, proof, "imposed")
    return (yield from imposed_circuit(ends, heads, units, evidence))
