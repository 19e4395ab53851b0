"""The benchmark's test model: our own, trained for seconds, so that it answers in the right form and at chance."""

from __future__ import annotations

from pathlib import Path

from examples.text_model.recipe import TextModelRecipe
from examples.text_model.training import publish

RECIPE = TextModelRecipe(layers=2, d_model=64, heads=4, most_hops=1, steps=150, rate=3e-3)
TINY = TextModelRecipe(layers=1, heads=2, d_model=16, most_hops=2, steps=8, batch=4, rate=0.01, warmup=2)
"""Smaller still: what trains in a moment, and learns nothing."""
CHAT = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def chat_model(plain: Path, folder: Path) -> Path:
    """The same model behind a chat template."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    publish(AutoModelForCausalLM.from_pretrained(plain), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    return folder
