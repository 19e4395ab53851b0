"""The version, in a module that every other can import."""

VERSION = "0.1.0"
