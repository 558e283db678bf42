/* The loop: opens the subscribers, publishes as ordered, waits for what must come, gives the verdict.
 *
 * Orders are lines on standard input, each answered with one line of JSON: `window W SECONDS` publishes as fast as the
 * subscribers take it in with at most W under way, `rate R SECONDS` publishes R a second, `idle SECONDS` only listens,
 * `leave` closes everything.
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull

enum {
    MAX_EVENTS = 1024,
    MAX_PAYLOAD = 1 << 17,
    OPEN_PATIENCE = 120, /* seconds without any progress while opening */
    SLOW_INTERVAL = 100, /* milliseconds between two reads of a slow reader */
};

Options options = {.host = "127.0.0.1",
                   .mode = "MERGE",
                   .adapter_set = "BENCH",
                   .data_adapter = "FEED",
                   .bandwidth = "",
                   .items = 100,
                   .each = 10,
                   .fields = 3,
                   .keys = 1,
                   .concurrency = 100,
                   .slow_bytes = 4096,
                   .document = 2000,
                   .patience = 60};
Tally tally;
const Peer *peer;
uint64_t now;
Session *control;

static Session *sessions, publisher = {.fd = -1, .number = PUBLISHER};
static int epoll, opened, streaming, lost;
static uint64_t origin, published, turn_stamp;
static const char *frequencies[16];
static int frequency_count;

static uint64_t clock_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec - origin;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* -- who has what ------------------------------------------------------------------------------------------------ */

/* Every items/each subscribers have all items once, and not always in the same place. */
int item_at(int subscriber, int place) {
    int groups = options.items / options.each;
    return subscriber % groups * options.each + (place + subscriber / groups) % options.each;
}

int place_of(int subscriber, int item) {
    int groups = options.items / options.each;
    int offset = item - subscriber % groups * options.each;
    if (offset < 0 || offset >= options.each)
        return -1;
    return (offset + options.each - subscriber / groups % options.each) % options.each;
}

const char *frequency_of(int subscriber) { return frequency_count ? frequencies[subscriber % frequency_count] : NULL; }

/* -- the verdict ------------------------------------------------------------------------------------------------- */

static void record(uint64_t nanoseconds) {
    uint64_t micros = nanoseconds / 1000;
    if (micros < 64) {
        tally.histogram[micros]++;
        return;
    }
    int exponent = 63 - __builtin_clzll(micros); /* 32 steps to each doubling: within 3 % */
    tally.histogram[exponent * 32 + (int)(micros >> (exponent - 5) & 31)]++;
}

static double percentile(double share) {
    uint64_t total = 0, seen = 0;
    for (int slot = 0; slot < 64 * 32; slot++)
        total += tally.histogram[slot];
    for (int slot = 0; slot < 64 * 32; slot++) {
        seen += tally.histogram[slot];
        if (total > 0 && (double)seen >= share * (double)total)
            return slot < 64 ? slot / 1000.0 : (double)((32ull + slot % 32) << (slot / 32 - 5)) / 1000.0;
    }
    return 0;
}

void delivered(Session *session, int place, uint32_t key, uint32_t sequence, uint64_t stamp) {
    uint32_t *last = &session->sequences[(size_t)place * (size_t)options.keys + key];
    bool may_skip = options.conflated || session->is_limited || session->is_slow;
    if (may_skip ? sequence <= *last : sequence != *last + 1) {
        char text[80];
        int size =
            snprintf(text, sizeof text, "item %d: %u after %u", item_at(session->number, place), sequence, *last);
        failed(session, "an update is missing, comes twice or out of order", text, (size_t)size);
    }
    tally.progress += sequence > *last ? sequence - *last : 1;
    *last = sequence;
    if (tally.is_draining
        && sequence == tally.published[(size_t)item_at(session->number, place) * (size_t)options.keys + key])
        tally.behind--;
    tally.delivered++;
    if (session->is_limited)
        tally.limited_delivered++;
    else if (session->is_slow)
        tally.slow_delivered++;
    else
        record(now > stamp ? now - stamp : 0);
}

void failed(Session *session, const char *reason, const char *bytes, size_t size) {
    if (session->stage == LEFT)
        return;
    if (tally.wrong++ == 0)
        snprintf(tally.first_wrong, sizeof tally.first_wrong, "%s: %.*s", reason, (int)(size < 90 ? size : 90), bytes);
    if (session->stage == FAILED)
        return;
    if (strncmp(reason, "an update is missing", 20) == 0 || strncmp(reason, "not an update", 13) == 0)
        return; /* wrong, but the stream goes on */
    if (session->stage < STREAMING)
        settled(session);
    session->stage = FAILED;
    lost++;
    wire_close(session);
}

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 32 || (unsigned char)*text > 126)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    putchar('"');
}

/* -- the loop ---------------------------------------------------------------------------------------------------- */

void watch(Session *session) {
    struct epoll_event event = {.data.ptr = session};
    event.events =
        (session->is_slow && session->stage == STREAMING ? 0 : EPOLLIN) | (session->waits_to_write ? EPOLLOUT : 0);
    if (session->stage > CONNECTING)
        epoll_ctl(epoll, EPOLL_CTL_MOD, session->fd, &event);
}

static void start(Session *session) {
    session->waits_to_write = true;
    if (!wire_connect(session))
        return failed(session, "cannot connect", strerror(errno), strlen(strerror(errno)));
    struct epoll_event event = {.data.ptr = session, .events = EPOLLIN | EPOLLOUT};
    epoll_ctl(epoll, EPOLL_CTL_ADD, session->fd, &event);
}

static void start_more(void) {
    while (opened < options.subscribers && opened - streaming < options.concurrency)
        start(&sessions[opened++]);
}

/* A subscriber has begun to stream, or has failed before that. */
void settled(Session *session) {
    if (session->number < 0) {
        session->stage = session->stage < STREAMING ? STREAMING : session->stage;
        return;
    }
    session->stage = STREAMING;
    session->last_line = now;
    streaming++;
    if (session->is_slow)
        watch(session);
    start_more();
}

/* One turn; true when there is an order to read. */
static bool turn(int timeout) {
    static struct epoll_event events[MAX_EVENTS];
    static uint64_t slow_read;
    int count = epoll_wait(epoll, events, MAX_EVENTS, timeout);
    bool has_order = false;
    for (int index = 0; index < count; index++) {
        Session *session = events[index].data.ptr;
        if (session == NULL) {
            has_order = true;
            continue;
        }
        if (session->fd < 0)
            continue;
        now = clock_now();
        if (events[index].events & EPOLLOUT)
            wire_writable(session);
        if (session->fd >= 0 && events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            wire_readable(session);
    }
    now = clock_now();
    if (options.slow && now - slow_read > SLOW_INTERVAL * (SECOND / 1000)) {
        slow_read = now;
        for (int number = 0; number < options.subscribers; number++)
            if (sessions[number].is_slow && sessions[number].stage == STREAMING)
                wire_readable(&sessions[number]);
    }
    return has_order;
}

/* -- publishing -------------------------------------------------------------------------------------------------- */

static void publish(uint64_t count) {
    static char payload[MAX_PAYLOAD];
    uint64_t rows = (uint64_t)options.items * (uint64_t)options.keys;
    if (count == 0)
        return;
    if (peer->batch_begin != NULL)
        peer->batch_begin(&publisher.out);
    for (; count > 0; count--, published++) {
        uint64_t row = published % rows;
        int item = (int)(row % (uint64_t)options.items);
        uint32_t key = (uint32_t)(row / (uint64_t)options.items);
        uint64_t *sequence = &tally.published[(uint64_t)item * (uint64_t)options.keys + key];
        uint64_t stamp = clock_now();
        turn_stamp = stamp > turn_stamp ? stamp : turn_stamp + 1; /* a value that differs from the one before it */
        size_t size = write_payload(payload, item, key, (uint32_t)++*sequence, turn_stamp);
        peer->publish(&publisher.out, item, payload, size);
    }
    if (peer->batch_end != NULL)
        peer->batch_end(&publisher.out);
    wire_flush(&publisher);
}

static uint64_t count_behind(void) {
    uint64_t behind = 0;
    for (int number = 0; number < options.subscribers; number++)
        for (int place = 0; place < options.each; place++)
            for (int key = 0; key < options.keys; key++) {
                size_t row = (size_t)item_at(number, place) * (size_t)options.keys + (size_t)key;
                behind += sessions[number].sequences[(size_t)place * (size_t)options.keys + (size_t)key]
                          != tally.published[row];
            }
    return behind;
}

static void drain(void) {
    uint64_t patience = now + (uint64_t)options.patience * SECOND;
    tally.behind = count_behind();
    tally.is_draining = true;
    while (tally.behind > 0 && lost == 0 && now < patience)
        turn(10);
    tally.is_draining = false;
}

/* Nothing has come since the last line: too long a silence is a failure, where keep-alives are due. */
void note_silence(Session *session) {
    if (options.silence > 0 && session->stage == STREAMING
        && now - session->last_line > (uint64_t)options.silence * (SECOND / 1000))
        failed(session, "silent for too long", "", 0);
}

static void run(uint64_t window, double rate, uint64_t burst, double seconds) {
    double per_publish = (double)options.subscribers * options.each / options.items;
    tally.delivered = tally.progress = tally.bytes = tally.frames = tally.limited_bytes = tally.limited_delivered =
        tally.slow_delivered = 0;
    memset(tally.histogram, 0, sizeof tally.histogram);
    double cpu = cpu_seconds();
    uint64_t begin = clock_now(), end = begin + (uint64_t)(seconds * 1e9), already = published, late = 0;
    for (now = begin; now < end && lost == 0;) {
        uint64_t done = published - already;
        if (window > 0) {
            uint64_t under_way = done - (uint64_t)((double)tally.progress / per_publish);
            if (under_way <= window / 2)
                publish(window - under_way);
            turn(100);
        } else if (rate > 0) {
            uint64_t due = (uint64_t)((double)(now - begin) / 1e9 * rate);
            due -= due % burst;
            if (publisher.waits_to_write)
                late++; /* the server does not take them in as fast */
            else if (due > done)
                publish(due - done);
            turn(1);
        } else {
            turn(100);
        }
    }
    double publishing = (double)(now - begin) / 1e9;
    double publishing_cpu = cpu_seconds() - cpu;
    if (rate > 0 || window > 0)
        drain();
    else
        for (int number = 0; number < options.subscribers; number++)
            note_silence(&sessions[number]);
    uint64_t missing = rate > 0 || window > 0 ? count_behind() : 0;
    double total = (double)(clock_now() - begin) / 1e9;
    printf("{\"published\":%lu,\"delivered\":%lu,\"passed_over\":%lu,\"limited\":%lu,\"slow\":%lu,\"wrong\":%lu,"
           "\"missing\":%lu,\"seconds\":%.6f,"
           "\"publishing\":%.6f,\"load_cpu\":%.6f,\"load_share\":%.4f,\"p50\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"late\":"
           "%lu,\"bytes\":%lu,\"frames\":%lu,\"limited_bytes\":%lu,\"reason\":",
           published - already, tally.delivered, tally.progress - tally.delivered, tally.limited_delivered,
           tally.slow_delivered, tally.wrong, missing, total, publishing, cpu_seconds() - cpu,
           publishing > 0 ? publishing_cpu / publishing : 0, percentile(0.5), percentile(0.99), percentile(0.999), late,
           tally.bytes, tally.frames, tally.limited_bytes);
    print_text(tally.first_wrong);
    printf("}\n");
    fflush(stdout);
}

/* -- opening and orders ------------------------------------------------------------------------------------------ */

static void open_all(void) {
    double cpu = cpu_seconds();
    if (!options.idle) {
        start(&publisher);
        while (publisher.stage < STREAMING && lost == 0)
            turn(100);
    }
    if (options.http) {
        control = calloc(1, sizeof *control);
        control->number = CONTROL;
        start(control);
    }
    uint64_t begin = now = clock_now(), progress = begin;
    int before = 0;
    start_more();
    while (streaming < options.subscribers && now - progress < OPEN_PATIENCE * SECOND) {
        turn(100);
        if (streaming > before)
            progress = now;
        before = streaming;
    }
    if (streaming < options.subscribers) {
        tally.wrong += (uint64_t)(options.subscribers - streaming);
        if (!tally.first_wrong[0])
            snprintf(tally.first_wrong, sizeof tally.first_wrong, "%d of %d subscribers stuck while opening",
                     options.subscribers - streaming, options.subscribers);
    }
    printf("{\"opened\":%d,\"seconds\":%.6f,\"load_cpu\":%.6f,\"wrong\":%lu,\"reason\":", streaming,
           (double)(clock_now() - begin) / 1e9, cpu_seconds() - cpu, tally.wrong);
    print_text(tally.first_wrong);
    printf("}\n");
    fflush(stdout);
}

static void take_orders(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    char line[200];
    for (;;) {
        if (!turn(1000))
            continue;
        ssize_t size = read(STDIN_FILENO, line, sizeof line - 1);
        if (size <= 0)
            return;
        line[size] = 0;
        unsigned long window = 0, burst = 1;
        double rate = 0, seconds = 0;
        if (sscanf(line, "window %lu %lf", &window, &seconds) != 2 && sscanf(line, "rate %lf %lf", &rate, &seconds) != 2
            && sscanf(line, "bursts %lf %lu %lf", &rate, &burst, &seconds) != 3 && sscanf(line, "idle %lf", &seconds) != 1)
            return;
        run(window, rate, burst > 0 ? burst : 1, seconds);
    }
}

static enum Shape shape_named(const char *name) {
    static const char *const NAMES[] = {"plain", "command", "json", "text"};
    for (int shape = 0; shape < 4; shape++)
        if (strcmp(NAMES[shape], name) == 0)
            return (enum Shape)shape;
    die("load: --shape %s is not one of plain, command, json, text", name);
}

static void take_options(int count, char **arguments) {
    static const struct option NAMES[] = {
        {"peer", 1, 0, 'p'},        {"port", 1, 0, 'P'},        {"feed-port", 1, 0, 'f'},
        {"subscribers", 1, 0, 'n'}, {"items", 1, 0, 'i'},       {"each", 1, 0, 'e'},
        {"fields", 1, 0, 'F'},      {"keys", 1, 0, 'k'},        {"document", 1, 0, 'd'},
        {"shape", 1, 0, 's'},       {"mode", 1, 0, 'm'},        {"frequencies", 1, 0, 'q'},
        {"bandwidth", 1, 0, 'b'},   {"limited", 1, 0, 'l'},     {"slow", 1, 0, 'S'},
        {"slow-bytes", 1, 0, 'B'},  {"adapter-set", 1, 0, 'a'}, {"data-adapter", 1, 0, 'D'},
        {"conflated", 0, 0, 'c'},   {"tls", 0, 0, 't'},         {"http", 0, 0, 'h'},
        {"idle", 0, 0, 'I'},        {"concurrency", 1, 0, 'C'}, {"silence", 1, 0, 'X'},
        {"whole", 0, 0, 'w'},       {"patience", 1, 0, 'o'},    {0}};
    const char *name = "";
    for (int option; (option = getopt_long(count, arguments, "", NAMES, NULL)) != -1;)
        switch (option) {
        case 'p': name = optarg; break;
        case 'P': options.port = atoi(optarg); break;
        case 'f': options.feed_port = atoi(optarg); break;
        case 'n': options.subscribers = atoi(optarg); break;
        case 'i': options.items = atoi(optarg); break;
        case 'e': options.each = atoi(optarg); break;
        case 'F': options.fields = atoi(optarg); break;
        case 'k': options.keys = atoi(optarg); break;
        case 'd': options.document = atoi(optarg); break;
        case 's': options.shape = shape_named(optarg); break;
        case 'm': options.mode = optarg; break;
        case 'q': options.frequencies = optarg; break;
        case 'b': options.bandwidth = optarg; break;
        case 'l': options.limited = atoi(optarg); break;
        case 'S': options.slow = atoi(optarg); break;
        case 'B': options.slow_bytes = atoi(optarg); break;
        case 'a': options.adapter_set = optarg; break;
        case 'D': options.data_adapter = optarg; break;
        case 'C': options.concurrency = atoi(optarg); break;
        case 'X': options.silence = atoi(optarg); break;
        case 'c': options.conflated = true; break;
        case 'o': options.patience = atoi(optarg); break;
        case 'w': options.whole = true; break;
        case 't': options.tls = true; break;
        case 'h': options.http = true; break;
        case 'I': options.idle = true; break;
        default: exit(2);
        }
    for (peer = PEERS; peer->name != NULL && strcmp(peer->name, name) != 0;)
        peer++;
    if (peer->name == NULL)
        die("load: --peer %s is not known", name);
    if (options.shape == COMMAND && options.each != 1)
        die("load: --each %d: tables come one to a subscriber", options.each);
    if (options.each < 1 || options.items % options.each != 0
        || options.subscribers % (options.items / options.each) != 0)
        die("load: --subscribers %d is not a multiple of %d groups of items", options.subscribers,
            options.items / options.each);
    for (char *text = options.frequencies ? strdup(options.frequencies) : NULL, *one;
         (one = strsep(&text, ",")) != NULL && frequency_count < 16;)
        frequencies[frequency_count++] = one;
}

int main(int count, char **arguments) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    origin = (uint64_t)time.tv_sec * SECOND;
    take_options(count, arguments);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    sessions = calloc((size_t)options.subscribers, sizeof *sessions);
    tally.published = calloc((size_t)options.items * (size_t)options.keys, sizeof *tally.published);
    for (int number = 0; number < options.subscribers; number++) {
        Session *session = &sessions[number];
        session->number = number;
        session->fd = -1;
        /* Those with a limit and the slow ones come from all groups of items. */
        session->is_limited = number < options.limited;
        session->is_slow = !session->is_limited && number < options.limited + options.slow;
        session->sequences = calloc((size_t)options.each * (size_t)options.keys, sizeof *session->sequences);
        if (options.shape == COMMAND) {
            session->last_keys = malloc((size_t)options.each * sizeof *session->last_keys);
            memset(session->last_keys, 0xFF, (size_t)options.each * sizeof *session->last_keys);
        }
    }
    open_all();
    take_orders();
    return tally.wrong == 0 ? 0 : 1;
}
