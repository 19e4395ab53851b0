"""What a page of the explorer holds, read as a browser would without running it."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
from unpacked import unpack

from hopscope.explorer.arrays import Chunk


class Reader(HTMLParser):
    """Elements in order, data blocks by id or chunk name, and text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: dict[str, str] = {}
        self.heads: dict[str, str] = {}
        self.text = ""
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append((tag, given))
        self._inside = (given.get("data-chunk") or given.get("id") or tag) if tag in ("script", "style") else None
        if given.get("data-chunk"):
            self.heads[given["data-chunk"]] = given["data-head"]

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside:
            self.blocks[self._inside] = self.blocks.get(self._inside, "") + data
        else:
            self.text += data

    def array(self, name: str) -> np.ndarray:
        return unpack(Chunk(**{**json.loads(self.heads[name]), "text": self.blocks[name]}))


def told(reader: Reader) -> dict:
    """Its manifest."""
    return json.loads(reader.blocks["manifest"])
