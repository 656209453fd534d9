"""Browsers of the fleet know authorities from lists of their own, as docs/operations.md says."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from playwright.async_api import async_playwright

from cli.stack.ports import LOOPBACK
from kernelzoo.errors import StackError
from workers.fleet.authorities import VARIABLE, trust
from workers.fleet.browsers import Launch, PageLost
from workers.fleet.chromium import chromium_tab


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a page")

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def certificate(folder: Path) -> Path:
    """One of this machine's address that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the house")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "house.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(signed.public_bytes(Encoding.PEM) + pem)
    return file


@contextmanager
def served(file: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with ThreadingHTTPServer((LOOPBACK, 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://{LOOPBACK}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def open_page(url: str, profile: Path) -> None:
    """Raises PageLost where a browser of the fleet does not open it."""

    async def opened() -> None:
        async with async_playwright() as playwright:
            launch = Launch(profile=profile, gpu=None, sandbox=True)
            async with chromium_tab(playwright.chromium, launch) as tab:
                await tab.goto(url)

    asyncio.run(opened())


def test_a_browser_of_the_fleet_does_not_read_the_authorities_that_its_process_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with served(file) as url:
        assert httpx2.get(url, verify=ssl.create_default_context()).text == "a page"
        with pytest.raises(PageLost, match="ERR_CERT_AUTHORITY_INVALID"):
            open_page(url, tmp_path / "profile")


def test_a_browser_trusts_the_authorities_that_the_fleet_is_told_and_none_of_an_earlier_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "other").mkdir()
    file, other = certificate(tmp_path), certificate(tmp_path / "other")
    both = tmp_path / "both.pem"
    both.write_bytes(other.read_bytes() + file.read_bytes())
    with served(file) as url:
        trust(both, tmp_path / "data")
        open_page(url, tmp_path / "first")
        trust(other, tmp_path / "data")
        with pytest.raises(PageLost, match="ERR_CERT_AUTHORITY_INVALID"):
            open_page(url, tmp_path / "second")


def test_a_file_without_certificates_is_told(tmp_path: Path) -> None:
    empty, broken = tmp_path / "empty.pem", tmp_path / "broken.pem"
    empty.write_text("nothing")
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for file, complaint in (
        (empty, "has no certificate"),
        (broken, "certificate 1 of the authorities is malformed"),
        (tmp_path / "missing.pem", "cannot be read"),
    ):
        with pytest.raises(StackError, match=complaint):
            trust(file, tmp_path / "data")
