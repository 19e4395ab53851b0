"""Ensembles: M models of one recipe that are updated together, with their weights and their optimiser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.model.fast import FastTransformer
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Linear
from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.data import squared_errors
from hopscope.training.execution import Execution, kernels_used, models_at_once
from hopscope.training.optimiser import MOMENTS, CudaGraph, adamw, can_record, clip_gradients, training_hooks
from hopscope.training.pruning import HeadScales, Left, prune
from hopscope.training.recipe import Recipe

HopLosses = Float[Tensor, "model hop"]


class Ensemble:
    """M models of one recipe, each with its own weights and data, updated together.

    On a CPU, the models are split into parts that are computed in turn, which affects only memory and speed.
    """

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int], execution: Execution) -> None:
        size = models_at_once(problem, recipe, len(seeds), execution)
        models = [slice(start, start + size) for start in range(0, len(seeds), size)]
        self._parts = [(these, EnsemblePart(problem, recipe, seeds[these], execution)) for these in models]

    def update(self, batch: Batch, rates: Sequence[float], scales: HeadScales | None = None) -> HopLosses:
        """Update every model at its own learning rate, with its heads' outputs multiplied by `scales`. A rate of 0
        leaves a model unchanged. Returns the losses by hop before the update, with the same scales."""
        losses = [
            part.update(batch[models], rates[models], None if scales is None else scales[models])
            for models, part in self._parts
        ]
        return torch.cat(losses)

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> HopLosses:
        """Compute the losses by hop, without an update."""
        return torch.cat([part.losses(batch[models]) for models, part in self._parts])

    @property
    def left(self) -> Left:
        """The heads that have not been pruned."""
        return torch.cat([part.left for _, part in self._parts])

    def prune(self, batch: Batch, models: Sequence[bool]) -> list[bool]:
        """Prune the heads that the models marked in `models` can do without. Returns whether each model lost a head."""
        before = self.left
        fewer = prune(before, partial(self.losses_with, batch=batch))
        left = torch.where(torch.tensor(models)[:, None, None], fewer, before)
        removed: list[bool] = (left != before).flatten(1).any(dim=1).tolist()
        for these, part in self._parts:
            part.remove_others(left[these])
        return removed

    @torch.no_grad()
    def losses_with(self, left: Left, batch: Batch) -> Float[Tensor, " model"]:
        """Compute the loss of each model, averaged over hops, with only the heads in `left`. No head is pruned."""
        losses = [part.losses_with(left[models], batch[models]) for models, part in self._parts]
        return torch.cat(losses).mean(dim=1).double().cpu()

    def weights(self) -> dict[str, Tensor]:
        """Return all weights by name, stacked over all models."""
        return _stacked([part.transformer.state_dict() for _, part in self._parts])

    def state(self) -> dict[str, Tensor]:
        """Return weights and moments by name: everything the next update depends on, except which heads are left."""
        return _stacked([part.state() for _, part in self._parts])

    def load_state(self, state: dict[str, Tensor], step: int, left: Left | None = None) -> None:
        """Load the state that was saved after `step` updates, and the heads that were left then (None for all)."""
        for models, part in self._parts:
            part.load({name: tensor[models] for name, tensor in state.items()}, step)
            if left is not None:
                part.compute_only(left[models].cpu())


def _stacked(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


class EnsemblePart:
    """Models that are updated by the same batched operations. On a GPU, an update can be one CUDA graph."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int], execution: Execution) -> None:
        self.transformer = FastTransformer(recipe.architecture(problem), len(seeds))
        initialise(self.transformer, [derive_seed(seed, "weights") for seed in seeds], recipe.initial)
        device = torch.device(str(execution.device))
        self.transformer.to(device)
        attention, blocks = kernels_used(problem, recipe, execution)
        if attention:
            self.transformer.fuse()
        if blocks and execution.precision != "auto":
            self.transformer.fuse_blocks(execution.precision)
        self.left = torch.ones(len(seeds), recipe.layers, recipe.heads, dtype=torch.bool)
        self._recipe, self._device, self._symbol_dim = recipe, device, problem.symbol_dim
        self._autocast, self._compiled = execution.precision == "bf16", bool(execution.compiled)
        self._parameters = [*self.transformer.parameters()]  # collected once, because collecting them is slow
        # Attention's output weights, by layer: `d_head` rows per head.
        named = self.transformer.named_parameters()
        self._outs = [weight for name, weight in named if name.endswith("attention.out.weight")]
        hooks = training_hooks(recipe)
        self._hooks = hooks(self.transformer, recipe) if hooks else None
        others = {*self._hooks.parameters} if self._hooks else set()
        self._by_adamw = [parameter for parameter in self._parameters if parameter not in others]
        decaying = {module.weight for module in self.transformer.modules() if isinstance(module, Linear)}
        self._spared = set() if recipe.decay_all else {*self._parameters} - decaying
        # Only weights of pruned heads have no gradient, so one number of updates serves all weights.
        self._updates = torch.zeros((), dtype=torch.float32, device=device)
        self._moments: dict[Tensor, dict[str, Tensor]] = {
            weight: {moment: torch.zeros_like(weight) for moment in MOMENTS} for weight in self._parameters
        }
        # A CUDA graph reads the rate, each model's share of the rate and the batch from fixed tensors.
        recorded = bool(execution.kernels) and can_record(device) and self._hooks is None
        self._rate = torch.zeros((), device=device) if recorded else None
        self._shares = torch.ones(len(seeds), device=device)
        self._batch: Batch | None = None
        self._graphs: dict[bool, CudaGraph] = {}
        if self._compiled:
            # Compile each block: blocks at all depths share one function, which is compiled only once.
            torch.compiler.reset()
            for block in self.transformer.blocks:
                block.compile(dynamic=False)

    def losses(self, batch: Batch) -> HopLosses:
        """Compute the losses by hop."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            answers = self.transformer(batch.inputs)
        return squared_errors(answers, batch.targets, self._symbol_dim).mean(dim=1)

    def update(self, batch: Batch, rates: Sequence[float], scales: HeadScales | None) -> HopLosses:
        """Update the models, unless all rates are 0, and return the losses by hop before the update."""
        batch = batch if self._hooks is None else self._hooks.change(batch)
        with nullcontext() if scales is None else self._scaled(scales):
            if not any(rates):
                with torch.no_grad():
                    return self.losses(batch)
            if self._rate is not None and scales is None and self.left.all():
                return self._replay(batch, rates)
            losses = self._take_gradients(batch)
        gradients = [out.grad for out in self._outs]  # None in a layer without a head
        if scales is not None:  # the forward pass used the weights times the scales
            _scale(scales, gradients)
        if not self.left.all():
            _scale(self.left, gradients)
        self._step(max(rates), self._set_rates(rates))
        return losses.detach()

    def _replay(self, batch: Batch, rates: Sequence[float]) -> HopLosses:
        """Update the models by a CUDA graph: one graph if all models have the same rate, another if rates differ."""
        if self._batch is None:
            self._batch = Batch(batch.inputs.clone(), batch.targets.clone(), batch.place)
        fixed = self._batch
        fixed.inputs.copy_(batch.inputs)
        fixed.targets.copy_(batch.targets)
        highest, alike = max(rates), self._set_rates(rates)

        def work() -> Tensor:
            losses = self._take_gradients(fixed)
            self._step(highest, alike)
            return losses.detach()

        if alike not in self._graphs:
            moments = [tensor for moments in self._moments.values() for tensor in moments.values()]
            self._graphs[alike] = CudaGraph(work, [*self._parameters, *moments, self._updates], self._device)
        return self._graphs[alike]().clone()

    def _take_gradients(self, batch: Batch) -> HopLosses:
        """Compute the gradient of every weight. Returns the losses by hop."""
        losses = self.losses(batch)
        weighted = losses if self._hooks is None else self._hooks.weigh(losses)
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
        """Update the weights and drop the gradients. Models with a rate below `rate` take smaller steps."""
        if self._recipe.clip is not None:
            clip_gradients(self._parameters, self._recipe.clip, self.transformer.models)
        if not self.left.all():
            _scale(self.left, [out.grad for out in self._outs])  # a diverged model has NaN there
        before = [] if alike else [parameter.clone() for parameter in self._parameters]
        at = rate if self._rate is None else self._rate
        adamw(self._by_adamw, self._moments, self._updates, at, self._recipe, self._spared)
        if self._hooks is not None:
            self._hooks.step(rate, self._moments)
        for parameter, start in zip(self._parameters if before else (), before, strict=True):
            parameter.copy_(torch.lerp(start, parameter, self._shares.view(-1, *[1] * (start.dim() - 1))))
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def remove_others(self, left: Left) -> None:
        """Prune all heads outside `left`: set their output weights and moments to zero, which later updates keep."""
        self.compute_only(left)
        _scale(left, self._outs)
        for moment in MOMENTS:
            _scale(left, [self._moments[out][moment] for out in self._outs])

    def compute_only(self, left: Left) -> None:
        """Set which heads are left. Other heads are skipped, except in compiled blocks, to avoid compiling again."""
        self.left = left
        if not self._compiled:
            self.transformer.compute_only(left)

    def losses_with(self, left: Left, batch: Batch) -> HopLosses:
        """Compute the losses by hop with only the heads in `left`."""
        with self._scaled(left):
            return self.losses(batch)

    @contextmanager
    def _scaled(self, scales: HeadScales | Left) -> Iterator[None]:
        """A context in which the heads' outputs are multiplied by `scales`."""
        whole = [out.detach().clone() for out in self._outs]
        with torch.no_grad():
            _scale(scales, self._outs)
        try:
            yield
        finally:
            with torch.no_grad():
                for out, weight in zip(self._outs, whole, strict=True):
                    out.copy_(weight)

    def state(self) -> dict[str, Tensor]:
        """Return weights and moments by name."""
        weights = dict(self.transformer.named_parameters())
        moments = {f"{moment}.{name}": self._moments[weights[name]][moment] for moment in MOMENTS for name in weights}
        return self.transformer.state_dict() | moments

    @torch.no_grad()
    def load(self, state: dict[str, Tensor], step: int) -> None:
        """Load weights and moments as they were after `step` updates."""
        self._updates.fill_(step)
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def _scale(scales: HeadScales | Left, by_layer: Sequence[Float[Tensor, "model inner d_model"] | None]) -> None:
    """Multiply each head's rows by its scale in place. A scale of False sets the rows to zero, even if they are NaN.
    Layers without rows are skipped."""
    for layer, rows in enumerate(by_layer):
        if rows is not None:
            by_head, scale = rows.view(*scales[:, layer].shape, -1), scales[:, layer, :, None].to(rows.device)
            by_head.mul_(scale)
            if scale.dtype == torch.bool:  # zero times NaN is NaN
                by_head.masked_fill_(~scale & by_head.isnan(), 0.0)
