/* What an update must say: the payload that the publisher writes, and how TLCP sends it as a change.
 *
 * All peers carry the payload as `sequence|item.stamp|constant…`; the stamp is the time of publishing. TLCP leaves out
 * what has not changed. Nothing here is told whether an update is late or missing: see `delivered` in load.c.
 */
#define _GNU_SOURCE
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char NOTE[] = "constant";
enum { NOTE_SIZE = sizeof NOTE - 1, MAX_DOCUMENT = 1 << 16 };

/* -- the document of JSON and TEXT: long, and only its number changes ----------------------------------------- */

static size_t write_document(char *to, uint32_t sequence) {
    char *start = to;
    if (options.shape == JSON) {
        to += sprintf(to, "{\"sequence\":%u,\"entries\":[", sequence);
        while (to - start < options.document)
            to += sprintf(to, "%s{\"name\":\"constant\",\"size\":%d}", to[-1] == '[' ? "" : ",", (int)(to - start));
        to += sprintf(to, "]}");
    } else {
        for (int word = 0; to - start < options.document; word++)
            to += word == 20 ? sprintf(to, "now it is %u ", sequence) : sprintf(to, "word %d and ", word);
    }
    return (size_t)(to - start);
}

/* The document of a number, kept: many subscribers get the same. Two sets, for one is compared with the other. */
static const char *document(int set, uint32_t sequence, size_t *size) {
    enum { KEPT = 256 };
    static struct {
        uint32_t sequence;
        size_t size;
        char *bytes;
    } known[2][KEPT];
    int slot = (int)(sequence % KEPT);
    if (known[set][slot].bytes == NULL)
        known[set][slot].bytes = malloc(2 * MAX_DOCUMENT);
    if (known[set][slot].sequence != sequence || known[set][slot].size == 0) {
        known[set][slot].sequence = sequence;
        known[set][slot].size = write_document(known[set][slot].bytes, sequence);
    }
    *size = known[set][slot].size;
    return known[set][slot].bytes;
}

size_t write_payload(char *to, int item, uint32_t key, uint32_t sequence, uint64_t stamp) {
    char *start = to;
    if (options.shape == COMMAND)
        to += sprintf(to, "key%u|UPDATE|", key);
    to += sprintf(to, "%u|%d.%lu", sequence, item, stamp);
    if (options.shape == JSON || options.shape == TEXT) {
        *to++ = '|';
        to += write_document(to, sequence);
    } else {
        for (int field = options.shape == COMMAND ? 4 : 2; field < options.fields; field++) {
            *to++ = '|';
            memcpy(to, NOTE, NOTE_SIZE);
            to += NOTE_SIZE;
        }
    }
    return (size_t)(to - start);
}

bool parse_number(const char **at, const char *end, uint64_t *value) {
    const char *p = *at;
    uint64_t number = 0;
    while (p < end && (unsigned)(*p - '0') < 10)
        number = number * 10 + (unsigned)(*p++ - '0');
    bool found = p > *at;
    *at = p;
    *value = number;
    return found;
}

/* -- a whole payload, as peers without differences send it ------------------------------------------------------ */

static bool parse_value(const char **at, const char *end, uint64_t *item, uint64_t *stamp) {
    return parse_number(at, end, item) && *at < end && *(*at)++ == '.' && parse_number(at, end, stamp);
}

/* `item` is what the envelope names, or -1 where only the payload does. */
void take_payload(Session *session, int item, const char *payload, size_t size) {
    const char *at = payload, *end = payload + size;
    uint64_t sequence, named, stamp;
    bool good = parse_number(&at, end, &sequence) && at < end && *at++ == '|' && parse_value(&at, end, &named, &stamp)
                && (item < 0 || (int)named == item);
    for (int field = 2; good && field < options.fields; field++) {
        good = end - at > NOTE_SIZE && *at == '|' && memcmp(at + 1, NOTE, NOTE_SIZE) == 0;
        at += NOTE_SIZE + 1;
    }
    int place = good && at == end ? place_of(session->number, (int)named) : -1;
    if (place < 0)
        return failed(session, "not an update of the workload", payload, size);
    delivered(session, place, 0, (uint32_t)sequence, stamp);
}

/* -- TLCP ------------------------------------------------------------------------------------------------------- */

static size_t unescape(char *text, size_t size) {
    char *to = text;
    for (char *from = text, *end = text + size; from < end; from++) {
        unsigned byte;
        if (*from == '%' && end - from > 2 && sscanf(from + 1, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    return (size_t)(to - text);
}

/* The format of appendix D: copies, additions and deletions in turn, each with a number of letters in radix 26. */
static bool apply_difference(const char *base, size_t base_size, const char *at, const char *end, char *to,
                             size_t *size) {
    size_t position = 0, written = 0;
    for (int step = 0; at < end; step = (step + 1) % 3) {
        size_t number = 0;
        while (at < end && *at >= 'A' && *at <= 'Z')
            number = number * 26 + (size_t)(*at++ - 'A');
        if (at == end || *at < 'a' || *at > 'z')
            return false;
        number = number * 26 + (size_t)(*at++ - 'a');
        if (step == 1) {
            if (number > (size_t)(end - at) || written + number > MAX_DOCUMENT)
                return false;
            memcpy(to + written, at, number);
            at += number;
            written += number;
        } else {
            if (position + number > base_size || written + number > MAX_DOCUMENT)
                return false;
            if (step == 0) {
                memcpy(to + written, base + position, number);
                written += number;
            }
            position += number;
        }
    }
    *size = written;
    return true;
}

static bool is_document(uint32_t before, uint32_t sequence, char *value, size_t size) {
    static char result[2 * MAX_DOCUMENT];
    size_t expected_size, base_size;
    const char *expected = document(0, sequence, &expected_size);
    if (size > 2 && value[0] == '^' && before > 0) {
        char format = value[1];
        value += 2;
        size = unescape(value, size - 2);
        if (format == 'P') {
            char patch[100];
            int wanted = sprintf(patch, "[{\"op\":\"replace\",\"path\":\"/sequence\",\"value\":%u}]", sequence);
            return size == (size_t)wanted && memcmp(value, patch, size) == 0;
        }
        const char *base = document(1, before, &base_size);
        if (format != 'T' || !apply_difference(base, base_size, value, value + size, result, &size))
            return false;
        return size == expected_size && memcmp(result, expected, size) == 0;
    }
    size = unescape(value, size);
    return size == expected_size && memcmp(value, expected, size) == 0;
}

/* Fields that never change, after those that do: written out in the first update of an item, later left out. */
static bool are_notes(const char *at, const char *end, int count, bool is_first) {
    while (count > 0 && at < end && *at == '|') {
        at++;
        if (at == end || *at == '|') {
            count -= is_first ? count + 1 : 1;
        } else if (*at == '^') {
            uint64_t run;
            at++;
            if (!parse_number(&at, end, &run) || is_first)
                return false;
            count -= (int)run;
        } else if (end - at >= NOTE_SIZE && memcmp(at, NOTE, NOTE_SIZE) == 0) {
            at += NOTE_SIZE;
            count--;
        } else {
            return false;
        }
    }
    return count == 0 && at == end;
}

/* One line of a subscription: `U,1,place,values`. Keep-alives count for nothing. */
void take_line(Session *session, char *line, size_t size) {
    const char *at = line + 4, *end = line + size;
    uint64_t number, item = 0, stamp = 0, sequence = 0, key = 0;
    if (size < 8 || memcmp(line, "U,1,", 4) != 0) {
        if ((size == 5 && memcmp(line, "PROBE", 5) == 0) || (size > 5 && memcmp(line, "SYNC,", 5) == 0))
            return;
        return failed(session, "unexpected line", line, size);
    }
    bool good =
        parse_number(&at, end, &number) && at < end && *at++ == ',' && number >= 1 && number <= (uint64_t)options.each;
    if (!good)
        return failed(session, "not an update of the workload", line, size);
    int place = (int)number - 1;
    if (options.idle) { /* a snapshot of whatever there is, and nothing after it */
        if (session->sequences[place]++ > 0)
            failed(session, "an update while idle", line, size);
        return;
    }
    int fields = options.fields - 2;
    bool is_first =
        session->last_keys == NULL ? session->sequences[place] == 0 : session->last_keys[place] == UINT32_MAX;
    if (options.shape == COMMAND) {
        fields -= 2;
        key = session->last_keys[place];
        if (at < end && *at != '|') {
            good = end - at > 3 && memcmp(at, "key", 3) == 0;
            at += 3;
            good = good && parse_number(&at, end, &key) && key < (uint64_t)options.keys;
        }
        good = good && key != UINT32_MAX && at < end && *at++ == '|';
        const char *command = at;
        while (at < end && *at != '|')
            at++;
        const char *expected = good && session->sequences[(uint64_t)place * options.keys + key] == 0 ? "ADD" : "UPDATE";
        good = good
               && (at == command
                   || ((size_t)(at - command) == strlen(expected) && memcmp(command, expected, strlen(expected)) == 0))
               && at < end && *at++ == '|';
        if (!good)
            return failed(session, "not an update of the workload", line, size);
        sequence = session->wire_sequence; /* unchanged when the row before it had the same */
        session->last_keys[place] = (uint32_t)key;
    }
    if (at < end && *at != '|')
        good = parse_number(&at, end, &sequence);
    session->wire_sequence = (uint32_t)sequence;
    good = good && at < end && *at++ == '|' && parse_value(&at, end, &item, &stamp)
           && (int)item == item_at(session->number, place);
    if (good && (options.shape == JSON || options.shape == TEXT))
        good = at < end && *at == '|'
               && is_document(session->sequences[place], (uint32_t)sequence, (char *)at + 1, (size_t)(end - at) - 1);
    else if (good && is_first == false && end - at == fields && (fields == 1 || fields == 0))
        good = fields == 0 || *at == '|'; /* by far the most frequent: nothing but the two has changed */
    else if (good)
        good = are_notes(at, end, fields, is_first);
    if (!good)
        return failed(session, "not an update of the workload", line, size);
    delivered(session, place, (uint32_t)key, (uint32_t)sequence, stamp);
}
