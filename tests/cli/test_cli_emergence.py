"""`hopscope emergence`, from the outside, and its figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from known_run import circuit_json, known_run, witness_shape

from hopscope.circuits.circuit import Circuit
from hopscope.cli.circuit_verbs import emergence as command
from hopscope.emergence.history import MAPS_OVER_TIME, Emergence
from hopscope.emergence.timing import Plateau
from hopscope.errors import InputError
from hopscope.paper.section_9 import appendix_d, figure_7
from hopscope.plot import figure_6
from hopscope.training.recipe import Recipe

QUICK = ("--sequences", 8, "--no-figures", "--json")


@pytest.fixture(autouse=True)
def _witness_architecture(monkeypatch):
    monkeypatch.setattr(Recipe, "architecture", witness_shape)


def ask(*arguments):
    """The result of the verb, or its sentence about bad input."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if isinstance(result.exception, InputError):
        return str(result.exception)
    assert result.exception is None, result.output
    return result


@pytest.fixture
def run(tmp_path):
    made = known_run(tmp_path / "run")
    circuit_json(made, made.path / "circuit.json")
    return made


@pytest.fixture(scope="module")
def emergence(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "architecture", witness_shape)
        made = known_run(tmp_path_factory.mktemp("emergence") / "run")
        circuit_json(made, made.path / "circuit.json")
        ask(made.path, "--sequences", 4, "--no-figures")
        return Emergence.load(made.path / "emergence.json")


@pytest.mark.slow
def test_a_run_with_a_circuit_gets_its_record_maps_and_figures(run):
    result = ask(run.path, "--sequences", 8)
    assert "x0? -> >x2" in result.stdout
    assert f"wrote {run.path}/figures/figure-6.png, .svg and .pdf" in result.stdout
    for name in ("figure-6", "figure-7", "appendix-d"):
        for suffix in ("png", "svg", "pdf"):
            assert (run.path / "figures" / f"{name}.{suffix}").stat().st_size > 1000
    history, maps = Emergence.load(run.path / "emergence.json"), MAPS_OVER_TIME.read(run.path / "emergence-maps.json")
    assert history.steps == maps.steps


def test_the_appendix_e_circuit_is_followed_beside_the_other(run):
    loss = {"mean": 0.02, "interval": [0.01, 0.03]}
    where = {"layer": 2, "head": 1, "query": "x0?", "key": ">x1"}
    imposed = {"paths": [where | {"without": loss}], "losses": {"zero": loss}, "fill": "zero"}
    imposed["first_layer_uniform"] = loss
    circuit_json(run, run.path / "circuit.json", imposed=imposed)
    result = ask(run.path, "--sequences", 8)
    assert "the circuit of the Appendix E procedure" in getattr(result, "stdout", result)
    history = Emergence.load(run.path / "emergence-imposed.json")
    assert [str(path) for path in history.paths] == ["layer 2 head 1: x0? -> >x1"]
    assert history.paths[0].crossing.between == (200, 300)
    assert {"figure-7.png", "figure-7-own.png", "appendix-d.png", "appendix-d-own.png"} <= {
        file.name for file in (run.path / "figures").iterdir()
    }


def test_json_and_an_ensembles_second_model(tmp_path):
    run = known_run(tmp_path / "run", on=[{1: 100, 2: 200, 3: 300}, {1: 400, 2: 500, 3: 600}])
    circuit_json(run, run.path / "circuit-1.json", number=1)
    printed = json.loads(ask(run.path, "--model", 1, *QUICK).stdout)
    assert printed["number"] == 1
    assert printed["paths"][0]["crossing"]["between"] == [300, 400]
    stored = json.loads((run.path / "emergence-1.json").read_text())
    assert stored.pop("seal")["run"] == run.hash
    assert {name: stored[name] for name in printed} == printed
    assert not (run.path / "figures").exists()
    assert "circuit.json does not exist" in ask(run.path)
    assert ask(run.path, "--model", 2).endswith("run must be at most 1, got 2")


def test_a_record_is_measured_again_if_something_changes(run):
    ask(run.path, *QUICK)
    record = run.path / "emergence.json"
    marked = replace(Emergence.load(record), losses=(9.0,) * 7)

    def measured(*options):
        marked.save(record)
        return json.loads(ask(run.path, *options).stdout)["losses"] != [9.0] * 7

    assert not measured(*QUICK)
    assert measured(*QUICK, "--overwrite")
    assert measured("--sequences", 9, *QUICK[2:])
    circuit_json(run, run.path / "circuit.json", losses={"full": 0.0, "imposed": 0.02, "own": 0.01})
    assert measured(*QUICK)


def test_bad_circuits_are_refused(run, tmp_path):
    circuit_json(run, run.path / "circuit.json", model="0123456789abcdef")
    assert "holds the circuit of another model" in ask(run.path, "--no-figures")
    circuit_json(run, run.path / "circuit.json", paths=[], found=False)
    why = f"model 0 of {run.path} has no circuit (`hopscope circuit {run.path} --show` says why), so there is nothing"
    assert ask(run.path, "--no-figures").startswith(why)
    (run.path / "circuit.json").write_text("{")
    assert "circuit.json" in ask(run.path, "--no-figures")
    assert "run.json" in ask(tmp_path / "nowhere")


@pytest.mark.slow
def test_figures_show_the_numbers(run, emergence):
    circuit = Circuit.load(run.path / "circuit.json")
    axes = figure_7(emergence, circuit).axes[1]
    shown = sorted(line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "None")
    assert shown == pytest.approx(sorted(path.crossing.step / 8 for path in emergence.paths))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert len(names) == len(emergence.paths)
    assert names[-1] == "3   x0? → >x2"  # the last to come stands lowest
    panels = [axes for axes in appendix_d(emergence).axes if axes.get_visible()]
    for axes, path in zip(panels, emergence.paths, strict=True):
        assert list(axes.lines[1].get_ydata()) == list(path.attention)
    left, right = figure_6(run.metrics).axes
    assert list(left.lines[1].get_ydata()) == run.metrics.validation_loss[:, 0].tolist()
    assert right.get_title(loc="left") == "Validation loss by hop"
    with pytest.raises(InputError, match="no row of model 3"):
        figure_6(run.metrics, model=3)


def test_a_plateau_that_nothing_ended_is_printed(emergence):
    made = replace(emergence, plateau=Plateau(0.5, 10, None, (40, None)))
    assert str(made).splitlines()[-1] == "plateau at 0.5 left at step never; hops learned at step 40, never"
    assert "may cross it by chance" in str(replace(made, chains=2))
    assert "by chance" not in str(made)
