"""Labelling by people: what they did is a log of events, and everything else is replayed from it."""
