"""An unfinished training of a model of our own: its state when it was last saved.

FOLDER/training/recipe.json             the recipe, written first and kept
FOLDER/training/unfinished.safetensors  weights and AdamW's moments; goes when the model is written
FOLDER/training/unfinished.json         the history up to there; likewise
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from examples.text_model.recipe import TextModelRecipe
from hopscope.errors import InputError
from hopscope.files import read_json, write_json
from hopscope.records import content_hash, convert
from hopscope.tensor_files import load_tensors, save_tensors

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Unfinished:
    """What is kept of an unfinished training.

    Attributes:
        folder: the folder of the training.
        recipe: the hash of its recipe.
    """

    folder: Path
    recipe: str

    @classmethod
    def within(cls, folder: Path, recipe: TextModelRecipe) -> Unfinished:
        """The training in a model folder; its recipe is written down there.

        Raises:
            InputError: the folder holds something else, a finished model, or a training by another recipe.
        """
        training = folder / "training"
        mine = training / "recipe.json"
        if mine.is_file():
            _see_the_same(recipe, mine, finished=(folder / "config.json").exists())
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{folder} is in use; choose a new or empty folder")
        training.mkdir(parents=True, exist_ok=True)
        write_json(mine, asdict(recipe))
        return cls(training, content_hash(asdict(recipe)))

    @property
    def _tensors(self) -> Path:
        return self.folder / "unfinished.safetensors"

    @property
    def _history(self) -> Path:
        return self.folder / "unfinished.json"

    def save(self, model: Any, optimizer: torch.optim.Optimizer, history: list[dict[str, Any]]) -> None:
        """Save the state of the training; the tensors come last, since they say which step they are of."""
        state = {f"weights {name}": weight for name, weight in model.named_parameters()}
        for name, weight in model.named_parameters():
            state |= {f"{moment} {name}": optimizer.state[weight][moment] for moment in _MOMENTS}
        write_json(self._history, history)
        save_tensors(self._tensors, state, history[-1]["step"], self.recipe)

    def resume(self, model: Any, optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
        """Restore the saved state of model and optimizer, and give the history up to there; empty for a new training.

        Raises:
            InputError: what was saved is damaged, or of another recipe.
        """
        if not self._tensors.exists():
            return []
        step, state = load_tensors(self._tensors, self.recipe)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(state[f"weights {name}"])
                optimizer.state[weight] = {moment: state[f"{moment} {name}"].clone() for moment in _MOMENTS}
                optimizer.state[weight]["step"] = torch.tensor(float(step))
        history: list[dict[str, Any]] = read_json(self._history, "the history of a training")
        return [row for row in history if row["step"] <= step]

    def forget(self) -> None:
        """Remove the saved state, once the model is written."""
        self._tensors.unlink(missing_ok=True)
        self._history.unlink(missing_ok=True)


def _see_the_same(recipe: TextModelRecipe, path: Path, *, finished: bool) -> None:
    """Check that a training that was begun is by this recipe, and is not finished.

    Raises:
        InputError: it is by another recipe (the message says what differs), or it is finished.
    """
    wanted = asdict(recipe)
    there = convert(read_json(path, "the recipe of a model of our own"), dict[str, Any], str(path))
    names = [name for name in wanted | there if there.get(name) != wanted.get(name)]
    differs = ", ".join(f"{name} is {there.get(name)} there and {wanted.get(name)} here" for name in names)
    if finished:
        why = f"its model is of another recipe ({differs})" if differs else "its model is finished"
        raise InputError(f"{path.parents[1]} is in use: {why}; choose a new or empty folder")
    if differs:
        raise InputError(
            f"{path} is another recipe, of a training that was interrupted ({differs}); choose another folder"
        )
