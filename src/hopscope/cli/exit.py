"""How the program ends: with an exit status and, unless it is 0, one sentence that is safe to show in a terminal."""

from __future__ import annotations

import re
import sys

import click

from hopscope.errors import InputError, machine_trouble

_LONGEST_WORD, _LONGEST = 300, 2000


def exit_status(program: click.Command, arguments: list[str] | None, *, resumes: bool) -> int:
    """Run a program with the given arguments (None for those of the process) and return its exit status.

    The status is 0 on success, 1 after a failure of the machine (such as a full disk), 2 on bad input and 130 after an
    interruption. `resumes` says whether the same command continues an interrupted one.
    """
    try:
        status = program.main(arguments, prog_name="hopscope", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except SystemExit:  # click's, where a pipe is broken
        if not _output_is_closed():
            return _say("a pipe to another process broke; nothing finished was lost", 1)
        sys.stderr.close()
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        sentence = error.format_message().rstrip(".")
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
        return _say(f"{sentence[:1].lower()}{sentence[1:]}" + (f"; see `{command} --help`" if command else ""), 2)
    except InputError as error:
        return _say(str(error), 2)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted" + ("; the same command continues from what is on disk" if resumes else ""), 130)
    except Exception as error:
        trouble = machine_trouble(error)
        if trouble is None:
            raise
        return _say(f"{trouble}; nothing finished was lost", 1)


def _output_is_closed() -> bool:
    """Whether the reader of our output has closed it, as `head` does."""
    if sys.platform == "win32":  # which cannot tell
        return True
    import select

    streams = select.poll()
    for stream in (1, 2):
        streams.register(stream, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in streams.poll(0))


def _say(sentence: str, status: int) -> int:
    click.echo(f"hopscope: {readable(sentence)}", err=True)
    return status


def readable(text: str) -> str:
    """The text without control characters and direction marks, and with very long values shortened."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text.replace("\n", " "))
    shown = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:60]}...{word[0][-60:]}", shown)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST // 2]}...{shown[-_LONGEST // 2 :]}"
