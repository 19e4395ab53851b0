"""A language model from a folder, as `save_pretrained` writes it; nothing is downloaded."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.errors import InputError, in_a_line, needs_extra
from hopscope.machine import in_words, memory
from hopscope.problem.text.tokens import unread


@dataclass(frozen=True)
class ModelFolder:
    """The contents of a model folder.

    Attributes:
        name: name of the folder.
        content: hash of the files that define the model.
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
    """Whether a folder holds a model's configuration."""
    return (folder / "config.json").is_file()


def open_model_folder(folder: Path, *, trust_remote_code: bool = False) -> ModelFolder:
    """A causal language model and its tokenizer; weights in safetensors only.

    Args:
        folder: a folder as `save_pretrained` writes it.
        trust_remote_code: whether code in the folder may run, with all rights of the user.

    Raises:
        InputError: the folder holds no such model, its weights are larger than memory or not those that its
            configuration describes, or it needs code of its own that is not trusted.
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
    try:
        with _no_bars(transformers):
            tokenizer = _tokenizer(transformers, folder, trust_remote_code)
            model, told = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=trust_remote_code,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # so that they are reported, and refused below like the others
                output_loading_info=True,
            )
    except InputError:
        raise
    except Exception as error:  # readers of damaged files raise errors of any kind
        if not trust_remote_code and "trust_remote_code" in str(error):
            raise InputError(
                f"{folder} brings code of its own, which is not run; read it, and if you trust it pass "
                "--trust-remote-code (in Python trust_remote_code=True)"
            ) from None
        raise InputError(f"{folder} cannot be opened as a causal language model: {in_a_line(error)}") from None
    _check_weights(folder, model, told)
    return ModelFolder(folder.resolve().name, _content_hash(folder, trust_remote_code), tokenizer, model)


@contextmanager
def _no_bars(transformers: Any) -> Iterator[None]:
    """A context in which the library draws no progress bars."""
    logging = transformers.utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


_PROBE = f"{string.ascii_letters}\n{string.digits} = ?\n"
"""What the tokenizer of any model of English reads."""

_TOKENIZERS = ("*token*", "vocab*", "*.model", "spm*")
"""What the files of a tokenizer are called."""


def _tokenizer(transformers: Any, folder: Path, trust_remote_code: bool) -> Any:
    """The tokenizer of a folder.

    For some families (Qwen2) the library puts its own way of cutting a text in the place of the one in the folder's
    tokenizer.json. Where that leaves characters out, and the folder's no more of them, the folder's is taken.

    Raises:
        InputError: the folder holds none, in whose place the library may put one without words.
    """
    try:
        usual = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
        words = usual.get_vocab().keys() - usual.get_added_vocab().keys()
    except Exception:
        words = set()
        if any(path.match(name) for path in folder.iterdir() for name in _TOKENIZERS):
            raise
    if not words:
        raise InputError(f"{folder} holds no tokenizer; write the model's there too, with tokenizer.save_pretrained")
    if not (folder / "tokenizer.json").is_file() or not unread(_PROBE, usual):
        return usual
    written = transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    lost, its = (len("".join(unread(_PROBE, one).split())) for one in (usual, written))
    return written if its <= lost else usual


def _check_weights(folder: Path, model: Any, told: Mapping[str, Iterable[Any]]) -> None:
    """Check that the files hold all of the model's weights and no others: the library fills gaps with random numbers.

    Raises:
        InputError: weights are missing, have no place in the model, or have another shape.
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
    """A hash of the files that define the model, including its code where that may run."""
    kinds = {".json", ".safetensors", ".txt", ".model", ".jinja", *((".py",) if with_code else ())}
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in kinds and path.is_file():
            total.update(path.name.encode() + b"\0")
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def export_model_folder(folder: Path, out: Path) -> None:
    """Copy a model and its tokenizer as the library writes them, and no other files of the folder.

    Args:
        folder: a folder as `save_pretrained` writes it.
        out: a new or empty folder.

    Raises:
        InputError: the folder holds no model that can be opened, or `out` is in use.
    """
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is in use; choose a new or empty folder")
    opened = open_model_folder(folder)
    opened.tokenizer.save_pretrained(out)
    import transformers

    with _no_bars(transformers):
        opened.model.save_pretrained(out)
