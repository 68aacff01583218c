"""Ways of choosing which row to label next: arrays in, rows out. `registry.STRATEGIES` has them all by name."""
