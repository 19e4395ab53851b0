"""A run of models and its results: `train` makes a `Run`, whose items are its models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex, get_args, overload

from hopscope.checks import check_choice, check_folder, check_path, check_type, plain_value
from hopscope.circuits.checks.card import CertificateConfig, Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.find import Origin
from hopscope.circuits.resume import SearchProgress
from hopscope.circuits.search.config import Effort, SearchBudget, SearchConfig
from hopscope.circuits.store import CircuitStore, find_stored
from hopscope.display import reporting
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import Emergence
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.lab.model import Model
from hopscope.model.fast import single
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import trainer
from hopscope.training.execution import FASTEST, Execution
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import run_display
from hopscope.training.trainer import Progress
from hopscope.words import counted


class RunModel(Model):
    """One model of a run.

        >>> run[0].seed, run[0].loss > 0
        (3, True)

    Attributes:
        run: the run that the model belongs to.
        number: the number of the model within the run, from 0.
        seed: the seed that the model was trained from.
    """

    def __init__(self, run: RunFolder, number: int, step: int | None = None) -> None:
        self.run, self.number, self.step = run, number, step
        self.seed, self.problem, self.initial = run.seeds[number], run.problem, run.recipe.initial

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        return f"<model of seed {self.seed}{at} in {self.run.path}>"

    @cached_property
    def transformer(self) -> Transformer:
        """The transformer of this model alone, with a model axis of size 1."""
        return single(self.run.transformer(self.step), self.number)

    @cached_property
    def evaluator(self) -> Evaluator:
        """An evaluator of the model on 256 sequences that no training or search uses."""
        return super().evaluator

    @property
    def origin(self) -> Origin:
        """The identity of the model in records of its circuits: its run and its number in the run."""
        return CircuitStore(self.run).origin(self.number, self.step)

    def at(self, step: SupportsIndex) -> RunModel:
        """Return the model after `step` updates; using it raises an `InputError` if there is no such checkpoint."""
        return RunModel(self.run, self.number, plain_value(step))

    def find_circuit(
        self,
        *,
        effort: Effort | SearchBudget | SearchConfig | None = None,
        max_loss: float | None = None,
        seed: int | None = None,
        proof: CertificateConfig | None = None,
        overwrite: bool = False,
        progress: SearchProgress | bool = True,
    ) -> Circuit:
        """Find, check and store the circuit of the model; a second call reads the stored circuit.

        A circuit stored by a search with other settings is replaced, but a certified circuit only with `overwrite`.

            >>> run[0].find_circuit(effort="quick").found  # it was trained for a moment
            False

        Args:
            overwrite: search even if a stored circuit exists. For the other arguments see `Model.find_circuit`.

        Raises:
            InputError: the model has diverged, there is no checkpoint, a value is out of range, or the stored circuit
                is certified and comes from a search with other settings.
        """
        config, proof, run = SearchConfig.of(effort, max_loss, seed), CertificateConfig.of(proof), self.run
        path = CircuitStore(run).path(self.number, self.step)
        if self.step is None and run.finished and run.result.models[self.number].diverged:
            raise InputError(f"model {self.number} of {run.path} has diverged, so there is no circuit to find")
        search, wanted = self._search(config, proof), SearchRecord(config.effort, config.seed, proof=proof)
        model, max_loss = self.origin.model, config.max_loss
        return find_stored(path, search, model, wanted, max_loss, run=run.hash, progress=progress, overwrite=overwrite)


class Run(RunFolder, Sequence[RunModel]):
    """A run on disk, and a sequence of its models.

        >>> len(run), run[0].seed
        (2, 3)

    Args:
        path: a run folder, as `train` makes it.

    Raises:
        InputError: the folder holds no run, or its run cannot be read.
    """

    def __len__(self) -> int:
        return len(self.seeds)

    @overload
    def __getitem__(self, number: int) -> RunModel: ...

    @overload
    def __getitem__(self, number: slice) -> list[RunModel]: ...

    def __getitem__(self, number: Any) -> RunModel | list[RunModel]:
        """Model `number` of the run; negative numbers and slices as in a list."""
        if isinstance(number, slice):
            return [RunModel(self, index) for index in range(len(self))[number]]
        try:
            return RunModel(self, range(len(self))[number])
        except (IndexError, TypeError) as error:
            rule = f"the run has {counted(len(self), 'model')}, numbered from 0, got {number!r}"
            raise (IndexError(rule) if isinstance(error, IndexError) else InputError(rule)) from None

    def emergence(
        self,
        model: int = 0,
        config: EmergenceConfig | None = None,
        *,
        step: int | None = None,
        patterns: Patterns = "own",
        overwrite: bool = False,
        progress: Callable[[int, int], None] | bool = True,
    ) -> Emergence:
        """Measure how a circuit emerged over the checkpoints of the run; the result is stored in the run folder.

        Args:
            model: number of the model, from 0.
            config: settings of the measurement.
            step: the checkpoint whose circuit is followed; None for the last checkpoint.
            patterns: `own` to follow the circuit with its own patterns, `imposed` for the circuit of Appendix E.
            overwrite: measure even if a stored result exists.
            progress: whether to show progress, or a function of the step of a finished checkpoint and the last step.

        Raises:
            InputError: no circuit is stored, the run has too few checkpoints, or an argument has the wrong type.
        """
        check_type("config", config, EmergenceConfig | None, "an hs.EmergenceConfig, as hs.EmergenceConfig(seed=1)")
        check_choice("patterns", patterns, get_args(Patterns))
        return emergence_of_run(
            self, model, config, step=step, patterns=patterns, overwrite=overwrite, progress=progress
        )

    def explore(self, out: Path | str | None = None, *, model: int | None = None, large: bool = False) -> Path:
        """Write the explorer, an HTML file to inspect the run's models and ablate their paths; returns its path.

            >>> run.explore(folder / "run.html").stat().st_size < 1_000_000
            True

        Args:
            out: path of the file, which must end in .html; `explorer.html` in the run folder by default.
            model: number of the only model to show; None for all models with a record of a circuit.
            large: write the page even if it is larger than 25 MB.

        Raises:
            InputError: the model does not exist, there is nothing to show, the page is too large, or `out` is not the
                path of a page.
        """
        from hopscope.explorer.page import explore

        return explore([self], None if out is None else check_path("a page", out), model=model, large=large)[0]

    def _repr_html_(self) -> str:
        """The explorer in a frame, for notebooks; a line of text if the page would be empty or too large."""
        from hopscope.explorer.page import in_notebook

        return in_notebook(self)

    def __repr__(self) -> str:
        return f"<run {self.path}: {len(self)} x {self.recipe.layers} layers, {self.problem.named}>"


def train(
    recipe: Setup | Recipe,
    problem: RetrievalProblem | Path | str,
    folder: Path | str | None = None,
    *,
    seeds: Sequence[int] | None = None,
    execution: Execution = FASTEST,
    progress: Callable[[Progress], None] | bool = True,
) -> Run:
    """Train models and return their run: `train(recipe, problem, folder)`, or with a setup `train(setup, folder)`.

    If the folder holds part of the run, training continues from there.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> hs.train(few, hs.RetrievalProblem(hops=1), folder / "few", seeds=[0, 1])[1].seed
        1
        >>> hs.train(replace(hs.recipes.A, recipe=few), folder / "setup")[0].problem.hops
        3

    Args:
        recipe: how to train; or a `Setup`, which includes the problem and the seeds.
        problem: the problem to train on; or the folder, if the first argument is a `Setup`.
        folder: path of the run folder, which is new, is empty, or holds this same run.
        seeds: one seed per model; `[0]` by default.
        execution: how steps are computed, such as `hs.Execution(threads=1)`; the fastest on this machine by default.
        progress: whether to show progress, or a function that gets a `Progress` after every row of metrics.

    Raises:
        InputError: an argument has the wrong type, seeds are missing or repeated, `learned_below` is not below the
            loss of a guess, or the folder is inside a run, holds something else or cannot be made.
    """
    check_type("execution", execution, Execution, "an hs.Execution, as hs.Execution(threads=1)")
    if isinstance(recipe, Setup):
        if folder is not None or seeds is not None:
            raise InputError("a setup has its problem and seeds, so call train(setup, folder); replace() can vary them")
        setup, path = recipe, check_folder(problem, "a run")
    else:
        if not isinstance(recipe, Recipe):
            raise InputError(f"train() expects a Recipe or a Setup, e.g. hs.recipes.LAPTOP; got {recipe!r}")
        if not isinstance(problem, RetrievalProblem) or folder is None:
            raise InputError("a recipe is trained on a problem: train(recipe, problem, folder, seeds=[0])")
        path = check_folder(folder, "a run")
        if not isinstance(seeds, Iterable | None) or isinstance(seeds, Set | Mapping):
            raise InputError(f"seeds must be a list with one integer per model, e.g. seeds=[0, 1]; got {seeds!r}")
        setup = Setup(path.name, problem, recipe, (0,) if seeds is None else tuple(seeds))
    with reporting(progress, run_display(setup)) as show:
        return Run(trainer.train(setup, path, execution=execution, progress=show).path)
