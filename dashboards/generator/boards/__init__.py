"""The four boards, in the order in which they are read."""
from . import backend, contention, leases, overview

ALL = [overview.BOARD, contention.BOARD, leases.BOARD, backend.BOARD]
