#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER: the crates of this workspace get the faults, their dependencies stay as they are
# built already. (RUSTFLAGS would build all of them again.)
exec "$@" --cfg leasehold_fault
