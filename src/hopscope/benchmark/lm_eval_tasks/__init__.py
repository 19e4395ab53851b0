"""The formulations as tasks of lm-evaluation-harness. Its `--include_path` takes this folder.

    lm_eval --include_path "$(python -m hopscope.benchmark.lm_eval_tasks)" --tasks hopscope_equations \\
        --model hf --model_args pretrained=MODEL --metadata '{"hops": [1, 2, 3], "count": 100}'
"""

from pathlib import Path

FOLDER = Path(__file__).parent
"""The folder of the task files."""
