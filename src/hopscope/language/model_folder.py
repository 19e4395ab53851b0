"""A pretrained language model: a folder as `save_pretrained` writes it, a GGUF file, or a name that a hub knows."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hopscope.errors import InputError, in_a_line, needs_extra
from hopscope.machine import in_words, memory
from hopscope.problem.text.tokens import uncovered


@dataclass(frozen=True)
class ModelFolder:
    """A pretrained model with its tokenizer, the name of its folder or file, and `content`, a hash of its files."""

    name: str
    content: str
    tokenizer: Any
    model: Any


_OLD_MASK = re.compile(r"(attn|attention)\.(masked_)?bias$")
"""Causal masks, which older versions of the library stored with the weights (GPT-2, GPT-Neo, GPT-J)."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_KINDS = (".json", ".safetensors", ".txt", ".model", ".jinja")
_POINTER = b"version https://git-lfs"  # the start of the pointer that replaces a large file in Git


def is_model_folder(folder: Path) -> bool:
    """Whether a folder holds a model's configuration."""
    return (folder / "config.json").is_file()


def open_model_folder(source: Path | str, *, trust_remote_code: bool = False) -> ModelFolder:
    """Open a causal language model and its tokenizer; the weights must be safetensors or GGUF files.

    `source` is a folder as `save_pretrained` writes it, a GGUF file or a folder with one, or a name `org/model` of the
    hub. A model that is not in the hub's cache is downloaded, unless HF_HUB_OFFLINE=1.

    Raises:
        InputError: the model does not exist, its weights are larger than memory or do not fit its configuration, it
            needs code that is not trusted, or transformers (for GGUF, gguf) is not installed.
    """
    folder, gguf, name = _located(source)
    _check_files(folder, gguf)
    weights: dict[str, Any] = {"gguf_file": gguf} if gguf else {"use_safetensors": True}
    with _opening(source, gguf, trust_remote_code) as transformers:
        tokenizer = _tokenizer(transformers, folder, gguf, trust_remote_code)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            ignore_mismatched_sizes=True,  # mismatched weights are reported and refused below
            output_loading_info=True,
            **weights,
        )
    if gguf:
        del model.config.quantization_config  # its weights are plain numbers now
        model.is_quantized = False
    _check_weights(folder, model, report)
    return ModelFolder(name, _content_hash(folder, gguf, trust_remote_code), tokenizer, model)


def open_tokenizer(source: Path | str, *, trust_remote_code: bool = False) -> Any:
    """Open only the tokenizer of a model; for the arguments and errors see `open_model_folder`."""
    folder, gguf, _ = _located(source)
    with _opening(source, gguf, trust_remote_code) as transformers:
        return _tokenizer(transformers, folder, gguf, trust_remote_code)


@contextmanager
def _opening(source: Path | str, gguf: str | None, trust_remote_code: bool) -> Iterator[Any]:
    """A context that yields Transformers without its bars; any error becomes an `InputError` about the model."""
    import transformers

    if gguf and not (find_spec("gguf") and find_spec("accelerate")):
        raise needs_extra("a GGUF file", "gguf", "gguf")
    logging: Any = transformers.utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield transformers
    except InputError:
        raise
    except Exception as error:  # readers of damaged files raise errors of any kind
        if not trust_remote_code and "trust_remote_code" in str(error):
            raise InputError(
                f"{source} has code of its own, which is not run; read it, and if you trust it pass "
                "--trust-remote-code (in Python trust_remote_code=True)"
            ) from None
        raise InputError(f"{source} cannot be opened as a causal language model: {in_a_line(error)}") from None
    finally:
        if bars:
            logging.enable_progress_bar()


def _located(source: Path | str) -> tuple[Path, str | None, str]:
    """Return the folder of a model, the name of its GGUF file (None if it has none), and the name of the model."""
    if not find_spec("transformers"):
        raise needs_extra("a pretrained model", "transformers", "llm")
    path = Path(source)
    if path.is_file() and path.suffix == ".gguf":
        return path.parent, path.name, path.stem
    if is_model_folder(path):
        return path, None, path.resolve().name
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        if len(found) == 1:
            return path, found[0].name, found[0].stem
        if (path / "adapter_config.json").is_file():
            raise InputError(f"{path} holds an adapter alone; merge it into its model (merge_and_unload) and save that")
        many = f"has {len(found)} GGUF files; give one of them" if found else "has no config.json and no GGUF file"
        raise InputError(f"{path} is no model folder: it {many}")
    if not _HUB_NAME.fullmatch(str(source)):
        raise InputError(f"there is no model at {source}; give a folder that save_pretrained wrote, or a GGUF file")
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(str(source), allow_patterns=[f"*{kind}" for kind in (*_KINDS, ".py")])
        return Path(folder), None, str(source).replace("/", "--")
    except Exception as error:  # of the network, the hub, or its cache
        raise InputError(
            f"there is no folder {source}, and no such model in the hub or its cache: {in_a_line(error)}"
        ) from None


def _check_files(folder: Path, gguf: str | None) -> None:
    """Check that files of weights exist, hold weights, fit into memory, and are not quantised."""
    weights = [folder / gguf] if gguf else [*folder.glob("model.safetensors")]
    index = folder / "model.safetensors.index.json"
    try:
        packed = None if gguf else json.loads((folder / "config.json").read_text()).get("quantization_config")
        if index.is_file():
            weights = sorted({folder / name for name in json.loads(index.read_text())["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder} has a damaged config.json or index ({in_a_line(error)})") from None
    for path in weights:
        if not path.is_file():
            raise InputError(f"{path} is missing, but {index.name} names it; fetch the model again")
        with path.open("rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                raise InputError(f"{path} is a pointer of Git LFS, not the weights; fetch them with `git lfs pull`")
    if packed:
        method = packed.get("quant_method", "an unknown method") if isinstance(packed, dict) else packed
        raise InputError(f"{folder} is quantised by {method}, which is not supported; give the plain model or a GGUF")
    needed, there = sum(map(_size_once_open, weights)), memory()
    if needed > there:
        raise InputError(f"{folder} holds {in_words(needed)} of weights, but memory has only {in_words(there)}")


def _size_once_open(path: Path) -> int:
    """Return the bytes of memory that a file of weights takes; the weights of a GGUF file are unpacked to fp32."""
    if path.suffix == ".gguf":
        with suppress(Exception):  # a damaged file is reported when it is opened
            from gguf import GGUFReader

            return 4 * sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
    return path.stat().st_size


_PROBE = f"{string.ascii_letters}\n{string.digits} = ?\n"  # characters that any tokenizer for English covers
_TOKENIZERS = ("tokenizer.*", "vocab*", "*.model", "*.tiktoken", "tekken*", "spm*")  # names of tokenizer files


def _tokenizer(transformers: Any, folder: Path, gguf: str | None, trust_remote_code: bool) -> Any:
    """Return the tokenizer of a folder.

    For some families (Qwen2), the library's tokenizer does not split texts as tokenizer.json in the folder says. If the
    library's tokenizer leaves out characters, tokenizer.json is used, unless it leaves out more characters.
    """
    if gguf:
        return transformers.AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
    if not any(path.match(name) for path in folder.iterdir() for name in _TOKENIZERS):  # else it may be empty
        raise InputError(f"{folder} holds no tokenizer; save the model's there too, with tokenizer.save_pretrained")
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    usual = transformers.AutoTokenizer.from_pretrained(folder, **here)
    if not (folder / "tokenizer.json").is_file() or not uncovered(_PROBE, usual):
        return usual
    written = transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    lost, its = (len("".join(uncovered(_PROBE, tokenizer).split())) for tokenizer in (usual, written))
    return written if its <= lost else usual


def _check_weights(folder: Path, model: Any, report: Mapping[str, Iterable[Any]]) -> None:
    """Check that the files hold exactly the weights of the model, since the library fills in missing ones at random."""
    buffers = {name for name, _ in model.named_buffers()}
    extra = [name for name in report["unexpected_keys"] if name not in buffers and not _OLD_MASK.search(name)]
    wrong = dict.fromkeys(report["missing_keys"], "is missing from the weights")
    wrong |= dict.fromkeys(extra, "is in the weights and has no place in the model")
    for name, there, wanted in report["mismatched_keys"]:
        wrong[name] = f"has the shape {tuple(there)} in the weights and {tuple(wanted)} in the model"
    if wrong:
        name = min(wrong, key=lambda name: (len(name), name))
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(
            f"{folder} does not hold the model that its config.json describes: {name} {wrong[name]}{more}; "
            "restore what save_pretrained wrote"
        )


def _content_hash(folder: Path, gguf: str | None, with_code: bool) -> str:
    """Return a hash of the model's files, including its code if `with_code`; for a GGUF file, the file's SHA-256."""
    if gguf:
        with (folder / gguf).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    kinds = (*_KINDS, ".py") if with_code else _KINDS
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in kinds and path.is_file() and not path.name.startswith("."):
            total.update(path.name.encode() + b"\0")
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()
