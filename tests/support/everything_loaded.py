"""Load what commands load when they need it: each fork of this process would load it anew, in half a second or more."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

import hopscope

_LATE = (
    "filelock", "jinja2", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "matplotlib.pyplot",
    "pytest", "rich.progress", "safetensors.torch", "scipy.stats",
)  # fmt: skip
_OF_LANGUAGE_MODELS = ("inspect_ai", "transformers")
_THEIR_ROOMS = ("hopscope.benchmark.", "hopscope.language.")


def load(*, language: bool = False) -> None:
    """Load all that is installed, and give this process one thread: one that forks must not compute with several.

    Args:
        language: what language models need, too, which takes some ten seconds.
    """
    import torch

    ours = [found.name for found in pkgutil.walk_packages(hopscope.__path__, "hopscope.")]
    ours = [name for name in ours if not name.endswith("__main__")]
    for name in (*_LATE, *(_OF_LANGUAGE_MODELS if language else ()), *ours):
        if language or not name.startswith(_THEIR_ROOMS):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(name)
    torch.set_num_threads(1)
