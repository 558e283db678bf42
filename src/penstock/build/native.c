/* The loops that remain hot when kernel and wire are compiled: checking what adapters publish, merging rows, encoding
 * values and frames, and writing to many sockets. All but the last are functions of their arguments: no state, no I/O.
 *
 * Each function has a twin in Python that does the same, and is the reference: `kernel/rows.py`, `kernel/feed.py`,
 * `wire/tlcp/values.py`, `wire/frames.py`, `doors/stream/carrier.py`. `tests/build/test_native.py` compares them, and
 * `tests/doors/stream/test_carrier.py` the last. A function that cannot do its work in a simple way returns None, and the
 * twin does it.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#define PENSTOCK_RING
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

/* Bytes that are gathered on the stack before a bytes object is made of them. */
#define ROOM 1024

/* Longer text is searched with `memchr` for the characters to escape, which is faster than one by one. */
#define LONG_TEXT 48

/* -- text ---------------------------------------------------------------------------------------------------------- */

/* Whether UTF-8 can carry the text: it holds no half of a surrogate pair. */
static int
is_unicode(PyObject *text)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    if (PyUnicode_IS_ASCII(text) || PyUnicode_KIND(text) == PyUnicode_1BYTE_KIND)
        return 1;
    if (PyUnicode_KIND(text) == PyUnicode_2BYTE_KIND) {
        const Py_UCS2 *at = PyUnicode_2BYTE_DATA(text);
        for (Py_ssize_t i = 0; i < length; i++)
            if ((at[i] & 0xF800) == 0xD800)
                return 0;
        return 1;
    }
    const Py_UCS4 *at = PyUnicode_4BYTE_DATA(text);
    for (Py_ssize_t i = 0; i < length; i++)
        if ((at[i] & 0xFFFFF800) == 0xD800)
            return 0;
    return 1;
}

/* Whether it is a value that needs no conversion: null, or text that UTF-8 can carry. */
static inline int
is_value(PyObject *value)
{
    return value == Py_None || (PyUnicode_CheckExact(value) && PyUnicode_READY(value) == 0 && is_unicode(value));
}

static inline int
same(PyObject *one, PyObject *other)
{
    if (one == other)
        return 1;
    if (one == Py_None || other == Py_None)
        return 0;
    Py_ssize_t length = PyUnicode_GET_LENGTH(one);
    return length == PyUnicode_GET_LENGTH(other) && PyUnicode_KIND(one) == PyUnicode_KIND(other)
        && memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), length * PyUnicode_KIND(one)) == 0;
}

/* -- what adapters publish ------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(checked_row_doc, "checked_row(row, width): the row as a tuple, if it is an item and `width` plain values; else None.");

static PyObject *
checked_row(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "checked_row takes 2 arguments, not %zd", count);
    PyObject *row = args[0];
    Py_ssize_t width = PyLong_AsSsize_t(args[1]);
    if (width == -1 && PyErr_Occurred())
        return NULL;
    int is_tuple = PyTuple_CheckExact(row);
    if (!is_tuple && !PyList_CheckExact(row))
        Py_RETURN_NONE;
    Py_ssize_t length = is_tuple ? PyTuple_GET_SIZE(row) : PyList_GET_SIZE(row);
    PyObject **values = is_tuple ? ((PyTupleObject *)row)->ob_item : ((PyListObject *)row)->ob_item;
    if (length != width + 1 || !PyUnicode_CheckExact(values[0]))
        Py_RETURN_NONE;
    for (Py_ssize_t i = 1; i < length; i++)
        if (!is_value(values[i]))
            Py_RETURN_NONE;
    if (is_tuple)
        return Py_NewRef(row);
    PyObject *made = PyTuple_New(length);
    if (made == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < length; i++)
        PyTuple_SET_ITEM(made, i, Py_NewRef(values[i]));
    return made;
}

PyDoc_STRVAR(clean_event_doc, "clean_event(event): a copy, if it is a dict of names and plain values; else None.");

static PyObject *
clean_event(PyObject *module, PyObject *event)
{
    if (!PyDict_CheckExact(event))
        Py_RETURN_NONE;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(event, &at, &name, &value))
        if (!PyUnicode_CheckExact(name) || PyUnicode_READY(name) || !is_unicode(name) || !is_value(value))
            Py_RETURN_NONE;
    return PyDict_Copy(event);
}

PyDoc_STRVAR(merge_row_doc, "merge_row(values, places, row): put the values of a checked row into their places of a list.");

static PyObject *
merge_row(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) || !PyTuple_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "merge_row takes a list, a list and a tuple");
    PyObject *values = args[0], *places = args[1], *row = args[2];
    Py_ssize_t width = PyList_GET_SIZE(places);
    if (PyTuple_GET_SIZE(row) != width + 1)
        return PyErr_Format(PyExc_ValueError, "a row of %zd values for %zd places", PyTuple_GET_SIZE(row) - 1, width);
    for (Py_ssize_t i = 0; i < width; i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyList_GET_ITEM(places, i));
        if (place < 0 || place >= PyList_GET_SIZE(values)) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_IndexError, "place %zd of %zd", place, PyList_GET_SIZE(values));
            return NULL;
        }
        PyObject *old = PyList_GET_ITEM(values, place);
        PyList_SET_ITEM(values, place, Py_NewRef(PyTuple_GET_ITEM(row, i + 1)));
        Py_DECREF(old);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(pick_doc, "pick(values, positions, before): the values at the positions; `before` itself if they are equal to it.");

static PyObject *
pick(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1])
        || (args[2] != Py_None && !PyTuple_CheckExact(args[2])))
        return PyErr_Format(PyExc_TypeError, "pick takes a list, a list, and a tuple or None");
    PyObject *values = args[0], *positions = args[1], *before = args[2];
    Py_ssize_t width = PyList_GET_SIZE(positions);
    int is_same = before != Py_None && PyTuple_GET_SIZE(before) == width;
    PyObject *made = NULL;
    for (Py_ssize_t i = 0; i < width; i++) {
        Py_ssize_t position = PyLong_AsSsize_t(PyList_GET_ITEM(positions, i));
        if (position < 0 || position >= PyList_GET_SIZE(values)) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_IndexError, "position %zd of %zd", position, PyList_GET_SIZE(values));
            Py_XDECREF(made);
            return NULL;
        }
        PyObject *value = PyList_GET_ITEM(values, position);
        if (is_same && same(value, PyTuple_GET_ITEM(before, i)))
            continue;
        if (made == NULL) {
            /* The first that differs: those before it are as they were. */
            made = PyTuple_New(width);
            if (made == NULL)
                return NULL;
            for (Py_ssize_t j = 0; j < i; j++)
                PyTuple_SET_ITEM(made, j, Py_NewRef(PyTuple_GET_ITEM(before, j)));
            is_same = 0;
        }
        PyTuple_SET_ITEM(made, i, Py_NewRef(value));
    }
    if (made != NULL)
        return made;
    return is_same ? Py_NewRef(before) : PyTuple_New(width);
}

/* -- encoding -------------------------------------------------------------------------------------------------------- */

/* What would end a value or a line. */
static inline int
is_special(Py_UCS4 c)
{
    return c == '%' || c == '|' || c == '\r' || c == '\n';
}

static inline char *
put_escape(char *to, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";
    *to++ = '%';
    *to++ = digits[c >> 4];
    *to++ = digits[c & 15];
    return to;
}

static char *
put_utf8(char *to, Py_UCS4 c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | (c >> 6));
        *to++ = (char)(0x80 | (c & 0x3F));
    } else if ((c & 0xFFFFF800) == 0xD800) {
        *to++ = '?';
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | (c >> 12));
        *to++ = (char)(0x80 | ((c >> 6) & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    } else {
        *to++ = (char)(0xF0 | (c >> 18));
        *to++ = (char)(0x80 | ((c >> 12) & 0x3F));
        *to++ = (char)(0x80 | ((c >> 6) & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    }
    return to;
}

/* The most bytes that a value can take. */
static inline Py_ssize_t
most_bytes(PyObject *value)
{
    if (value == Py_None)
        return 1;
    return PyUnicode_GET_LENGTH(value) * (PyUnicode_KIND(value) == PyUnicode_4BYTE_KIND ? 4 : 3) + 1;
}

static int
has_specials(const char *at, Py_ssize_t length)
{
    return memchr(at, '%', length) || memchr(at, '|', length) || memchr(at, '\r', length) || memchr(at, '\n', length);
}

/* One field value as it is written between two pipes. */
static char *
put_value(char *to, PyObject *value)
{
    if (value == Py_None) {
        *to++ = '#';
        return to;
    }
    Py_ssize_t length = PyUnicode_GET_LENGTH(value);
    if (length == 0) {
        *to++ = '$';
        return to;
    }
    int kind = PyUnicode_KIND(value);
    const void *data = PyUnicode_DATA(value);
    Py_ssize_t i = 0;
    Py_UCS4 first = PyUnicode_READ(kind, data, 0);
    if (first == '#' || first == '$' || first == '^') {
        to = put_escape(to, (unsigned char)first);
        i = 1;
    }
    if (PyUnicode_IS_ASCII(value)) {
        const char *at = data;
        if (length > LONG_TEXT && !has_specials(at + i, length - i)) {
            memcpy(to, at + i, length - i);
            return to + (length - i);
        }
        for (; i < length; i++) {
            if (is_special((unsigned char)at[i]))
                to = put_escape(to, (unsigned char)at[i]);
            else
                *to++ = at[i];
        }
        return to;
    }
    for (; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        to = is_special(c) ? put_escape(to, (unsigned char)c) : put_utf8(to, c);
    }
    return to;
}

/* Unchanged fields: empty values, or "^n" where that is shorter. `after`: whether a value is before them. */
static char *
put_run(char *to, Py_ssize_t length, int after)
{
    if (length >= 4)
        return to + sprintf(to, after ? "|^%zd" : "^%zd", length);
    for (Py_ssize_t i = 0; i < length; i++)
        if (i || after)
            *to++ = '|';
    return to;
}

PyDoc_STRVAR(value_list_doc, "value_list(values, previous): the line of an update, without its prefix, that turns previous into values.");

static PyObject *
value_list(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_CheckExact(args[0]) || (args[1] != Py_None && !PyTuple_CheckExact(args[1])))
        return PyErr_Format(PyExc_TypeError, "value_list takes a tuple, and a tuple or None");
    PyObject *values = args[0], *previous = args[1] == Py_None ? NULL : args[1];
    Py_ssize_t width = PyTuple_GET_SIZE(values);
    if (previous != NULL && PyTuple_GET_SIZE(previous) != width)
        return PyErr_Format(PyExc_ValueError, "%zd values after %zd", width, PyTuple_GET_SIZE(previous));
    /* A pipe or a part of a run for each, and the end of the line. */
    Py_ssize_t most = width + 32;
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        PyObject *before = previous == NULL ? Py_None : PyTuple_GET_ITEM(previous, i);
        if ((value != Py_None && (!PyUnicode_Check(value) || PyUnicode_READY(value)))
            || (before != Py_None && (!PyUnicode_Check(before) || PyUnicode_READY(before)))) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a value that is not text");
            return NULL;
        }
        if (value != before)
            most += most_bytes(value);
        else
            most += previous == NULL;
    }
    char room[ROOM];
    PyObject *made = NULL;
    char *begin = room;
    if (most > ROOM) {
        made = PyBytes_FromStringAndSize(NULL, most);
        if (made == NULL)
            return NULL;
        begin = PyBytes_AS_STRING(made);
    }
    char *to = begin;
    Py_ssize_t unchanged = 0;
    int after = 0;
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        if (previous != NULL && same(value, PyTuple_GET_ITEM(previous, i))) {
            unchanged++;
            continue;
        }
        if (unchanged) {
            to = put_run(to, unchanged, after);
            unchanged = 0;
            after = 1;
        }
        if (after)
            *to++ = '|';
        to = put_value(to, value);
        after = 1;
    }
    if (unchanged)
        to = put_run(to, unchanged, after);
    *to++ = '\r';
    *to++ = '\n';
    if (made == NULL)
        return PyBytes_FromStringAndSize(begin, to - begin);
    if (_PyBytes_Resize(&made, to - begin) < 0)
        return NULL;
    return made;
}

PyDoc_STRVAR(text_frame_doc, "text_frame(payload): a whole text message as one unmasked WebSocket frame.");

static PyObject *
text_frame(PyObject *module, PyObject *payload)
{
    if (!PyBytes_CheckExact(payload))
        return PyErr_Format(PyExc_TypeError, "text_frame takes bytes");
    Py_ssize_t size = PyBytes_GET_SIZE(payload);
    int head = size < 126 ? 2 : size < 65536 ? 4 : 10;
    PyObject *made = PyBytes_FromStringAndSize(NULL, head + size);
    if (made == NULL)
        return NULL;
    unsigned char *to = (unsigned char *)PyBytes_AS_STRING(made);
    *to++ = 0x81;
    *to++ = (unsigned char)(head == 2 ? size : head == 4 ? 126 : 127);
    for (int shift = (head - 3) * 8; head > 2 && shift >= 0; shift -= 8)
        *to++ = (unsigned char)((unsigned long long)size >> shift);
    memcpy(to, PyBytes_AS_STRING(payload), size);
    return made;
}

/* -- to sockets ----------------------------------------------------------------------------------------------------- */

/* Bytes that are sealed for channels with TLS before they are written: what is sealed is different for each. */
#define MOST_SEALED 262144

/* One frame on its way to one socket. */
typedef struct {
    PyObject *channel;
    /* As the socket is to get it: NULL when it has got all of it. */
    PyObject *frame;
    Py_ssize_t place;
    /* Negative if something else has to be written to the channel first. */
    int outlet;
    /* How many bytes the socket has taken. */
    Py_ssize_t sent;
} Sending;

/* In place of how many bytes, if the socket was not written to. */
#define WAITS (-1)

static void
send_one(Sending *one)
{
    ssize_t sent = send(one->outlet, PyBytes_AS_STRING(one->frame), PyBytes_GET_SIZE(one->frame), MSG_DONTWAIT | MSG_NOSIGNAL);
    /* The transport will notice an error itself, and handle it. */
    one->sent = sent < 0 ? 0 : sent;
}

#ifdef PENSTOCK_RING

/* Many sockets are written to by one system call, which saves a fifth of the CPU time (docs/performance.md). Where Linux
 * does not allow it, each is written to by a call of its own.
 *
 * The ring belongs to the process. It is used by one thread at a time, and is empty between two calls. */
enum { RING_ENTRIES = 1024, RING_WORTH = 4 };

static struct {
    int fd;
    /* 0: not tried; 1: there is one; -1: there can be none. */
    int state;
    int busy;
    unsigned *head, *tail, *array, mask;
    unsigned *done_head, *done_tail, done_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *done;
} ring;

static void
forget_ring(void)
{
    /* In a child: its memory is not inherited, and the descriptor must not be used. */
    if (ring.state == 1)
        close(ring.fd);
    ring.state = ring.busy = 0;
}

static void *
map_ring(size_t size, off_t offset)
{
    void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);
    if (found != MAP_FAILED)
        madvise(found, size, MADV_DONTFORK);
    return found;
}

static void
open_ring(void)
{
    static int once;
    struct io_uring_params facts;
    memset(&facts, 0, sizeof facts);
    ring.state = -1;
    ring.fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &facts);
    if (ring.fd < 0)
        return;
    size_t asked = facts.sq_off.array + facts.sq_entries * sizeof(unsigned);
    size_t told = facts.cq_off.cqes + facts.cq_entries * sizeof(struct io_uring_cqe);
    char *shared = map_ring(asked > told ? asked : told, IORING_OFF_SQ_RING);
    ring.entries = map_ring(facts.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    if (!(facts.features & IORING_FEAT_SINGLE_MMAP) || shared == MAP_FAILED || (void *)ring.entries == MAP_FAILED
        || (!once && pthread_atfork(NULL, NULL, forget_ring))) {
        close(ring.fd);
        return;
    }
    once = 1;
    ring.head = (unsigned *)(shared + facts.sq_off.head);
    ring.tail = (unsigned *)(shared + facts.sq_off.tail);
    ring.array = (unsigned *)(shared + facts.sq_off.array);
    ring.mask = *(unsigned *)(shared + facts.sq_off.ring_mask);
    ring.done_head = (unsigned *)(shared + facts.cq_off.head);
    ring.done_tail = (unsigned *)(shared + facts.cq_off.tail);
    ring.done_mask = *(unsigned *)(shared + facts.cq_off.ring_mask);
    ring.done = (struct io_uring_cqe *)(shared + facts.cq_off.cqes);
    ring.state = 1;
}

/* Whether the ring has taken care of it: it is whole, or the socket is full. */
static int
ring_done(Sending *one, int result)
{
    if (result == -EINVAL || result == -EOPNOTSUPP)
        ring.state = -1;
    one->sent = result < 0 ? 0 : result;
    return result >= 0 || result == -EAGAIN;
}

/* Send some of them, at most RING_ENTRIES; returns how many from the first on were looked at. */
static Py_ssize_t
send_by_ring(Sending *sendings, Py_ssize_t count)
{
    unsigned begin = *ring.tail, tail = begin;
    Py_ssize_t seen = 0;
    for (; seen < count && tail - begin < RING_ENTRIES; seen++) {
        Sending *one = &sendings[seen];
        if (one->outlet < 0)
            continue;
        unsigned place = tail++ & ring.mask;
        struct io_uring_sqe *entry = &ring.entries[place];
        memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_SEND;
        entry->fd = one->outlet;
        entry->addr = (unsigned long)PyBytes_AS_STRING(one->frame);
        entry->len = (unsigned)PyBytes_GET_SIZE(one->frame);
        entry->msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
        entry->user_data = (unsigned long)seen;
        ring.array[place] = place;
        /* Until it is known to be sent. */
        one->sent = WAITS;
    }
    __atomic_store_n(ring.tail, tail, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring.fd, tail - begin, 0, 0, NULL, 0) < 0)
        ring.state = -1;
    unsigned taken = __atomic_load_n(ring.head, __ATOMIC_ACQUIRE) - begin;
    /* What Linux has not looked at is withdrawn. */
    __atomic_store_n(ring.tail, begin + taken, __ATOMIC_RELEASE);
    while (taken > 0) {
        unsigned at = *ring.done_head, end = __atomic_load_n(ring.done_tail, __ATOMIC_ACQUIRE);
        if (at == end)
            syscall(SYS_io_uring_enter, ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        for (; at != end; at++, taken--) {
            struct io_uring_cqe *done = &ring.done[at & ring.done_mask];
            Sending *one = &sendings[done->user_data];
            if (!ring_done(one, done->res))
                send_one(one);
        }
        __atomic_store_n(ring.done_head, at, __ATOMIC_RELEASE);
    }
    for (Py_ssize_t i = 0; i < seen; i++)
        if (sendings[i].outlet >= 0 && sendings[i].sent == WAITS)
            send_one(&sendings[i]);
    return seen;
}

#endif

/* Without the interpreter's lock. `has_ring`: nobody else uses the ring. */
static void
send_all(Sending *sendings, Py_ssize_t count, int has_ring)
{
    Py_ssize_t i = 0;
#ifdef PENSTOCK_RING
    while (has_ring && ring.state == 1 && count - i >= RING_WORTH)
        i += send_by_ring(sendings + i, count - i);
#endif
    for (; i < count; i++)
        if (sendings[i].outlet >= 0)
            send_one(&sendings[i]);
}

/* Whether this call may use the ring; it has to be released then. With the interpreter's lock. */
static int
take_ring(void)
{
#ifdef PENSTOCK_RING
    if (ring.busy)
        return 0;
    if (ring.state == 0)
        open_ring();
    return ring.busy = ring.state == 1;
#else
    return 0;
#endif
}

static void
release_ring(int has_ring)
{
#ifdef PENSTOCK_RING
    if (has_ring)
        ring.busy = 0;
#endif
}

/* The names of the attributes of channels. */
static PyObject *outlet_name, *seal_name;

/* The descriptor that a channel has for frames, or a negative one; -2 if there was an error. */
static int
outlet_of(PyObject *channel)
{
    PyObject *found = PyObject_GetAttr(channel, outlet_name);
    if (found == NULL)
        return -2;
    long outlet = PyLong_AsLong(found);
    Py_DECREF(found);
    if (outlet == -1 && PyErr_Occurred())
        return -2;
    return outlet < 0 || outlet > INT_MAX ? -1 : (int)outlet;
}

/* Which descriptors have been met: a bit for each. */
typedef struct {
    unsigned char *bits;
    Py_ssize_t size;
} Met;

/* Whether it has been met before; -1 if there is no memory. */
static int
meet(Met *met, int outlet)
{
    Py_ssize_t at = outlet >> 3;
    unsigned char bit = (unsigned char)(1 << (outlet & 7));
    if (at >= met->size) {
        Py_ssize_t size = at * 2 + 128;
        unsigned char *bits = PyMem_Realloc(met->bits, size);
        if (bits == NULL)
            return -1;
        memset(bits + met->size, 0, size - met->size);
        met->bits = bits;
        met->size = size;
    }
    int before = met->bits[at] & bit;
    met->bits[at] |= bit;
    return before != 0;
}

/* Make the frame ready for the channel's socket: by what the channel has for that, if it has anything. How many bytes that
 * has made; -1 if there was an error. */
static Py_ssize_t
seal(Sending *one)
{
    PyObject *by = PyObject_GetAttr(one->channel, seal_name);
    if (by == NULL)
        return -1;
    PyObject *sealed = by == Py_None ? NULL : PyObject_CallOneArg(by, one->frame);
    int is_plain = by == Py_None;
    Py_DECREF(by);
    if (is_plain)
        return 0;
    if (sealed == NULL)
        return -1;
    if (!PyBytes_CheckExact(sealed)) {
        PyErr_Format(PyExc_TypeError, "seal of a channel returns bytes, not %R", sealed);
        Py_DECREF(sealed);
        return -1;
    }
    Py_SETREF(one->frame, sealed);
    return PyBytes_GET_SIZE(sealed);
}

/* Write some of them, and let go of what is whole. */
static void
send_some(Sending *sendings, Py_ssize_t count)
{
    int has_ring = count >= 2 && take_ring();
    Py_BEGIN_ALLOW_THREADS
    send_all(sendings, count, has_ring);
    Py_END_ALLOW_THREADS
    release_ring(has_ring);
    for (Py_ssize_t i = 0; i < count; i++)
        if (sendings[i].sent == PyBytes_GET_SIZE(sendings[i].frame))
            Py_CLEAR(sendings[i].frame);
}

PyDoc_STRVAR(send_frames_doc, "send_frames(frames, channels): write each of the frames to the outlets of its channels; returns what is left.");

static PyObject *
send_frames(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if ((outlet_name == NULL && (outlet_name = PyUnicode_InternFromString("outlet")) == NULL)
        || (seal_name == NULL && (seal_name = PyUnicode_InternFromString("seal")) == NULL))
        return NULL;
    if (count != 2 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1])
        || PyList_GET_SIZE(args[0]) != PyList_GET_SIZE(args[1]))
        return PyErr_Format(PyExc_TypeError, "send_frames takes two lists of the same length");
    PyObject *frames = args[0], *channels = args[1], *left = NULL;
    Sending *sendings = NULL;
    Met met = {NULL, 0};
    Py_ssize_t total = 0, room = 0, written = 0, sealed = 0;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(frames); place++) {
        PyObject *readers = PyList_GET_ITEM(channels, place);
        if (!PyBytes_CheckExact(PyList_GET_ITEM(frames, place)) || !PyList_CheckExact(readers))
            return PyErr_Format(PyExc_TypeError, "send_frames takes a list of bytes and a list of lists");
        room += PyList_GET_SIZE(readers);
    }
    sendings = PyMem_New(Sending, room + 1);
    if (sendings == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(frames); place++) {
        PyObject *readers = PyList_GET_ITEM(channels, place);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(readers) && total < room; i++) {
            Sending *one = &sendings[total++];
            one->channel = Py_NewRef(PyList_GET_ITEM(readers, i));
            one->frame = Py_NewRef(PyList_GET_ITEM(frames, place));
            one->place = place;
            one->sent = WAITS;
            one->outlet = outlet_of(one->channel);
            if (one->outlet == -2)
                goto end;
            if (one->outlet >= 0) {
                int before = meet(&met, one->outlet);
                if (before < 0) {
                    PyErr_NoMemory();
                    goto end;
                }
                if (before) {
                    /* Not before all of the first has been written. */
                    one->outlet = -1;
                } else {
                    Py_ssize_t size = seal(one);
                    if (size < 0)
                        goto end;
                    sealed += size;
                }
            }
            if (sealed >= MOST_SEALED) {
                send_some(sendings + written, total - written);
                written = total;
                sealed = 0;
            }
        }
    }
    send_some(sendings + written, total - written);
    left = PyList_New(0);
    for (Py_ssize_t i = 0; left != NULL && i < total; i++) {
        Sending *one = &sendings[i];
        if (one->frame == NULL)
            continue;
        PyObject *found;
        if (one->sent == WAITS)
            found = Py_BuildValue("(OnO)", one->channel, one->place, Py_None);
        else
            found = Py_BuildValue("(Ony#)", one->channel, one->place, PyBytes_AS_STRING(one->frame) + one->sent,
                                  PyBytes_GET_SIZE(one->frame) - one->sent);
        if (found == NULL || PyList_Append(left, found) < 0)
            Py_CLEAR(left);
        Py_XDECREF(found);
    }
end:
    for (Py_ssize_t i = 0; i < total; i++) {
        Py_DECREF(sendings[i].channel);
        Py_XDECREF(sendings[i].frame);
    }
    PyMem_Free(sendings);
    PyMem_Free(met.bits);
    return left;
}

/* -- the module ------------------------------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"checked_row", (PyCFunction)(void (*)(void))checked_row, METH_FASTCALL, checked_row_doc},
    {"clean_event", clean_event, METH_O, clean_event_doc},
    {"merge_row", (PyCFunction)(void (*)(void))merge_row, METH_FASTCALL, merge_row_doc},
    {"pick", (PyCFunction)(void (*)(void))pick, METH_FASTCALL, pick_doc},
    {"value_list", (PyCFunction)(void (*)(void))value_list, METH_FASTCALL, value_list_doc},
    {"text_frame", text_frame, METH_O, text_frame_doc},
    {"send_frames", (PyCFunction)(void (*)(void))send_frames, METH_FASTCALL, send_frames_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "penstock_native", "See native.c: loops of kernel and wire.", 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit_penstock_native(void)
{
    return PyModuleDef_Init(&definition);
}
