"""Signatures: what they cover, which key has made them, and what a key looks like."""

import json

import pytest

from kernelzoo.errors import InvalidInput
from kernelzoo.signing import Sealed, Signature, Signer, new_seed, public_key, verifies

# RFC 8032, section 7.1, test 2.
SEED = "TM0Imyj_ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U-4pvs"
PUBLIC = "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"
SIGNATURE = "kqAJqfDUyrhyDoILX2QlQKKye1QWUD-Ps3YiI-vbadoIWsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA"
DOCUMENT = b'{"manifest":1,"note":"a \\"signatures\\": b"}'


def test_a_signature_is_that_of_the_standard() -> None:
    signer = Signer.of(SEED)
    assert signer.public_keys == (PUBLIC,)
    assert signer.sign(b"\x72") == (Signature(key=PUBLIC, signature=SIGNATURE),)
    assert verifies(Signature(key=PUBLIC, signature=SIGNATURE), b"\x72")
    assert not verifies(Signature(key=PUBLIC, signature=SIGNATURE), b"\x73")


def test_each_key_signs_so_that_a_page_may_know_either() -> None:
    old, new = new_seed(), new_seed()
    sealed = Sealed.of(Signer.of(f"{old}, {new}").seal(DOCUMENT))
    assert sealed.document == DOCUMENT
    for seed in (old, new):
        (key,) = Signer.of(seed).public_keys
        assert sealed.signed_by((key,)) == key
    assert sealed.signed_by((PUBLIC,)) is None


def test_what_is_sealed_is_still_the_same_document_and_always_the_same_bytes() -> None:
    body = Signer.of(SEED).seal(DOCUMENT)
    assert json.loads(body) | {"signatures": []} == json.loads(DOCUMENT) | {"signatures": []}
    assert Signer.of(SEED).seal(DOCUMENT) == body


def test_no_changed_byte_of_the_document_stays_signed() -> None:
    body = Signer.of(SEED).seal(DOCUMENT)
    for at in range(len(DOCUMENT) - 1):
        changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        assert Sealed.of(changed).signed_by((PUBLIC,)) is None


def test_members_behind_the_signatures_are_no_part_of_the_document() -> None:
    body = Signer.of(SEED).seal(DOCUMENT)
    with pytest.raises(InvalidInput, match="no signature"):
        Sealed.of(body[:-1] + b',"manifest":2}')


@pytest.mark.parametrize("body", [b"", b"{}", Signer.of("").seal(DOCUMENT), b'{,"signatures":7}'])
def test_what_carries_no_signature_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="no signature"):
        Sealed.of(body)


@pytest.mark.parametrize("key", ["", "short", f"{PUBLIC}A", "ü" * 43])
def test_what_is_no_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(InvalidInput, match="32 bytes in base64url") as refusal:
        public_key(key)
    assert not key or key not in str(refusal.value)
    assert not verifies(Signature(key=key, signature=SIGNATURE), b"\x72")


def test_a_signer_shows_no_key() -> None:
    assert SEED not in repr(Signer.of(SEED))
