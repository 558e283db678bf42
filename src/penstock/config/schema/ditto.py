"""The Ditto door: `[ditto]`.

Not here: the API port that it is on (ports.py), the users, whom an adapter set knows (adapters.py).
Read next: docs/ditto.md.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.schema.values import (
    HeaderName,
    Line,
    OptionalHeaderName,
    OptionalLine,
    Positive,
    WebAddress,
    about,
)

NamespacePolicy = Annotated[
    str,
    Meta(
        pattern=r"^(\*|[a-zA-Z]\w*([.-][a-zA-Z]\w*)*(\.\*)?)=[^/:=\s]*:[^/\s]+\Z",
        extra={"allowed": 'a namespace and a policy, such as "com.example.*=com.example:root"'},
    ),
]

ModelPlace = Annotated[
    str,
    Meta(
        pattern=r"^https?://[A-Za-z0-9._:\[\]-]+/([A-Za-z0-9._~-]+/)*(=[^\x00-\x1f\x7f]+)?\Z",
        extra={"allowed": 'an address that ends with "/", such as "https://example.com/models/", or "ADDRESS=FOLDER"'},
    ),
]
ModelAspect = Literal["attributes", "properties", "desired-properties", "features", "definitions"]


class DittoSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Ditto door: digital twins and their history, `/api/2` and `/ws/2` on the API port. It needs the journal."""

    enabled: Annotated[bool, about("Whether the Ditto API is enabled; it also needs `adapter_set` or the demo.")] = True
    adapter_set: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "the name of an adapter set, or empty"}),
        about(
            "The adapter set whose metadata adapter checks the users. Empty = with the demo, user `ditto` with "
            "password `ditto`, if the server listens on this machine only, and for clients on this machine without a "
            "proxy in between."
        ),
    ] = ""
    issuer: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z", extra={"allowed": '1 to 64 letters, digits, ".", "_" or "-"'}),
        about(
            "Issuer part of the subject ID of users with a token, as policies name them: `ISSUER:USER`. Users with "
            "a password are `nginx:USER`."
        ),
    ] = "token"
    default_namespace: Annotated[
        str,
        Meta(
            pattern=r"^[a-zA-Z]\w*([.-][a-zA-Z]\w*)*\Z",
            extra={"allowed": 'words with dots between them, such as "com.example"'},
        ),
        about("The namespace of things whose ID the server generates."),
    ] = "org.eclipse.ditto"
    historical_headers: Annotated[
        tuple[HeaderName, ...],
        about(
            "Headers of commands that are journaled with their changes and returned with the history, as "
            "`historical-headers`. `ditto-originator` is the subject that sent the command."
        ),
    ] = ()
    pre_authenticated_header: Annotated[
        OptionalHeaderName,
        about(
            "Header in which the proxies of `api.proxies` name the users that they have authenticated, as subjects of "
            "policies separated by commas: `x-ditto-pre-authenticated: nginx:alice`. From anybody else it is refused. "
            "Empty = there is none."
        ),
    ] = ""
    namespace_policies: Annotated[
        tuple[NamespacePolicy, ...],
        about(
            "Policies whose entries apply to all policies of a namespace, as `namespace=policy`. The namespace may end "
            "with `.*` for all below it, or be `*`."
        ),
    ] = ()
    expiry_granularity_seconds: Annotated[
        Positive, about("Times at which subjects of policies expire are rounded up to multiples of this.")
    ] = 3600
    token_integration_subject: Annotated[
        Line,
        about(
            "The subject that `activateTokenIntegration` adds to an entry of a policy. Placeholders are "
            "`{{ policy-entry:label }}`, `{{ jwt:CLAIM }}` and `{{ header:NAME }}`."
        ),
    ] = "integration:{{policy-entry:label}}:{{jwt:aud}}"
    search_store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a database URL such as "postgresql+psycopg://host/name", or empty'}),
        about(
            "The database of the search index; empty = `data_dir/search.db`. PostgreSQL needs the extra `postgres`. No "
            "other server may use it. It is filled again if it is lost."
        ),
    ] = ""
    connections_store: Annotated[
        OptionalLine,
        Meta(extra={"allowed": 'a database URL such as "postgresql+psycopg://host/name", or empty'}),
        about(
            "The database of connections, which are encrypted in it; empty = `data_dir/connections.db`. PostgreSQL "
            "needs the extra `postgres`. No other server may use it."
        ),
    ] = ""
    connections_key_file: Annotated[
        OptionalLine,
        Meta(extra={"allowed": "a path, or empty"}),
        about(
            "The file with the key by which connections are encrypted; empty = `data_dir/connections.key`. It is made "
            "if it does not exist. Without it, the connections are lost."
        ),
    ] = ""
    wot_models: Annotated[
        tuple[ModelPlace, ...],
        about(
            "Where Thing Models of the Web of Things are: addresses that definitions may begin with. Models are "
            "fetched from there, or read from a folder: `https://example.com/models/=/etc/penstock/models`. Other "
            "definitions have no model. Fetched from nowhere else; redirects are not followed."
        ),
    ] = ()
    wot_base: Annotated[WebAddress, about("The address of this server in Thing Descriptions.")] = (
        "http://localhost:8081"
    )
    wot_cache_seconds: Annotated[Positive, about("How long a Thing Model is kept before it is read again.")] = 172_800
    wot_skeletons: Annotated[
        bool, about("Whether new things and features are filled with the initial values of their models.")
    ] = True
    wot_optional_defaults: Annotated[bool, about("Whether that includes properties that are optional.")] = False
    wot_enforce: Annotated[
        tuple[ModelAspect, ...],
        about(
            "What must be as models say. `features`: those of the model must be there. `definitions`: a thing or a "
            "feature with a new definition is checked as a whole. Empty = nothing."
        ),
    ] = ("attributes", "properties", "desired-properties", "features", "definitions")
    wot_forbid: Annotated[
        tuple[ModelAspect, ...],
        about(
            "What must not exist unless a model describes it. `definitions`: a definition that has a model must not be "
            "deleted. Empty = everything may exist."
        ),
    ] = ("attributes", "properties", "desired-properties", "features", "definitions")
