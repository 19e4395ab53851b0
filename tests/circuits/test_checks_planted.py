"""Circuits planted in models built by hand: true ones pass all six checks, each false one fails the check it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from planted_models import (
    FLAT,
    LARGE,
    LAST_OF_TWO,
    LITTLE,
    also,
    attention,
    by_place,
    cancelling_at_rest,
    cancelling_heads,
    cancelling_little,
    columns,
    copy_head,
    evidence_of,
    large_background,
    resting,
    run_checks,
    shared_answer,
    sink,
    two_keys,
    witness,
)
from scipy.stats import bootstrap

from hopscope.circuits.checks.card import CHECKS, all_passed
from hopscope.circuits.checks.evidence import Evidence
from hopscope.circuits.checks.measure_card import _faithfulness, measure_card
from hopscope.circuits.checks.necessity import check_necessity
from hopscope.circuits.checks.outside import check_outside
from hopscope.circuits.checks.right_keys import check_right_keys
from hopscope.circuits.checks.sufficiency import check_sufficiency
from hopscope.circuits.evaluate.ablations import (
    KEEP,
    POSITIONAL,
    UNIFORM,
    ZERO,
    Ablation,
    AblationKind,
    Interventions,
    one_hot,
)
from hopscope.circuits.evaluate.units import Units
from hopscope.circuits.search.own_patterns import with_backups
from hopscope.problem.paths import HeadRow, PathGroup


def failed(evidence: Evidence) -> tuple[str, ...]:
    """The checks that a circuit fails."""
    return tuple(name for name, check in run_checks(evidence).items() if not check.passed)


def test_a_true_circuit_passes_and_one_without_a_path_does_not() -> None:
    made = witness(1)
    checks = run_checks(evidence_of(made))
    assert tuple(checks) == CHECKS
    assert all_passed(checks)
    assert "sufficiency" in failed(evidence_of(made, {max(made.circuit).row: UNIFORM}))


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("patterns", ["own", "imposed"])
def test_the_built_in_circuit_passes_all_checks(hops: int, patterns: str) -> None:
    assert failed(evidence_of(witness(hops), patterns=patterns)) == ()


def cancelling_inside() -> Evidence:
    """Two more heads, both claimed: without either the other does harm, without both nothing is missing."""
    made = witness(2, 2)
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 1, 0.6)
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 2, -0.6)
    return evidence_of(made, also(1, 2))


def cancelling_outside(patterns: str = "own") -> Evidence:
    """Heads that cancel, none of them claimed."""
    made = witness(2, 6)
    cancelling_heads(made)
    return evidence_of(made, patterns=patterns)


def second_key() -> Evidence:
    """A row is said to attend to another role too, to which it never attends; the row is needed all the same."""
    two = Ablation(AblationKind.MIXTURE, (LAST_OF_TWO.key, 1), (0.9, 0.1))
    return evidence_of(witness(2), {LAST_OF_TWO.row: two})


def blurred_key() -> Evidence:
    """A row of the first layer that is said to attend elsewhere half of the time: imposed, that costs nothing."""
    made = witness(2)
    path = made.circuit[1]
    return evidence_of(made, {path.row: Ablation(AblationKind.MIXTURE, (path.key, path.query), (0.5, 0.5))})


def backup_outside() -> Evidence:
    """A head outside that finds x1 as the claimed one does; that one of them does is enough, x2 alone being asked."""
    made = witness(2, 1, noise=0.0, curriculum=False)
    copy_head(made.transformer, 1, 0, 1)
    return evidence_of(made)


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (lambda: evidence_of(shared_answer(), also(1)), "necessity"),
        (cancelling_inside, "necessity"),
        (second_key, "necessity"),
        (sink, "necessity"),
        (cancelling_outside, "outside"),
        (blurred_key, "right_keys"),
        (backup_outside, "completeness"),
        (lambda: evidence_of(two_keys(0.15)), "completeness"),
        (lambda: evidence_of(two_keys(0.5, alternating=100.0)), "outside"),
        (lambda: evidence_of(by_place()), "delivery"),
    ],
)
def test_exactly_this_check_fails(plant: Callable[[], Evidence], check: str) -> None:
    assert failed(plant()) == (check,)


def test_a_wrong_key_and_a_missing_path_fail_several_checks() -> None:
    made = witness(2)
    row = made.circuit[1].row
    assert {"necessity", "right_keys", "delivery"} <= set(failed(evidence_of(made, {row: one_hot(row.query)})))
    lost = witness(3)
    missing = failed(evidence_of(lost, {lost.circuit[-1].row: UNIFORM}))
    assert {"sufficiency", "outside", "delivery"} <= set(missing)


def test_a_silent_twin_delivers_in_theory_alone() -> None:
    """A silent twin of the pair-tying head is claimed in its place; imposed, the first layer is idle anyway."""
    made = witness(2)
    copy_head(made.transformer, 0, 0, 1, 0.0)
    silent = tuple(path._replace(head=1) if path.layer == 0 else path for path in made.circuit)
    checks = run_checks(evidence_of(made, paths=silent, patterns="imposed"))
    assert checks["sufficiency"].passed
    assert not checks["delivery"].passed
    assert not checks["necessity"].passed


@pytest.mark.parametrize("patterns", ["own", "imposed"])
def test_nothing_and_everything_both_fail(patterns: str) -> None:
    made = witness(1)
    nothing = evidence_of(made, paths=(), patterns=patterns)
    assert {"sufficiency", "necessity", "right_keys"} <= set(failed(nothing))
    card = measure_card(nothing, run_checks(nothing))
    assert (card.size.active, card.curve.points[0][0], card.curve.points[-1][1]) == (0, 0, 1.0)
    everything = dict.fromkeys(evidence_of(made).evaluator.live_rows, KEEP)
    assert "necessity" in failed(evidence_of(made, everything, patterns=patterns))


@pytest.mark.slow
def test_a_backup_that_is_named_as_a_group_is_no_fault() -> None:
    """Planted: two heads, either of which is enough: as a group they pass, one by one they fail."""
    made = witness(2, 1, noise=0.0, curriculum=False)
    copy_head(made.transformer, 1, 0, 1)
    own = next(path for path in made.circuit if path.layer == 1)
    backup = own._replace(head=1)
    alone = evidence_of(made, {backup.row: one_hot(backup.key)})
    assert "necessity" in failed(alone)
    group = PathGroup((own, backup))
    assert failed(evidence_of(made, {backup.row: one_hot(backup.key)}, groups=(group,))) == ()
    last = max(path for path in made.circuit)
    false = evidence_of(made, {backup.row: one_hot(backup.key)}, groups=(PathGroup((backup, last)),))
    assert "necessity" in failed(false), "a group of paths that do not replace each other"


def test_the_search_finds_the_backup() -> None:
    """Planted: a head that finds x1 as the claimed one does. Where it writes nothing there is no backup to find."""
    for gain in (1.0, 0.0):
        made = witness(2, 1, noise=0.0, curriculum=False)
        copy_head(made.transformer, 1, 0, 1, gain)
        evidence = evidence_of(made)
        units = Units.of(evidence.evaluator)
        grown, groups = with_backups(evidence.evaluator, units, evidence.imposed, evidence.max_loss)
        own = next(path for path in made.circuit if path.layer == 1)
        if not gain:
            assert (grown, groups) == (evidence.imposed, ())
            continue
        assert groups == (PathGroup((own, own._replace(head=1))),)
        assert {*units.paths(grown)} == {*made.circuit, own._replace(head=1)}


def test_the_key_of_a_row_that_rests_elsewhere_must_be_needed_itself() -> None:
    """Planted: a head that rests where it reads nothing, and attends to x0> with a seventh of its weight."""
    evidence, head = resting(0.15)
    assert evidence.partial == [head]
    assert evidence.lost[head.row].loss.mean > 4 * evidence.max_loss  # the row is needed, to rest
    check = check_necessity(evidence)
    assert check.says.endswith(f"parts not surely needed: {head.describe(evidence.evaluator.names)}")


@pytest.mark.parametrize("form", [KEEP, POSITIONAL])
def test_the_only_key_of_a_whole_pattern_is_needed_where_it_is_used(form: Ablation) -> None:
    evidence = evidence_of(witness(2), {LAST_OF_TWO.row: form})
    assert evidence.partial == [LAST_OF_TWO]
    assert check_necessity(evidence).passed


@pytest.mark.parametrize("mixed", [True, False])
def test_an_imposed_circuit_is_one_hot(mixed: bool) -> None:
    """Planted: a row that attends to itself a little, and an idle row at its positional mean."""
    row = LAST_OF_TWO.row if mixed else HeadRow(0, 1, 4)
    two = Ablation(AblationKind.MIXTURE, (LAST_OF_TWO.key, LAST_OF_TWO.query), (0.97, 0.03))
    own, imposed = (
        evidence_of(witness(2), {row: two if mixed else POSITIONAL}, patterns=p) for p in ("own", "imposed")
    )
    assert check_sufficiency(own).passed
    check = check_sufficiency(imposed)
    assert check.says.endswith("; 1 rows are neither ablated nor one-hot at a key")


def test_a_model_that_does_not_do_it_has_no_circuit_that_explains_it() -> None:
    """Its last retrieval step is lost: imposed, the key that it should attend to would do."""
    made = witness(2)
    at, head = attention(made.transformer, LAST_OF_TWO.layer), columns(made.transformer, LAST_OF_TWO.head)
    with torch.no_grad():
        at.query.weight[..., head] = 0.0
    check = check_sufficiency(evidence_of(made, patterns="imposed"))
    assert check.numbers["circuit"] < 0.05 < check.numbers["model"]
    assert not check.passed


@pytest.mark.parametrize("score", [0.56, -2.0])
def test_rows_at_their_mean_do_not_tell_their_chain(score: float) -> None:
    """Planted: a row writes a third of the answer with 0.1 more, or less, weight on its own chain."""
    made = large_background(0.35, score)
    units = evidence_of(made).units
    evidence = evidence_of(made, {row: units.mean(row) for row in (LARGE, FLAT)})
    assert evidence.at_mean == [LARGE, FLAT]
    check = check_sufficiency(evidence)
    assert check.numbers["circuit"] < evidence.max_loss < 0.1 < check.numbers["worst"]
    assert not check.passed


@pytest.mark.parametrize("patterns", ["own", "imposed"])
def test_outside_takes_what_is_known_of_a_chain_and_no_rest(patterns: str) -> None:
    """Planted: two heads at rest, of which one alone does harm where uniform; and two that attend hardly visibly."""
    evidence = cancelling_at_rest(patterns)  # type: ignore[arg-type]
    assert Ablation(AblationKind.ALIKE) in evidence.carrying_nothing.values()
    assert check_outside(evidence).passed
    assert not check_outside(cancelling_little(patterns)).passed  # type: ignore[arg-type]
    assert not check_outside(cancelling_outside(patterns)).passed


def test_a_wrong_key_of_an_exempt_row_is_seen() -> None:
    """Imposed patterns make it idle, so that no loss of the imposed circuit could tell."""
    made = witness(2)
    tie = min(path for path in made.circuit if path.layer == 0)
    for key in (other for other in range(tie.query) if other != tie.key):
        evidence = evidence_of(made, {tie.row: one_hot(key)}, patterns="imposed")
        assert tie.row in evidence.exempt
        assert not check_right_keys(evidence).passed


def test_other_keys_that_serve_as_well_are_seen() -> None:
    """Planted: a claimed head that writes nothing, so that its own key serves, and any other."""
    made = witness(2)
    copy_head(made.transformer, LAST_OF_TWO.layer, 0, 1, 0.0)
    check = check_right_keys(evidence_of(made, also(1)))
    assert (check.passed, check.numbers["wrong"], check.numbers["least_faithfulness"] > 0.9) == (False, 1.0, True)


def test_each_half_outside_is_ablated_with_its_complement(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence, asked = evidence_of(witness(2, 2)), list[Interventions]()
    screened = evidence.fresh.screened
    monkeypatch.setattr(evidence.fresh, "screened", lambda some, *more: asked.extend(some) or screened(some, *more))
    assert check_outside(evidence).passed
    for first, second in zip(asked[::2], asked[1::2], strict=True):
        assert sorted([*first, *second]) == sorted(evidence.carrying_nothing)


def test_the_only_row_of_a_head_is_switched_off_as_the_idle_head_that_costs_least() -> None:
    """Planted: a head whose other rows are nothing (`zero`). As a whole it may be uniform or at itself too."""
    rows = [HeadRow(LAST_OF_TWO.layer, LAST_OF_TWO.head, query) for query in range(LAST_OF_TWO.query)]
    evidence = evidence_of(witness(2), dict.fromkeys(rows, ZERO), patterns="imposed")
    offs = (ZERO, UNIFORM, Ablation(AblationKind.IDENTITY))
    losses = evidence.fresh.few.mse([{**evidence.imposed, LAST_OF_TWO.row: off} for off in offs])
    assert evidence.lost[LAST_OF_TWO.row].loss.mean == pytest.approx(min(losses), rel=0.1)
    assert max(losses) > 1.2 * min(losses)


def test_doubt_is_decided_on_more_sequences() -> None:
    """A threshold amid a row's losses; and one far below, where a few sequences do."""
    made, row = shared_answer(), LAST_OF_TWO._replace(head=1).row
    proof = replace(LITTLE, deciding=1024)
    loss = evidence_of(made, also(1)).lost[row].loss.mean
    for limit in (loss, loss / 4):
        evidence = evidence_of(made, also(1), max_loss=limit, proof=proof)
        assert evidence.lost[row].loss.mean > 0
        assert ("more" in vars(evidence.fresh)) is (limit == loss)


@pytest.mark.slow
def test_the_same_circuit_gets_the_same_checks_and_card() -> None:
    before = torch.random.get_rng_state()
    both = [evidence_of(witness(2)) for _ in range(2)]
    checks = [run_checks(evidence) for evidence in both]
    assert checks[0] == checks[1]
    cards = [measure_card(*pair) for pair in zip(both, checks, strict=True)]
    assert cards[0] == cards[1]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_card_of_a_true_circuit() -> None:
    """The witness of two hops: faithful in every way, and better than with untrained heads."""
    evidence = evidence_of(witness(2, 3))
    card = measure_card(evidence, checks := run_checks(evidence))
    gone = float(evidence.fresh.few.errors([dict.fromkeys(evidence.rows, UNIFORM)]).mean())
    assert checks["completeness"].says.endswith(f"without all rows of the circuit, the model has a loss of {gone:.3f}")
    assert (card.size.paths, card.size.active, card.size.at_mean) == (4, 4, 0)
    for shares in (card.own, card.imposed):
        assert min(shares.uniform, shares.mean, shares.resample) > 0.99
    assert card.curve.points[0] == (0, pytest.approx(0, abs=1e-3))
    assert dict(card.curve.points)[4] > 0.99
    assert card.curve.points[-1] == (card.size.rows, 1.0)
    assert sorted(card.order) == sorted(map(evidence.name, evidence.rows))
    assert card.completeness.whole > 0.9
    assert (card.baselines.untrained or 1) < 0.5
    assert (card.strategy, card.found_by) == ("serial", "content")
    worse = evidence.own | dict.fromkeys(evidence.outside, UNIFORM) | {evidence.rows[-1]: POSITIONAL}
    none, full, own = evidence.fresh.losses(evidence.fresh.few, [evidence.nothing, {}, worse]).numpy()
    by_scipy = bootstrap((none - own, none - full), lambda a, b, axis: a.mean(axis) / b.mean(axis), paired=True)
    found = _faithfulness(evidence, worse).intervals or ()
    assert found[0] == pytest.approx([*by_scipy.confidence_interval], abs=0.01)
