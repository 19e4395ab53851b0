"""Finds the circuit of a language model for the questions of a formulation, by the same search and checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from hopscope.checks import check_choice, check_seed
from hopscope.circuits.checks import CertificateConfig, Check, CheckName
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Asked, Scores, SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, own_pattern
from hopscope.circuits.find import Origin, check_custom_circuit, search_circuit, without_circuit
from hopscope.circuits.resume import Search
from hopscope.circuits.search.config import BUDGETS, SearchBudget, SearchConfig
from hopscope.errors import InputError
from hopscope.language.limits import check_memory
from hopscope.language.text_batch import LanguageTask, TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator, TextModel
from hopscope.statistics import tidy, wilson

_HIGHEST = 0.49
"""With a threshold beyond this a circuit would say nothing: guessing among four has a loss of 0.75."""

_QUESTIONS = 512
"""How many questions the last decisions of a search are made on."""

_BUDGETS: dict[str, SearchBudget] = {
    effort: replace(budget, sequences=128, confirming=_QUESTIONS, deciding=8192, most_rows=None)
    for effort, budget in BUDGETS.items()
}
"""How much work each effort is: two and four times as many questions as there are sequences for vectors, since a
question has one answer where a sequence has four, and is either right or wrong."""

_THRIFTY: dict[str, SearchBudget] = {
    "quick": SearchBudget(
        1, 0, sequences=32, confirming=96, deciding=192, every_subset=0, pairs=0, margin=1.0, estimating=16
    ),
    "thorough": SearchBudget(2, 1, sequences=32, confirming=128, deciding=256, every_subset=0, pairs=12),
}
"""The same for prompts of your own and questions as code or to go on from, which are for pretrained models: each pass
of one takes as long as hundreds of a small one."""

_LARGE = 2_000_000_000
"""A pretrained model with more bytes of weights than this decides on half as many prompts."""

TEXT_PROOF = CertificateConfig(sequences=_QUESTIONS, few=128)
"""How many questions and random draws checks and card are measured on by default."""

THRIFTY_PROOF = CertificateConfig(sequences=96, deciding=192, few=16, draws=40, halves=16, pairs=64)
"""The same for pretrained models."""


def proof_for(task: LanguageTask) -> CertificateConfig:
    """How many prompts checks and card are measured on by default."""
    return THRIFTY_PROOF if task.thrifty else TEXT_PROOF


def faithfulness_for(task: LanguageTask) -> float:
    """The share of the way from guessing to the model that a circuit must go by default.

    A pretrained model is hardly ever sure, and the few prompts that can be afforded tell no smaller differences.
    """
    return 0.8 if task.thrifty else 0.95


@dataclass(frozen=True)
class Named:
    """A language model as records name it: its name for people, and the hash of its weights."""

    name: str
    content: str


def search_text_circuit(
    model: TextModel,
    tokenizer: Any,
    task: LanguageTask,
    named: Named,
    wanted: SearchRecord,
    circuit: CustomCircuit | None = None,
) -> Search[Circuit]:
    """Search for the circuit of a language model and check it, or check a circuit of your own.

    The loss threshold is relative to the model: a circuit must go `faithfulness` of the way from guessing to the model,
    in Brier score on questions that the search sees. A model whose accuracy is not surely above the floor, or that is
    hardly better than guessing in Brier score, has no circuit: the record says so.

    Args:
        model, tokenizer, task: the language model, its tokenizer, and the questions.
        named: the model as records name it.
        wanted: effort (None for a circuit of your own), seed, faithfulness, proof, and the model's precision.
        circuit: a circuit of your own: its paths, or a record.

    Raises:
        InputError: roles or answers share a token, a value is out of range, there is no such path in the model, or
            there is less free memory than the search takes.
    """
    seed, faithfulness, proof = wanted.seed, wanted.faithfulness, wanted.proof or proof_for(task)
    budgets = _budgets(task, model)
    check_seed(seed)
    if not isinstance(faithfulness, float) or not 0 < faithfulness < 1:
        raise InputError(f"faithfulness must be above 0 and below 1, got {faithfulness!r}")
    if circuit is None:
        check_choice("effort", wanted.effort, budgets)
    origin = Origin(named.content, seed)
    budget = budgets.get(str(wanted.effort), budgets["quick"])
    batch = text_batch(task, tokenizer, budget.confirming, seed, "circuit search")
    evaluator = TextEvaluator(model, tokenizer, task, batch)
    check_memory(evaluator, model.size, proof)
    answers = _asked(evaluator, task, named.name)
    evaluator.require_finite()
    loss, guessing = float(evaluator.own.mean()), 1 - 1 / batch.candidates.shape[1]
    max_loss = tidy(loss + (1 - faithfulness) * (guessing - loss))
    if answers.lowest <= answers.floor or not loss < max_loss < _HIGHEST:
        checks: dict[CheckName, Check] = {"sufficiency": _why_none(evaluator, answers)}
        none = without_circuit(evaluator, origin, min(max(max_loss, 1e-3), _HIGHEST), loss, wanted, checks)
        return replace(none, text=answers)
    if circuit is None:
        config = SearchConfig(budget, max_loss, seed)
        found = yield from search_circuit(evaluator, config, origin, proof, appendix_e=False)
    else:
        found = yield from check_custom_circuit(evaluator, circuit, max_loss, seed, origin, proof)
    search = replace(found.search, effort=wanted.effort, faithfulness=faithfulness, precision=wanted.precision)
    fresh = evaluator.fresh(proof.sequences, seed + 1, "circuit certificate")
    return replace(found, search=search, text=replace(answers, scores=_scores(fresh, found)))


def _budgets(task: LanguageTask, model: TextModel) -> dict[str, SearchBudget]:
    if not task.thrifty or model.size <= _LARGE:
        return _THRIFTY if task.thrifty else _BUDGETS
    halved = ("sequences", "confirming", "deciding")
    return {
        effort: replace(budget, **{name: getattr(budget, name) // 2 for name in halved})
        for effort, budget in _THRIFTY.items()
    }


def _asked(evaluator: TextEvaluator, task: LanguageTask, name: str) -> Asked:
    """What a model was asked, and how its accuracy compares with the floor."""
    count, full = evaluator.sequences, evaluator.scores({})
    lowest, _ = wilson(round(full.accuracy * count), count)
    changed = task.extensions.changed() if isinstance(task, TextTask) else {}
    formulation = task.formulation if isinstance(task, TextTask) else task.name
    return Asked(name, formulation, tidy(task.floor), tidy(lowest), changed, {"full": full})


def _why_none(evaluator: TextEvaluator, answers: Asked) -> Check:
    """The check of a model that does not answer the questions, or is hardly better than guessing."""
    loss, accuracy = float(evaluator.own.mean()), answers.scores["full"].accuracy
    says = (
        f"the model answers {accuracy:.0%} of {evaluator.sequences} questions (95% interval from "
        f"{answers.lowest:.0%}), and {answers.floor:.0%} needs no retrieval: it does not solve the problem, so there "
        "is no circuit to find; ask it otherwise, or a larger model"
        if answers.lowest <= answers.floor
        else f"the model's loss is {loss:.3f}, too close to that of guessing to find a circuit"
    )
    return Check("sufficiency", "failed", says, {"model": tidy(loss)})


def alone(evaluator: TextEvaluator, circuit: Circuit) -> dict[str, Interventions]:
    """A circuit alone, with its own patterns and with imposed ones: the ablation of every row of the model."""
    imposed: Interventions = dict.fromkeys(evaluator.rows, UNIFORM) | circuit.interventions
    return {"imposed": imposed, "own": imposed | {row: own_pattern(imposed[row]) for row in circuit.rows}}


def _scores(evaluator: TextEvaluator, circuit: Circuit) -> dict[str, Scores]:
    """How well the model, the circuit and nothing answer questions that no search has seen."""
    candidates: dict[str, Interventions] = {"full": {}, "nothing": dict.fromkeys(evaluator.rows, UNIFORM)}
    if circuit.found:
        candidates |= alone(evaluator, circuit)
    return {
        name: Scores(*map(tidy, asdict(evaluator.scores(interventions)).values()))
        for name, interventions in candidates.items()
    }
