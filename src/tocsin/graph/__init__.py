"""The graph: queries wired together, the core dataflow that the embedded runner and every shard host."""
