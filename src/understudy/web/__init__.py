"""The labelling page and its HTTP interface."""
