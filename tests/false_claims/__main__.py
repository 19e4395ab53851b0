"""The tables of "How often these rules are wrong": of `docs/claims.md` by `python tests/false_claims`, in a minute, and
with `--studies` those of `docs/studies/how-often-wrong.md`, in another. With `--circuits FOLDER` how often false
circuits pass with own and with imposed patterns, in an hour of a core (`python -m studies calibration` has own patterns
alone)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from false_claims import DRAWS_OF_PAGES, cases, table
from false_studies import calibrate
from false_studies import cases as cases_of_studies


def main() -> None:
    """Draw, judge, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", action="store_true", help="the rules of our own studies, not those of the claims")
    parser.add_argument(
        "--draws", type=int, default=DRAWS_OF_PAGES, help=f"how often each kind of data is drawn ({DRAWS_OF_PAGES})"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draws (0)")
    parser.add_argument("--circuits", type=Path, metavar="FOLDER", help="false circuits, not rules; continued if begun")
    options = parser.parse_args()
    if options.circuits:
        print(calibrate(options.circuits))
        return
    every = cases_of_studies() if options.studies else cases()
    for true in (False, True):
        print(table([case for case in every if case.true == true], options.draws, options.seed), end="\n\n")


if __name__ == "__main__":
    main()
