"""Do the heads that carry one hop carry two and three hops, too?

A stored circuit of a pretrained model for one hop, asked as code, names some heads. On questions of one, two and three
hops, this program keeps all rows of these heads and no others; then it removes these heads and no others. A row that is
off puts as much weight on each chain as on any other, so it does not tell the chains apart. The result is the share of
the way from nothing (all rows off) to the model. The controls are random sets of other heads, with as many heads in
every layer. With `--add-layers D`, all heads of a few layers at a time are added to those of the circuit.

The rule was written before the run (docs/studies/plans/2026-12-01-reuse.md). Prompts that the circuit's search or
checks could have read are left out.

    python -m studies.reuse models/Qwen2.5-Coder-1.5B-Instruct results/pretrained/qwen-code-chains-1 runs/reuse

Heads can also be given as a JSON file of layers and heads, both from 1. `--control D` names the D at which they were
found (2026-12-01-two-hops.md).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import hopscope as hs
from hopscope.plot import save
from studies.figures.reuse import reuse
from studies.knockouts import windows
from studies.tools import records
from studies.tools.command import status
from studies.tools.fresh import FRESH_SEED, Share, random_others, shares, without_read

PROMPTS, DRAWN = 40, 6
"""The number of prompts for each D, and of random sets of heads."""

GUESS = 0.75
"""The loss of a guess among four acceptable answers."""

Head = tuple[int, int]
"""A layer and a head, both from 0."""


@dataclass(frozen=True)
class Reuse:
    """How much of the way to the model some heads go at one D, alone and if they are removed.

    Attributes:
        hops: D.
        prompts: the number of prompts.
        accuracy: of the model, on these prompts.
        nothing, model: the mean losses with all rows off, and of the model.
        only: the share with only the circuit's heads.
        only_random: the shares with only random sets of as many heads in every layer.
        without: the share without the circuit's heads.
        without_random: the shares without those random sets.
    """

    hops: int
    prompts: int
    accuracy: float
    nothing: float
    model: float
    only: Share
    only_random: tuple[Share, ...]
    without: Share
    without_random: tuple[Share, ...]

    @property
    def guess(self) -> float:
        """The share of the way that a guess among the four acceptable answers goes."""
        return (self.nothing - GUESS) / (self.nothing - self.model)

    @property
    def answer(self) -> str:
        """Whether the heads carry D hops, by the rule of the plan."""
        if self.only.interval[0] <= max(share.value for share in self.only_random):
            return "no"
        return "yes" if self.only.value >= 0.8 else "in part"


def new_prompts(model: hs.LanguageModel, hops: int) -> hs.PromptTask:
    """Return prompts of one D that no search or check could have read."""
    read, fresh = (hs.prompts.code_chains(model.tokenizer, hops=hops, seed=seed) for seed in (0, FRESH_SEED))
    return without_read(fresh, read)


def ask(model: hs.LanguageModel, heads: Collection[Head], hops: int) -> Reuse:
    """Measure the heads at one D."""
    evaluator = model.evaluator(new_prompts(model, hops), PROMPTS)
    drawn, shape = random.Random(0), evaluator.shape
    every = [*product(range(shape.layers), range(shape.heads))]
    sets = [{*heads}, *({*random_others(heads, every, drawn)} for _ in range(DRAWN))]
    off = hs.Ablation(hs.AblationKind.UNIFORM)
    only = [{row: off for row in evaluator.rows if row[:2] not in chosen} for chosen in sets]
    without = [{row: off for row in evaluator.rows if row[:2] in chosen} for chosen in sets]
    losses = evaluator.errors([dict.fromkeys(evaluator.rows, off), {}, *only, *without])[..., 0].double()
    found, (nothing, full) = shares(losses.numpy()), losses.mean(dim=1).tolist()[:2]
    first, second = found[: len(sets)], found[len(sets) :]
    accuracy = evaluator.scores({}).accuracy
    return Reuse(
        hops, evaluator.sequences, accuracy, nothing, full, first[0], tuple(first[1:]), second[0], tuple(second[1:])
    )


@dataclass(frozen=True)
class Added:
    """The share with only the circuit's heads and all heads of some layers, from `first` to `last` (from 1)."""

    first: int
    last: int
    share: Share


def add_layers(model: hs.LanguageModel, heads: Collection[Head], hops: int) -> list[Added]:
    """Measure which layers hold the heads that one D needs beyond those of the circuit, in windows of four layers."""
    evaluator = model.evaluator(new_prompts(model, hops), PROMPTS)
    off = hs.Ablation(hs.AblationKind.UNIFORM)
    some = windows(evaluator.shape.layers)[1:]
    kept = [{row: off for row in evaluator.rows if row[:2] not in heads and row[0] not in layers} for layers in some]
    losses = evaluator.errors([dict.fromkeys(evaluator.rows, off), {}, *kept])[..., 0].double()
    found = zip(some, shares(losses.numpy()), strict=True)
    return [Added(layers[0] + 1, layers[-1] + 1, share) for layers, share in found]


def heads_of(path: Path) -> set[Head]:
    """Return the heads of the circuit in a folder, or those that a JSON file lists as layer and head, both from 1."""
    named = records.read(path, list[Head]) if path.is_file() else hs.Circuit.load(path / "circuit.json").used_heads
    return {(layer - 1, head - 1) for layer, head in named}


def table(found: Sequence[Reuse], control: int) -> str:
    """Return a Markdown table with a row for each D; at `control`, the heads were found."""
    rows = []
    for each in found:
        answer = f"{each.answer} (control)" if each.hops == control else each.answer
        best, least = _best(each.only_random), _least(each.without_random)
        rows.append(
            [each.hops, f"{each.accuracy:.2f}", f"{each.guess:.2f}", each.only, best, each.without, least, answer]
        )
    head = ("D", "accuracy of the model", "a guess", "only these heads", "best of random sets", "without these heads")
    return records.markdown_table((*head, "least of random sets", "carry D hops?"), rows)


def _best(some: Sequence[Share]) -> Share:
    return max(some, key=lambda share: share.value)


def _least(some: Sequence[Share]) -> Share:
    return min(some, key=lambda share: share.value)


def main() -> None:
    """Measure what is missing, one D after the other, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.reuse", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="the folder of the language model")
    parser.add_argument("circuit", type=Path, help="the folder of its stored circuit, or a JSON file of heads")
    parser.add_argument("folder", type=Path, help="where reuse.json and table.md are written")
    parser.add_argument("--hops", type=int, nargs="+", default=[1, 2, 3], metavar="D")
    parser.add_argument("--control", type=int, default=1, metavar="D", help="the D at which the heads were found")
    parser.add_argument("--add-layers", type=int, metavar="D", help="measure at this D which layers lack heads")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    asked = parser.parse_args()
    heads, file = heads_of(asked.circuit), asked.folder / "reuse.json"
    found = records.read(file, list[Reuse]) if file.exists() else []
    model = hs.LanguageModel(asked.model, precision=asked.precision)
    for hops in asked.hops:
        if hops not in {each.hops for each in found}:
            found.append(ask(model, heads, hops))
            records.write(file, found)
            print(f"{time.strftime('%H:%M:%S')}  {records.counted(hops, 'hop')}: {found[-1].only}", flush=True)
    if asked.add_layers is not None:
        added = add_layers(model, heads, asked.add_layers)
        records.write(asked.folder / f"{asked.add_layers}-hops-layers.json", added)
        save(reuse(found, added, asked.add_layers), asked.folder / "reuse")
    (asked.folder / "table.md").write_text(text := table(sorted(found, key=lambda each: each.hops), asked.control))
    print(text)


if __name__ == "__main__":
    sys.exit(status(main))
