"""Simulated labelling: the labels are known, and strategies are compared by the rows they would have asked for."""
