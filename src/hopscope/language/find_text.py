"""Finds the circuit of a language model for the questions of a formulation, by the same search and checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from hopscope.checks import check_number, check_seed
from hopscope.circuits.checks import CertificateConfig, Check, tidy
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Asked, Scores, SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit, check_custom_circuit
from hopscope.circuits.evaluate.ablations import UNIFORM, own_pattern
from hopscope.circuits.find import Origin, search_circuit, without_circuit
from hopscope.circuits.resume import Search
from hopscope.circuits.search.config import BUDGETS, Effort, SearchConfig
from hopscope.errors import InputError
from hopscope.language.hooked import HookedDecoder
from hopscope.language.limits import check_memory
from hopscope.language.text_batch import TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator
from hopscope.problem.counter import derive_seed
from hopscope.statistics import wilson

_HIGHEST = 0.49
"""With a threshold beyond this a circuit would say nothing: guessing among four has a loss of 0.75."""

_QUESTIONS = 512
"""How many questions the last decisions of a search are made on."""

_BUDGETS = {
    effort: replace(budget, sequences=128, confirming=_QUESTIONS, deciding=8192, most_rows=None)
    for effort, budget in BUDGETS.items()
}
"""How much work each effort is: two and four times as many questions as there are sequences for vectors, since a
question has one answer where a sequence has four, and is either right or wrong."""

TEXT_PROOF = CertificateConfig(sequences=_QUESTIONS, few=128)
"""How many questions and random draws checks and card are measured on by default."""


@dataclass(frozen=True)
class Named:
    """A language model as records name it.

    Attributes:
        name: its name for people.
        content: the hash of its weights.
    """

    name: str
    content: str


def search_text_circuit(
    model: HookedDecoder,
    tokenizer: Any,
    task: TextTask,
    named: Named,
    effort: Effort,
    faithfulness: float,
    seed: int,
    proof: CertificateConfig,
) -> Search[Circuit]:
    """Search for the circuit of a language model, and check it.

    The loss threshold is relative to the model: a circuit must go `faithfulness` of the way from guessing to the model,
    in Brier score on questions that the search sees. A model whose accuracy is not surely above the floor, or that is
    hardly better than guessing in Brier score, has no circuit: the record says so.

    Raises:
        InputError: roles or answers share a token, a value is out of range, or there is less
            free memory than the search takes.
    """
    if effort not in _BUDGETS:
        raise InputError(f"effort must be {' or '.join(_BUDGETS)}, got {effort!r}")
    asked = _Subject.of(model, tokenizer, task, named, faithfulness, seed, proof)
    if not asked.solves:
        return asked.no_circuit(SearchRecord(effort, seed, faithfulness, proof=proof))
    config = SearchConfig(_BUDGETS[effort], asked.max_loss, seed)
    circuit = yield from search_circuit(asked.evaluator, config, asked.origin, proof, appendix_e=False)
    search = replace(circuit.search, effort=effort, faithfulness=faithfulness)
    return asked.described(circuit, search, proof, seed + 1)


def check_text_circuit(
    model: HookedDecoder,
    tokenizer: Any,
    task: TextTask,
    named: Named,
    circuit: CustomCircuit,
    faithfulness: float,
    seed: int,
    proof: CertificateConfig,
) -> Search[Circuit]:
    """Check a circuit of your own in a language model: its paths, or a record.

    The threshold and a model that does not solve the problem are as in `search_text_circuit`.

    Raises:
        InputError: as in `search_text_circuit`, or there is no such path in the model.
    """
    asked = _Subject.of(model, tokenizer, task, named, faithfulness, seed, proof)
    search = SearchRecord(None, seed, faithfulness, proof=proof)
    if not asked.solves:
        return asked.no_circuit(search)
    checked = yield from check_custom_circuit(asked.evaluator, circuit, asked.max_loss, seed, asked.origin, proof)
    return asked.described(checked, search, proof, seed + 1)


@dataclass(frozen=True)
class _Subject:
    """A language model on the questions that a search decides on.

    Attributes:
        evaluator: the model and the questions.
        answers: what it was asked, and how its accuracy compares with the floor.
        origin: where the model comes from.
        max_loss: the loss of what goes the wanted share of the way from guessing to the model.
    """

    evaluator: TextEvaluator
    answers: Asked
    origin: Origin
    max_loss: float

    @classmethod
    def of(
        cls,
        model: HookedDecoder,
        tokenizer: Any,
        task: TextTask,
        named: Named,
        faithfulness: float,
        seed: int,
        proof: CertificateConfig,
    ) -> _Subject:
        """The model on questions of a seed, its answers measured."""
        check_seed(seed)
        check_number("faithfulness", faithfulness, 0.0)
        if not 0 < faithfulness < 1:
            raise InputError(f"faithfulness must be above 0 and below 1, got {faithfulness}")
        batch = text_batch(task, tokenizer, _QUESTIONS, derive_seed(seed, "circuit search"))
        evaluator = TextEvaluator(model, tokenizer, task, batch)
        check_memory(evaluator, model.size, proof)
        count, (question,) = evaluator.sequences, task.questions(1, 0)
        full = evaluator.scores({})
        lowest, _ = wilson(round(full.accuracy * count), count)
        answers = Asked(
            named.name, task.formulation, tidy(max(question.guess, question.shortcut)), tidy(lowest),
            task.extensions.changed(), {"full": full},
        )  # fmt: skip
        evaluator.require_finite()
        loss, guessing = float(evaluator.own.mean()), 1 - 1 / batch.candidates.shape[1]
        max_loss = tidy(loss + (1 - faithfulness) * (guessing - loss))
        return cls(evaluator, answers, Origin(named.content, seed), max_loss)

    @property
    def solves(self) -> bool:
        """Whether it answers more than what needs no retrieval, with a loss clearly below that of guessing."""
        loss = float(self.evaluator.own.mean())
        return self.answers.lowest > self.answers.floor and loss < self.max_loss < _HIGHEST

    def described(self, circuit: Circuit, search: SearchRecord, proof: CertificateConfig, seed: int) -> Circuit:
        """The record of a circuit, with how well it answers questions that no search has seen."""
        fresh = self.evaluator.fresh(proof.sequences, seed, "circuit certificate")
        return replace(circuit, search=search, text=replace(self.answers, scores=_scores(fresh, circuit)))

    def no_circuit(self, search: SearchRecord) -> Circuit:
        """The record of a model that does not answer the questions, or is hardly better than guessing."""
        evaluator, answers = self.evaluator, self.answers
        full, max_loss = float(evaluator.own.mean()), min(max(self.max_loss, 1e-3), _HIGHEST)
        accuracy = answers.scores["full"].accuracy
        says = (
            f"the model answers {accuracy:.0%} of {evaluator.sequences} questions (95% interval from "
            f"{answers.lowest:.0%}), and {answers.floor:.0%} needs no retrieval: it does not solve the problem, so "
            "there is no circuit to find"
            if answers.lowest <= answers.floor
            else f"the model's loss is {full:.3f}, too close to that of guessing for a circuit to be told from it"
        )
        check = Check("sufficiency", "failed", says, {"model": tidy(full)})
        circuit = without_circuit(evaluator, self.origin, max_loss, full, search, {"sufficiency": check})
        return replace(circuit, text=answers)


def _scores(evaluator: TextEvaluator, circuit: Circuit) -> dict[str, Scores]:
    """How well the model, the circuit and nothing answer questions that no search has seen."""
    nothing = dict.fromkeys(evaluator.rows, UNIFORM)
    candidates = {"full": {}, "nothing": nothing}
    if circuit.found:
        imposed = nothing | circuit.interventions
        candidates |= {"imposed": imposed, "own": imposed | {row: own_pattern(imposed[row]) for row in circuit.rows}}
    return {name: _tidy(evaluator.scores(interventions)) for name, interventions in candidates.items()}


def _tidy(scores: Scores) -> Scores:
    return Scores(**{name: tidy(value) for name, value in asdict(scores).items()})
