"""A record names nothing that its model has not, and says how much stands behind its certificate."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from small_models import disguised_witness

from hopscope.circuits.certificate import RULES, Proof
from hopscope.circuits.find import find_circuit
from hopscope.circuits.kept import kept_circuit
from hopscope.circuits.record import Circuit
from hopscope.circuits.search.budget import Budget
from hopscope.circuits.search.journal import Journal
from hopscope.errors import InputError

BUDGET = Budget(orders=1, growing=0, sequences=16, confirming=16, deciding=16)
TINY = Proof(sequences=16, deciding=16, few=8, draws=4, halves=4)
MORE = replace(TINY, draws=5)


@cache
def found(proof: Proof = TINY) -> Circuit:
    witness = disguised_witness(2)
    return find_circuit(witness.transformer, witness.problem, effort=BUDGET, proof=proof)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layer": 99}, r"layer 99 head 1: .* has layer 99, but the model has 3"),
        ({"head": 7}, r"layer . head 7: .* has head 7, but the model has "),
        ({"query": "foo"}, "foo"),
    ],
)
def test_strict_paths_are_in_the_model(change: dict[str, object], says: str) -> None:
    circuit = found()
    assert circuit.strict is not None
    first, *rest = circuit.strict.paths
    with pytest.raises(InputError, match=says):
        replace(circuit, strict=replace(circuit.strict, paths=(replace(first, **change), *rest)))


def test_the_program_is_in_the_model_and_has_the_paths() -> None:
    circuit = found()
    first, *rest = circuit.program
    with pytest.raises(InputError, match=r"a row of the program, of .*, has layer 99, but the model has 3"):
        replace(circuit, program=({**first, "layer": 99}, *rest))
    with pytest.raises(InputError, match="is a path whose row the program does not have"):
        replace(circuit, program=())


def test_a_certificate_is_not_handed_back_as_one_with_more_behind_it(tmp_path: Path) -> None:
    """The same search and less proof: it is made anew. With the same proof it is read."""
    asked = []

    def kept(proof: Proof) -> Circuit:
        def find(journal: Journal) -> Circuit:
            asked.append(proof)
            return found(proof)

        wanted = {"seed": 0, "model": found().model, "bars": [0.05], "rules": RULES, "proof": asdict(proof)}
        return kept_circuit(tmp_path / "circuit.json", wanted, find)

    assert kept(TINY).search["proof"]["draws"] == 4
    assert kept(TINY) == kept(TINY)
    assert kept(MORE).search["proof"]["draws"] == 5
    assert asked == [TINY, MORE]


def test_a_search_that_may_be_given_up_is_another() -> None:
    given_up = find_circuit(
        disguised_witness(1).transformer, disguised_witness(1).problem, effort=replace(BUDGET, most_rows=5), proof=TINY
    )
    assert given_up.search["most_rows"] == 5
    assert found().search["most_rows"] is None
