"""Which precision a processor multiplies matrices in: asked of it, never timed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]

_CPUINFO = Path("/proc/cpuinfo")


def bf16_unit(device: str) -> str | None:
    """What computes bf16 products on a device; None where nothing does, and bf16 would be many times slower.

    Args:
        device: as torch names it.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        return "the GPU" if torch.cuda.is_bf16_supported(including_emulation=False) else None
    if kind != "cpu":
        return None
    return next((name for name in ("amx_bf16", "avx512_bf16") if name in _flags()), None)


def best_precision(device: str) -> Precision:
    """bf16 where a device has a unit for it, fp32 elsewhere."""
    return "bf16" if bf16_unit(device) else "fp32"


def _flags() -> set[str]:
    """What this processor says it can do: asked through torch, and of Linux where torch has no answer."""
    asked = {
        "avx512_bf16": getattr(torch.cpu, "_is_avx512_bf16_supported", None),
        "amx_bf16": getattr(torch.cpu, "_is_amx_tile_supported", None),
    }
    if all(asked.values()):
        return {name for name, supported in asked.items() if supported and supported()}
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return set(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
