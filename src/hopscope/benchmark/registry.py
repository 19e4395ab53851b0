"""What Inspect AI finds through its entry point: `hopscope/equations`, `/lives_with`, `/kingdoms`, ..."""

from hopscope.benchmark.tasks import equations, functions, kingdoms, lives_with, relatives

__all__ = ["equations", "functions", "kingdoms", "lives_with", "relatives"]
