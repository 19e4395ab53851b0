"""The paper from nothing to its claims: every section run, read and judged, at the scale of a preset.

In the reproduction's folder:

sweep/          run folders of the depth study
transformers/   run folders of transformers trained by themselves; circuits and emergences stand beside the runs
benchmark/      what `hopscope benchmark` found, where it was asked
held-head/      arms of the study of the handed head, where it was asked
summary.json    results of every run of the depth study
held-head.json  the answer of that study
claims.json     the fifteen claims
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.checks import check_path
from hopscope.errors import InputError
from hopscope.outside_runs import check_no_run
from hopscope.paper import held_head, presets, section_4, section_5, section_7, section_8, section_9
from hopscope.paper.claims import Claim, check_replaces_claims, complete, write_claims
from hopscope.paper.groups import read_groups
from hopscope.paper.presets import Preset
from hopscope.training.work import Work


@dataclass(frozen=True)
class Reproduction:
    """The results, section by section.

    Attributes:
        preset: the preset that was run.
        folder: the folder of the reproduction.
        benchmark: the results of Section 4.
        theory: the results of Section 5.
        depth: the results of Section 7.
        circuits: the results of Section 8.
        emergence: the results of Section 9.
        held_head: the answers to our own question about the models of Section 9, for each run that it was put to.
        claims: the fifteen claims, judged.
    """

    preset: Preset
    folder: Path
    benchmark: section_4.BenchmarkResult
    theory: section_5.TheoryResult
    depth: section_7.DepthResult
    circuits: section_8.CircuitResult
    emergence: section_9.EmergenceResult
    held_head: tuple[held_head.HeldHeadResult, ...]
    claims: tuple[Claim, ...]


def reproduce(
    preset: Preset | str = "laptop", folder: Path | str | None = None, work: Work | None = None, **options: Any
) -> Reproduction:
    """Train, analyse and judge everything that a preset covers; what is finished is not done again.

    Args:
        preset: one of `presets.BY_NAME`, or your own.
        folder: the folder for everything; `runs/` and the preset's name by default.
        work: how the work is done.
        options: fields of `Work`, in its place: `workers=1, precision="fp32"`; and `held_head=True` to train also with
            the first head handed over.

    Raises:
        InputError: there is no such preset, or something else is in the folder.

    Examples:
        >>> import hopscope as hs
        >>> found = hs.reproduce("tiny", workers=2, precision="fp32")  # a minute; into runs/tiny
        >>> claim = found.claims[4]
        >>> claim.id, claim.verdict, claim.reason
        ('C5', 'inconclusive', 'no informative run: none learned two hops')
    """
    ask_held_head = options.pop("held_head", False)
    work = Work.of(work, options, "a reproduction, beside held_head")
    chosen = presets.named(preset) if isinstance(preset, str) else preset
    if not isinstance(chosen, Preset):
        raise InputError(f"a preset is one of {', '.join(presets.BY_NAME)}, or a Preset of your own, got {preset!r}")
    folder = check_path("a reproduction", folder if folder is not None else Path("runs") / chosen.name)
    check_no_run(folder)
    if folder.is_file():
        raise InputError(f"{folder} is a file; give a folder for the reproduction")
    check_replaces_claims(folder / "claims.json")
    # A circuit is looked for as soon as its model is trained, beside the training of others; then whatever is left.
    section_7.run(chosen.depth, folder, work, then=chosen.emergence.of_runs("sweep"))
    section_9.run(chosen.emergence, folder, work)
    section_8.run(chosen.circuits, folder, work)
    if ask_held_head:
        for study in chosen.held_heads():
            held_head.run(study, folder, work)
    return read(chosen, folder)


def read(preset: Preset, folder: Path) -> Reproduction:
    """Read what is in the folder, and judge it anew into `claims.json`; nothing is trained.

    Raises:
        InputError: a run in the folder is damaged, or belongs to another preset.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the one that `hopscope reproduce` wrote to")
    check_replaces_claims(folder / "claims.json")
    depth = section_7.read(preset.depth, folder)
    circuits = section_8.read(preset.circuits, folder)
    emergence = section_9.read(preset.emergence, folder)
    alone = read_groups(preset.alone, folder, "transformers")
    theory = section_5.run(preset.theory, (*depth.groups, *alone))
    benchmark = section_4.run(preset.benchmark, folder)
    arms = [held_head.read(study, folder) for study in preset.held_heads()]
    findings = [
        *section_4.judge(benchmark),
        *section_5.judge(theory),
        *section_7.judge(depth),
        *section_8.judge(circuits),
        *section_9.judge(emergence),
    ]
    claims = tuple(complete(findings))
    write_claims(folder / "claims.json", claims)
    return Reproduction(
        preset, folder, benchmark, theory, depth, circuits, emergence, tuple(one for one in arms if one), claims
    )
