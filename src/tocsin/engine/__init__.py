"""The engine: blocks become Python source, the source becomes a kernel, the kernel lives in a detector."""
