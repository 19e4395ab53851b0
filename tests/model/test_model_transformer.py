"""M transformers at once, held against one written plainly and against torch.func's own ensembling."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.model.initial import initialise
from hopscope.model.transformer import Transformer

shapes = st.builds(
    Architecture,
    d_input=st.integers(1, 5),
    d_output=st.integers(1, 5),
    reads=st.integers(1, 3),
    layers=st.integers(1, 3),
    heads=st.integers(1, 3),
    d_model=st.just(12),
    head_dim=st.sampled_from([None, 5]),
    mlp=st.booleans(),
    causal=st.booleans(),
    layer_norm=st.booleans(),
)


def built(shape: Architecture, models: int = 3, scheme: str = "torch") -> Transformer:
    transformer = Transformer(shape, models).double()
    initialise(transformer, list(range(models)), scheme)
    generator = torch.Generator().manual_seed(5)
    for parameter in transformer.parameters():  # LayerNorms too, so that no weight is at a value that hides a slip
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return transformer


def random_inputs(shape: Architecture, models: int = 3, length: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(6)
    return torch.randn(models, 4, length, shape.d_input, generator=generator, dtype=torch.float64)


def plain_gpt2(shape: Architecture, w: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """One model on one sequence, position by position and head by head, the slow way. x: [pos, d_input]."""

    def norm(name, x):
        if not shape.layer_norm:
            return x
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]
        )

    def linear(name, x):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = linear("embed", x)
    for layer in range(shape.layers):
        name = f"blocks.{layer}"
        y = norm(f"{name}.attention_norm", x)
        q, k, v = (linear(f"{name}.attention.{part}", y) for part in ("query", "key", "value"))
        out = torch.zeros_like(q)
        for head in range(shape.heads):
            own = slice(head * shape.d_head, (head + 1) * shape.d_head)
            for i in range(len(x)):
                seen = range(i + 1) if shape.causal else range(len(x))
                scores = torch.stack([q[i, own] @ k[j, own] / math.sqrt(shape.d_head) for j in seen])
                weights = (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()
                out[i, own] = sum(weight * v[j, own] for weight, j in zip(weights, seen, strict=True))
        x = x + linear(f"{name}.attention.out", out)
        if shape.mlp:
            hidden = linear(f"{name}.mlp.up", norm(f"{name}.mlp_norm", x))
            x = x + linear(f"{name}.mlp.down", F.gelu(hidden, approximate="tanh"))
    return linear("read", norm("norm", x))[-shape.reads :]


@given(shapes)
def test_equal_to_a_plain_single_model(shape):
    transformer, inputs = built(shape), random_inputs(shape)
    answers = transformer(inputs).answers
    for model in range(3):
        weights = {name: tensor[model].squeeze(0) if tensor[model].shape[0] == 1 and not name.endswith("weight")
                   else tensor[model] for name, tensor in transformer.state_dict().items()}  # fmt: skip
        for sequence in range(4):
            plain = plain_gpt2(shape, weights, inputs[model, sequence])
            torch.testing.assert_close(answers[model, sequence], plain)


@given(shapes)
def test_equal_to_torch_func_ensembling_forward_and_gradients(shape):
    transformer, inputs = built(shape), random_inputs(shape)
    singles = []
    for model in range(3):
        single = Transformer(shape).double()
        single.load_state_dict({name: t[model : model + 1] for name, t in transformer.state_dict().items()})
        singles.append(single)
    stacked, _ = torch.func.stack_module_state(singles)

    def answer(parameters, x):
        return torch.func.functional_call(singles[0], parameters, (x[None],)).answers[0]

    def loss(parameters):
        return torch.func.vmap(answer)(parameters, inputs).square().sum()

    answers = transformer(inputs).answers
    torch.testing.assert_close(answers, torch.func.vmap(answer)(stacked, inputs))
    gradients = torch.func.grad(loss)(stacked)
    answers.square().sum().backward()
    for name, parameter in transformer.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name].squeeze(1), msg=name)


@given(shapes)
def test_watching_patterns_changes_nothing(shape):
    """The unwatched pass leaves out what cannot reach an answer; both must agree, and patterns must be weights."""
    transformer, inputs = built(shape), random_inputs(shape)
    watched = transformer(inputs, return_patterns=True)
    torch.testing.assert_close(watched.answers, transformer(inputs).answers)
    assert len(watched.patterns) == shape.layers
    for pattern in watched.patterns:
        assert pattern.shape == (3, 4, shape.heads, 6, 6)
        torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
        assert not (shape.causal and pattern.triu(1).any())


def test_replaying_the_clean_pattern_is_exact_and_another_is_not():
    shape = Architecture(d_input=3, d_output=2, reads=2, layers=3, heads=2, d_model=12)
    transformer, inputs = built(shape), random_inputs(shape)
    clean = transformer(inputs, return_patterns=True)
    assert torch.equal(transformer(inputs, lambda layer, _: clean.patterns[layer]).answers, clean.answers)
    for changed in range(3):
        mixed = transformer(inputs, lambda layer, p, at=changed: p.flip(-1) if layer == at else p)
        assert not torch.allclose(mixed.answers, clean.answers, atol=1e-3)
        assert (mixed.answers - clean.answers).abs().amax(dim=(1, 2, 3)).min() > 1e-3  # in every model


def test_a_causal_model_does_not_see_later_positions():
    shape = Architecture(d_input=3, d_output=2, reads=4, layers=2, heads=2, d_model=12)
    transformer, inputs = built(shape), random_inputs(shape)
    changed = inputs.clone()
    changed[:, :, -1] += 1
    before, after = transformer(inputs).answers, transformer(changed).answers
    assert torch.equal(before[:, :, :-1], after[:, :, :-1])
    assert not torch.equal(before[:, :, -1], after[:, :, -1])


@pytest.mark.parametrize("scheme", ["torch", "gpt2"])
def test_initial_weights_come_from_each_models_own_seed(scheme):
    shape = Architecture(d_input=3, d_output=2, reads=1, layers=2, heads=2, d_model=64)
    many, alone = Transformer(shape, 3), Transformer(shape)
    before = torch.random.get_rng_state()
    initialise(many, [7, 8, 9], scheme)
    initialise(alone, [8], scheme)
    assert torch.equal(before, torch.random.get_rng_state())
    for name, tensor in alone.state_dict().items():
        assert torch.equal(many.state_dict()[name][1:2], tensor)
    assert not torch.equal(many.embed.weight[0], many.embed.weight[1])


def test_initial_weights_have_the_scale_of_their_scheme():
    shape = Architecture(d_input=8, d_output=12, reads=1, layers=2, heads=2, d_model=128)
    transformer = Transformer(shape).requires_grad_(False)
    initialise(transformer, [0], "torch")
    up = transformer.blocks[0].mlp.up
    theirs = torch.nn.Linear(128, 512).requires_grad_(False)
    for mine, other in ((up.weight, theirs.weight), (up.bias, theirs.bias)):
        assert mine.std().item() == pytest.approx(other.std().item(), rel=0.15)
        assert mine.abs().max() <= 128**-0.5
    query, value = (transformer.blocks[0].attention.get_submodule(name).weight.clone() for name in ("query", "value"))
    initialise(transformer, [0], "torch", qk_gain=3.0)
    assert torch.equal(transformer.blocks[0].attention.query.weight, 3 * query)
    assert torch.equal(transformer.blocks[0].attention.value.weight, value)
    initialise(transformer, [0], "gpt2")
    assert up.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert transformer.blocks[1].attention.out.weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert not up.bias.any()


@pytest.mark.parametrize(
    ("change", "words"),
    [({"d_model": 10}, "divisible by heads, got 10 and 4"), ({"layers": 0}, "layers .* got 0"),
     ({"head_dim": -1}, "head_dim .* got -1"), ({"heads": 2.0}, "heads .* got 2.0")],
)  # fmt: skip
def test_bad_architectures_are_named(change, words):
    good = {"d_input": 3, "d_output": 2, "reads": 1, "layers": 1, "heads": 4, "d_model": 8}
    with pytest.raises(InputError, match=words):
        Architecture(**{**good, **change})


def test_any_head_size():
    """Transformer D's shape: 1 head of 16 in a stream of 512, no MLP."""
    shape = Architecture(d_input=8, d_output=16, reads=4, layers=2, heads=1, d_model=512, head_dim=16, mlp=False)
    transformer = Transformer(shape)
    assert sum(p.numel() for p in transformer.blocks[0].attention.parameters()) == 4 * 512 * 16 + 3 * 16 + 512
    assert transformer(torch.randn(1, 2, 36, 8)).answers.shape == (1, 2, 4, 16)
