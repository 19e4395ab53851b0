"""Tensors on disk: safetensors files that state the step and the run of what they hold, with a checksum."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hopscope.errors import UNTOUCHED, InputError, MachineError, lacking
from hopscope.files import read_bytes, write_bytes
from hopscope.seals import check_run, checksum, say_unsealed

_MARK = re.compile(r"(\d{1,18})(?: of run (\w+))?(?: with checksum (\w+))?", re.ASCII)
"""The single metadata entry of a file, with step, run and checksum: the order of several entries would differ from file
to file. Files of the first version state only the step, later ones the run too."""


def save_tensors(path: Path, tensors: dict[str, Tensor], step: int, run: str) -> None:
    """Write tensors, their step and the content hash of their run atomically, as safetensors."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    mark = f"{step} of run {run} with checksum {_checksum(plain, step, run)}"
    write_bytes(path, save(plain, metadata={"step": mark}))


class Tensors(NamedTuple):
    """The content of a file of tensors: its step, the tensors, and whether a checksum vouched for them."""

    step: int
    tensors: dict[str, Tensor]
    sealed: bool


def load_tensors(path: Path, run: str) -> tuple[int, dict[str, Tensor]]:
    """The step and tensors of a file that `save_tensors` wrote.

    Raises:
        InputError: the file is damaged, not of this kind, or of another run.
        OSError: there are no file handles or no memory left.
    """
    read = read_tensors(path, run)
    if not read.sealed:
        say_unsealed(path)
    return read.step, read.tensors


def read_tensors(path: Path, run: str) -> Tensors:
    """The step and tensors of a file, and whether it had a checksum.

    Raises:
        InputError: see `load_tensors`.
        OSError: see `load_tensors`.
    """
    data = read_bytes(path, "tensors of a run")  # read once: a run that is training may replace its state at any moment
    try:
        tensors = load(data)
        mark = _MARK.fullmatch(_metadata(data)["step"])
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        if trouble := lacking(str(error)):
            raise MachineError(f"{path}: {trouble}") from None
        raise InputError(f"{path} is damaged or not a checkpoint ({error}); {UNTOUCHED}") from None
    if mark is None:
        raise InputError(f"{path} is damaged: it does not say its step and run; {UNTOUCHED}")
    step, of, told = int(mark[1]), mark[2], mark[3]
    if told is not None and told != _checksum(tensors, step, of):
        raise InputError(f"{path} is damaged: its content does not fit its checksum; {UNTOUCHED}")
    check_run(path, of or run, run)
    return Tensors(step, tensors, told is not None)


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata in a safetensors file's header, whose length is in the file's first eight bytes."""
    end = 8 + int.from_bytes(data[:8], "little")
    told: dict[str, str] = json.loads(data[8:end]).get("__metadata__") or {}
    return told


def _checksum(tensors: dict[str, Tensor], step: int, run: str) -> str:
    parts: list[bytes | memoryview] = [f"{step} {run}".encode()]
    for name in sorted(tensors):
        tensor = tensors[name]
        parts.append(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        parts.append(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return checksum(*parts)
