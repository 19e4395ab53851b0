"""The manuscript of what was found, written from the records: no number in it was typed by hand.

    python -m studies.manuscript            # docs/paper/manuscript.md from docs/paper/template.md
    python -m studies.manuscript --check    # fails where the manuscript is not what the records say

The template names its numbers, `{{ depth.with_theory }}`; this module takes them from `results/` and from the public
interface. A name without a number, and a number without a name in the template, is an error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2

import hopscope as hs

ROOT = Path(__file__).parents[1]
TEMPLATE, MANUSCRIPT = "docs/paper/template.md", "docs/paper/manuscript.md"
EXISTS = {"C21"}
"""Claims that one model is enough to show, so that a share says nothing of them."""
Record = dict[str, Any]


def read(root: Path, name: str) -> Any:
    """The record `name` under `results/`."""
    return json.loads((root / "results" / name).read_text())


def share(count: int, trials: int) -> str:
    """A count with its exact 95% interval.

    >>> share(3, 4)
    '3 of 4 (19% to 99%)'
    """
    low, high = hs.statistics.clopper_pearson(count, trials)
    return f"{count} of {trials} ({100 * low:.0f}% to {100 * high:.0f}%)"


def learned(conditions: Sequence[Record], hop: int = -1) -> str:
    """In how many runs of these conditions a hop was learned, by default the last that was asked for."""
    steps = [run[hop] for condition in conditions for run in condition["learned"]]
    return share(sum(step is not None for step in steps), len(steps))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def theory() -> Record:
    """The least depths of every setting, by the public formulas."""
    hops = [1, 2, 3, 4, 5, 6, 7, 8, 16, 64]
    rows = []
    for each in hops:
        depths = hs.theory.depths(each)
        best = hs.theory.min_layers(
            hs.RetrievalProblem(hops=each, order=",".join(map(str, hs.theory.best_order(each))))
        )
        rows.append([each, depths.theorem_1, depths.no_mask, best, depths.causal, depths.causal_head_a_row])
    head = ["D", "Theorem 1", "no mask", "causal, best order", "causal, deepest first", "causal, a head a row"]
    return {"table": table(head, rows), "paths": hs.theory.minimum_paths(3)}


def depth(root: Path) -> Record:
    """Runs that learned all hops, by layers more or less than theory asks for; causal mask, eight heads."""
    conditions = [
        each for each in read(root, "studies/depth/depth.json")["conditions"] if "causal/many" in each["name"]
    ]
    rows = []
    for each in conditions:
        hops, least = each["problem_fields"]["hops"], hs.theory.depths(each["problem_fields"]["hops"]).causal
        rows.append((hops, each["layers"] - least, each))
    middle = [(more, each) for hops, more, each in rows if 3 <= hops <= 7]
    by_hop = [
        [hops, hs.theory.depths(hops).causal]
        + [next((learned([each]) for D, more, each in rows if (D, more) == (hops, step)), "-") for step in (-1, 0, 1)]
        for hops in range(1, 9)
    ]
    return {
        "with_theory": learned([each for more, each in middle if more == 0]),
        "one_less": learned([each for more, each in middle if more == -1]),
        "table": table(["D", "theory's layers", "one layer less", "theory's layers", "one layer more"], by_hop),
    }


def places(root: Path) -> Record:
    """Two hops in two layers by chains and heads; three and four hops with a head for every row."""
    conditions = read(root, "studies/places/places.json")["conditions"]
    rows = read(root, "studies/rows/rows.json")["conditions"]

    def of(chains: int, heads: int) -> Record:
        found = (
            each
            for each in conditions
            if (each["problem_fields"].get("chains", 4), each["heads"], each["layers"]) == (chains, heads, 2)
        )
        return next(found)

    heads = (1, 2, 4, 8, 16, 32)
    grid = [[f"{chains} chains"] + [learned([of(chains, each)]) for each in heads] for chains in (2, 3, 4)]
    by_name = {each["name"]: each for each in rows}
    moved = [each for each in read(root, "studies/places/judgements.json") if "position-based" in each["hypothesis"]]
    return {
        "table": table(["two hops, two layers; heads", *map(str, heads)], grid),
        "position_based": sum(int(each["observed"].split()[0]) for each in moved),
        "of": sum(each["n"] for each in moved),
        "three_in_two": learned([by_name["3-hops-2-layers"]]),
        "four_in_three": learned([by_name["4-hops-3-layers"]]),
    }


def curriculum(root: Path) -> Record:
    """What was asked against what was learned: counts in cells."""
    conditions = read(root, "studies/curriculum/curriculum.json")["conditions"]
    rows = []
    for each in conditions:
        fields = each["problem_fields"]
        hops = fields["hops"]
        asked = fields.get("asked") or ([hops] if fields.get("curriculum") is False else list(range(1, hops + 1)))
        cells = ["-"] * 4
        for place, hop in enumerate(asked):
            cells[hop - 1] = str(sum(run[place] is not None for run in each["learned"])) + f" of {len(each['learned'])}"
        rows.append([each["name"], each["layers"], *cells[:4]])
    whole = [each for each in conditions if "weight" not in each["name"] and "10-times" not in each["name"]]
    first = [each for each in whole if len(each["learned"][0]) > 1 and 1 in each["problem_fields"].get("asked", [1])]
    rest = [each for each in whole if each not in first]  # ten times the steps go on with ten of these
    none = [run for each in rest for run in each["learned"]]
    return {
        "table": table(["asked", "layers", "x1", "x2", "x3", "x4"], rows),
        "first_asked": learned(first, 0),
        "first_missing": share(sum(any(step is not None for step in run) for run in none), len(none)),
        "bridged": learned([each for each in conditions if each["name"] == "3-hops/x1-x3"]),
        "two_missed": learned([each for each in conditions if each["name"] == "4-hops/x1-x4"]),
        "seeds": len(conditions[0]["seeds"]),
    }


def circuits(root: Path) -> Record:
    """Plans of trained circuits by depth; how often a false circuit passes; whole models."""
    models = [each for each in read(root, "studies/census/census.json")["models"] if each["paths"]]
    rows = []
    for layers in (3, 4, 6):
        these = [each for each in models if each["layers"] == layers]
        sizes = sorted(len(each["paths"]) for each in these)
        plans = [sum(each["strategy"] == plan for each in these) for plan in ("doubling", "line by line", "serial")]
        rows.append([layers, len(these), share(plans[0], len(these)), *plans[1:], sizes[len(sizes) // 2]])
    cells = read(root, "studies/calibration/calibration.json")["cells"]
    own = [each for each in cells if each["patterns"] == "own"]
    true, false = [each for each in own if each["kind"] == "true"], [each for each in own if each["kind"] != "true"]
    whole = read(root, "studies/whole/whole.json")["models"]
    certified = sum(bool(each["paths"]) and not each["failed"] for each in whole)
    pruning = read(root, "studies/pruning/pruning.json")
    alone = {each["seed"]: bool(each["certified"]) for each in pruning["pruned"]}
    pairs = [(alone[each["seed"]], bool(each["certified"])) for each in pruning["whole"]]
    return {
        "table": table(["layers", "circuits", "doubling", "line by line", "serial", "paths, median"], rows),
        "true_passed": share(sum(each["passed"] for each in true), sum(each["n"] for each in true)),
        "false_passed": share(sum(each["passed"] for each in false), sum(each["n"] for each in false)),
        "whole": share(certified, len(whole)),
        "given_up": sum(not each["paths"] for each in whole),
        "gained": sum(pruned and not heads for pruned, heads in pairs),
        "lost": sum(heads and not pruned for pruned, heads in pairs),
        "pairs": len(pairs),
    }


def paper(root: Path) -> Record:
    """The claims of the paper in two columns, and the final losses of its own recipe."""
    claims = read(root, "paper/claims.json")
    asked = {each["id"]: each for each in read(root, "language-models/claims.json") if each["share"]}
    claims = [asked.get(each["id"], each) for each in claims]  # C14, of language models
    models = read(root, "paper/summary.json")["models"]
    rows = [[each["id"], each["title"], each["as_the_paper"], _general(each)] for each in claims]
    deep = [each for each in models if each["curriculum"] and each["layers"] >= 5]
    hard = [each for each in models if not each["curriculum"]]
    learned_all = sum(all(loss < 0.5 for loss in each["partial_losses"]) for each in deep)
    between = sum(0.1 < loss < 0.74 for each in models if each["curriculum"] for loss in each["partial_losses"])
    return {
        "table": table(["claim", "what it says", "as the paper did it", "in general"], rows),
        "claims": len(claims),
        "models": len(models),
        "deep_all": share(learned_all, len(deep)),
        "hard_fail": share(sum(each["loss"] > 0.7 for each in hard), len(hard)),
        "between": between,
        "losses": sum(len(each["partial_losses"]) for each in models if each["curriculum"]),
    }


def _general(claim: Record) -> str:
    if not claim["share"] or claim["id"] in EXISTS:
        return str(claim["in_general"])
    return f"{claim['in_general']}, {share(*claim['share'])}"


def language(root: Path) -> Record:
    """Pretrained models by form and D, and what makes two hops harder; own text models."""
    points = read(root, "language-models/summary.json")["points"]
    exact = [each for each in points if each["mode"] == "exact" and each["formulation"] == "equations"]
    models = list(dict.fromkeys(each["model"] for each in exact))
    rows = []
    for model in models:
        for form in ("instruction", "code"):
            these = {each["hops"]: each for each in exact if (each["model"], each["form"]) == (model, form)}
            cells = [_accuracy(these[hops]) if hops in these else "-" for hops in range(1, 5)]
            rows.append([model.split("-Instruct")[0], form, *cells])
    harder = {(each["dress"], each["hops"]): each for each in read(root, "language-models/harder/summary.json")}
    found = read(root, "studies/text/text.json")["found"]
    several = [each for each in found if each["hops"] > 1 and each.get("paths")]
    early = [each for each in several if each["strategy"] in ("doubling", "line by line")]
    three = [each for each in found if each["condition"] == "pruned-six-layers" and each["hops"] == 3]

    def likeliest(dress: str, hops: int = 2) -> str:
        each = harder[dress, hops]
        return f"{each['likeliest']} of {each['n']} ({100 * each['low']:.0f}% to {100 * each['high']:.0f}%)"

    return {
        "table": table(["model", "form", *(f"{hops} hops" if hops > 1 else "1 hop" for hops in range(1, 5))], rows),
        "plain": likeliest("as published"),
        "eight_chains": likeliest("8 chains"),
        "letter_between": f"{harder['8 chains', 2]['kinds']['letter of its own chain']:.2f}",
        "block_first": likeliest("question's block first"),
        "solved": likeliest("4 solved questions"),
        "early": share(len(early), len(several)),
        "three_hops": share(sum(each["lowest"] >= 0.95 for each in three), len(three)),
    }


def _accuracy(point: Record) -> str:
    return f"{point['accuracy']:.2f} ({point['low']:.2f} to {point['high']:.2f}; n = {point['n']})"


def numbers(root: Path) -> Record:
    """Every number of the manuscript, by section and name."""
    return {
        "theory": theory(),
        "depth": depth(root),
        "places": places(root),
        "curriculum": curriculum(root),
        "circuits": circuits(root),
        "paper": paper(root),
        "language": language(root),
    }


def unused(template: str, named: Record) -> Iterator[str]:
    """Numbers that the template does not name."""
    for section, values in named.items():
        for name in values:
            if f"{{{{ {section}.{name} }}}}" not in template:
                yield f"{section}.{name}"


def written(root: Path) -> str:
    """The manuscript, as the records have it.

    Raises:
        hs.InputError: the template names a number that there is not, or leaves one out.
    """
    template, named = (root / TEMPLATE).read_text(), numbers(root)
    if left := list(unused(template, named)):
        raise hs.InputError(f"{TEMPLATE} does not use {', '.join(left)}: name them in it, or take them from the module")
    try:
        return (
            jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
            .from_string(template)
            .render(named)
        )
    except jinja2.UndefinedError as error:
        raise hs.InputError(f"{TEMPLATE} names a number that no record gives: {error}") from None


def main(arguments: Sequence[str]) -> int:
    """Writes the manuscript, or checks it."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.manuscript", description="The manuscript, from the records."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the manuscript is out of date")
    options = parser.parse_args(arguments)
    text, target = written(ROOT), ROOT / MANUSCRIPT
    if options.check and target.read_text() != text:
        print(f"{MANUSCRIPT} is not what the records say: python -m studies.manuscript writes it anew", file=sys.stderr)
        return 1
    if not options.check:
        target.write_text(text)
        print(MANUSCRIPT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
