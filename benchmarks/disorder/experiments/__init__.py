"""The experiments, one module for each figure or family of figures; `ALL` is the order in which they run."""
