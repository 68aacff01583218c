"""The version, by itself: files that are written say it, and a plain copy of the source has no other place for it."""

__version__ = "0.1.0"
