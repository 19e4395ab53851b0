"""What came of an attack, as the table in docs/reliability.md."""

from __future__ import annotations

from attacker import Tally

_ROWS = {
    "options of": "commands with bent options",
    "files read by": "commands on damaged files",
    "kills of": "kills, then the same bytes",
    "flipped bits": "single bits flipped in files of a run and a reproduction, refused by name or of the same content",
}


def table(tally: Tally) -> str:
    """In Markdown, and below it the cases by status, what was stopped in allowed work, and every fault."""
    lines = ["| what | cases | faults |", "|---|---:|---:|"]
    for start, title in _ROWS.items():
        kinds = {kind: count for kind, count in sorted(tally.cases.items()) if kind.startswith(start)}
        each = ", ".join(f"{kind.removeprefix(start).strip()} {count:,}" for kind, count in kinds.items())
        faults = sum(fault.startswith(f"[{start}") for fault in tally.faults)
        lines.append(f"| {title}{': ' + each if len(kinds) > 1 else ''} | {sum(kinds.values()):,} | {faults} |")
    others = [fault for fault in tally.faults if not fault.startswith(tuple(f"[{start}" for start in _ROWS))]
    statuses = ", ".join(f"{count:,} with {status}" for status, count in sorted(tally.statuses.items(), key=str))
    lines += ["", f"By status: {statuses}. Stopped in allowed work: {len(tally.long)}."]
    lines += [f"  {one}" for one in tally.long]
    lines += [f"Faults: {len(tally.faults)}" + (f", {len(others)} of them of the attack itself" if others else "")]
    return "\n".join([*lines, *(f"  {fault}" for fault in tally.faults)])
