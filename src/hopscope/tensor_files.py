"""Tensors on disk: safetensors files that say which step of which run they hold."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hopscope.errors import InputError
from hopscope.files import replacing

_OF_RUN = " of run "
"""Between step and run in a file's one mark: the order of several would differ from file to file."""


def save_tensors(path: Path, tensors: dict[str, Tensor], step: int, run: str | None = None) -> None:
    """Write tensors, their step and the content hash of their run atomically, as safetensors."""
    with replacing(path) as temporary:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            temporary,
            metadata={"step": f"{step}{_OF_RUN}{run}" if run else str(step)},
        )


def load_tensors(path: Path) -> tuple[int, dict[str, Tensor]]:
    """Step and tensors of a file of `save_tensors`.

    Raises:
        InputError: the file is damaged, or not of this kind.
    """
    try:
        with safe_open(path, framework="pt") as file:
            step = int((file.metadata() or {})["step"].partition(_OF_RUN)[0])
            return step, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged or not a checkpoint ({error}); it was left untouched") from None


def run_of(path: Path) -> str:
    """The content hash of the run that a file of `save_tensors` was written for; empty if it does not say."""
    with safe_open(path, framework="pt") as file:
        return str(file.metadata()["step"].partition(_OF_RUN)[2])
