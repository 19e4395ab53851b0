"""An example: a small language model trained from scratch on the text of equations, written as a model folder.

It shows the whole way without any provider: `hopscope benchmark --model FOLDER` asks it as it asks any model.
"""
