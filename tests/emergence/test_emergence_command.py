"""`hopscope emergence`, from the outside, and its figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from known_run import WITNESS, circuit_json, known_run

from hopscope.circuits.circuit import Circuit
from hopscope.cli.emergence import _lines, command
from hopscope.emergence.history import Emergence, MapsOverTime
from hopscope.errors import InputError
from hopscope.paper.section_9_figures import appendix_d, figure_7
from hopscope.plot import figure_6
from hopscope.training.recipe import Recipe


@pytest.fixture(autouse=True)
def _witness_architecture(monkeypatch):
    monkeypatch.setattr(Recipe, "architecture", lambda self, problem: WITNESS.transformer.shape)


def ask(*arguments):
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if isinstance(result.exception, InputError):
        return 2, str(result.exception)
    assert result.exception is None, result.output
    return 0, result


@pytest.mark.slow
def test_a_run_with_a_circuit_gets_its_record_maps_and_figures(tmp_path):
    run = known_run(tmp_path / "run")
    circuit_json(run, run.path / "circuit.json")
    status, result = ask(run.path, "--sequences", 8)
    assert status == 0
    assert "x0? -> >x2" in result.stdout
    assert f"wrote {run.path}/figures/figure-6.png, .svg and .pdf" in result.stdout
    for name in ("figure-6", "figure-7", "appendix-d"):
        for suffix in ("png", "svg", "pdf"):
            assert (run.path / "figures" / f"{name}.{suffix}").stat().st_size > 1000
    assert (
        Emergence.load(run.path / "emergence.json").steps == MapsOverTime.load(run.path / "emergence-maps.json").steps
    )


def test_json_and_an_ensembles_second_model(tmp_path):
    run = known_run(tmp_path / "run", on=[{1: 100, 2: 200, 3: 300}, {1: 400, 2: 500, 3: 600}])
    circuit_json(run, run.path / "circuit-1.json", number=1)
    _, result = ask(run.path, "--model", 1, "--sequences", 8, "--json", "--no-figures")
    told = json.loads(result.stdout)
    assert told["number"] == 1
    assert told["paths"][0]["crossing"]["between"] == [300, 400]
    there = json.loads((run.path / "emergence-1.json").read_text())
    assert there.pop("seal")["run"] == run.record.content_hash
    assert there == told
    assert not (run.path / "figures").exists()
    status, sentence = ask(run.path)
    assert status == 2
    assert "circuit.json does not exist" in sentence
    assert "hopscope circuit" in sentence
    assert ask(run.path, "--model", 2)[1].startswith("model must be from 0 to 1")


def test_what_is_there_is_kept_until_something_changes(tmp_path):
    run = known_run(tmp_path / "run")
    circuit_json(run, run.path / "circuit.json")
    options = ("--sequences", 8, "--no-figures", "--json")
    ask(run.path, *options)
    record = run.path / "emergence.json"
    marked = replace(Emergence.load(record), losses=(9.0,) * 7)
    marked.save(record)
    assert json.loads(ask(run.path, *options)[1].stdout)["losses"] == [9.0] * 7
    assert json.loads(ask(run.path, *options, "--overwrite")[1].stdout)["losses"] != [9.0] * 7
    for change in (
        lambda: ask(run.path, "--sequences", 9, *options[2:]),
        lambda: (
            circuit_json(run, run.path / "circuit.json", losses={"full": 0.0, "imposed": 0.02, "natural": 0.01}),
            ask(run.path, *options),
        )[1],
    ):
        marked.save(record)
        assert json.loads(change()[1].stdout)["losses"] != [9.0] * 7


def test_bad_circuits_are_refused(tmp_path):
    run = known_run(tmp_path / "run")
    circuit_json(run, run.path / "circuit.json", model="0123456789abcdef")
    assert "holds the circuit of another model" in ask(run.path, "--no-figures")[1]
    circuit_json(run, run.path / "circuit.json", paths=[], found=False)
    why = f"model 0 of {run.path} has no circuit (`hopscope circuit {run.path} --show` says why), so there is nothing"
    assert ask(run.path, "--no-figures")[1].startswith(why)
    (run.path / "circuit.json").write_text("{")
    assert "circuit.json" in ask(run.path, "--no-figures")[1]
    assert "run.json" in ask(tmp_path / "nowhere")[1]


@pytest.mark.slow
def test_figures_show_the_numbers(tmp_path):
    from hopscope.emergence.config import EmergenceConfig
    from hopscope.emergence.track import emergence_of_run

    run = known_run(tmp_path / "run")
    circuit = Circuit.load(circuit_json(run, run.path / "circuit.json"))
    emergence = emergence_of_run(run, 0, EmergenceConfig(sequences=4))
    axes = figure_7(emergence, circuit).axes[1]
    shown = sorted(line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "None")
    assert shown == pytest.approx(sorted(path.crossing.step / 8 for path in emergence.paths))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert len(names) == len(emergence.paths)
    assert names[-1] == "3   x0? → >x2"  # the last to come stands lowest
    panels = [axes for axes in appendix_d(emergence).axes if axes.get_visible()]
    assert len(panels) == len(emergence.paths)
    for axes, path in zip(panels, emergence.paths, strict=True):
        assert list(axes.lines[1].get_ydata()) == list(path.attention)
    left, right = figure_6(run.metrics).axes
    assert list(left.lines[1].get_ydata()) == run.metrics.validation_loss[:, 0].tolist()
    assert right.get_title(loc="left") == "Validation loss by hop"
    with pytest.raises(InputError, match="no row of model 3"):
        figure_6(run.metrics, model=3)


@pytest.mark.parametrize(("chains", "below"), [(1, "0.5"), (2, "0.33"), (4, "0.5"), (8, "0.58")])
def test_levels_are_those_of_so_many_chains(chains, below, tmp_path):
    """A loss counts as learned below what its chains make it; with two, attention may be at 0.5 by chance."""
    run = known_run(tmp_path / "run")
    circuit_json(run, run.path / "circuit.json")
    ask(run.path, "--sequences", 4, "--no-figures")
    told = _lines(replace(Emergence.load(run.path / "emergence.json"), chains=chains))
    assert any(f"; losses by hop below {below} at step " in line for line in told)
    assert any(line.startswith("with two chains ") for line in told) == (chains == 2)
