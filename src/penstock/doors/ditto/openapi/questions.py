"""The operations that ask something about all things: searches, and who may do what."""

from __future__ import annotations

from penstock.doors.ditto.openapi.operation import ALWAYS, DittoOperation, json_of, ref

_FORM = {"application/x-www-form-urlencoded": ref("Search")}

OPERATIONS = (
    DittoOperation(
        "get",
        "/search/things",
        "Search for things",
        {200: json_of(ref("Found"))},
        ALWAYS,
        parameters=("correlation-id", "filter", "option", "fields", "namespaces"),
        tag="Search",
    ),
    DittoOperation(
        "post",
        "/search/things",
        "Search for things, with the parameters in a form",
        {200: json_of(ref("Found"))},
        (*ALWAYS, 413, 415),
        _FORM,
        is_body_required=False,
        parameters=("correlation-id",),
        tag="Search",
    ),
    DittoOperation(
        "get",
        "/search/things/count",
        "Count the things that a search finds",
        {200: json_of(ref("Count"))},
        ALWAYS,
        parameters=("correlation-id", "filter", "namespaces"),
        tag="Search",
    ),
    DittoOperation(
        "post",
        "/search/things/count",
        "Count the things that a search finds, with the parameters in a form",
        {200: json_of(ref("Count"))},
        (*ALWAYS, 413, 415),
        _FORM,
        is_body_required=False,
        parameters=("correlation-id",),
        tag="Search",
    ),
    DittoOperation(
        "get",
        "/whoami",
        "Read by which subjects policies know the caller",
        {200: json_of(ref("Caller"))},
        ALWAYS,
        parameters=("correlation-id",),
        tag="Permissions",
    ),
    DittoOperation(
        "post",
        "/checkPermissions",
        "Check what the caller may do",
        {200: json_of(ref("Permissions"))},
        (*ALWAYS, 413, 415),
        json_of(ref("PermissionChecks")),
        parameters=("correlation-id",),
        tag="Permissions",
    ),
)
