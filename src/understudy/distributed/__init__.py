"""Work spread over several machines: a comparison's units on a Ray cluster. Needs the extra `cluster`."""
