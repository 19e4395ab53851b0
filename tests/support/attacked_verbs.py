"""What is attacked: commands of every verb that end in a moment, and what they read."""

from __future__ import annotations

TINY = """
    --layers 1 --heads 1 --d-model 8 --head-dim 8 --no-mlp --steps 2 --batch-size 2 --log-every 1 --final-steps 1
    --validation-size 2 --schedule constant --device cpu --precision fp32 --no-compile
""".split()  # noqa: SIM905 - it is read as a command is
TRAIN = ["train", "new", *TINY, "--hops", "1", "--chains", "2"]
SWEEP = ["sweep", "new", *TINY[2:], *"--depths 1 --hops 1 --plain-hops 1 --seeds 0 --workers 1".split()]  # noqa: SIM905
CIRCUIT = ["circuit", "run", "--no-figures", "--effort", "quick"]
EMERGENCE = ["emergence", "run", "--no-figures", "--sequences", "4"]
REPORT = ["report", "tiny", "--preset", "tiny"]
REPRODUCE = ["reproduce", "--preset", "tiny", "--workers", "1", "--precision", "fp32", "--out"]
ASK = ["benchmark", "--model", "model", "--out", "new", "--formulation", "equations", "--hops", "1", "--count", "2"]

BASES: dict[str, list[list[str]]] = {
    "train": [TRAIN],
    "sweep": [SWEEP],
    "circuit": [CIRCUIT, ["circuit", "run", "--show"], ["circuit", "compare", "run", "run"],
                ["circuit", "census", "run"]],
    "emergence": [EMERGENCE],
    "theory": [["theory", "--hops", "3"], ["theory", "--show", "--hops", "2"], ["theory", "--graph", "graph.json"]],
    "benchmark": [ASK],
    "report": [[*REPORT, "--claims-only"]],
    "reproduce": [[*REPRODUCE, "tiny"]],
    "sample": [["sample", "equations"], ["sample", "vectors"], ["sample", "functions", "--out", "new.jsonl"]],
    "check": [["check", "run"]],
}  # fmt: skip
"""By verb, commands that end in a moment, to be bent."""

NEEDS = {"report": "tiny", "reproduce": "tiny", "benchmark": "model"}
"""What a verb is tried on, beside the run."""

WEIGHTS = {"reproduce": 0.5, "report": 3, "check": 3, "sweep": 8}
"""How often a verb comes; 10 for the others."""

READERS: dict[str, list[list[str]]] = {
    "run": [["train", "run", *TINY], ["circuit", "run", "--show"], CIRCUIT,
            EMERGENCE, ["check", "run"], ["circuit", "census", "run"]],
    "half": [["train", "half", *TRAIN[2:]], ["check", "half"]],
    "asked": [[*ASK[:4], "asked", *ASK[5:]], ["check", "asked"]],
    "tiny": [[*REPORT, "--claims-only"], ["check", "tiny"]],
    "graph.json": [["theory", "--graph", "graph.json"]],
}  # fmt: skip
"""By what is damaged, commands that read it."""

KILLS: dict[str, tuple[list[str], str, float, float]] = {
    "reproduce": ([*REPRODUCE, "begun"], "begun", 0.05, 12),
    "circuit": ([*CIRCUIT, "--overwrite"], "run", 0.15, 6),
    "report": (REPORT, "tiny", 0.05, 4),
    "sweep": (SWEEP, "", 0.15, 2),
    "benchmark": (ASK, "model", 0.1, 2),
    "train": (TRAIN, "", 0.35, 0.5),
    "emergence": ([*EMERGENCE, "--overwrite"], "run", 0.15, 1),
}  # fmt: skip
"""By verb: what is killed, on which good folder, how large a share of the kills it gets, and about how many seconds one
takes with the second call."""
