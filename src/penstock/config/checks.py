"""Checks that one key alone cannot answer: keys that bound one another, listeners, the files of TLS and of the log.

Not here: types and ranges of single keys (schema/ says them, loading.py checks them).
Read next: docs/configuration.md.
"""

import os
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config import database, nats
from penstock.config.errors import ConfigError
from penstock.config.keys import all_keys, dotted, value_of
from penstock.config.object_store import check_lake
from penstock.config.readers import check_readers
from penstock.config.schema.adapters import JournaledSection
from penstock.config.schema.config import Config
from penstock.config.schema.listeners import CertificateSection, ListenerSection, ProxiesSection
from penstock.config.schema.push import AnyApplicationSection, GoogleSection, WebSection
from penstock.config.toml import written
from penstock.extras import has_journal, lack_of
from penstock.log import LevelError, check_level
from penstock.push.trigger.failure import Wrong
from penstock.push.trigger.pattern import RegularExpression

if TYPE_CHECKING:
    from ssl import SSLContext

# The value of the first never exceeds the value of the second.
ORDERED = (
    ("session.min_keepalive_millis", "session.default_keepalive_millis"),
    ("session.default_keepalive_millis", "session.max_keepalive_millis"),
    ("session.min_inactivity_millis", "session.max_inactivity_millis"),
    ("session.min_content_length", "session.content_length"),
)
# Clients know the demo adapter sets by these names.
DEMO_SETS = ("WELCOME", "DEMO")
# And the one of things by this.
DITTO_SET = "DITTO"
# And the one of the dashboard by this.
DASHBOARD_SET = "DASHBOARD"
# Listeners that have tables of their own, and so no place among the named ones.
OWN_LISTENERS = ("stream", "api")
LISTENER_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
# Keys that mean nothing where the API port is served.
STREAM_ONLY = ("doors", "new_sessions", "server_name", "control_link_address")
FILES_OF_APPLICATIONS = (
    "key_file",
    "certificate",
    "private_key",
    "push_package_file",
    "service_json_file",
    "trusted_ca",
)
# Ways to sign in at NATS, of which there is one at most.
WAYS_INTO_NATS = ("user", "token", "nkey_file", "credentials_file")
# Keys with the URL of a database, and what each may be.
STORES = {
    "tlex.store": 'a database URL such as "postgresql+psycopg://host/name", or empty',
    "push.store": 'a database URL such as "postgresql+psycopg://host/name", or empty',
    "cluster.store": "the URL of a PostgreSQL database, or empty for no standby",
}
EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})

KeySources = Mapping[str, str]
"""Where each key that is not at its default was set: the path of the file, or an option."""


def check(config: Config, places: KeySources) -> None:
    """Raise ConfigError at the first contradiction, naming a key that somebody set rather than a default."""
    _check_order(config, places)
    _check_listener_names(config, places)
    _check_listeners(config, places)
    for table, tls in _tls_sections(config).items():
        _check_tls_files(config, places, table, tls)
    for table, proxies in _proxies_sections(config).items():
        _check_proxies(config, places, table, proxies)
    _check_set_names(config, places)
    _check_journal(config, places)
    check_readers(config, places)
    check_lake(config, places)
    _check_ditto(config, places)
    _check_tlex(config, places)
    _check_push(config, places)
    _check_stores(config, places)
    _check_cluster(config, places)
    _check_cors(config, places)
    _check_pages(config, places)
    _check_log(config, places)
    _check_workers(config, places)


def _check_workers(config: Config, places: KeySources) -> None:
    """Those who have the streaming port have no administration."""
    if config.server.workers and config.admin.dashboard_at_stream:
        allowed = "false, because of " + _reference(config, places, "server.workers")
        raise _wrong(config, places, "admin.dashboard_at_stream", allowed)


def _check_log(config: Config, places: KeySources) -> None:
    """Somewhere it must go, and a directory that is missing is more often a mistake than a wish for a new one."""
    section = config.log
    for category, level in section.levels.items():
        try:
            check_level(category, level)
        except LevelError as error:
            key = dotted(("log", "levels", category))
            raise ConfigError(places["log.levels"], str(error), key=key, value=level) from None
    if not section.file:
        if not section.stderr:
            raise _wrong(config, places, "log.stderr", "true, or log.file to be set as well")
        return
    path = Path(section.file)
    if not path.parent.is_dir():
        raise _wrong(config, places, "log.file", f"a file in an existing directory; {path.parent} does not exist")
    if path.exists() and not path.is_file():
        raise _wrong(config, places, "log.file", "a file, and this is none")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _wrong(config, places, "log.file", "a file that may be written")


def _check_cors(config: Config, places: KeySources) -> None:
    """Origins that may send a user's credentials must be listed by name."""
    cors = config.api.cors
    if cors.accept_credentials and "*" in cors.allow_origins:
        allowed = 'origins by name, not "*", because of ' + _reference(config, places, "api.cors.accept_credentials")
        raise _wrong(config, places, "api.cors.allow_origins", allowed)


def _check_pages(config: Config, places: KeySources) -> None:
    if config.pages.directory:
        try:
            with os.scandir(config.pages.directory) as found:
                next(found, None)
        except OSError as error:
            raise _wrong(config, places, "pages.directory", f"a readable directory ({error.strerror})") from None


def _check_order(config: Config, places: KeySources) -> None:
    for low, high in ORDERED:
        if value_of(config, low) <= value_of(config, high):
            continue
        if high in places:
            raise _wrong(config, places, high, "at least " + _reference(config, places, low))
        raise _wrong(config, places, low, "at most " + _reference(config, places, high))


def _check_listeners(config: Config, places: KeySources) -> None:
    listeners = [
        (config.stream.host, config.stream.port, "stream.port"),
        (config.api.host, config.api.port, "api.port"),
    ]
    listeners += [(each.host, each.port, f"listeners.{name}.port") for name, each in config.listeners.items()]
    if config.stream.tls.enabled:
        listeners.append((config.stream.host, config.stream.tls.port, "stream.tls.port"))
    if config.tlex.enabled:
        listeners.append((config.tlex.host, config.tlex.port, "tlex.port"))
        if config.tlex.certificate:
            listeners.append((config.tlex.host, config.tlex.tls_port, "tlex.tls_port"))
    for (host, port, key), (other_host, other_port, other_key) in combinations(listeners, 2):
        overlap = host == other_host or bool(EVERY_INTERFACE & {host, other_host})
        if port == 0 or port != other_port or not overlap:
            continue
        at_fault, other = (other_key, key) if other_key in places else (key, other_key)
        raise _wrong(config, places, at_fault, "a port other than " + _reference(config, places, other))


def _check_listener_names(config: Config, places: KeySources) -> None:
    """They are part of names of items and of keys, and stand in the line that says that the server is ready."""
    for name, listener in config.listeners.items():
        path = ("listeners", name)
        place = places[dotted((*path, "port"))]
        if LISTENER_NAME.fullmatch(name) is None:
            raise ConfigError(place, 'expected a name of 1 to 32 letters, digits, "_" or "-"', key=dotted(path))
        if name in OWN_LISTENERS:
            taken = " and ".join(OWN_LISTENERS)
            raise ConfigError(place, f"expected another name: {taken} are tables of their own", key=dotted(path))
        for key in STREAM_ONLY if listener.serves == "api" else ():
            default = getattr(ListenerSection(port=0), key)
            if getattr(listener, key) != default:
                allowed = f'{written(default)}, because listeners.{name}.serves is "api"'
                raise _wrong(config, places, dotted((*path, key)), allowed)


def _tls_sections(config: Config) -> dict[str, CertificateSection]:
    """Those that any listener of HTTP may have, by the names of their tables."""
    named = {f"listeners.{name}.tls": listener.tls for name, listener in config.listeners.items()}
    return {"stream.tls": config.stream.tls, "api.tls": config.api.tls, **named}


def _proxies_sections(config: Config) -> dict[str, ProxiesSection]:
    named = {f"listeners.{name}.proxies": listener.proxies for name, listener in config.listeners.items()}
    return {"stream.proxies": config.stream.proxies, "api.proxies": config.api.proxies, **named}


def _check_proxies(config: Config, places: KeySources, table: str, proxies: ProxiesSection) -> None:
    from ipaddress import ip_network  # only those who have proxies wait for it

    for text in proxies.addresses:
        try:
            ip_network(text)
        except ValueError as error:
            raise _wrong(config, places, f"{table}.addresses", f"addresses and networks ({error})") from None
    for key in ("proxy_protocol", "client_header"):
        if getattr(proxies, key) and not proxies.addresses:
            raise _wrong(config, places, f"{table}.{key}", f"{table}.addresses to be set as well")
    if proxies.addresses and not proxies.proxy_protocol and not proxies.client_header:
        allowed = f"{table}.proxy_protocol or {table}.client_header to be set as well"
        raise _wrong(config, places, f"{table}.addresses", allowed)


def _check_tls_files(config: Config, places: KeySources, table: str, tls: CertificateSection) -> None:
    if not tls.certificate and not tls.private_key and not tls.ciphers and not tls.client_ca:
        return
    client_ca = f"{table}.client_ca"
    _check_certificate_files(config, places, table)

    import ssl  # only those who use TLS wait for it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls.ciphers:
        try:
            context.set_ciphers(tls.ciphers)
        except ssl.SSLError:
            allowed = f"a cipher list that {ssl.OPENSSL_VERSION} knows"
            raise _wrong(config, places, f"{table}.ciphers", allowed) from None
    if tls.client_ca:
        _check_readable(config, places, client_ca, tls.client_ca)
        if not tls.enabled:
            raise _wrong(config, places, client_ca, f"{table}.certificate to be set as well")
        _check_authorities(config, places, client_ca, context)
    if tls.enabled:
        _check_certificate(config, places, table, context)


def _check_certificate_files(config: Config, places: KeySources, table: str) -> None:
    """Both are set and readable, or none is set."""
    certificate, private_key = f"{table}.certificate", f"{table}.private_key"
    for key, partner in ((certificate, private_key), (private_key, certificate)):
        if file := value_of(config, key):
            _check_readable(config, places, key, file)
        elif value_of(config, partner):
            raise _wrong(config, places, partner, f"{key} to be set as well")


def _check_certificate(config: Config, places: KeySources, table: str, context: "SSLContext") -> None:
    import ssl

    certificate, private_key = f"{table}.certificate", f"{table}.private_key"
    try:
        # Without the password OpenSSL would stop and ask for one on the terminal.
        context.load_cert_chain(value_of(config, certificate), value_of(config, private_key), password="")
    except ssl.SSLError as error:
        key = _reference(config, places, private_key)
        allowed = f"a PEM certificate chain that fits {key}, not encrypted ({error.reason or 'not PEM'})"
        raise _wrong(config, places, certificate, allowed) from None


def _check_authorities(config: Config, places: KeySources, key: str, context: "SSLContext") -> None:
    import ssl

    try:
        context.load_verify_locations(value_of(config, key))
    except ssl.SSLError:
        raise _wrong(config, places, key, "a file of PEM certificates") from None


def _check_set_names(config: Config, places: KeySources) -> None:
    for name in DEMO_SETS:
        if config.demo.enabled and name in config.adapters:
            raise ConfigError(
                places["demo.enabled"],
                f"expected false, or another name for adapters.{name}: it is the name of a demo adapter set",
                key="demo.enabled",
                value=True,
            )

    if DASHBOARD_SET in config.adapters:
        key = dotted(("adapters", DASHBOARD_SET))
        # A table without keys has no place.
        place = next((where for name, where in places.items() if name.startswith(key)), "the configuration")
        raise ConfigError(place, "expected another name: the dashboard's own adapter set has it", key=key)


def _check_journal(config: Config, places: KeySources) -> None:
    if config.journal.enabled and not has_journal():
        raise _wrong(config, places, "journal.enabled", f"false, because {lack_of('pyarrow')}")
    for name, adapter_set in config.adapters.items():
        for adapter, data in adapter_set.data.items():
            table = ("adapters", name, "data", adapter, "journal")
            items, policy = dotted((*table, "items")), dotted((*table, "policy"))
            if data.journal.items and not config.journal.enabled:
                raise _wrong(config, places, "journal.enabled", f"true, because {items} is set ({places[items]})")
            if data.journal.policy != JournaledSection().policy and not data.journal.items:
                raise ConfigError(
                    places[policy], f"expected {items} to be set as well", key=policy, value=data.journal.policy
                )


def _check_tlex(config: Config, places: KeySources) -> None:
    tlex = config.tlex
    is_node = config.cluster.role in ("edge", "both")
    if tlex.enabled and is_node and tlex.host in EVERY_INTERFACE and not tlex.announced_host:
        # Clients ask at another node than they connect to.
        allowed = "tlex.announced_host to be set as well, or the address of one interface"
        raise _wrong(config, places, "tlex.host", allowed)
    if tlex.journal and not config.journal.enabled:
        raise _wrong(config, places, "tlex.journal", "false, because journal.enabled is false")
    for key, value, partner in (
        ("tlex.certificate", tlex.certificate, "tlex.private_key"),
        ("tlex.private_key", tlex.private_key, "tlex.certificate"),
    ):
        if value:
            _check_readable(config, places, key, value)
        elif value_of(config, partner):
            raise _wrong(config, places, partner, f"{key} to be set as well")
    if not tlex.certificate:
        return

    import ssl  # only those who use TLS wait for these

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import load_pem_x509_certificate

    try:
        # Without the password OpenSSL would stop and ask for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tlex.certificate, tlex.private_key, password="")
    except ssl.SSLError as error:
        other = _reference(config, places, "tlex.private_key")
        allowed = f"a PEM certificate chain that fits {other}, not encrypted ({error.reason or 'not PEM'})"
        raise _wrong(config, places, "tlex.certificate", allowed) from None
    with open(tlex.certificate, "rb") as file:
        public_key = load_pem_x509_certificate(file.read()).public_key()
    if not isinstance(public_key, RSAPublicKey):
        # The only cipher suite of the protocol is one for such keys: nobody could connect.
        raise _wrong(config, places, "tlex.certificate", "a certificate with an RSA key")


def _check_push(config: Config, places: KeySources) -> None:
    push = config.push
    if push.journal and not config.journal.enabled:
        raise _wrong(config, places, "push.journal", "false, because journal.enabled is false")
    for table, application, section in push.applications():
        _check_application(("push", table, application), section, places)
    for set_name, adapter_set in config.adapters.items():
        if push.enabled and push.data_adapter in adapter_set.data:
            key = dotted(("adapters", set_name, "data", push.data_adapter))
            place = places[f"{key}.adapter"]
            raise ConfigError(place, "expected another name: push.data_adapter has it", key=key)


def _check_application(path: tuple[str, ...], section: AnyApplicationSection, places: KeySources) -> None:
    """What an application needs in order to be sent to; whether the provider likes it is found out by sending."""
    for key, needed in _needed_by(path[-1], section).items():
        if needed and not getattr(section, key):
            # A table without keys has no place of its own.
            place = next((places[name] for name in places if name.startswith(dotted(path))), "the configuration")
            raise ConfigError(place, f"expected it to be set, because {needed}", key=dotted((*path, key)))
    for key in FILES_OF_APPLICATIONS:
        if file := getattr(section, key, ""):
            try:
                with open(file, "rb") as opened:
                    opened.read(1)
            except OSError as error:
                name = dotted((*path, key))
                raise ConfigError(
                    places[name], f"expected a readable file ({error.strerror})", key=name, value=file
                ) from None
    for number, pattern in enumerate(section.triggers, 1):
        try:
            RegularExpression(pattern)
        except Wrong as wrong:
            name = dotted((*path, "triggers"))
            reason = f"character {wrong.place + 1}: {wrong.text}"
            raise ConfigError(
                places[name], f"expected valid regular expressions; number {number} is not ({reason})", key=name
            ) from None


def _needed_by(application: str, section: AnyApplicationSection) -> dict[str, str]:
    """Keys that cannot be empty, with the reason; no reason: they can."""
    real = "" if section.service_level == "test" else f'service_level is "{section.service_level}"'
    if isinstance(section, GoogleSection):
        return {"service_json_file": real}
    if isinstance(section, WebSection):
        return {"contact": real}
    needed = {}
    if real and not section.certificate:
        needed["key_file"] = f"{real} and certificate is not set"
    if section.key_file:
        needed["key_id"] = needed["team_id"] = "key_file is set"
    if section.certificate:
        needed["private_key"] = "certificate is set"
    if real and application.startswith("web."):
        needed["push_package_file"] = f"{real} and the id is that of a website"
    return needed


def _check_cluster(config: Config, places: KeySources) -> None:
    cluster = config.cluster
    if cluster.role == "none":
        _check_no_cluster(config, places)
        return
    if not cluster.nats:
        allowed = "cluster.nats to have the address of a NATS server as well"
        raise _wrong(config, places, "cluster.role", allowed)
    if config.server.workers:
        allowed = "0, because of " + _reference(config, places, "cluster.role") + "; start several edges instead"
        raise _wrong(config, places, "server.workers", allowed)
    for address in cluster.nats:
        if fault := nats.address_fault(address):
            raise _wrong(config, places, "cluster.nats", f"addresses of NATS servers; {fault}")
    _check_nats_credentials(config, places)
    _check_cluster_tls(config, places)
    if cluster.store and not database.is_postgres(cluster.store):
        problem, value = f"expected {STORES['cluster.store']}", database.shown(cluster.store)
        raise ConfigError(places["cluster.store"], problem, key="cluster.store", value=value)
    if cluster.store and cluster.role != "edge":
        _check_hub_stores(config, places)


def _check_no_cluster(config: Config, places: KeySources) -> None:
    """Who has set anything of a cluster does not want a single server."""
    default = Config()
    for name, key in all_keys().items():
        value = value_of(config, name)
        if name.startswith("cluster.") and value != value_of(default, name):
            shown = None if key.secret or name in STORES else value
            problem = 'expected cluster.role to be "hub", "edge" or "both" as well'
            raise ConfigError(places[name], problem, key=name, value=shown)


def _check_hub_stores(config: Config, places: KeySources) -> None:
    """A hub that has a standby cannot keep anything in a file of its own."""
    if lack := database.lack_of_driver(config.cluster.store):
        raise ConfigError(places["cluster.store"], f"expected a database that can be used; {lack}", key="cluster.store")
    for key, enabled, store in (
        ("tlex.store", config.tlex.enabled, config.tlex.store),
        ("push.store", config.push.enabled, config.push.store),
    ):
        if enabled and not database.is_postgres(store):
            place = places.get(key, places["cluster.store"])
            problem = "expected the URL of a PostgreSQL database, because a standby cannot use an SQLite file"
            raise ConfigError(place, f"{problem}, and cluster.store is set", key=key, value=database.shown(store))


def _check_stores(config: Config, places: KeySources) -> None:
    for key, allowed in STORES.items():
        url = value_of(config, key)
        if url and (fault := database.fault(url)):
            raise ConfigError(places[key], f"expected {allowed}; {fault}", key=key)


def _check_nats_credentials(config: Config, places: KeySources) -> None:
    cluster = config.cluster
    if bool(cluster.user) != bool(cluster.password):
        key, other = ("user", "password") if cluster.user else ("password", "user")
        raise ConfigError(places[f"cluster.{key}"], f"expected cluster.{other} to be set as well", key=f"cluster.{key}")
    given = [key for key in WAYS_INTO_NATS if getattr(cluster, key)]
    if len(given) > 1:
        problem = f"expected only one way to log in; cluster.{given[0]} is also set"
        raise ConfigError(places[f"cluster.{given[1]}"], problem, key=f"cluster.{given[1]}")
    for key, is_one, allowed in (
        ("nkey_file", nats.is_nkey_file, nats.NKEY_FILE),
        ("credentials_file", nats.is_credentials_file, nats.CREDENTIALS_FILE),
    ):
        if file := getattr(cluster, key):
            _check_readable(config, places, f"cluster.{key}", file)
            if not is_one(file):
                raise _wrong(config, places, f"cluster.{key}", allowed)


def _check_cluster_tls(config: Config, places: KeySources) -> None:
    import ssl  # only clusters wait for it

    table, tls = "cluster.tls", config.cluster.tls
    trusted = f"{table}.trusted_ca"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.trusted_ca:
        _check_readable(config, places, trusted, tls.trusted_ca)
        _check_authorities(config, places, trusted, context)
    _check_certificate_files(config, places, table)
    if tls.certificate:
        _check_certificate(config, places, table, context)


def _check_ditto(config: Config, places: KeySources) -> None:
    ditto = config.ditto
    if not ditto.enabled:
        return
    if ditto.adapter_set and ditto.adapter_set not in config.adapters:
        known = ", ".join(config.adapters)
        allowed = f"one of {known}, or empty" if known else "an adapter set of this configuration, or empty"
        raise _wrong(config, places, "ditto.adapter_set", allowed)
    if ditto.adapter_set and not config.journal.enabled:
        raise _wrong(
            config, places, "journal.enabled", f"true, because {_reference(config, places, 'ditto.adapter_set')} is set"
        )
    if DITTO_SET in config.adapters and serves_ditto(config):
        key = "ditto.adapter_set" if ditto.adapter_set else "demo.enabled"
        raise _wrong(config, places, key, f"ditto.enabled = false, or another name for adapters.{DITTO_SET}")


def serves_ditto(config: Config) -> bool:
    """Whether the Ditto door is open: an adapter set authenticates clients, and a journal keeps the things."""
    ditto = config.ditto
    return ditto.enabled and config.journal.enabled and (bool(ditto.adapter_set) or config.demo.enabled)


def _check_readable(config: Config, places: KeySources, key: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise _wrong(config, places, key, f"a readable file ({error.strerror})") from None


def _wrong(config: Config, places: KeySources, key: str, allowed: str) -> ConfigError:
    return ConfigError(places[key], f"expected {allowed}", key=key, value=value_of(config, key))


def _reference(config: Config, places: KeySources, key: str) -> str:
    return f"{key} = {written(value_of(config, key))} ({places.get(key, 'default')})"
