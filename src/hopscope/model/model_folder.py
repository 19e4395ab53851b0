"""A language model from a folder, as `save_pretrained` writes it; nothing is fetched from anywhere."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.errors import InputError, needs_extra
from hopscope.files import in_words, memory


@dataclass(frozen=True)
class ModelFolder:
    """What a folder holds.

    Attributes:
        name: of the folder.
        content: hash of the files that make the model what it is.
        tokenizer: the tokenizer.
        model: the model, as its files have it.
    """

    name: str
    content: str
    tokenizer: Any
    model: Any


_OLD_MASK = re.compile(r"(attn|attention)\.(masked_)?bias$")
"""Causal masks, which older versions of the library wrote among the weights (GPT-2, GPT-Neo, GPT-J)."""


def is_model_folder(folder: Path) -> bool:
    """Whether there is a model's configuration in a folder."""
    return (folder / "config.json").is_file()


def open_model_folder(folder: Path, *, trust_remote_code: bool = False) -> ModelFolder:
    """A causal language model and its tokenizer; weights in safetensors only.

    Args:
        folder: as `save_pretrained` writes it.
        trust_remote_code: whether code that the folder brings may run, with all rights of whoever runs this.

    Raises:
        InputError: the folder holds no such model, more than there is memory for, other weights than its configuration
            says, or a model that needs code of its own and is not trusted with it.
    """
    try:
        import transformers as library
    except ImportError:
        raise needs_extra("a model folder", "transformers", "llm") from None
    if not is_model_folder(folder):
        raise InputError(f"{folder} is no model folder: it has no config.json; give what save_pretrained wrote")
    needed, there = sum(path.stat().st_size for path in folder.glob("*.safetensors")), memory()
    if needed > there:
        raise InputError(f"{folder} holds {in_words(needed)} of weights and there are {in_words(there)} of memory")
    transformers: Any = library
    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # so that they are told, and refused below like the others
            output_loading_info=True,
        )
    except Exception as error:  # damaged files raise whatever their readers like
        if not trust_remote_code and "trust_remote_code" in str(error):
            raise InputError(
                f"{folder} brings code of its own, which is not run; read it, and if you trust it pass "
                "--trust-remote-code (in Python trust_remote_code=True)"
            ) from None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{folder} cannot be opened as a causal language model: {reason}") from None
    finally:
        if bars:
            transformers.utils.logging.enable_progress_bar()
    _check_weights(folder, model, told)
    return ModelFolder(folder.resolve().name, _content_hash(folder, trust_remote_code), tokenizer, model)


def _check_weights(folder: Path, model: Any, told: Mapping[str, Iterable[Any]]) -> None:
    """See that the files hold the model's weights, all and no others: the library fills gaps with random numbers.

    Raises:
        InputError: they do not.
    """
    buffers = {name for name, _ in model.named_buffers()}
    wrong = [(name, "is missing from the weights") for name in told["missing_keys"]]
    wrong += [
        (name, "stands in the weights and has no place in the model")
        for name in told["unexpected_keys"]
        if name not in buffers and not _OLD_MASK.search(name)
    ]
    wrong += [
        (name, f"has the shape {tuple(there)} in the weights and {tuple(wanted)} in the model")
        for name, there, wanted in told["mismatched_keys"]
    ]
    if wrong:
        name, what = min(wrong, key=lambda one: (len(one[0]), one))
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InputError(
            f"{folder} does not hold the model that its config.json describes: {name} {what}{more}; "
            "restore what save_pretrained wrote"
        )


def _content_hash(folder: Path, with_code: bool) -> str:
    """A hash of the files that make the model what it is; of its code too where that may run."""
    kinds = {".json", ".safetensors", ".txt", ".model", ".jinja", *((".py",) if with_code else ())}
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in kinds and path.is_file():
            total.update(path.name.encode() + b"\0")
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def export_model_folder(folder: Path, out: Path) -> None:
    """Copy a model and its tokenizer, and nothing else that stands beside them, as the library writes them.

    Args:
        folder: as `save_pretrained` writes it.
        out: new or empty.

    Raises:
        InputError: the folder holds no model that can be opened, or `out` is in use.
    """
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is in use; choose a new or empty folder")
    opened = open_model_folder(folder)
    opened.tokenizer.save_pretrained(out)
    opened.model.save_pretrained(out)
