package penstock.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import scala.Function1;

/**
 * Publishes rows as they come, exactly once. The first column is the sequence of the event that a row was made of, the
 * second the item; all but the first are sent.
 *
 * <p>A chunk is a batch of the ingest adapter whose number is the last sequence in it. The server remembers the last
 * one, so whoever begins again asks for it, and skips what is published already. For that each event may give one row
 * at most, and rows come in the order of the journal: anything else is refused. A thread of its own sends what has
 * gathered while the chunk before was on its way, so no row waits for another.
 */
public final class LiveWriter extends ForeachWriter<Row> {
    private static final long serialVersionUID = 1;
    private static final Pattern BATCH = Pattern.compile("\"batch\"\\s*:\\s*(\\d+)");
    private static final int MOST_ROWS = 10_000;
    private static final long FIRST_PAUSE = 100;
    private static final long LAST_PAUSE = 5_000;
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String adapter;
    private final String token;
    private final String mode;
    private final StructType schema;

    private transient HttpClient client;
    private transient String query;
    private transient Function1<Object, Object> convert;
    private transient Thread sender;
    private transient List<Row> waiting;
    private transient long taken;
    private transient boolean sending;
    private transient boolean closing;
    private transient Throwable problem;

    /** `adapter` is the address of the ingest adapter, `schema` that of the columns that are sent. */
    public LiveWriter(String adapter, String token, String mode, String schema) {
        this.adapter = adapter;
        this.token = token;
        this.mode = mode;
        this.schema = (StructType) StructType.fromJson(schema);
    }

    @Override
    public boolean open(long partition, long epoch) {
        if (partition != 0) throw new IllegalStateException("rows come from several tasks; they must come from one");
        client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(PATIENCE).build();
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId") + ".live";
        convert = CatalystTypeConverters.createToCatalystConverter(schema);
        waiting = new ArrayList<>();
        closing = false;
        sending = false;
        problem = null;
        try {
            Matcher found = BATCH.matcher(ask("GET", "/queries/" + query, null));
            taken = found.find() ? Long.parseLong(found.group(1)) : 0;
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error.getMessage(), error);
        }
        previous = -1;
        sender = new Thread(this::send, "penstock live writer");
        sender.setDaemon(true);
        sender.start();
        return true;
    }

    private transient long previous;

    @Override
    public void process(Row row) {
        long sequence = row.getLong(0);
        if (sequence <= previous) {
            throw new IllegalStateException("a row has the sequence " + sequence + " and the one before it " + previous
                    + "; in real time each event may become one row at most, in the order of the journal");
        }
        previous = sequence;
        if (sequence <= taken) return;
        if (row.isNullAt(1) || row.getString(1).isEmpty()) {
            throw new IllegalStateException("the item of the event with the sequence " + sequence + " is null or empty");
        }
        synchronized (this) {
            while (waiting.size() >= MOST_ROWS && problem == null) pause();
            check();
            waiting.add(row);
            notifyAll();
        }
    }

    @Override
    public void close(Throwable error) {
        if (sender == null) return;
        synchronized (this) {
            closing = true;
            notifyAll();
            // What a task has read counts as done afterwards: it must have been published.
            while (error == null && problem == null && (sending || !waiting.isEmpty())) pause();
        }
        if (error != null) sender.interrupt();
        sender = null;
        if (error == null) check();
    }

    private void check() {
        if (problem != null) throw new IllegalStateException(problem.getMessage(), problem);
    }

    private void pause() {
        try {
            wait();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    private void send() {
        try (BufferAllocator memory = ArrowUtils.rootAllocator().newChildAllocator("live", 0, Long.MAX_VALUE)) {
            while (true) {
                List<Row> rows;
                synchronized (this) {
                    while (waiting.isEmpty() && !closing) wait();
                    if (waiting.isEmpty()) return;
                    rows = waiting;
                    waiting = new ArrayList<>();
                    sending = true;
                    notifyAll();
                }
                long last = rows.get(rows.size() - 1).getLong(0);
                ask("PUT", "/queries/" + query + "/batches/" + last + "?mode=" + mode, encode(rows, memory));
                synchronized (this) {
                    sending = false;
                    notifyAll();
                }
            }
        } catch (Throwable error) {
            synchronized (this) {
                problem = error;
                sending = false;
                notifyAll();
            }
        }
    }

    private byte[] encode(List<Row> rows, BufferAllocator memory) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (VectorSchemaRoot root =
                VectorSchemaRoot.create(ArrowUtils.toArrowSchema(schema, "UTC", true, false, false), memory)) {
            ArrowWriter writer = ArrowWriter.create(root);
            for (Row row : rows) {
                Object[] values = new Object[row.size() - 1];
                for (int i = 0; i < values.length; i++) values[i] = row.get(i + 1);
                writer.write((InternalRow) convert.apply(org.apache.spark.sql.RowFactory.create(values)));
            }
            writer.finish();
            try (ArrowStreamWriter stream = new ArrowStreamWriter(root, null, bytes)) {
                stream.writeBatch();
                stream.end();
            }
        }
        return bytes.toByteArray();
    }

    /** The answer; a server that is away or busy is waited for. */
    private String ask(String method, String path, byte[] body) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(adapter + path)).timeout(PATIENCE);
        if (token != null) request.header("Authorization", "Bearer " + token);
        if (body == null) {
            request.method(method, HttpRequest.BodyPublishers.noBody());
        } else {
            request.header("Content-Type", "application/vnd.apache.arrow.stream");
            request.method(method, HttpRequest.BodyPublishers.ofByteArray(body));
        }
        for (long pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LAST_PAUSE)) {
            try {
                HttpResponse<String> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
                int status = answer.statusCode();
                if (status == 200) return answer.body();
                if (status != 429 && (status < 502 || status > 504)) {
                    throw new RefusedException(adapter + " answered " + status + ": " + answer.body());
                }
            } catch (RefusedException refused) {
                throw refused;
            } catch (IOException away) {
                // Tried again below.
            }
            Thread.sleep(pause);
        }
    }

    private static final class RefusedException extends IOException {
        private static final long serialVersionUID = 1;

        RefusedException(String message) {
            super(message);
        }
    }
}
