"""Strategies for choosing which row to label next: arrays in, rows out. `registry.STRATEGIES` lists them by name."""
