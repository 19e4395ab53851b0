"""Tensors on disk: safetensors files that state their step and their run, with a checksum.

The checksum covers the file's name too: weights of one step cannot pass for those of another, nor for a state.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hopscope.errors import UNTOUCHED, InputError, MachineError, lacking
from hopscope.files import read_bytes, write_bytes
from hopscope.records import checksum

_MARK = re.compile(r"(\d{1,18}) of run (\w+) with checksum (\w+)", re.ASCII)
"""A file's metadata is a single entry, since the order of several would differ from file to file."""


def save_tensors(path: Path, tensors: dict[str, Tensor], step: int, run: str) -> None:
    """Write tensors, their step and the content hash of their run atomically, as safetensors."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    mark = f"{step} of run {run} with checksum {_checksum(path, plain, step, run)}"
    write_bytes(path, save(plain, metadata={"step": mark}))


def load_tensors(path: Path, run: str) -> tuple[int, dict[str, Tensor]]:
    """The step and tensors of a file that `save_tensors` wrote; one that is damaged or of another run is refused."""
    data = read_bytes(path, "tensors of a run")  # read once: a run that is training may replace its state at any moment
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        mark = _MARK.fullmatch(header["__metadata__"]["step"])
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if trouble := lacking(str(error)):
            raise MachineError(f"{path}: {trouble}") from None
        raise InputError(f"{path} is damaged or not a file of tensors ({error}); {UNTOUCHED}") from None
    if mark is None or mark[3] != _checksum(path, tensors, int(mark[1]), mark[2]):
        raise InputError(f"{path} is damaged or renamed: its content does not fit its checksum; {UNTOUCHED}")
    if mark[2] != run:
        raise InputError(f"{path} belongs to another run; it was left untouched, move it away")
    return int(mark[1]), tensors


def _checksum(path: Path, tensors: dict[str, Tensor], step: int, run: str) -> str:
    parts: list[bytes | memoryview] = [f"{path.name} {step}".encode()]
    for name, tensor in sorted(tensors.items()):
        parts.append(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        parts.append(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return checksum(run, *parts)
