"""The file that shares no code with the package (`examples/one_file.py`) computes what the package does."""

import importlib.util
from pathlib import Path

import torch

import hopscope as hs
from hopscope.problem.vectors import compose
from hopscope.training.data import squared_errors

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
