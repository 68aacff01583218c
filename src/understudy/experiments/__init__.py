"""Simulated labelling: the labels are known, and strategies are judged by what they would have asked for."""
