"""Training beside labelling: a process, what it leaves, and predictions brought along."""
