"""An unfinished training of a text model: its state when it was last saved.

FOLDER/training/recipe.json             the recipe, written first
FOLDER/training/unfinished.safetensors  weights and AdamW's moments; deleted when the model is written
FOLDER/training/unfinished.json         the history so far; deleted when the model is written
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

import hopscope as hs
from examples.text_model.recipe import TextModelRecipe

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Unfinished:
    """The stored state of an unfinished training.

    Attributes:
        folder: the folder of the training.
        recipe: the hash of its recipe.
    """

    folder: Path
    recipe: str

    @classmethod
    def within(cls, folder: Path, recipe: TextModelRecipe) -> Unfinished:
        """Return the training in a model folder, and write its recipe to the folder.

        Raises:
            InputError: the folder holds something else, a finished model, or a training by another recipe.
        """
        training = folder / "training"
        stored_recipe = training / "recipe.json"
        if stored_recipe.is_file():
            _check_same_recipe(recipe, stored_recipe, finished=(folder / "config.json").exists())
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise hs.InputError(f"{folder} is in use; choose a new or empty folder")
        training.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(recipe), indent=2)
        write_whole(stored_recipe, text + "\n")
        return cls(training, hashlib.sha256(text.encode()).hexdigest())

    @property
    def _tensors(self) -> Path:
        return self.folder / "unfinished.safetensors"

    @property
    def _history(self) -> Path:
        return self.folder / "unfinished.json"

    def save(self, model: Any, optimizer: torch.optim.Optimizer, history: list[dict[str, Any]]) -> None:
        """Save the state of the training. The tensors are written last, because they name the step of the state."""
        state = {f"weights {name}": weight for name, weight in model.named_parameters()}
        for name, weight in model.named_parameters():
            state |= {f"{moment} {name}": optimizer.state[weight][moment] for moment in _MOMENTS}
        write_whole(self._history, json.dumps(history))
        draft = self._tensors.with_suffix(f".draft-{os.getpid()}")
        tensors = {name: one.detach().contiguous() for name, one in state.items()}
        save_file(tensors, draft, {"step": str(history[-1]["step"]), "recipe": self.recipe})
        draft.replace(self._tensors)

    def resume(self, model: Any, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
        """Restore the state of the model and the optimizer, and return the history so far (empty for a new training).

        Raises:
            InputError: the saved state is damaged, or belongs to another recipe.
        """
        if not self._tensors.exists():
            return []
        try:
            with safe_open(self._tensors, "pt") as file:
                metadata, state = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise hs.InputError(f"{self._tensors} is damaged ({error}); remove it to begin again") from None
        if metadata.get("recipe") != self.recipe:
            raise hs.InputError(f"{self._tensors} belongs to another recipe; choose another folder")
        step = int(metadata["step"])
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(state[f"weights {name}"])
                optimizer.state[weight] = {moment: state[f"{moment} {name}"].clone() for moment in _MOMENTS}
                optimizer.state[weight]["step"] = torch.tensor(float(step))
        history: list[dict[str, Any]] = _read(self._history)
        return [row for row in history if row["step"] <= step]

    def forget(self) -> None:
        """Remove the saved state, once the model is written."""
        self._tensors.unlink(missing_ok=True)
        self._history.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file atomically."""
    draft = path.with_suffix(f".draft-{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def _read(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise hs.InputError(f"{path} cannot be read ({error})") from None


def _check_same_recipe(recipe: TextModelRecipe, path: Path, *, finished: bool) -> None:
    """Check that the training in a folder has this recipe and is not finished.

    Raises:
        InputError: the training has another recipe (the message says what differs), or is finished.
    """
    wanted = asdict(recipe)
    stored = _read(path)
    names = [name for name in wanted | stored if stored.get(name) != wanted.get(name)]
    differs = ", ".join(f"{name} is {stored.get(name)} in it and {wanted.get(name)} now" for name in names)
    if finished:
        why = f"its model is of another recipe ({differs})" if differs else "its model is finished"
        raise hs.InputError(f"{path.parents[1]} is in use: {why}; choose a new or empty folder")
    if differs:
        raise hs.InputError(
            f"{path} holds another recipe, of an interrupted training ({differs}); choose another folder"
        )
