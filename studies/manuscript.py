"""Write the manuscript from the stored records, so that hardly any number in it is typed by hand.

    python -m studies.manuscript            # docs/paper/manuscript.md from docs/paper/template.md
    python -m studies.manuscript --check    # fails if the manuscript does not match the records

The template names its numbers, such as `{{ depth.with_theory }}`; `manuscript_numbers` computes them. It is an error if
the template names an unknown number, or leaves a number out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import jinja2

import hopscope as hs
from studies.manuscript_numbers import numbers
from studies.manuscript_records import Record
from studies.tools.command import status

ROOT = Path(__file__).parents[1]
TEMPLATE, MANUSCRIPT = "docs/paper/template.md", "docs/paper/manuscript.md"


def unused(template: str, named: Record) -> Iterator[str]:
    """Yield the numbers that the template does not name, as `section.name`."""
    for section, values in named.items():
        for name in values:
            if f"{{{{ {section}.{name} }}}}" not in template:
                yield f"{section}.{name}"


def written(root: Path) -> str:
    """Return the manuscript with its numbers from the records.

    Raises:
        hs.InputError: the template names an unknown number, or leaves a number out.
    """
    template, named = (root / TEMPLATE).read_text(), numbers(root)
    if left := list(unused(template, named)):
        raise hs.InputError(f"{TEMPLATE} does not use {', '.join(left)}; name them in it, or drop them in the module")
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, finalize=lambda value: str(value).rstrip()
    )  # the template itself has the line break after a table
    try:
        return environment.from_string(template).render(named)
    except jinja2.UndefinedError as error:
        raise hs.InputError(f"{TEMPLATE} names a number that no record gives: {error}") from None


def main() -> int:
    """Write the manuscript or check it, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.manuscript", description="Write the manuscript.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the manuscript is out of date")
    check, target = parser.parse_args().check, ROOT / MANUSCRIPT

    def write() -> None:
        text = written(ROOT)
        if check and target.read_text() != text:
            raise hs.InputError(f"{MANUSCRIPT} does not match the records; `make paper` writes it again")
        target.write_text(text)

    return status(write)


if __name__ == "__main__":
    sys.exit(main())
