"""Setting up: which Java, which session, which classes; what goes wrong there and how it is told."""
