/* What each server speaks: how a subscriber is opened, how a delivery looks, how one publishes.
 *
 * A new peer is a row in the table at the end. What an update must say is in decode.c.
 */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The names of a subscriber's items, with something before and after each. */
static char *item_names(int subscriber, const char *before, const char *after) {
    Buffer text = {0};
    for (int place = 0; place < options.each; place++)
        append_text(&text, "%sitem%d%s", before, item_at(subscriber, place), after);
    append(&text, "", 1);
    return text.bytes;
}

static bool starts_with(const char *text, size_t size, const char *start) {
    return size >= strlen(start) && memcmp(text, start, strlen(start)) == 0;
}

/* -- TLCP: over WebSocket, or as an HTTP stream with one connection for the requests of all --------------------- */

enum { CONOK = 1, CONS = 2, REQOK = 4, SUBOK = 8, CONF_LINE = 16 };

static const char PROTOCOL[] = "LS_protocol=TLCP-2.4.0";

static void post(Session *session, const char *request, const char *body) {
    append_text(&session->out,
                "POST /lightstreamer/%s.txt?%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", request,
                PROTOCOL, strlen(body), body);
    wire_flush(session);
}

static void tlcp_opened(Session *session) {
    if (session->number == CONTROL)
        return;
    if (session->number == PUBLISHER)
        return settled(session);
    char body[300];
    int size = snprintf(
        body, sizeof body, "LS_adapter_set=%s&LS_cid=mgQkwtwdysogQz2BJ4Ji%%20kOj2Bg&LS_supported_diffs=%s%s%s%s",
        options.adapter_set,
        options.whole           ? ""
        : options.shape == JSON ? "P"
        : options.shape == TEXT ? "T"
                                : "",
        session->is_limited ? "&LS_requested_max_bandwidth=" : "", session->is_limited ? options.bandwidth : "",
        options.http ? "&LS_content_length=2000000000" : "");
    session->missing = CONOK | CONS;
    if (options.http)
        return post(session, "create_session", body);
    send_text(session, "create_session\r\n%.*s", size, body);
}

static void tlcp_subscribe(Session *session) {
    static const char *const SCHEMAS[] = {"sequence%20value", "key%20command%20sequence%20value",
                                          "sequence%20value%20document", "sequence%20value%20document"};
    static const char *const COMMON = "LS_reqId=1&LS_op=add&LS_subId=1";
    char notes[4000] = "";
    int named = options.shape == COMMAND ? 4 : options.shape == PLAIN ? 2 : 3;
    for (int field = named, at = 0; field < options.fields; field++)
        at += sprintf(notes + at, "%%20note%d", field - named);
    const char *frequency = frequency_of(session->number);
    char *group = item_names(session->number, "", "%20");
    group[strlen(group) - 3] = 0;
    Buffer body = {0};
    append_text(&body, "%s%s%s&LS_data_adapter=%s&LS_group=%s&LS_schema=%s%s&LS_mode=%s&LS_snapshot=%s%s%s", COMMON,
                options.http ? "&LS_session=" : "", session->id ? session->id : "", options.data_adapter,
                options.idle ? "item4" : group,
                options.idle ? "stock_name%20last_price%20time" : SCHEMAS[options.shape], options.idle ? "" : notes,
                options.mode, options.idle ? "true" : "false", frequency ? "&LS_requested_max_frequency=" : "",
                frequency ? frequency : "");
    append(&body, "", 1);
    session->stage = SUBSCRIBING;
    session->missing = SUBOK | CONF_LINE | (options.http ? 0 : REQOK);
    if (options.http)
        post(control, "control", body.bytes);
    else
        send_text(session, "control\r\n%s", body.bytes);
    free(body.bytes);
    free(group);
    free(session->id);
    session->id = NULL;
}

static void tlcp_opening(Session *session, const char *line, size_t size) {
    static const struct {
        const char *name;
        uint32_t bit;
    } AWAITED[] = {{"CONOK,", CONOK}, {"CONS,", CONS},    {"REQOK,", REQOK},
                   {"SUBOK,", SUBOK}, {"SUBCMD,", SUBOK}, {"CONF,", CONF_LINE}};
    for (size_t index = 0; index < sizeof AWAITED / sizeof *AWAITED; index++) {
        if (!starts_with(line, size, AWAITED[index].name))
            continue;
        session->missing &= ~AWAITED[index].bit;
        if (AWAITED[index].bit == CONOK && options.http)
            session->id = strndup(line + 6, strcspn(line + 6, ",\r"));
        if (session->missing == 0 && session->stage == OPENING)
            tlcp_subscribe(session);
        else if (session->missing == 0)
            settled(session);
        return;
    }
    if (!starts_with(line, size, "PROBE") && !starts_with(line, size, "SYNC,") && !starts_with(line, size, "SERVNAME,")
        && !starts_with(line, size, "CLIENTIP,") && !starts_with(line, size, "NOOP,"))
        failed(session, "unexpected while opening", line, size);
}

static size_t tlcp_consume(Session *session, char *bytes, size_t size) {
    char *at = bytes, *end = bytes + size, *line;
    if (session->number == PUBLISHER)
        return size;
    while ((line = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (line == at || line[-1] != '\r') {
            failed(session, "a line without its end", at, (size_t)(line - at));
            return size;
        }
        if (session->stage == STREAMING)
            take_line(session, at, (size_t)(line - at) - 1);
        else if (session->stage < STREAMING)
            tlcp_opening(session, at, (size_t)(line - at) - 1);
        at = line + 1;
    }
    return (size_t)(at - bytes);
}

/* The feed of bench/server.py: `item|values` in lines. */
static void tlcp_publish(Buffer *out, int item, const char *payload, size_t size) {
    append_text(out, "item%d|", item);
    append(out, payload, size);
    append(out, "\n", 1);
}

/* -- plain: `s` and names subscribes, `p` and lines publishes, a message is a payload --------------------------- */

static void plain_opened(Session *session) {
    if (session->number == PUBLISHER)
        return settled(session);
    char *names = item_names(session->number, " ", "");
    send_text(session, "s%s", names);
    free(names);
}

static void plain_message(Session *session, char *bytes, size_t size) {
    if (session->number == PUBLISHER)
        return;
    if (session->stage == STREAMING)
        take_payload(session, -1, bytes, size);
    else if (size == 2 && memcmp(bytes, "ok", 2) == 0)
        settled(session);
    else
        failed(session, "unexpected while opening", bytes, size);
}

/* One frame for all of a batch; its size is filled in at the end, in the longest form. */
static size_t batch_start;
enum { BATCH_HEADER = 14 };

static void frame_begin(Buffer *out) {
    append(out, "", 0);
    batch_start = out->end;
    append(out, "\x81\xFF\0\0\0\0\0\0\0\0\0\0\0\0", BATCH_HEADER);
}

static void frame_end(Buffer *out) {
    uint64_t size = out->end - batch_start - BATCH_HEADER;
    for (int place = 0; place < 8; place++)
        out->bytes[batch_start + 2 + (size_t)place] = (char)(size >> (56 - 8 * place));
}

static void plain_begin(Buffer *out) {
    frame_begin(out);
    append(out, "p", 1);
}

/* -- NATS --------------------------------------------------------------------------------------------------------- */

static void nats_opened(Session *session) {
    if (session->number == PUBLISHER) {
        append_text(&session->out, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n");
        return settled(session);
    }
    Buffer text = {0};
    append_text(&text, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n");
    for (int place = 0; place < options.each; place++)
        append_text(&text, "SUB item%d %d\r\n", item_at(session->number, place), place + 1);
    append_text(&text, "PING\r\n");
    frame(session, text.bytes, text.end);
    free(text.bytes);
}

static size_t nats_consume(Session *session, char *bytes, size_t size) {
    const char *at = bytes, *end = bytes + size, *line;
    while (at < end && (line = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        const char *next = line + 1;
        if (starts_with(at, (size_t)(line - at), "MSG item")) {
            uint64_t item, subscription, length;
            const char *field = at + 8;
            if (!parse_number(&field, line, &item) || *field++ != ' ' || !parse_number(&field, line, &subscription)
                || *field++ != ' ' || !parse_number(&field, line, &length) || subscription < 1
                || subscription > (uint64_t)options.each
                || item_at(session->number, (int)subscription - 1) != (int)item) {
                failed(session, "unexpected line", at, (size_t)(line - at));
                return size;
            }
            if ((size_t)(end - next) < length + 2)
                break;
            take_payload(session, (int)item, next, length);
            next += length + 2;
        } else if (starts_with(at, (size_t)(line - at), "PONG")) {
            if (session->stage < STREAMING)
                settled(session);
        } else if (starts_with(at, (size_t)(line - at), "PING")) {
            send_text(session, "PONG\r\n");
        } else if (!starts_with(at, (size_t)(line - at), "INFO ")) {
            failed(session, "unexpected line", at, (size_t)(line - at));
            return size;
        }
        at = next;
    }
    return (size_t)(at - bytes);
}

static void nats_publish(Buffer *out, int item, const char *payload, size_t size) {
    append_text(out, "PUB item%d %zu\r\n", item, size);
    append(out, payload, size);
    append(out, "\r\n", 2);
}

/* -- Redis: RESP2 ------------------------------------------------------------------------------------------------- */

static void redis_opened(Session *session) {
    if (session->number == PUBLISHER)
        return settled(session);
    char *names = item_names(session->number, " ", "");
    session->missing = (uint32_t)options.each;
    send_text(session, "SUBSCRIBE%s\r\n", names);
    free(names);
}

/* The next bulk string; NULL when it is not whole. */
static const char *bulk(const char **at, const char *end, uint64_t *size) {
    const char *p = *at;
    if (end - p < 4 || *p++ != '$' || !parse_number(&p, end, size) || (size_t)(end - p) < *size + 4)
        return NULL;
    *at = p + 2 + *size + 2;
    return p + 2;
}

static size_t redis_consume(Session *session, char *bytes, size_t size) {
    const char *at = bytes, *end = bytes + size;
    if (session->number == PUBLISHER)
        return size; /* how many have received it */
    while (end - at > 4 && starts_with(at, (size_t)(end - at), "*3\r\n")) {
        const char *next = at + 4, *line;
        uint64_t kind_size, name_size, payload_size;
        const char *kind = bulk(&next, end, &kind_size);
        const char *name = kind ? bulk(&next, end, &name_size) : NULL;
        if (name == NULL)
            break;
        if (kind_size == 7) { /* message */
            const char *payload = bulk(&next, end, &payload_size);
            if (payload == NULL)
                break;
            uint64_t item = UINT32_MAX;
            const char *digits = name + 4;
            parse_number(&digits, name + name_size, &item);
            take_payload(session, (int)item, payload, payload_size);
        } else { /* subscribe: a number follows */
            if ((line = memchr(next, '\n', (size_t)(end - next))) == NULL)
                break;
            next = line + 1;
            if (--session->missing == 0)
                settled(session);
        }
        at = next;
    }
    if (at < end && *at != '*')
        failed(session, "unexpected answer", at, (size_t)(end - at));
    return (size_t)(at - bytes);
}

static void redis_publish(Buffer *out, int item, const char *payload, size_t size) {
    char name[20];
    int name_size = sprintf(name, "item%d", item);
    append_text(out, "*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%s\r\n$%zu\r\n", name_size, name, size);
    append(out, payload, size);
    append(out, "\r\n", 2);
}

/* -- MQTT 3.1.1, quality of service 0 ----------------------------------------------------------------------------- */

enum { MQTT_CONNACK = 0x20, MQTT_PUBLISH = 0x30, MQTT_SUBACK = 0x90 };

static void mqtt_length(Buffer *out, size_t size) {
    do {
        uint8_t byte = size & 127;
        size >>= 7;
        byte |= size > 0 ? 128 : 0;
        append(out, &byte, 1);
    } while (size > 0);
}

static void mqtt_name(Buffer *out, const char *name) {
    uint8_t size[2] = {(uint8_t)(strlen(name) >> 8), (uint8_t)strlen(name)};
    append(out, size, 2);
    append(out, name, strlen(name));
}

static void mqtt_send(Session *session, uint8_t kind, const Buffer *body) {
    Buffer packet = {0};
    append(&packet, &kind, 1);
    mqtt_length(&packet, body->end);
    append(&packet, body->bytes, body->end);
    frame(session, packet.bytes, packet.end);
    free(packet.bytes);
}

static void mqtt_opened(Session *session) {
    Buffer body = {0};
    mqtt_name(&body, "MQTT");
    append(&body, "\x04\x02\0\0", 4); /* version, clean session, no keep-alive */
    char name[50];
    sprintf(name, "load%d-%d", getpid(), session->number);
    mqtt_name(&body, name);
    mqtt_send(session, 0x10, &body);
    free(body.bytes);
}

static void mqtt_packet(Session *session, uint8_t kind, const char *body, size_t size) {
    if (kind == MQTT_PUBLISH) {
        size_t name_size = (size_t)(uint8_t)body[0] << 8 | (uint8_t)body[1];
        const char *digits = body + 6;
        uint64_t item = UINT32_MAX;
        parse_number(&digits, body + 2 + name_size, &item);
        return take_payload(session, (int)item, body + 2 + name_size, size - 2 - name_size);
    }
    if (kind == MQTT_CONNACK && size == 2 && body[1] == 0) {
        if (session->number == PUBLISHER)
            return settled(session);
        Buffer request = {0};
        append(&request, "\0\x01", 2);
        for (int place = 0; place < options.each; place++) {
            char name[20];
            sprintf(name, "item%d", item_at(session->number, place));
            mqtt_name(&request, name);
            append(&request, "\0", 1);
        }
        mqtt_send(session, 0x82, &request);
        free(request.bytes);
    } else if (kind == MQTT_SUBACK) {
        settled(session);
    } else {
        failed(session, "unexpected packet", (const char *)&kind, 1);
    }
}

static size_t mqtt_consume(Session *session, char *bytes, size_t size) {
    size_t at = 0;
    while (size - at >= 2) {
        size_t length = 0, used = 1;
        for (int shift = 0;; shift += 7) {
            if (at + used >= size)
                return at;
            uint8_t byte = (uint8_t)bytes[at + used++];
            length |= (size_t)(byte & 127) << shift;
            if (!(byte & 128))
                break;
        }
        if (size - at < used + length)
            break;
        mqtt_packet(session, (uint8_t)bytes[at] & 0xF0, bytes + at + used, length);
        at += used + length;
    }
    return at;
}

static void mqtt_publish(Buffer *out, int item, const char *payload, size_t size) {
    char name[20];
    sprintf(name, "item%d", item);
    append(out, "\x30", 1);
    mqtt_length(out, 2 + strlen(name) + size);
    mqtt_name(out, name);
    append(out, payload, size);
}

/* -- socket.io: an Engine.IO 4 WebSocket, events in JSON ---------------------------------------------------------- */

static void socketio_opened(Session *session) { session->missing = 1; }

static void socketio_message(Session *session, char *bytes, size_t size) {
    static const char EVENT[] = "42[\"u\",\"";
    enum { BEFORE = sizeof EVENT - 1, AFTER = 2 };
    if (starts_with(bytes, size, EVENT) && session->stage == STREAMING) {
        if (session->number >= 0)
            take_payload(session, -1, bytes + BEFORE, size - BEFORE - AFTER);
    } else if (size == 1 && *bytes == '2') {
        send_text(session, "3");
    } else if (size > 1 && *bytes == '0') {
        send_text(session, "40");
    } else if (starts_with(bytes, size, "40")) {
        if (session->number == PUBLISHER)
            return settled(session);
        char *names = item_names(session->number, ",\"", "\"");
        send_text(session, "42[\"s\"%s]", names);
        free(names);
    } else if (starts_with(bytes, size, "42[\"ok\"]")) {
        settled(session);
    } else {
        failed(session, "unexpected message", bytes, size);
    }
}

static void socketio_begin(Buffer *out) {
    frame_begin(out);
    append(out, "42[\"p\"", 6);
}

static void socketio_publish(Buffer *out, int item, const char *payload, size_t size) {
    append_text(out, ",\"item%d\",\"", item);
    append(out, payload, size);
    append(out, "\"", 1);
}

static void socketio_end(Buffer *out) {
    append(out, "]", 1);
    frame_end(out);
}

/* -- Centrifugo: commands, replies and pushes in JSON, one to a line ---------------------------------------------- */

static void centrifugo_opened(Session *session) { send_text(session, "{\"id\":1,\"connect\":{}}"); }

static void centrifugo_subscribe(Session *session) {
    Buffer text = {0};
    for (int place = 0; place < options.each; place++)
        append_text(&text, "%s{\"id\":%d,\"subscribe\":{\"channel\":\"item%d\"}}", place ? "\n" : "", place + 2,
                    item_at(session->number, place));
    session->missing = (uint32_t)options.each;
    session->stage = SUBSCRIBING;
    frame(session, text.bytes, text.end);
    free(text.bytes);
}

static void centrifugo_line(Session *session, const char *line, size_t size) {
    static const char PUSH[] = "{\"push\":{\"channel\":\"item", DATA[] = "\",\"pub\":{\"data\":\"";
    const char *at = line + sizeof PUSH - 1, *end = line + size, *quote;
    uint64_t item;
    if (starts_with(line, size, PUSH) && parse_number(&at, end, &item) && starts_with(at, (size_t)(end - at), DATA)
        && (quote = memchr(at + sizeof DATA - 1, '"', (size_t)(end - at) - (sizeof DATA - 1))) != NULL) {
        at += sizeof DATA - 1;
        take_payload(session, (int)item, at, (size_t)(quote - at));
    } else if (size == 2 && memcmp(line, "{}", 2) == 0) {
        send_text(session, "{}");
    } else if (memmem(line, size, "\"error\":", 8) != NULL) {
        failed(session, "refused", line, size);
    } else if (session->stage == OPENING && memmem(line, size, "\"connect\":", 10) != NULL) {
        if (session->number == PUBLISHER)
            settled(session);
        else
            centrifugo_subscribe(session);
    } else if (session->stage == SUBSCRIBING && memmem(line, size, "\"subscribe\":", 12) != NULL) {
        if (--session->missing == 0)
            settled(session);
    } else if (session->number != PUBLISHER) {
        failed(session, "unexpected line", line, size);
    }
}

static void centrifugo_message(Session *session, char *bytes, size_t size) {
    for (char *at = bytes, *end = bytes + size; at < end;) {
        char *line = memchr(at, '\n', (size_t)(end - at));
        line = line != NULL ? line : end;
        if (line > at)
            centrifugo_line(session, at, (size_t)(line - at));
        at = line + 1;
    }
}

static void centrifugo_publish(Buffer *out, int item, const char *payload, size_t size) {
    static unsigned id = 1;
    append_text(out, "{\"id\":%u,\"publish\":{\"channel\":\"item%d\",\"data\":\"", ++id, item);
    append(out, payload, size);
    append(out, "\"}}\n", 4);
}

/* ------------------------------------------------------------------------------------------------------------------ */

enum { TEXT_FRAME = 0x81, BINARY_FRAME = 0x82 };

const Peer PEERS[] = {{.name = "tlcp",
                       .framing = WEBSOCKET,
                       .feed_framing = RAW,
                       .path = "/lightstreamer",
                       .subprotocol = "TLCP-2.4.0.lightstreamer.com",
                       .opcode = TEXT_FRAME,
                       .opened = tlcp_opened,
                       .consume = tlcp_consume,
                       .publish = tlcp_publish},
                      {.name = "plain",
                       .framing = WEBSOCKET,
                       .feed_framing = WEBSOCKET,
                       .path = "/",
                       .opcode = TEXT_FRAME,
                       .per_frame = true,
                       .opened = plain_opened,
                       .message = plain_message,
                       .publish = tlcp_publish,
                       .batch_begin = plain_begin,
                       .batch_end = frame_end},
                      {.name = "nats",
                       .framing = WEBSOCKET,
                       .feed_framing = RAW,
                       .path = "/",
                       .opcode = BINARY_FRAME,
                       .opened = nats_opened,
                       .consume = nats_consume,
                       .publish = nats_publish},
                      {.name = "redis",
                       .framing = RAW,
                       .feed_framing = RAW,
                       .opened = redis_opened,
                       .consume = redis_consume,
                       .publish = redis_publish},
                      {.name = "mqtt",
                       .framing = WEBSOCKET,
                       .feed_framing = RAW,
                       .path = "/mqtt",
                       .subprotocol = "mqtt",
                       .opcode = BINARY_FRAME,
                       .opened = mqtt_opened,
                       .consume = mqtt_consume,
                       .publish = mqtt_publish},
                      {.name = "socketio",
                       .framing = WEBSOCKET,
                       .feed_framing = WEBSOCKET,
                       .path = "/socket.io/?EIO=4&transport=websocket",
                       .opcode = TEXT_FRAME,
                       .per_frame = true,
                       .opened = socketio_opened,
                       .message = socketio_message,
                       .publish = socketio_publish,
                       .batch_begin = socketio_begin,
                       .batch_end = socketio_end},
                      {.name = "centrifugo",
                       .framing = WEBSOCKET,
                       .feed_framing = WEBSOCKET,
                       .path = "/connection/websocket",
                       .opcode = TEXT_FRAME,
                       .per_frame = true,
                       .opened = centrifugo_opened,
                       .message = centrifugo_message,
                       .publish = centrifugo_publish,
                       .batch_begin = frame_begin,
                       .batch_end = frame_end},
                      {0}};
