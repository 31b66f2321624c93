"""A local Spark session: Java, the JVM, warm Python workers."""
