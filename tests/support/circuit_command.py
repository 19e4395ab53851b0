"""`hopscope circuit` in this process."""

from __future__ import annotations

import pytest

from hopscope.cli import main


def call(*arguments: str) -> int:
    """Its exit status."""
    with pytest.raises(SystemExit) as stop:
        main(["circuit", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code
