"""Models in other libraries: TransformerLens computes the same answers and patterns, Hugging Face's the same logits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

import hopscope as hs
from hopscope.cli.folder_verbs import export as command
from hopscope.errors import InputError
from hopscope.model.architecture import Architecture
from hopscope.model.initial_weights import initialise
from hopscope.model.transformer import Transformer
from hopscope.model.transformer_lens import export_to_transformer_lens, to_transformer_lens
from hopscope.training.execution import REFERENCE

SHAPES = [
    Architecture(5, 6, 2, 3, 2, 16, head_dim=4, mlp=mlp, causal=causal, layer_norm=layer_norm)
    for mlp, causal, layer_norm in [(True, True, True), (False, False, True), (True, True, False), (False, True, True)]
]


def built(shape: Architecture, models: int = 1) -> Transformer:
    """With every weight and bias of its own, so that one in the wrong place is seen."""
    made = Transformer(shape, models)
    initialise(made, list(range(models)))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += torch.randn(parameter.shape, generator=generator) / 10
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("shape", SHAPES)
def test_transformer_lens_computes_the_same(shape: Architecture) -> None:
    pytest.importorskip("transformer_lens", reason="an extra")
    ours, inputs = built(shape), torch.randn(1, 4, 9, 5, generator=torch.Generator().manual_seed(1))
    stream = ours.embed(inputs)
    answers, cache = to_transformer_lens(ours, 9).run_with_cache(stream[0], start_at_layer=0)
    torch.testing.assert_close(answers, ours.answers(ours.run(stream))[0], rtol=1e-4, atol=1e-5)
    for layer, pattern in enumerate(ours.patterns(inputs)):
        torch.testing.assert_close(cache[f"blocks.{layer}.attn.hook_pattern"], pattern[0], rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hs.Run:
    recipe = hs.Recipe(layers=2, heads=2, d_model=8, steps=2, batch_size=4, validation_size=4)
    folder = tmp_path_factory.mktemp("runs") / "run"
    return hs.train(recipe, hs.RetrievalProblem(hops=1), folder, seeds=[3, 5], execution=REFERENCE)


def exported(*arguments: object) -> str:
    done = CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert not done.stderr  # no bars of other libraries
    return done.stdout.strip()


def test_the_folder_holds_every_weight_once(run: hs.Run, tmp_path: Path) -> None:
    out = tmp_path / "lens"
    assert exported(run.path, "--to", "transformer-lens", "--out", out, "--model", 1) == str(out)
    weights, config = load_file(out / "model.safetensors"), json.loads((out / "config.json").read_text())
    ours = run[1].transformer
    assert torch.equal(weights["layers.1.attn.k.weight"], ours.blocks[1].attention.key.weight[0].T)
    assert torch.equal(weights["embed.weight"], ours.embed.weight[0].T)
    beside = sum(weights[name].numel() for name in ("tok_embed.weight", "pos.weight"))
    assert sum(weight.numel() for weight in weights.values()) - beside == sum(p.numel() for p in ours.parameters())
    assert (config["n_layers"], config["n_ctx"]) == (2, run.problem.sequence_length)


def test_scores_of_an_export_are_divided_as_the_models_are(tmp_path: Path) -> None:
    """TransformerLens divides by sqrt(8), this model by sqrt(16)."""
    made = built(Architecture(5, 6, 2, 2, 2, 16, score_scale="d_model"))
    export_to_transformer_lens(made, 9, tmp_path / "lens")
    query = load_file(tmp_path / "lens" / "model.safetensors")["layers.1.attn.q.weight"]
    torch.testing.assert_close(query, made.blocks[1].attention.query.weight[0].T * 0.5**0.5)


@pytest.mark.slow
def test_an_exported_folder_opens_without_hopscope(run: hs.Run, tmp_path: Path) -> None:
    pytest.importorskip("transformer_lens", reason="an extra")
    out, batch = tmp_path / "lens", hs.sample(run.problem, 3, torch.Generator().manual_seed(0))
    exported(run.path, "--to", "transformer-lens", "--out", out)
    torch.save(batch.inputs, tmp_path / "inputs.pt")
    program = (
        f"import sys, torch\nexec(open('open.py').read())\ninputs = torch.load({str(tmp_path / 'inputs.pt')!r})\n"
        "answers, cache = bridge.run_with_cache(stream(inputs), start_at_layer=0)\n"
        "assert 'hopscope' not in sys.modules\n"
        f"torch.save(answers, {str(tmp_path / 'answers.pt')!r})"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=out, check=True)
    found, wanted = torch.load(tmp_path / "answers.pt"), run[0].transformer(batch.inputs[None])[0]
    torch.testing.assert_close(found[:, -wanted.shape[1] :], wanted, rtol=1e-4, atol=1e-5)


def test_exports_that_are_refused(run: hs.Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model must be from 0 to 1, got 2"):
        exported(run.path, "--to", "transformer-lens", "--out", tmp_path / "out", "--model", 2)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="one model can be exported at a time, got 2"):
        to_transformer_lens(built(SHAPES[0], 2), 9)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("notes")
    with pytest.raises(InputError, match="used is in use"):
        export_to_transformer_lens(built(SHAPES[0]), 9, tmp_path / "used")
