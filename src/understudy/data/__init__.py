"""What is labelled and where it comes from: pools, data sets by name, encoders, and a cache of features.

A *pool* is n items with identities. Whatever is known of them has n rows: raw items, features, labels. A row
number means the same item everywhere and for ever. What cannot be used is a *fault*: it names the item, says
what is wrong and what to do, and is collected rather than raised one at a time.
"""
