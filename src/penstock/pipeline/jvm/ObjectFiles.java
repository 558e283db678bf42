package penstock.spark;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of Spark's checkpoints in S3, by Hadoop's connector S3A: each is one put.
 *
 * <p>Spark writes a file under another name, looks whether its own name is free, and renames it. S3 cannot rename: the file is
 * copied, over one that another driver has written since the look. Here the store itself refuses the put of a file that is
 * there (`If-None-Match`), as a commit of the lake. If the answer to a put is lost, S3A puts again, and is refused because of
 * the first; so each file carries a mark of who wrote it.
 */
public final class ObjectFiles extends FileSystemBasedCheckpointFileManager {
    private static final String MARK = "penstock-mark";

    public ObjectFiles(Path path, Configuration configuration) throws IOException {
        super(path, configuration);
        if (!fs().hasPathCapability(path, CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE)) {
            throw new PathIOException(path.toString(), "the connector cannot write a file only if there is none");
        }
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
        try {
            String mark = UUID.randomUUID().toString();
            FSDataOutputStreamBuilder<?, ?> builder = fs().createFile(path).recursive().overwrite(true);
            if (!overwrite) {
                builder.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
                builder.must("fs.s3a.create.header." + MARK, mark);
            }
            return new Whole(fs(), path, builder.build(), overwrite ? null : mark);
        } catch (IOException error) {
            throw sneaky(error);
        }
    }

    /** Spark is in Scala, which knows no checked exceptions: it catches this one as what it is. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException sneaky(Throwable error) throws T {
        throw (T) error;
    }

    /** There with its last byte, or not at all. */
    private static final class Whole extends CancellableFSDataOutputStream {
        private final FileSystem files;
        private final Path path;
        private final FSDataOutputStream stream;
        /** Null for one that may replace another. */
        private final String mark;

        private boolean isOver;

        Whole(FileSystem files, Path path, FSDataOutputStream stream, String mark) {
            super(stream);
            this.files = files;
            this.path = path;
            this.stream = stream;
            this.mark = mark;
        }

        @Override
        public synchronized void close() throws IOException {
            if (isOver) {
                return;
            }
            isOver = true;
            try {
                stream.close();
            } catch (IOException error) {
                if (mark == null || !files.exists(path)) {
                    throw error;
                }
                byte[] found = files.getXAttr(path, "header." + MARK);
                if (!Arrays.equals(mark.getBytes(StandardCharsets.UTF_8), found)) {
                    throw new FileAlreadyExistsException(path + " was written by another driver in the meantime");
                }
            }
        }

        @Override
        public synchronized void cancel() {
            if (!isOver) {
                isOver = true;
                stream.abort();
            }
        }
    }
}
