"""A page of the explorer: a run to explore, and the page as a reader of HTML, as node and as a browser has it."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_run import all_passed, circuit_json, known_run, witness_shape

from hopscope.emergence.track import emergence_of_run
from hopscope.explorer.arrays import Chunk
from hopscope.explorer.page import SCRIPTS, source
from hopscope.training.recipe import Recipe
from hopscope.training.run import RunFolder


@contextmanager
def witness_recipes() -> Iterator[None]:
    """Recipes have the witness's shape here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "architecture", witness_shape)
        yield


def explored(path: Path) -> RunFolder:
    """The run, followed through its checkpoints. Call it under `witness_recipes`."""
    run = known_run(path)
    checks = all_passed()
    checks["sufficiency"]["says"], checks["outside"]["outcome"] = "0.01 <b>& less</b>", "failed"
    circuit_json(run, path / "circuit.json", checks=checks, certified=False)
    emergence_of_run(run)
    return RunFolder(path)


def unpack(chunk: Chunk) -> np.ndarray[Any, Any]:
    """The inverse of `hopscope.explorer.arrays.pack`, which the page has in JavaScript."""
    kind = np.dtype(chunk.dtype)
    planes = np.frombuffer(zlib.decompress(base64.b64decode(chunk.text)), np.uint8)
    values = np.ascontiguousarray(planes.reshape(kind.itemsize, math.prod(chunk.shape)).T).reshape(-1).view(kind)
    values = values.reshape(chunk.shape)
    return np.cumsum(values, axis=0, dtype=np.uint8) if chunk.delta else values


VOID = {"meta", "img", "br", "link", "input", "hr"}
"""Elements that have no end."""


class Reader(HTMLParser):
    """Elements in order, data blocks by id or chunk name, and text outside scripts; tags must nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, str] = {}
        self.heads: dict[str, str] = {}
        self.text = ""
        self._inside: str | None = None
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append((tag, given))
        self._open += [] if tag in VOID else [tag]
        self._inside = (given.get("data-chunk") or given.get("id") or tag) if tag in ("script", "style") else None
        if given.get("data-chunk"):
            self.heads[given["data-chunk"]] = given["data-head"]

    def handle_endtag(self, tag):
        self._inside = None
        assert tag in VOID or self._open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each such element."""
        return [attrs for name, attrs in self.elements if name == tag]

    def handle_data(self, data):
        if self._inside:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data
        else:
            self.text += data

    def array(self, name: str) -> np.ndarray:
        return unpack(Chunk(**{**json.loads(self.heads[name]), "text": self.blocks[name]}))

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads(self.blocks["manifest"])


PURE = SCRIPTS[: SCRIPTS.index("dom")]
"""Sources that touch no document."""


def in_node(code: str, given: Any) -> Any:
    """What the body `code` of an async function of `given` returns in node; it sees every name of the pure sources."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the page's arithmetic is compared with PyTorch's in the browser only")
    text = "\n".join(source((name,), "js").split('"use strict";\n', 1)[1].rsplit("})();", 1)[0] for name in PURE)
    program = f"""{text}
    let text = "";
    process.stdin.on("data", (part) => (text += part)).on("end", async () => {{
      const given = JSON.parse(text);
      const found = await (async () => {{ {code} }})();
      console.log(JSON.stringify(found));
    }});"""
    done = subprocess.run([node, "-e", program], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def chunk_json(chunk: Any) -> dict[str, Any]:
    return {"head": chunk.head, "text": chunk.text}


def browser() -> Any:
    """A driver of Debian's chromium without a window; without it, skips, or fails with HOPSCOPE_REQUIRE_BROWSER=1."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    missing = [name for name, path in (("chromium", chromium), ("chromium-driver", driver)) if path is None]
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing.append("selenium")
    if missing:
        reason = f"{' and '.join(missing)} not installed: the explorer is not tested in a browser"
        pytest.fail(reason) if os.environ.get("HOPSCOPE_REQUIRE_BROWSER") == "1" else pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


class Tab:
    """One page at a time, in the driver of `browser`."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, view: str = "", *, width: int = 1280, scripts: bool = True, dark: bool = False) -> None:
        """Open a page of a size; waits until it has unpacked its arrays."""
        self.driver.get("about:blank")
        self.logs(), self.requests()
        self.tell("Emulation.setScriptExecutionDisabled", value=not scripts)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.tell("Emulation.setEmulatedMedia", features=theme)
        self.driver.get(page.as_uri() + (f"#{view}" if view else ""))
        if scripts:
            self.until("return document.documentElement.dataset.ready")

    def tell(self, command: str, **options: Any) -> Any:
        """A command of the browser's own protocol."""
        return self.driver.execute_cdp_cmd(command, options)

    def ask(self, script: str, *given: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *given)

    def until(self, script: str) -> Any:
        """The first true value that a script returns, within half a minute."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = self.ask(script)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}; {self.logs()}")

    def press(self, key: str) -> None:
        """A key, on whatever has the focus; waits until it is drawn."""
        from selenium.webdriver.common.action_chains import ActionChains

        before = self.ask("return document.documentElement.dataset.drawn")
        ActionChains(self.driver).send_keys(key).perform()
        self.until(f"return document.documentElement.dataset.drawn !== '{before}'")

    def logs(self) -> list[str]:
        """What the console said since the last time."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What was asked for since the last time."""
        events = [json.loads(line["message"])["message"] for line in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
