"""The benchmark of staged statements: the five of the paper, on generated traffic, bags and patients."""
