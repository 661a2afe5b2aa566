"""Keys of the mesh: who this node is, and whom it lets in. CURVE keys in the files of `zmq.auth`.

A folder holds `own.key_secret` and `own.key` (the public half, to be given away), and `allowed/NAME.key` for every
other node that is let in. Nodes that share a folder share a key: that is all that one deployment needs.
"""

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import zmq
import zmq.auth

from protocol.errors import LocalError

OWN: Final = "own"
ALLOWED: Final = "allowed"
SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class KeyPair(NamedTuple):
    """Both halves in Z85, 40 bytes each."""

    public: bytes
    secret: bytes


def default_folder() -> Path:
    """Where the command line keeps keys unless it is told otherwise."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "draftmesh" / "keys"


class KeyRing:
    """One folder of keys, read again at every question: a node need not be restarted to let another one in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def own(self) -> KeyPair:
        """This node's pair; a LocalError when there is none, or when others may read it."""
        path = self.folder / f"{OWN}.key_secret"
        if not path.is_file():
            raise LocalError(
                f"there is no key in {self.folder}: make one with `orchestrator keys new`"
            )
        if _too_open(path.stat()):
            raise LocalError(f"others may read {path}: chmod 600 it, or make a new key")
        public, secret = _load(path)
        if secret is None:
            raise LocalError(f"{path} holds no secret key")
        return KeyPair(public, secret)

    def allowed(self) -> dict[bytes, str]:
        """The public keys that are let in, with their names; this node's own is among them."""
        found = {self.own().public: OWN}
        folder = self.folder / ALLOWED
        for path in sorted(folder.glob("*.key")) if folder.is_dir() else ():
            found.setdefault(_load(path)[0], path.stem)
        return found

    def named(self, name: str) -> bytes:
        """The public key of the node that is called so here."""
        if not name:
            return self.own().public
        for key, known in self.allowed().items():
            if known == name:
                return key
        raise LocalError(
            f"no key is called {name!r} in {self.folder}: see `orchestrator keys list`"
        )

    def new(self) -> KeyPair:
        """Make this node's pair, for its owner's eyes only. There may be none yet."""
        if (self.folder / f"{OWN}.key_secret").exists():
            raise LocalError(f"there is a key in {self.folder} already: remove it first")
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:  # a folder of mode 0700
            public, secret = map(Path, zmq.auth.create_certificates(scratch, OWN))
            secret.chmod(0o600)
            shutil.move(public, self.folder / public.name)
            shutil.move(secret, self.folder / secret.name)
        return self.own()

    def allow(self, name: str, key: bytes) -> None:
        """Let a node in by its public key, under a name that is free."""
        if not name or not set(name) <= SAFE or name == OWN:
            raise LocalError(f"{name!r} cannot be the name of a key: letters, digits, - _ . only")
        _check(key, "it")
        known = self.allowed()
        if name in known.values() or key in known:
            there = known.get(key, name)
            raise LocalError(f"this key or name is there already, as {there!r}")
        folder = self.folder / ALLOWED
        folder.mkdir(exist_ok=True)
        aside = folder / f"{name}.new"  # nodes that run read this folder at any moment
        aside.write_text(f'curve\n    public-key = "{key.decode()}"\n')
        aside.replace(folder / f"{name}.key")


def _too_open(found: os.stat_result) -> bool:
    """Whether others may read a secret. One that belongs to somebody else was given to us by our group, as Kubernetes
    does with a Secret; then that much is needed.
    """
    own = found.st_uid == os.geteuid()
    return bool(stat.S_IMODE(found.st_mode) & (0o077 if own else 0o007))


def read_public(text: str) -> bytes:
    """A public key said as itself, or as the file that holds it."""
    path = Path(text)
    if path.is_file():
        return _load(path)[0]
    key = text.encode()
    _check(key, repr(text))
    return key


def _load(path: Path) -> tuple[bytes, bytes | None]:
    try:
        public, secret = zmq.auth.load_certificate(path)
    except (OSError, ValueError) as error:
        raise LocalError(f"{path} cannot be read as a key: {error}") from error
    _check(public, str(path))
    return public, secret


def _check(key: bytes, what: str) -> None:
    try:
        fits = len(key) == 40 and len(zmq.utils.z85.decode(key)) == 32
    except (KeyError, ValueError, IndexError):
        fits = False
    if not fits:
        raise LocalError(f"{what} is no public key: 40 characters of Z85 are")
