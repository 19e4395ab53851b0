"""The losses that a search in a pretrained model has measured, in a file, so that an interruption costs few prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.evaluate.ablations import Interventions
from hopscope.language.text_batch import TextBatch
from hopscope.records import checksum, mend_rows, read_rows, row_lines

_AT_ONCE = 8
"""The number of candidates whose losses are written together."""


@dataclass(frozen=True)
class _Losses:
    """The losses of one candidate on some prompts; `of` is a hash of the interventions, the prompts and the roles."""

    of: str
    losses: list[float]


class Journal:
    """The measured losses of one model, which `model` identifies; they are kept in the file `path`.

    Raises:
        InputError: the file is damaged or of another model; it is left untouched.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.path, self._model = path, model
        rows = read_rows(path, _Losses, "losses of a search", model) if path.exists() else ()
        self._known = {row.of: row.losses for row in rows}
        mend_rows(path)

    def errors(
        self,
        batch: TextBatch,
        candidates: Sequence[Interventions],
        measure: Callable[[Sequence[Interventions]], Float[Tensor, "candidate sequence 1"]],
    ) -> Float[Tensor, "candidate sequence 1"]:
        """Return the errors under each candidate; `measure` is called only for candidates that are not in the file."""
        asked = checksum("", *(getattr(batch, field.name).cpu().numpy().tobytes() for field in fields(batch)))
        names = [_name(asked, candidate) for candidate in candidates]
        new = [(name, c) for name, c in dict(zip(names, candidates, strict=True)).items() if name not in self._known]
        for first in range(0, len(new), _AT_ONCE):
            some, these = zip(*new[first : first + _AT_ONCE], strict=True)
            rows = [*map(_Losses, some, measure(these)[..., 0].tolist())]
            with self.path.open("ab", buffering=0) as file:
                file.write(row_lines(rows, self._model).encode())
            self._known |= {row.of: row.losses for row in rows}
        return torch.tensor([self._known[name] for name in names])[..., None]


def _name(asked: str, interventions: Interventions) -> str:
    rows = [(*row, ablation.kind.value, ablation.keys, ablation.weights) for row, ablation in interventions.items()]
    return checksum(asked, repr(sorted(rows)).encode())
