package penstock.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * `format("penstock-live")`: the journal of a directory as it grows, for Spark's real-time mode. Options: path,
 * entities and kinds (a name or pattern for each line), startingOffset (earliest, latest). Python checks them
 * (`penstock.pipeline.realtime`), and Tail reads.
 */
public final class LiveSource implements TableProvider, DataSourceRegister {
    static final StructType SCHEMA = StructType.fromDDL("sequence BIGINT NOT NULL, entity STRING NOT NULL, "
            + "revision BIGINT NOT NULL, timestamp TIMESTAMP NOT NULL, kind STRING NOT NULL, path STRING NOT NULL, "
            + "value STRING, headers STRING");

    @Override
    public String shortName() {
        return "penstock-live";
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new JournalTable();
    }

    private static final class JournalTable implements Table, SupportsRead {
        @Override
        public String name() {
            return "penstock-live";
        }

        @Override
        @SuppressWarnings("deprecation")
        public StructType schema() {
            return SCHEMA;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () -> new JournalScan(options);
        }
    }

    private record JournalScan(CaseInsensitiveStringMap options) implements Scan {
        @Override
        public StructType readSchema() {
            return SCHEMA;
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new JournalStream(options);
        }
    }

    /** {"sequence": N, "salt": S}, as `format("penstock")` has it. */
    static final class JournalOffset extends Offset {
        private static final Pattern JSON =
                Pattern.compile("\\{\"sequence\": ?(\\d+)(?:, ?\"salt\": ?(\\d+))?\\}");
        final long sequence;
        final Integer salt;

        JournalOffset(long sequence, Integer salt) {
            this.sequence = sequence;
            this.salt = salt;
        }

        static JournalOffset parse(String json) {
            Matcher found = JSON.matcher(json);
            if (!found.matches()) throw new IllegalArgumentException("an offset is " + json);
            Integer salt = found.group(2) == null ? null : Integer.parseUnsignedInt(found.group(2));
            return new JournalOffset(Long.parseLong(found.group(1)), salt);
        }

        @Override
        public String json() {
            String more = salt == null ? "" : ", \"salt\": " + Integer.toUnsignedString(salt);
            return "{\"sequence\": " + sequence + more + "}";
        }
    }

    private static final class JournalStream implements MicroBatchStream, SupportsRealTimeMode {
        private final CaseInsensitiveStringMap options;
        private final String directory;

        JournalStream(CaseInsensitiveStringMap options) {
            this.options = options;
            this.directory = options.get("path");
        }

        @Override
        public Offset initialOffset() {
            return ask(journal -> {
                Journal.Mark mark = journal.mark();
                boolean latest = "latest".equals(options.get("startingOffset"));
                return offset(journal, latest ? mark == null ? 0 : mark.sequence() : journal.earliest() - 1);
            });
        }

        @Override
        public Offset latestOffset() {
            return ask(journal -> {
                Journal.Mark mark = journal.mark();
                return offset(journal, mark == null ? 0 : mark.sequence());
            });
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start) {
            return plan(start, Long.MAX_VALUE);
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            return plan(start, ((JournalOffset) end).sequence);
        }

        @Override
        public Offset mergeOffsets(PartitionOffset[] places) {
            return ask(journal -> offset(journal, ((Tail.Place) places[0]).sequence()));
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return partition -> new Tail((Plan) partition);
        }

        @Override
        public Offset deserializeOffset(String json) {
            return JournalOffset.parse(json);
        }

        @Override
        public void commit(Offset end) {}

        @Override
        public void stop() {}

        private InputPartition[] plan(Offset start, long until) {
            JournalOffset from = (JournalOffset) start;
            ask(journal -> {
                Integer salt = journal.saltAt(from.sequence);
                if (from.salt != null && salt != null && !salt.equals(from.salt)) {
                    throw new IOException("the checkpoint was made with another segment for sequence " + from.sequence
                            + " than the journal " + directory
                            + " has: it is another journal, or an older copy of it; start with a new checkpoint");
                }
                return null;
            });
            return new InputPartition[] {
                new Plan(directory, lines("entities"), lines("kinds"), from.sequence, until)
            };
        }

        private String[] lines(String name) {
            String value = options.getOrDefault(name, "");
            return value.isEmpty() ? new String[0] : value.split("\n");
        }

        private static JournalOffset offset(Journal journal, long sequence) throws IOException {
            return new JournalOffset(sequence, journal.saltAt(sequence));
        }

        private interface Question<T> {
            T of(Journal journal) throws IOException;
        }

        private <T> T ask(Question<T> question) {
            try (Journal journal = new Journal(Path.of(directory))) {
                return question.of(journal);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
