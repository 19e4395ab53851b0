"""A block in one pass is the plain block, as exactly as its precision allows; who gets it, what goes the other way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from hopscope.kernels import fused_block
from hopscope.kernels.precision import Precision
from hopscope.model.architecture import Architecture
from hopscope.model.fast import FastBlock, FastTransformer
from hopscope.model.hooks import Hooks
from hopscope.model.initial_weights import initialise
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.execution import Execution, kernels_used, using_threads
from hopscope.training.recipe import Recipe, Setup

needs_compiler = pytest.mark.skipif(not fused_block.available("fp32"), reason="no compiler here")


@pytest.fixture
def precision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Precision:
    """The precision of a kind of product, whether or not this machine would choose that kind."""
    kind: fused_block.ProductKind = request.param
    if fused_block._functions(kind) is None:
        pytest.skip(f"no compiler here, or no processor for {kind}")
    kinds = {"fp32": "fp32", "bf16": "bf16" if kind == "fp32" else kind}
    monkeypatch.setattr(fused_block, "_kind", kinds.__getitem__)
    monkeypatch.setattr(fused_block, "available", lambda one: fused_block._functions(kinds[one]) is not None)
    return "fp32" if kind == "fp32" else "bf16"


in_all = pytest.mark.parametrize("precision", get_args(fused_block.ProductKind), indirect=True)

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
EXACTNESS = {"bf16": 0.01, "fp32": 2e-6}
"""What is added to twice torch's own error."""


def a_block(models: int, shape: Architecture, seed: int = 0) -> FastBlock:
    """One whose every weight, gain, offset and bias matters."""
    transformer = FastTransformer(shape, models)
    initialise(transformer, list(range(models)))
    block = transformer.blocks[0]
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return block


def outcome(
    block: FastBlock, x: Tensor, gradient: Tensor, precision: str, *, fused: bool = False, threads: int = 1
) -> dict[str, Tensor]:
    """The stream after it and all gradients, in one pass or by torch."""
    reads, dtype = gradient.shape[2], DTYPES[precision]
    block.double() if precision == "fp64" else block.float()
    block.whole = precision if fused else None
    mine = x.to(dtype, copy=True).requires_grad_()
    assert block.goes_whole(mine) is fused
    block.zero_grad()
    with using_threads(threads):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            out = fused_block.through(mine, [block.parts()], reads) if fused else block(mine, reads)
        out.backward(gradient.to(out.dtype))
    gradients = {name: one.grad.double().clone() for name, one in block.named_parameters()}
    return {"out": out.detach().double(), "x": mine.grad.double()} | gradients


def as_exact(block: FastBlock, x: Tensor, gradient: Tensor, precision: str, threads: int = 1) -> None:
    """See that it is about as near to the exact values as what torch makes of them in that precision."""
    fused, plain = (outcome(block, x, gradient, precision, fused=fused, threads=threads) for fused in (True, False))
    exact = outcome(block, x, gradient, "fp64")
    for name, there in exact.items():
        # A bias that all keys share changes nothing: its gradient is rounding alone, as are both of a single key. That
        # of another may cancel where few rows are summed: it rounds as those of a row of its map, which do not.
        own = exact[name.replace("bias", "weight")]
        whole = own.norm() if "key" in name else max(there.norm(), own.norm() / own.shape[1] ** 0.5)
        size = whole + 0.01 * exact["x"].norm()
        of_fused, of_plain = ((found[name] - there).norm() / size for found in (fused, plain))
        assert fused[name].isfinite().all(), name
        assert of_fused <= 2 * of_plain + EXACTNESS[precision], (name, float(of_fused), float(of_plain))


def random(*size: int, seed: int = 1) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).bfloat16()


@in_all
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    models=st.integers(1, 3),
    batch=st.integers(1, 9),
    positions=st.one_of(st.just(28), st.integers(1, 80)),
    reads=st.integers(0, 80),
    heads=st.integers(1, 5),
    d_head=st.sampled_from([2, 8, 10, 16, 18, 32, 64, 128]),
    width=st.sampled_from([16, 48, 64, 80, 128, 192]),
    mlp=st.booleans(),
    causal=st.booleans(),
    layer_norm=st.booleans(),
    threads=st.integers(1, 3),
)
def test_values_and_gradients(
    precision, models, batch, positions, reads, heads, d_head, width, mlp, causal, layer_norm, threads
):
    """Every size; heads of odd width in fp32."""
    d_head -= precision == "fp32"
    reads = positions if reads == 0 or reads > positions else reads
    shape = Architecture(20, 8, reads, 1, heads, width, head_dim=d_head, mlp=mlp, causal=causal, layer_norm=layer_norm)
    x, gradient = random(models, batch, positions, width), random(models, batch, reads, width, seed=2)
    as_exact(a_block(models, shape), x, gradient, precision, threads)


@needs_compiler
@pytest.mark.parametrize("sizes", [{"d_model": 24}, {"head_dim": 129}, {"positions": 81}])
def test_sizes_that_do_not_fit_go_by_torch(sizes):
    """Who asks for whole blocks need not know what they take."""
    sizes = {"d_model": 16, "head_dim": 8, "positions": 80} | sizes
    positions = sizes.pop("positions")
    transformer = FastTransformer(Architecture(20, 8, positions, 1, 2, **sizes))
    transformer.fuse_blocks("fp32")
    x = torch.randn(1, 2, positions, sizes["d_model"])
    assert not transformer.blocks[0].goes_whole(x)
    assert transformer.run(x).shape == x.shape


@in_all
@pytest.mark.parametrize(("mlp", "layer_norm"), [(True, True), (False, False)])
@pytest.mark.parametrize("change", ["none", "a layer without heads", "no gradients"])
def test_blocks_together_are_one_after_the_other(precision, change, mlp, layer_norm):
    """To the bit, also where one in the middle goes by torch, and where nothing is kept for the way back."""
    shape = Architecture(20, 8, 3, 4, 2, 32, head_dim=8, mlp=mlp, layer_norm=layer_norm)
    transformer = FastTransformer(shape, 2)
    initialise(transformer, [0, 1])
    transformer.fuse_blocks(precision)
    if change == "a layer without heads":
        transformer.compute_only(torch.tensor([True, False, True, True])[None, :, None].expand(2, 4, 2))
    x, found, learns = random(2, 5, 17, 32).to(DTYPES[precision]), list[list[Tensor]](), change != "no gradients"
    for stops in ([4], [1, 2, 3, 4], [2, 4]):
        transformer.zero_grad()
        mine, start = x.clone().requires_grad_(), 0
        out = mine
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"), torch.set_grad_enabled(learns):
            for stop in stops:
                out, start = transformer.run(out, start=start, stop=stop, reads=3), stop
        if learns:
            out.square().sum().backward()
        inputs = [mine, *transformer.parameters()]
        found.append([out.detach(), *(tensor.grad for tensor in inputs if tensor.grad is not None)])
    assert found[0][0].shape == (2, 5, 3, 32)
    assert len(found[0]) > 24 or not learns
    for other in found[1:]:
        assert all(one.equal(same) for one, same in zip(found[0], other, strict=True))


@in_all
@pytest.mark.parametrize("d_head", [8, 64])
def test_a_model_is_the_same_alone_and_a_sequence_too(precision, d_head):
    """Among others and on any number of threads: the same bits of what passes; sums over sequences differ by order."""
    shape = Architecture(20, 8, 28, 1, 2, 64, head_dim=d_head)
    block, x, gradient = a_block(3, shape), random(3, 21, 28, 64), random(3, 21, 28, 64, seed=2)
    together, shared = (outcome(block, x, gradient, precision, fused=True, threads=threads) for threads in (1, 2))
    for name, there in together.items():
        within = 0 if name in ("out", "x") else 1e-4
        torch.testing.assert_close(shared[name], there, rtol=within, atol=within)
    alone = a_block(1, shape)
    alone.load_state_dict({name: one[1:2] for name, one in block.state_dict().items()})
    for name, there in outcome(alone, x[1:2], gradient[1:2], precision, fused=True).items():
        torch.testing.assert_close(there[0], together[name][1], rtol=0, atol=0)
    some = outcome(block, x[:, 4:9], gradient[:, 4:9], precision, fused=True)
    torch.testing.assert_close(some["x"], together["x"][:, 4:9], rtol=0, atol=0)


@in_all
@pytest.mark.parametrize("d_head", [8, 64])
def test_nan_stays_nan_and_in_its_sequence(precision, d_head):
    block, x = a_block(1, Architecture(20, 8, 28, 1, 2, 64, head_dim=d_head)), random(1, 3, 28, 64)
    x[0, 1, 5] = torch.nan
    found = outcome(block, x, random(1, 3, 28, 64, seed=2), precision, fused=True)
    assert found["out"][0, 1, 5:].isnan().all()  # whoever sees position 5
    assert not found["out"][0, [0, 2]].isnan().any()
    assert found["mlp.up.weight"].isnan().all()


@in_all
@pytest.mark.parametrize("size", [30.0, 3000.0])
def test_large_numbers(precision, size):
    """GELU and softmax far out, where an exponential is beyond what fp32 can hold."""
    block = a_block(1, Architecture(20, 8, 28, 1, 2, 64, head_dim=8, layer_norm=False))
    as_exact(block, size * random(1, 4, 28, 64), random(1, 4, 28, 64, seed=2), precision)


@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is guarded as Linux does it")
@pytest.mark.parametrize("kind", ["block", "attention"])
def test_nothing_past_the_end_is_touched(kind):
    """Each tensor ends where the process may neither read nor write: one step too far kills it."""
    subprocess.run([sys.executable, str(Path(__file__).parents[1] / "support" / "guarded.py"), kind], check=True)


@in_all
def test_blocks_with_hooks_or_patterns_go_by_torch(monkeypatch, precision):
    asked = []

    def through(x: Tensor, blocks: list[fused_block.BlockParts], reads: int | None) -> Tensor:
        asked.extend(blocks)
        return x if reads is None else x[:, :, -reads:]

    monkeypatch.setattr(fused_block, "through", through)
    inputs = torch.randn(1, 2, 10, 20)

    def times(run, autocast: bool = precision == "bf16", **shape: object) -> int:
        asked.clear()
        transformer = FastTransformer(Architecture(20, 8, 2, 2, 1, 16, **shape), 1)
        transformer.fuse_blocks(precision)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            run(transformer)
        return len(asked)

    assert times(lambda one: one(inputs)) == 2
    assert times(lambda one: one(inputs, hooks=Hooks())) == 0
    assert times(lambda one: one.patterns(inputs)) == 0
    assert times(lambda one: one(inputs), head_dim=8, score_scale="d_model") == 0
    assert times(lambda one: one.compute_only(torch.tensor([[[True], [False]]])) or one(inputs)) == 1
    assert times(lambda one: one(inputs), autocast=precision == "fp32") == 0  # the stream is of the other precision


@needs_compiler
def test_numbers_of_another_kind_are_refused_before_they_are_read():
    block, x = a_block(1, Architecture(20, 8, 2, 1, 2, 16)), random(1, 2, 9, 16)
    with pytest.raises(ValueError, match=r"in bf16 or fp32 on a CPU and weights in fp32, got torch\.float64, cpu, "):
        fused_block.through(x.double(), [block.parts()], 2)
    block.double()
    with pytest.raises(ValueError, match=r"got torch\.bfloat16, cpu, torch\.float64"):
        fused_block.through(x, [block.parts()], 2)
    with pytest.raises(ValueError, match=r"at most 80 positions, a d_head up to 128 \(even for bf16\) and a d_model"):
        fused_block.through(random(1, 2, 81, 16).float(), [a_block(1, Architecture(20, 8, 2, 1, 2, 16)).parts()], 2)


@in_all
@pytest.mark.parametrize(
    ("sizes", "whole_in"),
    [({}, {"fp32", "bf16"}), ({"steps": 10**9}, {"fp32", "bf16"}), ({"d_model": 24}, {}), ({"head_dim": 5}, {"fp32"})],
)
def test_which_runs_use_whole_blocks(precision, sizes, whole_in):
    recipe = Recipe(**{"layers": 2, "heads": 2, "d_model": 16, "steps": 10, "batch_size": 8} | sizes)
    setup = Setup("run", RetrievalProblem(hops=2), recipe)
    chosen = Execution(device="cpu", precision=precision).resolve(setup)
    assert kernels_used(setup.problem, recipe, chosen)[1] == (precision in whole_in)
    assert not chosen.compiled  # that is for GPUs
