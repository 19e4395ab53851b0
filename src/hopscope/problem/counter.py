"""Random numbers by address: the n-th number of a seed's stream, without drawing the numbers before it.

A training set of 2^20 examples is thus a function of (seed, index), on any device, and a run killed at step t
continues at step t. The generator is SplitMix64 (Steele, Lea, Flood 2014): its state is a counter, so a number is a
hash of its address. Integer arithmetic wraps the same way everywhere, so the bits agree across devices. Floating-point
numbers computed from them agree up to rounding.
"""

from __future__ import annotations

import hashlib
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

# The constants of SplitMix64 as signed 64-bit integers, the integers that torch computes with.
_GOLDEN, _ODD = 0x9E3779B97F4A7C15 - (1 << 64), 0xD1B54A32D192ED03 - (1 << 64)
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64)


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed in [0, 2^63) for one purpose ("weights", "train", ...), independent of all other purposes."""
    text = ":".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _mix(bits: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Apply SplitMix64's finaliser. Signed integers shift arithmetically, so masks clear the bits shifted in."""
    bits = (bits ^ ((bits >> 30) & ((1 << 34) - 1))) * _MIX_1
    bits = (bits ^ ((bits >> 27) & ((1 << 37) - 1))) * _MIX_2
    return bits ^ ((bits >> 31) & ((1 << 33) - 1))


def random_bits(
    seeds: Int[Tensor, "*#stream"], indices: Int[Tensor, "*#stream"], count: int
) -> Int[Tensor, "*#stream n"]:
    """Return `count` random 64-bit integers for each pair of a 63-bit seed and an index of at least 0 (broadcast)."""
    origin = _mix(_mix(seeds * _GOLDEN) + indices * _ODD)
    steps = torch.arange(1, count + 1, device=origin.device, dtype=torch.int64) * _GOLDEN
    return _mix(origin[..., None] + steps)


def to_normal(bits: Int[Tensor, "*stream two_n"]) -> Float[Tensor, "*stream two_n"]:
    """Convert an even number of random integers to standard normals (Box-Muller on their top 24 bits)."""
    uniform = (((bits >> 40) & 0xFFFFFF) + 1).to(torch.float32) * 2.0**-24
    first, second = uniform.chunk(2, dim=-1)
    radius = torch.sqrt(-2.0 * torch.log(first))
    angle = (2.0 * math.pi) * second
    return torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
