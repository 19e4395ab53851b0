"""What a model loses and looks at once rows of its attention are replaced: forms of rows, programs, evaluators."""
