"""An example: a small language model trained from scratch on the text of equations, written as a model folder.

It shows every step without a model provider: `hopscope benchmark --model FOLDER` asks this model like any other.
"""
