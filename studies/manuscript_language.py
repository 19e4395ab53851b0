"""The numbers of the manuscript's section on language models."""

from __future__ import annotations

from pathlib import Path

import hopscope as hs
from hopscope.statistics import wilson
from studies.addresses import Addresses
from studies.knockouts import Knockouts
from studies.line_order import Order
from studies.manuscript_records import Record, read, study
from studies.reuse import Reuse, heads_of
from studies.tools import records
from studies.tools.fresh import Fresh, Share
from studies.tools.inference import share_in_words as share
from studies.tools.records import counted
from studies.tools.records import markdown_table as table


def language(root: Path) -> Record:
    """Return results of pretrained models by form and D, of harder two-hop questions, and of our own text models."""
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
    found = study(root, "text").found
    several = [each for each in found if each.hops > 1 and each.paths]
    early = [each for each in several if each.strategy in ("doubling", "line by line")]
    three = [each for each in found if each.condition == "pruned-six-layers" and each.hops == 3]

    def likeliest(dress: str, hops: int = 2) -> str:
        each = harder[dress, hops]
        return f"{each['likeliest']} of {each['n']} ({100 * each['low']:.0f}% to {100 * each['high']:.0f}%)"

    return {
        "table": table(["model", "form", *(f"{hops} hops" if hops > 1 else "1 hop" for hops in range(1, 5))], rows),
        "plain": likeliest("as published"),
        "other_ways": sum(hops == 2 for _, hops in harder) - 1,
        "eight_chains": likeliest("8 chains"),
        "letter_between": f"{harder['8 chains', 2]['kinds']['letter of its own chain']:.2f}",
        "block_first": likeliest("question's block first"),
        "solved": likeliest("4 solved questions"),
        "early": share(len(early), len(several)),
        "early_models": len({(each.condition, each.seed) for each in several}),
        "early_certified": sum(each.certified for each in several),
        "three_hops": share(sum(each.answers for each in three), len(three)),
        **_one_hop(hs.Circuit.load(root / "results/pretrained/qwen-code-1/circuit.json")),
        **_on_new_prompts(root, "qwen-code-1"),
        **_own_circuit(hs.Circuit.load(root / "results/own-model/three-hops/circuit.json")),
        **_two_lines(root),
        **_reused(root),
        **_binding(hs.Circuit.load(root / "results/pretrained/qwen-code-chains-1/circuit.json")),
    }


def _one_hop(circuit: hs.Circuit) -> Record:
    """Return the numbers of a pretrained model's circuit for one hop, asked as code."""
    card, text, proof = circuit.card, circuit.text, circuit.search.proof
    assert card is not None
    assert text is not None
    assert proof is not None
    best, names = card.baselines, circuit.roles
    return {
        "paths": len(circuit.paths),
        "rows": f"{card.size.active} of {card.size.rows:,} rows",
        "reading": str(len({each.path.layer for each in circuit.paths if names[each.path.key] == ">x1"})),
        "faithful": f"{card.own.uniform:.0%}",
        "faithful_mean": f"{card.own.mean:.0%}",
        "faithful_resample": f"{max(card.own.resample, 0):.0%}",
        "untrained": f"{best.untrained or 0:.0%}",
        "right": _percent(text.scores["own"].accuracy, proof.sequences),
        "card_n": proof.sequences,
        "few": proof.few,
        "checks": _passed(circuit),
        "damage": f"{card.completeness.whole:.0%}",
        "attribution": f"{best.attribution or 0:.0%}",
        "random": f"{best.random or 0:.0%}, the best of {best.drawn}",
    }


def _on_new_prompts(root: Path, circuit: str) -> Record:
    """Return how far a pretrained circuit goes alone, and the model without it, on new prompts."""
    measured = records.read(root / "results/pretrained/fresh.json", list[Fresh])
    found = next(each for each in measured if each.circuit == circuit)
    return {"alone": _share(found.alone), "without": _share(found.without_rows), "fresh": found.prompts}


def _share(found: Share) -> str:
    return "{:.0%} ({:.0%} to {:.0%})".format(found.value, *found.interval)


def _own_circuit(circuit: hs.Circuit) -> Record:
    """Return the size of the circuit of our own text model for three hops, and how many checks it passes."""
    paths, heads = counted(len(circuit.paths), "path"), counted(len(circuit.used_heads), "head")
    return {"own_paths": f"{paths} in {heads}", "own_checks": _passed(circuit)}


def _passed(circuit: hs.Circuit) -> str:
    """Return how many of the checks that were asked a circuit passes."""
    asked = [check for check in circuit.checks.values() if check.outcome != "not asked"]
    return f"{sum(check.passed for check in asked)} of {len(asked)}"


def _binding(circuit: hs.Circuit) -> Record:
    """Return where a line is bound to its name, by the costliest path of a circuit with roles for every line."""
    path = max(circuit.paths, key=lambda path: path.without.mean)
    layer, _, query, key = path.path.names(circuit.roles)
    assert (query, key) == ("x0=", "x0>"), "the manuscript says that this path is from a line's sign to its name"
    return {
        "bound_in": f"{layer} of {circuit.layers}",
        "unbound": _loss(path.without.mean, path.without.interval),
        "bound_paths": len(circuit.paths),
        "bound_checks": _passed(circuit),
    }


def _reused(root: Path) -> Record:
    """Return how far the heads of one hop, and those that a search at two hops keeps, go at one hop and two."""
    folder, circuit = root / "results/pretrained/reuse", root / "results/pretrained/qwen-code-chains-1"
    one, two = heads_of(circuit), heads_of(folder / "two-hops" / "heads.json")
    (at_two,) = (each for each in records.read(folder / "reuse.json", list[Reuse]) if each.hops == 2)
    found = {each.hops: each for each in records.read(folder / "two-hops" / "reuse.json", list[Reuse])}
    return {
        "one_heads": len(one),
        "one_alone": _share(at_two.only),
        "one_without": _share(at_two.without),
        "one_guess": f"{at_two.guess:.0%}",
        "two_heads": len(two),
        "two_shared": len(one & two),
        "two_alone": _share(found[2].only),
        "two_at_one": _share(found[1].only),
        "two_random": f"{max(share.value for hops in (1, 2) for share in found[hops].only_random):.0%}",
        "two_n": found[2].prompts,
    }


def _two_lines(root: Path) -> Record:
    """Return what a pretrained model loses without groups of attention at two hops, and in other orders of lines."""
    found = records.read(root / "results/pretrained/knockouts/2-hops.json", Knockouts)
    alone: Record = {"sure": found.chosen, "sure_loss": f"{found.own:.2f}"}
    for group in ("binds 1", "binds 2", "joins 1", "reads 1", "reads 2", "ends 2"):
        every, *windows = (cut for cut in found.knockouts if cut.group == group)
        most = max(windows, key=lambda cut: cut.loss)
        layers = f"layers {most.first} to {most.last}: {_loss(most.loss, most.interval)}"
        inside = f"; {layers}" if most.loss > 0.1 else ""
        alone[group.replace(" ", "_")] = _loss(every.loss, every.interval) + inside
    control = next(cut for cut in found.knockouts if cut.group == "ends 2, another chain")
    (foretold,) = records.read(root / "results/pretrained/line-order/foretold.json", list[Order])
    first, last = records.read(root / "results/pretrained/line-order/seen.json", list[Order])
    return alone | {
        "control": _loss(control.loss, control.interval),
        "foretold_first": _loss(foretold.loss, foretold.loss_interval),
        "seen_first": _loss(first.loss, first.loss_interval),
        "foretold_last": _loss(foretold.without_joins, foretold.without_joins_interval),
        "seen_last": _loss(last.loss, last.loss_interval),
        "seen_first_without": _loss(first.without_joins, first.without_joins_interval),
        "right_last": _percent(last.accuracy, last.n),
        **_passed_on(root),
    }


def _passed_on(root: Path) -> Record:
    """Return the probability of the other value if the last tokens take a property of a line from another prompt."""
    published, last = (
        records.read(root / f"results/pretrained/addresses/2-hops-{lines}.json", Addresses)
        for lines in ("published", "value-last")
    )

    def end(changed: str, found: Addresses = published, layer: int = 20) -> str:
        cut = next(cut for cut in found.patches if (cut.tokens, cut.property, cut.layer) == ("end", changed, layer))
        return _loss(cut.moved, cut.interval)

    shown = {"both": end("place and name"), "place": end("place"), "name": end("name"), "value": end("value")}
    shown |= {f"last_{changed}": end(changed, last) for changed in ("place", "name")}
    shown |= {"n": f"{published.chosen} of {published.asked}", "last_n": f"{last.chosen} of {last.asked}"}
    shown |= {"value_late": end("value", layer=24), "last_without": f"{last.own:.2f}"}
    return {f"passed_{name}": says for name, says in shown.items()}


def _loss(mean: float, interval: tuple[float, float]) -> str:
    return f"{mean:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _percent(accuracy: float, n: int) -> str:
    low, high = wilson(round(accuracy * n), n)
    return f"{accuracy:.0%} ({low:.0%} to {high:.0%})"


def _accuracy(point: Record) -> str:
    return f"{point['accuracy']:.2f} ({point['low']:.2f} to {point['high']:.2f}; n = {point['n']})"
