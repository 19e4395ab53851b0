"""Every part of the certificate can fail: each property broken alone, and the part that must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from planted_models import (
    LAST_OF_TWO,
    LITTLE,
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

from hopscope.circuits import apply
from hopscope.circuits.certificate import PARTS, Certificate, Evidence, Proof, certify, circuit_alone, no_circuit
from hopscope.circuits.certificate.losses import Measured
from hopscope.circuits.form import IDENTITY, KEEP, UNIFORM, Form, Intervention, one_hot
from hopscope.circuits.on_vectors import VectorEvaluator
from hopscope.circuits.search.units import Units
from hopscope.errors import InputError
from hopscope.model.edit import Recorder
from hopscope.model.fast import FastTransformer
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.theory.path import Row
from hopscope.theory.witness import Witness
from hopscope.training.data import held_out

ANSWER = LAST_OF_TWO
LAST = ANSWER.layer
ROLES = RetrievalProblem(hops=2).roles


def also(*heads: int) -> dict[Row, Form]:
    """The last path claimed of other heads too."""
    return {ANSWER._replace(head=head).row: one_hot(ANSWER.key) for head in heads}


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
    copy_head(made.transformer, LAST, 0, 1, 0.6)
    copy_head(made.transformer, LAST, 0, 2, -0.6)
    return evidence_of(made, also(1, 2))


def cancelling_outside(made: Witness) -> Evidence:
    """Heads that cancel, none of them claimed."""
    cancelling_heads(made)
    return evidence_of(made)


def loud_at_itself(made: Witness) -> Evidence:
    """A head outside that is uniform in the model, and writes its own symbol into the answer if at itself."""
    copy_head(made.transformer, LAST, 0, 1, 1.2)
    softer(made.transformer, LAST, 1, 0.0)
    return evidence_of(made, bar=0.1)


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


@pytest.mark.parametrize("false", [0, 1, 2])
def test_a_second_key_that_does_nothing_fails_necessity_alone(false: int) -> None:
    """Planted: a row is said to look at another role too, at which it never looks. Its row is needed all the same."""
    evidence = evidence_of(witness(2), {ANSWER.row: Form(Intervention.MIXTURE, (ANSWER.key, false), (0.9, 0.1))})
    found = certify(evidence)
    assert found.failed == ("necessity",)
    spare = f"1 of 6 rows and keys can be done without on fresh sequences: layer 3 head 1: x0? -> {ROLES[false]}"
    assert found.parts["necessity"].says == spare
    true, idle = (
        one["needed"] for one in sorted(found.parts["necessity"].numbers["keys"], key=lambda one: -one["mse"])
    )
    assert (true, idle) == (True, False)


def test_a_part_that_few_sequences_leave_open_is_measured_on_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a smaller part whose loss on few sequences lies above the bar, in doubt, and on many below it."""
    evidence = evidence_of(witness(2))
    monkeypatch.setattr(evidence, "off", dict.fromkeys(evidence.rows, UNIFORM))
    monkeypatch.setattr(
        evidence, "settled_or_open", lambda programs, limit, near: [(1.1 * limit, True)] * len(programs)
    )
    monkeypatch.setattr(evidence, "sure", lambda _: Measured(0.8 * evidence.bar, (0.0, 0.9 * evidence.bar)))
    assert not PARTS["minimality"](evidence).passed
    monkeypatch.setattr(
        evidence, "settled_or_open", lambda programs, limit, near: [(1.1 * limit, False)] * len(programs)
    )
    assert PARTS["minimality"](evidence).passed


def test_a_circuit_that_leaves_nothing_to_ablate_otherwise_has_no_families() -> None:
    """Planted: everything else at itself."""
    made = witness(1)
    evidence = evidence_of(made, dict.fromkeys(evidence_of(made).outside, IDENTITY))
    assert evidence.free == []
    assert not PARTS["families"](evidence).passed


def test_heads_at_themselves_that_cancel_outside_are_seen() -> None:
    """Planted: the circuit has idle heads at themselves, and in the model they do something, two by two."""
    quiet, loud = witness(2, 6), witness(2, 6)
    cancelling_heads(loud)
    at_itself = {row: IDENTITY for row in evidence_of(quiet).outside if row.head > 0}
    assert PARTS["outside"](evidence_of(quiet, at_itself)).passed
    assert not PARTS["outside"](evidence_of(loud, at_itself)).passed


def test_minimality_names_what_can_go() -> None:
    part = PARTS["minimality"](cancelling_inside(witness(2, 2)))
    assert part.says == "the bar holds without layer 3 head 2 x0?; layer 3 head 3 x0?"
    assert part.numbers["kind"] == "every subset"


def test_minimality_measures_no_more_than_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: six heads that do nothing, all claimed. Whichever of them go, the bar holds."""
    made, measured = witness(2, 6), []
    measure = Evidence.sure
    monkeypatch.setattr(Evidence, "sure", lambda *asked: measured.append(1) or measure(*asked))
    for head in range(1, 7):
        copy_head(made.transformer, LAST, 0, head, 0.0)
    part = PARTS["minimality"](evidence_of(made, also(*range(1, 7))))
    assert (part.passed, len(part.numbers["holding"]), len(measured)) == (False, 3, 3)
    assert circuit_alone._holds(evidence_of(made, also(*range(1, 7))))
    monkeypatch.setattr(circuit_alone, "_holds", lambda evidence: False)
    PARTS["minimality"](evidence_of(made, also(*range(1, 7))))
    assert len(measured) == 4  # of a circuit that does not hold the bar no more than the best
    monkeypatch.undo()
    assert not circuit_alone._holds(evidence_of(made, {made.circuit[-1].row: UNIFORM}))


def test_harness_sees_a_wrong_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """One-hot rows that are not quite: no other part could tell."""
    drawn = apply.factors

    def askew(form: Form, query: int, roles: int) -> torch.Tensor:
        factor = drawn(form, query, roles)
        if form.kind is Intervention.ONE_HOT:
            factor[query] += 0.05
        return factor

    monkeypatch.setattr(apply, "factors", askew)
    found = certify(evidence_of(witness(2)))
    assert found.failed == ("harness",)
    assert "differ by" in found.parts["harness"].says


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

    def run(self, x, *, start=0, stop=None, edit=None, reads=None):
        return super().run(x, start=start, stop=stop, edit=edit if isinstance(edit, Recorder) else None, reads=reads)


def test_harness_sees_a_seam_that_ignores_edits() -> None:
    made = witness(2)
    deaf = Deaf(made.transformer.shape)
    deaf.load_state_dict(made.transformer.state_dict())
    found = certify(evidence_of(Witness(made.problem, deaf, made.circuit)))
    assert "harness" in found.failed
    assert "necessity" in found.failed  # nothing that is done to such a model hurts it
    assert "sufficiency" not in found.failed


def test_sufficiency_of_a_soft_head() -> None:
    """A head that looks elsewhere for a part is not the one-hot head it is claimed to be: the model holds, it not."""
    made = witness(2)
    softer(made.transformer, LAST, 0, 0.03)
    louder(made.transformer, LAST, 0, 1.5)
    evidence = evidence_of(made, bar=0.1215)
    found = certify(evidence)
    numbers = found.parts["sufficiency"].numbers
    assert numbers["natural_interval"][1] < 0.1215 < numbers["interval"][0]
    assert numbers["hops"]["x2"]["mse"] > numbers["hops"]["x1"]["mse"]
    assert found.failed == ("sufficiency",)


def test_a_missing_path_fails_sufficiency_and_not_necessity() -> None:
    made = witness(3)
    found = certify(evidence_of(made, {made.circuit[-1].row: UNIFORM}))
    assert {"sufficiency", "recovery", "outside", "deliverability"} <= set(found.failed)
    assert found.parts["harness"].passed
    assert found.parts["untrained"].passed


def test_a_wrong_key_in_the_first_layer() -> None:
    """Imposed patterns make the first layer idle, so its keys must be judged among rows that make their own."""
    made = witness(2)
    row = made.circuit[1].row
    found = certify(evidence_of(made, {row: one_hot(row.query)}))
    assert found.failed == ("random_keys", "completeness", "deliverability")
    assert found.parts["sufficiency"].passed
    (wrong,) = [one for one in found.parts["random_keys"].numbers["rows"] if one["better"]]
    assert wrong["better"] == ["x1>"]


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


def test_a_blurred_key_fails_random_keys_alone() -> None:
    """A row of the first layer that is said to look elsewhere half of the time: under imposition that costs nothing."""
    made = witness(2)
    path = made.circuit[1]
    blurred = Form(Intervention.MIXTURE, (path.key, path.query), (0.5, 0.5))
    found = certify(evidence_of(made, {path.row: blurred}))
    assert found.failed == ("random_keys",)
    assert found.parts["random_keys"].says.endswith("layer 1 head 1 >x2")


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


def test_a_backup_outside_fails_completeness() -> None:
    """Taken out of the model, the circuit's own head is hardly missed. The backup at itself does harm: `families`; and
    of the few other circuits that so small a model has, that with the backup in it is as good: `recovery`."""
    assert certify(evidence_of(witness(2, curriculum=False))).failed == ()
    found = certify(evidence_of(twins(1)))
    part = found.parts["completeness"]
    assert found.failed == ("recovery", "families", "completeness")
    assert found.parts["recovery"].numbers["as_good"] == 1
    assert part.numbers["least"] < 0.25 < 0.5 < part.numbers["share"]  # the mean alone hid it


def test_circuits_as_good_are_no_rarity() -> None:
    """With two backups more than one in twenty random circuits is as good; a backup fails the other two as well."""
    proof = replace(LITTLE, draws=30)
    found = certify(evidence_of(twins(2), proof=proof))
    part = found.parts["recovery"]
    assert found.failed == ("recovery", "families", "completeness")
    assert part.numbers["recovery"] > 0.9
    assert part.numbers["as_good"] >= 1
    assert part.numbers["p_value"] > 0.05


def test_two_hundred_draws_are_two_hundred_circuits() -> None:
    made = witness(2, spare_heads=6)
    for head in range(1, 7):
        copy_head(made.transformer, 0, 0, head)
    part = PARTS["recovery"](evidence_of(made, proof=replace(LITTLE, draws=200)))
    assert not part.passed
    assert len(part.numbers["random"]) == 200


def test_the_bars_at_which_a_circuit_would_pass() -> None:
    """From the upper end of its loss to the lower end of the loss without any row; a bar beyond fails as said."""
    made = witness(2)
    softer(made.transformer, LAST, 0, 0.03)
    louder(made.transformer, LAST, 0, 1.5)
    parts = {name: PARTS[name](evidence_of(made, bar=0.2)) for name in ("sufficiency", "necessity")}
    least, most = parts["sufficiency"].numbers["least_bar"], parts["necessity"].numbers["most_bar"]
    assert 0.12 < least < 0.2 < most < 1
    for bar, passed in ((least * 1.01, True), (least * 0.99, False)):
        assert PARTS["sufficiency"](evidence_of(made, bar=bar)).passed == passed
    for bar, passed in ((most * 0.97, True), (most * 1.03, False)):
        assert PARTS["necessity"](evidence_of(made, bar=bar)).passed == passed


def test_an_untrained_head_that_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = witness(2)

    def as_trained(self: VectorEvaluator, heads: object, seed: int) -> VectorEvaluator:
        return self

    monkeypatch.setattr(VectorEvaluator, "with_untrained", as_trained)
    assert certify(evidence_of(made)).failed == ("untrained",)


def test_rows_are_switched_off_in_the_way_that_costs_least() -> None:
    """A row that identity serves as well as its path is not needed, however much uniform hurts."""
    made = witness(2)
    evidence = evidence_of(made, {Row(LAST, 1, 4): IDENTITY})
    assert set(evidence.off.values()) <= {UNIFORM, IDENTITY}
    assert Row(LAST, 1, 4) not in evidence.rows


def test_a_certificate_in_json_and_none() -> None:
    found = certify(evidence_of(witness(1)))
    values = found.to_json()
    assert values["sufficiency"]["passed"] is True
    assert values["sufficiency"]["seed"] == 1
    assert values["sufficiency"]["sense"] == "natural"
    lost = no_circuit(0.3, 0.05, 0)
    assert isinstance(lost, Certificate)
    assert not lost.passed
    assert "does not solve the problem" in lost.parts["sufficiency"].says


@pytest.mark.parametrize("sense", ["natural", "strict"])
def test_a_circuit_of_nothing_fails_and_one_of_everything(sense: str) -> None:
    """There is nothing to compare with inside the one and outside the other; both must come to an end."""
    made = witness(1)
    nothing = certify(evidence_of(made, paths=(), sense=sense))
    assert {"sufficiency", "necessity", "random_keys", "recovery", "untrained"} <= set(nothing.failed)
    assert nothing.parts["untrained"].says == "with untrained weights in no head the circuit is as good"
    assert nothing.parts["minimality"].says == "it has no part two rows smaller: of 0 rows 0 may go"
    assert nothing.parts["minimality"].numbers["least_mse"] is None, "nothing was tried"
    everything = certify(evidence_of(made, dict.fromkeys(evidence_of(made).evaluator.live_rows, KEEP), sense=sense))
    assert {"necessity", "untrained"} <= set(everything.failed)


def test_the_least_that_a_certificate_may_rest_on() -> None:
    least = Proof(sequences=2, deciding=2, few=2, rough=2, draws=1, halves=4)
    assert "harness" not in certify(evidence_of(witness(1), proof=least)).failed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rough": 1}, "rough of a certificate must be a whole number of at least 2, got 1"),
        ({"draws": 0}, "draws of a certificate must be a whole number of at least 1, got 0"),
        ({"halves": 1}, "halves of a certificate must be a whole number of at least 4, got 1"),
        ({"few": 4}, r"few must be at least rough \(8\), got 4"),
        ({"sequences": 32}, r"sequences must be at least few \(48\), got 32"),
    ],
)
def test_too_little_to_rest_on(options: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Proof(**options)


def test_the_same_evidence_gives_the_same_certificate() -> None:
    made = witness(2)
    before = torch.random.get_rng_state()
    assert certify(evidence_of(made)) == certify(evidence_of(made))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_is_in_doubt_is_decided_on_more_sequences() -> None:
    """A bar in the midst of a row's losses; and one far below, where a few sequences do."""
    made = shared_answer()
    row, proof = ANSWER._replace(head=1).row, replace(LITTLE, deciding=1024)
    loss = float(evidence_of(made, also(1)).lost[row].without.mean())
    for bar, sequences in ((loss, 1024), (loss / 4, LITTLE.few)):
        lost = evidence_of(made, also(1), bar=bar, proof=proof).lost[row]
        assert len(lost.without) == len(lost.own) == len(lost.rise) == sequences
