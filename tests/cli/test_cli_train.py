"""`hopscope train`: what the command line says becomes the run."""

from __future__ import annotations

from click.testing import CliRunner

from hopscope.cli.train import command
from hopscope.training.run import RunFolder


def test_target_hops_of_the_command_line(tmp_path):
    """x1 and x3 alone, and kept so."""
    small = ["--layers", "1", "--steps", "2", "--batch-size", "2", "--validation-size", "2"]
    few = [*small, "--precision", "fp32", "--device", "cpu", "--no-compile"]
    asked = [str(tmp_path / "run"), "--asked", "1,3", *few]
    told = CliRunner().invoke(command, asked)
    assert told.exit_code == 0, told.output
    run = RunFolder(tmp_path / "run")
    assert run.problem.target_hops == (1, 3)
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
