"""Reproduce the paper: run, read and judge every section at the scale of a preset.

In the reproduction's folder:

sweep/          run folders of the depth study
transformers/   run folders of single transformers, with the records of their circuits and emergence
benchmark/      results of `hopscope benchmark`, if you ran it
summary.json    results of every run of the depth study
claims.json     the claims
report.html     the report: figures (also in figures/ as PNG, SVG and PDF) and the table of claims
explorer.html   the explorer of the first model that was followed
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from hopscope.checks import check_folder, check_outside_runs, check_type
from hopscope.errors import InputError
from hopscope.explorer.page import explore
from hopscope.paper import section_4, section_5, section_7, section_7_claims, section_7_figures, section_8, section_9
from hopscope.paper.claims import Finding, check_replaces_claims, complete, write_claims
from hopscope.paper.models import StudiedModels, do_for_every_model, read_models
from hopscope.paper.presets import BY_NAME, Preset
from hopscope.paper.report import write_page
from hopscope.paper.section_7 import TrainedModel
from hopscope.training.execution import FASTEST, Execution


@dataclass(frozen=True)
class Reproduction:
    """The results of every section, and the findings on all claims."""

    preset: Preset
    folder: Path
    depth: section_7.DepthResult
    models: StudiedModels
    theory: section_5.TheoryResult
    benchmark: section_4.BenchmarkResult
    claims: tuple[Finding, ...]


def reproduce(
    preset: Preset | str = "laptop",
    folder: Path | str | None = None,
    execution: Execution = FASTEST,
    progress: bool = True,
) -> Reproduction:
    """Train, analyse and judge everything that a preset covers; finished parts are not done again.

    Args:
        preset: a name in `presets.BY_NAME`, or a `Preset` of your own.
        folder: the folder for all results; by default, `runs/` and the preset's name.
        execution: the precision and the number of processes for training and analysis.
        progress: whether to show progress.

    Raises:
        InputError: the preset does not exist, or the folder holds something else.

    Examples:
        >>> import hopscope as hs
        >>> found = hs.reproduce("tiny", execution=hs.Execution(workers=2, precision="fp32"))  # into runs/tiny
        >>> claim = found.claims[4]
        >>> claim.id, claim.as_the_paper, claim.in_general  # its models learn too little
        ('C5', 'not run', 'not run')
    """
    check_type("execution", execution, Execution, "an hs.Execution, as hs.Execution(workers=1)")
    chosen = BY_NAME.get(preset) if isinstance(preset, str) else preset
    if not isinstance(chosen, Preset):
        raise InputError(f"a preset is one of {', '.join(BY_NAME)}, or a Preset of your own, got {preset!r}")
    folder = check_folder(folder if folder is not None else Path("runs") / chosen.name, "a reproduction")
    check_outside_runs(folder)
    check_replaces_claims(folder / "claims.json")
    section_7.run(chosen.depth, folder, execution, progress)
    study, what = chosen.models, "circuits and their emergence"
    others = [setup for setup in study.setups if setup not in study.followed]
    do_for_every_model(what, section_9.follow, study, study.followed, folder, execution, progress)
    do_for_every_model("circuits", section_8.find, study, others, folder, execution, progress)
    return read(chosen, folder)


def read(preset: Preset, folder: Path) -> Reproduction:
    """Read the results in a folder, and judge the claims again into `claims.json`, without training.

    Raises:
        InputError: a run in the folder is damaged, or belongs to another preset.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the one that `hopscope reproduce` wrote to")
    depth, models = section_7.read(preset.depth, folder), read_models(preset.models, folder)
    swept = {setup.name for setup in preset.depth.setups()}
    plain = [each for each in models.models if each.setup.name not in swept and each.setup.problem.asked is None]
    alone = [TrainedModel.of(model.run)[model.number] for model in plain]
    simulated = section_5.simulated(preset.simulated_hops)
    theory = section_5.TheoryResult(preset.name, preset.depth.hops, simulated, (*depth.models, *alone))
    benchmark = section_4.read(preset.questions, folder)
    found = [
        *section_7_claims.judge(depth),
        *section_8.judge(models),
        *section_9.judge(models),
        *section_5.judge(theory),
        *section_4.judge(benchmark),
    ]
    claims = complete(found)
    write_claims(folder / "claims.json", claims)
    return Reproduction(preset, folder, depth, models, theory, benchmark, claims)


def write_pages(found: Reproduction) -> list[Path]:
    """Write the report, and the explorer of the first followed model if its run exists; return their paths."""
    name, folder = found.preset.name, found.folder
    for model in found.models.followed:
        if model.emergence is not None and model.run.checkpoints:
            explore([model.run], folder / "explorer.html", model=model.number)
            break
    sections = [
        section_7_figures.section(found.depth),
        section_8.section(found.models),
        section_9.section(found.models),
        section_5.section(found.theory),
        section_4.section(found.benchmark),
    ]
    out = "" if folder.as_posix() == f"runs/{name}" else f" --out {quote(folder.as_posix())}"
    write_page(
        folder / "report.html",
        scale=f"`{name}`, {found.preset.summary}",
        claims=found.claims,
        sections=[section for section in sections if section],
        rerun=f"hopscope reproduce --preset {name}{out}",
    )
    return [page for page in (folder / "explorer.html", folder / "report.html") if page.exists()]
