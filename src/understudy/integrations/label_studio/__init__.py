"""Label Studio's own queue, put into our order, and learning from every annotation there."""
