"""The kernel's records as bodies of calls, and back.

What cannot cross is a function: a selector or a customizer becomes the name of a derived item, see `guests`.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kernel.alike import shared_address, shared_admission, shared_grant, shared_item, shared_name
from penstock.kernel.headers import KeptHeaders
from penstock.kernel.item import Mode
from penstock.kernel.ports import (
    Admission,
    ClientFacts,
    Grant,
    Statistics,
    SubscriptionFacts,
    Wish,
)
from penstock.wire.fabric.calls import (
    AdmissionBody,
    ClientBody,
    GrantBody,
    ItemGrantBody,
    ItemStatistics,
    SubscriptionBody,
    WishBody,
)


def client_body(client: ClientFacts) -> ClientBody:
    return ClientBody(
        client.address,
        client.secure,
        dict(client.headers),
        client.port,
        client.principal,
        client.request_id,
        client.listener,
        client.library,
        client.library_version,
    )


def client_facts(body: ClientBody) -> ClientFacts:
    return ClientFacts(
        shared_address(body.address),
        body.secure,
        KeptHeaders.of(body.headers),
        body.port,
        body.principal,
        body.request_id,
        shared_name(body.listener),
        None if body.library is None else shared_name(body.library),
        None if body.library_version is None else shared_name(body.library_version),
    )


def admission_body(admission: Admission) -> AdmissionBody:
    return AdmissionBody(
        admission.max_bandwidth,
        admission.manages_bandwidth,
        admission.user,
        tuple(sorted(admission.roles)),
        admission.time_to_live,
        admission.follows_subscriptions,
        admission.reexamines_bandwidth,
    )


def admission_of(body: AdmissionBody) -> Admission:
    admission = Admission(
        body.max_bandwidth,
        body.manages_bandwidth,
        body.user,
        frozenset(body.roles),
        body.time_to_live,
        body.follows_subscriptions,
        body.reexamines_bandwidth,
    )
    return shared_admission(admission)


def wish_body(wish: Wish) -> WishBody:
    """A body is a wish itself: there is no way back."""
    return WishBody(
        wish.data_adapter,
        wish.group,
        wish.schema,
        wish.mode,
        wish.selector,
        wish.buffer_size,
        wish.max_frequency,
        wish.unfiltered,
        wish.snapshot,
        wish.snapshot_length,
    )


def facts_body(facts: SubscriptionFacts | None) -> SubscriptionBody | None:
    if facts is None:
        return None
    return SubscriptionBody(
        facts.number, facts.data_adapter, facts.mode.value, facts.group, facts.schema, facts.selector, facts.items
    )


def facts_of(body: SubscriptionBody | None) -> SubscriptionFacts | None:
    if body is None:
        return None
    mode = Mode(body.mode)
    return SubscriptionFacts(body.number, body.data_adapter, mode, body.group, body.schema, body.selector, body.items)


def grant_body(grant: Grant, names: Sequence[str]) -> GrantBody:
    """`names` are those that the items have at the edge, in their order."""
    items = [
        ItemGrantBody(name, item.max_frequency, item.max_buffer_size, item.snapshot_length, item.prefilter_frequency)
        for item, name in zip(grant.items, names, strict=True)
    ]
    return GrantBody(tuple(items), grant.fields, facts_body(grant.facts))


def grant_of(body: GrantBody) -> Grant:
    items = [
        shared_item(
            shared_name(item.name),
            item.max_frequency,
            item.max_buffer_size,
            item.snapshot_length,
            item.prefilter_frequency,
        )
        for item in body.items
    ]
    fields = tuple([shared_name(field) for field in body.fields])
    if body.facts is None:
        return shared_grant(tuple(items), fields)
    return Grant(tuple(items), fields, None, facts_of(body.facts))


def statistics_body(statistics: Sequence[Statistics]) -> tuple[ItemStatistics, ...]:
    return tuple([(each.sent, each.lost, each.filtered) for each in statistics])


def statistics_of(body: Sequence[ItemStatistics]) -> tuple[Statistics, ...]:
    return tuple([Statistics(*each) for each in body])
