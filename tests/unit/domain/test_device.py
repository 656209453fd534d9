"""Device ids depend on hardware alone; device classes read back from their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelzoo.domain.device import DeviceClass, Hardware, PrimitiveVector
from kernelzoo.domain.target import FEATURES, Target, TargetKind
from kernelzoo.errors import InvalidInput

HARDWARE = Hardware(
    cpu_architecture="x86", logical_cores=8, gpu_vendor="nvidia", gpu_architecture="ampere"
)

TARGETS = st.sampled_from(tuple(TargetKind)).flatmap(
    lambda target: st.sets(
        st.sampled_from(FEATURES[target] or ("",)), max_size=len(FEATURES[target])
    ).map(lambda features: Target.of(target, tuple(features)))
)


def test_the_device_id_is_the_hash_that_the_client_computes() -> None:
    # From sha256sum over the JSON text of the fields, keys sorted and without spaces.
    assert HARDWARE.device_id == "31121bbd08774e56"


@given(
    device_id=st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    suite=st.integers(min_value=0, max_value=9999),
    bits=st.text("01", min_size=1, max_size=64),
    target=TARGETS,
)
def test_a_device_class_reads_back_from_its_text(
    device_id: str, suite: int, bits: str, target: Target
) -> None:
    rho = PrimitiveVector(suite=suite, bits=bits)
    device_class = DeviceClass(device_id=device_id, rho=rho, target=target)
    assert DeviceClass.parse(str(device_class)) == device_class


@pytest.mark.parametrize(
    "text",
    ["", "a:b", "0123456789abcdeg:r1-0:wasm", "0123456789abcdef:r1-2:wasm",
     "0123456789abcdef:r01-0:wasm", "0123456789abcdef:r1-0:wasm+avx512",
     "0123456789abcdef:r1-0:metal"],
)  # fmt: skip
def test_text_that_is_no_device_class_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        DeviceClass.parse(text)


def test_a_class_of_a_later_version_is_read_where_it_is_stored() -> None:
    text = "0123456789abcdef:r1-0:wasm+of-tomorrow+simd128"
    assert str(DeviceClass.stored(text)) == text
    with pytest.raises(InvalidInput, match="'of-tomorrow' is unknown"):
        DeviceClass.parse(text)
    with pytest.raises(InvalidInput, match="malformed"):
        DeviceClass.stored("of another version")


def test_a_target_offers_what_its_features_cover() -> None:
    plain = Target.parse("wasm+simd128")
    assert plain.offers(("simd128",))
    assert not plain.offers(("relaxed-simd", "simd128"))
