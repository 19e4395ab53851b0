"""The fifteen claims of the paper, the rules by which they are judged, what was found of each, and both as Markdown.

`python -m hopscope.paper.claims README.md docs/claims.md NAME=claims.json ...` writes them into pages (`make claims`).
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from hopscope.errors import UNTOUCHED, InputError
from hopscope.files import read_json, write_json, write_text
from hopscope.records import convert, sealed_table
from hopscope.words import markdown_table

Verdict = Literal["reproduced", "not reproduced", "inconclusive", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_OF_THE_RULE = ("title", "paper", "unit", "rule")
"""Fields of a row of `claims.json` that follow from its claim."""


@dataclass(frozen=True)
class Rule:
    """What the paper claims, and how it is judged.

    Attributes:
        title: the claim.
        number: the number to meet.
        where: where it stands in the paper.
        unit: what n counts.
        rule: when the claim is reproduced, when it is not, and when the data do not say.
    """

    title: str
    number: str
    where: str
    unit: str
    rule: str

    @property
    def paper(self) -> str:
        """The number to meet, and where it stands."""
        return f"{self.number} ({self.where})"


RULES: Mapping[str, Rule] = {
    "C1": Rule(
        "With t < log3(2D) layers, D hops cannot be solved",
        "no D solved in fewer layers; simulated for D = 1..64 at least",
        "Theorem 1",
        "trained runs put to the test",
        "Simulated for every D: no chain is solved with t < log3(2D) layers. In training: no run learns a hop (partial "
        "loss below 0.5) with t < log3(2D). A run puts this to the test if a hop lies so far beyond its depth and a "
        "deeper run of the study learned that hop. Reproduced: both hold, and three runs or more put it to the test. "
        "Not reproduced: an exception in either. Inconclusive: fewer than three runs, or simulated to less than "
        "D = 64. What is learned below the exact minimum of layers, which is ours, is reported and not judged: Theorem "
        "1 allows it.",
    ),
    "C2": Rule(
        "Information in a residual stream stays one contiguous run of length <= 3^t + 1",
        "no exception; tested by simulation",
        "Lemmas 1 to 3, Appendix B",
        "trained runs put to the test",
        "Simulated for every D: after each layer each residual stream holds one contiguous run of at most 3^t + 1 "
        "pieces, and before any layer only neighbours share one. In training with the curriculum: no run learns a hop "
        "with t < log3(2D), nor a hop without all hops before it. A run puts this to the test if it learned two hops, "
        "of which it might have left one out, or one and was asked for one with t < log3(2D). "
        "Reproduced: no exception in either, and three runs or more put it to the test. Not reproduced: an exception. "
        "Inconclusive: fewer than three runs, or simulated to less than D = 64.",
    ),
    "C3": Rule(
        "Without the implicit curriculum, training fails even at D = 3",
        "final validation loss > 0.7 in 100% of runs, 1..8 layers x 8 seeds",
        "Section 7.2",
        "pairs with a positive control",
        "Each run without the curriculum is paired with the run with it of the same depth, seed, budget and number of "
        "chains; it may be asked for more hops, as the paper's is. A pair counts if theory allows the hop asked for at "
        "that depth, and the run with the curriculum learned that hop (partial loss below 0.5): the positive control. "
        "A diverged run counts as neither failed nor successful. "
        "Not reproduced: any run without the curriculum ends at 0.7 or below. Reproduced: none does, and the upper 95% "
        "Clopper-Pearson bound on how often one would, from the pairs that count, is below 10%. Else inconclusive.",
    ),
    "C4": Rule(
        "Later hops are harder and need more layers (D = 5, with the implicit curriculum)",
        "partial loss by layers; no numbers published",
        "Section 7.2, Figure 4 right",
        "runs with the curriculum",
        "A run learned a hop if its final partial loss is below 0.5; diverged runs are left out, and counted. "
        "Reproduced if (1) no run learned a hop with t < log3(2D) layers, (2) every hop was learned by some run, "
        "(3) each hop was learned by fewer runs than the hop before it, and Page's trend test over runs gives "
        "p < 0.01, (4) the last hop was learned more often at depths from its exact minimum on than below it, with "
        "p < 0.05 in Fisher's exact test, (5) below that depth more runs learned the first hop than the last, with "
        "p < 0.05 in the one-sided exact sign test over the runs that learned only one of the two, and (6) every hop "
        "whose exact minimum is above that of the hop before it (x2 and x4 at D = 5) was learned more often from "
        "there on than at the depths that suffice only for the hop before it, with p < 0.05 in Fisher's exact test, "
        "and at such a depth some run learned the first hop with the lower minimum; at the paper's scale with D = 5. "
        "Not reproduced: (1) fails, or more runs learned some hop than the hop before it, with p < 0.01 in the same "
        "sign test of these two. Else inconclusive, and so where two hops are learned by the same runs, or no hop "
        "with fewer layers than the last needs, as by a law that gives all hops the same depth, or all but the first.",
    ),
    "C5": Rule(
        "Hops are learned in order",
        "partial loss falls below 0.5 for x1 first, then x2, and so on, in 100% of runs with the curriculum",
        "Section 7.2",
        "informative runs",
        "A run with the curriculum is informative if it learned two hops or more, or a later hop without an earlier. "
        "It is in order if each hop learned falls below 0.5 at a later logged step than the hop before it, and none is "
        "left out; two hops at one logged step leave it unresolved. Learned is here what ever fell below 0.5, kept or "
        "lost again. Not reproduced: a run out of order. Reproduced: "
        "none, and the lower 95% Clopper-Pearson bound on the share in order, unresolved runs counted against it, is "
        "at least 90%. Else inconclusive.",
    ),
    "C6": Rule(
        "Transformers A, B and C (12 layers, 1 head, D = 3) learn the task",
        "validation MSE < 0.01",
        "Section 8.2",
        "models",
        "Models of the paper's shape (12 layers, 1 head, D = 3). Each must have a held-out loss whose 95% interval "
        "lies below 0.01, and a median validation loss below 0.01 over the last tenth of training. The paper's own "
        "number, the mean over the last 100 steps, is reported beside it. Reproduced: three models or more, and all "
        "do. Not reproduced: a model diverged, or its median or whole interval is at 0.01 or above. Else inconclusive.",
    ),
    "C7": Rule(
        "Few heads matter",
        "4 heads in each of A, B, C; 3 would suffice",
        "Section 8.2",
        "models",
        "By the Appendix E procedure: the fewest whole heads that keep the loss below 0.05 (95% interval) with every "
        "other head uniform or the identity. Few is a third of all heads at most (4 of 12), and at most twice the "
        "layers that theory asks of one head a layer. Reproduced: three models or more, each with few. Not "
        "reproduced: a model with more. Else inconclusive. Models of which heads were pruned while they trained do "
        "not count here, nor for C9, C10, C11 and C12: what is left of them is small by construction, and alike. Here "
        "and for C8, C10, C11 and C12 a model that solves the task is open, and n counts it, if its circuit was not "
        "searched for, or at another threshold than 0.05, or if the search was given up.",
    ),
    "C8": Rule(
        "The first relevant head ties the second to the first member of each pair",
        "in all of A, B, C",
        "Section 8.2",
        "models",
        "In the circuit of the Appendix E procedure the first useful layer has the path from second to first member "
        "of every pair, and no other path. Reproduced: three models or more, and all of them. Not reproduced: a "
        "circuit in which a pair is not tied, or in which the layer does something else too. Inconclusive: fewer "
        "models, or one without a circuit.",
    ),
    "C9": Rule(
        "Beyond the first head, the three circuits differ",
        "A, B and C compared",
        "Section 8.2",
        "pairs of models",
        "Overlap, between circuits of the Appendix E procedure: of the steps (query role, key role) beyond the first "
        "useful layer, the share of all of either circuit that both have. Within a model it is taken between the "
        "circuits that searches in other orders ended in. Reproduced: three different models or more, and every two "
        "overlap by at most a half, and less than any two searches of one of them. Not reproduced: two models overlap "
        "as much as searches within a model do, or by more than a half. Inconclusive: fewer than three models, or one "
        "searched in one order only.",
    ),
    "C10": Rule(
        "The circuit alone solves the task",
        "MSE < 0.05 with everything else ablated",
        "Appendix E",
        "models",
        "The circuit of the Appendix E procedure, other rows of its heads filled in one way in all models (zero, "
        "uniform or identity). Reproduced: three models or more, and with one filling the 95% interval of every "
        "model's loss lies below 0.05. Not reproduced: with each filling some model's interval lies at 0.05 or above, "
        "or a model that solves the task has no such circuit. Else inconclusive.",
    ),
    "C11": Rule(
        "Every path of the circuit is needed",
        "MSE 0.17 to 0.89 with one path ablated; 0.05 to 0.10 with the first useful layer made uniform",
        "Appendix E",
        "models",
        "Appendix E procedure, one path ablated at a time. A model meets the claim if the circuit works, the 95% "
        "interval of its loss alone below 0.05, if without any one path beyond the first useful layer that interval "
        "lies above 0.10, the most that the paper reports for the first useful layer, and if with that layer uniform "
        "as a whole the loss lies between the circuit's own and the least of those. Ten models or more that are not "
        "open, else inconclusive. Reproduced: the lower 95% Clopper-Pearson bound on the share of models that meet it, "
        "open ones counted against it, is above two thirds, and the upper one, open ones counted for it, is not below "
        "90%. Not reproduced: the upper one is. Else inconclusive. How many losses lie in the paper's ranges is "
        "reported.",
    ),
    "C12": Rule(
        "Transformer D (24 layers, D = 4) learns the task, and its circuit alone solves it",
        "validation MSE 0.031; circuit alone 0.045",
        "Section 9.2",
        "models",
        "Models of the paper's shape (24 layers, 1 head, D = 4); the paper has one, so one is enough. Reproduced: "
        "each has a held-out loss, and a loss of the circuit of the Appendix E procedure alone with one filling for "
        "all, whose 95% intervals lie below 0.05. Not reproduced: a model's interval lies at 0.05 or above, with each "
        "filling, or it has no such circuit. Else inconclusive.",
    ),
    "C13": Rule(
        "Heads emerge one by one, in order",
        "a plateau of about 450 epochs, B first, then C, D, E, the last much later; "
        "the attention of the 13 paths crosses 0.5 in that order",
        "Section 9.2, Figure 7, Appendix D",
        "models",
        "Three things, each reported. Length: the plateau, counted from step 0, takes at least half the paper's share "
        "of the run (28%). Losses: every hop is learned, each at a later logged step than the one before. Paths: "
        "every path crosses 0.5, what has emerged delivers the hops one after the other with a certainty of 95% at "
        "least, and the last gap is at least twice as long as any other; this for the circuit at the end and for the "
        "one found at the checkpoint where all hops are learned. Length and losses are judged of every model that was "
        "trained, with a circuit or without. Reproduced: three models or more, and all of them. Not reproduced: a "
        "model fails one; the last gap fails only where another is longer. Inconclusive: fewer, a certainty between "
        "5% and 95%, a last gap between once and twice the longest other, or no circuit at the end or at that "
        "checkpoint.",
    ),
    "C14": Rule(
        "Language models solve the problem untuned",
        "equations near perfect for D <= 5; the other four formulations high",
        "Figure 2",
        "language models",
        "Equations at D = 1..5 and the other four at the paper's size, the paper's prompts alone: no extension, no "
        "solved examples, no hidden reasoning, the exact answer rule. At each of the nine points 95% of the questions "
        "asked or more must get an acceptable answer, and the lower Wilson bound of the share of all questions asked "
        "that were answered right must be at least 90%, with Holm's correction over all models asked, those asked in "
        "part too. Reproduced: a model meets all nine. Not reproduced: every model asked everything answered so, and "
        "has a point where the upper bound of accuracy over the acceptable answers, corrected for nine points, lies "
        "below 90%. Else inconclusive. How many models were tried is reported: one of many is the best of many.",
    ),
    "C15": Rule(
        "Random guessing sets the floor",
        "1/4 for formulations 1 to 4, 1/16 for formulation 5",
        "Figure 2",
        "fresh questions each",
        "On fresh questions of every formulation, programs that follow no fact answer: the first, second, third, last "
        "and last but one value of the text, the most frequent, the rarest, the nearest to what is asked for, the one "
        "on its line or at the same place of its block, the first and last in order, a random one, and the one "
        "remembered from other questions. Reproduced: the floors are the paper's, no program is above them by a "
        "one-sided binomial test at 1% with Holm's correction, and the right answers are spread evenly over the "
        "acceptable ones (chi-squared, the same). Not reproduced: an exception. Inconclusive: fewer than 500 questions "
        "each.",
    ),
}
"""The rules by claim, in the paper's order. No figure values beyond these numbers are public."""


@dataclass(frozen=True)
class Finding:
    """What was found about one claim.

    Args:
        id: the claim, C1 to C15.
        verdict: one of `VERDICTS`.
        observed: the numbers found, in words; never empty where something ran.
        n: how many models, runs, pairs or questions the verdict rests on; the rule's `unit` says which.
        interval: the interval of what was found, in words, or as lowest and highest value; None where nothing ran.
        scale: how large the study was, beginning with the preset's name: `laptop: D = 3, 1..4 layers x 2 seeds`.
        reason: why it is inconclusive, or not run; empty elsewhere.
        run: the folder that holds the evidence, relative to the report's; None where there is none.

    Raises:
        InputError: an unknown claim, a verdict without its numbers, or an inconclusive one without its reason.
    """

    id: str
    verdict: Verdict
    observed: str = ""
    n: int = 0
    interval: str | tuple[float, float] | None = None
    scale: str = ""
    reason: str = ""
    run: str | None = None

    def __post_init__(self) -> None:
        if self.id not in RULES:
            raise InputError(f"a claim must be one of C1 to C{len(RULES)}, got {self.id!r}")
        needed = {"inconclusive": ("reason",), "not run": ()}.get(self.verdict, ("observed", "scale", "n", "interval"))
        if missing := [name for name in needed if not getattr(self, name)]:
            raise InputError(f"{self.id} is judged {self.verdict!r}, so it needs {', '.join(missing)}")

    @property
    def claim(self) -> Rule:
        """What the paper claims, and how it is judged."""
        return RULES[self.id]

    def to_json(self) -> dict[str, Any]:
        """The row of `claims.json`: what was found, what the paper says, and the rule."""
        return {"id": self.id, **{name: getattr(self.claim, name) for name in _OF_THE_RULE}, **asdict(self)}


def in_folder(folder: str, found: Iterable[Finding]) -> list[Finding]:
    """The findings, with the folder that holds their evidence."""
    return [finding if finding.verdict == "not run" else replace(finding, run=folder) for finding in found]


def complete(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The fifteen rows in order; claims that nobody judged are `not run`.

    Raises:
        InputError: there are two findings for one claim.
    """
    by_claim: dict[str, Finding] = {}
    for finding in found:
        if finding.id in by_claim:
            raise InputError(
                f"{finding.id} was judged twice, {by_claim[finding.id].observed!r} and {finding.observed!r}"
            )
        by_claim[finding.id] = finding
    return tuple(by_claim.get(claim) or Finding(claim, "not run") for claim in RULES)


def write_claims(path: Path, claims: Iterable[Finding]) -> None:
    """Write `claims.json`: a list of rows, each with the checksum of all of them.

    Raises:
        InputError: see `check_replaces_claims`.
    """
    check_replaces_claims(path)
    write_json(path, sealed_table([claim.to_json() for claim in claims]))


def check_replaces_claims(path: Path) -> None:
    """Check that a table of claims to be written would replace nothing, or only another table of claims.

    Raises:
        InputError: something else is there, or something that cannot be read.
    """
    rows = read_json(path, "a table of claims") if path.exists() else []
    if not isinstance(rows, list) or not all(isinstance(row, dict) and str(row.get("id")) in RULES for row in rows):
        raise InputError(f"{path} is not a table of claims and is not replaced; choose another folder")


def read_claims(path: Path) -> tuple[Finding, ...]:
    """Read `claims.json`. What the paper says and the rules are today's.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = read_json(path, "a table of claims")
    try:
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError("it holds no list of objects")
        content = [{name: value for name, value in row.items() if name != "checksum"} for row in rows]
        if rows != sealed_table(content):
            raise InputError("its content does not fit its checksum")
        found = [{name: value for name, value in row.items() if name not in _OF_THE_RULE} for row in content]
        return complete(convert(row, Finding, "a row", complete=True) for row in found)
    except InputError as error:
        raise InputError(f"{path} is not a table of claims, or damaged: {error}; {UNTOUCHED}") from None


def verdict_table(tables: Mapping[str, Sequence[Finding]]) -> str:
    """A row for each claim, a column a preset: the verdict with its n, or the reason why there is none, in Markdown."""
    rows = (
        [claim, rule.title, *(_cell(table[place]) for table in tables.values())]
        for place, (claim, rule) in enumerate(RULES.items())
    )
    return markdown_table(["", "claim", *tables], rows)


def _cell(finding: Finding) -> str:
    from hopscope.benchmark.results import markdown

    if finding.verdict in ("inconclusive", "not run"):
        return finding.verdict + (f": {markdown(finding.reason.partition(': ')[0])}" if finding.reason else "")
    return f"**{finding.verdict}**, n = {finding.n}"


def rule_texts() -> str:
    """Every claim with the paper's number, what n counts, and its rule, in Markdown."""
    return "\n".join(
        f"**{claim}** {rule.title}  \n*{rule.paper}; n counts {rule.unit}*\n\n"
        f"{textwrap.fill(rule.rule, 120, break_long_words=False, break_on_hyphens=False)}\n"
        for claim, rule in RULES.items()
    )


def between_marks(text: str, what: str, made: str) -> str:
    """The text with `made` between the two marks of `what`.

    Raises:
        InputError: the text does not have both marks, once each.
    """
    first, last = f"<!-- {what}: made by `make claims` -->", f"<!-- end of {what} -->"
    if text.count(first) != 1 or text.count(last) != 1:
        raise InputError(f"the text must have each of the marks {first} and {last} once")
    before, _, rest = text.partition(first)
    return f"{before}{first}\n{made}{last}{rest.partition(last)[2]}"


def main(arguments: Sequence[str]) -> None:
    """Write both into their pages: the README, the page of rules, then `name=claims.json` for every column."""
    readme, page = map(Path, arguments[:2])
    columns = (column.partition("=") for column in arguments[2:])
    tables = {name: read_claims(Path(file)) for name, _, file in columns}
    for path, what, made in ((readme, "claims", verdict_table(tables)), (page, "rules", rule_texts())):
        write_text(path, between_marks(path.read_text(encoding="utf-8"), what, made))


if __name__ == "__main__":
    main(sys.argv[1:])
