"""Print the folder of the task files."""

from hopscope.benchmark.lm_eval_tasks import FOLDER

print(FOLDER)
