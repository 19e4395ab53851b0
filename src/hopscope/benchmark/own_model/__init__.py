"""An example: a small language model trained from scratch on the text of equations, written as a model folder.

The proof from end to end that needs no provider: `hopscope benchmark --model FOLDER` asks it as it asks any model.
"""
