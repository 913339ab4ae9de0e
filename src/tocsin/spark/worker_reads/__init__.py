"""An optional path: Python workers read Parquet themselves, so that no row passes through the JVM."""
