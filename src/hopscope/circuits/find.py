"""From a trained model to its circuit: the natural search and its certificate, and the paper's strict procedure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from hopscope.circuits.checks import CertificateConfig, Evidence, certify, no_circuit, tidy
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import OtherCircuit, StrictReading
from hopscope.circuits.compare import overlap
from hopscope.circuits.describe import explained, strict_reading
from hopscope.circuits.evaluate.ablations import to_json
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator, single
from hopscope.circuits.resume import SILENT, Journal, SearchProgress
from hopscope.circuits.search.appendix_e import appendix_e, whole_heads
from hopscope.circuits.search.config import SLACK, Effort, SearchConfig
from hopscope.circuits.search.orders import Found, Orders, SearchResult
from hopscope.circuits.store import IfCertified, check_model, circuit_path, kept_circuit, model_hash
from hopscope.errors import InputError
from hopscope.model.architecture import AS_TORCH, Architecture, InitialWeights
from hopscope.model.torch_module import TorchModule
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.records import content_hash
from hopscope.training.data import held_out
from hopscope.training.run import RunFolder

_LOSSES = ("full", "imposed", "natural", "nothing")
"""The losses that a record tells."""


@dataclass(frozen=True)
class Origin:
    """Where a model comes from.

    Attributes:
        model: hash of its weights, or of its run and its place in the run.
        seed: the seed it was trained from.
        number: its number within its run, from 0.
    """

    model: str
    seed: int = 0
    number: int = 0


def find_circuit(
    transformer: Transformer | TorchModule,
    problem: RetrievalProblem,
    *,
    effort: Effort | SearchConfig = "thorough",
    max_loss: float | None = None,
    seed: int | None = None,
    origin: Origin | None = None,
    proof: CertificateConfig | None = None,
    journal: Journal | None = None,
    initial: InitialWeights = AS_TORCH,
) -> Circuit:
    """The circuit of one model, certified, in the natural and in the strict reading.

    A model that does not hold the bar has no circuit: the record says so. For a module that somebody else wrote, the
    record does not say what reads each path, since the insides of its heads are not known.

    Args:
        transformer: one model, ours or anybody's behind the seam (`hs.Model.from_torch`).
        problem: the problem that it was trained on.
        effort: `quick` finds one circuit, `thorough` the different ones that a model holds; or a configuration.
        max_loss: the loss a circuit may have at most, by default the configuration's, which is the paper's 0.05.
        seed: the seed of the search; its sequences and random orders follow from it.
        origin: where the model comes from, for the record; by default a hash of its weights.
        proof: how many sequences and random draws stand behind the certificate.
        journal: follows the search, and remembers what is finished.
        initial: how the model's weights were drawn before it was trained, which the certificate's `untrained` needs;
            for a model that we trained, its `recipe.initial`. Somebody else's module brings its own way.

    Raises:
        InputError: more than one model, a value out of range, or a module whose heads cannot be given initial weights.

    Example:
        >>> from hopscope.theory.witness import build_witness
        >>> witness = build_witness(hops=1)
        >>> circuit = find_circuit(witness.transformer, witness.problem, effort="quick")
        >>> [one.path.describe(circuit.roles) for one in circuit.paths]
        ['layer 1 head 1: >x1 -> x0>', 'layer 2 head 1: x0? -> >x1']
    """
    config = SearchConfig.of(effort, max_loss, seed)
    if not isinstance(problem, RetrievalProblem):
        raise InputError(f"problem must be an hs.RetrievalProblem, got {problem!r}")
    proof = CertificateConfig.of(proof)
    if not isinstance(transformer, Transformer | TorchModule):
        raise InputError(
            f"a circuit is found in a transformer: pass model.transformer of a model of a run, or ask the model for "
            f"model.find_circuit(), got {transformer!r}"
        )
    _see_problem(transformer.shape, problem)
    batch = held_out(problem, config.confirming, config.seed, "circuit search")
    evaluator = VectorEvaluator(transformer, problem, batch, initial)
    of, journal = origin or origin_of(transformer), journal or Journal()
    circuit = circuit_in(evaluator, config, of, proof, journal, strict=True)
    return replace(circuit, search=circuit.search | {"proof": asdict(proof)})


def _see_problem(shape: Architecture, problem: RetrievalProblem) -> None:
    """Check that a transformer may have been trained on a problem.

    Raises:
        InputError: it takes other inputs, answers something else or elsewhere, or has another mask.
    """
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


def origin_of(transformer: Transformer | TorchModule) -> Origin:
    """The origin of a model that is known by its weights alone."""
    module = transformer.module if isinstance(transformer, TorchModule) else transformer
    weights = {name: weight for name, weight in module.state_dict().items() if isinstance(weight, torch.Tensor)}
    return Origin(content_hash({name: weight.tolist() for name, weight in weights.items()}))


def origin_in(run: RunFolder, number: int, step: int | None) -> Origin:
    """The origin of a model of a run, as it was at a step, or is."""
    at = max(run.checkpoints, default=0) if step is None else step
    return Origin(model_hash(run, number, at), run.seeds[number], number)


def circuit_in(
    evaluator: Evaluator,
    config: SearchConfig,
    origin: Origin,
    proof: CertificateConfig,
    journal: Journal,
    *,
    strict: bool,
) -> Circuit:
    """The circuit of a model, certified.

    Args:
        evaluator: the model, and the sequences that the search decides on.
        config: how it is searched for.
        origin: where the model comes from.
        proof: how many sequences and random draws stand behind the certificate.
        journal: follows the search, and remembers what is finished.
        strict: whether the paper's own procedure is followed too.

    Raises:
        InputError: the model's answers are not finite.
    """
    evaluator.require_finite()
    units = Units.of(evaluator)
    outcome, seed = Orders(evaluator, units, config, journal).run(), config.seed
    given_up = outcome.left > 0
    known = described_model(evaluator, origin, config.max_loss) | {
        "strict": _strict(evaluator, units, config, journal, proof) if strict and not given_up else None,
        "search": _described(outcome, config, evaluator),
    }
    if not outcome.found:
        certificate = no_circuit(outcome.full_mse, config.max_loss, seed, rows_left=outcome.left)
        losses = {"full": tidy(outcome.full_mse)}
        return Circuit(**known, losses=losses, paths=(), program=(), others=(), certificate=certificate)
    first = outcome.found[0]
    evidence = Evidence(evaluator, units.hypotheses, first.program, config.max_loss, seed + 1, proof)
    return judged(known, evidence, journal, [_other(units, found, first) for found in outcome.found[1:]])


def described_model(evaluator: Evaluator, origin: Origin, bar: float) -> dict[str, Any]:
    """The fields of a record that say of which model it is, and which bar its circuit must hold."""
    shape = evaluator.shape
    of_model = {"problem": evaluator.problem, "layers": shape.layers, "heads": shape.heads, "bar": bar}
    return asdict(origin) | of_model


def judged(known: dict[str, Any], evidence: Evidence, journal: Journal, others: Sequence[OtherCircuit] = ()) -> Circuit:
    """The record of a circuit, certified and explained.

    Args:
        known: the fields of the record that are known of its model and how it was found.
        evidence: the circuit.
        journal: follows the certificate, and remembers what is finished.
        others: other circuits of the model.
    """
    certificate = certify(evidence, journal)
    paths, helpers = explained(evidence)
    measured = {name: certificate.number("sufficiency", f"{name}_mse") for name in _LOSSES}
    return Circuit(
        **known,
        losses={name: loss for name, loss in measured.items() if loss is not None},
        paths=paths,
        helpers=helpers,
        program=tuple(to_json(evidence.program, evidence.problem)),
        others=tuple(others),
        certificate=certificate,
    )


def circuit_of_run(
    run: RunFolder,
    number: int = 0,
    step: int | None = None,
    *,
    effort: Effort | SearchConfig = "thorough",
    max_loss: float | None = None,
    seed: int | None = None,
    proof: CertificateConfig | None = None,
    progress: SearchProgress = SILENT,
    overwrite: bool = False,
    certified: IfCertified = "replace",
) -> Circuit:
    """The circuit of a model of a run, kept beside it (see `circuit_path`).

    An existing record is returned as it is, unless it was made with other settings or `overwrite` is given. A circuit
    certified at another bar is replaced only with `overwrite`. A search that was interrupted goes on where it was.

    Args:
        run: the run, finished or still training.
        number: the model's number within the run, from 0.
        step: the step of the checkpoint to look at; `None` for the last.
        effort: see `find_circuit`.
        max_loss: see `find_circuit`.
        seed: see `find_circuit`.
        proof: see `find_circuit`.
        progress: called with what is being done, how many stages are finished, and how many there are.
        overwrite: search again even if there is a record.
        certified: what is done with a certified circuit that another search found, see `kept_circuit`.

    Raises:
        InputError: no such model or checkpoint, a run without any checkpoint, a model that has diverged, or a record of
            a circuit that is certified at another bar.
    """
    config, proof = SearchConfig.of(effort, max_loss, seed), CertificateConfig.of(proof)
    check_model(run, number)
    if step is None and run.finished and run.result.models[number].diverged:
        raise InputError(f"model {number} of {run.path} has diverged, so that there is no circuit to find")
    origin = origin_in(run, number, step)

    def find(journal: Journal) -> Circuit:
        return find_circuit(
            single(run.transformer(step), number),
            run.problem,
            effort=config,
            origin=origin,
            proof=proof,
            journal=journal,
            initial=run.recipe.initial,
        )

    path, wanted = (
        circuit_path(run.path, number, step),
        {"model": origin.model, "max_loss": config.max_loss},
    )
    wanted["proof"] = asdict(proof)
    hashed, wanted = run.record.content_hash, _asked(config) | wanted
    return kept_circuit(path, wanted, find, run=hashed, progress=progress, overwrite=overwrite, certified=certified)


def _asked(config: SearchConfig) -> dict[str, Any]:
    """The settings of the search that a record must have to be the one asked for."""
    told = {name: value for name, value in asdict(config).items() if name not in ("effort", "max_loss")}
    return told | {"room": SLACK}


def _described(outcome: SearchResult, config: SearchConfig, evaluator: Evaluator) -> dict[str, Any]:
    return _asked(config) | {
        "minimality": outcome.minimality,
        "evaluations": evaluator.evaluations,
        "orders_ending_here": list(outcome.found[0].orders) if outcome.found else [],
    }


def _other(units: Units, found: Found, first: Found) -> OtherCircuit:
    """A short record of another circuit that the search ended in."""
    mine, theirs = units.paths(found.program), units.paths(first.program)
    return OtherCircuit(tuple(mine), tidy(found.mse), found.orders, tidy(overlap({*mine}, {*theirs})))


def _strict(
    evaluator: Evaluator, units: Units, config: SearchConfig, journal: Journal, proof: CertificateConfig
) -> StrictReading | None:
    """The result of the paper's own procedure; None where the model does not hold the bar."""
    ends = appendix_e(evaluator, units, config, journal)
    if not ends:
        return None
    heads = whole_heads(evaluator, units, config, None)
    journal.progress("certificate, strict", 1, 1)
    evidence = Evidence(evaluator, units.hypotheses, ends[0].program, config.max_loss, config.seed + 1, proof, "strict")
    return strict_reading(ends, heads, units, evidence)
