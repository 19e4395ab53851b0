"""The command line: one file for each verb, loaded only when its verb is called."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module

import click

import hopscope
from hopscope.exit import run_and_exit
from hopscope.processes import claim_process
from hopscope.signals import raise_on_stop_signals

VERBS = {
    "reproduce": "The main job: train, analyse, report.",
    "train": "Train transformers on the retrieval problem.",
    "sweep": "Train by depth, seeds and formulation, and draw Figure 4.",
    "circuit": "Find the circuit of a trained model, certify it, draw it.",
    "emergence": "How the heads of a run's circuit came to be, checkpoint by checkpoint.",
    "explore": "A page to look at a trained model in, and to cut it.",
    "export": "A trained model for another library to open.",
    "theory": "How many layers D hops need: bound, exact minimum, a schedule, figures.",
    "benchmark": "Put the problem as text to language models.",
    "report": "Write the report anew from what is there.",
    "check": "See that a folder's files are what was written.",
    "sample": "Print examples of the problem, as vectors or as text.",
}
"""By verb, its line in `hopscope --help`. The verb's command is `hopscope.cli.VERB:command`."""


_GO_ON = {"reproduce", "train", "sweep", "circuit", "benchmark"}
"""The verbs that go on where they were interrupted."""


class Verbs(click.Group):
    """A group whose commands are imported when they are asked for; `--help` reads only the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb; None if there is no such verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"hopscope.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hopscope.__version__, prog_name="hopscope")
def program() -> None:
    """A laboratory for the retrieval problem: how transformers reason over several hops.

    Start with `hopscope reproduce`; `hopscope VERB --help` shows examples.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit; see `hopscope.exit`.

    Without `arguments` those of the process are taken, and the process counts as the program's own.
    """
    if arguments is None:
        claim_process()
        raise_on_stop_signals()
        os.environ["MPLBACKEND"] = "agg"  # a notebook's own, which its shells inherit, need not be installed here
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # what a terminal's encoding lacks
    run_and_exit(program, "hopscope", arguments, resumes=_goes_on(sys.argv[1:] if arguments is None else arguments))


def _goes_on(arguments: list[str]) -> bool:
    """Whether such a command, interrupted, goes on where it was when it is given again."""
    verb, what, *_ = [*arguments, "", ""]
    begins_again = "--overwrite" in arguments or what in ("certify", "compare", "census")
    return verb in _GO_ON and not (verb == "circuit" and begins_again)
