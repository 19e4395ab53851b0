"""Models of an ensemble that are computed together: their weights, their optimiser, and one update of them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.fast import FastTransformer, those_that_write
from hopscope.model.initial_weights import initialise
from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training import adamw
from hopscope.training.adamw import MOMENTS
from hopscope.training.execution import Execution, kernels_used
from hopscope.training.graphed import CudaGraph, can_record
from hopscope.training.head_dropout import HeadScales
from hopscope.training.losses import partial_losses
from hopscope.training.muon import Muon
from hopscope.training.pruning import Left
from hopscope.training.recipe import Recipe


class EnsemblePart:
    """Models of one recipe, updated by the same batched operations, which on a GPU can be one CUDA graph.

    Args:
        problem: the problem that is learned.
        recipe: how the models are trained.
        seeds: one per model.
        execution: how steps are computed.
    """

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int], execution: Execution) -> None:
        self.transformer = FastTransformer(recipe.architecture(problem), len(seeds))
        initialise(self.transformer, [derive_seed(seed, "weights") for seed in seeds], recipe.initial)
        device = str(execution.device)
        self.transformer.to(device)
        attention, blocks = kernels_used(problem, recipe, execution)
        if attention:
            self.transformer.fuse()
        if blocks and execution.precision != "auto":
            self.transformer.fuse_blocks(execution.precision)
        self._recipe, self._device = recipe, torch.device(device)
        self._autocast = execution.precision == "bf16"
        self._symbol_dim = problem.symbol_dim
        weights = recipe.hop_weights
        self._weights = None if weights is None else torch.tensor(weights, device=device)
        self._parameters = [*self.transformer.parameters()]  # collected once: at every step it takes a while
        # Attention's output weights, by layer: `d_head` rows per head.
        named = self.transformer.named_parameters()
        self._outs = [weight for name, weight in named if name.endswith("attention.out.weight")]
        self._compiled = bool(execution.compiled)
        self.left = torch.ones(len(seeds), recipe.layers, recipe.heads, dtype=torch.bool)
        self._muon = Muon(self.transformer, recipe.weight_decay) if recipe.optimiser == "muon" else None
        others = {*self._muon.parameters} if self._muon else set()
        # A graph reads the rate, each model's share of it and the batch from fixed tensors. Muon takes its rate as a
        # number, so it is not graphed.
        graphed = bool(execution.kernels) and can_record(self._device) and self._muon is None
        self._rate = torch.tensor(recipe.learning_rate, device=device) if graphed else None
        self._shares = torch.ones(len(seeds), device=device)
        self._batch: Batch | None = None
        self._graphs: dict[bool, CudaGraph] = {}
        self._adamws = [parameter for parameter in self._parameters if parameter not in others]
        # A weight without gradients belongs to heads that are gone for good, so one number of updates serves all.
        self._updates = torch.zeros((), dtype=torch.float32, device=device)
        self._state: dict[Tensor, dict[str, Tensor]] = {one: self._fresh(one) for one in self._parameters}
        if bool(execution.compiled):
            # Block by block: blocks at all depths share one compiled function, so that it is compiled once.
            torch.compiler.reset()
            for block in self.transformer.blocks:
                block.compile(dynamic=False)

    def losses(self, batch: Batch) -> Float[Tensor, "model hop"]:
        """Losses by hop."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            answers = self.transformer(batch.inputs)
        return partial_losses(answers, batch.targets, self._symbol_dim)

    def update(self, batch: Batch, rates: Sequence[float], scales: HeadScales | None) -> Float[Tensor, "model hop"]:
        """One update; only the losses where no model learns any more. Returns the losses by hop before it."""
        with nullcontext() if scales is None else self._scaled(scales):
            if not any(rates):
                with torch.no_grad():
                    return self.losses(batch)
            if self._rate is not None and scales is None and self.left.all():
                return self._replayed(batch, rates)
            losses = self._take_gradients(batch)
        gradients = [out.grad for out in self._outs]  # None in a layer without a head
        if scales is not None:  # the forward pass used the weights times the scales
            _scale(scales, gradients)
        if not self.left.all():
            _scale(self.left, gradients)
        self._step(max(rates), self._set_rates(rates))
        return losses.detach()

    def _replayed(self, batch: Batch, rates: Sequence[float]) -> Float[Tensor, "model hop"]:
        """The same update as a CUDA graph: one graph for models that share one rate, another for differing rates."""
        if self._batch is None:
            self._batch = Batch(batch.inputs.clone(), batch.targets.clone(), batch.place)
        held = self._batch
        held.inputs.copy_(batch.inputs)
        held.targets.copy_(batch.targets)
        highest, alike = max(rates), self._set_rates(rates)

        def work() -> Tensor:
            losses = self._take_gradients(held)
            self._step(highest, alike)
            return losses.detach()

        if alike not in self._graphs:
            kept = [number for one in self._state.values() for number in one.values()]
            self._graphs[alike] = CudaGraph(work, [*self._parameters, *kept], self._device)
        return self._graphs[alike]().clone()

    def _take_gradients(self, batch: Batch) -> Float[Tensor, "model hop"]:
        """Compute the gradient of every weight. Returns the losses by hop."""
        losses = self.losses(batch)
        weighted = losses if self._weights is None else losses * self._weights
        torch.autograd.backward(weighted.mean(dim=1).sum())
        return losses

    def _set_rates(self, rates: Sequence[float]) -> bool:
        """Set the highest rate and each model's share of it. Returns whether all models have the same rate."""
        highest, alike = max(rates), min(rates) == max(rates)
        if self._rate is not None:
            self._rate.fill_(highest)
        if not alike:
            self._shares.copy_(torch.tensor([rate / highest for rate in rates]))
        return alike

    @torch.no_grad()
    def _step(self, rate: float, alike: bool) -> None:
        """Update the weights by their gradients, then drop these. An update is linear in the rate, decay included, so
        models with a lower rate go that share of the way."""
        if self._recipe.clip is not None:
            self._clip_gradients(self._recipe.clip)
        if not self.left.all():
            _clear(~self.left, [out.grad for out in self._outs])
        before = [] if alike else [parameter.clone() for parameter in self._parameters]
        adamw.step(self._adamws, self._state, rate if self._rate is None else self._rate, self._recipe)
        if self._muon is not None:
            self._muon.step(rate, self._state)
        for parameter, was in zip(self._parameters if before else (), before, strict=True):
            parameter.copy_(torch.lerp(was, parameter, self._shares.view(-1, *[1] * (was.dim() - 1))))
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def keep(self, left: Left) -> None:
        """Remove all other heads for good: where output weights, moments and gradients are zero, they stay zero."""
        self._leave(left)
        _scale(left, self._outs)
        for moment in MOMENTS:
            _scale(left, [self._state[out][moment] for out in self._outs])

    def _leave(self, left: Left) -> None:
        """Set which heads are left. Others are no longer computed, except in compiled blocks, where every such change
        would mean compiling again."""
        self.left = left
        if not self._compiled:
            self.transformer.compute_only(left)

    def losses_with(self, left: Left, batch: Batch) -> Float[Tensor, "model hop"]:
        """Losses by hop with these heads alone."""
        with self._scaled(left):
            return self.losses(batch)

    @contextmanager
    def _scaled(self, scales: HeadScales | Left) -> Iterator[None]:
        """A context in which the heads' outputs are multiplied by `scales`."""
        whole = [out.detach().clone() for out in self._outs]
        with torch.no_grad():
            _scale(scales, self._outs)
        yield
        with torch.no_grad():
            for out, weight in zip(self._outs, whole, strict=True):
                out.copy_(weight)

    def moments(self, name: str) -> dict[str, Tensor]:
        """One of the optimiser's moments, for every weight by name."""
        return {weight: self._state[parameter][name] for weight, parameter in self.transformer.named_parameters()}

    def _fresh(self, parameter: Tensor) -> dict[str, Tensor]:
        """A weight's optimiser state before the first step; it is made at once so that saving needs no special case."""
        return {"step": self._updates, **{moment: torch.zeros_like(parameter) for moment in MOMENTS}}

    @torch.no_grad()
    def load(self, state: dict[str, Tensor], step: int, left: Left | None) -> None:
        """Load weights, moments and which heads are left; None to see from the weights which heads are left."""
        self._updates.fill_(step)
        for name, parameter in self.transformer.named_parameters():
            parameter.copy_(state[name])
            for moment in MOMENTS:
                self._state[parameter][moment].copy_(state[f"{moment}.{name}"])
        if self._recipe.prune_every is not None and left is None:  # a pruned head writes nothing
            left = those_that_write(self.transformer)
        if left is not None:
            self._leave(left.cpu())

    def _clip_gradients(self, largest: float) -> None:
        """Scale each model's gradient to a norm of at most `largest`, so that models do not affect one another."""
        if self.transformer.models == 1:
            torch.nn.utils.clip_grad_norm_(self._parameters, largest)
            return
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        squares = torch.stack([gradient.square().flatten(1).sum(1) for gradient in gradients])
        scale = (largest / (squares.sum(0).sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def _scale(scales: HeadScales | Left, by_layer: Sequence[Float[Tensor, "model inner d_model"] | None]) -> None:
    """Multiply each head's rows by its scale, or by 0 where it is not left, in place; skip layers without rows."""
    for layer, rows in enumerate(by_layer):
        if rows is None:
            continue
        _by_head(rows, scales.shape[2]).mul_(scales[:, layer, :, None].to(rows.device))


def _clear(gone: Left, by_layer: Sequence[Float[Tensor, "model inner d_model"] | None]) -> None:
    """Zero the NaNs in the rows of pruned heads. Everything else there is zero, but zero times NaN is NaN."""
    for layer, rows in enumerate(by_layer):
        if rows is not None:
            numbers = _by_head(rows, gone.shape[2])
            numbers.masked_fill_(gone[:, layer, :, None].to(rows.device) & numbers.isnan(), 0.0)


def _by_head(rows: Float[Tensor, "model inner d_model"], heads: int) -> Float[Tensor, "model head numbers"]:
    """A view of the rows, head by head."""
    return rows.view(rows.shape[0], heads, -1)
