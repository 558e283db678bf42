/* Connections: sockets, TLS, WebSocket frames and HTTP chunks. What the bytes mean is not known here.
 *
 * The WebSocket side is for load only: a fixed key and a mask of zeros are cheap, legal, and nothing for a real client.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CAPACITY = 4 << 20,
    CLOSE = 0x88,
    PING = 0x89,
    PONG = 0x8A,
    MASKED = 0x80,
    LARGEST_SMALL = 125,
    TWO_BYTES = 126,
    EIGHT_BYTES = 127,
    CONNECTIONS_PER_ADDRESS = 20000, /* one loopback address has about 28,000 ports for outgoing connections */
    SLOW_RECEIVE_BUFFER = 4096,
};

static const char KEY[] = "cGVuc3RvY2stYmVuY2gtMQ==";
static const char ACCEPTED[] = "cK9hrjzk79ieIWDna/LWs7tU9g4="; /* what RFC 6455, section 4.2.2 makes of the key */

static char input[CAPACITY];
static SSL_CTX *tls;

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

/* -- going out ----------------------------------------------------------------------------------------------- */

static void reserve(Buffer *buffer, size_t size) {
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
    if (buffer->end + size <= buffer->capacity)
        return;
    buffer->capacity = (buffer->end + size) * 2;
    buffer->bytes = realloc(buffer->bytes, buffer->capacity);
    if (buffer->bytes == NULL)
        die("load: no memory for %zu bytes", buffer->capacity);
}

void append(Buffer *buffer, const void *bytes, size_t size) {
    reserve(buffer, size);
    memcpy(buffer->bytes + buffer->end, bytes, size);
    buffer->end += size;
}

void append_text(Buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text;
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    append(buffer, text, (size_t)size);
    free(text);
}

static void append_frame(Buffer *out, uint8_t head, const char *payload, size_t size) {
    uint8_t header[14] = {head};
    size_t used = 2;
    if (size <= LARGEST_SMALL) {
        header[1] = (uint8_t)(MASKED | size);
    } else {
        header[1] = MASKED | TWO_BYTES;
        header[2] = (uint8_t)(size >> 8);
        header[3] = (uint8_t)size;
        used = 4;
    }
    append(out, header, used + 4);
    append(out, payload, size);
}

/* A message of at most 64 KiB, framed as the connection needs it, and sent. */
void frame(Session *session, const char *text, size_t size) {
    if (session->framing == WEBSOCKET)
        append_frame(&session->out, peer->opcode, text, size);
    else
        append(&session->out, text, size);
    wire_flush(session);
}

void send_text(Session *session, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text;
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    frame(session, text, (size_t)size);
    free(text);
}

void wire_flush(Session *session) {
    Buffer *out = &session->out;
    while (out->start < out->end) {
        ssize_t sent;
        if (session->ssl != NULL) {
            sent = SSL_write(session->ssl, out->bytes + out->start, (int)(out->end - out->start));
            if (sent <= 0)
                break; /* The handshake is under way, or the socket is full: writable again later. */
        } else {
            sent = send(session->fd, out->bytes + out->start, out->end - out->start, MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN)
                return failed(session, "cannot send", "", 0);
            if (sent < 0)
                break;
        }
        out->start += (size_t)sent;
    }
    bool waits = out->start < out->end;
    if (waits != session->waits_to_write) {
        session->waits_to_write = waits;
        watch(session);
    }
    if (!waits && session->number != PUBLISHER) { /* thousands of them: keep nothing */
        free(out->bytes);
        memset(out, 0, sizeof *out);
    }
}

/* -- connecting ------------------------------------------------------------------------------------------------ */

bool wire_connect(Session *session) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (session->is_slow) {
        int size = SLOW_RECEIVE_BUFFER;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    }
    if (session->number >= CONNECTIONS_PER_ADDRESS) {
        struct sockaddr_in source = {.sin_family = AF_INET};
        source.sin_addr.s_addr = htonl(0x7F000001u + (uint32_t)(session->number / CONNECTIONS_PER_ADDRESS));
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
        if (bind(fd, (struct sockaddr *)&source, sizeof source) < 0)
            return false;
    }
    bool is_feed = session->number == PUBLISHER && options.feed_port != 0;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)(is_feed ? options.feed_port : options.port))};
    inet_pton(AF_INET, options.host, &address.sin_addr);
    session->fd = fd;
    session->framing = session->number == PUBLISHER ? peer->feed_framing : options.http ? HTTP_STREAM : peer->framing;
    if (options.tls && !is_feed) {
        if (tls == NULL)
            tls = SSL_CTX_new(TLS_client_method());
        session->ssl = SSL_new(tls);
        SSL_set_fd(session->ssl, fd);
        SSL_set_connect_state(session->ssl);
        SSL_set_mode(session->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EINPROGRESS;
}

void wire_close(Session *session) {
    if (session->ssl != NULL)
        SSL_free(session->ssl);
    if (session->fd >= 0)
        close(session->fd);
    session->ssl = NULL;
    session->fd = -1;
}

void wire_writable(Session *session) {
    if (session->stage == CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(session->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0)
            return failed(session, "cannot connect", strerror(error), strlen(strerror(error)));
        session->stage = OPENING;
        if (session->framing == WEBSOCKET) {
            session->stage = UPGRADING;
            append_text(&session->out,
                        "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%s%s%s\r\n",
                        peer->path, KEY, peer->subprotocol ? "Sec-WebSocket-Protocol: " : "",
                        peer->subprotocol ? peer->subprotocol : "", peer->subprotocol ? "\r\n" : "");
        } else {
            if (options.http && session->number != PUBLISHER)
                session->stage = UPGRADING; /* the head of the answer is still to come */
            peer->opened(session);
        }
    }
    if (session->stage < FAILED)
        wire_flush(session);
}

/* -- coming in ------------------------------------------------------------------------------------------------- */

static bool upgrade(Session *session, char *head, size_t size) {
    head[size - 1] = 0;
    if (options.http)
        return strncmp(head, "HTTP/1.1 200 ", 13) == 0 && strcasestr(head, "transfer-encoding: chunked") != NULL;
    return strncmp(head, "HTTP/1.1 101 ", 13) == 0 && strcasestr(head, ACCEPTED) != NULL
           && session->framing == WEBSOCKET;
}

/* The header of a frame at `at`: false when it is not whole. */
static bool frame_header(Session *session, const char *bytes, size_t *at, size_t end) {
    const uint8_t *header = (const uint8_t *)bytes + *at;
    size_t have = end - *at, used = 2;
    if (have < 2)
        return false;
    size_t size = header[1];
    if (size == TWO_BYTES || size == EIGHT_BYTES) {
        used = size == TWO_BYTES ? 4 : 10;
        if (have < used)
            return false;
        size = 0;
        for (size_t place = 2; place < used; place++)
            size = size << 8 | header[place];
    }
    if (peer->per_frame && have < used + size)
        return false;
    session->head = header[0];
    session->frame_left = size;
    session->in_frame = true;
    *at += used;
    return true;
}

static bool chunk_header(Session *session, const char *bytes, size_t *at, size_t end) {
    const char *from = bytes + *at;
    const char *line = memmem(from, end - *at, "\r\n", 2);
    if (line == from) { /* the end of the chunk before */
        *at += 2;
        return chunk_header(session, bytes, at, end);
    }
    if (line == NULL)
        return false;
    session->frame_left = strtoull(from, NULL, 16);
    session->in_frame = true;
    *at += (size_t)(line - from) + 2;
    if (session->frame_left == 0)
        failed(session, "the stream has ended", "", 0);
    return true;
}

static void control_frame(Session *session, const char *payload, size_t size) {
    if (session->head == PING) {
        append_frame(&session->out, PONG, payload, size);
        wire_flush(session);
    } else if (session->head == CLOSE) {
        failed(session, "closed by the server", size > 2 ? payload + 2 : "", size > 2 ? size - 2 : 0);
    }
}

/* Take frames from input[*at:end]; the payload of a stream is moved down to input[*stream:]. */
static void unframe(Session *session, size_t *stream, size_t *at, size_t end) {
    while (session->stage < LEFT) {
        if (!session->in_frame) {
            bool whole = session->framing == WEBSOCKET ? frame_header(session, input, at, end)
                                                       : chunk_header(session, input, at, end);
            if (!whole)
                return;
        }
        size_t size = session->frame_left;
        bool is_control = session->framing == WEBSOCKET && (session->head & 8) != 0;
        if (end - *at < size) {
            if (peer->per_frame || is_control || end == *at)
                return;
            size = end - *at;
        }
        if (is_control)
            control_frame(session, input + *at, size);
        else if (peer->per_frame)
            peer->message(session, input + *at, size);
        else {
            if (*stream != *at)
                memmove(input + *stream, input + *at, size);
            *stream += size;
        }
        *at += size;
        session->frame_left -= size;
        session->in_frame = session->frame_left > 0;
        if (!session->in_frame && !is_control && session->number >= 0)
            tally.frames++;
    }
}

static void keep(Session *session, size_t from, size_t stream, size_t at, size_t end) {
    size_t size = stream - from + (end - at);
    if (size == 0) {
        if (session->kept != NULL)
            free(session->kept);
        session->kept = NULL;
    } else {
        char *kept = malloc(size);
        if (kept == NULL)
            die("load: no memory for %zu bytes", size);
        memcpy(kept, input + from, stream - from);
        memcpy(kept + (stream - from), input + at, end - at);
        free(session->kept);
        session->kept = kept;
    }
    session->kept_size = (uint32_t)size;
    session->kept_stream = (uint32_t)(stream - from);
}

static void take(Session *session, size_t end) {
    if (session->number == CONTROL)
        return; /* What it is answered is seen on the streams. */
    size_t stream = session->kept_stream, at = stream, from = 0;
    if (session->stage == UPGRADING) {
        char *last = memmem(input, end, "\r\n\r\n", 4);
        if (last == NULL)
            return keep(session, 0, 0, 0, end);
        at = (size_t)(last - input) + 4;
        stream = from = at;
        if (!upgrade(session, input, at))
            return failed(session, "handshake answered with", input, 60);
        session->stage = OPENING;
        if (!options.http)
            peer->opened(session);
    }
    if (session->framing == RAW)
        stream = at = end;
    else
        unframe(session, &stream, &at, end);
    if (!peer->per_frame && session->stage < LEFT && stream > from)
        from += peer->consume(session, input + from, stream - from);
    if (session->stage < LEFT)
        keep(session, from, stream, at, end);
}

void wire_readable(Session *session) {
    size_t have = session->kept_size;
    if (have > CAPACITY / 2)
        return failed(session, "a frame or line longer than the load takes", "", 0);
    if (have > 0)
        memcpy(input, session->kept, have);
    /* Once publishing has stopped, the slow catch up. */
    size_t room = session->is_slow && session->stage == STREAMING && !tally.is_draining ? (size_t)options.slow_bytes
                                                                                        : CAPACITY - have;
    ssize_t size;
    if (session->ssl != NULL) {
        /* Many records may be waiting inside: epoll knows nothing of them. */
        size_t total = 0;
        do {
            size = SSL_read(session->ssl, input + have + total, (int)(room - total));
            if (size > 0)
                total += (size_t)size;
        } while (size > 0 && total < room);
        int error = SSL_get_error(session->ssl, (int)size);
        if (total == 0 && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
            return failed(session, "connection lost", "", 0);
        if (session->waits_to_write)
            wire_flush(session);
        if (total == 0)
            return;
        size = (ssize_t)total;
    } else {
        size = recv(session->fd, input + have, room, 0);
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0)
            return failed(session, "connection lost", "", 0);
    }
    tally.bytes += (size_t)size;
    if (session->is_limited)
        tally.limited_bytes += (size_t)size;
    note_silence(session);
    session->last_line = now;
    take(session, have + (size_t)size);
}
