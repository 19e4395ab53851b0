"""Something to do with a run once it is trained, importable by name in other processes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch

from hopscope.training.run import RunFolder


def note(path: Path, word: str) -> None:
    """What is done with a run: say on how many threads, and that it was finished."""
    (path / "note.json").write_text(json.dumps([word, torch.get_num_threads(), RunFolder(path).finished]))
    time.sleep(2)  # longer than a look takes
