"""Everything small, in a fork: so that a case takes a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def quick() -> None:
    """In a fork: pictures cost seconds and are not what is attacked, but for drawings that a page takes up."""
    from matplotlib.figure import Figure

    plain = Figure.savefig

    def savefig(self: Figure, path: Any, *given: Any, **options: Any) -> None:
        if options.get("format") == "svg":
            plain(self, path, *given, **options)
        else:
            Path(path).write_bytes(b"picture")

    Figure.savefig = savefig  # type: ignore[method-assign]
    hurried()


def hurried() -> None:
    """In a fork: everything small, and states after every row; what is written stays the same in kind and order."""
    import hopscope.training.trainer as trainer
    from hopscope.circuits.checks import CertificateConfig
    from hopscope.circuits.search import config

    trainer.HELD_OUT = 64
    trainer._SECONDS_BETWEEN_STATES = 0.0
    few = {"orders": 2, "growing": 1, "sequences": 16, "confirming": 32, "deciding": 32, "every_subset": 2, "pairs": 2}
    few["most_rows"] = 64
    config.EFFORTS.update(quick=few, thorough=few)
    short = CertificateConfig(sequences=32, deciding=32, few=16, draws=6)
    CertificateConfig.of = classmethod(lambda cls, proof: proof or short)  # type: ignore[method-assign,assignment]
