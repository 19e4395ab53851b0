"""The page's sources run by node, so that its arithmetic can be held against PyTorch's without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from hopscope.explorer.page import SCRIPTS, source

PURE = SCRIPTS[: SCRIPTS.index("dom")]
"""Sources that touch no document."""


def in_node(code: str, given: Any) -> Any:
    """What `code`, the body of an async function of `given`, gives back; it sees every name of the pure sources."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the page's arithmetic is held against PyTorch in the browser only")
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
