"""`hopscope emergence`, from the outside, and its figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from known_run import WITNESS, circuit_json, known_run

from hopscope.circuits.circuit import Circuit
from hopscope.cli.emergence import command, describe
from hopscope.emergence.history import Emergence, MapsOverTime
from hopscope.emergence.timing import Plateau
from hopscope.errors import InputError
from hopscope.paper.section_9 import appendix_d, figure_7
from hopscope.plot import figure_6
from hopscope.training.recipe import Recipe

QUICK = ("--sequences", 8, "--no-figures", "--json")


def shape(self, problem):
    return WITNESS.transformer.shape


@pytest.fixture(autouse=True)
def _witness_architecture(monkeypatch):
    monkeypatch.setattr(Recipe, "architecture", shape)


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
        patch.setattr(Recipe, "architecture", shape)
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
    history, maps = Emergence.load(run.path / "emergence.json"), MapsOverTime.load(run.path / "emergence-maps.json")
    assert history.steps == maps.steps


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
    assert ask(run.path, "--model", 2).startswith("model must be from 0 to 1")


def test_a_record_stays_until_something_changes(run):
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


def test_paths_that_fell_back_are_counted(emergence):
    """Hops count from first crossings; a path that is not above 0.5 at a later checkpoint has fallen."""
    first, *others = emergence.paths
    spike = replace(first, attention=(0.0, 0.9, 0.5, *(0.9 for _ in emergence.steps[3:])))
    lines = []
    for path in (first, spike):
        [line] = (one for one in describe(replace(emergence, paths=(path, *others))) if "by then" in one)
        lines.append(line)
    assert lines[0].startswith("delivered by the paths that have crossed 0.5 by then: x1 ")
    assert lines[1] == lines[0] + f"; 1 of {len(others) + 1} paths fell below it again afterwards"


@pytest.mark.parametrize(
    ("left", "learned", "level", "words"),
    [
        (None, (40, None), 0.0, "no plateau was seen; losses by hop below 0.5 at step 40, never"),
        (None, (None, None), 0.5, "plateau at 0.5 not left; "),
        (40, (40, None), 0.5, "plateau at 0.5 left at step 40 (epoch 5); "),
    ],
)
def test_a_plateau_that_was_not_seen_is_not_said_to_last(left, learned, level, words, emergence):
    """With one chain nobody need guess: its level is 0, and no loss is under that."""
    made = replace(emergence, plateau=Plateau(level, 10, left, learned))
    [line] = (line for line in describe(made) if "losses by hop" in line)
    assert line.startswith(words)


@pytest.mark.parametrize(("chains", "below"), [(1, "0.5"), (2, "0.33"), (4, "0.5"), (8, "0.58")])
def test_levels_are_those_of_so_many_chains(chains, below, emergence):
    """A loss counts as learned below what its chains make it; with two, attention may be at 0.5 by chance."""
    lines = describe(replace(emergence, chains=chains))
    assert any(f"; losses by hop below {below} at step " in line for line in lines)
    assert any(line.startswith("with two chains ") for line in lines) == (chains == 2)
