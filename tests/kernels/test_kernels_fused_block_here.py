"""Which machines take whole blocks in one pass, and how they multiply there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from small_recipe import PROBLEM, TINY

from hopscope.kernels import compiled, fused_block
from hopscope.training.execution import Execution, kernels_used
from hopscope.training.setup import Setup

SETUP = Setup("run", PROBLEM, TINY)


def goes_whole(execution: Execution) -> bool:
    return kernels_used(SETUP.problem, SETUP.recipe, execution)[1]


@pytest.mark.parametrize(("unit", "kind"), [("amx_bf16", "tiles"), ("avx512_bf16", "bf16"), (None, None)])
def test_the_processor_says_how_products_are_computed(monkeypatch, unit, kind):
    """Without a unit, or where Linux or the compiler does not give what it takes, blocks in bf16 go by torch."""
    functions = {f"block_{name}_{kind}": SimpleNamespace() for name in fused_block._Functions._fields}
    caches = fused_block.available, fused_block._functions, fused_block._kind
    monkeypatch.setattr(fused_block, "bf16_unit", lambda _: unit)
    try:
        for may, has in ((1, functions), (0, functions), (1, {})):
            for one in caches:
                one.cache_clear()
            library = SimpleNamespace(**has, may_use_tiles=lambda may=may: may)
            monkeypatch.setattr(fused_block, "kernels", lambda library=library: library)
            expected = kind is not None and bool(has) and (may or kind == "bf16")
            assert fused_block.available("bf16") == expected
            assert goes_whole(Execution(device="cpu", precision="bf16").resolve(SETUP)) == expected
    finally:
        for one in caches:
            one.cache_clear()


@pytest.mark.skipif(not fused_block.available("fp32"), reason="no compiler here")
@pytest.mark.parametrize("what", ["no compiler", "a compiler that does not know a processor that multiplies pairs"])
def test_without_what_it_needs_blocks_go_the_other_way(monkeypatch, tmp_path, what):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if what == "no compiler":
        monkeypatch.setenv("CC", "no-such-compiler")
    else:
        monkeypatch.setattr(compiled, "FLAGS", (*compiled.FLAGS, "-O0", "-U__AVX512BF16__"))
    caches = fused_block.available, fused_block._functions, compiled.kernels
    for one in caches:
        one.cache_clear()
    try:
        for precision in ("bf16", "fp32"):
            expected = precision == "fp32" and what != "no compiler"
            assert fused_block.available(precision) == expected
            assert goes_whole(Execution(device="cpu", precision=precision).resolve(SETUP)) == expected
        made = list(tmp_path.rglob("*.so"))
        assert len(made) == (what != "no compiler")  # and it is not made again each time:
        before = [one.stat().st_mtime_ns for one in made]
        fused_block._functions.cache_clear()
        compiled.kernels.cache_clear()
        assert fused_block._functions("bf16") is None
        assert [one.stat().st_mtime_ns for one in made] == before
    finally:
        for one in caches:
            one.cache_clear()
