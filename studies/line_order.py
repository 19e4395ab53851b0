"""Does what a pretrained model does with two lines foretell how it answers if the lines change places?

In the published order, the line of the value (`a = 3`) comes before the line that names it (`c = a`), so the second can
copy from the first: it *joins*. If the lines are shuffled, the value's line comes last in half of the questions, and a
causal mask forbids this. Forecast: in that order, the model's loss is its loss in the published order without joins
(`studies.knockouts`, in all layers); in the other order, it is its loss in the published order.

Two baselines forecast the same. *No change*: the loss of the published order in both orders. *Cannot*: the loss of a
guess, 0.75, if the value comes last. A forecast is right about an order if the 95% intervals of what is foretold and
seen overlap.

Written on 2026-11-30, when the knockouts had shown that removing joins raises the loss from 0.01 to 0.61. It was known
(`studies.harder`) that with the blocks in reverse order, 39 of 50 answers are right; shuffled lines had been asked 50
times, but not by order.

`foretell` writes the forecast, which must be committed before `see` asks shuffled lines. `explain` was added after the
forecast had failed: it removes each group of attention in all layers, in both orders, among them `backs 1`, from the
line of the value to the line that names it.

    python -m examples.models qwen
    python -m studies.line_order foretell models/Qwen2.5-Coder-1.5B-Instruct results/pretrained/line-order
    python -m studies.line_order see models/Qwen2.5-Coder-1.5B-Instruct results/pretrained/line-order
    python -m studies.line_order explain models/Qwen2.5-Coder-1.5B-Instruct results/pretrained/line-order
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

import hopscope as hs
from hopscope.statistics import measured, wilson
from studies.knockouts import CHOSEN, SURE, groups, removed
from studies.tools import records
from studies.tools.command import status

HOPS, COUNT = 2, 200
"""D, and the number of questions of the forecast and of each order."""

Lines = Literal["published", "value first", "value last"]


@dataclass(frozen=True)
class Order:
    """The answers to questions of one order of lines, with and without joins: losses, accuracies and 95% intervals."""

    lines: Lines
    n: int
    loss: float
    loss_interval: tuple[float, float]
    accuracy: float
    accuracy_interval: tuple[float, float]
    without_joins: float
    without_joins_interval: tuple[float, float]


@dataclass(frozen=True)
class Need:
    """The loss without a group of attention in all layers, on `n` questions of one order; `own` is the loss with it."""

    lines: Lines
    n: int
    own: float
    group: str
    loss: float
    interval: tuple[float, float]


def by_order(model: hs.LanguageModel, shuffled: bool) -> dict[Lines, Any]:
    """Return an evaluator of the published order or, if `shuffled`, of each order of the two lines."""
    draw = 8 * COUNT if shuffled else 2 * COUNT
    task = hs.prompts.code_chains(model.tokenizer, draw, hops=HOPS, lines="shuffled" if shuffled else "blocks")
    every = model.evaluator(task, draw)
    value, name = (every.names.index(role) for role in (">x2", ">x1"))
    first = every.batch.place[:, 0, value] < every.batch.place[:, 0, name]
    chosen: dict[Lines, torch.Tensor] = {"published": first}
    if shuffled:
        chosen = {"value first": first, "value last": ~first}
    return {lines: every.on(every.batch[which.nonzero().flatten().tolist()[:COUNT]]) for lines, which in chosen.items()}


def orders(model: hs.LanguageModel, shuffled: bool) -> list[Order]:
    """Return the answers in the published order or, if `shuffled`, in both orders of the two lines."""
    found = []
    for lines, evaluator in by_order(model, shuffled).items():
        own, without = evaluator.errors([{}, cut(evaluator, "joins 1")]).double().mean(dim=-1)
        accuracy = evaluator.scores({}).accuracy
        loss, alone = measured(own, seed=0), measured(without, seed=0)
        share = round(accuracy, 4), wilson(accuracy * len(own), len(own))
        found.append(Order(lines, len(own), loss.mean, loss.interval, *share, alone.mean, alone.interval))
        print(f"{lines}: loss {loss.mean:.3f}, accuracy {accuracy:.3f}; without joins {alone.mean:.3f}; n = {len(own)}")
    return found


def cut(evaluator: Any, name: str) -> dict[hs.HeadRow, hs.Ablation]:
    """Return the interventions that remove a group in all layers."""
    group, shape = groups(HOPS, back=True)[name], evaluator.shape
    return removed([group], range(shape.layers), shape.heads, evaluator.names)


def needs(model: hs.LanguageModel) -> list[Need]:
    """Return the loss without each group in each order of shuffled lines, on questions of which the model is sure."""
    found = []
    for lines, evaluator in by_order(model, shuffled=True).items():
        sure = [number for number, loss in enumerate(evaluator.own.tolist()) if loss < SURE][:CHOSEN]
        asked = evaluator.on(evaluator.batch[sure])
        own = round(float(asked.own.mean()), 6)
        for name in groups(HOPS, back=True):
            without = measured(asked.errors([cut(asked, name)])[0].double().mean(dim=-1), seed=0)
            found.append(Need(lines, len(sure), own, name, without.mean, without.interval))
            print(f"{lines}: {without.mean:.3f} without {name}; n = {len(sure)}")
    return found


def main() -> None:
    """Write the forecast, what is seen, or what is needed."""
    parser = argparse.ArgumentParser(prog="python -m studies.line_order", description=__doc__)
    parser.add_argument("what", choices=["foretell", "see", "explain"])
    parser.add_argument("model", help="the folder of a language model")
    parser.add_argument("folder", type=Path, help="where foretold.json, seen.json and needs.json are written")
    asked = parser.parse_args()
    if asked.what == "see" and not (asked.folder / "foretold.json").exists():
        raise hs.InputError(f"{asked.folder} has no foretold.json; foretell first")
    model = hs.LanguageModel(asked.model, precision="bf16")
    if asked.what == "explain":
        records.write(asked.folder / "needs.json", needs(model))
    else:
        name = "foretold" if asked.what == "foretell" else "seen"
        records.write(asked.folder / f"{name}.json", orders(model, shuffled=asked.what == "see"))


if __name__ == "__main__":
    sys.exit(status(main))
