"""What a client is told when a remote metadata adapter refuses, fails, or does not answer.

The adapter's own text is for the log; a client sees it only where the adapter has meant it for clients.
"""

from __future__ import annotations

from penstock.adapters.authority import MESSAGE_ERROR
from penstock.adapters.remote.calls import CallOutcome, Unanswered, Why
from penstock.kernel.errors import Reason, Refusal
from penstock.log import get
from penstock.wire.ari.replies import ExceptionKind, Failed

log = get(__name__)

# By method and kind of exception: the reason, and the words for it.
_KINDS = {
    ("NUS", ExceptionKind.ACCESS): (Reason.CREDENTIALS, "User/password check failed"),
    ("NUS", ExceptionKind.RESOURCE_UNAVAILABLE): (
        Reason.AUTHORITY_UNAVAILABLE,
        "The metadata adapter lacks a resource",
    ),
    ("GIS", ExceptionKind.ITEMS): (Reason.GROUP, "The metadata adapter knows no such group"),
    ("GSC", ExceptionKind.ITEMS): (Reason.GROUP_FOR_SCHEMA, "The metadata adapter knows no such group for this schema"),
    ("GSC", ExceptionKind.SCHEMA): (Reason.SCHEMA, "The metadata adapter knows no such schema"),
    ("NUM", ExceptionKind.NOTIFICATION): (Reason.MESSAGE_FAILED, "The metadata adapter has refused the message"),
}

# By method: the reason when the adapter chooses code and text for the client.
_CREDITS = {
    "NUS": Reason.CREDENTIALS,
    "NNS": Reason.CREDENTIALS,
    "NNT": Reason.AUTHORITY_ERROR,
    "NUM": Reason.MESSAGE_FAILED,
    "MDA": Reason.AUTHORITY_ERROR,
    "MDC": Reason.AUTHORITY_ERROR,
    "MSA": Reason.AUTHORITY_ERROR,
}

# Where a client may come back later, and will.
_RETRIED = ("NUS", "NNS")


def refusal(outcome: CallOutcome, adapter_set: str) -> Refusal:
    """The Refusal for an outcome that is not the answer hoped for; it is logged here."""
    method = outcome.method
    if isinstance(outcome, Failed):
        log.info(
            "remote metadata adapter refused a request",
            adapter_set=adapter_set,
            call=method,
            kind=outcome.kind.name,
            reason=outcome.message,
        )
        if outcome.kind in (ExceptionKind.CREDITS, ExceptionKind.CONFLICTING_SESSION) and method in _CREDITS:
            return Refusal(_CREDITS[method], outcome.client_message or "", _client_code(outcome, adapter_set))
        if (method, outcome.kind) in _KINDS:
            return Refusal(*_KINDS[method, outcome.kind])
        return _failure(method, "The metadata adapter failed on this request")
    why = outcome.why if isinstance(outcome, Unanswered) else Why.GARBLED
    log.warning("remote metadata adapter did not answer", adapter_set=adapter_set, call=method, reason=why.value)
    if method in _RETRIED and why is not Why.GARBLED:
        return Refusal(Reason.AUTHORITY_UNAVAILABLE, f"The metadata adapter is not available: {why.value}")
    return _failure(method, f"The metadata adapter failed on this request: {why.value}")


def _failure(method: str, message: str) -> Refusal:
    if method == "NUM":
        return Refusal(Reason.MESSAGE_FAILED, message, MESSAGE_ERROR)
    return Refusal(Reason.AUTHORITY_ERROR, message)


def _client_code(outcome: Failed, adapter_set: str) -> int:
    code = outcome.code or 0
    if code > 0:
        log.warning(
            "code of a remote metadata adapter is positive; clients are told 0", adapter_set=adapter_set, code=code
        )
    return min(0, code)
