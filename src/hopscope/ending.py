"""How the program ends: its exit status and, where that is not 0, one sentence that is safe to show in a terminal."""

from __future__ import annotations

import re
import sys
from typing import NoReturn

import click

from hopscope.errors import InputError, lacking

_LONGEST_WORD, _LONGEST = 300, 2000


class _BrokenPipe(Exception):
    """A pipe that was written to no longer has a reader."""


def run_to_its_end(
    program: click.Command, name: str, arguments: list[str] | None = None, *, goes_on: bool = True
) -> NoReturn:
    """Run a program and exit: 0 on success, 1 on trouble of the machine, 2 on bad input, 130 when interrupted.

    Args:
        program: the program to run.
        name: its name in the help.
        arguments: its arguments; None for those of the process.
        goes_on: whether the same command goes on where it was interrupted.
    """
    try:
        status = _run(program, name, arguments)
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        _tell(error)
        sys.exit(2)
    except InputError as error:
        _say(_as_options(str(error)))
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted; the same command continues from what is on disk" if goes_on else "interrupted")
        sys.exit(130)
    except _BrokenPipe:
        if _nobody_reads():
            sys.stderr.close()
            sys.exit(0)
        _say("a pipe to another process broke; nothing finished was lost")
        sys.exit(1)
    except Exception as error:
        trouble = trouble_of_the_machine(error)
        if trouble is None:
            raise
        _say(f"{trouble}; nothing finished was lost")
        sys.exit(1)


def _run(program: click.Command, name: str, arguments: list[str] | None) -> object:
    """What a program returns; click itself ends the process only on a broken pipe."""
    try:
        return program.main(arguments, prog_name=name, standalone_mode=False)
    except SystemExit:
        raise _BrokenPipe from None


def _tell(error: click.ClickException) -> None:
    """Say in one sentence what is wrong with the arguments, and where the rule is; without any, show the help."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    sentence = error.format_message().rstrip(".")
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
    _say(f"{sentence[:1].lower()}{sentence[1:]}" + (f"; see `{command} --help`" if command else ""))


def _nobody_reads() -> bool:
    """Whether our output goes into a pipe that was closed, as by `head`; pipes to our own processes do not count."""
    if sys.platform == "win32":  # which cannot tell
        return True
    import select

    asked = select.poll()
    for stream in (1, 2):
        asked.register(stream, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))


def _say(sentence: str) -> None:
    click.echo(f"hopscope: {readable(sentence)}", err=True)


def _as_options(sentence: str) -> str:
    """The sentence with a Python argument that it advises to pass rewritten as the command-line option."""
    return re.sub(r'\bpass (\w+)="([\w-]+)"', lambda one: f"pass --{one[1].replace('_', '-')} {one[2]}", sentence)


def readable(text: str) -> str:
    """The text without control characters and direction marks, and with very long values shortened."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text.replace("\n", " "))
    shown = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: _shortened(word[0], 60), shown)
    return shown if len(shown) <= _LONGEST else _shortened(shown, _LONGEST // 2)


def _shortened(text: str, kept: int) -> str:
    return f"{text[:kept]}...({len(text) - 2 * kept} characters)...{text[-kept:]}"


def trouble_of_the_machine(error: BaseException) -> str | None:
    """What the machine lacks, in words, if that is what caused an error; else None."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        if isinstance(one, OSError):
            return f"{one.filename or 'this machine'}: {one.strerror}" if one.strerror else str(one)
        if trouble := lacking("out of memory" if isinstance(one, MemoryError) else str(one)):
            return trouble
        seen.append(one)
        one = one.__cause__ or one.__context__
    return None
