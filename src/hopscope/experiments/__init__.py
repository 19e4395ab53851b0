"""The paper's figures and claims, and our own studies: each file reads like the section it reproduces."""
