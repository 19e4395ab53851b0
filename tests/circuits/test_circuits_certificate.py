"""Every part of the certificate can fail: each property broken alone, and the part that must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from planted_models import (
    LAST_OF_TWO,
    LITTLE,
    also,
    by_place,
    cancelling_heads,
    copy_head,
    evidence_of,
    louder,
    shared_answer,
    softer,
    witness,
)
from small_models import random_model

from hopscope.circuits.checks import PARTS, Evidence, certify
from hopscope.circuits.evaluate import apply
from hopscope.circuits.evaluate.ablations import IDENTITY, UNIFORM, Ablation, AblationKind, one_hot
from hopscope.circuits.evaluate.hypotheses import Units
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.model.fast import FastTransformer
from hopscope.model.hooks import PatternRecorder
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.witness import Witness
from hopscope.training.data import held_out

ROLES = RetrievalProblem(hops=2).roles


def test_a_true_circuit_passes_every_part_and_one_without_a_path_does_not() -> None:
    made = witness(1)
    assert certify(evidence_of(made)).passed
    gone = max(made.circuit).row
    assert "sufficiency" in certify(evidence_of(made, {gone: UNIFORM})).failed


@pytest.mark.slow
@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_the_built_in_circuit_passes_every_part(hops: int, sense: str) -> None:
    found = certify(evidence_of(witness(hops), sense=sense))
    assert found.failed == ()
    assert list(found.parts) == list(PARTS)
    assert found.sense == sense


def shared(made: Witness) -> Evidence:
    """Two heads do the last step, one of which can be done without."""
    return evidence_of(shared_answer(), also(1))


def cancelling_inside(made: Witness) -> Evidence:
    """Two more heads, both claimed: without either the other does harm, without both nothing is missing."""
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 1, 0.6)
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 2, -0.6)
    return evidence_of(made, also(1, 2))


def cancelling_outside(made: Witness) -> Evidence:
    """Heads that cancel, none of them claimed."""
    cancelling_heads(made)
    return evidence_of(made)


def loud_at_itself(made: Witness) -> Evidence:
    """A head outside that is uniform in the model, and writes its own symbol into the answer if at itself."""
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 1, 1.2)
    softer(made.transformer, LAST_OF_TWO.layer, 1, 0.0)
    return evidence_of(made, bar=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "spare_heads", "plant"),
    [
        ("necessity", 1, shared),
        ("minimality", 2, cancelling_inside),
        ("outside", 6, cancelling_outside),
        ("families", 1, loud_at_itself),
    ],
)
def test_exactly_this_part_fails(part: str, spare_heads: int, plant: Callable[[Witness], Evidence]) -> None:
    assert certify(plant(witness(2, spare_heads))).failed == (part,)


@pytest.mark.slow
@pytest.mark.parametrize("false", [0, 1, 2])
def test_a_second_key_that_does_nothing_fails_necessity_alone(false: int) -> None:
    """Planted: a row is said to look at another role too, at which it never looks. Its row is needed all the same."""
    evidence = evidence_of(
        witness(2), {LAST_OF_TWO.row: Ablation(AblationKind.MIXTURE, (LAST_OF_TWO.key, false), (0.9, 0.1))}
    )
    found = certify(evidence)
    assert found.failed == ("necessity",)
    spare = f"1 of 9 rows and keys can be done without on fresh sequences: layer 3 head 1: x0? -> {ROLES[false]}"
    assert found.parts["necessity"].says == spare
    needed = {number["row"]: number["needed"] for number in found.parts["necessity"].numbers["keys"]}
    assert len(needed) == 5
    assert [key for key, told in needed.items() if not told] == [f"layer 3 head 1: x0? -> {ROLES[false]}"]


@pytest.mark.slow
def test_a_circuit_that_leaves_nothing_to_ablate_otherwise_has_no_families() -> None:
    """Planted: everything else at itself."""
    made = witness(1)
    evidence = evidence_of(made, dict.fromkeys(evidence_of(made).outside, IDENTITY))
    assert evidence.free == []
    assert not PARTS["families"](evidence).passed


@pytest.mark.slow
def test_heads_at_themselves_that_cancel_outside_are_seen() -> None:
    """Planted: the circuit has idle heads at themselves, and in the model they do something, two by two."""
    quiet, loud = witness(2, 6), witness(2, 6)
    cancelling_heads(loud)
    at_itself = {row: IDENTITY for row in evidence_of(quiet).outside if row.head > 0}
    assert PARTS["outside"](evidence_of(quiet, at_itself)).passed
    assert not PARTS["outside"](evidence_of(loud, at_itself)).passed


@pytest.mark.slow
def test_minimality_names_what_can_go() -> None:
    part = PARTS["minimality"](cancelling_inside(witness(2, 2)))
    assert part.says == "the bar holds without layer 3 head 2 x0?; layer 3 head 3 x0?"
    assert part.numbers["kind"] == "every subset"


@pytest.mark.slow
def test_harness_sees_a_wrong_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """One-hot rows that are not quite: no other part could tell."""
    drawn = apply.factors

    def askew(form: Ablation, query: int, roles: int) -> torch.Tensor:
        factor = drawn(form, query, roles)
        if form.kind is AblationKind.ONE_HOT:
            factor[query] += 0.05
        return factor

    monkeypatch.setattr(apply, "factors", askew)
    found = certify(evidence_of(witness(2)))
    assert found.failed == ("harness",)
    assert "differ by" in found.parts["harness"].says


@pytest.mark.slow
def test_harness_bears_answers_that_are_large() -> None:
    """Rounding grows with the losses: a model that shouts is no broken tool."""
    problem = RetrievalProblem(hops=2)
    plain = random_model(problem, layers=3, mlp=False)
    with torch.no_grad():
        plain.read.weight.mul_(1e4)
    model = FastTransformer(plain.shape, 1)
    model.load_state_dict(plain.state_dict())
    evaluator = VectorEvaluator(model.requires_grad_(False), problem, held_out(problem, 16))
    nothing = dict.fromkeys(evaluator.rows, UNIFORM)
    part = PARTS["harness"](Evidence(evaluator, Units.of(evaluator).hypotheses, nothing, 0.05, 1, LITTLE))
    assert float(evaluator.own.mean()) > 1e4
    assert part.passed, part.says


class Deaf(Transformer):
    """A seam that ignores edits."""

    def run(self, x, *, start=0, stop=None, hooks=None, reads=None):
        heard = hooks if isinstance(hooks, PatternRecorder) else None
        return super().run(x, start=start, stop=stop, hooks=heard, reads=reads)


@pytest.mark.slow
def test_harness_sees_a_seam_that_ignores_edits() -> None:
    made = witness(2)
    deaf = Deaf(made.transformer.shape)
    deaf.load_state_dict(made.transformer.state_dict())
    found = certify(evidence_of(Witness(made.problem, deaf, made.circuit)))
    assert "harness" in found.failed
    assert "necessity" in found.failed  # nothing that is done to such a model hurts it
    assert "sufficiency" not in found.failed


@pytest.mark.slow
def test_sufficiency_of_a_soft_head() -> None:
    """A head that looks elsewhere for a part is not the one-hot head it is claimed to be: the model holds, it not."""
    made = witness(2)
    softer(made.transformer, LAST_OF_TWO.layer, 0, 0.03)
    louder(made.transformer, LAST_OF_TWO.layer, 0, 1.5)
    evidence = evidence_of(made, bar=0.1215)
    found = certify(evidence)
    numbers = found.parts["sufficiency"].numbers
    assert numbers["natural_interval"][1] < 0.1215 < numbers["interval"][0]
    assert numbers["hops"]["x2"]["mse"] > numbers["hops"]["x1"]["mse"]
    assert found.failed == ("sufficiency",)


@pytest.mark.slow
def test_a_missing_path_fails_sufficiency_and_not_necessity() -> None:
    made = witness(3)
    found = certify(evidence_of(made, {made.circuit[-1].row: UNIFORM}))
    assert {"sufficiency", "recovery", "outside", "deliverability"} <= set(found.failed)
    assert found.parts["harness"].passed
    assert found.parts["untrained"].passed


@pytest.mark.slow
def test_a_wrong_key_in_the_first_layer() -> None:
    """Imposed patterns make the first layer idle, so its keys must be judged among rows that make their own."""
    made = witness(2)
    row = made.circuit[1].row
    found = certify(evidence_of(made, {row: one_hot(row.query)}))
    failed = ("necessity", "random_keys", "outside", "completeness", "deliverability")
    assert found.failed == failed  # it looks at another key
    assert found.parts["sufficiency"].passed
    (wrong,) = [number for number in found.parts["random_keys"].numbers["rows"] if number["better"]]
    assert wrong["better"] == ["x1>"]


@pytest.mark.slow
def test_a_row_without_effect_is_idle_whatever_the_simulator_credits() -> None:
    """A silent twin of the pair-tying head is claimed in its place: by theory it delivers."""
    made = witness(2)
    copy_head(made.transformer, 0, 0, 1, 0.0)
    silent = tuple(path._replace(head=1) if path.layer == 0 else path for path in made.circuit)
    found = certify(evidence_of(made, paths=silent, sense="strict"))
    part = found.parts["deliverability"]
    assert not part.passed
    assert len(part.numbers["idle"]) == 2
    assert part.numbers["delivered_if_waived"]
    assert found.parts["sufficiency"].passed  # imposed, the first layer is idle anyway
    assert {"necessity", "untrained"} <= set(found.failed)


@pytest.mark.slow
def test_a_blurred_key_fails_random_keys_alone() -> None:
    """A row of the first layer that is said to look elsewhere half of the time: under imposition that costs nothing."""
    made = witness(2)
    path = made.circuit[1]
    blurred = Ablation(AblationKind.MIXTURE, (path.key, path.query), (0.5, 0.5))
    found = certify(evidence_of(made, {path.row: blurred}))
    assert found.failed == ("random_keys",)
    assert found.parts["random_keys"].says.endswith("layer 1 head 1 >x2")


@pytest.mark.slow
def test_an_answer_that_theory_forbids_fails_deliverability() -> None:
    """Nor `places`: with one chain nothing shows by what a row is found."""
    found = certify(evidence_of(by_place()))
    assert found.failed == ("places", "deliverability")
    assert "the two positions share nothing by then" in found.parts["deliverability"].says
    assert found.parts["deliverability"].numbers["unexplained"] == ["layer 1 head 1: x0? -> >x1"]


def twins(count: int) -> Witness:
    """Heads that find x1 as the claimed one does; that one of them does is enough, since x2 alone is asked."""
    made = witness(2, count, noise=0.0, curriculum=False)
    for head in range(1, count + 1):
        copy_head(made.transformer, 1, 0, head)
    return made


@pytest.mark.slow
def test_a_backup_outside_fails_completeness() -> None:
    """Taken out of the model, the circuit's own head is hardly missed. The backup at itself does harm: `families`; and
    of the few other circuits that so small a model has, that with the backup in it is as good: `recovery`."""
    assert certify(evidence_of(witness(2, curriculum=False))).failed == ()
    found = certify(evidence_of(twins(1)))
    part = found.parts["completeness"]
    assert found.failed == ("recovery", "families", "completeness")
    assert found.parts["recovery"].numbers["as_good"] == 1
    assert part.numbers["least"] < 0.25 < 0.5 < part.numbers["share"]  # the mean alone hid it


@pytest.mark.slow
def test_circuits_as_good_are_no_rarity() -> None:
    """With two backups more than one in twenty random circuits is as good; a backup fails the other two as well."""
    proof = replace(LITTLE, draws=30)
    found = certify(evidence_of(twins(2), proof=proof))
    part = found.parts["recovery"]
    assert found.failed == ("recovery", "families", "completeness")
    assert part.numbers["recovery"] > 0.9
    assert part.numbers["as_good"] >= 1
    assert part.numbers["p_value"] > 0.05


@pytest.mark.slow
def test_an_untrained_head_that_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = witness(2)

    def as_trained(self: VectorEvaluator, heads: object, seed: int) -> VectorEvaluator:
        return self

    monkeypatch.setattr(VectorEvaluator, "with_untrained", as_trained)
    assert certify(evidence_of(made)).failed == ("untrained",)
