"""How many sequences and random draws stand behind a certificate."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.checks import check_count, make_plain
from hopscope.errors import InputError


@dataclass(frozen=True)
class CertificateConfig:
    """How many sequences and random draws stand behind a certificate.

        >>> run[0].circuit(effort="quick", proof=hs.CertificateConfig(draws=500), anew=True).certified
        ()

    Attributes:
        sequences: how many sequences the losses of the circuit and of its rows are measured on.
        deciding: how many other sequences decide on losses which those leave on either side of a limit.
        few: how many sequences comparisons with many programs are made on.
        rough: how many sequences such programs are seen on first; what is clear there is not measured again.
        draws: how many random circuits are drawn where a p-value is quoted.
        halves: how many random halves of what is outside (in pairs), and random parts of what is inside, are tried.

    Raises:
        InputError: a number is too small, or larger than one that it must not exceed.
    """

    sequences: int = 256
    deciding: int = 2048
    few: int = 48
    rough: int = 8
    draws: int = 200
    halves: int = 32

    def __post_init__(self) -> None:
        make_plain(self)
        for name, least in (("rough", 2), ("draws", 1), ("halves", 4), ("few", 1), ("sequences", 1), ("deciding", 1)):
            check_count(f"{name} of a certificate", getattr(self, name), least)
        for few, many in (("rough", "few"), ("few", "sequences"), ("sequences", "deciding")):
            if getattr(self, many) < getattr(self, few):
                raise InputError(f"{many} must be at least {few} ({getattr(self, few)}), got {getattr(self, many)}")

    @classmethod
    def of(cls, proof: CertificateConfig | None) -> CertificateConfig:
        """The proof asked for; the default for None.

        Raises:
            InputError: it is something else.
        """
        if not isinstance(proof, CertificateConfig | None):
            raise InputError(
                f"proof must be an hs.CertificateConfig, as in hs.CertificateConfig(draws=500), got {proof!r}"
            )
        return proof or cls()
