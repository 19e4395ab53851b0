"""The page stands alone, shows every row, lets no text become markup, and can be read by everyone."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from explorer_pages import Reader
from made_results import metrics, trained
from markupsafe import Markup

from hopscope.paper.claims import Finding, complete
from hopscope.paper.report import PageFigure, Section, inline, write_page
from hopscope.paper.section_7_figures import final_losses, partial_losses
from hopscope.plot.training import Panel, training

HOSTILE = "<script>alert('x')</script>\"'><img src=http://evil.example/x onerror=a()>&amp;"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A page with everything on it, and its folder."""
    folder = tmp_path_factory.mktemp("report")
    return full(folder), folder


def write(
    folder: Path, sections: list[Section] | None = None, found: list[Finding] | None = None, text: str = "plain"
) -> str:
    path = folder / "report.html"
    write_page(path, text, complete(found or []), sections or [], f"make reproduce {text}")
    return path.read_text(encoding="utf-8")


def full(folder: Path, text: str = "plain") -> str:
    """A page with everything on it, and `text` wherever text can go."""
    models, panels = [*trained(1), *trained(2)], [Panel(f"{layers} layers", metrics()) for layers in (1, 2)]
    figures = [
        PageFigure("final losses", final_losses(models, {text.replace("$", ""): 1}), text),
        PageFigure("partial-losses", partial_losses(models), text),
        PageFigure("training", training(*panels), text),
    ]
    sections = [Section(text, [text], figures)]
    found = [
        Finding("C3", "yes", text, text, "open", (3, 4), text, f"{text}: {text}", text),
        Finding("C4", "no", "a", "b", "does not hold", (1, 8), "c", "laptop: b", "sweep/ic layers"),
        Finding("C5", reason=text),
    ]
    return write(folder, sections, found, text)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    parsed = Reader(full(tmp_path, HOSTILE))
    assert not parsed.all("script")
    assert not parsed.all("img")
    assert not [attrs for _, attrs in parsed.elements if any(name.startswith("on") for name in attrs)]
    assert parsed.text.count("alert(") >= 8


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a `b <c>` d", "a <code>b &lt;c&gt;</code> d"),
        ("one ` alone", "one ` alone"),
        ("`x1` and x1", "<code>x1</code> and <var>x</var><sub>1</sub>"),
        ("<= 3^t", "≤ 3<sup>t</sup>"),
        ("log3(2D)", "log<sub>3</sub>(2D)"),
        ("4 x 8", "4 × 8"),
        ("max1", "max1"),
    ],
)
def test_inline_markup(text: str, html: str) -> None:
    assert inline(text) == Markup(html)


def test_the_page_needs_nothing_but_itself(page: tuple[str, Path]) -> None:
    html = page[0]
    parsed = Reader(html)
    for tag, attrs in parsed.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form"}
        for name in ("src", "href", "xlink:href", "srcset", "poster", "data"):
            value = attrs.get(name) or ""
            assert not re.match(r"[a-z]+:|//|/", value) or value.startswith("data:"), (tag, name, value)
    assert not re.search(r"url\((?!#)|@import|@font-face", html)
    policy = next(attrs["content"] for attrs in parsed.all("meta") if attrs.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_links_lead_to_files_beside_the_page(page: tuple[str, Path]) -> None:
    from urllib.parse import unquote

    parsed = Reader(page[0])
    links = [attrs["href"] or "" for attrs in parsed.all("a") if not (attrs["href"] or "").startswith("#")]
    assert "./sweep/ic%20layers" in links
    assert "./claims.json" in links
    drawn = [link for link in links if link.startswith("figures/")]
    assert len(drawn) == 9
    assert all((page[1] / unquote(link)).is_file() for link in drawn)


def test_ids_are_unique_and_references_resolve(page: tuple[str, Path]) -> None:
    html = page[0]
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    referred = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|aria-labelledby="([^"]+)"', html)
    assert len(referred) > 50
    assert {"".join(groups) for groups in referred} <= set(ids)


def test_a_row_for_each_claim_with_this_run_and_the_stored_ones_beside_it(page: tuple[str, Path]) -> None:
    parsed = Reader(page[0])
    assert [attrs["id"] for attrs in parsed.all("tr") if attrs.get("id")] == [f"C{n}" for n in range(1, 22)]
    assert len(parsed.all("details")) == 21
    row = page[0].partition('id="C4"')[2].partition("</tr>")[0]
    run, stored = (" ".join(re.sub(r"<[^>]*>", "", part).split()) for part in row.split('data-label="')[2:])
    assert "no as the paper did it: a" in run
    assert "does not hold in general, 1 of 8 (0% to 53%): c" in run
    assert "yes as the paper did it: x1, x2, ... learned by" in stored
    assert "results/paper/sweep" in stored
    assert page[0].index("Figure") < page[0].index('id="claims"') < page[0].index('href="./claims.json"')


def test_the_page_can_be_heard(page: tuple[str, Path]) -> None:
    parsed = Reader(page[0])
    assert parsed.all("html")[0]["lang"] == "en"
    assert parsed.all("meta")[1]["content"] == "width=device-width, initial-scale=1"
    assert len(parsed.all("h1")) == 1
    images = [attrs for attrs in parsed.all("svg") if attrs.get("role") == "img"]
    assert len(images) == 3
    assert all(attrs["aria-label"] for attrs in images)
    assert all(attrs.get("aria-label") or attrs.get("aria-hidden") for attrs in parsed.all("svg"))


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_has_contrast_aa_in_both_themes() -> None:
    css = (files("hopscope.paper") / "templates" / "page.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    ]
    assert len(themes) == 2
    pairs = [("ink", "paper"), ("soft", "paper"), ("link", "paper"), ("ink", "raised"), ("soft", "raised"),
             ("good", "good-back"), ("bad", "bad-back"), ("soft", "idle-back")]  # fmt: skip
    for theme in themes:
        for front, back in pairs:
            dark, light = sorted([luminance(theme[front]), luminance(theme[back])])
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (front, back)
