"""Custom circuits of language models, which are checked and not searched for."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from planted_text import CIRCUIT

import hopscope as hs
from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.cli import program
from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.roles import text_role_names

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("language circuits")]  # one worker searches `folder`

PATHS = [AttentionPath.parse(path, text_role_names(1)) for path in CIRCUIT]


def test_a_custom_circuit_is_checked_as_a_found_one(folder: Path, found: Circuit) -> None:
    few = CertificateConfig(sequences=64, deciding=128, few=32, draws=40, halves=8)
    model = hs.LanguageModel(folder)
    circuit = model.check(CIRCUIT, hs.text("equations", 1), proof=few)
    assert circuit.certified
    assert sorted(path.path for path in circuit.paths) == sorted(PATHS)
    assert circuit.text is not None
    assert circuit.text.scores["own"].accuracy == 1
    assert (circuit.max_loss, circuit.model, circuit.search.effort) == (found.max_loss, found.model, None)
    less = model.check([CIRCUIT[0], CIRCUIT[2]], hs.text("equations", 1), proof=few)
    assert not less.certified
    assert not less.checks["sufficiency"].passed
    with pytest.raises(InputError, match="layer must be from 1 to 2, got 7"):
        model.check(["L7.H1 answer -> >x1"], hs.text("equations", 1), proof=few)


def test_circuit_check_of_a_language_model(folder: Path, found: Circuit) -> None:
    asked = ["circuit", "certify", str(folder)]
    how = ["--formulation", "equations", "--hops", "1"]
    done = CliRunner().invoke(program, [*asked, *how], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("certified circuit")
    assert f"{len(found.paths)} paths" in " ".join(done.stdout.split())
    for options, says in (
        ([*how, "--max-loss", "0.1"], "a language model has --faithfulness"),
        (["--hops", "1"], "is a language model; pass --formulation"),
        ([], "is a language model; pass --formulation"),
        ([*how, "--faithfulness", "1"], "faithfulness must be above 0 and below 1"),
    ):
        refused = CliRunner().invoke(program, [*asked, CIRCUIT[0], *options])
        assert isinstance(refused.exception, InputError)
        assert says in str(refused.exception)
