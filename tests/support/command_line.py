"""The command line in this process."""

from __future__ import annotations

import pytest

from hopscope.cli import main


def call(*arguments: str) -> int:
    """The exit status of `hopscope ARGUMENTS`."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code
