"""A circuit followed through runs whose emergence is known; crossings, spreads and plateaus."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from known_run import EVERY, STEPS, WITNESS, circuit_json, known_run, scaled, witness_shape

from hopscope.circuits.circuit import Circuit
from hopscope.emergence.config import EmergenceConfig
from hopscope.emergence.history import MAPS_OVER_TIME, Emergence
from hopscope.emergence.timing import Crossing, Plateau, crossings, first_crossings, hop_of, order, plateau
from hopscope.emergence.track import follow, observe
from hopscope.errors import InputError
from hopscope.problem.paths import AttentionPath
from hopscope.problem.roles import first_member, query_role, role_names, second_member
from hopscope.training.data import held_out
from hopscope.training.metrics import Metrics, rows_of
from hopscope.training.recipe import Recipe

PROBLEM = WITNESS.problem
PATHS = WITNESS.circuit
QUICK = EmergenceConfig(sequences=8)


@pytest.fixture(autouse=True)
def _witness_architecture(monkeypatch):
    """These runs hold witnesses, which do without LayerNorm; no recipe says that."""
    monkeypatch.setattr(Recipe, "architecture", witness_shape)


def uniform_attention(path: AttentionPath, sequences: int) -> float:
    """Mean of 1 / (number of positions a query may see), worked out from the places alone."""
    place = held_out(PROBLEM, sequences, 0, "emergence").place[..., path.query]
    return (1 / (place.double() + 1)).mean().item()


def test_paths_emerge_at_the_step_at_which_their_layer_was_added(tmp_path):
    """Layers come at 200, 300 and 500: attention goes from uniform to 1 in the interval before, and is interpolated."""
    emergence, _ = follow(known_run(tmp_path / "run"), PATHS, 0, QUICK)
    assert emergence.steps == tuple(range(0, STEPS + 1, EVERY))
    came = {0: 200, 1: 300, 2: 500}
    for path, history in zip(PATHS, emergence.paths, strict=True):
        uniform, there = uniform_attention(path, 8), came[path.layer]
        assert history.attention[: there // EVERY] == pytest.approx([uniform] * (there // EVERY), rel=1e-5)
        assert history.attention[there // EVERY :] == pytest.approx([1.0] * (7 - there // EVERY), abs=1e-3)
        right = there - EVERY + EVERY * (0.5 - uniform) / (history.attention[there // EVERY] - uniform)
        assert history.crossing.step == pytest.approx(right, rel=1e-6)
        assert history.crossing.between == (there - EVERY, there)
        assert there - EVERY < history.crossing.low <= history.crossing.step <= history.crossing.high < there
        assert history.foremost[-1] == 1.0


def test_a_path_costs_nothing_before_it_emerges_and_much_after(tmp_path):
    emergence, _ = follow(known_run(tmp_path / "run"), PATHS, 0, QUICK)
    for history in emergence.paths:
        before = [change for step, change in zip(emergence.steps, history.change, strict=True) if step < 100]
        assert before == [0.0] * len(before)
        assert history.change[-1] > 0.1
        low, high = history.change_interval[-1]
        assert low <= history.change[-1] <= high
    by_hop = [[losses[hop] for losses in emergence.partial_losses] for hop in range(3)]
    assert [sum(loss > 0.5 for loss in hop) for hop in by_hop] == [3, 5, 5]  # x1 with layer 2, x2 and x3 with layer 3
    assert [crossing.between for crossing in emergence.learned] == [(200, 300), (400, 500), (400, 500)]


def test_the_order_of_hops_and_the_plateau(tmp_path):
    """The witness doubles: layer 2 delivers x1, then layer 3 x2 and x3 together."""
    run = known_run(tmp_path / "run")
    emergence, _ = follow(run, PATHS, 0, QUICK)
    by_layer = {layer: max(p.crossing.step for p in emergence.paths if p.layer == layer) for layer in (1, 2, 3)}
    last = next(p.crossing.step for p in emergence.paths if p.layer == 3)
    first, second, third = emergence.order.emerged
    assert by_layer[1] < first <= by_layer[2]
    assert (second, third) == (last, last)
    assert not emergence.order.one_by_one
    assert (emergence.plateau.left, emergence.plateau.learned) == (300, (300, 500, 500))
    assert emergence.plateau.reached == 100


def crossing_at(step):
    return Crossing(step, step, step, None)


def test_the_order_of_a_serial_circuit():
    """Transformer D's way: a head that ties pairs, then one head a hop. The third never comes in the second case."""
    pairs = [AttentionPath(0, 0, second_member(k), first_member(k)) for k in (1, 2, 3)]
    readers = [AttentionPath(k, 0, query_role(3), second_member(k)) for k in (1, 2, 3)]
    for steps, right in (
        ([10.0, 10.0, 40.0, 20.0, 30.0, 35.0], (20, 30, 40)),
        ([10.0, 10.0, 10.0, 20.0, 30.0, math.nan], (20, 30, None)),
        ([10.0, 10.0, 10.0, 50.0, 30.0, 35.0], (50, 50, 50)),
    ):
        found = [crossing_at(None if math.isnan(step) else step) for step in steps]
        found_order = order(pairs + readers, found, 3)
        assert found_order.emerged == right
        assert found_order.one_by_one == (right == (20, 30, 40))


def test_attention_along_a_path_equals_a_loop():
    """Against an oracle that loops over sequences, chains and heads; a transposed index would not survive it."""
    transformer, batch = scaled(0.004), held_out(PROBLEM, 3, 0, "emergence")
    seen = observe(transformer, PROBLEM, batch, PATHS)
    patterns = transformer.patterns(batch.inputs[None])
    for number, path in enumerate(PATHS):
        query, key = path.query, path.key
        for sequence in range(3):
            rows = [
                (patterns[path.layer][0, sequence, path.head, place[query]], place[key])
                for place in batch.place[sequence]
            ]
            weight = sum(row[at].item() for row, at in rows) / len(rows)
            first = sum(row.argmax().item() == at.item() for row, at in rows) / len(rows)
            assert seen.attention[number, sequence].item() == pytest.approx(weight, abs=1e-6)
            assert seen.foremost[number, sequence].item() == pytest.approx(first)
    assert 0.1 < seen.attention[0].min() < 0.9  # the case is not trivial
    errors = (transformer(batch.inputs[None])[0] - batch.targets).square()
    assert seen.errors.mean().item() == pytest.approx(errors.mean().item(), rel=1e-4)


def test_next_to_a_missing_checkpoint_the_crossing_says_how_wide_the_gap_is(tmp_path):
    run = known_run(tmp_path / "run")
    run.checkpoints[200].unlink()
    emergence, _ = follow(run, PATHS, 0, QUICK)
    assert emergence.steps == (0, 100, 300, 400, 500, 600)
    assert emergence.paths[0].crossing.between == (100, 300)


def test_a_damaged_checkpoint_is_refused_and_stays(tmp_path):
    run = known_run(tmp_path / "run")
    path = run.checkpoints[300]
    path.write_bytes(before := path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"step-000300\.safetensors is damaged"):
        follow(run, PATHS, 0, QUICK)
    assert path.read_bytes() == before


def test_too_few_checkpoints_give_no_curve(tmp_path):
    run = known_run(tmp_path / "run")
    for step in range(0, 600, 100):
        run.checkpoints[step].unlink()
    with pytest.raises(InputError, match=r"has 1 checkpoint, and a curve needs two.*--checkpoint-every"):
        follow(run, PATHS, 0, QUICK)
    run.checkpoints[600].unlink()
    with pytest.raises(InputError, match="has 0 checkpoints"):
        follow(run, PATHS, 0, QUICK)


def test_the_record_comes_back_as_it_was(tmp_path):
    run = known_run(tmp_path / "run")
    circuit = Circuit.load(circuit_json(run, tmp_path / "circuit.json"))
    emergence, maps = follow(run, [row.path for row in circuit.paths], 0, QUICK, circuit.losses)
    emergence.save(tmp_path / "emergence.json")
    MAPS_OVER_TIME.write(tmp_path / "maps.json", maps)
    assert Emergence.load(tmp_path / "emergence.json") == emergence
    again = MAPS_OVER_TIME.read(tmp_path / "maps.json")
    assert again == maps
    assert emergence.circuit["own"] == 0.01
    frame = again.weights[6] / 255
    assert frame.shape == (3, 1, 2, 7, 7)
    for path in PATHS:
        query, key = path.query, path.key
        assert frame[path.layer, 0, 0, query, key].item() == pytest.approx(1.0, abs=0.01)
    assert frame.sum(axis=(2, 4)) == pytest.approx(1.0, abs=0.05)


def slow_crossing(steps, curve, level=0.5):
    """The same by a loop: the segment is walked from point to point."""
    if curve[0] > level:
        return float(steps[0])
    for (x0, y0), (x1, y1) in zip(
        zip(steps, curve, strict=True), list(zip(steps, curve, strict=True))[1:], strict=False
    ):
        if y1 > level:
            return x0 + (x1 - x0) * (level - y0) / (y1 - y0)
    return math.nan


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.integers(1, 50))
def test_crossings_are_those_of_a_loop(curve, every):
    steps = [every * number for number in range(len(curve))]
    found = first_crossings(steps, torch.tensor(curve, dtype=torch.float64)).item()
    assert found == pytest.approx(slow_crossing(steps, curve), nan_ok=True)
    mirrored = first_crossings(steps, torch.tensor(curve, dtype=torch.float64) - 1, -0.5).item()
    assert mirrored == pytest.approx(found, abs=1e-6 * steps[-1], nan_ok=True)


def test_crossings_at_the_ends_and_beside_what_is_no_number():
    steps = [0, 10, 20, 30]
    rows = [[0.9, 0.1, 0.9, 0.9], [0.5, 0.5, 0.5, 0.5], [0.0, math.nan, 1.0, 1.0], [0.0, 0.2, 0.4, 0.6]]
    found = first_crossings(steps, torch.tensor(rows)).tolist()
    assert found == pytest.approx([0.0, math.nan, 20.0, 25.0], nan_ok=True)


def test_intervals_come_from_the_sequences():
    """Two kinds of sequences, which cross at 10 and at 30: the mean crosses between, and the interval spans them."""
    curve = torch.zeros(1, 5, 40)
    curve[0, 1:, ::2] = 0.9
    curve[0, 3:, 1::2] = 0.9
    (found,) = crossings([0, 10, 20, 30, 40], curve)
    assert found.low <= found.step <= found.high
    assert found.low == pytest.approx(9.0, abs=2.5)
    assert found.high == pytest.approx(26, abs=3)
    (same,) = crossings([0, 10, 20, 30, 40], curve)
    assert same == found
    (never,) = crossings([0, 10, 20, 30, 40], curve * 0.5)
    assert (never.step, never.low, never.high, never.between) == (None, None, None, None)


def metrics(*hops, every=10):
    rows = [
        row for n, losses in enumerate(zip(*hops, strict=True), 1) for row in rows_of(every * n, [losses], [losses])
    ]
    return Metrics.of_rows(rows, [0], range(1, len(hops) + 1))


def test_plateau_starts_ends_and_ignores_a_dip():
    found = plateau(metrics([1.0, 0.76, 0.74, 0.72, 0.3, 0.2], [1.0, 0.78, 0.75, 0.75, 0.75, 0.4]), chains=4)
    assert (found.reached, found.left) == (20, 50)
    assert found.learned == (50, 60)
    # A dip below the threshold that does not last is not the end.
    dip = plateau(metrics([0.76, 0.69, 0.75, 0.6, 0.6], [0.75] * 5), chains=4)
    assert (dip.left, dip.learned) == (40, (None, None))
    stuck = plateau(metrics([0.75] * 4, [0.75] * 4), chains=4)
    assert stuck.left is None
    assert plateau(metrics([], []), chains=4) == Plateau(0.75, None, None, (None, None))
    gone = metrics([0.6, math.nan, 0.2], [0.2, math.nan, 0.2])
    assert plateau(gone, chains=4).left == 30  # a diverged row is not off the plateau
    spike = plateau(metrics([0.75, 0.6, 0.4, 0.1, 0.9, 0.1], [0.75] * 6), chains=4)
    assert (spike.left, spike.learned) == (20, (30, None))  # what was learned once has left it


def test_a_path_is_drawn_with_the_furthest_symbol_it_touches():
    right = {("x0?", "x0>"): 1, ("x0?", ">x1"): 1, (">x1", "x0>"): 1, (">x1", ">x3"): 3, ("x2>", ">x2"): 2}
    for (query, key), hop in right.items():
        assert hop_of(AttentionPath.named(1, 1, query, key, role_names(3)), 3) == hop
