"""The parts of a circuit: paths with their losses, helper rows, other circuits, the imposed circuit, text scores."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hopscope.circuits.checks.card import Card, CertificateConfig, Check, CheckName, Faithfulness, all_passed, failing
from hopscope.circuits.search.appendix_e import Fill
from hopscope.circuits.search.config import Effort, SearchBudget
from hopscope.kernels import Precision
from hopscope.problem.paths import AttentionPath, Feed, HeadRow, NamedPath
from hopscope.statistics import Measured
from hopscope.words import counted


@dataclass(frozen=True)
class Scores:
    """How well a language model answers questions, unmodified or under interventions.

    Attributes:
        accuracy: share of questions for which the right answer is the most probable of the acceptable answers.
        probability: mean probability of the right answer among the acceptable answers.
        log_loss: mean negative logarithm of that probability, in nats.
        brier: mean Brier score, which is used as the loss of a circuit.
        mass: mean total probability of the acceptable answers among all tokens.
    """

    accuracy: float
    probability: float
    log_loss: float
    brier: float
    mass: float


@dataclass(frozen=True)
class Asked:
    """The questions that a language model was asked, and how well it answered them.

    Attributes:
        name: the model's name.
        formulation: the formulation of the questions.
        extensions: departures from the paper's format.
        floor: highest accuracy that is possible without retrieval, by guessing or by leaving some lines unread.
        lowest: lower end of the 95% Wilson interval of the model's accuracy; a circuit needs it to be above `floor`.
        scores: the scores on fresh questions of the unmodified model (`full`), of the circuit with its patterns imposed
            (`imposed`) and with the model's own patterns (`own`), and with all rows switched off (`nothing`).
    """

    name: str
    formulation: str
    floor: float
    lowest: float
    extensions: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchRecord:
    """The settings of the search for a circuit, and how it ended.

    Attributes:
        effort: the effort or the budget of the search; None for a circuit of your own, which was not searched for.
        seed: the seed of the search or, for a circuit of your own, of the sequences that it was checked on.
        faithfulness: for a language model, how far a circuit must get from guessing (0) to the model (1); else None.
        orders_ending_here: the names of the search orders that ended in this circuit.
        removed: the rows that the search switched off, in the order of their removal.
        proof: the numbers of sequences and random draws that the checks and the card were measured with.
        precision: the precision of a language model's weights during the search and the checks.
        prompts: the hash of the prompts of a task of your own; empty for any other task.
    """

    effort: Effort | SearchBudget | None = None
    seed: int = 0
    faithfulness: float | None = None
    orders_ending_here: tuple[str, ...] = ()
    removed: tuple[HeadRow, ...] = ()
    proof: CertificateConfig | None = None
    precision: Precision = "fp32"
    prompts: str = ""


@dataclass(frozen=True)
class CircuitPath:
    """An attention path of a circuit, with its numbers.

    Attributes:
        path: the attention path.
        ablation: what replaces the row when patterns are imposed: `one_hot`, `mixture`, `mean`, `positional`, `keep`.
        weight: the model's mean attention along this path.
        without_imposed: loss of the circuit with its patterns imposed when this path is removed.
        without: loss of the circuit with own patterns when this path is removed. If the row may attend to other keys
            too, only the key is removed; otherwise the whole row is switched off.
        feeds: the uses of what the path writes, strongest first.
    """

    path: AttentionPath
    ablation: str
    weight: float
    without_imposed: Measured
    without: Measured
    feeds: tuple[Feed, ...] = ()

    def uses(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Describe the uses of the path, strongest first; equal uses by several heads of a layer are listed once."""
        return tuple(dict.fromkeys(feed.describe(roles) for feed in self.feeds))


@dataclass(frozen=True)
class Helper:
    """An active row without a path: it attends to no other role of its own chain, or to all chains alike.

    Layer and head count from 1. `without` is the loss of the circuit with own patterns when this row is switched off.
    """

    layer: int
    head: int
    query: str
    without: Measured


@dataclass(frozen=True)
class OtherCircuit:
    """Another circuit that some search orders ended in; `mse` is its loss with its patterns imposed."""

    paths: tuple[AttentionPath, ...]
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class ImposedPath:
    """A path of an imposed circuit; layer and head count from 1.

    `without` is the loss of the circuit when this path is removed: its row gets the filling of the head's other rows
    or, if this is the head's only path, the whole head becomes idle.
    """

    layer: int
    head: int
    query: str
    key: str
    without: Measured

    @property
    def where(self) -> NamedPath:
        """The layer, head, query role and key role, which together identify the path."""
        return self.layer, self.head, self.query, self.key


@dataclass(frozen=True)
class ImposedCircuit:
    """The circuit that the paper's own procedure (Appendix E) finds in one model, with imposed patterns.

    Attributes:
        paths: the paths, none of which can be removed alone; paths of the first useful layer are exempt from this rule.
        losses: the loss for each filling of the other rows of useful heads: `zero`, `uniform`, or `identity`.
        fill: the filling that `ImposedPath.without` and `first_layer_uniform` were measured with.
        first_layer_uniform: loss when every head of the first useful layer is uniform.
        others: for each other search order, the paths of the circuit that it ended in, as in `ImposedPath.where`.
        own: loss of the same circuit when the rows of its paths keep the model's own patterns.
        checks: the results of the six checks by name, with imposed patterns; empty if there are no paths.
        card: the card of the circuit; None if there are no paths.
    """

    paths: tuple[ImposedPath, ...]
    losses: Mapping[Fill, Measured]
    fill: Fill
    first_layer_uniform: Measured
    others: tuple[tuple[NamedPath, ...], ...] = ()
    own: Measured | None = None
    checks: Mapping[CheckName, Check] = field(default_factory=dict)
    card: Card | None = None

    @property
    def passed(self) -> bool:
        """Whether the circuit passed all six checks with imposed patterns."""
        return all_passed(self.checks)

    @property
    def first_layer(self) -> int:
        """The first layer with a path, from 1; 0 if there are no paths."""
        return min((path.layer for path in self.paths), default=0)

    @property
    def loss(self) -> float:
        """The mean loss of the circuit with the filling `fill`."""
        return self.losses[self.fill].mean


WIDTH = 80
"""The maximum length of a printed line."""


def card_rows(card: Card) -> list[tuple[str, str]]:
    """Return the card as pairs of a name and a text; a pair with an empty name continues the pair before it."""
    size, damage, others = card.size, card.completeness, card.baselines

    def shares(found: Faithfulness) -> str:
        within = [f" ({low:z.3f} to {high:z.3f})" for low, high in found.intervals or ()] or [""] * 3
        ways = ("off", found.uniform), ("mean", found.mean), ("resample", found.resample)
        return ", ".join(f"{way} {value:.3f}{ends}" for (way, value), ends in zip(ways, within, strict=True))

    def share(value: float | None, unless: str = "not measured") -> str:
        return unless if value is None else f"{value:.3f}"

    based = "content or position: not asked" if card.found_by == "not asked" else f"{card.found_by}-based"
    return [
        ("size", f"{counted(size.paths, 'path')}; {counted(size.active, 'active row')} and {size.at_mean} at a mean: "
        f"{size.not_off / size.rows:.0%} of {size.rows}"),
        ("faithfulness", f"own patterns; rest {shares(card.own)}"),
        ("", f"imposed patterns; rest {shares(card.imposed)}"),
        ("curve", f"CPR {card.curve.cpr:.3f}, CMD {card.curve.cmd:.3f}"),
        ("completeness", f"{damage.whole:z.2f} of the damage, worst row {damage.worst_row:z.2f}, "
        f"worst key {damage.worst_key:z.2f}"),
        ("baselines", f"best of {others.drawn} random circuits {share(others.random, 'not testable')}, "
        f"ACDC {share(others.acdc)}, attribution {share(others.attribution)}, "
        f"untrained heads {share(others.untrained)}"),
        ("tags", "not asked" if card.strategy == card.found_by == "not asked" else f"{card.strategy}; {based}"),
    ]  # fmt: skip


def card_lines(card: Card) -> list[str]:
    """Return the card as lines to print."""
    texts = (f"{name:<13} {text}" for name, text in card_rows(card))
    return [line for text in texts for line in textwrap.wrap(text, WIDTH, subsequent_indent=" " * 14)]


def check_lines(check: Check) -> list[str]:
    """Return one check as up to four lines to print: its outcome and what it found."""
    outcome, more = {"passed": "pass", "failed": "FAIL"}.get(check.outcome, check.outcome), " ... (all: --json)"
    text = f"{outcome}  {check.name:<12}  {check.says}"
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * 20, max_lines=4, placeholder=more)


def path_lines(paths: Sequence[CircuitPath], roles: Sequence[str]) -> list[str]:
    """Return a table of the paths: the loss without each path, with own and imposed patterns, and what it feeds."""
    lines = [f"{'loss without each path:':<24} weight    own  imposed  feeds"]
    for path in paths:
        layer, head, query, key = path.path.names(roles)
        losses = f"{path.weight:>6.2f}  {path.without.mean:.3f}    {path.without_imposed.mean:.3f}"
        lines.append(f"{f'L{layer}.H{head} {query} -> {key}':<24} {losses}  {'; '.join(path.uses(roles)) or '-'}")
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in lines]


def imposed_words(circuit: ImposedCircuit) -> str:
    """Describe the circuit of Appendix E in one sentence: its losses and the checks that it failed."""
    own = f", {circuit.own.mean:.3f} with own patterns" if circuit.own else ""
    failed = ", ".join(failing(circuit.checks))
    outcome = f"failed {failed}" if failed else "passed all checks" if circuit.checks else "not checked"
    return f"imposed patterns (Appendix E): {len(circuit.paths)} paths, loss {circuit.loss:.3f}{own}; {outcome}"
