"""The precision in which a processor multiplies matrices fastest, by its features and without timing."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch

Precision = Literal["fp32", "bf16"]

DTYPES: Mapping[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16}

_CPUINFO = Path("/proc/cpuinfo")


def bf16_unit(device: str) -> str | None:
    """Return the hardware unit of a device that computes products faster in bf16 than in fp32; None without one.

    On Intel processors, only AMX is faster: AVX-512 multiplies bf16 at half the rate of fp32 (81 against 156 GFLOP/s on
    a core with AVX10.1 and hidden AMX). On AMD, its rate is twice that of fp32. Without these units, bf16 is slow.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        return "the GPU" if torch.cuda.is_bf16_supported(including_emulation=False) else None
    if kind != "cpu":
        return None
    quicker = ("amx_bf16",) if is_intel() else ("amx_bf16", "avx512_bf16")
    return next((name for name in quicker if name in _flags()), None)


def best_precision(device: str) -> Precision:
    """Return bf16 if the device has hardware that is faster in bf16, else fp32."""
    return "bf16" if bf16_unit(device) else "fp32"


def _flags() -> set[str]:
    """Return the features of this processor, from torch, or from Linux if torch does not know them."""
    asked = {
        "avx512_bf16": getattr(torch.cpu, "_is_avx512_bf16_supported", None),
        "amx_bf16": getattr(torch.cpu, "_is_amx_tile_supported", None),
    }
    if all(asked.values()):
        return {name for name, supported in asked.items() if supported and supported()}
    return set(told_by_linux("flags").split())


def is_intel() -> bool:
    """Return whether this is an Intel processor."""
    return "GenuineIntel" in (told_by_linux("vendor_id"), *platform.processor().split())


def has_avx512() -> bool:
    """Return whether this processor has AVX-512 and torch uses it."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def told_by_linux(name: str) -> str:
    """Return the first entry of /proc/cpuinfo with this name; empty if there is none."""
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
