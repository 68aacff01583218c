"""One module a change, in the order of `tables.REVISIONS`."""
