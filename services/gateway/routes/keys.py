"""The public keys that sign manifests."""

from fastapi import APIRouter

from services.gateway.state import Shared
from services.gateway.wire.keys import KeyList, PublicKey

router = APIRouter(tags=["zoo"])


@router.get("/v1/signing-keys")
async def list_keys(state: Shared) -> KeyList:
    """What to compare a pin with. A page that trusted this answer would trust whoever gives it:
    pin keys in the page, as `KernelZoo.open(url, { keys })` takes them.
    """
    return KeyList(keys=[PublicKey(kid=key, x=key) for key in state.signer.public_keys])
