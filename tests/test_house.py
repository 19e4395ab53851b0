"""The shape of the package: who imports whom, in one direction, one name for one type, and how its messages read."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import hopscope as hs

SOURCE = Path(hs.__file__).parent

ROOMS = [
    "problem",
    "kernels",
    "theory",
    "model",
    "training",
    "circuits",
    "language",
    "emergence",
    "benchmark",
    "plot",
    "explorer",
    "lab",
    "paper",
    "cli",
]
EXCEPTIONS = {
    "kernels": set(),
    "theory": {"problem", "model"},  # witnesses are the project's own transformers
    "benchmark": {"kernels", "language", "model", "problem"},
    "model": {"kernels"},
}

FILES = {
    ".".join(["hopscope", *file.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"): file
    for file in SOURCE.rglob("*.py")
}


def imported_modules(file: Path) -> set[str]:
    """Modules of the package that a file imports, at its top or wherever else."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in FILES else str(node.module) for name in names}
    return found & set(FILES)


IMPORTS = {name: imported_modules(file) for name, file in FILES.items()}


def part(name: str, place: int) -> str:
    """The name of the folder or file at that depth of a module's name, from 0; empty where it is not so deep."""
    return (name.split(".") + [""] * place)[place]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_above_it(room):
    allowed = EXCEPTIONS.get(room, set(ROOMS[: ROOMS.index(room)])) | {room}
    inside = [name for name in FILES if part(name, 1) == room]
    assert inside
    for name in inside:
        assert {part(other, 1) for other in IMPORTS[name]} & set(ROOMS) <= allowed, name


def test_kernels_have_one_entrance():
    """Other rooms name `hopscope.kernels` alone, not its files."""
    for name, file in FILES.items():
        if part(name, 1) != "kernels":
            assert "from hopscope.kernels." not in file.read_text(), name


def test_no_file_imports_in_a_circle_not_even_inside_a_function():
    assert "hopscope.circuits.find" in IMPORTS["hopscope.lab.model"]
    graphlib.TopologicalSorter(IMPORTS).prepare()  # raises CycleError, which names the files


def test_folders_and_files_side_by_side_import_in_one_direction():
    """Of the files and folders in one folder, each imports only those below it."""
    beside: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, imported in IMPORTS.items():
        for other in imported:
            mine, theirs = name.split("."), other.split(".")
            deep = next((deep for deep, ends in enumerate(zip(mine, theirs, strict=False)) if ends[0] != ends[1]), None)
            if deep is not None:
                beside[".".join(mine[:deep])][mine[deep]].add(theirs[deep])
    assert beside["hopscope.circuits"]["checks"] >= {"evaluate", "resume"}
    for folder, graph in beside.items():
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            raise AssertionError(f"{folder}: {' <- '.join(error.args[1])}") from None


def test_no_two_types_share_a_name():
    """One word, one type: classes, and names that are given to types. Variables of types have one letter."""
    homes: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            named = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                named = [target.id for target in node.targets if isinstance(target, ast.Name)]
            for name in named:
                if name[0].isupper() and not name.isupper():
                    homes.setdefault(name, []).append(file.name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


OUTSIDE = [*(SOURCE.parents[1] / "studies").rglob("*.py"), *(SOURCE.parents[1] / "examples").rglob("*.py")]
MODULES = {"benchmark", "paper", "plot", "recipes", "statistics", "theory"}


def internals(source: str) -> list[str]:
    """What a file outside the package names of it that is not public: neither in `hopscope.__all__` nor in that of a
    public module; and private attributes, and imports by name, behind which there could be any."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("hopscope", "importlib"):
            found += [f"{node.module}.{name.name}" for name in node.names if not public(f"{node.module}.{name.name}")]
        elif isinstance(node, ast.Import):
            names = [name.name for name in node.names if name.name.split(".")[0] in ("hopscope", "importlib")]
            found += [name for name in names if name != "hopscope"]
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if re.fullmatch(r"hs\.\w+(\.\w+)?", name) and not public(name.replace("hs.", "hopscope.", 1)):
                found.append(name)
            if (
                node.attr.startswith("_")
                and not node.attr.startswith("__")
                and node.attr not in ("_replace", "_asdict")
                and ast.unparse(node.value) != "self"
            ):
                found.append(name)
    return found


def public(name: str) -> bool:
    """Whether it is a public name of the package, of a public module, or an attribute of a public name."""
    _, first, *rest = name.split(".")
    if first not in hs.__all__:
        return False
    return not rest or first not in MODULES or rest[0] in getattr(hs, first).__all__


@pytest.mark.parametrize("file", OUTSIDE, ids=lambda file: "/".join(file.parts[-2:]))
def test_studies_and_examples_name_what_is_public_alone(file: Path) -> None:
    assert internals(file.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from hopscope.circuits.find import search_circuit",
        "import hopscope.lab",
        "import importlib",
        "from hopscope import words",
        "import hopscope as hs\nhs.theory.information_flow",
        "import hopscope as hs\nhs.circuits",
        "run._rows",
    ],
)
def test_internals_are_seen(line: str) -> None:
    assert internals(line) != []
    assert internals("import hopscope as hs\nfrom hopscope import theory\nhs.theory.depths(3)\nself._rows") == []


RETIRED = re.compile(r"\b(anew|look(s|ed)? at|look-?ups?|brings?|brought|gathers?|told|seam|the bar|watch(es|ed)?)\b")
"""Words that messages had and that say less than the nouns of the field."""


def messages(source: str) -> Iterator[str]:
    """The texts of the `InputError`s that a file raises, with X for every value in them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError" and node.args:
            first = node.args[0]
            parts = first.values if isinstance(first, ast.JoinedStr) else [first]
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


def test_messages_are_one_plain_sentence():
    assert [*messages("raise InputError(f'hops must be at least 1, got {hops}')")] == ["hops must be at least 1, got X"]
    found = [message for file in SOURCE.rglob("*.py") for message in messages(file.read_text(encoding="utf-8"))]
    assert len(found) > 200
    assert [message for message in found if RETIRED.search(message) or message.endswith(".") or "\n" in message] == []


def test_line_breaks_are_the_same_on_every_system():
    """On Windows text files have others by default, and the seal of a row with another line break does not fit."""
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for call in (
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        ):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            written = name == "open" and any(set(word) <= {*"wax+t"} and word for word in words)
            of_path = name == "write_text" and isinstance(call.func, ast.Attribute)
            if (written or of_path) and "newline" not in [keyword.arg for keyword in call.keywords]:
                wrong.append(f"{path.name}:{call.lineno}")
    assert wrong == []
