"""The numbers of the manuscript, from `results/` and from the public interface, by section and name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import hopscope as hs
from studies.codes import outcomes
from studies.manuscript_language import language
from studies.manuscript_records import Record, read, study
from studies.tools.conditions import Condition
from studies.tools.inference import share_in_words as share
from studies.tools.records import markdown_table as table

EXISTS = {"C21"}
"""Claims that one model is enough to show. The share of models is not given for them."""


def learned(conditions: Sequence[Condition], hop: int | None = None) -> str:
    """Return the share of these conditions' runs that learned a hop, by default the last, with its 95% interval."""
    times = [step for each in conditions for step in each.times(each.last if hop is None else hop)]
    return share(sum(step is not None for step in times), len(times))


def theory() -> Record:
    """Return the minimum depths in every setting, by the public formulas."""
    hops = [1, 2, 3, 4, 5, 6, 7, 8, 16, 64]
    rows = []
    for each in hops:
        depths, order = hs.theory.depths(each), ",".join(map(str, hs.theory.best_order(each)))
        best = hs.theory.min_layers(hs.RetrievalProblem(hops=each, order=order))
        rows.append([each, depths.theorem_1, depths.no_mask, best, depths.causal, depths.causal_head_a_row])
    two = ["no mask, two heads", "causal, best order, two heads"]
    head = ["D", "Theorem 1", *two, "causal, deepest first", "causal, one head per place"]
    return {"table": table(head, rows), "paths": hs.theory.minimum_paths(3)}


def depth(root: Path) -> Record:
    """Return how many runs learned all hops below, at and above the exact depth, with a causal mask and eight heads."""
    found = [each for each in study(root, "depth").conditions if each.name.startswith("causal/many-heads/")]
    by_place = {(each.last, each.layers - each.needs(each.last)): each for each in found}
    sweeps = [each for name in ("figure-4", "paper") for each in read(root, f"{name}/summary.json")["models"]]
    shallow = [each for each in sweeps if each["curriculum"] and each["layers"] < hs.theory.depths(5).causal]
    rows = [
        [hops, hs.theory.depths(hops).causal]
        + [learned([by_place[hops, more]]) if (hops, more) in by_place else "-" for more in (-1, 0, 1)]
        for hops in range(1, 9)
    ]
    early = [by_place[hops, -1] for hops in range(3, 8)]
    may = sum(each.learned_what_they_may for each in early)
    every = [each for each in study(root, "depth").conditions if each.last >= 2]
    unmasked = [each for each in every if each.name.startswith("no-mask/many-heads/")]
    return {
        "open_second": _second(unmasked),
        "single_second": _second([each for each in every if "/one-head/" in each.name]),
        "with_theory": learned([by_place[hops, 0] for hops in range(3, 8)]),
        "one_less": learned(early),
        "went_on": share(sum(map(len, (each.steps(each.last) for each in early))), may),
        "five_hops": share(sum(map(_learned_early, shallow)), len(shallow)),
        "table": table(["D", "exact depth in layers", "with one less", "at exact depth", "with one more"], rows),
    }


def _second(conditions: Sequence[Condition]) -> str:
    """Return how many models learned a second hop."""
    second = sum(len(each.steps(2)) for each in conditions)
    return f"{second} of {sum(len(each.seeds) for each in conditions)}"


def _learned_early(model: Record) -> bool:
    """Return whether a model of Figure 4 learned a hop with fewer layers than the exact depth of this hop."""
    hops = enumerate(model["partial_losses"], 1)
    return any(loss < 0.5 and model["layers"] < hs.theory.depths(hop).causal for hop, loss in hops)


def _short(condition: Condition) -> str:
    """Return how many seeds of a condition learned its last hop, without an interval."""
    return f"{len(condition.steps(condition.last))} of {len(condition.seeds)}"


def places(root: Path) -> Record:
    """Return how many runs learned two hops in two layers by chains and heads, and more hops with one head per row."""
    found, rows = study(root, "places"), {each.name: each for each in study(root, "rows").conditions}
    shallow = {(each.problem.chains, each.heads): each for each in found.shallow}
    chains, heads = (sorted({shape[place] for shape in shallow}) for place in (0, 1))
    grid = [[f"{number} chains", *(learned([shallow[number, each]]) for each in heads)] for number in chains]
    escape = study(root, "escape")
    few = [test for test in escape.places if "2-layers-4-heads/" in test.model and test.learned(2)]
    early = {(each.problem.chains, each.heads): each for each in escape.shallow if each.last == 2}
    tested = [test for number in chains for test in found.of(shallow[number, 16])]
    codes = {name: share(sum(of), len(of)) for name, of in outcomes(study(root, "codes")).items()}
    deep = {each.name: each for each in study(root, "depth").conditions}["causal/many-heads/2-hops/2-layers"]
    few_found = sum(test.is_position_based(2) for test in few)
    return {
        "with_pair_codes": codes["a layer saved, pair codes"],
        "with_no_code": codes["a layer saved, no code"],
        "table": table(["heads per layer", *heads], grid),
        "position_based": share(sum(test.is_position_based(2) for test in tested), len(tested)),
        "three_in_two": learned([rows["3-hops-2-layers"]]),
        "four_in_three": learned([rows["4-hops-3-layers"]]),
        **{f"with_{chains}": learned([each]) for (chains, heads), each in early.items() if heads == max(2 * chains, 4)},
        "with_4_and_16_heads": learned([early[4, 16]]),
        "with_4_longer": learned(escape.longer),
        "four_above": f"{_short(deep)} and {_short(shallow[4, 8])}",
        "four_above_16": _short(shallow[4, 16]),
        "found": share(few_found, len(few)),
    }


def curriculum(root: Path) -> Record:
    """Return how many seeds learned each hop, for each choice of the hops that training asks for."""
    conditions = study(root, "curriculum").conditions
    by_name = {each.name: each for each in conditions}
    rows = [
        [_in_words(each.name), each.layers]
        + [f"{len(each.steps(hop))} of {len(each.seeds)}" if hop in each.hops else "-" for hop in range(1, 5)]
        for each in conditions
        if not any(word in each.name for word in ("weight", "layers", "handed", "mixture", "own"))
    ]
    unlike = ("weight", "10-times", "mixture")
    alike = [each for each in conditions if not any(word in each.name for word in unlike)]
    fair, own = ([each for each in alike if ("own" in each.name) is with_own] for with_own in (False, True))
    first, rest = ([each for each in fair if (1 in each.hops) is asked] for asked in (True, False))
    first_own, rest_own = ([each for each in own if (1 in each.hops) is asked] for asked in (True, False))
    return {
        "table": table(["asked for", "layers", "x1", "x2", "x3", "x4"], rows),
        "first_asked": learned(first, 1),
        "first_missing": _any_hop(rest),
        "first_asked_own": learned(first_own, 1),
        "first_missing_own": _any_hop(rest_own),
        "bridged": learned([by_name["3-hops/x1-x3"]]),
        "bridged_four": learned([by_name["4-hops/x1-x3-x4"]]),
        "two_missed": learned([by_name["4-hops/x1-x4"]]),
        "seeds": len(conditions[0].seeds),
        "mixed": learned([by_name["3-hops/mixture-1-2-3"]]),
        "mixed_ends": learned([by_name["3-hops/mixture-1-3"]]),
        "mixed_late": learned([by_name["3-hops/mixture-2-3"]]),
    }


def _in_words(name: str) -> str:
    """Return the name of a condition in words: `3-hops/x1-x3` becomes `3 hops: x1, x3`."""
    hops, asked, *more = name.split("/")
    asked = asked.removesuffix("-alone").replace("-", ", ")
    return f"{hops.replace('-', ' ')}: {', '.join([asked, *(each.replace('-', ' ') for each in more)])}"


def _any_hop(conditions: Sequence[Condition]) -> str:
    """Return the share of all seeds that learned at least one hop."""
    return share(sum(each.learned_any(each.hops) for each in conditions), sum(len(each.seeds) for each in conditions))


def circuits(root: Path) -> Record:
    """Return the plans of trained circuits by depth, how often false circuits pass, and results for whole models."""
    models = [each for each in study(root, "census").models if each.paths]
    rows = []
    for layers in (3, 4, 6):
        these = [each for each in models if each.layers == layers]
        plans = [sum(each.strategy == plan for each in these) for plan in ("doubling", "line by line", "serial")]
        size = int(median(len(each.paths) for each in these))
        rows.append([layers, len(these), share(plans[0], len(these)), *plans[1:], size])
    planted = study(root, "calibration")
    true, false, trained = (
        [each for each in planted.among(origin, "own") if (each.kind == "true") is wanted]
        for origin, wanted in (("built", True), ("built", False), ("trained", False))
    )
    whole = study(root, "whole").models
    pairs = [(bool(pruned.certified), bool(every.certified)) for pruned, every in study(root, "pruning").pairs]
    codes = {name: share(sum(of), len(of)) for name, of in outcomes(study(root, "codes")).items()}
    return {
        "double_pair": codes["circuit doubles, pair codes"],
        "double_token": codes["circuit doubles, token codes"],
        "table": table(["layers", "circuits", "doubling", "line by line", "serial", "median paths"], rows),
        "true_passed": share(sum(each.passed for each in true), sum(each.n for each in true)),
        "false": sum(each.n for each in false),
        "false_in_trained": sum(each.n for each in trained),
        "certified": share(sum("own" in each.certified for each in models), len(models)),
        "whole": share(sum(each.certified for each in whole), len(whole)),
        "given_up": sum(not each.paths for each in whole),
        "gained": pairs.count((True, False)),
        "lost": pairs.count((False, True)),
        "pairs": len(pairs),
    }


def paper(root: Path) -> Record:
    """Return the paper's claims with their two verdicts, and the final losses of models of the paper's recipe."""
    claims = read(root, "paper/claims.json")
    asked = {each["id"]: each for each in read(root, "language-models/claims.json") if each["share"]}
    claims = [asked.get(each["id"], each) for each in claims]  # C14, on language models
    models = read(root, "paper/summary.json")["models"]
    rows = [[each["id"], each["title"], each["as_the_paper"], _general(each)] for each in claims]
    deep = [each for each in models if each["curriculum"] and each["layers"] >= 5]
    hard = [each for each in models if not each["curriculum"]]
    learned_all = sum(all(loss < 0.5 for loss in each["partial_losses"]) for each in deep)
    between = sum(0.1 < loss < 0.74 for each in models if each["curriculum"] for loss in each["partial_losses"])
    fewest = hs.Circuit.load(root / "results/paper/transformers/a-seed-7/circuit.json").imposed
    assert fewest is not None
    assert fewest.own is not None
    return {
        "table": table(["claim", "what it says", "as the paper did it", "in general"], rows),
        "three_paths_own": f"{fewest.own.mean:.2f}",
        "claims": len(claims),
        "models": len(models),
        "with": len(models) - len(hard),
        "unaided": len(hard),
        "shallow": sum(each["layers"] < 5 for each in hard),
        "deep_all": share(learned_all, len(deep)),
        "hard_fail": share(sum(each["loss"] > 0.7 for each in hard), len(hard)),
        "between": between,
        "losses": sum(len(each["partial_losses"]) for each in models if each["curriculum"]),
    }


def _general(claim: Record) -> str:
    if not claim["share"] or claim["id"] in EXISTS:
        return str(claim["in_general"])
    return f"{claim['in_general']}, {share(*claim['share'])}"


def numbers(root: Path) -> Record:
    """Return every number of the manuscript, by section and name."""
    return {
        "theory": theory(),
        "depth": depth(root),
        "places": places(root),
        "curriculum": curriculum(root),
        "circuits": circuits(root),
        "paper": paper(root),
        "language": language(root),
    }
