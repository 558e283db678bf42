package penstock.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/** What the one task of a query reads: records after one sequence, until another. */
record Plan(String directory, String[] entities, String[] kinds, long after, long until) implements InputPartition {}
