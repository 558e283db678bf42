/* The load client: many subscribers in one thread, each of which checks every value it is sent, and the publisher.
 *
 * load.c holds the loop and the verdict, wire.c connections and framing, peers.c what each server speaks, decode.c what
 * an update must say. Read next: bench/load.py, which starts it.
 */
#ifndef LOAD_H
#define LOAD_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum Stage { CONNECTING, UPGRADING, OPENING, SUBSCRIBING, STREAMING, LEAVING, LEFT, FAILED };
enum Framing { RAW, WEBSOCKET, HTTP_STREAM };
enum Shape { PLAIN, COMMAND, JSON, TEXT };

typedef struct {
    char *bytes;
    size_t start, end, capacity;
} Buffer;

typedef struct {
    int fd;
    int number; /* of the subscriber, or one of the two below */
    enum Stage stage;
    enum Framing framing;
    uint8_t head; /* first byte of the WebSocket frame under way */
    bool in_frame;
    bool is_slow;
    bool is_limited;
    bool waits_to_write;
    uint32_t missing;  /* what the stage still waits for: bits of the peer's own */
    size_t frame_left; /* bytes to come of the frame or chunk under way */
    SSL *ssl;
    char *kept; /* bytes that were not enough for a frame or a line */
    uint32_t kept_size, kept_stream;
    char *id; /* TLCP over HTTP: of the session, until it is subscribed */
    Buffer out;
    uint64_t last_line;  /* when something came last */
    uint32_t *sequences; /* of each item's keys, the last number received */
    uint32_t *last_keys; /* COMMAND: of each item, the key of the line before */
    uint32_t wire_sequence;
} Session;

enum { PUBLISHER = -1, CONTROL = -2 };

typedef struct Peer {
    const char *name;
    enum Framing framing;
    enum Framing feed_framing;
    const char *path, *subprotocol;
    uint8_t opcode;                               /* of the WebSocket frames it is sent */
    bool per_frame;                               /* a frame is one message, else frames carry a stream */
    void (*opened)(Session *);                    /* connected, and upgraded where that is due */
    void (*message)(Session *, char *, size_t);   /* per_frame */
    size_t (*consume)(Session *, char *, size_t); /* stream: returns how much of it was whole */
    void (*publish)(Buffer *, int item, const char *payload, size_t size);
    void (*batch_begin)(Buffer *); /* may be NULL: publishes need no wrapping */
    void (*batch_end)(Buffer *);
} Peer;

typedef struct {
    const char *host, *peer, *mode, *adapter_set, *data_adapter, *frequencies, *bandwidth;
    int port, feed_port, subscribers, items, each, fields, keys, document, concurrency, limited, slow, slow_bytes,
        silence;
    int patience; /* seconds in which all that was published must have come */
    enum Shape shape;
    bool tls, conflated, idle, http, whole;
} Options;

typedef struct {
    uint64_t delivered, wrong;
    uint64_t progress; /* delivered, and passed over where that is allowed */
    uint64_t limited_delivered, slow_delivered;
    uint64_t bytes, limited_bytes;
    uint64_t frames; /* whole ones with data: a server puts what it writes at once into one */
    uint64_t histogram[64 * 32];
    char first_wrong[200];
    uint64_t *published; /* of each item */
    uint64_t behind;     /* while draining: pairs of session and item that lack the last update */
    bool is_draining;
} Tally;

extern Options options;
extern Tally tally;
extern const Peer *peer;
extern uint64_t now; /* nanoseconds since the start */
extern Session *control;
extern const Peer PEERS[];

/* load.c */
void watch(Session *);
void settled(Session *);
void note_silence(Session *);
void failed(Session *, const char *reason, const char *bytes, size_t size);
void delivered(Session *, int place, uint32_t key, uint32_t sequence, uint64_t stamp);
int item_at(int subscriber, int place);
int place_of(int subscriber, int item);
const char *frequency_of(int subscriber);

/* wire.c */
bool wire_connect(Session *);
void wire_readable(Session *);
void wire_writable(Session *);
void wire_flush(Session *);
void wire_close(Session *);
void frame(Session *, const char *text, size_t size);
void send_text(Session *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void append(Buffer *, const void *bytes, size_t size);
void append_text(Buffer *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* decode.c */
void take_line(Session *, char *line, size_t size);
void take_payload(Session *, int item, const char *payload, size_t size);
size_t write_payload(char *to, int item, uint32_t key, uint32_t sequence, uint64_t stamp);
bool parse_number(const char **at, const char *end, uint64_t *value);

#endif
