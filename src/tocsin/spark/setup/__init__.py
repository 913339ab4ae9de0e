"""Start Spark: find a Java, make a session, prepare its classes, and explain what goes wrong there."""
