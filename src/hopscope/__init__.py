"""hopscope: a laboratory for the retrieval problem (multi-hop induction) in transformers.

The names below load on first use, so that `import hopscope` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopscope.version import VERSION

__version__ = VERSION

_HOMES = {
    "InputError": "hopscope.errors",
    "RetrievalProblem": "hopscope.problem.retrieval",
    "Batch": "hopscope.problem.vectors",
    "Examples": "hopscope.problem.vectors",
    "sample": "hopscope.problem.vectors",
    "questions": "hopscope.problem.text.questions",
    "AttentionPath": "hopscope.problem.paths",
    "Architecture": "hopscope.model.architecture",
    "Transformer": "hopscope.model.transformer",
    "Recipe": "hopscope.training.recipe",
    "InitialWeights": "hopscope.model.architecture",
    "Execution": "hopscope.training.execution",
    "Run": "hopscope.lab",
    "Model": "hopscope.circuits.interface",
    "HeldHead": "hopscope.model.architecture",
    "Hooks": "hopscope.model.hooks",
    "Parts": "hopscope.model.torch_module",
    "Circuit": "hopscope.circuits.circuit",
    "Setup": "hopscope.training.recipe",
    "TrainingHooks": "hopscope.training.optimiser",
    "reproduce": "hopscope.paper.reproduce",
    "train": "hopscope.lab",
    "train_all": "hopscope.training.side_by_side",
    "LanguageModel": "hopscope.language.language_model",
    "text": "hopscope.language.text_batch",
    "BenchmarkSettings": "hopscope.benchmark.settings",
    "SearchBudget": "hopscope.circuits.search.config",
    "SearchConfig": "hopscope.circuits.search.config",
    "Extensions": "hopscope.problem.text.formulation",
    "EmergenceConfig": "hopscope.emergence.config",
    "CertificateConfig": "hopscope.circuits.checks.config",
}
_MODULES = {
    "benchmark": "hopscope.benchmark",
    "paper": "hopscope.paper",
    "plot": "hopscope.plot",
    "theory": "hopscope.theory",
    "recipes": "hopscope.paper.recipes",
    "statistics": "hopscope.statistics",
}

if TYPE_CHECKING:
    from hopscope import paper as paper
    from hopscope import plot as plot
    from hopscope import statistics as statistics
    from hopscope import theory as theory
    from hopscope.benchmark.run import benchmark as benchmark
    from hopscope.benchmark.settings import BenchmarkSettings as BenchmarkSettings
    from hopscope.circuits.checks.config import CertificateConfig as CertificateConfig
    from hopscope.circuits.circuit import Circuit as Circuit
    from hopscope.circuits.interface import Model as Model
    from hopscope.circuits.search.config import SearchBudget as SearchBudget
    from hopscope.circuits.search.config import SearchConfig as SearchConfig
    from hopscope.emergence.config import EmergenceConfig as EmergenceConfig
    from hopscope.errors import InputError as InputError
    from hopscope.lab import Run as Run
    from hopscope.lab import train as train
    from hopscope.language.language_model import LanguageModel as LanguageModel
    from hopscope.language.text_batch import text as text
    from hopscope.model.architecture import Architecture as Architecture
    from hopscope.model.architecture import HeldHead as HeldHead
    from hopscope.model.architecture import InitialWeights as InitialWeights
    from hopscope.model.hooks import Hooks as Hooks
    from hopscope.model.torch_module import Parts as Parts
    from hopscope.model.transformer import Transformer as Transformer
    from hopscope.paper import recipes as recipes
    from hopscope.paper.reproduce import reproduce as reproduce
    from hopscope.problem.paths import AttentionPath as AttentionPath
    from hopscope.problem.retrieval import RetrievalProblem as RetrievalProblem
    from hopscope.problem.text.formulation import Extensions as Extensions
    from hopscope.problem.text.questions import questions as questions
    from hopscope.problem.vectors import Batch as Batch
    from hopscope.problem.vectors import Examples as Examples
    from hopscope.problem.vectors import sample as sample
    from hopscope.training.execution import Execution as Execution
    from hopscope.training.optimiser import TrainingHooks as TrainingHooks
    from hopscope.training.recipe import Recipe as Recipe
    from hopscope.training.recipe import Setup as Setup
    from hopscope.training.side_by_side import train_all as train_all

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'hopscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
