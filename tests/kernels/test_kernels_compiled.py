"""The C is compiled once for a machine; without a compiler, or with one that fails, everything works the plain way."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_runs import PROBLEM, TINY

import hopscope as hs
from hopscope.kernels import compiled, fused_attention, fused_block
from hopscope.training.execution import Execution, kernels_used
from hopscope.training.recipe import Setup

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
    assert "(CC is 'no-such-compiler', and there is no no-such-compiler): torch computes everything, slower" in message
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
