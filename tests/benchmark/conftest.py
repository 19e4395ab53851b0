"""Nothing here may reach a hub, a user's own folders, or a user's keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.setenv("LOCAL_API_KEY", "sk-very-secret-key-0123456789")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """The benchmark's test model, our own after seconds of training: its folder and history."""
    pytest.importorskip("transformers", reason="the extra `llm` is not installed")
    from small_decoders import OWN_RECIPE

    from examples.text_model.training import train_text_model

    folder = tmp_path_factory.mktemp("own") / "model"
    return folder, train_text_model(OWN_RECIPE, folder)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, trained: tuple[Path, Any]) -> dict[str, Path]:
    """That model, and the same behind a chat template; who changes one takes a copy."""
    from small_decoders import chat_model

    return {"plain": trained[0], "chat": chat_model(trained[0], tmp_path_factory.mktemp("models") / "chat")}


@pytest.fixture
def collected() -> Iterator[None]:
    """What Inspect leaves open is collected here, under the filter for warnings of its tests, not in another test."""
    yield
    gc.collect()
