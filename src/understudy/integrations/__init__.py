"""Understudy inside other people's tools: labelling tools, active-learning libraries, trackers of experiments."""
