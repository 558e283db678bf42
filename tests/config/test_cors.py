from __future__ import annotations

import pytest

from penstock.config import ConfigError, load


def test_every_origin_together_with_credentials_is_refused_at_the_api_port() -> None:
    everybody = {"api.cors.allow_origins": ["*"]}
    with pytest.raises(ConfigError, match=r"api\.cors\.allow_origins.*because of api\.cors\.accept_credentials"):
        load(None, {**everybody, "api.cors.accept_credentials": True})
    assert load(None, everybody).config.api.cors.allow_origins == ("*",)
    assert load(None, {}).config.api.cors.allow_origins == ()
