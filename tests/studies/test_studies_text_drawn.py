"""Pictures of language models' circuits: a panel each, on a page, with numbers that can be read."""

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from hopscope.circuits.circuit import Circuit
from studies.figures.text_circuits import text_circuits

CIRCUITS = Path(__file__).parents[2] / "results" / "studies" / "text" / "circuits"


def drawn(arm: str):
    """The stored circuits of an arm that were found, and their picture, laid out."""
    circuits = [Circuit.load(path) for path in sorted(CIRCUITS.glob(f"{arm}-seed-*.json"))]
    figure = text_circuits(circuits)
    FigureCanvasAgg(figure).draw()
    return [one for one in circuits if one.found], figure


@pytest.mark.parametrize("arm", ["four-hops", "pruned-six-layers"])
def test_no_number_stands_on_another_and_the_whole_fits_a_page(arm):
    circuits, figure = drawn(arm)
    width, height = figure.get_size_inches()
    assert width < 11
    assert height < 16
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]
    assert len(titles) == len(set(titles)) == len(circuits)
    assert sum(title.endswith(": certified") for title in titles) == sum(bool(one.certified) for one in circuits)
    numbers = 0
    for axes in figure.axes:
        texts = [text for text in axes.texts if text.get_text()[:2].replace(".", "").isdigit()]
        boxes = [text.get_window_extent() for text in texts]
        # A third of a number's height may be shared: digits do not reach the edges of their box.
        assert not [
            (one.get_text(), other.get_text())
            for (one, a), (other, b) in combinations(zip(texts, boxes, strict=True), 2)
            if min(a.x1, b.x1) > max(a.x0, b.x0) and min(a.y1, b.y1) - max(a.y0, b.y0) > a.height / 3
        ]
        numbers += len(texts)
    assert numbers >= sum(len({path.path[2:] for path in one.paths}) for one in circuits)


@pytest.mark.parametrize(("arm", "colours"), [("four-hops", 0), ("pruned-six-layers", 5)])
def test_colours_are_named_once_for_all_and_not_at_all_where_no_uses_were_looked_for(arm, colours):
    _, figure = drawn(arm)
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert [len(legend.get_texts()) for legend in figure.legends] == ([colours] if colours else [])
