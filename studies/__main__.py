"""The command `python -m studies NAME`, which runs a study of our own questions with many models."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from studies import pretrained
from studies.catalogue import STUDIES
from studies.tools.command import status
from studies.tools.study import answer
from studies.tools.work import Work

EPILOG = "studies:\n" + "".join(f"  {name:<12} {study.question}\n" for name, (study, _) in STUDIES.items())
EPILOG += f"  {'pretrained':<12} {(pretrained.__doc__ or '').splitlines()[0]} (reads results/, trains nothing)\n"


def main(arguments: list[str] | None = None) -> int:
    """Run a study, or continue where it stopped, and print its tables. Return the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["pretrained"]:
        return pretrained.main(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m studies",
        description="Run a study, or continue where it stopped, and print its tables. The numbers, the verdicts (JSON) "
        "and the figure are stored in FOLDER. The trained models are stored in FOLDER/runs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=STUDIES, metavar="NAME")
    parser.add_argument("folder", type=Path, nargs="?", help="default: runs/studies/NAME, or NAME-quick with --quick")
    parser.add_argument("--quick", action="store_true", help="train only a few small models, as a trial")
    parser.add_argument("--judge", action="store_true", help="train nothing; judge the finished runs")
    parser.add_argument(
        "--conditions", action="append", default=[], metavar="PATTERN", help="train only these conditions, e.g. 'K/*'"
    )
    parser.add_argument("--workers", type=int, help="number of processes (default: one per core)")
    parser.add_argument("--device", help="device to train on (default: a GPU if available)")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"))
    parser.add_argument("--json", action="store_true", help="print the verdicts and numbers as JSON")
    options = parser.parse_args(given)
    study, draw = STUDIES[options.name]
    folder = options.folder or Path("runs/studies") / (f"{options.name}-quick" if options.quick else options.name)
    work = Work(options.workers, options.device, options.precision, options.judge, tuple(options.conditions))

    def run() -> None:
        found = answer(study, draw, folder, work, quick=options.quick)
        if options.json:
            numbers = {"study": options.name, "judgements": found.judgements, "result": found.result}
            print(msgspec.json.encode(numbers).decode())
        else:
            print(found.text)

    return status(run)


if __name__ == "__main__":
    sys.exit(main())
