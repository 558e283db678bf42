"""The one error of the configuration: a sentence that names place, key, value and what is allowed.

Not here: finding the mistakes (loading.py key by key, checks.py between keys and on the disk).
Read next: loading.py.
"""

from penstock.config.secret import masked
from penstock.config.toml import one_line, written

VALUE_SHOWN = 80
"""Characters of a wrong value that are repeated: enough to recognise it, and the line stays readable."""


class ConfigError(Exception):
    """The configuration cannot be used. `str()` is one line for the operator."""

    def __init__(self, place: str, problem: str, *, key: str = "", value: object = None) -> None:
        """
        `place` is the file or the option at fault, `key` the dotted name where there is one.

        TOML has no null, so None stands for "no value involved".
        """
        self.place = place
        self.problem = problem
        self.key = key
        self.value = "" if value is None else _shortened(written(masked(value)))
        # An option says itself which key it means, and is what the operator typed.
        subject = place if place.startswith("--") or not key else f"{place}: {key}"
        head = f"{subject} = {self.value}" if self.value else subject
        super().__init__(one_line(f"{head}: {problem}"))


def _shortened(text: str) -> str:
    return text if len(text) <= VALUE_SHOWN else text[:VALUE_SHOWN] + "…"
