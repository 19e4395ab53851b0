"""M transformers at once, against one written plainly and against torch.func's own ensembling."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.model.architecture import Architecture, InitialWeights
from hopscope.model.fast import FastTransformer
from hopscope.model.hooks import Hooks
from hopscope.model.initial_weights import initialise
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


def built(
    shape: Architecture, models: int = 3, scheme: str = "torch", kind: type[Transformer] = Transformer
) -> Transformer:
    transformer = kind(shape, models).double()
    initialise(transformer, list(range(models)), InitialWeights(scheme))
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


@settings(max_examples=8)
@given(shapes)
def test_equal_to_a_plain_single_model(shape):
    transformer, inputs = built(shape), random_inputs(shape)
    answers = transformer(inputs)
    for model in range(3):
        weights = {name: tensor[model].squeeze(0) if tensor[model].shape[0] == 1 and not name.endswith("weight")
                   else tensor[model] for name, tensor in transformer.state_dict().items()}  # fmt: skip
        for sequence in range(4):
            plain = plain_gpt2(shape, weights, inputs[model, sequence])
            torch.testing.assert_close(answers[model, sequence], plain)


@given(shapes)
def test_patterns_are_weights_and_reading_them_changes_nothing(shape):
    """Answers leave out what cannot reach them; the whole way must agree."""
    transformer, inputs = built(shape), random_inputs(shape)
    whole = transformer.answers(transformer.run(transformer.embed(inputs)))[:, :, -shape.reads :]
    torch.testing.assert_close(whole, transformer(inputs))
    patterns = transformer.patterns(inputs)
    assert len(patterns) == shape.layers
    for pattern in patterns:
        assert pattern.shape == (3, 4, shape.heads, 6, 6)
        torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))
        assert not (shape.causal and pattern.triu(1).any())


class Put(Hooks):
    """One layer's pattern replaced, whatever its number of queries."""

    def __init__(self, at, pattern):
        self.at, self.own = at, pattern

    def pattern(self, layer, pattern):
        return self.own[..., -pattern.shape[-2] :, :] if layer == self.at else pattern


@pytest.mark.parametrize("kind", [Transformer, FastTransformer])
def test_replaying_the_clean_pattern_is_exact_and_another_is_not(kind):
    shape = Architecture(d_input=3, d_output=2, reads=2, layers=3, heads=2, d_model=12)
    transformer, inputs = built(shape, kind=kind), random_inputs(shape)
    clean, patterns = transformer(inputs), transformer.patterns(inputs)
    for changed in range(3):
        torch.testing.assert_close(transformer(inputs, Put(changed, patterns[changed])), clean, rtol=1e-12, atol=1e-12)
        mixed = transformer(inputs, Put(changed, patterns[changed].flip(-1)))
        assert (mixed - clean).abs().amax(dim=(1, 2, 3)).min() > 1e-3  # in every model


class Halved(Hooks):
    """Halves what every layer's attention writes."""

    def attn_out(self, layer, written):
        return written / 2


@settings(max_examples=12)
@given(shapes, st.sampled_from(["head_dim", "d_model"]))
def test_the_fast_transformer_equals_the_plain_one(shape, scale):
    """Values and gradients: in fp32 to 1e-5 of their size as vectors, in fp64 number by number."""
    shape = replace(shape, score_scale=scale)
    for dtype in (torch.float32, torch.float64):
        plain, fast = built(shape).to(dtype), FastTransformer(shape, 3).to(dtype)
        fast.load_state_dict(plain.state_dict())
        inputs = random_inputs(shape).to(dtype)
        found = []
        for model in (plain, fast):
            answers = model(inputs)
            answers.square().mean().backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            found.append((answers.detach().flatten(), torch.cat([gradient.flatten() for gradient in gradients])))
        for own, other in zip(*found, strict=True):
            if dtype == torch.float64:
                torch.testing.assert_close(own, other)
            # Without norms three layers raise every rounding to a high power: there fp64 is what tells.
            assert (own - other).norm() <= (1e-5 if shape.layer_norm else 1e-3) * own.norm()
    for own, other in zip(plain.patterns(inputs), fast.patterns(inputs), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)
    for model in (plain, fast):  # cut anywhere, with outputs replaced
        x = model.embed(inputs)
        for layer in range(shape.layers):
            x = model.run(x, start=layer, stop=layer + 1, hooks=Halved())
        torch.testing.assert_close(x, plain.run(plain.embed(inputs), hooks=Halved()))


def test_scores_divided_by_the_root_of_d_model_are_those_of_smaller_queries():
    """By hand: sqrt(d_head / d_model) on the queries' weights and biases, here sqrt(3 / 12)."""
    shape = Architecture(d_input=3, d_output=2, reads=4, layers=2, heads=4, d_model=12)
    other, scaled = built(replace(shape, score_scale="d_model")), built(shape)
    inputs = random_inputs(shape)
    assert not torch.allclose(other(inputs), scaled(inputs), rtol=1e-3)
    with torch.no_grad():
        for block in scaled.blocks:
            block.attention.query.weight.mul_(0.5)
            block.attention.query.bias.mul_(0.5)
    torch.testing.assert_close(other(inputs), scaled(inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scheme", ["torch", "gpt2"])
def test_initial_weights_come_from_each_models_own_seed(scheme):
    shape = Architecture(d_input=3, d_output=2, reads=1, layers=2, heads=2, d_model=64)
    many, alone = Transformer(shape, 3), Transformer(shape)
    before = torch.random.get_rng_state()
    initialise(many, [7, 8, 9], InitialWeights(scheme))
    initialise(alone, [8], InitialWeights(scheme))
    assert torch.equal(before, torch.random.get_rng_state())
    for name, tensor in alone.state_dict().items():
        assert torch.equal(many.state_dict()[name][1:2], tensor)
    assert not torch.equal(many.embed.weight[0], many.embed.weight[1])


def test_initial_weights_have_the_scale_of_their_scheme():
    shape = Architecture(d_input=8, d_output=12, reads=1, layers=2, heads=2, d_model=128)

    def drawn(**how):
        transformer = Transformer(shape).requires_grad_(False)
        initialise(transformer, [0], InitialWeights(**how))
        return transformer

    plain, gained, gpt2 = drawn(), drawn(qk_gain=3.0, embedding_gain=0.5, output_gain=0.25), drawn(init="gpt2")
    up, linear = plain.blocks[0].mlp.up, torch.nn.Linear(128, 512).requires_grad_(False)
    for own, other in ((up.weight, linear.weight), (up.bias, linear.bias)):
        assert own.std().item() == pytest.approx(other.std().item(), rel=0.15)
        assert own.abs().max() <= 128**-0.5
    gains = {"embed": 0.5, "blocks.1.attention.query": 3, "blocks.1.attention.value": 1, "blocks.1.attention.out": 0.25}
    for name, gain in gains.items():
        assert torch.equal(gained.get_submodule(name).weight, gain * plain.get_submodule(name).weight), name
        of_bias = 1 if name.endswith("query") else gain
        assert torch.equal(gained.get_submodule(name).bias, of_bias * plain.get_submodule(name).bias), name
    assert gpt2.blocks[0].mlp.up.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert gpt2.blocks[1].attention.out.weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert not gpt2.blocks[0].mlp.up.bias.any()
