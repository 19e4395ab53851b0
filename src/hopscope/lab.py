"""The interface for notebooks: `train` makes a `Run` of models; a `Model` can be measured and searched for circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex, get_args, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.checks import check_choice, check_count, check_folder, check_path, check_seed, check_type, plain_value
from hopscope.circuits.checks import CertificateConfig
from hopscope.circuits.checks.card import Patterns
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.circuit_parts import SearchRecord
from hopscope.circuits.custom_circuit import CustomCircuit, Location, rows_at
from hopscope.circuits.evaluate.ablations import Ablation, AblationKind, knock_out, moved
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.find import Origin, check_custom_circuit, search_circuit
from hopscope.circuits.resume import Search, SearchProgress, run_search
from hopscope.circuits.search.config import Effort, SearchBudget, SearchConfig
from hopscope.circuits.store import CircuitStore, find_stored
from hopscope.display import reporting
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import Emergence
from hopscope.emergence.track import emergence_of_run
from hopscope.errors import InputError
from hopscope.model.architecture import AS_TORCH, Architecture, InitialWeights
from hopscope.model.fast import single
from hopscope.model.torch_module import Parts, TorchModule, weights_hash
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training import trainer
from hopscope.training.data import held_out
from hopscope.training.execution import FASTEST, Execution
from hopscope.training.recipe import Recipe, Setup
from hopscope.training.run import RunFolder
from hopscope.training.side_by_side import run_display
from hopscope.training.trainer import Progress
from hopscope.words import counted

_WHOLE_ROWS = ("uniform", "identity", "zero", "positional", "resample", "alike", "keep")
ABLATIONS: Mapping[str, Ablation] = {name: Ablation(AblationKind(name)) for name in _WHOLE_ROWS}
"""The ablations of a row of attention for `Model.ablate`, by name."""

OF_A_PATH: Mapping[str, Callable[[int], Ablation]] = {"knock_out": knock_out, "moved": moved}
"""The ablations of one key of a row, by name: mask the key, or attend to it in other chains instead."""


@dataclass(frozen=True)
class Ablated:
    """The loss of a model under an ablation.

    Attributes:
        loss: mean squared error (1 for an answer of zero, 1 - 1/N for the average of the N candidates).
        partial_losses: mean squared error at each hop.
        change: `loss` minus the loss of the model without the ablation.
    """

    loss: float
    partial_losses: tuple[float, ...]
    change: float


class Model:
    """A model of the retrieval problem that can be measured, ablated and searched for its circuit.

        >>> from hopscope.theory.witness import build_witness
        >>> witness = build_witness(hops=1)
        >>> circuit = hs.Model(witness.transformer, witness.problem).find_circuit(effort="quick")
        >>> [found.path.describe(circuit.roles) for found in circuit.paths]
        ['layer 1 head 1: >x1 -> x0>', 'layer 2 head 1: x0? -> >x1']

    Args:
        transformer: a single transformer; use `from_torch` for your own torch module, and `hs.Run` for a trained run.
        problem: the problem that the transformer was trained on.
        initial: the distribution of the weights before training.

    Raises:
        InputError: the transformer does not fit the problem.
    """

    def __init__(
        self, transformer: Transformer | TorchModule, problem: RetrievalProblem, initial: InitialWeights = AS_TORCH
    ) -> None:
        check_type("problem", problem, RetrievalProblem, "an hs.RetrievalProblem")
        if not isinstance(transformer, Transformer | TorchModule):
            raise InputError(f"a model needs an hs.Transformer, or use Model.from_torch; got {transformer!r}")
        _check_problem(transformer.shape, problem)
        self._transformer, self.problem, self.initial = transformer, problem, initial

    @staticmethod
    def from_torch(
        module: nn.Module,
        problem: RetrievalProblem,
        parts: Callable[[Any], Parts],
        untrain: Callable[[Any, int, int], None] | None = None,
    ) -> Model:
        """Make a model of your own torch module, to see and ablate its attention and to find and check its circuit::

            model = hs.Model.from_torch(
                gpt,
                hs.RetrievalProblem(hops=3),
                parts=lambda gpt: hs.Parts(gpt.embed, gpt.blocks, gpt.read, [b.attention.pattern for b in gpt.blocks]),
                untrain=lambda gpt, layer, head: gpt.blocks[layer].attention.reset(head),
            )
            model.find_circuit().certified

        Args:
            module: the module. It takes inputs as `hs.sample` makes them, [sequence, position, d_input], and answers at
                all positions or at the last ones. You can go on training the module: every measurement uses its current
                weights, in evaluation mode.
            problem: the problem that the module solves.
            parts: a function that returns the parts of a module; see `hs.Parts`.
            untrain: a function `untrain(module, layer, head)` that resets a head of a copy of the module to initial
                weights, in place; layer and head count from 0. Without this function, cards lack the baseline in which
                the heads of the circuit are untrained.

        Raises:
            InputError: `module` is not a torch module or does not take such inputs; the parts, run one by one, do not
                give the module's answers; or the pattern modules do not see one attention pattern per block.
        """
        check_type("problem", problem, RetrievalProblem, "an hs.RetrievalProblem")
        inputs = held_out(problem, 2, purpose="notebook").inputs
        made = TorchModule.of(module, parts, untrain, inputs, problem.target_dim, problem.chains, problem.causal)
        return Model(made, problem)

    @property
    def transformer(self) -> Transformer | TorchModule:
        """The transformer, with a model axis of size 1, or the `TorchModule` of a model made by `from_torch`."""
        return self._transformer

    @property
    def origin(self) -> Origin:
        """The identity of the model in records of its circuits: a hash of its weights."""
        module = self.transformer.module if isinstance(self.transformer, TorchModule) else self.transformer
        return Origin(weights_hash(module))

    @property
    def evaluator(self) -> Evaluator:
        """An evaluator of the model, with its current weights, on 256 sequences that no training or search uses."""
        return VectorEvaluator.of(self.transformer, self.problem, self.initial)

    def find_circuit(
        self,
        *,
        effort: Effort | SearchBudget | SearchConfig | None = None,
        max_loss: float | None = None,
        seed: int | None = None,
        proof: CertificateConfig | None = None,
        progress: SearchProgress | bool = True,
    ) -> Circuit:
        """Find and check the circuit of the model; store the result with `circuit.save(path)`.

        If the loss of the model is not below the threshold, the model has no circuit, and the record says so.

        Args:
            effort: effort of the search: `quick`, `thorough` (the default), or an `hs.SearchConfig`.
            max_loss: the largest loss that a circuit may have; the paper's 0.05 by default.
            seed: seed of the search, which decides its sequences and random orders; 0 by default.
            proof: the numbers of sequences and random draws for the checks and the card.
            progress: whether to show progress, or a function of the stage, the stages done and the number of stages.

        Raises:
            InputError: a value is out of range, or the model's answers are not finite.
        """
        config, proof = SearchConfig.of(effort, max_loss, seed), CertificateConfig.of(proof)
        return run_search(self._search(config, proof), progress)

    def _search(self, config: SearchConfig, proof: CertificateConfig) -> Search[Circuit]:
        """A generator that searches for the circuit; nothing is read or computed before the first stage."""
        evaluator = self.evaluator.fresh(config.budget.confirming, config.seed, "circuit search")
        return (yield from search_circuit(evaluator, config, self.origin, proof))

    @property
    def loss(self) -> float:
        """Mean squared error on the sequences of `evaluator`."""
        return self.evaluator.mse([{}])[0]

    def ablate(self, ablations: Mapping[Location, str | Ablation]) -> Ablated:
        """Return the loss of the model with parts of its attention ablated.

            >>> run[0].ablate({"L1.H1 x0? -> >x1": "uniform"}).change > -0.5
            True

        Args:
            ablations: the ablation of each location. A location is `L3.H1` (a head), `L3.H1 x0?` (the row of a query
                role), `L3.H1 x0? -> >x2` or `layer 3 head 1: x0? -> >x2` (a path), or the typed value. Layers and heads
                in text count from 1. An ablation is an `Ablation` or a name: a name in `ABLATIONS` replaces the row, or
                all rows of a head, or the row of a path. For a path, `knock_out` masks only its key, and `moved`
                attends to its key in other chains. If a row gets several ablations, the last one applies, but
                knocked-out keys accumulate, and so do moved keys.

        Raises:
            InputError: the model has no such location, or the ablation is unknown.
        """
        if not isinstance(ablations, Mapping):
            raise InputError(f"ablations must map locations to names, as in {{'L3.H1': 'uniform'}}, got {ablations!r}")
        evaluator, interventions = self.evaluator, dict[HeadRow, Ablation]()
        for location, name in ablations.items():
            for row, ablation in _ablations(location, name, self.problem, evaluator.shape).items():
                before = interventions.get(row, ablation)
                if before.kind is ablation.kind and ablation.kind in (AblationKind.KNOCK_OUT, AblationKind.MOVED):
                    ablation = Ablation(ablation.kind, tuple(dict.fromkeys((*before.keys, *ablation.keys))))
                interventions[row] = ablation
        whole, left = evaluator.errors([{}, interventions]).double().mean(dim=1)
        return Ablated(float(left.mean()), tuple(left.tolist()), float(left.mean() - whole.mean()))

    def attention(self, *, roles: bool = True) -> Float[Tensor, "layer head query key"]:
        """Return the mean attention of every head, including the heads that training pruned, which write nothing.

        Args:
            roles: if True, attention is between the 2D + 1 roles of the same chain, wherever the shuffle puts them; if
                False, it is between the positions of the sequence.
        """
        if roles:
            return self.evaluator.role_maps().same[0]
        with torch.no_grad():
            patterns = self.evaluator.transformer.patterns(self.evaluator.batch.inputs[None])
        return torch.stack([pattern[0].mean(dim=0) for pattern in patterns])

    def check(
        self,
        circuit: CustomCircuit,
        *,
        max_loss: float | None = None,
        seed: int = 0,
        proof: CertificateConfig | None = None,
        progress: SearchProgress | bool = True,
    ) -> Circuit:
        """Check a circuit of your own, or a stored circuit, in this model; returns it with its checks and its card.

        Nothing is searched for or stored; call `save` on the result.

            >>> few = hs.CertificateConfig(sequences=64, few=64)
            >>> run[0].check(["L1.H1 >x1 -> x0>", "L2.H1 x0? -> >x1"], proof=few).certified  # hardly trained
            False

        Args:
            circuit: a circuit, or a list of its parts, like `circuit.parts`. A part is a path, written as in `ablate`;
                a group of redundant paths, joined by ` or `; or a row or a head, which is active with all that it
                attends to, or replaced as stated, as in `L1.H1 x0?=mean`. Every other row of the model is uniform.
            max_loss: the largest mean squared error that the circuit may have; by default that of its record, or the
                paper's 0.05.
            seed: the seed of the sequences and random draws; with the seed of its search, a circuit that was found gets
                the same card.
            proof: the numbers of sequences and random draws for the checks and the card.
            progress: whether to show progress, or a function of the stage, the stages done and the number of stages.

        Raises:
            InputError: the model lacks a path, a path cannot reach an answer, or a value is out of range.
        """
        proof = CertificateConfig.of(proof)
        check_seed(seed)
        evaluator = self.evaluator.fresh(SearchBudget().confirming, seed, "circuit search")
        check = check_custom_circuit(evaluator, circuit, max_loss, seed, self.origin, proof)
        return run_search(check, progress)


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

        if model is not None:
            check_count("model", model, least=0)
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


def _ablations(
    location: Location, ablation: str | Ablation, problem: RetrievalProblem, shape: Architecture
) -> dict[HeadRow, Ablation]:
    """Return the ablation of every row that an ablation at a location changes."""
    rows, path = rows_at(location, problem.roles, shape)
    if isinstance(ablation, str):
        of_key = OF_A_PATH.get(ablation)
        known = of_key(path.key) if of_key and path else ABLATIONS.get(ablation)
    else:
        known = ablation
    if not isinstance(known, Ablation):
        names, of_a_path = ", ".join(ABLATIONS), " or ".join(OF_A_PATH)
        raise InputError(f"an ablation is one of {names}, or for a path {of_a_path}, got {ablation!r} for {location}")
    return dict.fromkeys(rows, known)


def _check_problem(shape: Architecture, problem: RetrievalProblem) -> None:
    """Check that a transformer can have been trained on a problem: both have the same sizes and the same mask."""
    has = {"inputs": shape.d_input, "outputs": shape.d_output, "answers": shape.reads, "causal": shape.causal}
    needs = (problem.input_dim, problem.target_dim, problem.chains, problem.causal)
    for (name, value), needed in zip(has.items(), needs, strict=True):
        if value != needed:
            what = f"the transformer has {name}={value}, and {problem.named} {name}={needed}"
            raise InputError(f"{what}; pass the problem that it was trained on")
