"""A Kubernetes control plane for tests and first steps: real binaries, or the embedded server."""

from envtest.access.tokens import TokenFileError, parse_token_file
from envtest.embedded import EmbeddedServer, serve
from envtest.environment import ControlPlane
from envtest.lbipam import cilium_lbipam, lbipam_definitions
from envtest.listening import ListenError
from envtest.metallb import definitions as metallb_definitions
from envtest.metallb import metallb_controller
from envtest.server.call import User
from envtest.settings import PlaneError, read_settings
from envtest.storage import DiskError

__all__ = [
    "ControlPlane",
    "DiskError",
    "EmbeddedServer",
    "ListenError",
    "PlaneError",
    "TokenFileError",
    "User",
    "cilium_lbipam",
    "lbipam_definitions",
    "metallb_controller",
    "metallb_definitions",
    "parse_token_file",
    "read_settings",
    "serve",
]
