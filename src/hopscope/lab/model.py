"""A model in which circuits are found: measure it, ablate its rows, search it, check a circuit of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.checks import check_seed, check_type
from hopscope.circuits.checks.card import CertificateConfig
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.custom_circuit import CustomCircuit, Location, rows_at
from hopscope.circuits.evaluate.ablations import Ablation, AblationKind, knock_out, moved
from hopscope.circuits.evaluate.evaluator import Evaluator
from hopscope.circuits.evaluate.vector_evaluator import VectorEvaluator
from hopscope.circuits.find import Origin, check_custom_circuit, search_circuit
from hopscope.circuits.resume import Search, SearchProgress, run_search
from hopscope.circuits.search.config import Effort, SearchBudget, SearchConfig
from hopscope.errors import InputError
from hopscope.model.architecture import AS_TORCH, Architecture, InitialWeights
from hopscope.model.torch_module import Parts, TorchModule, weights_hash
from hopscope.model.transformer import Transformer
from hopscope.problem.paths import HeadRow
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.training.data import held_out

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
            seed: the seed of the sequences and random draws; a found circuit gets its own card with its search's seed.
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
