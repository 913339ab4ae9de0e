"""An optional path (`direct=`): Python workers read Parquet files themselves, so that no row passes the JVM."""
