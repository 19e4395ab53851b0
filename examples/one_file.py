"""The retrieval problem in one file: the task, the transformer, the training, and a look inside. It needs only torch.

    python examples/one_file.py            trains for two minutes on two cores, prints, and writes one_file.svg
    python examples/one_file.py 0.1        a tenth of the training

The problem is from Musat, "Mechanism and Emergence of Stacked Attention Heads in Multi-Layer Transformers" (ICLR 2025,
Section 6). It has N chains x0 -> x1 -> ... -> xD of random vectors. A sequence shows every link of every chain as a
pair of neighbours, with the deepest links first and each block shuffled. The first symbols of the chains, x0, follow
as questions:

    x2 x3  x2 x3  ... | x1 x2  x1 x2  ... | x0 x1  x0 x1  ... | x0 x0 ...

At each question, the model returns x1, x2 and x3 of the question's chain. To find x3, the model must retrieve x1, then
x2, then x3: the heads of one layer use what the heads of earlier layers have found. This file shares no code with the
package; a test checks that both compute the same.
"""

from __future__ import annotations

import math
import sys
import time

import torch
from torch import Tensor, nn

# ---------------------------------------------------------------------------------------------------------------------
# The problem. Shapes are in comments: B sequences, N chains, D hops, K numbers per symbol, T = N (2 D + 1) positions.

HOPS, CHAINS, WIDTH = 3, 4, 4  # D, N, K
LENGTH = CHAINS * (2 * HOPS + 1)
LINKS = range(HOPS, 0, -1)  # the blocks in their order: the links to x3, then to x2, then to x1
ROLES = [name for link in LINKS for name in (f"x{link - 1}>", f">x{link}")] + ["x0?"]


def position_code() -> Tensor:  # T K
    """Return the cosine and sine of each position at frequencies 10000^(-2i/K), by which heads find neighbours."""
    frequency = 10_000.0 ** (-2.0 * torch.arange(WIDTH // 2, dtype=torch.float64) / WIDTH)
    angle = torch.arange(LENGTH, dtype=torch.float64)[:, None] * frequency
    return torch.stack([angle.cos(), angle.sin()], dim=-1).flatten(1).float()


def compose(symbols: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inputs, targets and places of sequences.

    symbols  B N D+1 K: the vectors x0 ... xD of every chain
    order    B D+1 N: the rank of each chain in the blocks of link 1, ..., link D, and in the block of the questions

    inputs   B T 2K: a symbol and its position's code
    targets  B N D K: x1 ... xD for each question, in the order of the questions
    places   B N R: the position of each role (ROLES) of each chain, by which attention is sorted by role
    """
    batch = len(symbols)
    places, held = [], []
    for block, link in enumerate(LINKS):
        first = 2 * CHAINS * block + 2 * order[:, link - 1]  # B N
        places += [first, first + 1]
        held += [link - 1, link]
    places.append(2 * CHAINS * HOPS + order[:, HOPS])
    held.append(0)
    at = torch.stack(places, dim=-1)
    tokens = torch.zeros(batch, LENGTH, WIDTH)
    tokens.scatter_(1, at.flatten(1)[..., None].expand(-1, -1, WIDTH), symbols[:, :, held].flatten(1, 2))
    inputs = torch.cat([tokens, position_code().expand(batch, -1, -1)], dim=-1)
    asker = order[:, HOPS].argsort(dim=-1)  # the chain of each question
    targets = symbols[:, :, 1:].gather(1, asker[:, :, None, None].expand(-1, -1, HOPS, WIDTH))
    return inputs, targets, at


def sample(batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return fresh sequences: normal symbols, chains in random order within each block."""
    symbols = torch.randn(batch, CHAINS, HOPS + 1, WIDTH, generator=generator)
    return compose(symbols, torch.rand(batch, HOPS + 1, CHAINS, generator=generator).argsort(dim=-1))


# ---------------------------------------------------------------------------------------------------------------------
# The transformer: GPT-2's, with attention alone (no MLPs), on vectors in place of tokens.


class Attention(nn.Module):
    """Causal attention. To look inside, `replaced` receives the computed pattern and may return another one."""

    def __init__(self, d_model: int, heads: int, d_head: int) -> None:
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.query, self.key, self.value = (nn.Linear(d_model, heads * d_head) for _ in range(3))
        self.out = nn.Linear(heads * d_head, d_model)

    def forward(self, x: Tensor, replaced=None) -> Tensor:
        """Return what the layer adds to the residual stream `x`, B T d_model."""
        query, key, value = (
            project(x).unflatten(-1, (self.heads, self.d_head)).transpose(1, 2)  # B H T d_head
            for project in (self.query, self.key, self.value)
        )
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (query @ key.mT / math.sqrt(self.d_head)).masked_fill(later, -math.inf)
        pattern = scores.softmax(dim=-1)  # B H T T
        if replaced is not None:
            pattern = replaced(pattern)
        return self.out((pattern @ value).transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """x = x + attention(norm(x)), layer after layer; the answers are read off the last N positions."""

    def __init__(self, layers: int = 4, heads: int = 16, d_model: int = 64, d_head: int = 8) -> None:
        super().__init__()
        self.embed = nn.Linear(2 * WIDTH, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.attentions = nn.ModuleList(Attention(d_model, heads, d_head) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.read = nn.Linear(d_model, HOPS * WIDTH)
        with torch.no_grad():  # large queries and keys: heads attend to something from the start, which learning needs
            for attention in self.attentions:
                attention.query.weight *= 4.0
                attention.key.weight *= 4.0

    def forward(self, inputs: Tensor, replaced=None) -> Tensor:
        """Return the answers, B N D K. `replaced(layer, pattern)` may return another pattern than the computed one."""
        x = self.embed(inputs)
        for layer, (norm, attention) in enumerate(zip(self.norms, self.attentions, strict=True)):
            x = x + attention(norm(x), None if replaced is None else lambda p, layer=layer: replaced(layer, p))
        return self.read(self.norm(x))[:, -CHAINS:].unflatten(-1, (HOPS, WIDTH))


# ---------------------------------------------------------------------------------------------------------------------
# Training. Asking for all hops and not x3 alone is the paper's "implicit curriculum": x1 is easy, and x2 builds on it.


def losses(answers: Tensor, targets: Tensor) -> Tensor:  # D
    """Return each hop's mean squared error: 1 for a model that knows nothing, 0.75 for a guess among four chains."""
    return (answers - targets).square().mean(dim=(0, 1, 3))


def train(steps: int = 1_200, batch: int = 128, rate: float = 6e-3, seed: int = 0) -> tuple[Transformer, list]:
    """Return a trained model, and rows of (step, loss of each hop)."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model, rows, began = Transformer(), [], time.monotonic()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.1)
    for step in range(1, steps + 1):
        for group in optimiser.param_groups:  # constant, then linearly down over the last quarter
            group["lr"] = rate * min(1.0, 4.0 * (steps - step + 1) / steps)
        inputs, targets, _ = sample(batch, generator)
        by_hop = losses(model(inputs), targets)
        optimiser.zero_grad()
        by_hop.mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % max(1, steps // 120) == 0:
            rows.append((step, by_hop.tolist()))
        if step % max(1, steps // 12) == 0:
            print(f"step {step:5d}   x1 {by_hop[0]:.3f}   x2 {by_hop[1]:.3f}   x3 {by_hop[2]:.3f}   "
                  f"{time.monotonic() - began:4.0f} s")  # fmt: skip
    return model, rows


# ---------------------------------------------------------------------------------------------------------------------
# Looking inside: attention by role, and how the loss rises when one head may no longer choose where a role attends.


@torch.no_grad()
def attention_by_role(model: Transformer, batch: int = 512, seed: int = 1) -> Tensor:  # L H R R
    """Return the mean attention of every head from each role to each role of the same chain."""
    inputs, _, places = sample(batch, torch.Generator().manual_seed(seed))
    query = places[:, :, :, None] * LENGTH + places[:, :, None, :]  # B N R R: the index in a flattened pattern
    seen = []

    def record(layer: int, pattern: Tensor) -> Tensor:
        flat = pattern.flatten(2)  # B H T*T
        index = query.flatten(1)[:, None].expand(-1, flat.shape[1], -1)
        seen.append(flat.gather(2, index).unflatten(2, query.shape[1:]).mean(dim=(0, 2)))
        return pattern

    model(inputs, record)
    return torch.stack(seen)


@torch.no_grad()
def ablated_loss(model: Transformer, layer: int, head: int, role: int, batch: int = 128, seed: int = 2) -> Tensor:  # D
    """Return the loss of each hop when a head attends uniformly from one role to all positions that it may see."""
    inputs, targets, places = sample(batch, torch.Generator().manual_seed(seed))

    def replaced(at: int, pattern: Tensor) -> Tensor:
        if at != layer:
            return pattern
        rows = places[:, :, role]  # B N
        uniform = torch.ones(LENGTH, LENGTH).tril() / torch.arange(1, LENGTH + 1)[:, None]
        pattern = pattern.clone()
        pattern[torch.arange(batch)[:, None], head, rows] = uniform[rows]
        return pattern

    return losses(model(inputs, replaced), targets)


def strongest(model: Transformer, count: int = 12) -> list[tuple[float, int, int, int, int]]:
    """Return the head rows whose ablation costs most: (rise of the loss, layer, head, query role, key role)."""
    attention = attention_by_role(model)
    inputs, targets, _ = sample(128, torch.Generator().manual_seed(2))  # the sequences of `ablated_loss`
    with torch.no_grad():
        whole = losses(model(inputs), targets).mean().item()
    rises = []
    for layer, head, query in torch.cartesian_prod(*map(torch.arange, attention.shape[:3])).tolist():
        if attention[layer, head, query].max() > 0.3:  # rows that attend to one role of their chain
            rise = ablated_loss(model, layer, head, query).mean().item() - whole
            rises.append((rise, layer, head, query, int(attention[layer, head, query].argmax())))
    return sorted(rises, reverse=True)[:count]


def picture(rows: list, model: Transformer, found: list) -> str:
    """Return an SVG: on the left the loss of each hop in training, on the right the strongest rows by layer."""
    colours, out = ["#0072b2", "#d55e00", "#009e73"], []
    last = rows[-1][0]
    for hop, colour in enumerate(colours[:HOPS]):
        points = " ".join(f"{40 + 300 * step / last:.1f},{240 - 200 * min(1.0, by[hop]):.1f}" for step, by in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="300" y="{60 + 18 * hop}" fill="{colour}">x{hop + 1}</text>')
    out.append('<path d="M40 40V240H340" fill="none" stroke="#888"/><text x="40" y="30">loss by hop</text>')
    out.append(f'<text x="280" y="258">step {last}</text><text x="8" y="46">1</text><text x="8" y="244">0</text>')
    x = {role: 420 + 70 * number for number, role in enumerate(ROLES)}
    layers = len(model.attentions)
    height = {layer: 240 - 200 * layer / layers for layer in range(layers + 1)}
    for role, across in x.items():
        name = role.replace(">", "&gt;")
        out.append(f'<text x="{across}" y="262" text-anchor="middle">{name}</text>')
        out.append(f'<path d="M{across} 240V40" stroke="#ddd"/>')
    edges: dict[tuple, list] = {}
    for rise, layer, head, query, key in found:
        edges.setdefault((layer, query, key), []).append((rise, f"{layer + 1}.{head + 1}"))
    for (layer, query, key), rows_here in edges.items():
        ends = x[ROLES[key]], height[layer], x[ROLES[query]], height[layer + 1]
        thick = 1 + 5 * min(1.0, max(0.0, max(rows_here)[0]))
        out.append(f'<path d="M{ends[0]} {ends[1]}L{ends[2]} {ends[3]}" stroke="#333" stroke-width="{thick:.1f}"/>')
        heads = ", ".join(name for _, name in rows_here)
        out.append(f'<text x="{(ends[0] + ends[2]) / 2 + 8}" y="{(ends[1] + ends[3]) / 2 + 14}">{heads}</text>')
    out.append(
        '<text x="420" y="30">which head attends where: layers from below, thick where the answer needs it</text>'
    )
    body = "\n".join(out)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 280" font-family="sans-serif" font-size="12">'
        f'<rect width="900" height="280" fill="white"/>\n{body}\n</svg>\n'
    )


def main(scale: float = 1.0) -> None:
    """Train, look inside, print and draw."""
    model, rows = train(steps=max(12, round(1_200 * scale)))
    found = strongest(model)
    print("\nThe head rows that the answer needs most, and how the loss rises when each attends uniformly:")
    for rise, layer, head, query, key in found:
        print(f"  L{layer + 1}.H{head + 1:<2d} {ROLES[query]:>3s} attends to {ROLES[key]:3s}   loss +{rise:.3f}")
    with open("one_file.svg", "w", encoding="utf-8") as file:
        file.write(picture(rows, model, found))
    print("\none_file.svg shows the loss of each hop and these rows.")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
