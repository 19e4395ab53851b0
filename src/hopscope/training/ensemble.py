"""An ensemble in training: M models, their optimiser, and one update of them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.errors import InputError
from hopscope.model.fast import FastTransformer
from hopscope.model.initial import initialise
from hopscope.model.pruning import Left, prune
from hopscope.problem.counter import derive_seed
from hopscope.problem.retrieval import RetrievalProblem
from hopscope.problem.vectors import Batch
from hopscope.training.engine import Engine
from hopscope.training.head_dropout import HeadScales
from hopscope.training.losses import partial_losses
from hopscope.training.muon import Muon
from hopscope.training.recipe import Recipe

_MOMENTS = ("exp_avg", "exp_avg_sq")


class Ensemble:
    """M models of one recipe, each with its own weights and data, updated together.

    On a CPU they go through in parts of `engine.models_at_once`: models do not depend on one another, so the parts
    change memory and speed only.
    """

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int], engine: Engine) -> None:
        self.problem, self.recipe, self.engine = problem, recipe, engine
        size = engine.models_at_once
        self._parts = [
            _Part(problem, recipe, seeds[start : start + size], engine) for start in range(0, len(seeds), size)
        ]
        self._slices = [slice(start, start + size) for start in range(0, len(seeds), size)]

    def update(
        self, batch: Batch, rates: Sequence[float], scales: HeadScales | None = None
    ) -> Float[Tensor, "model hop"]:
        """One step for every model, of what they are where their heads' outputs are so scaled.

        Gives the losses by hop before it, with the heads so scaled.

        Args:
            batch: what is learned from.
            rates: the learning rate of each model; at 0 it stays as it is.
            scales: what heads' outputs are multiplied by.
        """
        losses = [
            part.update(batch[where], rates[where], None if scales is None else scales[where])
            for part, where in zip(self._parts, self._slices, strict=True)
        ]
        return torch.cat(losses)

    @property
    def left(self) -> Left:
        """The heads that are still there."""
        return torch.cat([part.left for part in self._parts])

    @property
    def heads_left(self) -> list[int] | None:
        """How many they are, by model; None where the recipe leaves them as they are."""
        return None if self.recipe.prune_every is None else self.left.flatten(1).sum(dim=1).tolist()

    def prune(self, batch: Batch, cost: float, models: Sequence[bool]) -> list[bool]:
        """Take away for good what some models can do without; see `prune`. Says of which any head went."""
        before = self.left
        due = torch.tensor(models)[:, None, None]
        left = torch.where(due, prune(before, partial(self.losses_with, batch=batch), cost), before)
        some_went: list[bool] = (left != before).flatten(1).any(dim=1).tolist()
        for part, where in zip(self._parts, self._slices, strict=True):
            part.keep(left[where])
        return some_went

    @torch.no_grad()
    def losses_with(self, left: Left, batch: Batch) -> Float[Tensor, " model"]:
        """Losses, the mean over hops, with these heads alone; which are there stays as it is."""
        losses = [
            part.losses_with(left[where], batch[where]) for part, where in zip(self._parts, self._slices, strict=True)
        ]
        return torch.cat(losses).mean(dim=1).double().cpu()

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Float[Tensor, "model hop"]:
        """Losses by hop, without learning."""
        return torch.cat([part.losses(batch[where]) for part, where in zip(self._parts, self._slices, strict=True)])

    def weights(self) -> dict[str, Tensor]:
        """Every weight, stacked over all models."""
        states = [part.transformer.state_dict() for part in self._parts]
        return {name: torch.cat([state[name] for state in states]) for name in states[0]}

    def state(self) -> dict[str, Tensor]:
        """Weights and moments: all that the next update depends on."""
        state = self.weights()
        for moment in _MOMENTS:
            parts = [part.moments(moment) for part in self._parts]
            state |= {f"{moment}.{name}": torch.cat([part[name] for part in parts]) for name in parts[0]}
        return state

    def load_state(self, state: dict[str, Tensor], step: int) -> None:
        """Continue from `state` as it was after `step` updates.

        Raises:
            InputError: tensors missing or of another shape.
        """
        mine = {name: tensor.shape for name, tensor in self.state().items()}
        theirs = {name: tensor.shape for name, tensor in state.items()}
        if mine != theirs:
            wrong = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
            raise InputError(f"the saved state does not fit this recipe: {wrong[0]} is missing or of another shape")
        for part, where in zip(self._parts, self._slices, strict=True):
            part.load({name: tensor[where] for name, tensor in state.items()}, step)


class _Part:
    """Models that go through together."""

    def __init__(self, problem: RetrievalProblem, recipe: Recipe, seeds: Sequence[int], engine: Engine) -> None:
        self.transformer = FastTransformer(recipe.architecture(problem), len(seeds))
        initialise(self.transformer, [derive_seed(seed, "weights") for seed in seeds], recipe.initial)
        self.transformer.to(engine.device)
        if engine.fused:
            self.transformer.fuse()
        if engine.fused_blocks:
            self.transformer.fuse_blocks(engine.precision)
        self._clip, self._device = recipe.clip, torch.device(engine.device)
        self._autocast = engine.precision == "bf16"
        self._symbol_dim = problem.symbol_dim
        weights = recipe.hop_weights
        self._weights = None if weights is None else torch.tensor(weights, device=engine.device)
        self._parameters = [*self.transformer.parameters()]  # to look for them at every step takes a while
        # What takes heads to the stream, by layer: `d_head` rows a head.
        named = self.transformer.named_parameters()
        self._outs = [weight for name, weight in named if name.endswith("attention.out.weight")]
        self._prunes, self._compiled = recipe.prune_every is not None, engine.compiled
        self.left = torch.ones(len(seeds), recipe.layers, recipe.heads, dtype=torch.bool)
        self._muon = Muon(self.transformer, recipe.weight_decay) if recipe.optimiser == "muon" else None
        others = {*self._muon.parameters} if self._muon else set()
        self._optimiser = torch.optim.AdamW(
            [parameter for parameter in self._parameters if parameter not in others],
            lr=recipe.learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        if engine.compiled:
            # Block by block: all blocks of all depths share one compiled piece, so that it is paid for once.
            torch.compiler.reset()
            for block in self.transformer.blocks:
                block.compile(dynamic=False)
        self.reset_moments()

    def losses(self, batch: Batch) -> Float[Tensor, "model hop"]:
        """Losses by hop."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            answers = self.transformer(batch.inputs)
        return partial_losses(answers, batch.targets, self._symbol_dim)

    def update(self, batch: Batch, rates: Sequence[float], scales: HeadScales | None) -> Float[Tensor, "model hop"]:
        """One step, or where no model learns any more only the losses."""
        with nullcontext() if scales is None else self._scaled(scales):
            if not any(rates):
                with torch.no_grad():
                    return self.losses(batch)
            losses = self.losses(batch)
            weighted = losses if self._weights is None else losses * self._weights
            torch.autograd.backward(weighted.mean(dim=1).sum())
        gradients = [out.grad for out in self._outs]  # None in a layer without a head
        if scales is not None:  # of the weights as they are: those that were used are these times the scales
            _scale(scales, gradients)
        if not self.left.all():
            _scale(self.left, gradients)
        if self._clip is not None:
            self._clip_gradients(self._clip)
        self._step(rates)
        for parameter in self._parameters:
            parameter.grad = None
        return losses.detach()

    @torch.no_grad()
    def _step(self, rates: Sequence[float]) -> None:
        """Each model at its rate: an update, decay included, is linear in it, so some go a part of the way."""
        highest = max(rates)
        if min(rates) == highest:
            self._step_all(highest)
            return
        before = [parameter.clone() for parameter in self._parameters]
        self._step_all(highest)
        share = torch.tensor([rate / highest for rate in rates], device=self._device)
        for parameter, was in zip(self._parameters, before, strict=True):
            parameter.copy_(torch.lerp(was, parameter, share.view(-1, *[1] * (was.dim() - 1))))

    def _step_all(self, rate: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        if self._muon is not None:
            self._muon.step(rate, self._optimiser.state)

    @torch.no_grad()
    def keep(self, left: Left) -> None:
        """Take away for good all other heads. Where weight, moments and gradients are zero, they stay zero."""
        self._leave(left)
        _scale(left, self._outs)
        for moment in _MOMENTS:
            _scale(left, [self._optimiser.state[out][moment] for out in self._outs])

    def _leave(self, left: Left) -> None:
        """These heads are left; others are not computed, but where that would be compiled anew each time."""
        self.left = left
        if not self._compiled:
            self.transformer.compute_only(left)

    def losses_with(self, left: Left, batch: Batch) -> Float[Tensor, "model hop"]:
        """Losses by hop with these heads alone."""
        with self._scaled(left):
            return self.losses(batch)

    @contextmanager
    def _scaled(self, scales: HeadScales | Left) -> Iterator[None]:
        """A context in which what heads write is so scaled."""
        whole = [out.detach().clone() for out in self._outs]
        with torch.no_grad():
            _scale(scales, self._outs)
        yield
        with torch.no_grad():
            for out, weight in zip(self._outs, whole, strict=True):
                out.copy_(weight)

    def moments(self, name: str) -> dict[str, Tensor]:
        """One of the optimiser's moments of every weight."""
        return {
            weight: self._optimiser.state[parameter][name] for weight, parameter in self.transformer.named_parameters()
        }

    def reset_moments(self) -> None:
        """The optimiser's state before the first step, there from the start so that saving needs no special case."""
        for parameter in self._parameters:
            self._optimiser.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=self._device),
                **{moment: torch.zeros_like(parameter) for moment in _MOMENTS},
            }

    @torch.no_grad()
    def load(self, state: dict[str, Tensor], step: int) -> None:
        """Take over weights and moments."""
        for name, parameter in self.transformer.named_parameters():
            parameter.copy_(state[name])
            own = self._optimiser.state[parameter]
            own["step"].fill_(step)
            for moment in _MOMENTS:
                own[moment].copy_(state[f"{moment}.{name}"])
        if self._prunes:  # a head that is gone writes nothing
            writes = [_by_head(out, self.left.shape[2]).any(dim=2) for out in self._outs]
            self._leave(torch.stack(writes, dim=1).cpu())

    def _clip_gradients(self, largest: float) -> None:
        """Scale each model's gradient to a norm of at most `largest`: models must not feel one another."""
        if self.transformer.models == 1:
            torch.nn.utils.clip_grad_norm_(self._parameters, largest)
            return
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        squares = torch.stack([gradient.square().flatten(1).sum(1) for gradient in gradients])
        scale = (largest / (squares.sum(0).sqrt() + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def _scale(scales: HeadScales | Left, by_layer: Sequence[Float[Tensor, "model inner d_model"] | None]) -> None:
    """Multiply each head's rows, or zero them where it is not left; layers that have none are passed over."""
    for layer, rows in enumerate(by_layer):
        if rows is None:
            continue
        _by_head(rows, scales.shape[2]).mul_(scales[:, layer, :, None].to(rows.device))


def _by_head(rows: Float[Tensor, "model inner d_model"], heads: int) -> Float[Tensor, "model head numbers"]:
    """The same memory, head by head."""
    return rows.view(rows.shape[0], heads, -1)
