"""The interface for notebooks: `train` makes a `Run`, a sequence of models that can be measured and ablated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, get_args, overload

from hopscope.checks import check_choice, check_count, check_folder, check_path, check_type, plain_value
from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.find import Origin
from hopscope.circuits.interface import Model
from hopscope.circuits.resume import SILENT, SearchProgress
from hopscope.circuits.search.config import Effort, SearchBudget, SearchConfig
from hopscope.circuits.store import CircuitStore
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import Emergence
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.model.fast import single
from hopscope.model.transformer import Transformer
from hopscope.model.transformer_lens import to_transformer_lens
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import trainer
from hopscope.training.execution import FASTEST, Execution
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.trainer import Progress
from hopscope.words import counted

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


class RunModel(Model):
    """One model of a run.

        >>> run[0].seed, run[0].loss > 0
        (3, True)

    Attributes:
        run: the run it belongs to.
        number: its number within the run, from 0.
        seed: the seed it was trained from, by which people refer to it.
    """

    def __init__(self, run: RunFolder, number: int, step: int | None = None) -> None:
        self.run, self.number, self.step = run, number, step
        self.seed, self.problem, self.initial = run.seeds[number], run.problem, run.recipe.initial

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        return f"<model of seed {self.seed}{at} in {self.run.path}>"

    @cached_property
    def transformer(self) -> Transformer:
        """The model by itself, with a model axis of size 1."""
        return single(self.run.transformer(self.step), self.number)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The model on 256 sequences that no training and no search has seen."""
        return super().evaluator

    @property
    def origin(self) -> Origin:
        """The model as records of its circuits name it: by its run, and its number there."""
        return CircuitStore(self.run).origin(self.number, self.step)

    def at(self, step: SupportsIndex) -> RunModel:
        """The model as it was after `step` updates; an `InputError` on use if there is no such checkpoint."""
        return RunModel(self.run, self.number, plain_value(step))

    def find_circuit(
        self,
        *,
        effort: Effort | SearchBudget | SearchConfig | None = None,
        max_loss: float | None = None,
        seed: int | None = None,
        proof: CertificateConfig | None = None,
        overwrite: bool = False,
        progress: SearchProgress = SILENT,
    ) -> Circuit:
        """The model's circuit, found and checked; stored beside the run, from where a second call reads it.

        A stored circuit of another search is replaced; a certified one by `overwrite` alone.

            >>> run[0].find_circuit(effort="quick").found  # it was trained for a moment
            False

        Args:
            effort: effort of the search: `quick`, `thorough` (the default), or an `hs.SearchConfig`.
            max_loss: the largest mean squared error that a circuit may have; the paper's 0.05 by default.
            seed: seed of the search, which decides its sequences and random orders; 0 by default.
            proof: how many sequences and random draws checks and card are measured on.
            overwrite: search even if a stored circuit exists.
            progress: called with what is being done, stages finished, stages in all.

        Raises:
            InputError: there is no checkpoint, a value is out of range, or another search found the stored circuit.
        """
        return CircuitStore(self.run).find(
            self.number,
            self.step,
            effort=effort,
            max_loss=max_loss,
            seed=seed,
            proof=proof,
            progress=progress,
            overwrite=overwrite,
        )

    def to_transformer_lens(self) -> TransformerBridge:
        """The model in TransformerLens, for its caches, hooks and patches.

        It takes the stream that `model.transformer.embed` makes of inputs, [sequence, position, d_model], with
        `start_at_layer=0`; its logits are the answers, at all positions::

            stream = model.transformer.embed(batch.inputs[None])[0]
            answers, cache = model.to_transformer_lens().run_with_cache(stream, start_at_layer=0)
            cache["blocks.0.attn.hook_pattern"]  # [sequence, head, query, key]

        Raises:
            InputError: TransformerLens is not installed (`pip install ".[transformer-lens]"`), or the model has heads
                with a fixed pattern.
        """
        return to_transformer_lens(self.transformer, self.problem.sequence_length)


class Run(RunFolder, Sequence[RunModel]):
    """A run on disk, and a sequence of its models.

        >>> len(run), run[0].seed
        (2, 3)

    Args:
        path: a run folder, as `train` makes it.

    Raises:
        InputError: the folder holds no run, or one that cannot be read.
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
        progress: Callable[[int, int], None] | None = None,
    ) -> Emergence:
        """How the circuit of a model emerged, over the checkpoints of the run; it is stored in the run folder.

        Args:
            model: number of the model, from 0.
            config: how emergence is measured.
            step: the checkpoint whose circuit is followed; None for the last.
            patterns: which circuit is followed: that with `own` patterns, or the `imposed` one of Appendix E.
            overwrite: measure even if a stored result exists.
            progress: called with the step of each finished checkpoint and the last step.

        Raises:
            InputError: no circuit is stored, the run has too few checkpoints, or an argument is of another type.
        """
        check_type("config", config, EmergenceConfig | None, "an hs.EmergenceConfig, as hs.EmergenceConfig(seed=1)")
        check_type("progress", progress, Callable | None, "a function")
        check_choice("patterns", patterns, get_args(Patterns))
        return emergence_of_run(
            self, model, config, step=step, patterns=patterns, overwrite=overwrite, progress=progress
        )

    def explore(self, out: Path | str | None = None, *, model: int | None = None, large: bool = False) -> Path:
        """Write the explorer, one HTML file to inspect the run's models and ablate their paths; returns its path.

            >>> run.explore(folder / "run.html").stat().st_size < 1_000_000
            True

        Args:
            out: path of the file, which ends in .html; `explorer.html` in the run folder by default.
            model: number of the only model to show; None for all with a record of a circuit.
            large: write the page even if it is larger than 25 MB.

        Raises:
            InputError: there is no such model or nothing to show, the page is too large, or `out` cannot be a page.
        """
        from hopscope.explorer.page import explore

        if model is not None:
            check_count("model", model, least=0)
        return explore([self], None if out is None else check_path("a page", out), model=model, large=large)[0]

    def _repr_html_(self) -> str:
        """The explorer in a frame, for notebooks; a line of text if there is nothing to show or too much."""
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
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Train a recipe on a problem into a folder, `train(recipe, problem, folder)`, or a setup, `train(setup, folder)`.

    If the folder holds part of the run, that continues.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> hs.train(few, hs.RetrievalProblem(hops=1), folder / "few", seeds=[0, 1])[1].seed
        1
        >>> hs.train(replace(hs.recipes.A, recipe=few), folder / "setup")[0].problem.hops
        3

    Args:
        recipe: how to train; or a `Setup`, which also has the problem and the seeds.
        problem: the problem to train on; after a `Setup`, the folder instead.
        folder: path of the run folder; new, empty, or holding this same run.
        seeds: one per model; `[0]` by default.
        execution: how steps are computed, such as `hs.Execution(threads=1)`; the fastest on this machine by default.
        progress: called with the run's `Progress` after every row of metrics.

    Raises:
        InputError: an argument is of another type, there are no seeds or they repeat, a guess comes to `learned_below`,
            or the folder lies in a run, holds something else or cannot be made.
    """
    check_type("execution", execution, Execution, "an hs.Execution, as hs.Execution(threads=1)")
    check_type("progress", progress, Callable | None, "a function")
    if isinstance(recipe, Setup):
        if folder is not None or seeds is not None:
            raise InputError("a setup has its problem and seeds: train(setup, folder); replace() varies it")
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
    return Run(trainer.train(setup, path, execution=execution, progress=progress).path)
