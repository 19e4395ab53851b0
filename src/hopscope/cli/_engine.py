"""What the verbs that train share: options for how steps are computed, and the message that says it once."""

from __future__ import annotations

from typing import Any

import click


def engine_options(function: Any) -> Any:
    """The options `device`, `precision` and `compiled`."""
    for option in (
        click.option(
            "--compile/--no-compile", "compiled", default=None, help="torch.compile [default: long runs of wide heads]"
        ),
        click.option(
            "--precision",
            type=click.Choice(["auto", "fp32", "bf16"]),
            default="auto",
            show_default=True,
            help="Precision of matrix products and stream; auto for bf16 where the processor has a unit for it.",
        ),
        click.option("--device", default=None, help="cpu, cuda, ... [default: a GPU if there is one]"),
    ):
        function = option(function)
    return function


def say_precision(device: str | None, precision: str) -> None:
    """Say on standard error in which precision matrix products are computed, and settle the process for it."""
    from hopscope.kernels.precision import best_precision, bf16_unit
    from hopscope.own_process import settle
    from hopscope.training.engine import Engine, default_device

    settle()
    device = device or default_device()
    Engine(device).check()
    precision = best_precision(device) if precision == "auto" else precision
    unit = bf16_unit(device)
    why = {
        ("bf16", True): f" ({unit}); --precision fp32 is the reference",
        ("bf16", False): ", for which this device has no unit; --precision fp32 is faster",
    }
    click.echo(f"matrix products on {device} in {precision}{why.get((precision, unit is not None), '')}", err=True)
