package penstock.spark;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.unsafe.types.UTF8String;

/** One task: the records of a journal after a sequence, as they are committed, or up to another sequence. */
final class Tail implements SupportsRealTimeRead<InternalRow> {
    /** Between two looks at the mark; a look takes a microsecond or two. */
    private static final long LOOK_NANOS = 1_000_000;

    /** Where a task stands: everything up to and including this was read. */
    record Place(long sequence) implements PartitionOffset {}

    private final Journal journal;
    private final List<Pattern> entities;
    private final List<String> kinds;
    private final long stop;
    private final BufferAllocator memory;
    private long done;
    private VectorSchemaRoot root;
    private long frameLast;
    private int row;
    private InternalRow current;

    Tail(Plan plan) {
        journal = new Journal(Path.of(plan.directory()));
        entities = Arrays.stream(plan.entities()).map(Tail::expression).toList();
        kinds = List.of(plan.kinds());
        done = plan.after();
        stop = plan.until();
        memory = ArrowUtils.rootAllocator().newChildAllocator("penstock", 0, Long.MAX_VALUE);
    }

    @Override
    public PartitionOffset getOffset() {
        return new Place(done);
    }

    @Override
    public RecordStatus nextWithTimeout(Long millis) throws IOException {
        long deadline = System.nanoTime() + millis * 1_000_000;
        while (true) {
            if (advance()) return RecordStatus.newStatusWithoutArrivalTime(true);
            if (System.nanoTime() >= deadline) return RecordStatus.newStatusWithoutArrivalTime(false);
            if (Thread.interrupted()) throw new IOException("interrupted");
            LockSupport.parkNanos(LOOK_NANOS);
        }
    }

    @Override
    public boolean next() throws IOException {
        return advance();
    }

    @Override
    public InternalRow get() {
        return current;
    }

    @Override
    public void close() throws IOException {
        if (root != null) root.close();
        memory.close();
        journal.close();
    }

    private boolean advance() throws IOException {
        while (done < stop) {
            if (root == null && !load()) return false;
            while (row < root.getRowCount()) {
                int here = row++;
                long sequence = longs(0, here);
                if (sequence <= done) continue;
                if (sequence > stop) return false;
                done = sequence;
                if (!wanted(here)) continue;
                current = new GenericInternalRow(new Object[] {
                    sequence, text(1, here), longs(2, here), longs(3, here),
                    text(4, here), text(5, here), text(6, here), text(7, here),
                });
                return true;
            }
            done = Math.min(Math.max(done, frameLast), stop);
            root.close();
            root = null;
        }
        return false;
    }

    private boolean load() throws IOException {
        Journal.Frame frame = journal.next(done + 1);
        if (frame == null) return false;
        root = VectorSchemaRoot.create(MessageSerializer.deserializeSchema(channel(frame.segment().schema())), memory);
        try (ArrowRecordBatch batch = MessageSerializer.deserializeRecordBatch(channel(frame.payload()), memory)) {
            new VectorLoader(root).load(batch);
        }
        frameLast = frame.last();
        row = 0;
        return true;
    }

    private boolean wanted(int here) {
        if (!kinds.isEmpty() && !kinds.contains(string(4, here))) return false;
        if (entities.isEmpty()) return true;
        String entity = string(1, here);
        return entities.stream().anyMatch(pattern -> pattern.matcher(entity).matches());
    }

    private long longs(int column, int here) {
        var vector = root.getVector(column);
        if (vector instanceof TimeStampMicroTZVector times) return times.get(here);
        return ((BigIntVector) vector).get(here);
    }

    private UTF8String text(int column, int here) {
        VarCharVector vector = (VarCharVector) root.getVector(column);
        return vector.isNull(here) ? null : UTF8String.fromBytes(vector.get(here));
    }

    private String string(int column, int here) {
        return String.valueOf(text(column, here));
    }

    private static ReadChannel channel(byte[] bytes) {
        return new ReadChannel(Channels.newChannel(new ByteArrayInputStream(bytes)));
    }

    /** In a pattern * stands for any characters and ? for one. */
    private static Pattern expression(String pattern) {
        StringBuilder made = new StringBuilder();
        for (int code : pattern.codePoints().toArray()) {
            String one = new String(Character.toChars(code));
            made.append(code == '*' ? ".*" : code == '?' ? "." : Pattern.quote(one));
        }
        return Pattern.compile(made.toString(), Pattern.DOTALL);
    }
}
