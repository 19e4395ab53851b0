"""Find the circuit of a language model for the questions of a task, with the same search and checks as for vectors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from hopscope.checks import check_choice, check_seed, check_type
from hopscope.circuits.checks.card import CertificateConfig, Check, CheckName
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import Asked, Scores, SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit
from hopscope.circuits.evaluate.ablations import UNIFORM, Interventions, own_pattern
from hopscope.circuits.find import Origin, check_custom_circuit, search_circuit, without_circuit
from hopscope.circuits.resume import Search
from hopscope.circuits.search.config import BUDGETS, Effort, SearchBudget, SearchConfig
from hopscope.errors import InputError
from hopscope.kernels import Precision
from hopscope.language.journal import Journal
from hopscope.language.limits import check_memory
from hopscope.language.text_batch import LanguageTask, TextTask, text_batch
from hopscope.language.text_evaluator import TextEvaluator, TextModel
from hopscope.problem.prompts import PromptTask
from hopscope.records import content_hash, plain
from hopscope.statistics import tidy, wilson

_HIGHEST = 0.49
"""The highest loss threshold. A higher one would show nothing, since guessing among four has a loss of 0.75."""

_BUDGETS: dict[str, SearchBudget] = {
    effort: replace(budget, sequences=128, confirming=512, deciding=8192, most_rows=None)
    for effort, budget in BUDGETS.items()
}
"""The search budget of each effort. It has more questions than the budget for vectors has sequences, since a question
has a single answer, which is right or wrong, whereas a sequence has four answers."""

_THRIFTY: dict[str, SearchBudget] = {
    "quick": SearchBudget(
        1, 0, sequences=32, confirming=96, deciding=192, every_subset=0, pairs=0, margin=1.0, estimating=16
    ),
    "thorough": SearchBudget(2, 1, sequences=32, confirming=128, deciding=256, every_subset=0, pairs=12),
}
"""The search budgets of tasks for pretrained models, whose passes take as long as hundreds of passes of a small model.
Such tasks are prompts of your own, and questions as code or as text to continue."""

_LARGE = 2_000_000_000
"""The number of bytes of weights above which a search in a pretrained model uses half as many prompts."""

TEXT_PROOF = CertificateConfig(sequences=512, few=128)
"""The default numbers of questions and random draws for the checks and the card."""

THRIFTY_PROOF = CertificateConfig(sequences=96, deciding=192, few=16, draws=40, halves=16, pairs=64)
"""The default numbers of prompts and random draws for pretrained models."""


def settings_for(
    task: LanguageTask,
    precision: Precision,
    effort: Effort | None,
    faithfulness: float | None,
    seed: int,
    proof: CertificateConfig | None,
) -> SearchRecord:
    """Return the settings of a search, with defaults that suit the task in place of None.

    The default faithfulness is lower for pretrained models. They are rarely sure of an answer, so few prompts do not
    show small differences.
    """
    example = "hs.text('equations') or an hs.PromptTask, as hs.PromptTask.read('mine.jsonl')"
    check_type("task", task, TextTask | PromptTask, example)
    share = (0.8 if task.thrifty else 0.95) if faithfulness is None else faithfulness
    proof, prompts = CertificateConfig.of(proof or (THRIFTY_PROOF if task.thrifty else TEXT_PROOF)), ""
    if isinstance(task, PromptTask):  # half of the prompts are for the checks
        prompts, half = content_hash(plain(task.prompts)), len(task.prompts) // 2
        limited = {name: min(getattr(proof, name), half) for name in ("sequences", "deciding", "few")}
        proof = replace(proof, **limited)
    return SearchRecord(effort, seed, share, proof=proof, precision=precision, prompts=prompts)


@dataclass(frozen=True)
class Named:
    """The identity of a language model in records: its name for people, and the hash of its weights."""

    name: str
    content: str


def search_text_circuit(
    model: TextModel,
    tokenizer: Any,
    task: LanguageTask,
    named: Named,
    wanted: SearchRecord,
    circuit: CustomCircuit | None = None,
    journal: Journal | None = None,
) -> Search[Circuit]:
    """Search for the circuit of a language model and check it, or check a circuit of your own.

    The loss threshold is relative to the model: a circuit must close the share `faithfulness` of the gap between
    guessing and the model, in Brier score on the questions of the search. A model has no circuit if its accuracy is not
    clearly above the floor or its Brier score is hardly better than that of guessing; the record then says so.

    Raises:
        InputError: roles or answers share a token, a value is out of range, the model lacks a path of the circuit, or
            there is too little free memory for the search.
    """
    seed, faithfulness, proof = wanted.seed, wanted.faithfulness, wanted.proof
    assert proof is not None
    budgets = _budgets(task, model)
    check_seed(seed)
    if not isinstance(faithfulness, float) or not 0 < faithfulness < 1:
        raise InputError(f"faithfulness must be above 0 and below 1, got {faithfulness!r}")
    if circuit is None:
        check_choice("effort", wanted.effort, budgets)
    origin = Origin(named.content, seed)
    budget = budgets.get(str((circuit.search if isinstance(circuit, Circuit) else wanted).effort), budgets["quick"])
    batch = text_batch(task, tokenizer, budget.confirming, seed, "circuit search")
    evaluator = TextEvaluator(model, tokenizer, task, batch, journal)
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
    search = replace(wanted, orders_ending_here=found.search.orders_ending_here, removed=found.search.removed)
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
    """Return what the model was asked, with its scores and the lower end of the interval of its accuracy."""
    count, full = evaluator.sequences, evaluator.scores({})
    lowest, _ = wilson(round(full.accuracy * count), count)
    asked, changed = (task.formulation, task.extensions.changed()) if isinstance(task, TextTask) else (task.name, {})
    return Asked(name, asked, tidy(task.floor), tidy(lowest), changed, {"full": full})


def _why_none(evaluator: TextEvaluator, answers: Asked) -> Check:
    """Return the failed check of a model that does not answer the questions, or is hardly better than guessing."""
    loss, accuracy = float(evaluator.own.mean()), answers.scores["full"].accuracy
    says = (
        f"the model answers {accuracy:.0%} of {evaluator.sequences} questions (95% interval from "
        f"{answers.lowest:.0%}), and a guess without reading gets {answers.floor:.0%}, so nothing shows that it reads; "
        "vary the right answers, ask more questions, or use a larger model"
        if answers.lowest <= answers.floor
        else f"the model's loss is {loss:.3f}, too high for a threshold below {_HIGHEST}, so there was no search; "
        "use an easier question or a larger model"
    )
    return Check("sufficiency", "failed", says, {"model": tidy(loss)})


def alone(evaluator: TextEvaluator, circuit: Circuit) -> dict[str, Interventions]:
    """Return the interventions that leave only a circuit, by the kind of patterns (`imposed` and `own`)."""
    imposed: Interventions = dict.fromkeys(evaluator.rows, UNIFORM) | circuit.interventions
    return {"imposed": imposed, "own": imposed | {row: own_pattern(imposed[row]) for row in circuit.rows}}


def _scores(evaluator: TextEvaluator, circuit: Circuit) -> dict[str, Scores]:
    """Return how well the model, its circuit, and the model without active rows answer the evaluator's questions."""
    candidates: dict[str, Interventions] = {"full": {}, "nothing": dict.fromkeys(evaluator.rows, UNIFORM)}
    if circuit.found:
        candidates |= alone(evaluator, circuit)
    return {name: Scores(*map(tidy, asdict(evaluator.scores(these)).values())) for name, these in candidates.items()}
