"""The disorder benchmark: the algorithms of two papers as named arms, and their experiments."""
