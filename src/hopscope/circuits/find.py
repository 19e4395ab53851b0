"""From a trained model to its circuit: the search, its checks, and the paper's own procedure (Appendix E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from hopscope.circuits.checks import (
    CertificateConfig,
    Check,
    CheckName,
    Evidence,
    no_circuit,
    run_card,
    run_checks,
    tidy,
)
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import ImposedCircuit, OtherCircuit, SearchRecord
from hopscope.circuits.describe import explained, imposed_circuit
from hopscope.circuits.evaluate.ablations import UNIFORM
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.resume import Journal
from hopscope.circuits.search.appendix_e import appendix_e, whole_heads
from hopscope.circuits.search.config import SLACK, Effort, SearchConfig
from hopscope.circuits.search.orders import Found, Orders
from hopscope.errors import InputError
from hopscope.model.architecture import AS_TORCH, Architecture, InitialWeights
from hopscope.model.torch_module import TorchModule
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash
from hopscope.training.data import held_out


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


def find_circuit(
    transformer: Transformer | TorchModule,
    problem: RetrievalProblem,
    *,
    effort: Effort | SearchConfig = "thorough",
    max_loss: float | None = None,
    seed: int | None = None,
    proof: CertificateConfig | None = None,
    journal: Journal | None = None,
    initial: InitialWeights = AS_TORCH,
) -> Circuit:
    """The circuit of one model with its checks and card, and the one that the procedure of Appendix E finds.

    A model whose loss is not below the threshold has no circuit: the record says so.

    Args:
        transformer: one model, ours or a torch module of yours (`hs.Model.from_torch`).
        problem: the problem that it was trained on.
        effort: `quick` finds one circuit, `thorough` the different ones that a model holds; or a configuration.
        max_loss: the loss a circuit may have at most, by default the configuration's, which is the paper's 0.05.
        seed: the seed of the search; its sequences and random orders follow from it.
        proof: how many sequences and random draws checks and card are measured on.
        journal: reports the progress of the search, and remembers what is finished.
        initial: how the model's weights were drawn before it was trained, for the baseline of untrained heads; for a
            model that we trained, its `recipe.initial`. A torch module has its own way.

    Raises:
        InputError: more than one model, a value out of range, or a module whose heads cannot be given initial weights.

    Example:
        >>> from hopscope.theory.witness import build_witness
        >>> witness = build_witness(hops=1)
        >>> circuit = find_circuit(witness.transformer, witness.problem, effort="quick")
        >>> [one.path.describe(circuit.roles) for one in circuit.paths]
        ['layer 1 head 1: >x1 -> x0>', 'layer 2 head 1: x0? -> >x1']
    """
    config, proof = SearchConfig.of(effort, max_loss, seed), CertificateConfig.of(proof)
    if not isinstance(problem, RetrievalProblem):
        raise InputError(f"problem must be an hs.RetrievalProblem, got {problem!r}")
    if not isinstance(transformer, Transformer | TorchModule):
        raise InputError(f"find_circuit() expects model.transformer; or call model.find_circuit(); got {transformer!r}")
    _check_problem(transformer.shape, problem)
    batch = held_out(problem, config.confirming, config.seed, "circuit search")
    evaluator = VectorEvaluator(transformer, problem, batch, initial)
    return search_circuit(evaluator, config, Origin.of_weights(transformer), proof, journal or Journal())


def _check_problem(shape: Architecture, problem: RetrievalProblem) -> None:
    """Check that a transformer may have been trained on a problem: it takes and gives what the problem has."""
    for has, asks, what in (
        (shape.d_input, problem.input_dim, "takes {} numbers a position, and {} has {}"),
        (shape.d_output, problem.target_dim, "gives {} numbers, and {} asks for {}"),
        (shape.reads, problem.chains, "answers {} queries, and {} has {}"),
        (shape.causal, problem.causal, "has causal={}, and {} causal={}"),
    ):
        if has != asks:
            raise InputError(
                f"the transformer {what.format(has, problem.named, asks)}; pass the problem that it was trained on"
            )


def search_circuit(
    evaluator: Evaluator,
    config: SearchConfig,
    origin: Origin,
    proof: CertificateConfig,
    journal: Journal,
    *,
    appendix_e: bool = True,
) -> Circuit:
    """The circuit of a model with its checks and card; with `appendix_e` also what that procedure finds."""
    evaluator.require_finite()
    units = Units.of(evaluator)
    outcome = Orders(evaluator, units, config, journal).run()
    imposed = _imposed(evaluator, units, config, journal, proof) if appendix_e and not outcome.left else None
    search = SearchRecord(
        **asked_of(config),
        minimality=outcome.minimality,
        evaluations=evaluator.evaluations,
        orders_ending_here=tuple(outcome.found[0].orders) if outcome.found else (),
        proof=proof,
    )
    if not outcome.found:
        checks = no_circuit(outcome.full_mse, config.max_loss, rows_left=outcome.left)
        return without_circuit(evaluator, origin, config.max_loss, outcome.full_mse, search, checks, imposed)
    first = outcome.found[0]
    evidence = Evidence(evaluator, units.hypotheses, first.program, config.max_loss, config.seed + 1, proof)
    others = [_other(units, found, first) for found in outcome.found[1:]]
    return checked_circuit(evidence, origin, search, journal, others, imposed)


def asked_of(config: SearchConfig) -> dict[str, Any]:
    """The settings of a search, as its record has them."""
    settings = {name: value for name, value in asdict(config).items() if name not in ("effort", "max_loss")}
    return settings | {"room": SLACK}


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
    journal: Journal,
    others: Sequence[OtherCircuit] = (),
    imposed: ImposedCircuit | None = None,
) -> Circuit:
    """The record of a circuit with its checks, its card and the numbers of its paths."""
    checks = run_checks(evidence, journal)
    card = run_card(evidence, checks, journal)
    paths, helpers = explained(evidence)
    means = evidence.wholes.mean(dim=(1, 2)).tolist()
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
    paths, known = units.paths(found.program), {*units.paths(first.program)}
    shared = len(known & {*paths}) / len(known | {*paths})
    return OtherCircuit(tuple(paths), tidy(found.mse), found.orders, tidy(shared))


def _imposed(
    evaluator: Evaluator, units: Units, config: SearchConfig, journal: Journal, proof: CertificateConfig
) -> ImposedCircuit | None:
    """The result of the paper's own procedure; None where the model's loss is not below the threshold."""
    ends = appendix_e(evaluator, units, config, journal)
    if not ends:
        return None
    heads, program = whole_heads(evaluator, units, config), ends[0].program
    evidence = Evidence(evaluator, units.hypotheses, program, config.max_loss, config.seed + 1, proof, "imposed")
    return imposed_circuit(ends, heads, units, evidence, journal)
