"""A record names nothing that its model has not, and says how much stands behind its certificate."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest
from small_models import disguised_witness

from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.find import find_circuit
from hopscope.circuits.resume import Journal
from hopscope.circuits.search.config import SearchConfig
from hopscope.circuits.store import kept_circuit
from hopscope.errors import InputError

BUDGET = SearchConfig(orders=1, growing=0, sequences=16, confirming=16, deciding=16)
TINY = CertificateConfig(sequences=16, deciding=16, few=8, draws=4, halves=4)
MORE = replace(TINY, draws=5)


@cache
def found(proof: CertificateConfig = TINY) -> Circuit:
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


def test_what_is_replayed_is_what_is_said() -> None:
    """Planted: a record whose program looks elsewhere than its path, or holds a row twice, or half a layer."""
    circuit = found()
    path, role = circuit.paths[0], {"keys": ["x0?"]}
    row = next(one for one in circuit.program if one["query"] == path.path.names(circuit.roles)[2])
    rest = [one for one in circuit.program if one is not row]
    with pytest.raises(InputError, match=r"is a path, but in the program its row looks at x0\?$"):
        replace(circuit, program=(*rest, row | role))
    with pytest.raises(InputError, match="has the form one_hot, but keep in the program"):
        replace(circuit, program=(*rest, row | {"form": "keep", "keys": []}))
    with pytest.raises(InputError, match="is in the program twice"):
        replace(circuit, program=(*circuit.program, row | role))
    for layer in (1.5, "1", True, 0):
        with pytest.raises(InputError, match="layer of a row of a program must be a whole number of at least 1"):
            replace(circuit, program=(*rest, row | {"layer": layer}))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"proof": 5}, r"proof must be an hs\.CertificateConfig, as in hs\.CertificateConfig\(draws=500\), got 5"),
        ({"effort": ["quick"]}, "effort must be quick or thorough, got "),
        ({"max_loss": [0.1]}, r"max_loss must be above 0 and below 0\.5, got \[0\.1\]"),
        ({"problem": "chain"}, r"problem must be an hs\.RetrievalProblem, got 'chain'"),
    ],
)
def test_what_nobody_can_ask_for_is_refused_before_the_search(asked: dict[str, object], says: str) -> None:
    made = disguised_witness(1)
    with pytest.raises(InputError, match=says):
        find_circuit(made.transformer, **({"problem": made.problem} | asked))  # type: ignore[arg-type]


def test_a_certificate_is_not_handed_back_as_one_with_more_behind_it(tmp_path: Path) -> None:
    """The same search and less proof: it is made anew. With the same proof it is read."""
    asked = []

    def kept(proof: CertificateConfig) -> Circuit:
        def find(journal: Journal) -> Circuit:
            asked.append(proof)
            return found(proof)

        wanted = {"seed": 0, "model": found().model, "max_loss": 0.05, "proof": asdict(proof)}
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
