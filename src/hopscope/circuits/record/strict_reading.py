"""The strict reading of a circuit: the paper's own procedure (Appendix E), which claims C7 to C12 are judged by.

Heads that do nothing useful have uniform attention or the identity, whichever serves. In a useful head the whole map is
replaced: ones where it is expected to attend, and its other rows filled in one way throughout. The paper does not say
which way, so the loss is given for all three. Layers and heads count from 1 and roles go by name, as in all records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hopscope.circuits.certificate.part import Certificate
from hopscope.problem.paths import NamedPath

Fill = Literal["zero", "uniform", "identity"]
"""How the rows of a useful head that are no path are filled. `zero` is what Appendix E says literally."""


@dataclass(frozen=True)
class Loss:
    """A mean squared error on sequences that the search never saw.

    Attributes:
        mse: the mean squared error, over all hops.
        interval: its 95% interval, by the bootstrap over sequences.
    """

    mse: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class StrictPath:
    """A path of the strict circuit.

    Attributes:
        layer: number of the layer, from 1.
        head: number of the head in its layer, from 1.
        query: the role that attends.
        key: the role attended to.
        without: loss of the strict circuit without this path: its row filled like those that are no path or, if it is
            its head's only path, the head idle.
    """

    layer: int
    head: int
    query: str
    key: str
    without: Loss

    @property
    def where(self) -> NamedPath:
        """Layer, head, query role and key role, which together identify the path."""
        return self.layer, self.head, self.query, self.key


@dataclass(frozen=True)
class StrictReading:
    """What the paper's procedure finds in one model.

    Attributes:
        paths: the paths, none of which can be taken away alone; the first useful layer is exempt from that.
        zero: loss of the circuit with the other rows of useful heads at zero.
        uniform: the same with those rows uniform.
        identity: the same with those rows attending to themselves.
        fill: the filling that `without` and `first_layer_uniform` were measured with.
        first_layer_uniform: loss with every head of the first useful layer uniform.
        fewest_heads: layer and head, from 1, of the fewest whole heads found to hold the bar with the model's own
            patterns, every other head uniform or identity. Heads are switched off one after the other, the least costly
            first, so that fewer may do.
        fewest_heads_loss: loss with those heads.
        others: the paths, as in `StrictPath.where`, that each other order of the same procedure ended in.
        natural: loss of the same circuit where its paths' rows keep the model's own patterns; reported, not required.
        certificate: the certificate of the circuit in the strict sense.
    """

    paths: tuple[StrictPath, ...]
    zero: Loss
    uniform: Loss
    identity: Loss
    fill: Fill
    first_layer_uniform: Loss
    fewest_heads: tuple[tuple[int, int], ...]
    fewest_heads_loss: Loss
    others: tuple[tuple[NamedPath, ...], ...] = ()
    natural: Loss | None = None
    certificate: Certificate = field(default_factory=lambda: Certificate("strict"))

    @property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """Layer and head, from 1, of every head with a path."""
        return tuple(sorted({(path.layer, path.head) for path in self.paths}))

    @property
    def first_layer(self) -> int:
        """The first useful layer, from 1; 0 without paths."""
        return min((path.layer for path in self.paths), default=0)

    def loss(self, fill: Fill) -> Loss:
        """The loss with the other rows of useful heads filled in one of the three ways."""
        losses: dict[Fill, Loss] = {"zero": self.zero, "uniform": self.uniform, "identity": self.identity}
        return losses[fill]
