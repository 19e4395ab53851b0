"""The claims in Markdown pages, and what the stored results know of them, condensed for the package (`make claims`).

`python docs/claims_pages.py README.md docs/claims.md FOLDER... results/language-models`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hopscope.benchmark.results import markdown
from hopscope.errors import InputError
from hopscope.paper.claims import CLAIMS, STORED, THEOREM, Finding, complete, read_claims, stored, write_claims
from hopscope.paper.section_4 import NEAR_PERFECT, NINE
from hopscope.records import read_json, write_text
from hopscope.words import markdown_table


def claims_table(found: Sequence[Finding], *, short: bool = False) -> str:
    """A row for each claim, with what the paper says and both columns, in Markdown; if `short`, without spreads and
    reasons."""
    rows = []
    for row in found:
        outside = row.id == "C14"  # names of language models come from outside
        spread, reason = (markdown(text) if outside else text for text in (row.general_column, row.reason))
        cells = [f"{row.id} {row.claim.title}", row.claim.number, row.paper_column]
        said = ", ".join(part for part in (row.in_general, row.share_in_words) if part)
        said = f"in trained models: {said}" if row.as_the_paper == THEOREM and row.share else said
        rows.append([*cells, said] if short else [*cells, spread, reason])
    heads = ["claim", "paper", "as the paper did it", "in general", "why"]
    return markdown_table(heads[:4] if short else heads, rows)


def case_table() -> str:
    """Every claim with the paper's number and what a case is, in Markdown."""
    rows = [[f"{id} {claim.title}", f"{claim.number} ({claim.where})", claim.case] for id, claim in CLAIMS.items()]
    return markdown_table(["claim", "paper", "a case, and when it is as claimed"], rows)


def between_marks(text: str, name: str, made: str) -> str:
    """The text with `made` between the two marks of that name.

    Raises:
        InputError: the text does not have both marks, once each.
    """
    first, last = f"<!-- {name}: made by `make claims` -->", f"<!-- end of {name} -->"
    if text.count(first) != 1 or text.count(last) != 1:
        raise InputError(f"the text must have each of the marks {first} and {last} once")
    before, _, rest = text.partition(first)
    return f"{before}{first}\n{made}{last}{rest.partition(last)[2]}"


def condensed(folders: Sequence[Path]) -> tuple[Finding, ...]:
    """For every claim what the first of these folders that knows something says, and where that is."""
    found: dict[str, Finding] = {}
    for folder in folders:
        for finding in read_claims(folder / "claims.json"):
            if finding.known:
                at = f"{folder.as_posix()}/{finding.run}" if finding.run else folder.as_posix()
                found.setdefault(finding.id, replace(finding, run=at))
    return complete(found.values())


def small_models(path: Path) -> Finding:
    """C14 by the pretrained models in the summary of `studies.language_models`, by instruction and as code."""
    points = [point for point in read_json(path, "a summary")["points"] if point["mode"] == "exact"]
    models: dict[str, dict[tuple[str, int], float]] = {}
    for point in points:
        if point["form"] == "instruction":
            models.setdefault(point["model"], {})[point["formulation"], point["hops"]] = point["accuracy"] or 0.0
    whole = {model: [found[key] for key in NINE] for model, found in models.items() if found.keys() >= set(NINE)}
    good = sum(min(found) >= NEAR_PERFECT for found in whole.values())
    name, best = max(whole.items(), key=lambda item: sum(item[1]))
    as_code = (name, "code", "equations")
    code = {p["hops"]: p["accuracy"] for p in points if (p["model"], p["form"], p["formulation"]) == as_code}
    spread = (
        f"{name}: {', '.join(f'{value:.2f}' for value in best[:5])} at D = 1..5, "
        f"{', '.join(f'{key[0]} {value:.2f}' for key, value in zip(NINE[5:], best[5:], strict=True))}; "
        f"as code {', '.join(f'{code[hops]:.2f}' for hops in sorted(code))} at D = 1..{max(code)}"
    )
    why = "not the paper's models: at most 1.5 billion weights of 4 bits; no evidence about large models"
    scale = (
        f"language-models: {min(point['n'] for point in points if point['model'] == name)} or more questions per point"
    )
    return Finding("C14", reason=why, in_general="open", share=(good, len(whole)), spread=spread, scale=scale)


def main(arguments: Sequence[str]) -> None:
    """Write what all folders know, the README's table, and the page; the last folder is of language models."""
    readme, page, *folders, models = map(Path, arguments)
    write_claims(models / "claims.json", complete([small_models(models / "summary.json")]))
    write_claims(STORED, condensed([*folders, models]))
    tables = {folder.name: read_claims(folder / "claims.json") for folder in (*folders, models)}
    known = {name: [row for row in table if row.known] for name, table in tables.items()}
    whole = "\n".join(f"### {name}\n\n{claims_table(rows)}" for name, rows in known.items())
    parts = (
        (readme, "claims", claims_table(stored(), short=True)),
        (page, "cases", case_table()),
        (page, "tables", whole),
    )
    for path, name, made in parts:
        write_text(path, between_marks(path.read_text(encoding="utf-8"), name, made))


if __name__ == "__main__":
    main(sys.argv[1:])
