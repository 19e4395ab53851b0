"""The C is compiled once for a machine, or all goes the plain way; precision follows from the processor."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_runs import PROBLEM, TINY, flushes

import hopscope as hs
from hopscope.kernels import compiled, fused_attention, fused_block, precision
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.processes import in_processes
from hopscope.training.ensemble import Ensemble
from hopscope.training.execution import Execution, kernels_used
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.trainer import train

SETUP = Setup("run", PROBLEM, TINY)
CACHES = compiled.kernels, fused_block.available, fused_block._functions, fused_block._kind
needs_compiler = pytest.mark.skipif(not fused_attention.available(), reason="no C compiler")


def forget() -> None:
    for function in CACHES:
        function.cache_clear()


@pytest.fixture(autouse=True)
def forgotten():
    """Afterwards what was compiled before is found again."""
    forget()
    yield
    forget()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder for what is compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def soon(monkeypatch):
    """Compile in a second; what is made is slow."""
    monkeypatch.setattr(compiled, "FLAGS", (*compiled.FLAGS, "-O0"))


def test_without_a_compiler_everything_works(monkeypatch, cache, caplog):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not fused_attention.available()
    assert not fused_block.available("fp32")
    assert kernels_used(PROBLEM, TINY, Execution(device="cpu").resolve(SETUP)) == (False, False)
    run = hs.train(hs.Recipe(2, 1, 8, 2, 2, validation_size=2), PROBLEM, cache / "run", seeds=[0])
    assert run[0].loss > 0
    assert not list(cache.rglob("*.so"))
    (message,) = caplog.messages
    assert "(CC is 'no-such-compiler', and there is no no-such-compiler), so torch computes everything" in message
    monkeypatch.delenv("CC")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    forget()
    assert not fused_attention.available()
    assert "(there is no C compiler, cc)" in caplog.messages[1]


@needs_compiler
@pytest.mark.slow
def test_a_compiled_library_needs_no_compiler(monkeypatch, cache, soon):
    for compiler in ("cc", "no-such-compiler"):
        monkeypatch.setenv("CC", compiler)
        forget()
        assert fused_attention.available()
    assert len(list(cache.rglob("*.so"))) == 1


@needs_compiler
@pytest.mark.slow
def test_a_library_that_cannot_be_loaded_is_compiled_in_another_way(monkeypatch, cache, soon):
    """As by a compiler that knows OpenMP, where its library is not."""
    monkeypatch.setattr(compiled, "_ATTEMPTS", (("-Dsqrtf=there_is_no_such_function",), ("-U__AVX512BF16__",)))
    assert fused_attention.available()
    monkeypatch.setattr(compiled, "_ATTEMPTS", compiled._ATTEMPTS[:1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "other"))
    forget()
    assert not fused_attention.available()


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("what", ["nothing", "something else"])
def test_a_wrong_file_in_the_cache_is_compiled_again(monkeypatch, cache, soon, what):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "good"))
    assert fused_attention.available()
    (good,) = cache.rglob("*.so")
    made = cache / "bad" / good.relative_to(cache / "good")  # a library stays loaded under its path
    made.parent.mkdir(parents=True)
    made.write_bytes(b"")
    if what == "something else":
        (cache / "other.c").write_text("int x;")
        subprocess.run(["cc", "-shared", "-o", str(made), str(cache / "other.c")], check=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "bad"))
    forget()
    assert fused_attention.available()
    assert made.stat().st_size == good.stat().st_size


@needs_compiler
@pytest.mark.slow
def test_whatever_the_width_of_the_machines_vectors(monkeypatch, cache):
    """The code for vectors of another width than this machine's, on this machine: values and gradients."""
    made = torch.randn(2, 37, 3 * 2 * 8, generator=torch.Generator().manual_seed(0))
    found = []
    for flags in ((), (f"-DLANES={8 if 'avx512f' in compiled.processor() else 16}",)):
        monkeypatch.setattr(compiled, "FLAGS", (*compiled.FLAGS, "-O1", *flags))
        forget()
        mine = made.clone().requires_grad_()
        weighted = fused_attention.attend(mine, 2, causal=True)
        weighted.square().sum().backward()
        found.append((weighted.detach(), mine.grad))
    assert len(list((cache / "hopscope").iterdir())) == 2
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("unit", "kind"), [("amx_bf16", "tiles"), ("avx512_bf16", "bf16"), (None, None)])
def test_the_processor_says_how_products_are_computed(monkeypatch, unit, kind):
    """Without a unit, or where Linux or the compiler does not give what it takes, blocks in bf16 go by torch."""
    functions = {f"block_{name}_{kind}": SimpleNamespace() for name in fused_block._Functions._fields}
    monkeypatch.setattr(fused_block, "bf16_unit", lambda _: unit)
    for may, has in ((1, functions), (0, functions), (1, {})):
        forget()
        library = SimpleNamespace(**has, may_use_tiles=lambda may=may: may)
        monkeypatch.setattr(fused_block, "kernels", lambda library=library: library)
        expected = kind is not None and bool(has) and (may or kind == "bf16")
        assert fused_block.available("bf16") == expected
        execution = Execution(device="cpu", precision="bf16").resolve(SETUP)
        assert kernels_used(PROBLEM, TINY, execution)[1] == expected


TWO_STEPS = Setup("tiny", RetrievalProblem(hops=1), Recipe(layers=1, heads=1, d_model=8, steps=2, batch_size=2))


def of_processor(monkeypatch: pytest.MonkeyPatch, *flags: str, intel: bool = False) -> None:
    monkeypatch.setattr(precision, "is_intel", lambda: intel)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: "avx512_bf16" in flags, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: "amx_bf16" in flags, raising=False)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [((), "fp32"), (("avx2",), "fp32"), (("avx512_bf16",), "bf16"), (("amx_bf16", "avx512_bf16"), "bf16")],
)
def test_precision_follows_from_the_processor(monkeypatch, flags, expected):
    of_processor(monkeypatch, *flags)
    assert Execution(device="cpu").resolve(TWO_STEPS).precision == expected
    assert Execution(device="cpu", precision="fp32").resolve(TWO_STEPS).precision == "fp32"
    assert Execution(device="cpu", precision="bf16").resolve(TWO_STEPS).precision == "bf16"


def test_intels_avx512_does_not_count_as_bf16_hardware(monkeypatch):
    """It multiplies bf16 at half the rate of fp32: a processor that hides its AMX is quicker in fp32."""
    of_processor(monkeypatch, "avx512_bf16", intel=True)
    assert precision.bf16_unit("cpu") is None
    of_processor(monkeypatch, "amx_bf16", "avx512_bf16", intel=True)
    assert precision.bf16_unit("cpu") == "amx_bf16"


def test_bf16_of_a_gpu_is_not_emulated(monkeypatch):
    asked = []
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: asked.append(including_emulation)
    )
    assert precision.best_precision("cuda:0") == "fp32"
    assert asked == [False]
    assert precision.best_precision("mps") == "fp32"


def all_flush(small: torch.Tensor) -> list[bool]:
    """Whether every thread of torch's that has a part in it rounds the smallest numbers to zero."""
    return (small * 1 == 0).unique().tolist()


@pytest.mark.parametrize("threads", sorted({1, min(2, os.cpu_count() or 1)}))
def test_a_run_rounds_denormals_to_zero_wherever_it_is_trained(monkeypatch, tmp_path, threads):
    """As on the command line, or it would not end in the same bits; what is computed before and after does not."""
    small, seen, plain = torch.full((2**18,), 1e-40), [], Ensemble.update

    def update(*given: object) -> object:
        seen.append((all_flush(small), torch.get_num_threads()))
        return plain(*given)

    monkeypatch.setattr(Ensemble, "update", update)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert all_flush(small) == [False]  # and torch's threads are there
        train(TWO_STEPS, tmp_path, execution=Execution(device="cpu", threads=threads, precision="fp32"))
        assert seen == [([True], threads)] * 2
        assert (all_flush(small), torch.get_num_threads()) == ([False], threads)
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_workers_round_denormals_to_zero():
    before = flushes()
    assert in_processes(flushes, [()], 1) == [True]
    assert flushes() == before
