"""A browser without a window, for pages on disk. Debian's chromium and driver, by their paths: nothing is looked up."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest


def browser() -> Any:
    """A driver; without a browser the test is skipped, or fails where HOPSCOPE_REQUIRE_BROWSER=1."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    missing = [name for name, path in (("chromium", chromium), ("chromium-driver", driver)) if path is None]
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing.append("selenium")
    if missing:
        reason = f"{' and '.join(missing)} not installed: the explorer is not tried in a browser"
        pytest.fail(reason) if os.environ.get("HOPSCOPE_REQUIRE_BROWSER") == "1" else pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


class Tab:
    """One page at a time.

    Args:
        driver: of `browser`.
    """

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

    def tell(self, command: str, **what: Any) -> Any:
        """A command of the browser's own protocol."""
        return self.driver.execute_cdp_cmd(command, what)

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
        told = (json.loads(line["message"])["message"] for line in self.driver.get_log("performance"))
        return [
            one["params"]["request"]["url"] for one in told if one["method"] == "Network.requestWillBeSent"
        ]  # fmt: skip
