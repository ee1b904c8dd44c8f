"""What applications import: snapshot reads and wait tokens."""

from cvs.client.opening import open_views
from cvs.client.snapshot import Snapshot, Token, ViewReader
from cvs.store.session import ClusterAddress

__all__ = ["ClusterAddress", "Snapshot", "Token", "ViewReader", "open_views"]
