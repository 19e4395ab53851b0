"""Beside the package: a file that shares no code with it, the rivals of the race, notebooks."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import make_model, publish
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.paper import recipes
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import compose, sample
from hopscope.training.data import squared_errors
from hopscope.training.recipe import Setup

SPEC = importlib.util.spec_from_file_location("one_file", Path(__file__).parent.parent / "examples" / "one_file.py")
assert SPEC
assert SPEC.loader
one_file = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(one_file)

PROBLEM = hs.RetrievalProblem(hops=one_file.HOPS, chains=one_file.CHAINS, symbol_dim=one_file.WIDTH)


def draws(batch=7):
    generator = torch.Generator().manual_seed(5)
    symbols = torch.randn(batch, one_file.CHAINS, one_file.HOPS + 1, one_file.WIDTH, generator=generator)
    order = torch.rand(batch, one_file.HOPS + 1, one_file.CHAINS, generator=generator).argsort(dim=-1)
    return symbols, order


def shared_weights():
    """The file's model after random changes of every weight, and the package's with the same weights."""
    torch.manual_seed(3)
    model = one_file.Transformer(layers=3, heads=4, d_model=32, d_head=8)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    recipe = hs.Recipe(layers=3, heads=4, d_model=32, head_dim=8, mlp=False, steps=1, batch_size=1)
    package = hs.Transformer(recipe.architecture(PROBLEM))
    own = model.state_dict()
    weights = {}
    for name in package.state_dict():
        part = name
        for there, here in (("attention_norm", "norms"), ("attention.", "attentions.")):
            if part.startswith("blocks.") and there in part:
                layer, rest = part.split(".")[1], part.rpartition(there)[2]
                part = f"{here}{layer}.{rest}" if here.endswith(".") else f"{here}.{layer}{rest}"
        value = own[part]
        value = value.T if value.dim() == 2 else value
        weights[name] = value.reshape(package.state_dict()[name].shape)
    package.load_state_dict(weights)
    return model, package


def test_one_file_composes_the_same_sequences():
    symbols, order = draws()
    inputs, targets, places = one_file.compose(symbols, order)
    batch = compose(PROBLEM, symbols, order)
    by_name = {role: number for number, role in enumerate(PROBLEM.roles)}
    assert torch.allclose(inputs, batch.inputs, atol=1e-6)
    assert torch.equal(targets.flatten(2), batch.targets)
    assert torch.equal(places, batch.place[..., [by_name[role] for role in one_file.ROLES]])


def test_one_file_answers_and_losses_are_the_same_with_the_same_weights():
    model, package = shared_weights()
    inputs, targets, _ = one_file.compose(*draws())
    with torch.no_grad():
        answers = model(inputs)
        others = package(inputs[None])[0]
    assert torch.allclose(answers.flatten(2), others, atol=1e-5)
    errors = squared_errors(others[None], targets.flatten(2)[None], one_file.WIDTH)
    assert torch.allclose(one_file.losses(answers, targets), errors.mean(dim=(0, 1)), atol=1e-5)


def test_one_file_ablation_changes_only_what_follows_the_ablated_row():
    """Ablating rows of x0? in the last layer must change the loss; a replaced pattern that is the same must not."""
    model, _ = shared_weights()
    inputs, _, _ = one_file.compose(*draws())
    with torch.no_grad():
        assert torch.equal(model(inputs, lambda layer, pattern: pattern), model(inputs))
    whole = one_file.ablated_loss(model, 0, 0, one_file.ROLES.index("x0?"), batch=64)
    assert not torch.allclose(whole, one_file.ablated_loss(model, 0, 1, one_file.ROLES.index("x0?"), batch=64))


def test_one_file_runs_and_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one_file.main(0.005)
    assert "attends to" in capsys.readouterr().out
    assert (tmp_path / "one_file.svg").read_text().startswith("<svg")


RACE = Path(__file__).parents[1] / "race"


@pytest.mark.parametrize("mlp", [True, False])
def test_the_plain_rival_and_hugging_faces(monkeypatch: pytest.MonkeyPatch, mlp: bool) -> None:
    monkeypatch.syspath_prepend(str(RACE))
    for name in ("trainers", "many_models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    from many_models import FaceGPT2
    from trainers import PlainGPT2

    problem = RetrievalProblem(hops=2)
    recipe = replace(recipes.SWEEP, layers=2, d_model=32, heads=4, mlp=mlp)
    ours = Transformer(recipe.architecture(problem))
    initialise(ours, [0])
    plain = PlainGPT2(problem, recipe)
    plain.take_weights(ours.state_dict())
    inputs = sample(problem, 5, torch.Generator().manual_seed(0)).inputs
    with torch.no_grad():
        expected = ours(inputs[None])[0]
        torch.testing.assert_close(plain(inputs), expected, rtol=1e-4, atol=1e-5)
        if mlp:
            face = FaceGPT2(plain, recipe, problem.sequence_length)
            torch.testing.assert_close(face(inputs), expected, rtol=1e-4, atol=1e-5)


def test_updates_are_timed_by_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RACE))
    monkeypatch.delitem(sys.modules, "updates", raising=False)
    from updates import measure, ways

    recipe = replace(recipes.PLAIN, layers=1, batch_size=4)
    setup = Setup("timed", RetrievalProblem(hops=1), recipe, (0, 1))
    engines = dict(ways(setup, "cpu"))
    assert engines["by torch alone"].kernels is False
    assert len({engine.precision for engine in engines.values()}) == 1
    for engine in engines.values():
        times = measure(setup, engine, updates=2)
        assert min(times.values()) >= 0


NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_is_stored(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if notebook.stem == "language-model":  # its model, before training
        publish(make_model(TextModelRecipe(layers=1, heads=2, d_model=16)), tmp_path / "own")
    few = replace(hs.recipes.LAPTOP, steps=4, final_steps=1, batch_size=4, log_every=1)
    monkeypatch.setattr(hs.recipes, "LAPTOP", few)
    names: dict[str, object] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
