"""The examples of the standards, and a browser's side that decrypts what was encrypted for it."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from penstock.providers.encryption import MAX_PAYLOAD, RECORD, encrypt, read_point, seal, write_point
from tests.providers.browser import open_message


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private_key(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decoded(text)), ec.SECP256R1())


def test_the_example_of_rfc_8188_section_3_1() -> None:
    body = seal(b"I am the walrus", decoded("yqdlZ-tYemfogSmv7Ws5PQ"), decoded("I1BsxtFttlv3u_Oo94xnmw"), b"")
    assert body == decoded("I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg")


def test_the_example_of_rfc_8291_section_5() -> None:
    browser = read_point(
        decoded("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")
    )
    own = private_key("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
    assert write_point(own.public_key()) == decoded(
        "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
    )
    text = b"When I grow up, I want to be a watermelon"
    secret, salt = decoded("BTBZMqHH6r4Tts7J_aSIgg"), decoded("DGv6ra1nlYgDCS1FRnbzlw")
    body = encrypt(text, browser, secret, own, salt)
    assert body == decoded(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
        "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    assert open_message(body, private_key("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"), secret) == text


@given(st.binary(max_size=MAX_PAYLOAD), st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_the_browser_gets_what_was_sent(payload: bytes, secret: bytes, salt: bytes) -> None:
    browser, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    body = encrypt(payload, browser.public_key(), secret, own, salt)
    assert open_message(body, browser, secret) == payload


def test_the_largest_payload_fills_what_push_services_take_and_no_larger_one_is_encrypted() -> None:
    browser, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    body = encrypt(bytes(MAX_PAYLOAD), browser.public_key(), bytes(16), own, bytes(16))
    assert len(body) == RECORD
    assert MAX_PAYLOAD == 3_993
    with pytest.raises(ValueError, match="expected at most 3993"):
        encrypt(bytes(MAX_PAYLOAD + 1), browser.public_key(), bytes(16), own, bytes(16))


@pytest.mark.parametrize("point", [b"", bytes(65), b"\x04" + bytes(64), b"\x04" + b"\xff" * 64, b"\x02" + bytes(32)])
def test_what_is_no_point_of_the_curve_is_refused(point: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_point(point)
