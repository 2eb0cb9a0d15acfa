"""Certificates: ours for strict clients, and others' that are less than strict."""

import ssl
from pathlib import Path

import pytest

from envtest.certs import Authority, KeyPair, create_client_tls
from tests.controller.certs import create_authority_and_pair


def shake_hands(client: ssl.SSLContext, key_pair: KeyPair, folder: Path) -> str | None:
    """Connect to a server that shows a certificate, in memory; return the protocol agreed on."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*key_pair.write(folder, "shown"))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname="127.0.0.1")
    answering = server.wrap_bio(there, back, server_side=True)
    for side in (asking, answering) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return asking.version()


def test_certificates_of_the_own_authority_pass_strict_checks(tmp_path: Path) -> None:
    authority = Authority.create()
    client = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    assert (
        shake_hands(client, authority.issue_server_certificate("127.0.0.1"), tmp_path) == "TLSv1.3"
    )


def test_an_authority_without_key_identifiers_is_trusted(tmp_path: Path) -> None:
    authority, pair = create_authority_and_pair(complete=False)
    client = create_client_tls(authority, None)

    assert shake_hands(client, KeyPair(pair.certificate, pair.key), tmp_path) == "TLSv1.3"


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    _, pair = create_authority_and_pair(complete=False)
    client = create_client_tls(Authority.create().pair.certificate, None)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, KeyPair(pair.certificate, pair.key), tmp_path)
