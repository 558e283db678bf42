from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.exchange.session import NEXT, SessionState
from penstock.exchange.settings import HubLimits, HubSettings
from penstock.wire.tlex.datagrams import Token
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vocabulary import EndReason, Protocol, SecurityMode, SessionType, Tlc, TlcType
from tests.exchange.world import BROKER, MONITOR, MULTIPLEX, NOON, SINGLEPLEX, TLC, A, B, C, D, World, named


@pytest.fixture
def world() -> World:
    world = World()
    world.register(A, B, C, D)
    world.register(A, B, domain="other")
    return world


def reason(refused: pytest.ExceptionInfo[HubRefusal]) -> HubReason:
    return refused.value.reason


# -- POST -------------------------------------------------------------------------------------------------------------


def test_a_session_does_not_show_its_token_by_accident(world: World) -> None:
    session = world.open(BROKER, A)
    assert session.token not in repr(session)


def test_identifiers_must_be_registered(world: World) -> None:
    with pytest.raises(HubRefusal, match=r"^'NLZH9999' is not registered") as refused:
        world.open(BROKER, A, "NLZH9999")
    assert (reason(refused), refused.value.position) == (HubReason.NOT_REGISTERED, 1)
    with pytest.raises(HubRefusal, match=r"^'NLZH9999' is not registered") as refused:
        world.open(TLC, "NLZH9999", protocol=SINGLEPLEX)
    assert (reason(refused), refused.value.position) == (HubReason.NOT_REGISTERED, None)


def test_identifiers_of_another_domain_are_not_registered_here(world: World) -> None:
    with pytest.raises(HubRefusal, match="not registered in domain 'other'"):
        world.open(BROKER, C, domain="other")


@pytest.mark.parametrize(("of", "protocol"), [(A, Protocol.VLOG), ("NLZH0VLG", SINGLEPLEX), ("NLZH0VLG", MULTIPLEX)])
def test_a_controllers_own_session_has_the_protocol_of_its_type(world: World, of: str, protocol: Protocol) -> None:
    world.register("NLZH0VLG", type=TlcType.VLOG)
    with pytest.raises(HubRefusal, match=f"'{of}' is of type .* protocol '{protocol.value}' is for type") as refused:
        world.open(TLC, of, protocol=protocol)
    assert reason(refused) is HubReason.TLC_TYPE
    assert world.open(BROKER, A, "NLZH0VLG").identifiers == (A, "NLZH0VLG"), "others may have any"


def test_an_authorization_may_be_for_some_controllers_only(world: World) -> None:
    restricted = replace(world.authorization(TLC), identifiers=frozenset({A}))
    world.hub.create(restricted, world.request(TLC, A), world.now)
    with pytest.raises(HubRefusal, match=r"^'NLZH000B' is not one of the authorization's controllers") as refused:
        world.hub.create(restricted, world.request(TLC, B), world.now)
    assert (reason(refused), refused.value.position) == (HubReason.NOT_AUTHORIZED, 0)


@pytest.mark.parametrize(
    ("role", "why"),
    [
        (Role.TLC_SYSTEM, HubReason.SESSION_TYPE),
        (Role.BROKER_ANALYST, HubReason.ROLE),
        (Role.DOMAIN_ADMIN, HubReason.ROLE),
        (Role.MONITOR_ADMIN, HubReason.SESSION_TYPE),
    ],
)
def test_a_broker_session_is_not_for_other_roles(world: World, role: Role, why: HubReason) -> None:
    with pytest.raises(HubRefusal) as refused:
        world.hub.create(Authorization("1", "ours", "test", role), world.request(BROKER, A), world.now)
    assert reason(refused) is why


def test_the_domain_must_be_that_of_the_authorization(world: World) -> None:
    with pytest.raises(HubRefusal, match=r"^'other' is not the domain") as refused:
        world.hub.create(world.authorization(BROKER), world.request(BROKER, A, domain="other"), world.now)
    assert reason(refused) is HubReason.DOMAIN


def test_each_type_has_its_own_number_of_identifiers() -> None:
    world = World(HubSettings(tlc=HubLimits(max_identifiers=2), broker=HubLimits(max_identifiers=3)))
    world.register(A, B, C)
    world.open(BROKER, A, B, C)
    with pytest.raises(HubRefusal, match=r"^3 identifiers, allowed: 1 to 2$") as refused:
        world.open(TLC, A, B, C)
    assert (reason(refused), refused.value.position) == (HubReason.TOO_MANY, None)


# -- uniqueness -------------------------------------------------------------------------------------------------------

# First session, second session, and whether both may have the same controller.
UNIQUENESS = [
    ((TLC, "ours"), (TLC, "ours"), False),
    ((TLC, "ours"), (TLC, "theirs"), False),
    ((BROKER, "ours"), (BROKER, "ours"), False),
    ((BROKER, "ours"), (BROKER, "theirs"), True),
    ((MONITOR, "ours"), (MONITOR, "ours"), False),
    ((MONITOR, "ours"), (MONITOR, "theirs"), True),
    ((TLC, "ours"), (BROKER, "ours"), True),
    ((BROKER, "ours"), (MONITOR, "ours"), True),
    ((MONITOR, "ours"), (TLC, "ours"), True),
]


@pytest.mark.parametrize("connected", [True, False], ids=["connected", "pending"])
@pytest.mark.parametrize(("first", "second", "allowed"), UNIQUENESS)
def test_who_may_have_the_same_controller(
    world: World, first: tuple[SessionType, str], second: tuple[SessionType, str], allowed: bool, connected: bool
) -> None:
    session = world.open(first[0], A, B, account=first[1])
    if connected:
        world.connect(session)
    if allowed:
        world.open(second[0], B, C, account=second[1])
    else:
        with pytest.raises(HubRefusal, match=r"^'NLZH000B' is in use") as refused:
            world.open(second[0], B, C, account=second[1])
        assert (reason(refused), refused.value.position) == (HubReason.IN_USE, 0)
        # Nothing of the refused request is left behind.
        world.open(second[0], C, account=second[1])


def test_the_same_identifier_in_another_domain_is_another_controller(world: World) -> None:
    world.open(TLC, A)
    world.open(TLC, A, domain="other")


def test_a_controller_is_free_again_when_its_session_ends(world: World) -> None:
    peer = world.join(TLC, A)
    peer.conversation.lost(False, world.now)
    world.join(TLC, A)


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_a_session_that_nobody_comes_for_expires_after_five_seconds(world: World) -> None:
    session = world.open(TLC, A)
    assert session.expires == NOON + 5_000
    world.move(4.999)
    assert world.hub.get(world.authorization(TLC), session.token, world.now) is session
    world.move(0.001)
    with pytest.raises(HubRefusal) as refused:
        world.hub.get(world.authorization(TLC), session.token, world.now)
    assert reason(refused) is HubReason.UNKNOWN
    assert session.end_reason is EndReason.SESSION_EXPIRED


@pytest.mark.parametrize("how", ["tick", "another request"])
def test_expiry_frees_the_controllers(world: World, how: str) -> None:
    world.open(TLC, A)
    world.move(5.0)
    if how == "tick":
        world.hub.tick(world.now)
        assert not world.hub.sessions
    world.open(TLC, A)


def test_a_session_that_has_expired_is_not_listed_nor_found_even_before_the_tick(world: World) -> None:
    listed, found = world.open(TLC, A), world.open(BROKER, A)
    assert world.hub.visible(world.authorization(TLC), world.now) == [listed, found]
    assert world.hub.find(found.id, world.now) is found
    world.move(5.0)
    assert world.hub.visible(world.authorization(TLC), world.now) == []
    assert listed.state is SessionState.ENDED
    other = world.open(BROKER, A)
    world.move(5.0)
    assert world.hub.find(other.id, world.now) is None


def test_who_shows_no_token_is_turned_away_after_five_seconds(world: World) -> None:
    peer = world.accept()
    world.wait(4.75)
    early = peer.closed
    world.wait(0.25)
    assert (early, peer.closed) == (False, True)
    assert (world.hub.turned_away, world.hub.created) == (1, 0)


def test_who_is_connected_in_time_may_show_the_token_a_little_later(world: World) -> None:
    session = world.open(TLC, A)
    world.move(4.9)
    peer = world.accept()
    world.wait(4.75)
    peer.send_bytes(PREAMBLE + Token(session.token).encode())
    assert session.state is SessionState.LIVE


def test_who_is_connected_too_late_cannot_use_the_token_even_while_another_is_at_the_door(world: World) -> None:
    session = world.open(TLC, A)
    world.move(4.9)
    world.accept()
    world.move(0.1)
    late = world.accept()
    late.send_bytes(PREAMBLE + Token(session.token).encode())
    assert late.closed
    assert session.state is SessionState.PENDING
    world.wait(5.0)
    assert session.end_reason is EndReason.SESSION_EXPIRED


def test_a_connected_session_does_not_expire(world: World) -> None:
    peer = world.join(TLC, A)
    world.wait(30, peer)
    assert peer.session.state is SessionState.LIVE
    assert world.hub.visible(world.authorization(TLC), world.now) == [peer.session]


# -- GET --------------------------------------------------------------------------------------------------------------


def test_sessions_of_the_own_account_and_domain_are_listed(world: World) -> None:
    ours = [world.open(BROKER, A), world.join(BROKER, B).session]
    world.open(BROKER, A, account="theirs")
    world.open(BROKER, A, domain="other")
    assert world.hub.visible(world.authorization(BROKER), world.now) == ours


def test_sessions_are_listed_by_type_and_protocol(world: World) -> None:
    one = world.open(TLC, A, protocol=SINGLEPLEX)
    two = world.open(TLC, B)
    three = world.open(BROKER, A)
    ask = world.authorization(TLC)
    assert world.hub.visible(ask, world.now) == [one, two, three]
    assert world.hub.visible(ask, world.now, type=TLC) == [one, two]
    assert world.hub.visible(ask, world.now, protocol=MULTIPLEX) == [two, three]
    assert world.hub.visible(ask, world.now, type=TLC, protocol=MULTIPLEX) == [two]
    assert world.hub.visible(ask, world.now, type=MONITOR) == []


def test_who_looks_after_a_domain_sees_all_of_it(world: World) -> None:
    here = world.open(BROKER, A, account="theirs")
    there = world.open(BROKER, A, domain="other")
    domain = Authorization("1", "authority", "test", Role.DOMAIN_ADMIN)
    platform = Authorization("1", "authority", "", Role.PLATFORM_ADMIN)
    assert world.hub.visible(domain, world.now) == [here]
    assert world.hub.visible(platform, world.now) == [here, there]


def test_a_session_of_others_is_as_unknown_as_none(world: World) -> None:
    session = world.open(BROKER, A, account="theirs")
    texts = set()
    for token in (session.token, "x" * 43, ""):
        with pytest.raises(HubRefusal) as refused:
            world.hub.get(world.authorization(BROKER), token, world.now)
        assert reason(refused) is HubReason.UNKNOWN
        texts.add(str(refused.value))
    assert len(texts) == 1


def test_analysts_see_no_sessions(world: World) -> None:
    with pytest.raises(HubRefusal) as refused:
        world.hub.visible(Authorization("1", "ours", "test", Role.BROKER_ANALYST), world.now)
    assert reason(refused) is HubReason.ROLE


# -- PUT --------------------------------------------------------------------------------------------------------------


def test_a_controller_that_is_added_to_a_live_session_is_received_at_once(world: World) -> None:
    broker, controller = world.join(BROKER, A), world.join(TLC, B)
    controller.send(named(B, "before"))
    assert world.put(broker.session, A, B) is broker.session
    controller.send(named(B, "after"))
    assert broker.texts() == ["after"]


def test_a_controller_that_is_removed_from_a_live_session_is_not_received_from_then_on(world: World) -> None:
    broker, controller = world.join(BROKER, A, B), world.join(TLC, B)
    controller.send(named(B, "before"))
    world.put(broker.session, A)
    controller.send(named(B, "after"))
    assert broker.texts() == ["before"]


def test_what_waits_for_a_session_is_sent_though_its_controller_is_removed(world: World) -> None:
    broker, controller = world.join(BROKER, A, B), world.join(TLC, B)
    broker.conversation.set_writable(False)
    controller.send(named(B, "before"))
    world.put(broker.session, A)
    broker.free()
    assert broker.texts() == ["before"]


def test_payloads_for_a_controller_that_was_removed_are_out_of_scope(world: World) -> None:
    broker, controller = world.join(BROKER, A, B), world.join(TLC, B)
    world.put(broker.session, A)
    broker.send(named(B, "x"))
    assert controller.texts() == []
    assert broker.session.counters.out_of_scope == 1


def test_a_put_before_the_connection_counts_from_its_beginning(world: World) -> None:
    session = world.open(BROKER, A)
    world.put(session, B)
    broker, controller = world.connect(session), world.join(TLC, B)
    controller.send(named(B, "x"))
    assert broker.texts() == ["x"]
    world.open(BROKER, A)


def test_a_put_keeps_what_it_repeats_and_answers_in_its_own_order(world: World) -> None:
    broker, controller = world.join(BROKER, A, B), world.join(TLC, A)
    session = world.put(broker.session, C, A)
    assert session.identifiers == (C, A)
    controller.send(named(A, "x"))
    assert broker.texts() == ["x"]


def test_a_put_frees_what_it_leaves_out_and_claims_what_it_adds(world: World) -> None:
    world.put(world.open(BROKER, A, B), B, C)
    world.open(BROKER, A)
    with pytest.raises(HubRefusal, match="in use"):
        world.open(BROKER, C)


PUT_REFUSALS = [
    ((C, "NLZH9999"), SecurityMode.NONE, HubReason.NOT_REGISTERED, 1, "'NLZH9999' is not registered in domain 'test'"),
    ((C, D), SecurityMode.NONE, HubReason.IN_USE, 1, "'NLZH000D' is in use by another session"),
    ((C,), SecurityMode.TLS, HubReason.SECURITY, None, "'TLSv1.2', the session has 'NONE'"),
]


@pytest.mark.parametrize(("identifiers", "security", "why", "position", "text"), PUT_REFUSALS)
def test_a_put_that_is_refused_changes_nothing(
    world: World,
    identifiers: tuple[str, ...],
    security: SecurityMode,
    why: HubReason,
    position: int | None,
    text: str,
) -> None:
    world.open(BROKER, D)
    broker, controller = world.join(BROKER, A), world.join(TLC, A)
    with pytest.raises(HubRefusal) as refused:
        world.put(broker.session, *identifiers, security=security)
    assert (reason(refused), refused.value.position, refused.value.text) == (why, position, text)
    assert broker.session.identifiers == (A,)
    controller.send(named(A, "x"))
    assert broker.texts() == ["x"]
    world.open(BROKER, C)


def test_a_singleplex_session_cannot_be_changed(world: World) -> None:
    with pytest.raises(HubRefusal, match="TCPStreaming_Singleplex") as refused:
        world.put(world.open(TLC, A, protocol=SINGLEPLEX), B)
    assert reason(refused) is HubReason.SINGLEPLEX


def test_a_session_of_others_cannot_be_changed(world: World) -> None:
    session = world.open(BROKER, A, account="theirs")
    with pytest.raises(HubRefusal) as refused:
        world.hub.update(world.authorization(BROKER), session.token, SecurityMode.NONE, (B,), world.now)
    assert reason(refused) is HubReason.UNKNOWN
    assert session.identifiers == (A,)


@pytest.mark.parametrize("role", [Role.DOMAIN_ADMIN, Role.PLATFORM_ADMIN])
def test_who_may_only_see_and_end_sessions_cannot_change_them(world: World, role: Role) -> None:
    session = world.open(BROKER, A)
    overseer = replace(world.authorization(BROKER, "theirs"), role=role)
    assert world.hub.get(overseer, session.token, world.now) is session
    with pytest.raises(HubRefusal, match=f"Not allowed for role {role.value}") as refused:
        world.hub.update(overseer, session.token, SecurityMode.NONE, (B,), world.now)
    assert reason(refused) is HubReason.ROLE
    assert session.identifiers == (A,)


# -- DELETE and other ends --------------------------------------------------------------------------------------------


def test_a_deleted_session_is_told_and_closed(world: World) -> None:
    peer = world.join(BROKER, A)
    world.hub.delete(world.authorization(BROKER), peer.session.token, world.now)
    assert peer.bye() == "session deleted"
    assert peer.session.end_reason is EndReason.ADMIN_TERMINATION
    assert not world.hub.sessions


def test_a_deleted_session_that_was_not_connected_cannot_be_connected_to(world: World) -> None:
    session = world.open(BROKER, A)
    world.hub.delete(world.authorization(BROKER), session.token, world.now)
    peer = world.accept()
    peer.send_bytes(PREAMBLE + Token(session.token).encode())
    assert peer.closed


def test_systems_may_not_delete(world: World) -> None:
    session = world.open(BROKER, A)
    with pytest.raises(HubRefusal) as refused:
        world.hub.delete(Authorization("1", "ours", "test", Role.BROKER_SYSTEM), session.token, world.now)
    assert reason(refused) is HubReason.ROLE
    assert session.state is SessionState.PENDING


def test_a_controller_that_is_unregistered_leaves_sessions_and_ends_those_that_have_no_other(world: World) -> None:
    owner = world.join(TLC, A, protocol=SINGLEPLEX)
    monitor, broker = world.join(MONITOR, A), world.join(BROKER, A, B)
    pending = world.open(BROKER, A, account="theirs")
    world.hub.unregister(f"test-{A}", world.now)
    assert owner.bye() == monitor.bye() == "TLC deleted"
    assert owner.session.end_reason is EndReason.TLC_DELETED
    assert pending.end_reason is EndReason.TLC_DELETED
    # What it was for is still to be logged.
    assert owner.session.identifiers == (A,)
    assert broker.session.identifiers == (B,)
    assert not broker.closed
    with pytest.raises(HubRefusal, match="not registered"):
        world.open(TLC, A)
    world.hub.unregister(f"test-{A}", world.now)


def test_the_controllers_follow_the_database(world: World) -> None:
    broker = world.join(BROKER, A, B)
    kept = [each.tlc for each in world.hub.registry if each.tlc.identifier != A]
    new = Tlc(uuid="new", identifier="NLZH00ZZ", type=TlcType.TCP_STREAMING, domain="test", account="owner")
    world.hub.synchronize([*kept, new], world.now)
    assert list(broker.session.scope) == [B.encode()]
    assert world.hub.registry.find("test", A) is None
    world.put(broker.session, B, "NLZH00ZZ")
    world.hub.synchronize([*kept, new], world.now)
    assert broker.session.identifiers == (B, "NLZH00ZZ")


def test_a_controller_that_is_registered_anew_under_its_name_is_another(world: World) -> None:
    broker = world.join(BROKER, A)
    others = [each.tlc for each in world.hub.registry if each.tlc.uuid != f"test-{A}"]
    again = Tlc(uuid="again", identifier=A, type=TlcType.TCP_STREAMING, domain="test", account="owner")
    world.hub.synchronize([*others, again], world.now)
    assert broker.bye() == "TLC deleted"
    world.open(BROKER, A)


def test_an_identifier_is_registered_once_in_a_domain(world: World) -> None:
    with pytest.raises(ValueError, match="'NLZH000A' is already registered in domain 'test'"):
        world.register(A)


def test_a_revoked_token_ends_its_sessions_and_no_others(world: World) -> None:
    ours, theirs = world.join(BROKER, A), world.join(BROKER, A, account="theirs")
    pending = world.open(BROKER, B)
    assert world.hub.credentials() == {"token-ours", "token-theirs"}
    world.hub.recheck({"token-ours"}, {}, world.now)
    assert ours.bye() == "authorization token revoked"
    assert ours.session.end_reason is pending.end_reason is EndReason.TOKEN_REVOKED
    assert not theirs.closed
    assert world.hub.credentials() == {"token-theirs"}


def test_a_session_whose_authorization_has_changed_ends_and_no_other(world: World) -> None:
    ours, theirs = world.join(BROKER, A), world.join(BROKER, A, account="theirs")
    known = {each.session.credential: each.session.authorization for each in (ours, theirs)}
    world.hub.recheck(set(known), known, world.now)
    assert not ours.closed
    assert not theirs.closed
    known["token-ours"] = replace(known["token-ours"], identifiers=frozenset({B}))
    world.hub.recheck(set(known), known, world.now)
    assert ours.bye() == "authorization token revoked"
    assert not theirs.closed


def test_watchers_are_told_of_every_step(world: World) -> None:
    session = world.open(BROKER, A)
    world.connect(session)
    world.put(session, B)
    world.hub.delete(world.authorization(BROKER), session.token, world.now)
    assert [each.what for each in world.diary.entries] == ["opened", "connected", "changed", "ended"]
    assert (session.created, session.connected, session.ended) == (NOON, NOON, NOON)


# -- controllers ------------------------------------------------------------------------------------------------------


def test_the_controllers_of_the_domain_are_seen(world: World) -> None:
    ask = world.authorization(BROKER)
    assert [each.identifier for each in world.hub.tlcs(ask)] == [A, B, C, D]
    assert world.hub.tlc(ask, f"test-{A}").identifier == A
    platform = Authorization("1", "authority", "", Role.PLATFORM_ADMIN)
    assert len(world.hub.tlcs(platform)) == 6


def test_an_authorization_for_some_controllers_sees_only_those(world: World) -> None:
    ask = replace(world.authorization(TLC), identifiers=frozenset({B}))
    assert [each.identifier for each in world.hub.tlcs(ask)] == [B]
    with pytest.raises(HubRefusal):
        world.hub.tlc(ask, f"test-{A}")


@pytest.mark.parametrize("uuid", [f"other-{A}", "nothing", "", "4aa1ace8-32b0-42b6-925a-7d7a33e97859"])
def test_controllers_of_other_domains_are_as_unknown_as_none(world: World, uuid: str) -> None:
    with pytest.raises(HubRefusal) as refused:
        world.hub.tlc(world.authorization(BROKER), uuid)
    assert reason(refused) is HubReason.UNKNOWN


def test_controllers_are_not_seen_by_systems_of_controllers(world: World) -> None:
    ask = Authorization("1", "ours", "test", Role.TLC_SYSTEM)
    for call in (lambda: world.hub.tlcs(ask), lambda: world.hub.tlc(ask, f"test-{A}")):
        with pytest.raises(HubRefusal) as refused:
            call()
        assert reason(refused) is HubReason.ROLE


def test_only_its_owner_may_remove_a_controller(world: World) -> None:
    assert world.hub.own_tlc(world.authorization(TLC, "owner"), f"test-{A}").identifier == A
    with pytest.raises(HubRefusal) as refused:
        world.hub.own_tlc(world.authorization(TLC, "ours"), f"test-{A}")
    assert reason(refused) is HubReason.UNKNOWN
    with pytest.raises(HubRefusal) as refused:
        world.hub.own_tlc(world.authorization(BROKER, "owner"), f"test-{A}")
    assert reason(refused) is HubReason.ROLE


def test_a_session_goes_only_where_the_table_says(world: World) -> None:
    assert set(NEXT) == set(SessionState)
    session = world.open(BROKER, A)
    with pytest.raises(AssertionError, match="cannot become leaving"):
        session.become(SessionState.LEAVING)
