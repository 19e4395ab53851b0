"""The command line: verbs, each imported only when it is called."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module

import click

import hopscope
from hopscope.cli.exit import exit_status
from hopscope.processes import claim_process, raise_on_stop_signals

VERBS = {
    "reproduce": ("training_verbs", "The main job: train, analyse, report."),
    "train": ("training_verbs", "Train transformers on the retrieval problem."),
    "sweep": ("training_verbs", "Train by depth, seeds and formulation, and draw Figure 4."),
    "circuit": ("circuit_verbs", "Find the circuit of a trained model, certify and draw it; certify your own."),
    "emergence": ("circuit_verbs", "How the heads of a run's circuit emerged, checkpoint by checkpoint."),
    "explore": ("folder_verbs", "Interactive HTML page: inspect a trained model and ablate its paths."),
    "export": ("folder_verbs", "Write a language model's circuit for EAP-IG and MIB."),
    "theory": ("problem_verbs", "How many layers D hops need: bound, exact minimum, a schedule."),
    "benchmark": ("benchmark_verb", "Put the problem as text to language models."),
    "report": ("folder_verbs", "Rebuild the report from existing results."),
    "check": ("folder_verbs", "Verify the checksums of a run folder."),
    "sample": ("problem_verbs", "Print examples of the problem, as vectors or as text."),
}
"""For each verb, the module with a command of the same name, and the verb's line in `hopscope --help`."""

_RESUMING = {"reproduce", "train", "sweep", "circuit", "benchmark"}
"""The verbs that go on where they were interrupted."""


class Verbs(click.Group):
    """A group whose commands are imported on use; `--help` reads only the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a verb; None if there is no such verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"hopscope.cli.{VERBS[cmd_name][0]}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs, without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(hopscope.__version__, prog_name="hopscope")
def program() -> None:
    """A laboratory for the retrieval problem: how transformers reason over several hops.

    Start with `hopscope reproduce`; `hopscope VERB --help` shows examples.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit; see `hopscope.cli.exit`.

    Without `arguments`, the program reads those of the process, claims the process and handles its signals.
    """
    if arguments is None:
        claim_process()
        raise_on_stop_signals()
        os.environ["MPLBACKEND"] = "agg"  # a notebook's own, which its shells inherit, need not be installed here
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # characters that a terminal's encoding lacks
    verb, name, *_ = [*(sys.argv[1:] if arguments is None else arguments), "", ""]
    sys.exit(exit_status(program, arguments, resumes=verb in _RESUMING and name != "certify"))
