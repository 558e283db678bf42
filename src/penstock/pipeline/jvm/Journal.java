package penstock.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.TreeSet;

/**
 * The files of a journal as they grow, frame by frame: its mark, its segments, their frames. Only what is committed.
 *
 * <p>The format is described in docs/journal.md, "The file format"; `penstock.journal` is its other reader. Not here:
 * what a frame's payload holds (Tail).
 */
final class Journal implements AutoCloseable {
    private static final int HEADER_BLOCK = 4096;
    private static final int DATA_START = 2 * HEADER_BLOCK;
    private static final int FRAME_HEADER = 64;
    private static final int MARK_SIZE = 44;
    private static final int NEWEST_VERSION = 2;
    private static final int MARK_LOOKS = 3;
    private static final long SEGMENT_MAGIC = little("PNSTKJNL");
    private static final long MARK_MAGIC = little("PNSTKMRK");
    private static final int FRAME_MAGIC = 0x464A50F7;
    private static final String SUFFIX = ".segment";

    private final Path directory;
    private FileChannel markFile;
    private FileChannel file;
    private Segment segment;
    private long position;

    /** The mark: `segment` is committed up to byte `position`, and `sequence` is the last one. */
    record Mark(long segment, long position, long sequence) {}

    /** A segment's header; `previous` is the last committed sequence before it. */
    record Segment(long base, long previous, int salt, byte[] schema) {}

    /** The payload is an Arrow message of records first to last, some of which may have been erased. */
    record Frame(Segment segment, long first, long last, byte[] payload) {}

    Journal(Path directory) {
        this.directory = directory;
    }

    /** Null while there is none. */
    Mark mark() throws IOException {
        try {
            if (markFile == null) markFile = FileChannel.open(directory.resolve("mark"), StandardOpenOption.READ);
            for (int look = 0; look < MARK_LOOKS; look++) {
                ByteBuffer bytes = read(markFile, 0, MARK_SIZE);
                if (bytes == null || bytes.getLong(0) != MARK_MAGIC) continue;
                if (Checksum.of(bytes.array(), 0, MARK_SIZE - 4, 0) != bytes.getInt(MARK_SIZE - 4)) continue;
                return new Mark(bytes.getLong(8), bytes.getLong(16), bytes.getLong(24));
            }
        } catch (NoSuchFileException missing) {
            if (!Files.isDirectory(directory)) throw new IOException(directory + " is not a directory");
        }
        return null;
    }

    /** The salt of the segment that a sequence is in, which tells journals apart; null if that was dropped. */
    Integer saltAt(long sequence) throws IOException {
        Long base = bases().floor(sequence);
        return base == null ? null : header(base).salt();
    }

    /** The first sequence that retention has left; in an empty journal the first to come. */
    long earliest() throws IOException {
        TreeSet<Long> bases = bases();
        return bases.isEmpty() ? 1 : bases.first();
    }

    /** The first frame with a sequence from `wanted` on; null if none is committed yet. */
    Frame next(long wanted) throws IOException {
        Mark mark = mark();
        if (mark == null || mark.sequence() < wanted) return null;
        if (segment == null) open(wanted);
        while (true) {
            boolean active = segment.base() == mark.segment();
            long end = active ? mark.position() : file.size();
            ByteBuffer head = position + FRAME_HEADER <= end ? read(file, position, FRAME_HEADER) : null;
            if (head == null) {
                if (active) return null;
                follow();
                continue;
            }
            int length = head.getInt(8);
            if (head.getInt(0) != FRAME_MAGIC
                    || Checksum.of(head.array(), 8, FRAME_HEADER - 8, segment.salt()) != head.getInt(4)) {
                throw damaged();
            }
            long first = head.getLong(16);
            long last = head.getLong(24);
            long here = position;
            position += FRAME_HEADER + (length + 7L) / 8 * 8;
            // What an older segment has beyond this was never committed.
            if (!active && first > nextHeader().previous()) {
                follow();
                continue;
            }
            if (last < wanted) continue;
            ByteBuffer payload = read(file, here + FRAME_HEADER, length);
            if (payload == null || Checksum.of(payload.array(), 0, length, segment.salt()) != head.getInt(12)) {
                position = here;
                throw damaged();
            }
            return new Frame(segment, first, last, payload.array());
        }
    }

    @Override
    public void close() throws IOException {
        if (markFile != null) markFile.close();
        if (file != null) file.close();
        markFile = null;
        file = null;
        segment = null;
    }

    private void open(long wanted) throws IOException {
        Long base = bases().floor(wanted);
        if (base == null) {
            throw new IOException("sequence " + wanted + " was dropped by retention from " + directory
                    + ", which begins with " + earliest() + "; start with a new checkpoint");
        }
        enter(base);
    }

    private void enter(long base) throws IOException {
        if (file != null) file.close();
        segment = header(base);
        file = FileChannel.open(path(base), StandardOpenOption.READ);
        position = DATA_START;
    }

    private void follow() throws IOException {
        enter(nextHeader().base());
    }

    private Segment nextHeader() throws IOException {
        Long base = bases().higher(segment.base());
        if (base == null) throw new IOException("the segment after " + path(segment.base()) + " is missing");
        return header(base);
    }

    private Segment header(long base) throws IOException {
        try (FileChannel opened = FileChannel.open(path(base), StandardOpenOption.READ)) {
            for (int copy = 0; copy < DATA_START; copy += HEADER_BLOCK) {
                ByteBuffer bytes = read(opened, copy, HEADER_BLOCK);
                if (bytes == null || bytes.getLong(0) != SEGMENT_MAGIC) continue;
                int schema = bytes.getInt(40);
                if (schema < 0 || schema > HEADER_BLOCK - 48) continue;
                if (Checksum.of(bytes.array(), 0, 44 + schema, 0) != bytes.getInt(44 + schema)) continue;
                int version = bytes.getShort(8);
                if (version > NEWEST_VERSION) {
                    throw new IOException("segment " + path(base) + " has version " + version
                            + "; this program reads versions up to " + NEWEST_VERSION);
                }
                byte[] encoded = new byte[schema];
                bytes.position(44);
                bytes.get(encoded);
                return new Segment(bytes.getLong(16), bytes.getLong(24), bytes.getInt(12), encoded);
            }
        }
        throw new IOException("the header of " + path(base) + " is damaged; format(\"penstock\") steps over such places");
    }

    private TreeSet<Long> bases() throws IOException {
        TreeSet<Long> found = new TreeSet<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*" + SUFFIX)) {
            for (Path one : files) {
                String digits = one.getFileName().toString().replace(SUFFIX, "");
                if (digits.matches("\\d{20}")) found.add(Long.parseLong(digits));
            }
        }
        return found;
    }

    private Path path(long base) {
        return directory.resolve(String.format("%020d%s", base, SUFFIX));
    }

    private IOException damaged() {
        return new IOException(path(segment.base()) + " is damaged at byte " + position
                + "; format(\"penstock\") steps over such places");
    }

    /** Null if the file ends before. */
    private static ByteBuffer read(FileChannel file, long position, int length) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        while (bytes.hasRemaining()) {
            if (file.read(bytes, position + bytes.position()) < 0) return null;
        }
        return bytes.flip();
    }

    private static long little(String text) {
        return ByteBuffer.wrap(text.getBytes(java.nio.charset.StandardCharsets.US_ASCII))
                .order(ByteOrder.LITTLE_ENDIAN).getLong();
    }
}
