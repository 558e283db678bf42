from __future__ import annotations

from typing import Any

import pytest

from penstock.adapters.access.rules import KnownUser, Rules
from penstock.adapters.access.settings import AccessError
from penstock.kernel.item import Mode

ADA = KnownUser("ada", frozenset({"trader"}))
BOB = KnownUser("bob", frozenset())
NOBODY = KnownUser(None, frozenset())


def granting(who: KnownUser, item: str, *tables: dict[str, Any], data_adapter: str = "QUOTES") -> str | None:
    """The name of the rule that grants an item."""
    rule = Rules(list(tables)).grant(who, data_adapter, item)
    return None if rule is None else rule.name


def test_without_any_rule_nobody_sees_anything() -> None:
    assert granting(ADA, "stock") is None


def test_a_rule_for_nobody_in_particular_is_for_everybody() -> None:
    rule = {"name": "all", "items": ["stock"]}
    assert [granting(who, "stock", rule) for who in (ADA, BOB, NOBODY)] == ["all", "all", "all"]
    assert granting(ADA, "bond", rule) is None


def test_a_rule_for_users_is_for_those_alone() -> None:
    rule = {"name": "ada's", "users": ["ada"], "items": ["*"]}
    assert [granting(who, "stock", rule) for who in (ADA, BOB, NOBODY)] == ["ada's", None, None]


def test_a_star_among_users_is_everybody_who_has_a_name() -> None:
    rule = {"name": "known", "users": ["*"], "items": ["*"]}
    assert [granting(who, "stock", rule) for who in (ADA, BOB, NOBODY)] == ["known", "known", None]


def test_a_rule_for_users_and_roles_is_for_whoever_is_either() -> None:
    rule = {"name": "either", "users": ["bob"], "roles": ["trader"], "items": ["*"]}
    assert [granting(who, "stock", rule) for who in (ADA, BOB, NOBODY)] == ["either", "either", None]


def test_a_role_is_no_user_and_a_user_no_role() -> None:
    assert granting(ADA, "stock", {"name": "x", "users": ["trader"], "items": ["*"]}) is None
    assert granting(ADA, "stock", {"name": "x", "roles": ["ada", "*"], "items": ["*"]}) is None


def test_a_rule_holds_for_the_data_adapters_it_names() -> None:
    rule = {"name": "quotes", "data_adapters": ["QUOTES"], "items": ["*"]}
    assert granting(ADA, "stock", rule) == "quotes"
    assert granting(ADA, "stock", rule, data_adapter="ORDERS") is None


def test_the_first_rule_that_fits_decides_all_about_an_item() -> None:
    slow = {"roles": ["trader"], "items": ["stock.*"], "modes": ["MERGE"], "max_frequency": 1}
    fast = {"items": ["*"], "max_frequency": 50, "max_buffer_size": 7}
    rule = Rules([slow, fast]).grant(ADA, "QUOTES", "stock.a")
    assert rule is not None
    assert (rule.modes, rule.max_frequency, rule.max_buffer_size) == ((Mode.MERGE,), 1.0, None)
    rule = Rules([fast, slow]).grant(ADA, "QUOTES", "stock.a")
    assert rule is not None
    assert (rule.modes, rule.max_frequency, rule.max_buffer_size) == (tuple(Mode), 50.0, 7)


def test_a_denial_before_a_grant_makes_an_exception() -> None:
    deny = {"users": ["bob"], "items": ["stock.secret"], "deny": True}
    grant = {"name": "all", "items": ["stock.*"]}
    assert granting(BOB, "stock.secret", deny, grant) is None
    assert granting(BOB, "stock.a", deny, grant) == "all"
    assert granting(ADA, "stock.secret", deny, grant) == "all"
    assert granting(BOB, "stock.secret", grant, deny) == "all"


def test_the_users_name_in_a_pattern_is_that_of_the_one_who_asks() -> None:
    rule = {"name": "own", "items": ["portfolio.{user}"]}
    assert granting(ADA, "portfolio.ada", rule) == "own"
    assert granting(BOB, "portfolio.ada", rule) is None
    assert granting(NOBODY, "portfolio.", rule) is None
    assert granting(NOBODY, "portfolio.None", rule) is None


def test_what_holds_for_a_session_is_said_by_the_first_rule_for_the_user_that_says_it() -> None:
    rules = Rules(
        [
            {"roles": ["trader"], "items": ["stock"]},
            {"users": ["ada"], "max_bandwidth": 100, "may_send_messages": True},
            {"users": ["*"], "max_bandwidth": 10.5, "manages_bandwidth": False},
            {"may_send_messages": False},
        ]
    )
    assert [rules.max_bandwidth(who) for who in (ADA, BOB, NOBODY)] == [100.0, 10.5, None]
    assert [rules.manages_bandwidth(who) for who in (ADA, BOB, NOBODY)] == [False, False, True]
    assert [rules.may_send_messages(who) for who in (ADA, BOB, NOBODY)] == [True, False, False]


def test_messages_are_denied_where_no_rule_allows_them() -> None:
    assert not Rules([{"items": ["*"]}]).may_send_messages(ADA)


def applications(rules: Rules, who: KnownUser) -> list[str]:
    return [
        name for name in ("com.desk.ios", "com.desk.android", "com.ada", "app") if rules.may_use_application(who, name)
    ]


def test_devices_are_denied_where_no_rule_allows_their_application() -> None:
    assert applications(Rules([]), ADA) == []
    assert applications(Rules([{"items": ["*"]}]), ADA) == []


def test_the_first_rule_for_the_user_that_names_applications_says_which() -> None:
    rules = Rules(
        [
            {"items": ["*"]},
            {"roles": ["trader"], "push_applications": ["com.desk.*", "com.{user}"]},
            {"users": ["*"], "push_applications": ["app"]},
            {"push_applications": []},
            {"push_applications": ["*"]},
        ]
    )
    assert applications(rules, ADA) == ["com.desk.ios", "com.desk.android", "com.ada"]
    assert applications(rules, BOB) == ["app"]
    assert applications(rules, NOBODY) == []


def test_what_is_granted_may_be_had_by_push_unless_the_rule_says_no() -> None:
    rules = Rules([{"items": ["tick.*"], "push": False}, {"items": ["*"]}])
    granted = [rules.grant(ADA, "QUOTES", item) for item in ("tick.gold", "gold")]
    assert [rule is not None and rule.push for rule in granted] == [False, True]


def test_a_rule_about_sessions_alone_grants_no_item() -> None:
    assert granting(ADA, "stock", {"name": "x", "may_send_messages": True}) is None


def test_what_holds_for_an_item_is_said_by_the_first_rule_about_it_whoever_asks() -> None:
    rules = Rules(
        [
            {"users": ["ada"], "items": ["chat.*"]},
            {"users": ["ada"], "items": ["chat.{user}"], "snapshot_length": 30},
            {"data_adapters": ["CHAT"], "items": ["chat.*"], "snapshot_length": 5, "prefilter_frequency": 2},
        ]
    )
    assert rules.snapshot_length("CHAT", "chat.bob") == 30
    assert rules.prefilter_frequency("CHAT", "chat.bob") == 2.0
    assert rules.snapshot_length("CHAT", "other") is None
    assert rules.prefilter_frequency("OTHER", "chat.bob") is None


A_LIST_OF_ITEMS = (
    "a list of patterns of item names, in which * stands for any characters and {user} for the user's name"
)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"itmes": ["a"]}, "rule 2: itmes: unknown key; allowed here: name, users, roles, data_adapters, items, "),
        ({"items": []}, f"rule 2: items = []: expected {A_LIST_OF_ITEMS}"),
        ({"items": "a"}, f'rule 2: items = "a": expected {A_LIST_OF_ITEMS}'),
        ({"items": [""]}, f'rule 2: items = [""]: expected {A_LIST_OF_ITEMS}'),
        ({"items": ["{usr}"]}, 'rule 2: items = "{usr}": expected patterns of item names'),
        ({"items": ["a"], "users": "ada"}, 'rule 2: users = "ada": expected a list of user names; "*" is everybody'),
        ({"items": ["a"], "roles": []}, "rule 2: roles = []: expected a list of roles"),
        (
            {"items": ["a"], "modes": ["merge"]},
            'rule 2: modes = ["merge"]: expected a list of "RAW", "MERGE", "DISTINCT", "COMMAND"',
        ),
        ({"items": ["a"], "modes": []}, "rule 2: modes = []: expected a list of"),
        (
            {"items": ["a"], "max_frequency": 0},
            "rule 2: max_frequency = 0: expected a number above 0, up to 1000000000",
        ),
        ({"items": ["a"], "max_frequency": float("nan")}, "rule 2: max_frequency = nan: expected a number above 0"),
        ({"items": ["a"], "max_frequency": float("inf")}, "rule 2: max_frequency = inf: expected a number above 0"),
        ({"items": ["a"], "max_frequency": True}, "rule 2: max_frequency = true: expected a number above 0"),
        ({"items": ["a"], "max_buffer_size": 1.5}, "rule 2: max_buffer_size = 1.5: expected a whole number from 1"),
        ({"items": ["a"], "snapshot_length": 0}, "rule 2: snapshot_length = 0: expected a whole number from 1"),
        ({"items": ["a"], "prefilter_frequency": "2"}, 'rule 2: prefilter_frequency = "2": expected a number above 0'),
        ({"max_bandwidth": -1}, "rule 2: max_bandwidth = -1: expected a number above 0"),
        ({"may_send_messages": "yes"}, 'rule 2: may_send_messages = "yes": expected true or false'),
        ({"items": ["a"], "push": 1}, "rule 2: push = 1: expected true or false"),
        ({"push": True}, 'rule 2: push without items: expected items = ["…"] in the same rule'),
        (
            {"items": ["a"], "deny": True, "push": False},
            "rule 2: push with deny = true: expected only users, roles, data_adapters, items",
        ),
        (
            {"push_applications": "app"},
            'rule 2: push_applications = "app": expected a list of patterns of application identifiers',
        ),
        ({"push_applications": [""]}, 'rule 2: push_applications = [""]: expected a list of patterns of application'),
        (
            {"push_applications": ["{app}"]},
            'rule 2: push_applications = "{app}": expected patterns of application identifiers, as those of items',
        ),
        ({"name": "", "items": ["a"]}, 'rule 2: name = "": expected a name for messages, not empty'),
        ({"name": "slow", "max_bandwidth": 0}, "rule 2 (slow): max_bandwidth = 0: expected a number above 0"),
        ({"name": "x\ny", "max_bandwidth": 0}, r"rule 2 (x\u000ay): max_bandwidth = 0: expected a number above 0"),
        ({}, "rule 2: grants nothing: expected items or one of max_bandwidth, manages_bandwidth, may_send_messages"),
        ({"users": ["ada"]}, "rule 2: grants nothing: expected items or one of"),
        (
            {"modes": ["RAW"], "max_bandwidth": 1},
            'rule 2: modes without items: expected items = ["…"] in the same rule',
        ),
        ({"deny": True}, "rule 2: deny without items: expected items"),
        (
            {"items": ["a"], "deny": True, "max_frequency": 1},
            "rule 2: max_frequency with deny = true: expected only users, roles, data_adapters, items",
        ),
        ("items", "rule 2: expected a table, not str"),
    ],
)
def test_a_wrong_rule_is_told_in_one_line_that_names_it(table: object, line: str) -> None:
    with pytest.raises(AccessError) as raised:
        Rules([{"items": ["fine"]}, table])
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("tables", [{"items": ["a"]}, "items", 7])
def test_rules_that_are_no_list_are_refused(tables: object) -> None:
    with pytest.raises(AccessError, match="rules: expected a list of tables"):
        Rules(tables)


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"users": ["*"], "items": ["a"]}, "users"),
        ({"roles": ["trader"], "items": ["a"]}, "roles"),
        ({"items": ["a", "{user}"]}, "{user} in items"),
        ({"push_applications": ["app.{user}"]}, "{user} in push_applications"),
    ],
)
def test_where_nobody_has_a_name_a_rule_that_needs_one_is_refused(table: dict[str, Any], key: str) -> None:
    with pytest.raises(AccessError) as raised:
        Rules([table], anybody_has_a_name=False)
    assert str(raised.value) == (f"rule 1: {key} without users or tokens: expected one of them, or nobody has a name")
    Rules([table], anybody_has_a_name=True)
