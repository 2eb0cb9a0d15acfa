"""A Kubernetes control plane for tests and first steps: real binaries, or the embedded server."""

from envtest.access.tokens import TokenFileError, parse_token_file
from envtest.embedded import EmbeddedServer, serve
from envtest.environment import ControlPlane
from envtest.lbipam import read_lbipam_definitions, run_cilium_lbipam
from envtest.listening import ListenError
from envtest.metallb import read_metallb_definitions, run_metallb_controller
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
    "parse_token_file",
    "read_lbipam_definitions",
    "read_metallb_definitions",
    "read_settings",
    "run_cilium_lbipam",
    "run_metallb_controller",
    "serve",
]
