"""Object stores that a lake can be in: the schemes of their URLs, and the options that requests may have.

Only names: what deltalake would ignore, such as an option with a typing error, is refused here.
Not here: requests (history/lake_url.py). Read next: docs/pipeline.md, "The lake at a URL".
"""

from collections.abc import Mapping

from penstock.config.errors import ConfigError
from penstock.config.schema.config import Config

# Schemes, and the options that requests to such a store may have beside those of all.
SCHEMES: Mapping[str, tuple[str, ...]] = {
    "s3": (
        *("access_key_id", "secret_access_key", "session_token", "region", "endpoint"),
        *("virtual_hosted_style_request", "web_identity_token_file", "role_arn", "role_session_name"),
        *("server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "skip_signature", "unsigned_payload"),
    ),
    "gs": ("service_account", "service_account_key", "application_credentials"),
    "abfss": (
        *("account_name", "account_key", "client_id", "client_secret", "tenant_id", "sas_token", "endpoint"),
        *("federated_token_file", "use_emulator", "msi_endpoint"),
    ),
}
ALIASES = {"s3a": "s3"}
COMMON = ("allow_http", "timeout", "connect_timeout", "max_retries", "retry_timeout", "proxy_url", "user_agent")


def scheme_of(url: str) -> str:
    """By the name that SCHEMES has; others as they are."""
    scheme = url.partition("://")[0]
    return ALIASES.get(scheme, scheme)


def wrong_option(scheme: str, options: Mapping[str, object]) -> tuple[str, str] | None:
    """The first that cannot be used, and what was expected instead; without its value, which may be a secret."""
    allowed = (*COMMON, *SCHEMES[scheme])
    for name, value in options.items():
        if name not in allowed:
            return name, f"expected an option of {scheme}://: {', '.join(allowed)}"
        if name == "endpoint" and not str(value).startswith(("http://", "https://")):
            return name, 'expected an address such as "https://storage.example.com"'
    return None


def check_lake(config: Config, places: Mapping[str, str]) -> None:
    """Raises ConfigError."""
    section = config.lake
    scheme = scheme_of(section.url)
    for name in ("options", "credentials_file"):
        if getattr(section, name) and scheme not in SCHEMES:
            key = f"lake.{name}"
            raise ConfigError(places[key], "expected lake.url as well, the object store that it is for", key=key)
    wrong = wrong_option(scheme, section.options) if scheme in SCHEMES else None
    if wrong is not None:
        raise ConfigError(places["lake.options"], wrong[1], key=f"lake.options.{wrong[0]}")
