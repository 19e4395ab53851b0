"""The package as a stranger meets it: quick to import, with clear words on bad input."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from unchecked import CHECKED

import hopscope as hs
from hopscope.cli import main, program

SOURCE = Path(hs.__file__).parent
HEAVY = ("torch", "matplotlib", "numpy", "scipy", "rich", "inspect_ai", "transformers", "lm_eval", "torch._dynamo")


def heavy_after(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has imported after `code`."""
    asked = f"import sys\n{code}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    return set(ast.literal_eval(shown.splitlines()[-1]))


def test_importing_the_package_imports_nothing_heavy():
    assert heavy_after("import hopscope; hopscope.RetrievalProblem(hops=3)") == set()
    assert heavy_after("import hopscope; hopscope.sample") >= {"torch"}  # this test can fail


def test_training_loads_torch_and_no_other_heavy_package(tmp_path):
    """Not even torch's compiler, though one of torch's optimisers would: every verb and worker begins with this."""
    code = "import hopscope as hs, hopscope.lab.run\nfrom pathlib import Path\n"
    recipe = "hs.Recipe(layers=1, heads=1, d_model=16, steps=2, batch_size=2, final_steps=1, log_every=1)"
    setup = f"hs.Setup('tiny', hs.RetrievalProblem(hops=1), {recipe}, (0,))"
    engine = "hs.Execution(device='cpu', compiled=False)"
    train = f"hs.train({setup}, Path({str(tmp_path / 'run')!r}), execution={engine})"
    assert heavy_after(code + train) == {"torch", "numpy"}
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--help", set()),
        ("benchmark --help", set()),
        ("report --help", set()),
        ("train --help", set()),
        ("theory --hops 1-64", set()),
        ("sample equations", set()),
        ("sample vectors", {"torch", "numpy"}),
    ],
)
def test_verbs_import_only_what_they_need(arguments, expected):
    code = "from click.testing import CliRunner\nfrom hopscope.cli import program\n"
    assert heavy_after(f"{code}assert CliRunner().invoke(program, {arguments.split()}).exit_code == 0") == expected


def test_the_package_can_be_run():
    shown = subprocess.run([sys.executable, "-m", "hopscope", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == f"hopscope, version {hs.__version__}"


@pytest.mark.slow
def test_a_terminal_and_a_notebook_of_another_kind_are_no_trouble(tmp_path):
    """An encoding without the letters of a table, and the backend of pictures that a notebook's shells inherit."""
    done = subprocess.run(
        [sys.executable, "-m", "hopscope", "theory", "--hops", "3", "--show"],
        env=os.environ | {"PYTHONIOENCODING": "latin-1", "MPLBACKEND": "module://not_installed.here"},
        capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?" in done.stdout


@pytest.mark.parametrize(
    ("verb", "goes_on"),
    [(["circuit", "run"], True), (["circuit", "certify", "run"], False), (["sample", "vectors"], False), ([], False)],
)
def test_an_interrupted_command_says_whether_it_continues(verb, goes_on, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "main", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(verb)
    assert stop.value.code == 130
    more = "; the same command continues from what is on disk" if goes_on else ""
    assert capsys.readouterr().err == f"hopscope: interrupted{more}\n"


def test_a_closed_output_is_no_trouble():
    """As `| head -1` does, long before the end."""
    command = [sys.executable, "-m", "hopscope", "sample", "equations", "--count", "2000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline().startswith(b'{"id"')
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_another_pipe_that_breaks_is_trouble():
    program = (
        "import click, hopscope.cli.exit as ending\n"
        "def fail(): raise BrokenPipeError(32, 'Broken pipe')\n"
        "raise SystemExit(ending.exit_status(click.command()(fail), [], resumes=False))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = "hopscope: a pipe to another process broke; nothing finished was lost\n"
    assert (shown.returncode, shown.stdout, shown.stderr) == (1, "", said)


@pytest.mark.parametrize("calls", [0, CHECKED - 1])
def test_shapes_are_checked(calls: int) -> None:
    """Up to the last call that is looked at in a test."""
    import torch
    from jaxtyping import TypeCheckError

    from hopscope.training.data import squared_errors

    right, wrong = torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 4)
    for _ in range(calls):
        squared_errors(right, right, 4)
    with pytest.raises(TypeCheckError):
        squared_errors(right, wrong, 4)
