/* What the figures of every server are compared with: the least that a fan-out over WebSocket can cost.
 *
 *     floor each        one send() for each update and subscriber
 *     floor coalesced   one send() for each subscriber and turn of the loop
 *
 * A message `s item1 item2…` subscribes, `p` followed by lines `item1|payload` publishes; what is sent is payloads, a
 * frame for each. No sessions, no limits, no rules.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ITEMS = 2000, MAX_EVENTS = 1024, BACKLOG = 4096, INPUT = 1 << 20, LARGEST_SMALL = 125 };

typedef struct {
    int fd;
    bool is_open, is_dirty, waits_to_write;
    char *in, *out;
    size_t in_size, in_capacity, out_start, out_size, out_capacity;
} Connection;

typedef struct {
    Connection **subscribers;
    int count, capacity;
} Item;

static Item items[MAX_ITEMS];
static Connection **dirty;
static size_t dirty_count, dirty_capacity;
static int epoll;
static bool coalesces;

static void *grow(void *old, size_t size) {
    void *bytes = realloc(old, size);
    if (bytes == NULL)
        abort();
    return bytes;
}

static void put(char **bytes, size_t *used, size_t *capacity, const void *from, size_t size) {
    if (*used + size > *capacity)
        *bytes = grow(*bytes, *capacity = (*used + size) * 2);
    memcpy(*bytes + *used, from, size);
    *used += size;
}

static void watch(Connection *connection, bool waits) {
    if (connection->waits_to_write == waits)
        return;
    connection->waits_to_write = waits;
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = connection};
    epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event);
}

static void flush(Connection *connection) {
    while (connection->out_start < connection->out_size) {
        ssize_t sent = send(connection->fd, connection->out + connection->out_start,
                            connection->out_size - connection->out_start, MSG_NOSIGNAL);
        if (sent < 0)
            break;
        connection->out_start += (size_t)sent;
    }
    bool rest = connection->out_start < connection->out_size;
    if (!rest)
        connection->out_start = connection->out_size = 0;
    watch(connection, rest);
}

static void deliver(Connection *connection, const char *bytes, size_t size) {
    if (!coalesces && connection->out_size == 0) {
        ssize_t sent = send(connection->fd, bytes, size, MSG_NOSIGNAL);
        if (sent == (ssize_t)size)
            return;
        sent = sent < 0 ? 0 : sent;
        bytes += sent;
        size -= (size_t)sent;
        watch(connection, true);
    }
    put(&connection->out, &connection->out_size, &connection->out_capacity, bytes, size);
    if (coalesces && !connection->is_dirty) {
        connection->is_dirty = true;
        if (dirty_count == dirty_capacity)
            dirty = grow(dirty, (dirty_capacity = dirty_capacity * 2 + 64) * sizeof *dirty);
        dirty[dirty_count++] = connection;
    }
}

/* A text frame of less than 64 KiB. */
static size_t make_frame(uint8_t *to, const char *payload, size_t size) {
    size_t used = 2;
    to[0] = 0x81;
    to[1] = (uint8_t)size;
    if (size > LARGEST_SMALL) {
        to[1] = 126;
        to[2] = (uint8_t)(size >> 8);
        to[3] = (uint8_t)size;
        used = 4;
    }
    memcpy(to + used, payload, size);
    return used + size;
}

static Item *item_named(const char *name) { return &items[(unsigned)atoi(name + 4) % MAX_ITEMS]; }

static void subscribe(Connection *connection, char *names) {
    for (char *name; (name = strsep(&names, " ")) != NULL;) {
        if (*name == 0)
            continue;
        Item *item = item_named(name);
        if (item->count == item->capacity)
            item->subscribers =
                grow(item->subscribers, (size_t)(item->capacity = item->capacity * 2 + 16) * sizeof(Connection *));
        item->subscribers[item->count++] = connection;
    }
    deliver(connection, "\x81\x02ok", 4);
}

static void publish(char *line, char *end) {
    static uint8_t bytes[1 << 16];
    while (line < end) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        char *payload = next ? memchr(line, '|', (size_t)(next - line)) : NULL;
        if (payload == NULL)
            return;
        Item *item = item_named(line);
        size_t size = make_frame(bytes, payload + 1, (size_t)(next - payload) - 1);
        for (int index = 0; index < item->count; index++)
            deliver(item->subscribers[index], (char *)bytes, size);
        line = next + 1;
    }
}

static void accept_upgrade(Connection *connection, char *head) {
    char text[200], accepted[60];
    uint8_t digest[20];
    char *key = strcasestr(head, "sec-websocket-key:");
    if (key == NULL)
        return;
    key += 18 + strspn(key + 18, " ");
    int size = snprintf(text, sizeof text, "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)strcspn(key, "\r "), key);
    EVP_Digest(text, (size_t)size, digest, NULL, EVP_sha1(), NULL);
    EVP_EncodeBlock((uint8_t *)accepted, digest, sizeof digest);
    size = snprintf(text, sizeof text,
                    "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                    accepted);
    connection->is_open = true;
    deliver(connection, text, (size_t)size);
}

/* The next frame of the client's; its mask is taken to be zeros, as the load has it. Returns its size, 0 if not whole.
 */
static size_t take_frame(Connection *connection, char *bytes, size_t have) {
    const uint8_t *header = (const uint8_t *)bytes;
    if (have < 6)
        return 0;
    size_t size = header[1] & 127, used = size == 126 ? 4 : size == 127 ? 10 : 2;
    if (have < used + 4)
        return 0;
    if (used > 2) {
        size = 0;
        for (size_t place = 2; place < used; place++)
            size = size << 8 | header[place];
    }
    used += 4;
    if (have < used + size)
        return 0;
    char *payload = bytes + used;
    if (header[0] == 0x81 && size > 0 && *payload == 'p') {
        publish(payload + 1, payload + size);
    } else if (header[0] == 0x81 && size > 0) {
        char *names = strndup(payload + 1, size - 1);
        subscribe(connection, names);
        free(names);
    }
    return used + size;
}

static void forget(Connection *connection) {
    for (int number = 0; number < MAX_ITEMS; number++)
        for (int index = 0; index < items[number].count; index++)
            if (items[number].subscribers[index] == connection)
                items[number].subscribers[index--] = items[number].subscribers[--items[number].count];
    for (size_t index = 0; index < dirty_count; index++)
        if (dirty[index] == connection)
            dirty[index--] = dirty[--dirty_count];
    close(connection->fd);
    free(connection->in);
    free(connection->out);
    free(connection);
}

static void readable(Connection *connection) {
    static char bytes[INPUT];
    ssize_t size = recv(connection->fd, bytes, sizeof bytes, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size <= 0)
        return forget(connection);
    put(&connection->in, &connection->in_size, &connection->in_capacity, bytes, (size_t)size);
    size_t at = 0, used;
    if (!connection->is_open) {
        char *end = memmem(connection->in, connection->in_size, "\r\n\r\n", 4);
        if (end == NULL)
            return;
        *end = 0;
        at = (size_t)(end - connection->in) + 4;
        accept_upgrade(connection, connection->in);
    }
    while ((used = take_frame(connection, connection->in + at, connection->in_size - at)) > 0)
        at += used;
    connection->in_size -= at;
    memmove(connection->in, connection->in + at, connection->in_size);
    if (connection->in_size == 0) {
        free(connection->in);
        connection->in = NULL;
        connection->in_capacity = 0;
    }
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        int yes = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        Connection *connection = calloc(1, sizeof *connection);
        connection->fd = fd;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static int listen_anywhere(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, BACKLOG) < 0)
        exit(2);
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("floor: ready  stream=http://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments) {
    static struct epoll_event events[MAX_EVENTS];
    coalesces = count > 1 && strcmp(arguments[1], "coalesced") == 0;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_anywhere();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(epoll, events, MAX_EVENTS, -1);
        for (int index = 0; index < ready; index++) {
            Connection *connection = events[index].data.ptr;
            if (connection == NULL)
                accept_all(listener);
            else if (events[index].events & EPOLLOUT)
                flush(connection);
            else
                readable(connection);
        }
        for (size_t index = 0; index < dirty_count; index++) {
            dirty[index]->is_dirty = false;
            flush(dirty[index]);
        }
        dirty_count = 0;
    }
}
