"""What the record of a language model's circuit adds: what was asked, and how well it is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scores:
    """How well questions are answered under a program.

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
            model's own (`natural`), and of nothing (`nothing`), on the certificate's questions.
    """

    name: str
    formulation: str
    floor: float
    lowest: float
    extensions: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)
