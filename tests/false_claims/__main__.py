"""The tables of "How often these rules are wrong" in `docs/claims.md`: `python tests/false_claims`, in a minute."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from false_claims import HEADS, table


def main() -> None:
    """Draw, judge, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=250, help="how often each kind of data is drawn (250)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draws (0)")
    options = parser.parse_args()
    for true in HEADS:
        print(table(true, options.draws, options.seed), end="\n\n")


if __name__ == "__main__":
    main()
