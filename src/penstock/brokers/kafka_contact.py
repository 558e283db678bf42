"""The first answer of Kafka's brokers, or why there is none. Needs the extra `kafka`.

librdkafka tells reasons to a callback only, and only to who polls. Who asks for topics hears that nobody answers.
"""

from __future__ import annotations

import re
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException

# Seconds after which is looked whether there are reasons by now, and seconds to take them.
STEP = 0.5
LOOK = 0.05

# Those that say what is wrong, where others say that there is no answer.
TELLING = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE)

# What differs each time, and advice about an option that has other names here.
_NOISE = re.compile(
    r", verify that ssl\.ca\.location is correctly configured or root CA certificates are installed"
    r"( \(install ca-certificates package\))?"
    r"|( \(after \d+ms in state [A-Z_]+(, \d+ identical error\(s\) suppressed)?\))"
)


class KafkaContact:
    """`told` takes what the `error_cb` of a client is called with. For one client; any thread."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self._all_down = False

    def told(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True
        if self._error is None or _is_telling(error):
            self._error = error

    def metadata(self, client: Any, seconds: float) -> Any:
        """The topics that a new consumer or producer is told. Blocks; raises KafkaException with the best reason.

        Not once a consumer is reading, because records would get lost.
        """
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                found = client.list_topics(timeout=max(0.1, min(STEP, left)))
                # What was told before the answer is over.
                client.poll(0)
                return found
            except KafkaException:
                client.poll(LOOK)
                error = self._error
                # One of several brokers may be wrong while others answer.
                is_clear = error is not None and _is_telling(error) and self._all_down
                if is_clear or left <= STEP:
                    if error is not None:
                        raise KafkaException(error) from None
                    raise


def _is_telling(error: KafkaError) -> bool:
    # A broker that misses the certificate of a client says so in an alert of TLS, after which the connection is lost.
    return error.code() in TELLING or "SSL" in error.str()


def kafka_words(error: KafkaError) -> str:
    """What librdkafka says, and the same each time."""
    return _NOISE.sub("", error.str())
