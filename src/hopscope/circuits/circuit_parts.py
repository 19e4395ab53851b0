"""What a circuit consists of: paths with their losses, helper rows, other circuits, the imposed one, text scores."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hopscope.circuits.checks.card import (
    Card,
    CertificateConfig,
    Check,
    CheckName,
    Faithfulness,
    all_passed,
    not_passed,
)
from hopscope.circuits.search.appendix_e import Fill
from hopscope.circuits.search.config import Effort, SearchBudget
from hopscope.kernels import Precision
from hopscope.problem.paths import AttentionPath, Feed, HeadRow, NamedPath
from hopscope.statistics import Measured
from hopscope.words import counted


@dataclass(frozen=True)
class Scores:
    """How well questions are answered, by the model as it is or under interventions.

    Attributes:
        accuracy: share of questions whose right answer is the likeliest of the acceptable ones.
        probability: mean probability of the right answer among the acceptable ones.
        log_loss: mean negative logarithm of that probability, in nats.
        brier: mean Brier score, which is the loss of a circuit.
        mass: mean probability of all acceptable answers together, among all tokens.
    """

    accuracy: float
    probability: float
    log_loss: float
    brier: float
    mass: float


@dataclass(frozen=True)
class Asked:
    """What a language model was asked.

    Attributes:
        name: the model's name.
        formulation: the formulation of the questions.
        extensions: departures from the paper's format.
        floor: accuracy that shows no retrieval: of a guess, or of leaving some lines unread, whichever is higher.
        lowest: lower end of the 95% interval of the model's accuracy (Wilson); above `floor`, or there is no circuit.
        scores: the scores of the model (`full`), of the circuit with its patterns imposed (`imposed`) and with the
            model's own (`own`), and of nothing (`nothing`), on fresh questions.
    """

    name: str
    formulation: str
    floor: float
    lowest: float
    extensions: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchRecord:
    """How a circuit was found.

    Attributes:
        effort: the effort of the search, or its budget; None for a circuit of your own, which was not searched for.
        seed: the seed of the search; of a circuit of your own, of the sequences that it was checked on.
        faithfulness: of a language model's circuit: the share of the way from guessing to the model that it must go.
        orders_ending_here: names of the search orders that ended in the circuit.
        removed: the rows that the search switched off, in the order in which it did so.
        proof: how many sequences and random draws checks and card were measured on.
        precision: of a language model's weights while it was searched and checked.
    """

    effort: Effort | SearchBudget | None = None
    seed: int = 0
    faithfulness: float | None = None
    orders_ending_here: tuple[str, ...] = ()
    removed: tuple[HeadRow, ...] = ()
    proof: CertificateConfig | None = None
    precision: Precision = "fp32"


@dataclass(frozen=True)
class CircuitPath:
    """An attention path of a circuit, and its numbers.

    Attributes:
        path: the attention path.
        ablation: what replaces the row where patterns are imposed: `one_hot`, `mixture`, `mean`, `positional`, `keep`.
        weight: the model's mean attention along this path.
        without_imposed: loss without this path of the circuit with its patterns imposed.
        without: loss without this path of the circuit with own patterns: without this key where the row attends to
            others too, else without the whole row.
        feeds: what reads it, the strongest use first.
    """

    path: AttentionPath
    ablation: str
    weight: float
    without_imposed: Measured
    without: Measured
    feeds: tuple[Feed, ...] = ()

    def uses(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Its uses in words, the strongest first; heads of one layer that read it in the same way are one use."""
        return tuple(dict.fromkeys(feed.describe(roles) for feed in self.feeds))


@dataclass(frozen=True)
class Helper:
    """An active row that attends to no other role of its own chain, or for which that is not needed.

    Layer and head count from 1; `without` is the loss of the circuit, with own patterns, without this row.
    """

    layer: int
    head: int
    query: str
    without: Measured


@dataclass(frozen=True)
class OtherCircuit:
    """Another circuit that some orders of the search ended in, with its loss, patterns imposed."""

    paths: tuple[AttentionPath, ...]
    mse: float
    orders: tuple[str, ...]


@dataclass(frozen=True)
class ImposedPath:
    """A path of an imposed circuit; layer and head count from 1.

    `without` is the loss of the circuit without this path: its row filled like those that are no path or, if it
    is its head's only path, the head idle.
    """

    layer: int
    head: int
    query: str
    key: str
    without: Measured

    @property
    def where(self) -> NamedPath:
        """Layer, head, query role and key role, which together identify the path."""
        return self.layer, self.head, self.query, self.key


@dataclass(frozen=True)
class ImposedCircuit:
    """The circuit that the paper's procedure (Appendix E) finds in one model: its patterns are imposed.

    Attributes:
        paths: the paths, none of which can go alone; the first useful layer is exempt from that.
        losses: of the circuit with the other rows of useful heads at zero, uniform, and attending to themselves.
        fill: the filling that `without` and `first_layer_uniform` were measured with.
        first_layer_uniform: loss with every head of the first useful layer uniform.
        others: the paths, as in `ImposedPath.where`, that each other order of the same procedure ended in.
        own: loss of the same circuit where its paths' rows keep the model's own patterns.
        checks: the six checks of the circuit, by name, with its patterns imposed; empty without paths.
        card: its card; None without paths.
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
        """Whether all six checks passed, with imposed patterns."""
        return all_passed(self.checks)

    @property
    def first_layer(self) -> int:
        """The first useful layer, from 1; 0 without paths."""
        return min((path.layer for path in self.paths), default=0)

    @property
    def loss(self) -> float:
        """Its loss, with its own filling."""
        return self.losses[self.fill].mean


WIDTH = 80
"""The longest line."""


def card_rows(card: Card) -> list[tuple[str, str]]:
    """The numbers of the card in words, each with its name; one that is empty goes on with the name before it."""
    size, damage, others = card.size, card.completeness, card.baselines

    def shares(faithfulness: Faithfulness) -> str:
        return ", ".join(f"{way} {share:.3f}" for way, share in asdict(faithfulness).items())

    def share(value: float | None, unless: str = "not measured") -> str:
        return unless if value is None else f"{value:.3f}"

    based = "content or position: not asked" if card.found_by == "not asked" else f"{card.found_by}-based"
    return [
        ("size", f"{counted(size.paths, 'path')}; {counted(size.active, 'active row')} and {size.at_mean} at a mean: "
        f"{size.not_off / size.rows:.0%} of {size.rows}"),
        ("faithfulness", f"own patterns; rest {shares(card.own)}"),
        ("", f"imposed patterns; rest {shares(card.imposed)}"),
        ("curve", f"CPR {card.curve.cpr:.3f}, CMD {card.curve.cmd:.3f}"),
        ("completeness", f"{damage.whole:.2f} of the damage, worst row {damage.worst_row:.2f}, "
        f"worst key {damage.worst_key:.2f}"),
        ("baselines", f"best of {others.drawn} random circuits {share(others.random, 'not testable')}, "
        f"ACDC {share(others.acdc)}, attribution {share(others.attribution)}, "
        f"untrained heads {share(others.untrained)}"),
        ("tags", "not asked" if card.strategy == card.found_by == "not asked" else f"{card.strategy}; {based}"),
    ]  # fmt: skip


def card_lines(card: Card) -> list[str]:
    """The numbers of the card, as they are printed."""
    texts = (f"{name:<13} {text}" for name, text in card_rows(card))
    return [line for text in texts for line in textwrap.wrap(text, WIDTH, subsequent_indent=" " * 14)]


def check_lines(check: Check) -> list[str]:
    """A check: whether it passed, and what was found."""
    outcome = {"passed": "pass", "failed": "FAIL"}.get(check.outcome, check.outcome)
    return textwrap.wrap(f"{outcome}  {check.name:<12}  {check.says}", WIDTH, subsequent_indent=" " * 20)


def path_lines(paths: Sequence[CircuitPath], roles: Sequence[str]) -> list[str]:
    """A table of the paths: loss without each with own and with imposed patterns, and what it feeds."""
    lines = [f"{'loss without each path:':<24} weight    own  imposed  feeds"]
    for path in paths:
        layer, head, query, key = path.path.names(roles)
        losses = f"{path.weight:>6.2f}  {path.without.mean:.3f}    {path.without_imposed.mean:.3f}"
        lines.append(f"{f'L{layer}.H{head} {query} -> {key}':<24} {losses}  {'; '.join(path.uses(roles)) or '-'}")
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in lines]


def imposed_words(circuit: ImposedCircuit) -> str:
    """The circuit of Appendix E in a sentence: its losses, and which checks it failed."""
    own = f", {circuit.own.mean:.3f} with own patterns" if circuit.own else ""
    failed = ", ".join(not_passed(circuit.checks))
    outcome = f"failed {failed}" if failed else "passed all checks" if circuit.checks else "not checked"
    return f"imposed patterns (Appendix E): {len(circuit.paths)} paths, loss {circuit.loss:.3f}{own}; {outcome}"
