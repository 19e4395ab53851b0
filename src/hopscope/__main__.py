"""`python -m hopscope`: the command line, for when its script is not on the path."""

from hopscope.cli import main

if __name__ == "__main__":
    main()
