# isort: skip_file
"""hopscope: a laboratory for the retrieval problem (multi-hop induction) in transformers.

The names below load on first use, so that `import hopscope` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopscope.version import VERSION

__version__ = VERSION

_NAMES = {
    "hopscope.benchmark.settings": ("BenchmarkSettings",),
    "hopscope.circuits.checks.card": ("CertificateConfig",),
    "hopscope.circuits.circuit": ("Circuit",),
    "hopscope.circuits.evaluate.ablations": ("Ablation", "AblationKind"),
    "hopscope.circuits.search.config": ("SearchBudget", "SearchConfig"),
    "hopscope.emergence.config": ("EmergenceConfig",),
    "hopscope.errors": ("InputError",),
    "hopscope.lab.model": ("Model",),
    "hopscope.lab.run": ("Run", "train"),
    "hopscope.language.language_model": ("LanguageModel",),
    "hopscope.language.text_batch": ("text",),
    "hopscope.model.architecture": ("Architecture", "InitialWeights"),
    "hopscope.model.hooks": ("Hooks",),
    "hopscope.model.torch_module": ("Parts",),
    "hopscope.model.transformer": ("Transformer",),
    "hopscope.paper.reproduce": ("reproduce",),
    "hopscope.problem.paths": ("AttentionPath", "HeadRow", "PathGroup"),
    "hopscope.problem.prompts": ("PromptTask",),
    "hopscope.problem.retrieval": ("RetrievalProblem",),
    "hopscope.problem.text.formulation": ("Extensions",),
    "hopscope.problem.text.questions": ("questions",),
    "hopscope.problem.vectors": ("Batch", "Examples", "sample"),
    "hopscope.training.execution": ("Execution",),
    "hopscope.training.optimiser": ("TrainingHooks",),
    "hopscope.training.recipe": ("Recipe", "Setup"),
    "hopscope.training.side_by_side": ("train_all",),
}
"""The public names of each module."""

_MODULES = {name: f"hopscope.{name}" for name in ("benchmark", "paper", "plot", "statistics", "theory")}
_MODULES |= {"recipes": "hopscope.paper.recipes", "prompts": "hopscope.problem.prompts"}

if TYPE_CHECKING:
    from hopscope import paper as paper, plot as plot, statistics as statistics, theory as theory
    from hopscope.benchmark.run import benchmark as benchmark
    from hopscope.benchmark.settings import BenchmarkSettings as BenchmarkSettings
    from hopscope.circuits.checks.card import CertificateConfig as CertificateConfig
    from hopscope.circuits.circuit import Circuit as Circuit
    from hopscope.circuits.evaluate.ablations import Ablation as Ablation, AblationKind as AblationKind
    from hopscope.circuits.search.config import SearchBudget as SearchBudget, SearchConfig as SearchConfig
    from hopscope.emergence.config import EmergenceConfig as EmergenceConfig
    from hopscope.errors import InputError as InputError
    from hopscope.lab.model import Model as Model
    from hopscope.lab.run import Run as Run, train as train
    from hopscope.language.language_model import LanguageModel as LanguageModel
    from hopscope.language.text_batch import text as text
    from hopscope.model.architecture import Architecture as Architecture, InitialWeights as InitialWeights
    from hopscope.model.hooks import Hooks as Hooks
    from hopscope.model.torch_module import Parts as Parts
    from hopscope.model.transformer import Transformer as Transformer
    from hopscope.paper import recipes as recipes
    from hopscope.paper.reproduce import reproduce as reproduce
    from hopscope.problem import prompts as prompts
    from hopscope.problem.prompts import PromptTask as PromptTask
    from hopscope.problem.paths import AttentionPath as AttentionPath, HeadRow as HeadRow, PathGroup as PathGroup
    from hopscope.problem.retrieval import RetrievalProblem as RetrievalProblem
    from hopscope.problem.text.formulation import Extensions as Extensions
    from hopscope.problem.text.questions import questions as questions
    from hopscope.problem.vectors import Batch as Batch, Examples as Examples, sample as sample
    from hopscope.training.execution import Execution as Execution
    from hopscope.training.optimiser import TrainingHooks as TrainingHooks
    from hopscope.training.recipe import Recipe as Recipe, Setup as Setup
    from hopscope.training.side_by_side import train_all as train_all

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'hopscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
