"""Numbers that lie together: the events of a turn, the pages of a snapshot."""

from __future__ import annotations

from typing import Final

from turnlog.errors import StoreError

PLACE_BITS: Final = 20
"""Places in a cluster, as a power of two: more than a turn may have events."""


def place_id(cluster: int, place: int) -> int:
    """The id of a place in a cluster. Raises `StoreError` when the cluster has no such place."""
    if place >> PLACE_BITS:
        raise StoreError(detail=f"a turn has more than {1 << PLACE_BITS} events, or a snapshot as many pages")
    return cluster << PLACE_BITS | place


def cluster_ids(cluster: int) -> tuple[int, int]:
    """The first and the last id of a cluster."""
    return cluster << PLACE_BITS, (cluster + 1 << PLACE_BITS) - 1
