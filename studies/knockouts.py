"""In which layers does a pretrained model bind, join and read the lines of code? (attention knockouts)

Equations are asked as code, with roles in every line (`hs.prompts.code_chains`). A knockout removes one group of
attention in all heads of some consecutive layers, as in Geva et al. (2023): the keys are masked, and the rest of the
row is scaled to sum to 1 again. The groups are:

- `binds k`: from tokens of the line of hop k to other tokens of the same line;
- `joins k`: from the line of hop k to the line of hop k + 1 in the same chain, which stands in an earlier block;
- `reads k`: from the question's name to the line of hop k;
- `ends k`: from the last token, which gives the answer, to the line of hop k;
- `fetches`: from the last token to the question's name.

The tokens between the name and the last one keep their attention. `binds` and `joins` are removed in all chains,
`reads` and `ends` in the chain asked for. Every group is removed in all layers, and in windows of four layers. Removing
all groups in all layers is the positive control. Removing `reads` and `ends` of another chain is the negative control.
A question whose loss (Brier score) is above `SURE` is left out, so that there is an answer to lose.

    python -m examples.models qwen
    python -m studies.knockouts models/Qwen2.5-Coder-1.5B-Instruct results/pretrained/knockouts --hops 1 2 3
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import hopscope as hs
from hopscope.plot import save
from hopscope.statistics import measured
from studies.figures.knockouts import knockouts
from studies.tools import records
from studies.tools.command import status

WINDOW, STRIDE = 4, 2
"""The number of layers in a window, and from one window to the next."""

SURE, CHOSEN, DRAWN, BATCH = 0.1, 64, 256, 32
"""The largest loss of a question that is used, and the numbers of questions used, drawn at most, and read at once."""

EVERYTHING = "everything"
"""The name of the positive control, in which all groups are removed."""


@dataclass(frozen=True)
class Knockout:
    """A group of attention that is removed in layers `first` to `last` (from 1), and the loss without it."""

    group: str
    first: int
    last: int
    loss: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Knockouts:
    """All knockouts of one model at one D.

    Attributes:
        model: the name of the model's folder.
        layers: its number of layers.
        hops: D.
        asked: the number of questions that were read to find the chosen ones.
        chosen: the number of questions used.
        own: the mean loss of the unmodified model on these questions.
        knockouts: what was removed, and the loss without it.
    """

    model: str
    layers: int
    hops: int
    asked: int
    chosen: int
    own: float
    knockouts: tuple[Knockout, ...]

    @property
    def windowed(self) -> bool:
        """Whether every group was removed in windows, too, and not only in all layers."""
        return len({cut.group for cut in self.knockouts if cut.last < self.layers}) == len(groups(self.hops))


Group = tuple[tuple[str, ...], tuple[str, ...]]
"""A group of attention: the roles that attend, and the roles that are attended to."""


def groups(hops: int, *, back: bool = False) -> dict[str, Group]:
    """Return the groups by name. With `back`, they include `backs k`, the reverse of `joins k`, which the mask allows
    only if lines are not in the published order."""
    lines = {k: (f"x{k - 1}>", f"x{k - 1}=", f"x{k}-1", f">x{k}", f"x{k}.") for k in range(1, hops + 1)}
    end = ("answer",)
    found: dict[str, Group] = {f"binds {k}": (line, line) for k, line in lines.items()}
    found |= {f"joins {k}": (lines[k], lines[k + 1]) for k in range(1, hops)}
    found |= {f"backs {k}": (lines[k + 1], lines[k]) for k in range(1, hops) if back}
    found |= {f"reads {k}": (("x0?",), line) for k, line in lines.items()}
    found |= {f"ends {k}": (end, line) for k, line in lines.items()}
    return found | {"fetches": (end, ("x0?",))}


def windows(layers: int) -> list[range]:
    """Return the windows of layers, numbered from 0: all layers first, and then a few at a time."""
    return [range(layers), *(range(first, first + WINDOW) for first in range(0, layers - WINDOW + 1, STRIDE))]


def removed(some: Iterable[Group], layers: range, heads: int, roles: Sequence[str]) -> dict[hs.HeadRow, hs.Ablation]:
    """Return the interventions that remove groups of attention in all heads of some layers."""
    keys: dict[int, set[int]] = {}
    for group in some:
        queries, to = ([roles.index(role) for role in side if role in roles] for side in group)
        for query in queries:
            keys.setdefault(query, set()).update(key for key in to if key != query)
    return {
        hs.HeadRow(layer, head, query): hs.Ablation(hs.AblationKind.KNOCK_OUT, tuple(sorted(to)))
        for layer, head, (query, to) in product(layers, range(heads), keys.items())
        if to
    }


def another_chain(task: hs.PromptTask) -> hs.PromptTask:
    """Return the same prompts, with the roles of the lines asked for in the lines of another chain and the reverse."""
    prompts = []
    for prompt in task.prompts:
        first, *rest = prompt.other_chains
        lines = {role: span for role, span in prompt.roles.items() if role in first}
        prompts.append(replace(prompt, roles=prompt.roles | first, other_chains=(lines, *rest)))
    return replace(task, prompts=tuple(prompts))


def ask(model: hs.LanguageModel, name: str, hops: int, path: Path, *, by_window: bool = True) -> Knockouts:
    """Return all knockouts at one D, or only those of all layers. `path` is written after each group, and what is in it
    is not measured again."""
    task = hs.prompts.code_chains(model.tokenizer, 2 * DRAWN, hops=hops)
    evaluator = model.evaluator(task, DRAWN)
    sure, asked = list[int](), 0
    while len(sure) < CHOSEN and asked < DRAWN:
        part = evaluator.on(evaluator.batch[asked : asked + BATCH])
        sure += [asked + number for number, loss in enumerate(part.own.tolist()) if loss < SURE]
        asked += part.sequences
    evaluator = evaluator.on(evaluator.batch[sure[:CHOSEN]])
    other = model.evaluator(another_chain(task), DRAWN)
    other = other.on(other.batch[sure[:CHOSEN]])
    shape, own = evaluator.shape, round(float(evaluator.own.mean()), 6)
    found = Knockouts(name, shape.layers, hops, asked, evaluator.sequences, own, ())
    if path.exists():
        before = records.read(path, Knockouts)
        if replace(before, knockouts=()) != found:
            raise hs.InputError(f"{path} is of other questions or of another model; choose another folder")
        found = before
    every = groups(hops)
    controls = {f"{name}, another chain": group for name, group in every.items() if name[:4] in ("read", "ends")}
    for group in [*every, EVERYTHING, *controls]:
        some = windows(shape.layers) if by_window and group in every else windows(shape.layers)[:1]
        known = {(cut.first - 1, cut.last) for cut in found.knockouts if cut.group == group}
        some = [layers for layers in some if (layers.start, layers.stop) not in known]
        if not some:
            continue
        cut_groups = [*every.values()] if group == EVERYTHING else [(every | controls)[group]]
        asked_of = other if group in controls else evaluator
        cut = [removed(cut_groups, layers, shape.heads, asked_of.names) for layers in some]
        losses = asked_of.errors(cut).mean(dim=-1)
        knockouts = list(found.knockouts)
        for layers, loss in zip(some, losses, strict=True):
            mean = measured(loss.double(), seed=0)
            knockouts.append(Knockout(group, layers[0] + 1, layers[-1] + 1, mean.mean, mean.interval))
        found = replace(found, knockouts=tuple(knockouts))
        records.write(path, found)
        what = f"{records.counted(hops, 'hop')}, {group}"
        where = f"layers {some[0].start + 1} to {some[0].stop}"
        print(f"{time.strftime('%H:%M:%S')}  {what}: {losses[0].mean():.2f} without it in {where}", flush=True)
    return found


def main() -> None:
    """Measure the knockouts that are missing, and draw all that are there."""
    parser = argparse.ArgumentParser(prog="python -m studies.knockouts", description=__doc__)
    parser.add_argument("model", help="the folder of a language model")
    parser.add_argument("folder", type=Path, help="where the numbers and the figure are written")
    parser.add_argument("--hops", type=int, nargs="+", default=[1, 2, 3], metavar="D")
    parser.add_argument("--all-layers", action="store_true", help="leave out the windows, which take most of the time")
    asked = parser.parse_args()
    model, name = hs.LanguageModel(asked.model, precision="bf16"), Path(asked.model).name
    for hops in asked.hops:
        ask(model, name, hops, asked.folder / f"{hops}-hops.json", by_window=not asked.all_layers)
    every = [records.read(path, Knockouts) for path in sorted(asked.folder.glob("*-hops.json"))]
    save(knockouts([found for found in every if found.windowed]), asked.folder / "knockouts")


if __name__ == "__main__":
    sys.exit(status(main))
