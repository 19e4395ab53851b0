"""`hopscope train`: what the command line says becomes the run."""

from __future__ import annotations

from click.testing import CliRunner

from hopscope.cli.train import command
from hopscope.training.run import RunFolder


def test_hops_and_their_weights_of_the_command_line(tmp_path):
    """x1 and x3 alone, and kept so."""
    small = ["--layers", "1", "--steps", "2", "--batch-size", "2", "--validation-size", "2"]
    few = [*small, "--precision", "fp32", "--device", "cpu", "--no-compile"]
    asked = [str(tmp_path / "run"), "--asked", "1,3", "--hop-weights", "0.1,1", *few]
    told = CliRunner().invoke(command, asked)
    assert told.exit_code == 0, told.output
    run = RunFolder(tmp_path / "run")
    assert (run.problem.target_hops, run.recipe.hop_weights) == ((1, 3), (0.1, 1.0))
    assert run.metrics.hops == (1, 3)
    assert run.metrics.partial_losses.shape[-1] == 2
    assert "x1 " in told.stdout
    assert "x2 " not in told.stdout
    assert CliRunner().invoke(command, [str(tmp_path / "other"), "--asked", "1,x"]).exit_code == 2


def test_recipes_of_the_command_line_bring_their_seeds(tmp_path):
    tiny = ["--layers", "1", "--steps", "1", "--batch-size", "2", "--device", "cpu"]
    for name, seeds in (("a", (0,)), ("b", (1,)), ("c", (2,)), ("d", (0,))):
        told = CliRunner().invoke(command, [str(tmp_path / name), "--recipe", name, *tiny])
        assert told.exit_code == 0, told.output
        assert RunFolder(tmp_path / name).seeds == seeds
    CliRunner().invoke(command, [str(tmp_path / "other"), "--recipe", "b", "--seeds", "4-5", *tiny])
    assert RunFolder(tmp_path / "other").seeds == (4, 5)


def test_the_least_depth_that_did_not_learn_is_told_what_learns_more_often(tmp_path):
    """And no other run is: the study asked three layers for three hops alone."""
    short = ["--steps", "1", "--device", "cpu", "--precision", "fp32"]

    def told(*options: str) -> str:
        asked = CliRunner().invoke(command, [str(tmp_path / "-".join(options)), *options, *short])
        assert asked.exit_code == 0, asked.output
        return asked.stderr

    hint = "3 layers are the least for 3 hops; --recipe least-depth learns them more often"
    assert hint in told("--layers", "3")
    others = [
        ("--layers", "4"),
        ("--layers", "2", "--hops", "1"),
        ("--layers", "3", "--hops", "1"),
        ("--layers", "3", "--hops", "4"),
    ]
    others += [("--layers", "3", "--no-curriculum"), ("--recipe", "least-depth"), ("--layers", "3", "--heads", "4")]
    for options in others:
        assert "least-depth" not in told(*options), options
