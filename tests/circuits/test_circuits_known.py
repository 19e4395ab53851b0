"""What an evaluator measured it does not measure again, and answers as if it did."""

from __future__ import annotations

import pytest
import torch
from small_models import PROBLEM, random_model

from hopscope.circuits import known
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.form import IDENTITY, POSITIONAL, RESAMPLE, UNIFORM, Form, one_hot
from hopscope.circuits.hypotheses import Draft
from hopscope.circuits.known import KnownErrors
from hopscope.circuits.on_vectors import VectorEvaluator
from hopscope.theory.path import Row
from hopscope.training.data import held_out

ONE, OTHER = Row(0, 0, 1), Row(1, 2, 4)


def made() -> VectorEvaluator:
    return VectorEvaluator(random_model(PROBLEM), PROBLEM, held_out(PROBLEM, 12, 0, "known"))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates went through the model, pass by pass."""
    seen, measure = list[int](), Evaluator._errors

    def counted(self: Evaluator, forms, start):
        seen.append(len(forms))
        return measure(self, forms, start)

    monkeypatch.setattr(Evaluator, "_errors", counted)
    return seen


def test_a_program_goes_through_the_model_once(passes: list[int]) -> None:
    evaluator, first, second = made(), {ONE: UNIFORM}, {ONE: one_hot(0), OTHER: IDENTITY}
    whole = evaluator.errors([first, second, first])
    assert passes == [2]
    assert torch.equal(whole[0], whole[2])
    assert torch.equal(evaluator.errors([dict(reversed(second.items())), first]), whole[[1, 0]])
    assert torch.equal(evaluator.part(5).errors([second])[0], whole[1, :5])
    assert passes == [2]
    assert evaluator.evaluations == 6  # what was asked, so that an interrupted search counts the same


def test_more_sequences_are_measured(passes: list[int]) -> None:
    evaluator, program = made(), {ONE: UNIFORM}
    few = evaluator.part(5).errors([program])
    whole = evaluator.errors([program])
    assert passes == [1, 1]
    torch.testing.assert_close(whole[:, :5], few)
    assert not torch.equal(made().errors([{OTHER: UNIFORM}]), whole)


@pytest.mark.parametrize("form", [RESAMPLE, POSITIONAL])
def test_what_mixes_sequences_hangs_on_how_many_there_are(form: Form, passes: list[int]) -> None:
    evaluator, program = made(), {ONE: form}
    whole, few = evaluator.errors([program]), evaluator.part(5).errors([program])
    assert passes == [1, 1]
    assert float((whole[:, :5] - few).abs().max()) > 1e-4
    assert torch.equal(few, made().part(5).errors([program]))


def test_each_evaluator_knows_its_own_sequences_alone() -> None:
    program: Draft = {ONE: UNIFORM}
    evaluator = made()
    here, there = evaluator.errors([program]), evaluator.on(evaluator.batch[3:9]).errors([program])
    torch.testing.assert_close(there, here[:, 3:9])


def test_what_was_asked_for_longest_ago_goes_first(monkeypatch: pytest.MonkeyPatch, passes: list[int]) -> None:
    errors = torch.zeros(12, PROBLEM.hops)
    monkeypatch.setattr(known, "KEPT", 2 * (errors.nbytes + 128))
    evaluator, programs = made(), [{ONE: form} for form in (UNIFORM, IDENTITY, one_hot(0))]
    for number in (0, 1, 0, 2, 0, 1):  # the third takes the place of the second
        evaluator.errors([programs[number]])
    assert passes == [1, 1, 1, 1]


def test_a_part_of_a_larger_answer_does_not_keep_it_alive() -> None:
    whole, kept = torch.zeros(100, 12, 2), KnownErrors()
    key = kept.key([{}], 12)
    kept.keep(key, whole[0])
    (found,) = [kept.of(key, 12)]
    assert found is not None
    assert found.untyped_storage().nbytes() == whole[0].nbytes
