package penstock.spark;

/** CRC-32 that begins with a given value, as zlib's does. Java's own always begins with 0. */
final class Checksum {
    private static final int[] TABLE = table();

    private Checksum() {}

    static int of(byte[] bytes, int offset, int length, int begin) {
        int crc = ~begin;
        for (int i = offset; i < offset + length; i++) crc = (crc >>> 8) ^ TABLE[(crc ^ bytes[i]) & 0xFF];
        return ~crc;
    }

    private static int[] table() {
        int[] made = new int[256];
        for (int n = 0; n < 256; n++) {
            int c = n;
            for (int k = 0; k < 8; k++) c = (c & 1) != 0 ? 0xEDB88320 ^ (c >>> 1) : c >>> 1;
            made[n] = c;
        }
        return made;
    }
}
