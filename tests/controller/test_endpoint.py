"""Proxies: which one the environment names for a server, and which can be used."""

import pytest

from controller.endpoint import checked_proxy, proxy_from_environment
from controller.errors import ConfigurationError


@pytest.mark.parametrize(
    ("server", "exceptions", "proxied"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://api.example.com", ".example.com,other", False),
        ("https://api.example.org", "example.com", True),
        ("https://notexample.com", "example.com", True),
        ("https://10.96.0.1:443", "10.96.0.0/16", False),
        ("https://10.97.0.1:443", "10.96.0.0/16", True),
        ("https://10.96.0.1:443", "10.96.0.1", False),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://api.example.com", "*", False),
        ("https://localhost:6443", "", False),
    ],
)
def test_the_environment_s_proxy_is_used_except_where_it_says_so(
    server: str, exceptions: str, proxied: bool
) -> None:
    environ = {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": exceptions}
    expected = "http://proxy:3128" if proxied else ""
    assert proxy_from_environment(server, environ) == expected
    assert proxy_from_environment(server, {}) == ""


def test_a_proxy_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the flag names the proxy 'socks5://x'"):
        checked_proxy("socks5://x", "the flag")
