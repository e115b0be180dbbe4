"""regard: train attention models on your own data, and see what they look at."""

from regard.version import __version__

__all__ = ["__version__"]
