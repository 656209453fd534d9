"""Has Chromium trust the authorities of the house.

On Linux it takes them, beside those that it brings along, from a database of NSS below the folder
for the user's data, and from no file. NSS, which it is linked against, writes one.
"""

import ctypes
import os
import re
import shutil
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kernelzoo.errors import StackError

VARIABLE = "XDG_DATA_HOME"
"""Names the folder for the user's data to the programs that are started."""
LIBRARY = "libnss3.so"
_DATABASE = Path("pki", "nssdb")
_OF_SERVERS = b"C,,"
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class _Trust(ctypes.Structure):
    """NSS' CERTCertTrust."""

    _fields_ = (("ssl", ctypes.c_uint), ("email", ctypes.c_uint), ("signing", ctypes.c_uint))


class _Item(ctypes.Structure):
    """NSS' SECItem, bytes."""

    _fields_ = (("type", ctypes.c_int), ("data", ctypes.c_char_p), ("length", ctypes.c_uint))


def certificates(bundle: Path) -> Sequence[bytes]:
    """Each as DER. Raises StackError for a file without any."""
    try:
        found = _CERTIFICATE.findall(bundle.read_text())
        encoded = [ssl.PEM_cert_to_DER_cert(each) for each in found]
    except (OSError, ValueError) as error:
        raise StackError(f"{bundle} cannot be read as certificates: {error}") from error
    if not encoded:
        raise StackError(f"{bundle} has no certificate; write those of authorities there as PEM")
    return encoded


def trust(bundle: Path, data: Path) -> None:
    """Has the browsers that this process starts trust the authorities of a file; `data` is theirs.
    Raises StackError.
    """
    write_database(certificates(bundle), data)
    os.environ[VARIABLE] = str(data)


def write_database(authorities: Sequence[bytes], data: Path) -> None:
    """Has every Chromium trust them that is started with `data` as `VARIABLE`, and no others of an
    earlier start. Raises StackError.
    """
    folder = data / _DATABASE
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _opened(folder) as nss:
        slot, database = nss.PK11_GetInternalKeySlot(), nss.CERT_GetDefaultCertDB()
        # A new database has no password, and takes no change before it has an empty one.
        _insist(nss, nss.PK11_InitPin(slot, None, b""))
        trust = _Trust()
        _insist(nss, nss.CERT_DecodeTrustString(ctypes.byref(trust), _OF_SERVERS))
        for number, encoded in enumerate(authorities):
            item = _Item(data=encoded, length=len(encoded))
            certificate = nss.CERT_NewTempCertificate(database, ctypes.byref(item), None, 0, 1)
            if not certificate:
                raise StackError(f"certificate {number + 1} of the authorities is malformed")
            name = b"authority %d" % number
            _insist(nss, nss.PK11_ImportCert(slot, certificate, 0, name, 0))
            _insist(nss, nss.CERT_ChangeCertTrust(database, certificate, ctypes.byref(trust)))
            nss.CERT_DestroyCertificate(certificate)
        nss.PK11_FreeSlot(slot)


@contextmanager
def _opened(folder: Path) -> Iterator[ctypes.CDLL]:
    try:
        nss = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise StackError(f"{LIBRARY} is missing: `apt-get install libnss3` installs it") from error
    pointer = ctypes.c_void_p
    nss.PK11_GetInternalKeySlot.restype = pointer
    nss.CERT_GetDefaultCertDB.restype = pointer
    number, text = ctypes.c_int, ctypes.c_char_p
    nss.CERT_NewTempCertificate.restype = pointer
    nss.CERT_NewTempCertificate.argtypes = (pointer, pointer, text, number, number)
    nss.PK11_ImportCert.argtypes = (pointer, pointer, ctypes.c_ulong, text, number)
    nss.CERT_ChangeCertTrust.argtypes = (pointer, pointer, pointer)
    nss.CERT_DestroyCertificate.argtypes = (pointer,)
    nss.PK11_InitPin.argtypes = (pointer, text, text)
    nss.PK11_FreeSlot.argtypes = (pointer,)
    _insist(nss, nss.NSS_InitReadWrite(f"sql:{folder}".encode()))
    try:
        yield nss
    finally:
        nss.NSS_Shutdown()


def _insist(nss: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise StackError(
            f"NSS did not write its database of authorities: error {nss.PORT_GetError()}"
        )
