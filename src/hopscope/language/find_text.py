"""Finds the circuit of a language model for the questions of a formulation, by the same search and certificate."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from hopscope.checks import check_number, check_seed
from hopscope.circuits.checks import Certificate, CertificateConfig, Part, tidy
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Asked, Scores, SearchRecord
from hopscope.circuits.cost_estimate import Forecast, check_memory
from hopscope.circuits.custom_circuit import CustomCircuit, check_circuit
from hopscope.circuits.evaluate.ablations import UNIFORM, own_pattern
from hopscope.circuits.find import Origin, search_circuit, without_circuit
from hopscope.circuits.resume import Journal
from hopscope.circuits.search.config import Effort, SearchConfig
from hopscope.errors import InputError
from hopscope.language.hooked import LanguageModel
from hopscope.language.text_batch import TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.counter import derive_seed
from hopscope.statistics import wilson

_HIGHEST = 0.49
"""With a bar beyond this a circuit would say nothing: guessing among four has a loss of 0.75."""

_SEQUENCES, _CONFIRMING, _DECIDING = 128, 512, 8192
"""How many questions most decisions are made on, the last ones, and those still in doubt: two and four times as many as
for vectors, since a question has one answer where a sequence has four, and is either right or wrong."""

TEXT_PROOF = CertificateConfig(sequences=_CONFIRMING, few=_SEQUENCES)
"""How many questions and random draws stand behind a certificate by default."""


@dataclass(frozen=True)
class Named:
    """A language model as records name it.

    Attributes:
        name: its name for people.
        content: the hash of its weights.
    """

    name: str
    content: str


def find_text_circuit(
    model: LanguageModel,
    tokenizer: Any,
    task: TextTask,
    named: Named,
    *,
    effort: Effort = "thorough",
    faithfulness: float = 0.95,
    seed: int = 0,
    proof: CertificateConfig | None = None,
    journal: Journal | None = None,
) -> Circuit:
    """The circuit of a language model, certified in the natural reading.

    The bar is relative to the model: a circuit must go `faithfulness` of the way from guessing to the model, in Brier
    score on questions that the search sees. A model whose accuracy is not surely above the floor, or that is hardly
    better than guessing in Brier score, has no circuit: the record says so.

    Args:
        model: the language model.
        tokenizer: its tokenizer, a fast one.
        task: the questions that are asked.
        named: what the record calls the model.
        effort: `quick` or `thorough`, see `find_circuit`.
        faithfulness: the share of the way from guessing to the model, above 0 and below 1.
        seed: the seed of the search; its questions and random orders follow from it.
        proof: how many questions and random draws stand behind the certificate.
        journal: follows the search, and remembers what is finished.

    Raises:
        InputError: the tokenizer does not let roles or answers be told apart, a value is out of range, or there is less
            free memory than the search takes.
    """
    _check(seed, faithfulness)
    config = replace(
        SearchConfig.of(effort, seed=seed),
        sequences=_SEQUENCES,
        confirming=_CONFIRMING,
        deciding=_DECIDING,
        most_rows=None,
    )
    proof, journal = proof or TEXT_PROOF, journal or Journal()
    evaluator = _questions(model, tokenizer, task, seed, proof)
    told, origin = _told(evaluator, named), Origin(named.content, seed)
    search = SearchRecord(effort=effort, faithfulness=faithfulness, seed=seed, proof=proof)
    began = time.monotonic()
    evaluator.require_finite()
    bar = _bar(evaluator, faithfulness)
    forecast = Forecast(evaluator, config, proof, (time.monotonic() - began) / evaluator.sequences)
    if not _solves(evaluator, told, bar):
        return _none(evaluator, told, origin, bar, search)
    journal = replace(journal, progress=forecast.told(journal.progress))
    circuit = search_circuit(evaluator, replace(config, max_loss=bar), origin, proof, journal, strict=False)
    fresh = evaluator.fresh(proof.sequences, seed + 1, "circuit certificate")
    return replace(
        circuit,
        search=replace(circuit.search, effort=effort, faithfulness=faithfulness),
        text=replace(told, scores=_scores(fresh, circuit)),
    )


def certify_text_circuit(
    model: LanguageModel,
    tokenizer: Any,
    task: TextTask,
    named: Named,
    given: CustomCircuit,
    *,
    faithfulness: float = 0.95,
    seed: int = 0,
    proof: CertificateConfig | None = None,
    journal: Journal | None = None,
) -> Circuit:
    """The certificate of a circuit of a language model that somebody gives: its paths, or a record.

    The bar and a model that does not solve the problem are as in `find_text_circuit`, and so are the arguments.

    Args:
        model: the language model.
        tokenizer: its tokenizer.
        task: the questions that are asked.
        named: what the record calls the model.
        given: the circuit.
        faithfulness: the share of the way from guessing to the model that it must go.
        seed: the seed of the questions and random draws.
        proof: how many questions and random draws stand behind the certificate.
        journal: is told what is being done.

    Raises:
        InputError: as in `find_text_circuit`, or there is no such path in the model.
    """
    _check(seed, faithfulness)
    proof = proof or TEXT_PROOF
    evaluator = _questions(model, tokenizer, task, seed, proof)
    told, origin, bar = _told(evaluator, named), Origin(named.content, seed), _bar(evaluator, faithfulness)
    search = SearchRecord(given=True, faithfulness=faithfulness, seed=seed, proof=proof)
    if not _solves(evaluator, told, bar):
        return _none(evaluator, told, origin, bar, search)
    circuit = check_circuit(evaluator, given, bar, seed, origin, proof, journal or Journal())
    fresh = evaluator.fresh(proof.sequences, seed, "circuit certificate")
    return replace(circuit, search=search, text=replace(told, scores=_scores(fresh, circuit)))


def _check(seed: int, faithfulness: float) -> None:
    """Check what a search is asked for.

    Raises:
        InputError: the seed is none, or the share is not between 0 and 1.
    """
    check_seed(seed)
    check_number("faithfulness", faithfulness, 0.0)
    if not 0 < faithfulness < 1:
        raise InputError(f"faithfulness must be above 0 and below 1, got {faithfulness}")


def _questions(
    model: LanguageModel, tokenizer: Any, task: TextTask, seed: int, proof: CertificateConfig
) -> TextEvaluator:
    """The model on the questions that a search decides on.

    Raises:
        InputError: there is less free memory than it takes.
    """
    batch = text_batch(task, tokenizer, _CONFIRMING, derive_seed(seed, "circuit search"))
    evaluator = TextEvaluator(model, tokenizer, task, batch)
    check_memory(evaluator, model.size, proof)
    return evaluator


def _bar(evaluator: TextEvaluator, faithfulness: float) -> float:
    """The loss of what goes this share of the way from guessing to the model."""
    full, guessing = float(evaluator.own.mean()), 1 - 1 / evaluator.batch.candidates.shape[1]
    return tidy(full + (1 - faithfulness) * (guessing - full))


def _solves(evaluator: TextEvaluator, told: Asked, bar: float) -> bool:
    """Whether a model answers more than what needs no retrieval, and with a loss that a circuit can be told from."""
    return told.lowest > told.floor and float(evaluator.own.mean()) < bar < _HIGHEST


def _told(evaluator: TextEvaluator, named: Named) -> Asked:
    """What the model was asked, and how its accuracy compares with the floor."""
    task, count = evaluator.task, evaluator.sequences
    (question,) = task.questions(1, 0)
    full = evaluator.scores({})
    lowest, _ = wilson(round(full.accuracy * count), count)
    return Asked(
        named.name, task.formulation, tidy(max(question.guess, question.shortcut)), tidy(lowest),
        task.extensions.changed(), {"full": full},
    )  # fmt: skip


def _scores(evaluator: TextEvaluator, circuit: Circuit) -> dict[str, Scores]:
    """How well the model, the circuit and nothing answer questions that no search has seen."""
    nothing = dict.fromkeys(evaluator.rows, UNIFORM)
    programs = {"full": {}, "nothing": nothing}
    if circuit.found:
        imposed = nothing | circuit.program
        programs |= {"imposed": imposed, "natural": imposed | {row: own_pattern(imposed[row]) for row in circuit.rows}}
    return {name: _tidy(evaluator.scores(program)) for name, program in programs.items()}


def _tidy(scores: Scores) -> Scores:
    return Scores(**{name: tidy(value) for name, value in asdict(scores).items()})


def _none(evaluator: TextEvaluator, told: Asked, origin: Origin, bar: float, search: SearchRecord) -> Circuit:
    """The record of a model that does not answer the questions, or is hardly better than guessing in Brier score."""
    full, bar = float(evaluator.own.mean()), min(max(bar, 1e-3), _HIGHEST)
    accuracy = told.scores["full"].accuracy
    says = (
        f"the model answers {accuracy:.0%} of {evaluator.sequences} questions (95% interval from {told.lowest:.0%}), "
        f"and {told.floor:.0%} needs no retrieval: it does not solve the problem, so there is no circuit to find"
        if told.lowest <= told.floor
        else f"the model's loss is {full:.3f}, too close to that of guessing for a circuit to be told from it"
    )
    part = Part(False, says, {"full_mse": tidy(full), "bar": bar}, origin.seed)
    certificate = Certificate("natural", {"sufficiency": part})
    return replace(without_circuit(evaluator, origin, bar, full, search, certificate), text=told)
