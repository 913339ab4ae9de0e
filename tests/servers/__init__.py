"""Real servers for tests, on loopback only: a Spark standalone cluster, a Kafka broker, and jobs submitted to them."""
