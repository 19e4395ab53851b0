"""The bench of a researcher in a notebook: a run's models, one by one, and what one asks of a model.

run = hs.train(hs.recipes.A, "runs/a")
model = run[0]
circuit = model.circuit()
model.ablate({"L3.H1 x0? -> >x2": "uniform"}).loss
model.attention()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from torch import nn

from hopscope.checks import check_count, check_path
from hopscope.circuits.certificate import Proof
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.find import circuit_of_run
from hopscope.circuits.on_vectors import VectorEvaluator, single
from hopscope.circuits.record import Circuit
from hopscope.circuits.search.budget import Budget, Effort
from hopscope.circuits.search.journal import SILENT, Watch
from hopscope.circuits.subject import SEQUENCES, ForeignModel, Subject
from hopscope.emergence.history import Emergence
from hopscope.emergence.of_run import emergence_of_run
from hopscope.emergence.settings import Following
from hopscope.errors import InputError
from hopscope.model.foreign import Parts
from hopscope.model.lens import to_transformer_lens
from hopscope.model.transformer import Transformer
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import trainer
from hopscope.training.data import held_out
from hopscope.training.engine import FASTEST, Engine, EngineChoice
from hopscope.training.progress import Progress
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder
from hopscope.training.setup import Setup

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


class Model(Subject):
    """One trained model.

        >>> run[0].seed, run[0].loss > 0
        (3, True)

    Attributes:
        run: it belongs to.
        number: in the run, from 0.
        seed: it was trained from; people name it by that.
    """

    def __init__(self, run: RunFolder, number: int, step: int | None = None) -> None:
        self.run, self.number, self.step = run, number, step
        self.seed, self.problem = run.seeds[number], run.problem

    def __repr__(self) -> str:
        at = "" if self.step is None else f" at step {self.step}"
        return f"<model of seed {self.seed}{at} in {self.run.path}>"

    @cached_property
    def transformer(self) -> Transformer:
        """The model alone, with a model axis of 1."""
        return single(self.run.transformer(self.step), self.number)

    @cached_property
    def evaluator(self) -> Evaluator:
        """The model on 256 sequences that no training and no search sees."""
        batch = held_out(self.problem, SEQUENCES, purpose="notebook")
        return VectorEvaluator(self.transformer, self.problem, batch, self.run.recipe.initial)

    @staticmethod
    def from_torch(
        module: nn.Module,
        problem: RetrievalProblem,
        parts: Callable[[Any], Parts],
        untrain: Callable[[Any, int, int], None] | None = None,
    ) -> ForeignModel:
        """A module of your own, whoever trained it: look at it, cut it, and find its circuit with a certificate::

            model = hs.Model.from_torch(
                gpt,
                hs.RetrievalProblem(hops=3),
                parts=lambda gpt: hs.Parts(gpt.embed, gpt.blocks, gpt.read, [b.attention.pattern for b in gpt.blocks]),
                untrain=lambda gpt, layer, head: gpt.blocks[layer].attention.reset(head),
            )
            model.circuit().certified

        Args:
            module: given inputs as `hs.sample` makes them, [sequence, position, d_input], it answers at the last
                positions or at all.
            problem: that it answers.
            parts: finds the parts of such a module; see `hs.Parts`.
            untrain: gives head (layer, head), from 0, of a copy of the module initial weights, in place. Without it no
                circuit can be certified, since one part of the certificate asks for it.

        Raises:
            InputError: a module that does not take such inputs, or none, parts that do not make the module, or patterns
                that do not pass where they are said to.
        """
        return ForeignModel.of(module, problem, parts, untrain)

    def at(self, step: int) -> Model:
        """The model as it was after `step` updates.

        Raises:
            InputError: no whole number from 0; and when it is used, if the run has no such checkpoint.
        """
        check_count("the step of a checkpoint", step, least=0)
        return Model(self.run, self.number, step)

    def circuit(
        self,
        *,
        effort: Effort | Budget = "thorough",
        bar: float | tuple[float, ...] | None = None,
        seed: int = 0,
        proof: Proof | None = None,
        anew: bool = False,
        watch: Watch = SILENT,
    ) -> Circuit:
        """Its circuit, found and certified; kept beside the run, so that the second call reads it.

            >>> run[0].circuit(effort="quick").found  # it was trained for a moment
            False

        Args:
            effort: `quick`, `thorough`, or a budget of your own.
            bar: the mean squared error that a circuit may have at most; the paper's 0.05 by default. Of several the one
                at which the circuit stands clearest is chosen.
            seed: of the search; its sequences and random orders follow from it.
            proof: how much stands behind the certificate.
            anew: search even if it is there.
            watch: told where things stand: what is being done, stages finished, stages in all.

        Raises:
            InputError: no checkpoint to look at, a value out of range, or a circuit that is certified at another bar.
        """
        return circuit_of_run(
            self.run, self.number, self.step, effort=effort, bar=bar, seed=seed, proof=proof, anew=anew, watch=watch
        )

    def emergence(
        self,
        settings: Following | None = None,
        *,
        anew: bool = False,
        watch: Callable[[int, int], None] | None = None,
    ) -> Emergence:
        """How its circuit came to be, over the checkpoints of the run; kept beside it.

        Args:
            settings: how it is measured.
            anew: measure even if it is there.
            watch: told the step of each checkpoint done, and the last step.

        Raises:
            InputError: no circuit was found yet, or the run kept too few checkpoints.
        """
        return emergence_of_run(self.run, self.number, settings, step=self.step, anew=anew, watch=watch)

    def to_transformer_lens(self) -> TransformerBridge:
        """The model in TransformerLens, whose caches, hooks and patches then serve.

        What it takes is the stream that `model.transformer.embed` makes of inputs, [sequence, position, d_model], with
        `start_at_layer=0`; its logits are the answers, at all positions::

            bridge = model.to_transformer_lens()
            stream = model.transformer.embed(batch.inputs[None])[0]
            answers, cache = bridge.run_with_cache(stream, start_at_layer=0)
            cache["blocks.0.attn.hook_pattern"]  # [sequence, head, query, key]

        Raises:
            InputError: TransformerLens is not installed (`pip install ".[transformer-lens]"`), or heads are held
                to a pattern.
        """
        return to_transformer_lens(self.transformer, self.problem.sequence_length)


class Run(RunFolder, Sequence[Model]):
    """A run on disk, and a sequence of its models.

        >>> len(run), run[0].seed
        (2, 3)

    Args:
        path: a folder that `train` made.

    Raises:
        InputError: the folder holds no run, or one that cannot be read.
    """

    def __len__(self) -> int:
        return len(self.seeds)

    @overload
    def __getitem__(self, number: int) -> Model: ...

    @overload
    def __getitem__(self, number: slice) -> list[Model]: ...

    def __getitem__(self, number: int | slice) -> Model | list[Model]:
        """Model `number` of the run; negative numbers and slices as in a list."""
        if isinstance(number, slice):
            return [Model(self, one) for one in range(len(self))[number]]
        try:
            return Model(self, range(len(self))[number])
        except IndexError:
            raise IndexError(f"the run has {len(self)} models, numbered from 0; got {number}") from None

    def __iter__(self) -> Iterator[Model]:
        return (Model(self, number) for number in range(len(self)))

    def explore(self, out: Path | str | None = None, *, model: int | None = None, large: bool = False) -> Path:
        """Write the explorer: one HTML file to look at the run's models in, and to cut them; gives its path.

            >>> run.explore(folder / "run.html").stat().st_size < 1_000_000
            True

        Args:
            out: the file, whose name ends in .html; `explorer.html` beside the run by default.
            model: number of the one model to show; None for all with a record of a circuit.
            large: write it even beyond 25 MB.

        Raises:
            InputError: no such model, nothing to show, a page too large, or a file that is none for a page.
        """
        from hopscope.explorer.page import explore

        if model is not None:
            check_count("model", model, least=0)
        page = None if out is None else check_path("a page", out)
        return explore([self], page, model=model, large=large)[0]

    def _repr_html_(self) -> str:
        """The explorer in a frame, for notebooks; a line of text where there is nothing to show or too much."""
        from hopscope.explorer.page import in_notebook

        return in_notebook(self)

    def __repr__(self) -> str:
        return f"<run {self.path}: {len(self)} x {self.recipe.layers} layers, {self.problem.named}>"


@overload
def train(
    setup: Setup,
    folder: Path | str,
    /,
    *,
    engine: Engine | EngineChoice = FASTEST,
    watch: Callable[[Progress], None] | None = None,
) -> Run: ...


@overload
def train(
    recipe: Recipe,
    problem: RetrievalProblem,
    folder: Path | str,
    *,
    seeds: Sequence[int] | None = None,
    engine: Engine | EngineChoice = FASTEST,
    watch: Callable[[Progress], None] | None = None,
) -> Run: ...


def train(
    recipe: Setup | Recipe,
    problem: RetrievalProblem | Path | str,
    folder: Path | str | None = None,
    *,
    seeds: Sequence[int] | None = None,
    engine: Engine | EngineChoice = FASTEST,
    watch: Callable[[Progress], None] | None = None,
) -> Run:
    """Train a setup into a folder, or a recipe on a problem; a folder that holds part of the run continues.

        >>> from dataclasses import replace
        >>> few = replace(hs.recipes.LAPTOP, steps=2)
        >>> hs.train(few, hs.RetrievalProblem(hops=1), folder / "few", seeds=[0, 1])[1].seed
        1
        >>> hs.train(replace(hs.recipes.A, recipe=few), folder / "setup")[0].problem.hops
        3

    Args:
        recipe: how; or a `Setup`, which says on what and from which seeds too.
        problem: what on; after a `Setup` the folder.
        folder: where the run is kept; new, empty, or holding this same run.
        seeds: one a model; `[0]` unless told otherwise.
        engine: how steps are computed: `hs.EngineChoice(threads=1)`; the fastest here unless told otherwise.
        watch: told where the run stands after every row of metrics.

    Raises:
        InputError: no recipe or setup, no seeds, repeated seeds, a `learned_below` that a guess comes to, or a folder
            that holds something else or cannot be.
    """
    if isinstance(recipe, Setup):
        if isinstance(problem, RetrievalProblem) or folder is not None or seeds is not None:
            raise InputError("a setup brings its problem and seeds: train(setup, folder); replace() varies it")
        setup, path = recipe, _folder(problem)
    else:
        if not isinstance(recipe, Recipe):
            raise InputError(f"a Recipe or a Setup is trained, as those of hs.recipes, got {recipe!r}")
        if not isinstance(problem, RetrievalProblem) or folder is None:
            raise InputError("a recipe is trained on a problem: train(recipe, problem, folder, seeds=[0])")
        if seeds is not None and not isinstance(seeds, Iterable):
            raise InputError(f"seeds are a list, one a model, as in seeds=[{seeds!r}], got {seeds!r}")
        path = _folder(folder)
        setup = Setup(path.name, problem, recipe, (0,) if seeds is None else tuple(seeds))
    if not isinstance(engine, Engine | EngineChoice):
        raise InputError(f"engine must be an hs.EngineChoice, as hs.EngineChoice(threads=1), got {engine!r}")
    if watch is not None and not callable(watch):
        raise InputError(f"watch must be a function of a Progress, got {watch!r}")
    if not (path / "run.json").exists():
        setup.check_waiting()
    return Run(trainer.train(setup, path, engine=engine, watch=watch).path)


def _folder(path: Path | str) -> Path:
    """Where a run is to be kept, if folders can be made there."""
    path = check_path("a run", path)
    file = next((parent for parent in path.parents if parent.is_file()), None)
    if file is not None:
        raise InputError(f"{path} cannot be a folder, since {file} is a file; choose another")
    return path
