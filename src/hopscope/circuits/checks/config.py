"""How much is measured for the checks of a circuit."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_count, make_plain
from hopscope.errors import InputError


@dataclass(frozen=True)
class CertificateConfig:
    """How many sequences and random draws the checks and the card of a circuit are measured on.

        >>> run[0].find_circuit(effort="quick", proof=hs.CertificateConfig(draws=500), overwrite=True).certified
        False

    Attributes:
        sequences: how many sequences the losses of the circuit and of its rows are measured on.
        deciding: how many other sequences decide on losses which those leave on either side of a limit.
        few: how many sequences comparisons with many ablations are made on.
        draws: how many random circuits are drawn at most.
        halves: how many random halves of what is outside (in pairs), and half as many parts of what is inside, are
            ablated.

    Raises:
        InputError: a number is too small, or larger than one that it must not exceed.
    """

    sequences: int = 256
    deciding: int = 2048
    few: int = 48
    draws: int = 200
    halves: int = 32

    def __post_init__(self) -> None:
        make_plain(self)
        for name, least in (("draws", 1), ("halves", 4), ("few", 2), ("sequences", 1), ("deciding", 1)):
            check_count(f"{name} of a certificate", getattr(self, name), least)
        for few, many in (("few", "sequences"), ("sequences", "deciding")):
            if getattr(self, many) < getattr(self, few):
                raise InputError(f"{many} must be at least {few} ({getattr(self, few)}), got {getattr(self, many)}")

    @property
    def rough(self) -> int:
        """How many sequences many ablations are measured on first; what is clear there is not measured again."""
        return min(8, self.few)

    @classmethod
    def of(cls, proof: CertificateConfig | None) -> CertificateConfig:
        """A given configuration; the default for None."""
        if not isinstance(proof, CertificateConfig | None):
            raise InputError(
                f"proof must be an hs.CertificateConfig, as in hs.CertificateConfig(draws=500), got {proof!r}"
            )
        return proof or cls()
