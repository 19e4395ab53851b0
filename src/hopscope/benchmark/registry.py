"""What Inspect AI finds through its entry point: `hopscope/equations`, `/lives_with`, `/kingdoms`, ..."""

from hopscope.benchmark.tasks import TASKS

globals().update(TASKS)
