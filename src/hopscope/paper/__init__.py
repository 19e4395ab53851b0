"""The paper, section by section: what is run, what came out, and what that says of its claims."""
