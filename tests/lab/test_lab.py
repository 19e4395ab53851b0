"""What a researcher does in a notebook: models of a run, ablations, attention; every line of docs/api.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
import torch
from known_run import circuit_json, known_run, witness_shape
from plain_gpt2 import PlainGPT2, parts
from torch import nn
from unchecked import unchecked

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import make_model, publish
from hopscope.circuits.evaluate.ablations import UNIFORM, Ablation, AblationKind
from hopscope.errors import InputError
from hopscope.lab.model import ABLATIONS, OF_A_PATH
from hopscope.model.initial_weights import initialise
from hopscope.problem.paths import AttentionPath, HeadRow
from hopscope.problem.roles import role_names
from hopscope.training.data import squared_errors

PROBLEM = hs.RetrievalProblem(hops=2, chains=2, symbol_dim=3)
TINY = hs.Recipe(layers=2, heads=2, d_model=8, steps=4, batch_size=4, log_every=2, final_steps=2, checkpoint_every=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return hs.train(TINY, PROBLEM, tmp_path_factory.mktemp("lab") / "run", seeds=[3, 5])


def test_a_run_is_a_sequence_of_its_models(run):
    assert isinstance(run, hs.Run)
    assert [model.seed for model in run] == [3, 5]
    assert run[-1].number == 1
    assert [model.seed for model in run[1:]] == [5]
    with pytest.raises(IndexError, match="2 models"):
        run[2]
    with pytest.raises(hs.InputError, match="2 models, numbered from 0, got '0'"):
        run["0"]
    whole = run.transformer()
    inputs = run[1].evaluator.batch.inputs
    torch.testing.assert_close(run[1].transformer(inputs[None])[0], whole(inputs.expand(2, *inputs.shape))[1])
    assert run[1].at(2).loss != run[1].loss


def test_loss_is_the_mean_squared_error_by_hand(run):
    model = run[0]
    batch = model.evaluator.batch
    by_hand = squared_errors(model.transformer(batch.inputs[None]), batch.targets, 3).mean()
    assert model.loss == pytest.approx(float(by_hand), rel=1e-5)


def test_all_spellings_of_a_location_agree(run):
    model = run[0]
    path = AttentionPath.parse("L2.H1 x0? -> >x1", role_names(2))
    written = model.ablate({"L2.H1 x0? -> >x1": "uniform"})
    assert written == model.ablate({path: "uniform"}) == model.ablate({path.row: UNIFORM})
    assert written == model.ablate({path.describe(model.problem.roles): "uniform"}), "as `hopscope circuit` prints it"
    assert written == model.ablate({"L2.H1 x0?": "uniform"})
    assert written.loss == pytest.approx(sum(written.partial_losses) / 2)
    assert written.change == pytest.approx(written.loss - model.loss, abs=1e-6)
    head = model.ablate({"L2.H1": "zero"})
    assert head == model.ablate({HeadRow(1, 0, role): "zero" for role in range(5)})
    assert model.ablate({"L2.H1": "keep"}).change == 0
    gone, elsewhere = (model.ablate({"L2.H1 x0? -> >x1": name}) for name in OF_A_PATH)
    assert len({gone, elsewhere, written}) == 3
    losses = {name: model.ablate({"L1.H1": name, "L1.H2": name}).loss for name in ABLATIONS}
    assert len({round(loss, 7) for loss in losses.values()}) == len(losses), "no two ablations are the same thing"


@pytest.mark.parametrize("kind", [AblationKind.KNOCK_OUT, AblationKind.MOVED])
def test_keys_that_are_knocked_out_of_one_row_or_moved_add_up(run, kind):
    """Two paths of a row, in either order, are the row without both keys."""
    model, (first, second) = run[0], ("L2.H1 x0? -> >x1", "L2.H1 x0? -> >x2")
    paths = [AttentionPath.parse(path, role_names(2)) for path in (first, second)]
    both = model.ablate({paths[0].row: Ablation(kind, tuple(path.key for path in paths))})
    assert model.ablate({first: kind.value, second: kind.value}) == both
    assert model.ablate({second: kind.value, first: kind.value}) == both
    assert both not in [model.ablate({path: kind.value}) for path in (first, second)]
    assert model.ablate({first: kind.value, "L2.H1": "zero"}) == model.ablate({"L2.H1": "zero"}), "the last counts"


@pytest.mark.parametrize(
    ("place", "form", "says"),
    [
        ("L1.H3 x0?", "uniform", "head must be from 1 to 2, got 3"),
        ("layer 9 head 2: x0? -> >x1", "knock_out", "layer must be from 1 to 2, got 9"),
        (3, "uniform", "a location must be text like .*, an AttentionPath or a HeadRow, got 3"),
        ("L1.H1", ["uniform"], "an ablation is one of"),
        ("L1.H1 x9", "uniform", "x9"),
        ("L1.H1", "burn", "an ablation is one of uniform, identity, zero, positional, resample, alike, keep"),
        ("L1.H1", "knock_out", "or for a path knock_out or moved"),
    ],
)
def test_bad_locations_and_ablations_are_named(run, place, form, says):
    with unchecked(), pytest.raises(InputError, match=says):
        run[0].ablate({place: form})


def test_attention_by_role_and_by_position(run):
    roles, positions = run[0].attention(), run[0].attention(roles=False)
    assert roles.shape == (2, 2, 5, 5)
    assert positions.shape == (2, 2, PROBLEM.sequence_length, PROBLEM.sequence_length)
    torch.testing.assert_close(positions.sum(-1), torch.ones(2, 2, PROBLEM.sequence_length))
    assert float(roles.sum(-1).max()) <= 1 + 1e-5


def test_a_setup_has_its_problem_and_seeds(tmp_path):
    setup = hs.Setup("tiny", PROBLEM, replace(TINY, steps=2), (7,))
    assert hs.train(setup, tmp_path / "tiny")[0].seed == 7
    with pytest.raises(InputError, match="a setup has its problem"):
        hs.train(setup, tmp_path / "tiny", seeds=[1])  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        ((TINY, PROBLEM, "run"), {"seeds": 3}, r"seeds must be a list with one integer per model, e\.g\. .*; got 3"),
        ((TINY, PROBLEM, "run"), {"seeds": [[1]]}, r"a seed must be a whole number .* got \[1\]"),
        ((TINY, PROBLEM, "run"), {"execution": "cpu"}, "execution must be an hs.Execution, .* got 'cpu'"),
        ((TINY, PROBLEM, "file/deep/run"), {}, "file is a file; give a folder"),
        ((TINY, PROBLEM, 3), {}, "a run is given by its path, .*, got 3"),
        (("a", PROBLEM, "run"), {}, "expects a Recipe or a Setup"),
    ],
)
def test_train_rejects_bad_arguments(arguments, named, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    with unchecked(), pytest.raises(InputError, match=says):
        hs.train(*arguments, **named)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def layers(d_input: int = PROBLEM.input_dim, d_output: int = PROBLEM.target_dim) -> nn.Module:
    return nn.Sequential(nn.Linear(d_input, 4), nn.Identity(), nn.Linear(4, d_output))


def of_layers(module: nn.Sequential) -> hs.Parts:
    return hs.Parts(module[0], [module[1]], module[2], [module[1]])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((layers(d_input=2), PROBLEM, of_layers), r"must take inputs .* raises RuntimeError: mat1"),
        ((layers(d_output=2), PROBLEM, of_layers), r"must answer with a tensor \[sequence, position, "),
        ((len, PROBLEM, of_layers), r"module must be a torch\.nn\.Module, got <built-in"),
        ((layers(), PROBLEM, of_layers(layers())), "parts and untrain are functions of the module, got Parts"),
        ((layers(), PROBLEM, lambda module: None), r"parts must give an hs.Parts, got None"),
    ],
)
def test_from_torch_rejects_modules_that_do_not_suit_the_problem(arguments, says):
    with unchecked(), pytest.raises(InputError, match=says):
        hs.Model.from_torch(*arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run: hs.Run(3), "a run is given by its path, as text or a pathlib.Path, got 3"),
        (lambda run: hs.Run("a\0b"), "no null character"),
        (lambda run: run[0].ablate("L1.H1"), "ablations must map locations to names"),
        (lambda run: run[0].at("a").loss, "the step of a checkpoint must be a whole number of at least 0, got 'a'"),
        (lambda run: run.explore(model="a"), "must be a whole number of at least 0, got 'a'"),
        (lambda run: run[0].find_circuit(max_loss="a"), "max_loss must be above 0 and below 0.5, got 'a'"),
        (lambda run: run[0].find_circuit(proof=5), r"proof must be an hs\.CertificateConfig, .*\(draws=500\), got 5"),
        (lambda run: run[0].find_circuit(effort=["quick"]), "effort must be quick or thorough, got "),
        (lambda run: hs.Model(run[0].transformer, "chain"), "problem must be an hs.RetrievalProblem, got 'chain'"),
        (lambda run: run[0].find_circuit(seed=1.5), "seed must be a whole number .* got 1.5"),
        (lambda run: hs.Model(run[0], PROBLEM), "a model needs an hs.Transformer, or use Model.from_torch; got"),
        (lambda run: hs.Model(run[0].transformer, hs.RetrievalProblem(hops=5)), "that it was trained on"),
        (lambda run: hs.Setup("x", 3, TINY), "problem must be a RetrievalProblem, got 3"),
        (lambda run: hs.theory.best_order("a"), "hops must be a whole number of at least 1, got 'a'"),
        (lambda run: hs.theory.shortest_schedule(3), "problem must be an hs.RetrievalProblem"),
        (lambda run: hs.theory.deliver(1, ["x"]), "paths must be AttentionPaths, .* got 'x'"),
        (lambda run: hs.theory.deliver(10**9, []), "that takes at least"),
        (lambda run: hs.Ablation(hs.AblationKind.KNOCK_OUT, keys=1), "keys must be a list or tuple of role numbers"),
        (lambda run: hs.theory.AttentionPath.parse(3, PROBLEM.roles), "an attention path is written like .* got 3"),
        (lambda run: hs.RetrievalProblem(symbols=np.arange(2)), "symbols must be one of gaussian, unit, got array"),
        (lambda run: hs.sample(PROBLEM, 2.5, torch.Generator()), "batch must be a whole number of at least 1, got 2.5"),
        (lambda run: hs.sample(3, 2, torch.Generator()), "problem must be an hs.RetrievalProblem, .* got 3"),
        (lambda run: hs.Examples(PROBLEM).at(7, torch.arange(3)), "seeds must be an int64 tensor, .* got 7"),
        (lambda run: hs.Examples(PROBLEM).at(torch.tensor(7), torch.ones(3)), "indices must be an int64 tensor"),
        (lambda run: run.emergence(0, 3), r"config must be an hs.EmergenceConfig, .* got 3"),
        (lambda run: run[0].find_circuit(overwrite=True, progress=3), "progress must be True, False or a function"),
        (lambda run: hs.reproduce("tiny", execution=1), "execution must be an hs.Execution"),
        (lambda run: hs.Parts(len, 3, len, []), "blocks must be a list, with one for each block, got 3"),
    ],
)  # fmt: skip
def test_bad_arguments_of_public_functions_are_named(run, call, says):
    with unchecked(), pytest.raises(InputError, match=says):
        call(run)


def test_large_values_have_a_repr_of_one_line(run):
    circuit = run[0].find_circuit(effort="quick")
    assert isinstance(circuit, hs.Circuit)
    assert run[0].find_circuit(effort="quick") == circuit, "it is stored"
    loss = circuit.losses["full"]
    assert repr(circuit) == f"<no circuit: model {circuit.model} (seed 3), D = 2, 2 layers x 2, loss {loss:.3f}>"
    assert "\nFAIL  sufficiency" in str(circuit)
    assert circuit.failed == ("sufficiency",)
    assert repr(run.metrics) == "<metrics of 2 models: 3 rows>"


PAGE = Path(__file__).parents[2] / "docs" / "api.md"
LINES = re.findall(r"```py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[0].splitlines()
OF_A_CIRCUIT = ("circuit.faithfulness_curve()", "run.emergence()")
"""Calls that need a circuit, which a model of two steps has not."""

QUICK = hs.CertificateConfig(sequences=16, deciding=16, few=8, draws=4, halves=8)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page takes for granted, and a recipe of two steps."""
    pytest.importorskip("transformers", reason="the extra `llm` is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopscope.paper.reproduce.reproduce", create_autospec(hs.reproduce))
    monkeypatch.setattr(hs.CertificateConfig, "of", lambda proof: QUICK)
    few = replace(hs.recipes.LAPTOP, steps=2, final_steps=1, batch_size=4, checkpoint_every=1)
    monkeypatch.setattr(hs.recipes, "LAPTOP", few)
    publish(make_model(TextModelRecipe()), tmp_path / "folder")
    ours = hs.Transformer(few.architecture(hs.RetrievalProblem(hops=3)))
    initialise(ours, [0])
    gpt = PlainGPT2(ours)
    return {"hs": hs, "my_gpt": gpt, "my_parts": parts}


@pytest.mark.slow
def test_every_line_of_the_api_page_runs(names: dict[str, Any]) -> None:
    for line in LINES:
        if line.startswith(OF_A_CIRCUIT):
            with pytest.raises(hs.InputError, match=r"has no circuit|was not measured"):
                exec(line, names)
        else:
            exec(line, names)
    assert (names["model"].seed, names["circuit"]) == (2, hs.Circuit.load("c.json"))
    assert hs.theory.min_layers(hops=5) == hs.theory.depths(5).causal == 4
    hs.reproduce.assert_called_once_with("laptop")


def test_lines_about_a_circuit_run_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hs.Recipe, "architecture", witness_shape)
    folder = known_run(tmp_path / "run")
    circuit_json(folder, folder.path / "circuit.json")
    run = hs.Run(folder.path)
    circuit = run[0].check(hs.Circuit.load(folder.path / "circuit.json"), proof=QUICK)
    for line in OF_A_CIRCUIT:
        assert any(written.startswith(line) for written in LINES)
        exec(line, {"run": run, "circuit": circuit})
    assert circuit.plot().axes
    assert len(run.emergence().paths) == len(circuit.paths)
