"""Measurements: each work is a module with a command line of its own; `python -m bench` lists them."""
