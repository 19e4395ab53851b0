"""Good folders to attack: a run with circuit and emergence, one that was stopped, a reproduction, a benchmark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from attacked_verbs import ASK, CIRCUIT, EMERGENCE, REPRODUCE, TRAIN
from hurrying import quick
from sandbox import command


def make(good: Path) -> None:
    """Make them all, in forks: this process must compute nothing with threads."""
    good.mkdir(parents=True, exist_ok=True)
    _done([*REPRODUCE, "tiny"], good)
    _begun(good)
    shutil.copytree(good / "tiny" / "sweep" / "ic-layers-2-seed-0", good / "run")
    for verb in (CIRCUIT, EMERGENCE):
        _done([*verb, "--overwrite"], good)  # by the small searches that the cases make
    _small(good)


def make_small(good: Path) -> None:
    """Make those that take a moment: no reproduction, and a run whose model has no circuit."""
    good.mkdir(parents=True, exist_ok=True)
    _done(["train", "run", *TRAIN[2:]], good)
    _done(CIRCUIT, good)
    _small(good)


def _begun(good: Path) -> None:
    """The reproduction as it was before the end of a run and all that follows: its training alone is most of it."""
    shutil.copytree(good / "tiny", good / "begun", ignore=shutil.ignore_patterns("circuit*", "emergence*", "figures"))
    for path in (good / "begun").glob("*.*"):
        path.unlink()
    (good / "begun" / "sweep" / "non-ic-layers-1-seed-0" / "result.json").unlink()


def _small(good: Path) -> None:
    stop = [*TRAIN[:1], "half", *TRAIN[2:]]
    whole = command(stop, good, before=quick)
    shutil.rmtree(good / "half")
    command(stop, good, kill_at=whole.moments - 8, before=quick)
    assert (good / "half" / "state.safetensors").exists()
    assert not (good / "half" / "result.json").exists()
    graph = {"steps": [{"keys": ["a"], "value": "b"}, {"keys": ["b"], "value": "c"}], "known": ["a"], "target": "c"}
    (good / "graph.json").write_text(json.dumps(graph))


def with_model(good: Path, model: Path) -> None:
    """Add a language model, and a benchmark of it."""
    shutil.copytree(model, good / "model")
    _done([*ASK[:4], "asked", *ASK[5:]], good)


def _done(arguments: list[str], good: Path) -> None:
    ended = command(arguments, good, before=quick, seconds=600)
    assert ended.status == 0, ended.said
